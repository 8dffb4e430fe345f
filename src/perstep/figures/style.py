"""The look of every figure: one size of type, one set of colours that colour-blind readers can tell apart, two files each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from perstep.storage import published

# Okabe and Ito's palette, and a different dash for each rule, so that a figure also works in grey.
BLUE, ORANGE, GREEN, BLACK, GREY = "#0072B2", "#D55E00", "#009E73", "#000000", "#8C8C8C"
RULE_LINES = {"differential": (GREY, (0, (5, 1.5))), "d2": (BLUE, "-"), "d3": (ORANGE, (0, (1, 1)))}
"""Rule → colour and dash."""
RULE_NAMES = {"differential": "Differential", "d2": "D2", "d3": "D3"}
SEQUENCE = "cividis"
"""Colour map for ordered things: even in lightness, and the same to readers who do not see red and green apart."""

WIDTH = 6.75
"""Inches across a text column."""
PIXELS_PER_INCH = 200

LOOK = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.formatter.use_mathtext": True,
    "lines.linewidth": 1.3,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "pdf.fonttype": 42,  # letters as letters, so that text in the PDF can be searched
}


@contextlib.contextmanager
def look() -> Iterator[None]:
    """Figures made inside have the common look; nothing outside changes."""
    with matplotlib.rc_context(LOOK):
        yield


def panels(count: int = 1, height: float = 2.4, width: float = WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in a row; call it inside `look()`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def steps_axis(axes: Axes, last: int) -> None:
    """Time from left to right, as 20k and not 20000."""
    axes.set(xlim=(0, last), xlabel="step")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def letter(axes: Axes, which: str, title: str) -> None:
    """A panel's title, with the letter that the text calls it by."""
    axes.set_title(f"{which}) {title}", loc="left")


def save(figure: Figure, path: str | os.PathLike[str]) -> list[Path]:
    """Publish `path`.png and `path`.pdf, without the date of their making: the same results give the same files."""
    written = []
    for suffix, metadata in ((".png", {"Software": None}), (".pdf", {"CreationDate": None})):
        target = Path(f"{os.fspath(path)}{suffix}")
        with published(target) as draft, matplotlib.rc_context(LOOK):
            figure.savefig(draft, format=suffix[1:], dpi=PIXELS_PER_INCH, metadata=metadata)
        written.append(target)
    return written
