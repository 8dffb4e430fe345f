"""How the paper writes things: the letter and the table row of each setting, the label of each algorithm, and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from perstep.studies.study import Study


class SettingNotation(NamedTuple):
    """How the paper writes a setting."""

    letter: str
    row: str = ""
    """The name of its row in Tables C.1 to C.3, unless the rule has another one; empty if it is not in them."""


SETTINGS = {
    "step_size": SettingNotation("α", "Value Function Step Size"),
    "reward_ratio": SettingNotation("η", "Average-Reward η"),
    "policy_ratio": SettingNotation("η_π", "Policy η"),
    "num_quantiles": SettingNotation("m", "Number of Quantiles"),
    "target_step_size": SettingNotation("α_target"),
    "batch_size": SettingNotation("batch"),
    "huber": SettingNotation("λ"),
}


def label(study: Study) -> str:
    """The rule of the study's algorithm as the paper writes it, for example "D2"."""
    return study.rule.label


def letter(name: str) -> str:
    """The paper's letter for a setting; the name itself if the paper has none."""
    return SETTINGS[name].letter if name in SETTINGS else name


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
    return study.rule.setting_labels.get(name, SETTINGS[name].row)


def printed(value: float) -> str:
    """A number as the paper prints it: 2e-5, 1e-2, 1.0, 100.0; counts as 10."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.0e}".replace("e-0", "e-") if value < 1 else f"{value:.1f}"


def world_name(study: Study) -> str:
    """For example "Breakout" for "ALE/Breakout-v5" and "MinAtar-Breakout" for "perstep/MinAtar-Breakout-v0"."""
    return study.world.partition("/")[2].rpartition("-v")[0]
