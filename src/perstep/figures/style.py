"""The look of every figure: one size of type, colours that colour-blind readers can tell apart, files that are the same again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from perstep.progress import si
from perstep.quantiles import levels
from perstep.storage import published

# Okabe and Ito (2008): told apart with any colour vision, and in grey by lightness.
BLUE, ORANGE, GREEN, BLACK, GREY = "#0072B2", "#D55E00", "#009E73", "#000000", "#777777"
SEQUENCE = "cividis"
"""Colour map for what has an order: even in lightness, and the same to readers who do not tell red from green."""

RULE_LINES: dict[str, dict[str, Any]] = {
    "differential": {"color": GREY, "linestyle": (0, (4, 1.5))},
    "d2": {"color": BLUE, "linestyle": "-"},
    "d3": {"color": ORANGE, "linestyle": (0, (1, 0.8))},
}
"""Rule → how its line looks."""

WIDTH = 7.0  # inches, a page without its margins
UNDATED: Any = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""Suffix → what to leave out of a file."""

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
    "svg.hashsalt": "perstep",  # names inside a file that are the same every time
}


@contextlib.contextmanager
def look() -> Iterator[None]:
    """Figures made and saved inside have the common look; nothing outside changes."""
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
    """A figure with `count` panels in a row, their widths in these `ratios`. Without pyplot: no window, no shared state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, width_ratios=ratios, sharey=sharey)[0])


def level_colours(count: int) -> NDArray[np.float64]:
    """From dark for the lowest quantile to light for the highest, without the palest end, lost on white paper. (m, 4)"""
    return np.asarray(matplotlib.colormaps[SEQUENCE](0.92 * levels(count)))


def steps_axis(axes: Axes, last: int) -> None:
    """Time from left to right, as 20k and not 20000."""
    axes.set(xlim=(0, last), xlabel="steps")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: si(step) if step else "0"))


def save(figure: Figure, path: str | os.PathLike[str], *suffixes: str) -> list[Path]:
    """Publish `path`.png and `path`.pdf, or with other suffixes, undated: the same results give the same files."""
    written = []
    for suffix in suffixes or ("png", "pdf"):
        target = Path(f"{os.fspath(path)}.{suffix}")
        with published(target) as draft:
            figure.savefig(draft, format=suffix, metadata=UNDATED[suffix])
        written.append(target)
    return written
