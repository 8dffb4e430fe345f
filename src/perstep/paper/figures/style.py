"""The common style of all figures: font sizes, colours that are distinct for colour-blind readers, and reproducible files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from perstep.display.colours import BLACK as BLACK
from perstep.display.colours import BLUE as BLUE
from perstep.display.colours import GREEN as GREEN
from perstep.display.colours import GREY as GREY
from perstep.display.colours import ORANGE as ORANGE
from perstep.display.drawing import WIDTH as WIDTH
from perstep.display.drawing import look as look
from perstep.display.drawing import panels as panels
from perstep.display.progress import si
from perstep.files.storage import published
from perstep.numerics.quantiles import levels

SEQUENCE = "cividis"
"""Colour map for ordered values: even in lightness, and the same for readers who cannot tell red from green."""

UNDATED: Any = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""Suffix → metadata to leave out of a file."""


def level_colours(count: int) -> NDArray[np.float64]:
    """Colours from dark for the lowest quantile to light for the highest, without the palest end of the map. (m, 4)"""
    return np.asarray(matplotlib.colormaps[SEQUENCE](0.92 * levels(count)))


def steps_axis(axes: Axes, last: int) -> None:
    """An axis of steps, with labels such as 20k instead of 20000."""
    axes.set(xlim=(0, last), xlabel="steps")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: si(step) if step else "0"))


def save(figure: Figure, path: str | os.PathLike[str], *suffixes: str) -> list[Path]:
    """Publish `path`.png and `path`.pdf, or other suffixes, without dates: the same results give the same files."""
    written = []
    for suffix in suffixes or ("png", "pdf"):
        target = Path(f"{os.fspath(path)}.{suffix}")
        with published(target) as draft:
            figure.savefig(draft, format=suffix, metadata=UNDATED[suffix])
        written.append(target)
    return written
