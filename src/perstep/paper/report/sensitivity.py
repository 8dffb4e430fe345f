"""The configurations of every grid ranked by what they earned, compared with the paper's choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from perstep.files.storage import read_table
from perstep.numerics.statistics import Distance, Floats, coarser, curve_distance, mean_and_error
from perstep.paper.parts import studies_in
from perstep.studies.ranking import ALL_STEPS, paired_difference, rank
from perstep.studies.results import COARSE_POINTS, MissingRuns
from perstep.studies.study import Setting


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One configuration of a grid, and what it earned."""

    rank: int
    setting: Mapping[str, Any]
    """The settings that the grid varies."""
    mean: float
    error: float
    """Half the width of the 95 % interval of the mean."""
    ahead: float | None
    """How much more it earned than the paper's choice, or without one than the best: the mean over pairs of runs with the same
    seed. None without such pairs."""
    ahead_error: float | None
    is_tuned: bool
    """Whether it is the paper's choice."""
    path: str
    """Its file, relative to the folder of the part."""


class Curve(NamedTuple):
    """The reward per step in equal parts of a run."""

    steps: Floats  # at the middle of each part (T,)
    mean: Floats  # over runs (T,)
    error: Floats  # half the width of its 95 % interval (T,)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """All configurations of one algorithm in one world, the best first."""

    world: str
    algorithm: str
    configurations: tuple[Configuration, ...]
    apart: Distance | None
    """Distance of the reward curves of the best configuration and of the paper's choice; None if they are the same or unknown."""
    curve: Curve | None = None
    """The learning curve of the best configuration in a study of one's own, if its runs keep curves."""

    @property
    def tuned(self) -> Configuration | None:
        """The paper's choice."""
        return next((each for each in self.configurations if each.is_tuned), None)


def sensitivities(part: str, runs: pl.DataFrame, folder: Path) -> Iterator[Sensitivity]:
    """One for each algorithm and world, from the successful runs, in the order of the paper. In its studies one configuration alone
    says nothing."""
    groups = dict(runs.group_by("world", "algorithm", maintain_order=True))
    known = {(study.world, study.algorithm): study.tuned for study in studies_in(part)}
    for key in sorted(groups, key=lambda key: list(known).index(key) if key in known else len(known)):
        world, algorithm = map(str, key)
        grid = {text: json.loads(text) for text in groups[key]["settings"].unique(maintain_order=True)}
        if len(grid) > 1 or not known:
            ranked = tuple(_ranked(groups[key], grid, known.get((world, algorithm)) or {}))
            tuned = next((each for each in ranked if each.is_tuned), None)
            apart = None if tuned in (None, ranked[0]) else _apart(folder / ranked[0].path, folder / tuned.path)
            curve = None if known else _curve(folder / ranked[0].path, int(groups[key]["steps"][0]))
            yield Sensitivity(world=world, algorithm=algorithm, configurations=ranked, apart=apart, curve=curve)


def _curve(path: Path, steps: int) -> Curve | None:
    """The learning curve in a file of runs; None if they keep none, or none of one length."""
    frame = read_table(path)
    if frame.schema.get("reward_rate") not in (pl.List(pl.Float32), pl.List(pl.Float64)):
        return None
    if (rates := frame["reward_rate"].drop_nulls()).list.len().n_unique() != 1 or not rates[0].len():
        return None
    mean, error = mean_and_error(coarser(rates.to_list(), COARSE_POINTS))
    return Curve(steps * (np.arange(mean.size) + 0.5) / mean.size, mean, error)


def _apart(best: Path, tuned: Path) -> Distance | None:
    """The distance of two reward curves; None if a file has no curves or no seed is in both."""
    frames = [read_table(path) for path in (best, tuned)]
    if any("reward_rate" not in frame.columns for frame in frames):
        return None
    ours, theirs = (frame.select("seed", "reward_rate").drop_nulls() for frame in frames)
    pairs = ours.join(theirs, on="seed")
    if pairs.is_empty():
        return None
    one, other = (coarser(pairs[name].to_list(), COARSE_POINTS) for name in ("reward_rate", "reward_rate_right"))
    return curve_distance(one - other)


def _ranked(runs: pl.DataFrame, grid: dict[str, dict[str, Any]], chosen: Setting) -> Iterator[Configuration]:
    """`grid`: settings as JSON, as in the column of `runs` → the same settings."""
    names = dict.fromkeys(name for each in grid.values() for name in each)
    varied = [name for name in names if len({json.dumps(each.get(name)) for each in grid.values()}) > 1]
    varied.sort(key=lambda name: list(chosen).index(name) if name in chosen else len(chosen))
    tuned = next((text for text, each in grid.items() if chosen and chosen.items() <= each.items()), None)
    rewards = {str(text): frame.select("seed", ALL_STEPS) for (text,), frame in runs.group_by("settings")}
    paths = dict(runs.select("settings", "path").unique("settings").rows())
    rows = rank((text, rewards[text][ALL_STEPS].to_numpy()) for text in grid)
    beside = rows[0].configuration if tuned is None else tuned
    for row in rows:
        text = row.configuration
        ahead, error = (None, None) if text == beside else _ahead(rewards[text], rewards[beside])
        yield Configuration(
            rank=row.rank,
            setting={name: grid[text].get(name) for name in varied},
            mean=row.mean,
            error=row.half_interval,
            ahead=ahead,
            ahead_error=error,
            is_tuned=text == tuned,
            path=paths[text],
        )


def _ahead(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[float | None, float | None]:
    try:
        return paired_difference(ours, theirs)[:2]
    except MissingRuns:
        return None, None
