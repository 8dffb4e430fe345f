"""The algorithms on tables in the finite continuing worlds, each with the best setting of a small grid for each world.

python benchmarks/continuing_tuned.py [--scale smoke|small|paper] [--out FOLDER] [--show]
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import continuing
import numpy as np
import polars as pl
from continuing import BASELINES, OURS, WORLDS, scores_and_means, summary
from matplotlib.figure import Figure
from scores import ends, exactly, file_name, measurements, run, tables

from perstep.agent.agent import Diverged
from perstep.agent.making import make_agent
from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.schedules import Decay
from perstep.studies.measurement import Effort, Row

Setting = Mapping[str, Any]

POWERS = (0.6, 0.8, 1.0)
"""Ours: the powers of the falling step sizes Decay(1, power, 10); 0.8 is the default."""
EPSILONS = ("default", 0.1)
"""Ours: random actions that fall with the visits of a state, which is the default, or a constant probability."""
STEP_SIZES = (*continuing.STEP_SIZES, 1.0)
"""Baselines: constant step sizes; all that they have without tuning, so that tuning cannot take a good one away."""
DISCOUNTS = (0.9, 0.99, 0.999)
"""Baselines: discounts."""

EFFORTS = {
    "smoke": Effort(steps=1_000, runs=1),  # checks that everything runs
    "small": Effort(steps=100_000, runs=3),
    "paper": Effort(steps=500_000, runs=4),
}
"""Scale → effort: runs to choose a setting, and as many with other seeds to report it."""
REPORTED = 100  # the first seed of the runs that are reported; those that choose have seeds from 0


def grid(name: str) -> list[dict[str, Any]]:
    """The settings that are tried for an algorithm, as plain numbers and words."""
    if name in BASELINES:
        return [{"step_size": size, "discount": discount} for size, discount in product(STEP_SIZES, DISCOUNTS)]
    return [{"power": power, "epsilon": epsilon} for power, epsilon in product(POWERS, EPSILONS)]


def settings(row: Setting) -> dict[str, Any]:
    """The settings of an agent for a row of the grid."""
    if "power" in row:
        exploration = {} if row["epsilon"] == "default" else {"epsilon": row["epsilon"]}
        return {"step_size": Decay(1.0, row["power"], 10.0), **exploration}
    return dict(row)


def greedy_score(
    name: str, mdp: FiniteMDP, row: Setting, seed: int, steps: int, lowest: float, best: float
) -> float | None:
    """The exact score of the greedy policy that is learnt with a setting; None if the estimates diverge."""
    agent = make_agent(name, mdp, seed=seed, **settings(row))
    with warnings.catch_warnings():  # findings about an agent: they are measured here
        warnings.simplefilter("ignore", UserWarning)
        try:
            agent.learn(steps, progress=False)
        except Diverged:
            return None
    gain = exactly(mdp, agent.policy(deterministic=True)).average_reward  # type: ignore[attr-defined]
    return float((gain - lowest) / (best - lowest))


def measure_world(title: str, effort: Effort) -> list[Row]:
    """One row per algorithm, setting and run that chooses, and one per run that is reported."""
    mdp = WORLDS[title]()
    lowest, best = ends(mdp)
    choosing = range(effort.runs)
    reporting = range(REPORTED, REPORTED + effort.runs)
    rows: list[Row] = []

    def note(name: str, row: Setting, seeds: Sequence[int]) -> float:
        found = [greedy_score(name, mdp, row, seed, effort.steps, lowest, best) for seed in seeds]
        shown = json.dumps(row, sort_keys=True)
        for seed, score in zip(seeds, found, strict=True):
            # An agent that cannot go on has no policy; its score is that of random actions.
            rows.append({
                "world": title, "algorithm": name, "setting": shown, "seed": seed,
                "score": 0.0 if score is None else score, "diverged": score is None,
            })  # fmt: skip
        scores = [score for score in found if score is not None]
        return (
            float(np.mean(scores)) if len(scores) == len(found) else -np.inf
        )  # a setting that may diverge is not chosen

    for name in (*OURS, *BASELINES):
        tried = [(note(name, row, choosing), row) for row in grid(name)]
        note(name, max(tried, key=lambda each: each[0])[1], reporting)
    return rows


MEASUREMENTS = measurements(
    "continuing_tuned", {f"tuned_{file_name(title)}": title for title in WORLDS}, measure_world, EFFORTS
)


def all_worlds(folder: Path) -> pl.DataFrame:
    """The reported runs in all worlds as one table, for `summary`."""
    reported = tables(folder, MEASUREMENTS).filter(pl.col("seed") >= REPORTED)
    unknown = {"step_size": pl.lit(None, pl.Float64), "quantile_error": pl.lit(None, pl.Float64)}
    return reported.with_columns(**unknown)


def sensitivity(folder: Path) -> pl.DataFrame:
    """One row per algorithm: the median over worlds of the score with the best, the middle and the worst setting of the grid, each
    world's own, in the runs that choose."""
    tried = tables(folder, MEASUREMENTS).filter(pl.col("seed") < REPORTED)
    each = tried.group_by("algorithm", "world", "setting", maintain_order=True).agg(pl.col("score").mean())
    of_world = each.group_by("algorithm", "world", maintain_order=True).agg(
        best=pl.col("score").max(), middle=pl.col("score").median(), worst=pl.col("score").min()
    )
    return of_world.group_by("algorithm", maintain_order=True).agg(pl.col("best", "middle", "worst").median())


def say(folder: Path) -> None:
    """Print the scores, and the sensitivity: the score of the middle and of the worst setting, as the median over worlds."""
    spread = {row["algorithm"]: row for row in sensitivity(folder).iter_rows(named=True)}
    for row in summary(all_worlds(folder)).iter_rows(named=True):
        grid = spread[row["algorithm"]]
        interval = f"{row['iqm']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
        lowest = f"lowest {row['lowest']:6.2f} in {row['lowest_world']:18}"
        print(
            f"{row['algorithm']:28} {interval}, {lowest} grid: middle {grid['middle']:.2f}, worst {grid['worst']:.2f}"
        )


def draw(folder: Path) -> Figure:
    frame = all_worlds(folder)
    return scores_and_means(frame, summary(frame), "score (0 random, 1 optimal)", OURS)


if __name__ == "__main__":
    sys.exit(run("continuing_tuned", MEASUREMENTS, draw, say, __doc__))
