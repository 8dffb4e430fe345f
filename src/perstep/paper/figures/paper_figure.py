"""A figure of the paper or a companion of one: its name, its caption, the settings it shows, and the function that draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.figure import Figure

from perstep.studies.results import Results

Shown = Literal["tuned", "traced", "grid"]
"""Which configurations of a study a figure shows: the paper's best, the one with recorded quantiles, or all."""


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """A figure that is drawn from the results of one part of the paper."""

    name: str
    """The file name without suffix, for example "figure_c2"."""
    caption: tuple[str, ...]
    """Paragraphs: what the figure shows, and what the paper claims of it."""
    draw: Callable[[Results], Figure]
    """Draws the figure from result files. Raises MissingRuns if results that it needs are missing."""
    shows: Mapping[str, Shown] = field(default_factory=dict)
    """Algorithm → the configurations that the figure shows; empty if it shows no learning."""


def by_name(*figures: PaperFigure) -> dict[str, PaperFigure]:
    """Name → figure, in the given order."""
    return {figure.name: figure for figure in figures}
