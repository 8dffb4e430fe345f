"""What the next steps will earn: the distribution of the sum of the next rewards, exact or learned, with its quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final, overload

import numpy as np

from perstep.display.colours import BLUE, ORANGE
from perstep.distributions.distribution import Distribution, Floats
from perstep.numerics.schedules import is_finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """The distribution of the sum of the next rewards: a normal distribution, or that of simulated sums if there are some.

    The sum of many rewards is close to normal. That of few rewards may be skewed or have few values: samples then show it.
    """

    num_steps: int
    """H, the number of steps."""
    mean: float
    """The mean of the sum."""
    variance: float
    """The variance of the sum around its true mean."""
    mean_error: float = 0.0
    """The standard error of `mean` itself; 0 if it is exact."""
    samples: Floats | None = None
    """Sums of simulated paths, or None. (N,)"""

    @property
    def std(self) -> float:
        """The standard deviation of the sum around `mean`, with the error of the mean included."""
        return math.hypot(math.sqrt(self.variance), self.mean_error)

    @cached_property
    def distribution(self) -> Distribution:
        """The sum as a `Distribution`: normal, or that of the samples; with the error of the mean included."""
        if self.samples is None:
            return Distribution([1.0], [self.mean], [self.std])
        values, counts = np.unique(self.samples, return_counts=True)
        return Distribution(counts / counts.sum(), values, self.mean_error)

    @overload
    def quantile(self, p: float) -> float: ...
    @overload
    def quantile(self, p: Sequence[float] | Floats) -> Floats: ...
    def quantile(self, p: float | Sequence[float] | Floats) -> float | Floats:
        """The sum is at most this with probability p, for p in [0, 1]."""
        return self.distribution.quantile(p)

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: Sequence[float] | Floats) -> Floats: ...
    def cdf(self, x: float | Sequence[float] | Floats) -> float | Floats:
        """The probability that the sum is at most x."""
        return self.distribution.cdf(x)

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """The band (low, high) that holds the sum with probability `level`, with equal probabilities below and above it; of
        sums with few values, as nearly as these allow."""
        if not (is_finite(level) and 0.0 < level < 1.0):
            raise ValueError(f"level must be a probability above 0 and below 1, such as 0.9, got {level!r}.")
        if self.samples is not None and not self.mean_error:
            return fair_band(self.samples, level)
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def plot(self, ax: Axes | None = None, *, level: float = 0.9) -> Figure:
        """The density of the sum with its band, as a matplotlib figure; drawn into `ax` if given."""
        from perstep.display.drawing import drawn, legend_below

        low, high = self.interval(level)
        if low == high and not self.std:
            return self._plot_certain(ax, level)
        density, edges = self.distribution.histogram(60 if self.samples is not None else 400)
        inside = (edges[:-1] < high) & (edges[1:] > low)
        with drawn(ax) as (figure, axes):
            axes.stairs(density, edges, color=BLUE)
            axes.fill_between(
                np.clip(np.repeat(edges, 2)[1:-1], low, high),
                np.repeat(np.where(inside, density, 0.0), 2),
                color=BLUE,
                alpha=0.25,
                lw=0,
                label=f"{100 * level:g} %",
            )
            axes.axvline(self.mean, color=ORANGE, label="mean")
            axes.set(
                title=self._sentence(level), xlabel=f"sum of the next {self.num_steps:,} rewards", ylabel="density"
            )
            axes.set_ylim(bottom=0.0)
            legend_below(axes)
        return figure

    def _plot_certain(self, ax: Axes | None, level: float) -> Figure:
        """A sum without spread has no density: one line, with its chance of 1."""
        from perstep.display.drawing import drawn

        with drawn(ax) as (figure, axes):
            axes.vlines([self.mean], 0.0, 1.0, color=BLUE, lw=3.0)
            axes.plot([self.mean], [1.0], "o", color=BLUE)
            axes.set(title=self._sentence(level), xlabel=f"sum of the next {self.num_steps:,} rewards", ylabel="chance")
            axes.set_ylim(0.0, 1.1)
        return figure

    def __str__(self) -> str:
        return self._sentence(0.9)

    def __repr__(self) -> str:
        paths = "" if self.samples is None else f", {self.samples.size:,} paths"
        return f"Forecast({self}; mean {self.mean:.6g}, std {self.std:.4g}{paths})"

    def _sentence(self, level: float) -> str:
        low, high = self.interval(level)
        steps = "next step earns" if self.num_steps == 1 else f"next {self.num_steps:,} steps earn"
        if low == high:
            return f"the {steps} {low + 0.0:,.6g}, without any spread"
        # Two digits of the width are shown: more would suggest a precision that the band does not have.
        decimals = max(0, 1 - math.floor(math.log10(high - low)))
        return f"the {steps} {_rounded(low, decimals)} to {_rounded(high, decimals)} with {100 * level:g} %"


def fair_band(samples: Floats, level: float) -> tuple[float, float]:
    """The ends of a band that holds this share of the samples as nearly as their values allow, with tails that are as equal.

    Sums of few rewards have few values, and a band from quantile to quantile holds both of its ends: too much. Here one end leaves
    out as nearly as possible half of the rest, and the other makes up for what it misses.
    """
    values, counts = np.unique(samples, return_counts=True)
    above = np.cumsum(counts) / samples.size  # the share at or below a value
    below = np.append(0.0, above[:-1])
    tail = 0.5 - 0.5 * level
    low, high = int(np.abs(below - tail).argmin()), int(np.abs(above - (1.0 - tail)).argmin())
    pairs = (
        (low, int(np.abs(above - below[low] - level).argmin())),
        (int(np.abs(above[high] - below - level).argmin()), high),
    )
    low, high = min(pairs, key=lambda pair: abs(above[pair[1]] - below[pair[0]] - level))
    return float(values[low]), float(values[max(low, high)])


def _rounded(number: float, decimals: int) -> str:
    """The number with thousands separated; never "-0"."""
    return f"{round(number, decimals) + 0.0:,.{decimals}f}"
