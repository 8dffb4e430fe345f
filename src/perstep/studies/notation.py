"""How the paper writes things: the letter and the table row of each setting, the label of each algorithm, and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perstep.studies.study import Study

LABELS = {"differential": "Differential", "d2": "D2", "d3": "D3"}

LETTERS = {
    "step_size": "α",
    "reward_ratio": "η",
    "policy_ratio": "η_π",
    "num_quantiles": "m",
    "target_step_size": "α_target",
    "batch_size": "batch",
    "huber": "λ",
}
"""Setting → the paper's letter for it."""

ROWS = {
    "step_size": {"d3": "Differential Return Quantile Step Size", "": "Value Function Step Size"},
    "reward_ratio": {"differential": "Average-Reward η", "": "Per-Step Reward Quantile η"},
    "policy_ratio": {"": "Policy η"},
    "num_quantiles": {"": "Number of Quantiles"},
}
"""Setting → rule → the name of its row in Tables C.1 to C.3; "" for the other rules."""


def label(study: Study) -> str:
    """The rule of the study's algorithm as the paper writes it, for example "D2"."""
    return LABELS[study.rule]


def letter(name: str) -> str:
    """The paper's letter for a setting; the name itself if the paper has none."""
    return LETTERS.get(name, name)


def symbols(setting: Mapping[str, Any]) -> str:
    """A configuration in the paper's letters, for example "α = 0.002, η = 2, m = 51"."""
    return ", ".join(
        f"{letter(name)} = {f'{value:g}' if isinstance(value, int | float) else value}"
        for name, value in setting.items()
    )


def mathtext(text: str) -> str:
    """The same text for Matplotlib, with the subscript of η_π typeset."""
    return text.replace("η_π", "$η_π$")


def row_name(name: str, study: Study) -> str:
    """The name of a setting's row in the paper's tables of tuned settings."""
    return ROWS[name].get(study.rule, ROWS[name][""])


def printed(value: float) -> str:
    """A number as the paper prints it: 2e-5, 1e-2, 1.0, 100.0; counts as 10."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.0e}".replace("e-0", "e-") if value < 1 else f"{value:.1f}"


def world_name(study: Study) -> str:
    """For example "Breakout" for "ALE/Breakout-v5" and "MinAtar-Breakout" for "perstep/MinAtar-Breakout-v0"."""
    return study.world.partition("/")[2].rpartition("-v")[0]
