"""Which configuration earns most: one ranking for claims, figures, the report and the studies of users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import polars as pl

from perstep.numerics.statistics import Floats, mean_and_error
from perstep.studies.notation import symbols
from perstep.studies.results import MissingRuns, Results
from perstep.studies.study import Setting, Study

ALL_STEPS, LATE_STEPS = "average_reward", "late_reward"  # columns of the results

Name = TypeVar("Name")


@dataclass(frozen=True)
class Ranked(Generic[Name]):
    """A configuration and its place in a ranking."""

    rank: int
    """1 for the best."""
    configuration: Name
    mean: float
    """Mean over runs; NaN if no run finished."""
    half_interval: float
    """Half the width of the 95 % interval of the mean; NaN if there are fewer than two runs."""
    num_runs: int


def rank(rows: Iterable[tuple[Name, Floats]]) -> list[Ranked[Name]]:
    """Configurations by the mean of their runs (runs,), the highest first and NaN last. Equal means keep the given order."""
    measured = []
    for configuration, rewards in rows:
        mean, half = mean_and_error(rewards) if rewards.size else (math.nan, math.nan)
        measured.append((configuration, float(mean), float(half), rewards.size))
    measured.sort(key=lambda row: -math.inf if math.isnan(row[1]) else row[1], reverse=True)
    return [Ranked(place, *row) for place, row in enumerate(measured, 1)]


def ranking(results: Results, study: Study, column: str = ALL_STEPS) -> list[Ranked[Setting]]:
    """All configurations of a study, the best first. Raises MissingRuns unless all of them have results."""
    return rank((setting, results.runs(study, setting)[column].to_numpy()) for setting in study.settings)


def ranked_as(setting: Setting, rows: Sequence[Ranked[Setting]]) -> Ranked[Setting]:
    """The row of a configuration in a ranking."""
    for row in rows:
        if row.configuration == setting:
            return row
    raise MissingRuns(f"{symbols(setting)} is not among the {len(rows)} settings that were run.")


def paired_difference(ours: pl.DataFrame, theirs: pl.DataFrame, column: str = ALL_STEPS) -> tuple[float, float, int]:
    """How much more ours earned on average, half the 95 % interval of that, and the number of pairs.

    Runs with the same seed are paired, since they share their random numbers. Raises MissingRuns if there are no pairs.
    """
    pairs = ours.join(theirs, on="seed")
    if pairs.is_empty():
        raise MissingRuns("The two configurations have no seed in common.")
    mean, error = mean_and_error((pairs[column] - pairs[f"{column}_right"]).to_numpy())
    return float(mean), float(error), pairs.height
