"""The defaults, measured: agents with no setting but the rule, in finite worlds with exact answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from perstep.agents import Planner, QLearning, learn_together
from perstep.distribution import Distribution
from perstep.environments import (
    FiniteMDP,
    NotUnichain,
    PolicyEvaluation,
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
from perstep.studies.claims.claim import Claim
from perstep.studies.results import Results
from perstep.studies.study import Scale
from perstep.studies.theory.measuring import Effort, Floats, Measurement, Row, measure_missing, table

PLANNER = "planner"
AGENTS = (PLANNER, "differential", "d2", "d3")
"""The Planner, and QLearning with each rule."""

EFFORTS = {
    "smoke": Effort(steps=2_000, runs=1),  # checks that everything runs
    "small": Effort(steps=100_000, runs=4),
    "paper": Effort(steps=1_000_000, runs=4),
}
"""Scale → effort: what the claims are about is the scale "paper"."""

LEVELS = np.arange(1, 100) / 100.0
BAND = 0.01  # of levels, within which an exact quantile counts
LEAST_NOISE = 1e-6  # chance of a random action that joins the closed classes of a policy

LEAST, MEDIAN = 0.95, 0.999
AVERAGE_TOLERANCE, DISTRIBUTION_TOLERANCE = 0.01, 0.03

STATEMENTS = (
    f"the Planner reaches a score of {LEAST:g} in every world",
    f"the median score of the Planner over the worlds is at least {MEDIAN:g}",
    f"its average reward is within {AVERAGE_TOLERANCE:.0%} of the range of the rewards of what its best policy earns",
    f"its quantiles at 1 to 99 % are within {DISTRIBUTION_TOLERANCE:.0%} of the range of the exact ones",
    f"its cvar(0.01) is within {DISTRIBUTION_TOLERANCE:.0%} of the range of the exact one",
)


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
    return {
        title.lower().replace(" ", "_"): World(title=title, make=make, group=group) for title, make in makers.items()
    }


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


def exactly(mdp: FiniteMDP, policy: Floats) -> PolicyEvaluation:
    """The exact evaluation of a policy (S, A) from the first state; with a trace of randomness if it has several closed classes."""
    try:
        return mdp.evaluate(policy, start=mdp.initial)
    except NotUnichain:
        return mdp.evaluate(policy, epsilon=LEAST_NOISE, start=mdp.initial)


def reward_range(mdp: FiniteMDP) -> float:
    """The largest less the smallest mean reward of an outcome."""
    return float(np.ptp(mdp.outcomes.mean[mdp.outcomes.probability > 0.0]))


def quantile_errors(learned: Distribution, exact: Distribution) -> Floats:
    """Distances of the learned quantiles at 1 to 99 % from the nearest exact quantile within ± 0.01 of the level. (99,)

    Where few rewards lie, as between two atoms or two narrow modes, the exact quantile jumps. A share of steps that is off by 0.001
    can change a quantile there by a whole jump, and that says nothing about the distribution.
    """
    found = learned.quantile(LEVELS)
    if not exact.sds.any():  # the atoms that are quantiles in the band
        up_to = np.cumsum(exact.weights)
        in_band = (up_to >= LEVELS[:, None] - BAND) & (up_to - exact.weights <= LEVELS[:, None] + BAND)  # (99, atoms)
        return np.asarray(np.where(in_band, np.abs(found[:, None] - exact.means), np.inf).min(axis=1))
    near = np.clip(LEVELS[:, None] + np.linspace(-BAND, BAND, 41), 0.0005, 0.9995)  # (99, 41)
    values = exact.quantile(near.ravel()).reshape(near.shape)
    if exact.sds.all():  # without atoms every reward between the ends of the band is a quantile of it
        return np.maximum(0.0, np.maximum(values[:, 0] - found, found - values[:, -1]))
    return np.asarray(np.abs(found[:, None] - values).min(axis=1))


def measure_world(world: World, effort: Effort) -> list[Row]:
    """One row per agent and run."""
    mdp = world.make()
    unit = reward_range(mdp)
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    lowest, best = exactly(mdp, uniform).average_reward, mdp.solve().average_reward
    rows: list[Row] = []
    for name in AGENTS:
        made = [
            Planner(mdp, preset="steady", seed=seed)
            if name == PLANNER
            else QLearning(mdp, rule=name, preset="steady", seed=seed)
            for seed in range(effort.runs)
        ]
        with warnings.catch_warnings():  # doubts about an agent and thin tails: both are measured here
            warnings.simplefilter("ignore", UserWarning)
            learn_together(made, effort.steps, progress=False)
            for seed, agent in enumerate(made):
                greedy = exactly(mdp, agent.policy(deterministic=True))
                # What it says is about what it does; what a planner says, about its best policy.
                behaviour = greedy if name == PLANNER else exactly(mdp, agent.policy())
                truth, learned = behaviour.reward_distribution, agent.reward_distribution
                at_level = np.abs(learned.quantile(LEVELS) - truth.quantile(LEVELS))
                rows.append({
                    "world": world.title, "agent": name, "seed": seed,
                    "score": (greedy.average_reward - lowest) / (best - lowest),
                    "life": (agent.history.lifetime_reward - lowest) / (best - lowest),
                    "average_reward": agent.average_reward, "earned_reward": agent.earned_reward,
                    "average_error": abs(agent.average_reward - behaviour.average_reward) / unit,
                    "quantile_error": float(quantile_errors(learned, truth).max()) / unit,
                    "mean_quantile_error": float(at_level.mean()) / unit,
                    "largest_quantile_error_at_level": float(at_level.max()) / unit,
                    "cvar_error": abs(learned.cvar(0.01) - truth.cvar(0.01)) / unit,
                    "reward_range": unit, "random": lowest, "best": best,
                })  # fmt: skip
    return rows


MEASUREMENTS = tuple(
    Measurement(name=name, figure="defaults", measure=partial(measure_world, world)) for name, world in WORLDS.items()
)
"""Each writes one table, `<name>.parquet`."""


def measure(folder: Path, scale: Scale) -> tuple[int, int]:
    """Make the missing tables. Returns the number of tables found and the number of tables made."""
    return measure_missing(folder, scale, MEASUREMENTS, efforts=EFFORTS, title="defaults")


_GROUP_OF = {world.title: world.group for world in WORLDS.values()}


def all_worlds(folder: Path) -> pl.DataFrame:
    """The tables of all worlds as one. Raises MissingRuns if one is missing."""
    tables = [table(folder, each.name) for each in MEASUREMENTS]
    return pl.concat(tables).with_columns(group=pl.col("world").replace_strict(_GROUP_OF))


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


def claims(results: Results) -> list[Claim]:
    """What we claim of the Planner. A score is the mean over the runs of a world; an error is that of the worst run."""
    ours = per_world(all_worlds(results.folder)).filter(pl.col("agent") == PLANNER)
    median = float(np.median(ours["score"]))
    judged = [
        _score_claim(ours, LEAST),
        Claim(
            where="ours", says="", measured=f"{median:.4f} over {len(ours)} worlds", tolerance=f"{MEDIAN:g}",
            holds=median >= MEDIAN,
        ),
        _error_claim(ours, "average_error", AVERAGE_TOLERANCE),
        _error_claim(ours, "quantile_error", DISTRIBUTION_TOLERANCE),
        _error_claim(ours, "cvar_error", DISTRIBUTION_TOLERANCE),
    ]  # fmt: skip
    return [replace(claim, says=says, figure="defaults") for claim, says in zip(judged, STATEMENTS, strict=True)]


def _score_claim(worlds: pl.DataFrame, least: float) -> Claim:
    """That the score is at least this in every world."""
    ordered = worlds.sort("score")
    below = [f"{row['world']} {row['score']:.3f}" for row in ordered.iter_rows(named=True) if row["score"] < least]
    lowest = ordered.row(0, named=True)
    measured = (
        f"below it in {len(below)} of {len(ordered)} worlds: {', '.join(below)}"
        if below
        else f"the lowest of {len(ordered)} worlds is {lowest['world']} with {lowest['score']:.3f}"
    )
    worst = ordered.sort("lowest").row(0, named=True)
    measured += f"; the worst run has {worst['lowest']:.3f} ({worst['world']})"
    return Claim(where="ours", says="", measured=measured, tolerance=f"{least:g}", holds=not below)


def _error_claim(cases: pl.DataFrame, error: str, most: float) -> Claim:
    """That an error, as a share of the range of the rewards, is at most this in every run of every world."""
    worlds = cases.group_by("world", maintain_order=True).agg(pl.col(error).max()).sort(error, descending=True)
    above = [f"{world} {size:.1%}" for world, size in worlds.iter_rows() if size > most]
    world, largest = worlds.row(0)
    measured = (
        f"above it in {len(above)} of {len(worlds)} worlds: {', '.join(above)}"
        if above
        else f"the largest of {len(worlds)} worlds is {world} with {largest:.2%}"
    )
    return Claim(where="ours", says="", measured=measured, tolerance=f"{most:.0%}", holds=not above)
