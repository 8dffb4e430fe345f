"""Which of the counted rewards tell how the agent behaves now: those since the policy last changed, as far as one can see.

The last half of the steps is asked first. As long as its two halves differ, in the mean reward or in the mean of the worst tenth,
by more than chance explains, the older half is left out: a window as long as nothing changed in it, as in ADWIN (Bifet & Gavaldà
2007), with the rank-sum test (Wilcoxon 1945) on the blocks, since rare large losses ruin tests of means. What changes without being
seen is in the standard errors (distributions/distribution.py).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.distribution import Batches, Distribution
from perstep.distributions.sketch import FILLED, Sketch, atoms

Floats = NDArray[np.float64]

FEWEST_BLOCKS = 8  # four in each half, below which the halves are not compared
CHANCE = 0.05  # of taking halves of one policy for those of two, in each comparison
WORST = 0.1  # the share of the worst steps
DIGITS = 9  # to which means of blocks are compared, relative to the largest: sums are rounded


def recent_distribution(sketch: Sketch) -> Distribution | None:
    """The distribution of the rewards since the policy last changed; None if no rewards were counted."""
    values, counts, blocks = atoms(sketch)
    if not counts.size:
        return None
    full = int(sketch.cursor[FILLED])
    begin = full // 2
    while full - begin >= FEWEST_BLOCKS:
        asked = (begin <= blocks) & (blocks < full)
        if not has_changed(Batches(values[asked], counts[asked], blocks[asked] - begin)):
            break
        begin += (full - begin) // 2
    kept = blocks >= begin
    found = Batches(values[kept], counts[kept], blocks[kept] - begin)
    return Distribution.from_batches(found, source=f"counted over the last {int(found.counts.sum()):,} steps")


def has_changed(batches: Batches) -> bool:
    """Whether the later half of the batches has another mean, or another mean of the worst tenth, than the earlier half."""
    ordered = np.argsort(batches.values)
    reached = np.cumsum(batches.counts[ordered])
    threshold = batches.values[ordered][np.searchsorted(reached, WORST * reached[-1])]
    shortfalls = np.maximum(threshold - batches.values, 0.0)
    chance = min(chance_of_equal_halves(batches.means(each)) for each in (batches.values, shortfalls))
    return chance < CHANCE / 2.0  # two questions (Bonferroni)


def chance_of_equal_halves(series: Floats) -> float:
    """The p value of the rank-sum test: two halves of independent numbers from one distribution. With the variance of ranks that
    may be tied, and the normal distribution."""
    from scipy.special import ndtr

    _, ranks, ties = np.unique(
        np.round(series / max(float(np.abs(series).max()), 1e-300), DIGITS), return_inverse=True, return_counts=True
    )
    middle = (np.cumsum(ties) - 0.5 * (ties - 1.0))[ranks] - 0.5 * (series.size + 1.0)  # 0 on average
    half = series.size // 2
    squares = float(middle @ middle)
    if not squares:
        return 1.0
    variance = half * (series.size - half) / (series.size * (series.size - 1.0)) * squares
    return 2.0 * float(ndtr(-abs(float(middle[:half].sum())) / math.sqrt(variance)))
