"""Which configurations of a grid earn most, beside the one that the paper chose, and how far apart they are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from perstep.report.paper import studies
from perstep.studies.catalog import Setting
from perstep.studies.results import COARSE_POINTS
from perstep.studies.statistics import Distance, coarser, curve_distance, mean_and_error


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One setting of a grid, and what it earned."""

    rank: int
    setting: Mapping[str, Any]
    """Of the names that the grid varies."""
    mean: float
    error: float
    """Half the 95 % interval of the mean."""
    ahead: float | None
    """How much more it earns than the paper's setting, seed by seed; None where that was not run."""
    ahead_error: float | None
    is_tuned: bool
    path: str
    """Of its file, in the part's folder."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """All configurations of one algorithm in one world, the best first."""

    world: str
    algorithm: str
    configurations: tuple[Configuration, ...]
    apart: Distance | None
    """Of the curves of the best and of the paper's; None where that is the best, or curves are not kept."""

    @property
    def tuned(self) -> Configuration | None:
        """The paper's choice."""
        return next((each for each in self.configurations if each.is_tuned), None)


def sensitivities(part: str, runs: pl.DataFrame, folder: Path) -> Iterator[Sensitivity]:
    """One for each algorithm and world with more than one configuration, from the runs that ended well; in the paper's order."""
    groups = dict(runs.group_by("world", "algorithm", maintain_order=True))
    known = {(study.world, study.algorithm): study.tuned for study in studies(part)}
    for key in sorted(groups, key=lambda key: list(known).index(key) if key in known else len(known)):
        world, algorithm = map(str, key)
        grid = {text: json.loads(text) for text in groups[key]["settings"].unique(maintain_order=True)}
        if len(grid) > 1:
            ranked = tuple(_ranked(groups[key], grid, known.get((world, algorithm)) or {}))
            tuned = next((each for each in ranked if each.is_tuned), None)
            apart = None if tuned in (None, ranked[0]) else _apart(folder / ranked[0].path, folder / tuned.path)
            yield Sensitivity(world=world, algorithm=algorithm, configurations=ranked, apart=apart)


def _apart(best: Path, tuned: Path) -> Distance | None:
    """How far apart the rewards per step are over the run, as far as they are kept."""
    columns = ["seed", "reward_rate"]
    if any("reward_rate" not in pl.read_parquet_schema(path) for path in (best, tuned)):
        return None
    ours, theirs = (pl.read_parquet(path, columns=columns).drop_nulls() for path in (best, tuned))
    pairs = ours.join(theirs, on="seed")
    if pairs.is_empty():
        return None
    one, other = (coarser(pairs[name].to_list(), COARSE_POINTS) for name in ("reward_rate", "reward_rate_right"))
    return curve_distance(one - other)


def _ranked(runs: pl.DataFrame, grid: dict[str, dict[str, Any]], chosen: Setting) -> Iterator[Configuration]:
    names = dict.fromkeys(name for each in grid.values() for name in each)
    varied = [name for name in names if len({json.dumps(each.get(name)) for each in grid.values()}) > 1]
    the_paper_s = next((text for text, each in grid.items() if chosen and chosen.items() <= each.items()), None)
    rewards = {str(text): frame.select("seed", "average_reward") for (text,), frame in runs.group_by("settings")}
    paths = dict(runs.select("settings", "path").unique("settings").rows())
    varied.sort(key=lambda name: list(chosen).index(name) if name in chosen else len(chosen))
    best_first = sorted(grid, key=lambda text: _mean(rewards[text]), reverse=True)
    for rank, text in enumerate(best_first, 1):
        mean, error = mean_and_error(rewards[text]["average_reward"].to_numpy())
        ahead = None if the_paper_s is None else _ahead(rewards[text], rewards[the_paper_s])
        yield Configuration(
            rank=rank,
            setting={name: grid[text].get(name) for name in varied},
            mean=float(mean),
            error=float(error),
            ahead=None if ahead is None else ahead[0],
            ahead_error=None if ahead is None else ahead[1],
            is_tuned=text == the_paper_s,
            path=paths[text],
        )


def _mean(runs: pl.DataFrame) -> float:
    mean = float(runs["average_reward"].to_numpy().mean())
    return -math.inf if math.isnan(mean) else mean  # last, since nothing can be said of it


def _ahead(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[float, float] | None:
    """Runs of one seed meet the same luck, so they are compared with each other."""
    pairs = ours.join(theirs, on="seed")
    if pairs.is_empty():
        return None
    mean, error = mean_and_error((pairs["average_reward"] - pairs["average_reward_right"]).to_numpy())
    return float(mean), float(error)
