"""How runs become lines and intervals: mean ± 1.96 standard errors as in the paper's figures, and what few runs need.

The interquartile mean, the stratified bootstrap and the probability of improvement are those of Agarwal et al. (2021), "Deep
reinforcement learning at the edge of the statistical precipice". Scores have a row a run and a column a task; (runs,) is one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]
"""From scores (…, runs, tasks), one such array or more, to numbers (…)."""
Name = TypeVar("Name", bound=Mapping[str, Any])

NORMAL_95 = 1.96  # standard errors to either side of a mean that hold 95 % of a normal
BLOCK = 1 << 20  # resampled scores held at once


def rolling_mean(values: ArrayLike, size: int) -> Floats:
    """The mean of each `size` neighbours along the last axis, (…, T) → (…, T − size + 1)."""
    array = np.asarray(values, dtype=np.float64)
    if not 1 <= size <= array.shape[-1]:
        raise ValueError(
            f"A rolling mean of {array.shape[-1]} values is over 1 to {array.shape[-1]} of them, not over {size}."
        )
    sums = np.cumsum(array, axis=-1)
    sums[..., size:] -= sums[..., :-size].copy()
    return sums[..., size - 1 :] / size


def coarser(values: ArrayLike, points: int) -> Floats:
    """The means of `points` equal parts (to a value) of the last axis, (…, T) → (…, points); fewer values stay as they are."""
    array = np.asarray(values, dtype=np.float64)
    length = array.shape[-1]
    if length <= points:
        return array
    starts = np.arange(points) * length // points
    return np.asarray(np.add.reduceat(array, starts, axis=-1) / np.diff(starts, append=length))


def mean_and_error(runs: ArrayLike) -> tuple[Floats, Floats]:
    """Mean over runs, the first axis, and half the width of its 95 % interval; NaN where one run cannot tell."""
    array = np.asarray(runs, dtype=np.float64)
    count = array.shape[0]
    spread = array.std(axis=0, ddof=1) if count > 1 else np.full(array.shape[1:], np.nan)
    return array.mean(axis=0), NORMAL_95 * spread / np.sqrt(count)


def rolling_mean_of_known(values: ArrayLike, size: int) -> Floats:
    """The same of the values that are numbers; NaN where none of the neighbours is."""
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array)
    sums, counts = rolling_mean(np.where(known, array, 0.0), size), rolling_mean(known, size)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0.5 / size))


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that resampled runs put around it."""

    value: float
    low: float
    high: float


def mean_difference(ours: ArrayLike, theirs: ArrayLike, level: float = 0.95) -> Estimate:
    """How much higher the mean of our runs is, with Welch's interval: the runs are few, and their spreads may differ. (runs,)"""
    from scipy.stats import t

    x, y = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if min(x.size, y.size) < 2:
        raise ValueError(f"An interval takes two runs or more of each, but {x.size} and {y.size} came.")
    value = float(x.mean() - y.mean())
    squares = np.array([x.var(ddof=1) / x.size, y.var(ddof=1) / y.size])
    if not squares.any():  # all runs alike
        return Estimate(value, value, value)
    freedom = squares.sum() ** 2 / (squares**2 / [x.size - 1, y.size - 1]).sum()
    half = float(t.ppf((1 + level) / 2, freedom) * np.sqrt(squares.sum()))
    return Estimate(value, value - half, value + half)


@dataclass(frozen=True)
class Distance:
    """How far apart two curves are, on average over time."""

    value: float
    by_chance: float
    """What it would be about if they were the same but for luck."""


def curve_distance(differences: ArrayLike) -> Distance:
    """Of the mean curves of runs that were made in pairs, from the differences of the pairs; (runs, T)."""
    mean, error = mean_and_error(differences)
    luck = np.sqrt(2 / np.pi) * error / NORMAL_95  # the mean of |x| for a normal x of this spread
    return Distance(float(np.abs(mean).mean()), float(luck.mean()))


def interquartile_mean(scores: ArrayLike) -> Any:
    """The mean of the middle half of all scores, (…, runs, tasks) → (…): as sure as the mean, as calm as the median."""
    array = _scores(scores)
    ordered = np.sort(array.reshape(*array.shape[:-2], -1), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def mean_score(scores: ArrayLike) -> Any:
    """The mean of all scores, (…, runs, tasks) → (…)."""
    return _scores(scores).mean(axis=(-2, -1))


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> Any:
    """How often a run of ours beats a run of theirs at the same task, a tie being half a win; the mean over tasks. (…)"""
    x, y = _scores(ours), _scores(theirs)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"Both need the same tasks, a column each, but {x.shape[-1]} and {y.shape[-1]} came.")
    signs = np.sign(x[..., :, None, :] - y[..., None, :, :])  # (…, runs, runs, tasks)
    return 0.5 + 0.5 * signs.mean(axis=(-3, -2, -1))


def bootstrap(
    statistic: Statistic, *scores: ArrayLike, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> Estimate:
    """A statistic with its percentile interval. Runs are drawn anew within each task, and within each of several scores.

    The same scores and seed give the same interval.
    """
    if resamples < 1 or not 0 < level < 1:
        raise ValueError(f"An interval takes a resample or more and a level in (0, 1), not {resamples} and {level}.")
    arrays = [_scores(each) for each in scores]
    drawn = [statistic(*sample) for sample in _resampled(arrays, resamples, np.random.default_rng(seed))]
    low, high = np.quantile(np.concatenate(drawn), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(*arrays)), float(low), float(high))


def best_configuration(
    rows: Sequence[tuple[Name, ArrayLike]], *, resamples: int = 2000, seed: int = 0
) -> tuple[Name, Estimate]:
    """The configuration with the highest mean, and the interval of that mean: of these runs, not of having been picked."""
    if not rows:
        raise ValueError("The best of no configurations cannot be told. Give one or more.")
    setting, scores = max(rows, key=lambda row: float(mean_score(row[1])))
    return setting, bootstrap(mean_score, scores, resamples=resamples, seed=seed)


def chances_of_best(scores: ArrayLike, *, resamples: int = 2000, seed: int = 0) -> Floats:
    """How often each configuration comes first when the runs are drawn anew, (configurations, runs) → (configurations,).

    Column i is the same seed in all of them, and is drawn for all at once.
    """
    array = np.asarray(scores, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(array.shape[1], size=(resamples, array.shape[1]))
    counts = np.apply_along_axis(np.bincount, 1, picks, minlength=array.shape[1])  # (resamples, runs)
    first = (array @ counts.T).argmax(axis=0)
    return np.bincount(first, minlength=len(array)) / resamples


@dataclass(frozen=True)
class Spread:
    """What one value of one setting can lead to, over all values of the other settings."""

    value: float
    best: float
    median: float
    worst: float


def sensitivity(rows: Sequence[tuple[Mapping[str, Any], float]], name: str) -> list[Spread]:
    """For every value of a setting, in order, the best, the median and the worst score over the rest of the grid."""
    if not all(name in setting for setting, _ in rows):
        raise ValueError(f"Not every configuration has the setting {name!r}.")
    values = sorted({setting[name] for setting, _ in rows})
    groups = [[score for setting, score in rows if setting[name] == value] for value in values]
    return [
        Spread(value, max(group), float(np.median(group)), min(group))
        for value, group in zip(values, groups, strict=True)
    ]


def _scores(scores: ArrayLike) -> Floats:
    """As (…, runs, tasks)."""
    array = np.asarray(scores, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"Scores have a row a run and a column a task, but an array of shape {array.shape} came.")
    return array


def _resampled(arrays: Sequence[Floats], resamples: int, generator: np.random.Generator) -> Iterator[list[Floats]]:
    """Blocks of (resamples, runs, tasks), for each array: every task draws its own runs."""
    generators = generator.spawn(len(arrays))  # so that the size of a block changes nothing
    block = max(1, BLOCK // max(array.size for array in arrays))
    for begin in range(0, resamples, block):
        size = min(block, resamples - begin)
        yield [
            np.take_along_axis(array[None], each.integers(len(array), size=(size, *array.shape)), axis=1)
            for array, each in zip(arrays, generators, strict=True)
        ]
