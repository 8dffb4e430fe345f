"""Statistics over runs: mean ± 1.96 standard errors as in the paper's figures, and methods for few runs.

The interquartile mean, the stratified bootstrap and the probability of improvement are those of Agarwal et al. (2021), "Deep
reinforcement learning at the edge of the statistical precipice". Scores have one row per run and one column per task; an array of
shape (runs,) is one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]
"""A function of one or more arrays of scores (…, runs, tasks) that returns numbers (…)."""

NORMAL_95 = 1.96  # a normal variable is within this many standard deviations of its mean with probability 95 %
BLOCK = 1 << 20  # maximum number of resampled scores in memory


def rolling_mean(values: ArrayLike, size: int) -> Floats:
    """The mean of every `size` consecutive values along the last axis, (…, T) → (…, T − size + 1)."""
    array = np.asarray(values, dtype=np.float64)
    if not 1 <= size <= array.shape[-1]:
        raise ValueError(
            f"The size of a rolling mean must be from 1 to the number of values, {array.shape[-1]}, got {size}."
        )
    sums = np.cumsum(array, axis=-1)
    sums[..., size:] -= sums[..., :-size].copy()
    return sums[..., size - 1 :] / size


def coarser(values: ArrayLike, points: int) -> Floats:
    """The means of `points` parts of the last axis, equal up to one value, (…, T) → (…, points). Fewer values stay as they are."""
    array = np.asarray(values, dtype=np.float64)
    length = array.shape[-1]
    if length <= points:
        return array
    starts = np.arange(points) * length // points
    return np.asarray(np.add.reduceat(array, starts, axis=-1) / np.diff(starts, append=length))


def mean_and_error(runs: ArrayLike) -> tuple[Floats, Floats]:
    """The mean over runs, the first axis, and half the width of its 95 % interval, which is NaN for a single run."""
    array = np.asarray(runs, dtype=np.float64)
    count = array.shape[0]
    spread = array.std(axis=0, ddof=1) if count > 1 else np.full(array.shape[1:], np.nan)
    return array.mean(axis=0), NORMAL_95 * spread / np.sqrt(count)


def rolling_mean_of_known(values: ArrayLike, size: int) -> Floats:
    """Like `rolling_mean`, ignoring NaN; NaN if all `size` values are NaN."""
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array)
    sums, counts = rolling_mean(np.where(known, array, 0.0), size), rolling_mean(known, size)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0.5 / size))


@dataclass(frozen=True)
class Estimate:
    """A number and its confidence interval."""

    value: float
    low: float
    high: float


def mean_difference(ours: ArrayLike, theirs: ArrayLike, level: float = 0.95) -> Estimate:
    """How much higher the mean of our runs is, with Welch's interval, which allows few runs and unequal variances. (runs,)"""
    from scipy.stats import t

    x, y = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if min(x.size, y.size) < 2:
        raise ValueError(f"An interval needs at least two runs of each, got {x.size} and {y.size}.")
    value = float(x.mean() - y.mean())
    squares = np.array([x.var(ddof=1) / x.size, y.var(ddof=1) / y.size])
    if not squares.any():  # all runs are equal
        return Estimate(value, value, value)
    freedom = squares.sum() ** 2 / (squares**2 / [x.size - 1, y.size - 1]).sum()
    half = float(t.ppf((1 + level) / 2, freedom) * np.sqrt(squares.sum()))
    return Estimate(value, value - half, value + half)


@dataclass(frozen=True)
class Distance:
    """The distance of two curves, averaged over time."""

    value: float
    by_chance: float
    """The expected distance if the curves differed by noise only."""


def curve_distance(differences: ArrayLike) -> Distance:
    """The distance of two mean curves of paired runs, from the differences of the pairs (runs, T)."""
    mean, error = mean_and_error(differences)
    luck = np.sqrt(2 / np.pi) * error / NORMAL_95  # the mean of |x| for a normal x with this standard deviation
    return Distance(float(np.abs(mean).mean()), float(luck.mean()))


def interquartile_mean(scores: ArrayLike) -> Any:
    """The mean of the middle half of all scores, (…, runs, tasks) → (…): less variance than the median, robust to outliers."""
    array = _scores(scores)
    ordered = np.sort(array.reshape(*array.shape[:-2], -1), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> Any:
    """The probability that a run of ours beats a run of theirs on the same task, ties counting half; mean over tasks. (…)"""
    x, y = _scores(ours), _scores(theirs)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"Both arrays need the same tasks, one column each, got {x.shape[-1]} and {y.shape[-1]} columns."
        )
    signs = np.sign(x[..., :, None, :] - y[..., None, :, :])  # (…, runs, runs, tasks)
    return 0.5 + 0.5 * signs.mean(axis=(-3, -2, -1))


def bootstrap(
    statistic: Statistic, *scores: ArrayLike, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> Estimate:
    """A statistic with its percentile bootstrap interval. Runs are resampled within each task and within each array of scores.

    The same scores and the same seed give the same interval.
    """
    if resamples < 1 or not 0 < level < 1:
        raise ValueError(
            f"An interval needs at least one resample and a level between 0 and 1, got {resamples} and {level}."
        )
    arrays = [_scores(each) for each in scores]
    drawn = [statistic(*sample) for sample in _resampled(arrays, resamples, np.random.default_rng(seed))]
    low, high = np.quantile(np.concatenate(drawn), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(*arrays)), float(low), float(high))


@dataclass(frozen=True)
class Spread:
    """The scores that one value of one setting reaches, over all values of the other settings."""

    value: float
    best: float
    median: float
    worst: float


def sensitivity(rows: Sequence[tuple[Mapping[str, Any], float]], name: str) -> list[Spread]:
    """For every value of a setting, in ascending order: the best, median and worst score over the rest of the grid."""
    if not all(name in setting for setting, _ in rows):
        raise ValueError(f"All configurations need the setting {name!r}, but at least one does not have it.")
    values = sorted({setting[name] for setting, _ in rows})
    groups = [[score for setting, score in rows if setting[name] == value] for value in values]
    return [
        Spread(value, max(group), float(np.median(group)), min(group))
        for value, group in zip(values, groups, strict=True)
    ]


def _scores(scores: ArrayLike) -> Floats:
    """The scores as an array (…, runs, tasks)."""
    array = np.asarray(scores, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"Scores need one row per run and one column per task, got an array of shape {array.shape}.")
    return array


def _resampled(arrays: Sequence[Floats], resamples: int, generator: np.random.Generator) -> Iterator[list[Floats]]:
    """For each array, blocks of (resamples, runs, tasks). Runs are drawn independently for every task."""
    generators = generator.spawn(len(arrays))  # one per array, so that the result does not depend on the block size
    block = max(1, BLOCK // max(array.size for array in arrays))
    for begin in range(0, resamples, block):
        size = min(block, resamples - begin)
        yield [
            np.take_along_axis(array[None], each.integers(len(array), size=(size, *array.shape)), axis=1)
            for array, each in zip(arrays, generators, strict=True)
        ]
