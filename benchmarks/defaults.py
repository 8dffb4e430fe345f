"""The defaults, measured: agents with no setting but the rule, in finite worlds with exact answers.

python benchmarks/defaults.py [--scale smoke|small|paper] [--out FOLDER] [--show]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from measuring import console
from scores import LEVELS, ends, exactly, file_name, measurements, quantile_errors, reward_range, run, tables

from perstep.agent.together import learn_together
from perstep.mdp.mdp import FiniteMDP
from perstep.paper.figures import style
from perstep.planning.agent import Planner
from perstep.studies.measurement import Effort, Row
from perstep.tabular.agent import QLearning
from perstep.worlds import (
    access_control,
    admission_control,
    catch,
    criss_cross,
    garnet,
    inventory,
    long_chain,
    maintenance,
    multi_item_inventory,
    perishable_stock,
    recycling_robot,
    red_pill_blue_pill,
    river_swim,
    routing,
    service_queue,
    six_arms,
    tandem_queue,
    two_loop,
)

PLANNER = "planner"
AGENTS = (PLANNER, "differential", "d2", "d3")
"""The Planner, and QLearning with each rule."""

EFFORTS = {
    "smoke": Effort(steps=2_000, runs=1),  # checks that everything runs
    "small": Effort(steps=100_000, runs=4),
    "paper": Effort(steps=1_000_000, runs=4),
}
"""Scale → effort: what the claims are about is the scale "paper"."""

LEAST, MEDIAN = 0.95, 0.999  # scores that we claim of the Planner
ERRORS = {"average_error": 0.01, "quantile_error": 0.03, "cvar_error": 0.03}
"""Errors that we claim of the Planner, at most, as shares of the range of the rewards: of what it says of its best policy."""
SHOWN = 5  # worlds in a line

LEFT_END = -0.1  # lower scores are drawn as an arrow here
GAP = 1.4  # rows between groups of worlds
MARK: dict[str, Any] = {"color": style.BLUE, "marker": "o", "mew": 0.0, "alpha": 0.75}

CHOOSING, SEEN, NEW = GROUPS = ("used for choosing", "seen while choosing", "took no part in choosing")
"""What part a world had in choosing the defaults. "seen": in comparisons that were decided by the other worlds."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A world of the study."""

    title: str
    make: Callable[[], FiniteMDP]
    group: str
    """One of GROUPS."""


def scaled(make: Callable[[], FiniteMDP], factor: float, shift: float = 0.0) -> FiniteMDP:
    """The same world with the rewards factor · R + shift."""
    mdp = make()
    outcomes = mdp.outcomes
    return FiniteMDP.from_outcomes(
        outcomes.probability,
        outcomes.next_state,
        outcomes.mean * factor + shift,
        outcomes.sd * factor,
        outcomes.cap * factor + shift,
        initial=mdp.initial,
    )


def _from_gymnasium(name: str, map_seed: int | None = None, **settings: bool) -> FiniteMDP:
    """A world of Gymnasium; with a seed, FrozenLake on a random map of 10 x 10."""
    on_a_map: dict[str, Any] = {} if map_seed is None else {"desc": generate_random_map(10, seed=map_seed)}
    env = gymnasium.make(name, **on_a_map, **settings)
    try:
        return FiniteMDP.from_gymnasium(env)
    finally:
        env.close()


def _worlds(group: str, makers: dict[str, Callable[[], FiniteMDP]]) -> dict[str, World]:
    """File name → world; the file name is the title in lower case."""
    return {file_name(title): World(title=title, make=make, group=group) for title, make in makers.items()}


WORLDS = {
    **_worlds(CHOOSING, {
        "Access control": access_control,
        "Garnet 100": partial(garnet, 100, 4, 5, seed=2),
        "FrozenLake 8x8": partial(_from_gymnasium, "FrozenLake8x8-v1"),
        "Taxi": partial(_from_gymnasium, "Taxi-v4"),
        "CliffWalking": partial(_from_gymnasium, "CliffWalking-v1"),
        "RiverSwim 12": partial(river_swim, 12),
        "Service queue": service_queue,
        "Inventory": inventory,
        "Tandem queue": tandem_queue,
        "Long chain": long_chain,
        "Perishable stock": perishable_stock,
        "Routing": routing,
        "FrozenLake 10x10": partial(_from_gymnasium, "FrozenLake-v1", map_seed=7),
        "Taxi in rain": partial(_from_gymnasium, "Taxi-v4", is_rainy=True),
        "Catch": catch,
        "Criss-cross": criss_cross,
        "SixArms": six_arms,
    }),
    **_worlds(SEEN, {
        "Red-pill": red_pill_blue_pill,
        "Two-loop": two_loop,
        "FrozenLake 4x4": partial(_from_gymnasium, "FrozenLake-v1"),
        "RiverSwim 6": partial(river_swim, 6),
        "Maintenance": maintenance,
        "Recycling robot": recycling_robot,
        "Access control x100": partial(scaled, access_control, 100.0),
        "Garnet 20 tiny": partial(scaled, partial(garnet, 20, 3, 3, seed=5), 1e-3, 0.5),
        "Garnet 50 noisy": partial(garnet, 50, 3, 4, seed=11, reward_sd=1.0),
        "CliffWalking slippery": partial(_from_gymnasium, "CliffWalking-v1", is_slippery=True),
        "Two items": multi_item_inventory,
        "Tandem with admission": partial(tandem_queue, rejection_cost=60.0),
        "Garnet 200": partial(garnet, 200, 5, 3, seed=31),
        "RiverSwim 9 x1000": partial(scaled, partial(river_swim, 9), 1e3),
        "Busy queue": partial(service_queue, 30, arrival=0.45, holding_cost=2.0),
        "Maintenance 20": partial(maintenance, 20, wear=0.4),
        "FrozenLake dry": partial(_from_gymnasium, "FrozenLake8x8-v1", is_slippery=False),
        "Admission control": admission_control,
        "Garnet 300 x1000": partial(scaled, partial(garnet, 300, 6, 2, seed=41), 1e3),
        "RiverSwim 20 tiny": partial(scaled, partial(river_swim, 20), 1e-3),
        "Access control 6": partial(access_control, num_servers=6, free_probability=0.1),
        "Dear orders": partial(inventory, 30, mean_demand=6.0, order_cost=40.0),
        "Tall Catch": partial(catch, 16, 7),
        "Crowded criss-cross": partial(criss_cross, 5, arrivals=(0.15, 0.1), holding_costs=(1.0, 3.0, 2.0)),
        "Garnet 80 without chance": partial(garnet, 80, 8, 1, seed=61),
    }),
    **_worlds(NEW, {
        "Access control 15": partial(access_control, num_servers=15, free_probability=0.04),
        "Garnet 250 x500": partial(scaled, partial(garnet, 250, 3, 6, seed=71), 500.0),
        "RiverSwim 15 small": partial(scaled, partial(river_swim, 15), 0.01),
        "Few orders": partial(inventory, 25, mean_demand=3.0, order_cost=15.0),
        "Patient queue": partial(service_queue, 40, arrival=0.3, holding_cost=0.5),
        "FrozenLake other map": partial(_from_gymnasium, "FrozenLake-v1", map_seed=21),
        "Maintenance 30": partial(maintenance, 30, wear=0.3),
        "Tandem with fast arrivals": partial(tandem_queue, 10, arrival=0.3),
    }),
}  # fmt: skip
"""File name → world. "tiny": rewards times 0.001; those of Garnet 20 are 0.001 R + 0.5. "noisy": rewards have a standard deviation
of 1 around their mean."""


def measure_world(name: str, effort: Effort) -> list[Row]:
    """One row per agent and run."""
    world = WORLDS[name]
    mdp = world.make()
    unit = reward_range(mdp)
    lowest, best = ends(mdp)
    rows: list[Row] = []
    for agent_name in AGENTS:
        made = [
            Planner(mdp, preset="steady", seed=seed)
            if agent_name == PLANNER
            else QLearning(mdp, rule=agent_name, preset="steady", seed=seed)
            for seed in range(effort.runs)
        ]
        with warnings.catch_warnings():  # findings about an agent and thin tails: both are measured here
            warnings.simplefilter("ignore", UserWarning)
            learn_together(made, effort.steps, progress=False)
            for seed, agent in enumerate(made):
                greedy = exactly(mdp, agent.policy(deterministic=True))
                # What it says is about what it does; what a planner says, about its best policy.
                behaviour = greedy if agent_name == PLANNER else exactly(mdp, agent.policy())
                truth, learned = behaviour.reward_distribution, agent.reward_distribution
                at_level = np.abs(learned.quantile(LEVELS) - truth.quantile(LEVELS))
                rows.append({
                    "world": world.title, "agent": agent_name, "seed": seed,
                    "score": (greedy.average_reward - lowest) / (best - lowest),
                    "life": (agent.history.lifetime_reward - lowest) / (best - lowest),
                    "average_reward": agent.average_reward, "earned_reward": agent.reward_distribution.mean,
                    "average_error": abs(agent.average_reward - behaviour.average_reward) / unit,
                    "quantile_error": float(quantile_errors(learned, truth).max()) / unit,
                    "mean_quantile_error": float(at_level.mean()) / unit,
                    "largest_quantile_error_at_level": float(at_level.max()) / unit,
                    "cvar_error": abs(learned.cvar(0.01) - truth.cvar(0.01)) / unit,
                    "reward_range": unit, "random": lowest, "best": best,
                })  # fmt: skip
    return rows


MEASUREMENTS = measurements("defaults", {name: name for name in WORLDS}, measure_world, EFFORTS)

GROUP_OF = {world.title: world.group for world in WORLDS.values()}


def all_worlds(folder: Path) -> pl.DataFrame:
    """The tables of all worlds as one."""
    return tables(folder, MEASUREMENTS).with_columns(group=pl.col("world").replace_strict(GROUP_OF))


def per_world(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per world and agent: the mean and the lowest score over runs, the mean life, and the largest errors."""
    return frame.group_by("world", "group", "agent", maintain_order=True).agg(
        score=pl.col("score").mean(),
        lowest=pl.col("score").min(),
        life=pl.col("life").mean(),
        average_error=pl.col("average_error").max(),
        quantile_error=pl.col("quantile_error").max(),
        mean_quantile_error=pl.col("mean_quantile_error").max(),
        largest_quantile_error_at_level=pl.col("largest_quantile_error_at_level").max(),
        cvar_error=pl.col("cvar_error").max(),
    )


def say(folder: Path) -> None:
    """Print what we claim of the Planner. A score is the mean over the runs of a world; an error is that of the worst run."""
    ours = per_world(all_worlds(folder)).filter(pl.col("agent") == PLANNER)
    scores = {world: float(score) for world, score in ours.sort("score").select("world", "score").iter_rows()}
    below = {world: score for world, score in scores.items() if score < LEAST}
    console.print(
        f"score of at least {LEAST:g}: {len(scores) - len(below)} of {len(scores)} worlds", listed(below or scores)
    )
    median = float(np.median(list(scores.values())))
    console.print(f"median score of at least {MEDIAN:g}: {median:.4f}")
    for error, most in ERRORS.items():
        sizes = dict(ours.sort(error, descending=True).select("world", error).iter_rows())
        above = {world: size for world, size in sizes.items() if size > most}
        told = (
            f"{error} of at most {most:g} of the range of the rewards: {len(sizes) - len(above)} of {len(sizes)} worlds"
        )
        console.print(told, listed(above or sizes))


def listed(worlds: dict[str, float]) -> str:
    """The first worlds with their numbers."""
    return "; ".join(f"{world} {value:.3f}" for world, value in list(worlds.items())[:SHOWN])


def draw(folder: Path) -> Figure:
    """Scores of greedy policies, one dot per run."""
    frame = all_worlds(folder)
    places = _places(frame)
    figure, panels = style.panels(len(AGENTS), 7.8, sharey=True)
    for axes, letter, agent in zip(panels, "abcd", AGENTS, strict=True):
        _panel(axes, frame.filter(pl.col("agent") == agent), places)
        if agent == PLANNER:
            axes.axvline(LEAST, color=style.BLACK, lw=0.8, ls=":", zorder=0)
        axes.set(title=f"{letter}) {agent}", xlim=(LEFT_END - 0.05, 1.06), xlabel="score")
        axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    first = panels[0]
    first.set_yticks(list(places.values()), list(places))
    _name_groups(panels, frame, places)
    return figure


def _places(frame: pl.DataFrame) -> dict[str, float]:
    """World → its row, with gaps between the groups."""
    worlds = frame.unique(["world", "group"], maintain_order=True).select("world", "group").iter_rows()
    return {str(world): number + GAP * GROUPS.index(group) for number, (world, group) in enumerate(worlds)}


def _panel(axes: Axes, frame: pl.DataFrame, places: dict[str, float]) -> None:
    rows = np.array([places[world] for world in frame["world"]])
    score = frame["score"].to_numpy()
    inside = score >= LEFT_END
    # Not clipped, so that a dot at the optimum is whole; the layout cannot place a line without points that is not clipped.
    axes.plot(score[inside], rows[inside], ls="", ms=4, clip_on=not inside.any(), **MARK)
    axes.plot(np.full((~inside).sum(), LEFT_END), rows[~inside], ls="", ms=4.5, **{**MARK, "marker": "<"})


def _name_groups(panels: list[Axes], frame: pl.DataFrame, places: dict[str, float]) -> None:
    """A heading above each group of worlds, inside the first panel."""
    for (group,), some in frame.partition_by("group", as_dict=True).items():
        top = min(places[name] for name in some["world"])
        panels[0].text(LEFT_END, top - 0.75, group, fontsize=8, style="italic", va="center")
    for axes in panels:
        axes.set_ylim(max(places.values()) + 0.7, min(places.values()) - 1.25)
        axes.tick_params(axis="y", length=0)


if __name__ == "__main__":
    sys.exit(run("defaults", MEASUREMENTS, draw, say, __doc__))
