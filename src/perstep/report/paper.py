"""What the page knows of the paper itself: its parts, their claims before anything has run, and the setting of each figure."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perstep.studies.catalog import STUDIES, Study
from perstep.studies.tables import ATARI_TABLES, MINATAR_TABLES, Table

SCALES = ("paper", "small", "smoke")
"""The fullest first."""

LETTERS = {
    "step_size": "α",
    "reward_ratio": "η",
    "policy_ratio": "η_π",
    "num_quantiles": "m",
    "target_step_size": "α_target",
    "batch_size": "batch",
    "huber": "λ",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the paper that `perstep reproduce` can be asked for."""

    title: str
    about: str
    claims: tuple[tuple[str, str], ...]
    """Where and what the paper says: shown as not run where no results are."""
    shows: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Figure → the algorithms in it, each with the setting it is drawn with: "tuned", "traced" or "grid"."""
    drawn_by: str = ""
    """The module of its figures, where that has not the name of the part."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Title → the table."""


def _all(which: str, learner: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{rule}-{learner}", which) for rule in ("differential", "d2", "d3"))


PARTS: dict[str, Part] = {
    "redpill": Part(
        title="Red-pill blue-pill",
        about="Two worlds, red and blue; each pill leads to its world. The blue one pays more on average, in two very different "
        "halves (App. C.1). Every answer is known exactly.",
        claims=(
            ("Fig. 2c", "D2's reward quantiles converge to those of the optimal policy"),
            ("Fig. C.3", "D3's reward quantiles converge to those of the optimal policy"),
            ("Fig. C.4", "D3's return quantiles of (blue world, blue pill) converge"),
            ("Fig. 3", "D2 and D3 are competitive with Differential Q-learning"),
            ("App. C.1", "the paper's settings are the best of their grids"),
        ),
        shows={
            "figure_2": (("d2-q", "traced"),),
            "figure_3": _all("tuned", "q"),
            "figure_c2": (("differential-q", "grid"),),
            "figure_c2_d2": (("d2-q", "grid"),),
            "figure_c2_d3": (("d3-q", "grid"),),
            "figure_c3": (("d3-q", "traced"),),
            "figure_c4": (("d3-q", "traced"),),
        },
    ),
    "pendulum": Part(
        title="Inverted pendulum",
        about="Hold a rod upright, for ever: actor-critics on tiles (App. C.1). The best policy earns about 0 at every step.",
        claims=(
            ("Fig. C.5", "D2's reward quantiles converge to about 0, those of a balanced pendulum"),
            ("Fig. C.6", "D3's reward quantiles converge to about 0"),
            ("Fig. C.7", "D2 and D3 are competitive with Differential Actor-Critic"),
            ("App. C.1", "the paper's settings are the best of their grids"),
        ),
        shows={
            "figure_c5": (("d2-actor-critic", "tuned"),),
            "figure_c6": (("d3-actor-critic", "tuned"),),
            "figure_c7": _all("tuned", "actor-critic"),
            "figure_sensitivity": _all("grid", "actor-critic"),
            "figure_settings": _all("grid", "actor-critic"),
        },
    ),
    "theory": Part(
        title="Theory, measured",
        about="The theorems of the appendix as measurements on small worlds whose answers are exact, and the known limits of the "
        "printed algorithms.",
        claims=(
            ("Lemma 4.2", "the mean of the quantiles goes to the average reward as their number grows"),
            ("App. B", "the reward quantiles converge with decaying step sizes"),
            ("App. B", "the values of D2 converge under two timescales"),
            ("Theorem 4.4", "as Q converges, the average reward of the greedy policy goes to the best there is"),
        ),
    ),
    "minatar": Part(
        title="MinAtar",
        about="Small versions of Atari games, for the algorithms with networks and replay: Fig. 4 for two cores and some "
        "hours. The paper says nothing of them.",
        claims=(
            ("Fig. 4", "D2 and D3 outperform the non-distributional baseline, here on MinAtar"),
            ("Fig. 4", "D3 outperforms D2, here on MinAtar"),
        ),
        shows={"figure_4": _all("tuned", "deep-q"), "figure_late_returns": _all("tuned", "deep-q")},
        drawn_by="games",
        tables=MINATAR_TABLES,
    ),
    "minatar-tuning": Part(
        title="MinAtar, tuning",
        about="Short runs over a part of the paper's grid for Atari, of another seed, from which the settings in MinAtar were "
        "chosen.",
        claims=(),
    ),
    "atari": Part(
        title="Atari",
        about="Breakout, BeamRider and Freeway (Sec. 5, App. C.2), on a cluster from the same catalogue; --tuned-only leaves "
        "out all of the grid but the settings of Tables C.1 to C.3.",
        claims=(
            ("Fig. 4", "D2 and D3 consistently outperform the non-distributional baseline on Atari"),
            ("Fig. 4", "D3 performs better than D2 on Atari"),
        ),
        shows={"figure_4": _all("tuned", "deep-q"), "figure_late_returns": _all("tuned", "deep-q")},
        drawn_by="games",
        tables=ATARI_TABLES,
    ),
    "atari-short": Part(
        title="Atari, short",
        about="Breakout with the paper's settings, one run of each algorithm, as far as a machine without a GPU comes in "
        "hours: whether they learn is to be seen, and not which is better.",
        claims=(),
        shows={"figure_4": _all("tuned", "deep-q")},
        drawn_by="games",
    ),
}  # fmt: skip


def command(part: str, scale: str, out: Path, recorded: str = "") -> str:
    """What to type for the results of a part, or of the part that it is a piece of; as much of the grid as the command recorded."""
    words = ["perstep", "reproduce", part.partition("/")[0], "--scale", scale, "--out", str(out)]
    return shlex.join([*words, *(word for word in recorded.split() if word == "--tuned-only")])


def title(part: str) -> str:
    """A part's heading, as "Atari, Breakout" for a piece of one; the name of its folder if it is not of the paper."""
    of, _, piece = part.partition("/")
    return ", ".join(filter(None, (PARTS[of].title, piece))) if of in PARTS else part


def figure_title(name: str) -> str:
    """As in "Figure C.2, D3" for figure_c2_d3; a figure that the paper does not have is called by its name."""
    found = re.fullmatch(r"figure_(c?)(\d+)(?:_(\w+))?", name)
    if not found:
        words = name.removeprefix("figure_").replace("_", " ")
        return words[:1].upper() + words[1:]
    appendix, number, variant = found.groups()
    of = f", {variant.replace('_', ' ').upper()}" if variant else ""
    return f"Figure\N{NO-BREAK SPACE}{'C.' if appendix else ''}{number}{of}"


def captions(part: str) -> dict[str, list[str]]:
    """Figure → paragraphs of what its function says it shows and what the paper claims of it, in the order of the paper."""
    try:
        module = importlib.import_module(f"perstep.figures.{PARTS[part].drawn_by or part}") if part in PARTS else None
    except ModuleNotFoundError:  # a part without figures of its own
        module = None
    figures: Mapping[str, Callable[..., Any]] = getattr(module, "FIGURES", {})
    return {
        name: [" ".join(text.split()) for text in (inspect.getdoc(draw) or "").split("\n\n") if text]
        for name, draw in figures.items()
    }


def symbols(setting: Mapping[str, object]) -> str:
    """A setting in the paper's letters, as in "α = 0.002, η = 2, m = 51"."""
    return ", ".join(
        f"{LETTERS.get(name, name)} = {f'{value:g}' if isinstance(value, int | float) else value}"
        for name, value in setting.items()
    )


def belongs(part: str, to: str) -> bool:
    """Whether a folder's part is this part of the paper or a piece of it, as atari/Breakout is of atari."""
    return part == to or part.startswith(f"{to}/")


def studies(part: str) -> list[Study]:
    """The paper's studies in a part and its pieces, in its order."""
    return [study for study in STUDIES.values() if belongs(study.part, part)]


def setting_of(part: str, figure: str) -> list[str]:
    """The settings that a figure is drawn with, one line an algorithm."""
    lines = []
    shown = dict(PARTS[part].shows.get(figure, ())) if part in PARTS else {}
    for study in studies(part):
        which = shown.get(study.algorithm)
        setting = {"tuned": study.tuned, "traced": study.traced}.get(which or "")
        if which == "grid":
            lines.append(f"{study.key}: all {len(study.settings)} settings of the grid")
        elif setting:
            lines.append(f"{study.key}: {symbols(setting)}")
    return lines


def tables(part: str) -> Mapping[str, Table]:
    """Title → the table, of those that a part has."""
    return PARTS[part].tables if part in PARTS else {}
