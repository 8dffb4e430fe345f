"""The algorithms on tables in the finite continuing worlds, each with the best setting of a small grid for each world."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perstep.agents import make_agent
from perstep.agents.agent import Diverged
from perstep.environments import FiniteMDP
from perstep.schedules import Decay
from perstep.studies import continuing
from perstep.studies.continuing import BASELINES, OURS, WORLDS
from perstep.studies.defaults import exactly
from perstep.studies.study import Scale
from perstep.studies.theory.measuring import Effort, Floats, Measurement, Row, measure_missing, table

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


def greedy_score(name: str, mdp: FiniteMDP, row: Setting, seed: int, steps: int, ends: Floats) -> float | None:
    """The exact score of the greedy policy that is learnt with a setting; None if the estimates diverge.

    `ends`: what random actions and the optimum earn.
    """
    agent = make_agent(name, mdp, seed=seed, **settings(row))
    with warnings.catch_warnings():  # doubts about an agent: they are measured here
        warnings.simplefilter("ignore", UserWarning)
        try:
            agent.learn(steps, progress=False)
        except Diverged:
            return None
    gain = exactly(mdp, agent.policy(deterministic=True)).average_reward  # type: ignore[attr-defined]
    return float((gain - ends[0]) / (ends[1] - ends[0]))


def measure_world(title: str, effort: Effort) -> list[Row]:
    """One row per algorithm, setting and run that chooses, and one per run that is reported."""
    mdp = WORLDS[title]()
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    ends = np.array([exactly(mdp, uniform).average_reward, mdp.solve().average_reward])
    choosing = range(effort.runs)
    reporting = range(REPORTED, REPORTED + effort.runs)
    rows: list[Row] = []

    def note(name: str, row: Setting, seeds: Sequence[int]) -> float:
        found = [greedy_score(name, mdp, row, seed, effort.steps, ends) for seed in seeds]
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


MEASUREMENTS = tuple(
    Measurement(
        name=f"tuned_{title.lower().replace(' ', '_')}",
        figure="continuing_tuned",
        measure=partial(measure_world, title),
    )
    for title in WORLDS
)
"""Each writes one table, `<name>.parquet`."""


def measure(folder: Path, scale: Scale) -> tuple[int, int]:
    """Make the missing tables. Returns the number of tables found and the number of tables made."""
    return measure_missing(folder, scale, MEASUREMENTS, efforts=EFFORTS, title="continuing-tuned")


def everything(folder: Path) -> pl.DataFrame:
    """All runs in all worlds as one table. Raises MissingRuns if one is missing."""
    return pl.concat([table(folder, each.name) for each in MEASUREMENTS], how="vertical_relaxed")


def all_worlds(folder: Path) -> pl.DataFrame:
    """The reported runs in all worlds as one table, for `continuing.summary`. Raises MissingRuns if one is missing."""
    reported = everything(folder).filter(pl.col("seed") >= REPORTED)
    unknown = {"step_size": pl.lit(None, pl.Float64), "quantile_error": pl.lit(None, pl.Float64)}
    return reported.with_columns(**unknown)


def sensitivity(folder: Path) -> pl.DataFrame:
    """One row per algorithm: the median over worlds of the score with the best, the middle and the worst setting of the grid, each
    world's own, in the runs that choose."""
    tried = everything(folder).filter(pl.col("seed") < REPORTED)
    each = tried.group_by("algorithm", "world", "setting", maintain_order=True).agg(pl.col("score").mean())
    of_world = each.group_by("algorithm", "world", maintain_order=True).agg(
        best=pl.col("score").max(), middle=pl.col("score").median(), worst=pl.col("score").min()
    )
    return of_world.group_by("algorithm", maintain_order=True).agg(pl.col("best", "middle", "worst").median())
