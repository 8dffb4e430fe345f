"""Plots without pyplot: the common style, and figures with panels, also for results that plot themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 7.0  # inches, a page without margins

LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.3,
    "savefig.dpi": 200,
    "svg.hashsalt": "perstep",  # makes the ids inside an SVG file reproducible
}


@contextlib.contextmanager
def look() -> Iterator[None]:
    """A context in which figures have the common style. Nothing outside changes."""
    with matplotlib.rc_context(LOOK):
        yield


def panels(
    count: int = 1,
    height: float = 3.0,
    width: float = WIDTH,
    *,
    ratios: Sequence[float] | None = None,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in a row, with widths in these `ratios`. Without pyplot: no window, no global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, width_ratios=ratios, sharey=sharey)[0])


@contextlib.contextmanager
def drawn(ax: Axes | None) -> Iterator[tuple[Figure, Axes]]:
    """The axes to draw into, `ax` or those of a new figure, in the common style; and their figure."""
    with look():
        figure, (axes,) = panels() if ax is None else (ax.get_figure(root=True), [ax])
        assert figure is not None, "axes belong to a figure"
        yield figure, axes


def legend_below(axes: Axes) -> None:
    """A legend under the axes, where it covers nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, columnspacing=1.5)
