"""Every rule and baseline on tables, with no setting of its own, in the continuing worlds; beside rules of practice and optima.

python benchmarks/continuing.py [--scale smoke|small|paper] [--out FOLDER] [--show]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from scores import Floats, ends, exactly, file_name, measurements, quantile_errors, reward_range, run, tables

from perstep import worlds
from perstep.agent.making import make_agent
from perstep.agent.together import learn_together
from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.statistics import bootstrap, interquartile_mean
from perstep.paper.figures import style
from perstep.studies.measurement import Effort, Row

OURS = ("differential-q", "d2-q", "d3-q", "rvi-q", "differential-sarsa", "differential-expected-sarsa")
BASELINES = ("q", "quantile-q", "sarsa", "expected-sarsa", "centered-q")
ALGORITHMS = (*OURS, *BASELINES)
STEP_SIZES = (0.01, 0.03, 0.1, 0.3)
"""Of the baselines, whose steps are constant: each gets the one that is best for it over all worlds. Ours have their defaults."""

EFFORTS = {
    "smoke": Effort(steps=2_000, runs=1),  # checks that everything runs
    "small": Effort(steps=100_000, runs=3),
    "paper": Effort(steps=500_000, runs=5),
}
"""Scale → effort; the paper has no such study, so the numbers are ours."""

WORLDS: dict[str, Callable[[], FiniteMDP]] = {
    "RiverSwim": worlds.river_swim,
    "Long chain": worlds.long_chain,
    "Catch": worlds.catch,
    "Recycling robot": worlds.recycling_robot,
    "Access control": worlds.access_control,
    "Admission control": worlds.admission_control,
    "Service queue": worlds.service_queue,
    "Tandem queue": worlds.tandem_queue,
    "Routing": worlds.routing,
    "Criss-cross": partial(worlds.criss_cross, 4),
    "Inventory": worlds.inventory,
    "Multi-item inventory": partial(worlds.multi_item_inventory, 4),
    "Perishable stock": worlds.perishable_stock,
    "Maintenance": worlds.maintenance,
}
"""Title → world."""

HEURISTIC = "rule of practice"
"""Stands in the column "algorithm" for the best of a world's heuristics."""


def measure_world(title: str, effort: Effort) -> list[Row]:
    """One row per algorithm and run, and one for the best rule of practice."""
    mdp = WORLDS[title]()
    unit = reward_range(mdp)
    lowest, best = ends(mdp)

    def score(policy: Floats) -> float:
        return (exactly(mdp, policy).average_reward - lowest) / (best - lowest)

    rows: list[Row] = []
    if mdp.heuristics:
        practice = max(score(np.eye(mdp.num_actions)[policy]) for policy in mdp.heuristics.values())
        rows.append({
            "world": title, "algorithm": HEURISTIC, "step_size": None, "seed": 0, "score": practice,
            "quantile_error": None,
        })  # fmt: skip
    for name, step_size in _configurations():
        own = {} if step_size is None else {"step_size": step_size}
        agents = [make_agent(name, mdp, seed=seed, **own) for seed in range(effort.runs)]
        with warnings.catch_warnings():  # findings about an agent and thin tails: both are measured here
            warnings.simplefilter("ignore", UserWarning)
            learn_together(agents, effort.steps, progress=False)
            for seed, agent in enumerate(agents):
                behaviour = exactly(mdp, agent.policy()).reward_distribution  # type: ignore[attr-defined]
                rows.append({
                    "world": title, "algorithm": name, "step_size": step_size, "seed": seed,
                    "score": score(agent.policy(deterministic=True)),  # type: ignore[attr-defined]
                    "quantile_error": float(quantile_errors(agent.reward_distribution, behaviour).max()) / unit,
                })  # fmt: skip
    return rows


def _configurations() -> list[tuple[str, float | None]]:
    """Each algorithm with its step size; None for its default."""
    return [(name, None) for name in OURS] + [(name, step_size) for name in BASELINES for step_size in STEP_SIZES]


MEASUREMENTS = measurements("continuing", {file_name(title): title for title in WORLDS}, measure_world, EFFORTS)


def all_worlds(folder: Path) -> pl.DataFrame:
    """The tables of all worlds as one, each baseline with its best step size. Raises MissingRuns if one is missing."""
    frame = tables(folder, MEASUREMENTS)
    return with_best_step_sizes(frame, BASELINES, STEP_SIZES)


def with_best_step_sizes(frame: pl.DataFrame, names: Sequence[str], step_sizes: Sequence[float]) -> pl.DataFrame:
    """The rows in which each of these algorithms has the step size that is best for it over all worlds, and all other rows."""
    chosen = [frame.filter(~pl.col("algorithm").is_in(names))]
    for name in names:
        tried = [frame.filter((pl.col("algorithm") == name) & (pl.col("step_size") == size)) for size in step_sizes]
        chosen.append(max(tried, key=lambda part: float(interquartile_mean(scores(part)))))
    return pl.concat(chosen)


def scores(runs: pl.DataFrame) -> Floats:
    """The scores of one algorithm. (runs, worlds)"""
    return np.array([part["score"].to_list() for part in runs.partition_by("world", maintain_order=True)]).T


def summary(frame: pl.DataFrame, algorithms: Sequence[str] = ALGORITHMS) -> pl.DataFrame:
    """One row per algorithm, best first: interquartile mean of the scores with its 95 % interval, and the lowest world."""
    rows = []
    for name in algorithms:
        mine = frame.filter(pl.col("algorithm") == name)
        middle = bootstrap(interquartile_mean, scores(mine))
        means = mine.group_by("world", maintain_order=True).agg(pl.col("score").mean()).sort("score")
        world, lowest = means.row(0)
        rows.append({
            "algorithm": name, "step_size": mine["step_size"][0], "iqm": middle.value, "low": middle.low, "high": middle.high,
            "lowest": lowest, "lowest_world": world, "quantile_error": mine["quantile_error"].median(),
        })  # fmt: skip
    return pl.DataFrame(rows).sort("iqm", descending=True)


def print_summary(total: pl.DataFrame) -> None:
    for row in total.iter_rows(named=True):
        size = "default" if row["step_size"] is None else row["step_size"]
        interval = f"{row['iqm']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
        print(f"{row['algorithm']:33} {size!s:8} {interval}, lowest {row['lowest']:6.2f} in {row['lowest_world']}")


def say(folder: Path) -> None:
    """Print the scores; and of d2 the errors of its quantiles, as shares of the range of the rewards, in the median over runs."""
    frame = all_worlds(folder)
    print_summary(summary(frame))
    of_d2 = frame.filter(pl.col("algorithm") == "d2-q").group_by("world", maintain_order=True)
    for world, error in of_d2.agg(pl.col("quantile_error").median()).iter_rows():
        print(f"{world:22} {error:.3f}")


def draw(folder: Path) -> Figure:
    frame = all_worlds(folder)
    return scores_and_means(frame, summary(frame), "score (0 random, 1 optimal)", OURS)


def scores_and_means(frame: pl.DataFrame, total: pl.DataFrame, unit: str, ours: Sequence[str]) -> Figure:
    """Mean scores per world and algorithm as a table of colours, and the interquartile mean of each algorithm."""
    names = total["algorithm"].to_list()
    columns = [*names, HEURISTIC] if HEURISTIC in frame["algorithm"] else names
    titles = frame["world"].unique(maintain_order=True).to_list()
    means = {
        (row[0], row[1]): row[2] for row in frame.group_by("world", "algorithm").agg(pl.col("score").mean()).rows()
    }
    scores = np.array([[means.get((world, name), np.nan) for name in columns] for world in titles])
    figure, (left, right) = style.panels(2, 1.8 + 0.2 * len(titles), width=10.5, ratios=[2.3, 1.0])
    left.imshow(np.clip(scores, 0.0, 1.0), cmap=style.SEQUENCE, vmin=0.0, vmax=1.0, aspect="auto")
    for i, row in enumerate(scores):
        for j, score in enumerate(row):
            colour = style.BLACK if score > 0.6 else "white"
            shown = "–" if np.isnan(score) else f"{score:.2f}"
            left.text(
                j, i, shown, ha="center", va="center", fontsize=6.5, color=style.BLACK if np.isnan(score) else colour
            )
    left.set_xticks(range(len(columns)), columns, rotation=50, ha="right")
    left.set_yticks(range(len(titles)), titles)
    left.set_title("a) mean score of the greedy policy")
    left.grid(False)
    rows = np.arange(len(names))
    colours = [style.BLUE if name in ours else style.ORANGE for name in names]
    iqm, low, high = (total[key].to_numpy() for key in ("iqm", "low", "high"))
    right.barh(rows, iqm, color=colours, height=0.6)
    right.errorbar(iqm, rows, xerr=[iqm - low, high - iqm], fmt="none", ecolor=style.BLACK, elinewidth=1.0)
    right.set_yticks(rows, names)
    right.invert_yaxis()
    right.set(title="b) interquartile mean", xlabel=unit, xlim=(min(0.0, low.min()), max(1.05, high.max())))
    return figure


if __name__ == "__main__":
    sys.exit(run("continuing", MEASUREMENTS, draw, say, __doc__))
