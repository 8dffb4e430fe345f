"""Agents with their defaults in worlds where the look must be long: what the greedy policy earns, and what R̄ says. "settings":
networks with one setting that is another.

python benchmarks/look/run.py [--agents tiles networks settings] [--seeds 10] [--worlds two-loops-30 …] [--only "TileQ d2"] [--show]

It resumes: no run is made twice.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

sys.path.append(str(Path(__file__).parents[1]))
from measuring import table

import perstep
from worlds import LateStock, TwoLoops, WearingMachine

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "look"


class LookWorld(NamedTuple):
    """A world, what its best policy earns, and the steps in which that is measured."""

    make: Callable[[], Any]
    optimum: float
    evaluation: int


class Learner(NamedTuple):
    """An agent, its steps of learning, and where it is measured."""

    agent: Callable[..., Any]
    rule: str
    steps: int
    worlds: tuple[str, ...]
    settings: Mapping[str, Any] = {}  # that are not the defaults


WORLDS = {
    **{f"two-loops-{n}": LookWorld(lambda n=n: TwoLoops(n), 3.0, 4 * n) for n in (30, 100, 300, 1000)},
    "late-stock": LookWorld(LateStock, 0.275, 50_000),
    "wearing-machine": LookWorld(WearingMachine, 0.988, 50_000),
}  # fmt: skip
RULES = ("differential", "d2", "d3", "categorical")
AGENTS: dict[str, dict[str, Learner]] = {
    "tiles": {
        f"{agent.__name__} {rule}": Learner(agent, rule, steps, tuple(WORLDS))
        for agent, steps in ((perstep.TileQ, 100_000), (perstep.ActorCritic, 300_000))
        for rule in RULES
    },
    "networks": {
        f"DeepQ {rule}": Learner(
            perstep.DeepQ, rule, 100_000, tuple(world for world in WORLDS if world != "two-loops-1000")
        )
        for rule in ("d3", "d2", "differential", "categorical")
    },
    "settings": {
        f"DeepQ d3, {name}={value:g}": Learner(perstep.DeepQ, "d3", 40_000, ("two-loops-300",), {name: value})
        for name, value in (("target_lag", 800.0), ("target_lag", 20.0))
    },
}


def measure(learner: Learner, world: LookWorld, seed: int) -> dict[str, Any]:
    """One run: the greedy policy from the start of the world, and what was earned and said at the end of learning."""
    begin = time.monotonic()
    agent = learner.agent(world.make(), rule=learner.rule, seed=seed, **learner.settings).learn(
        learner.steps, progress=False
    )
    return {
        "steps": learner.steps,
        "optimum": world.optimum,
        "greedy": float(agent.evaluate(world.evaluation, deterministic=True, seed=1).average_reward),
        "as it acts": float(agent.evaluate(world.evaluation, seed=1).average_reward),
        "earned": float(agent.reward_distribution.mean),
        "life": float(agent.history.lifetime_reward),
        "average_reward": float(agent.average_reward),
        "seconds": time.monotonic() - begin,
    }


def read(agents: str) -> pl.DataFrame | None:
    """The runs of a family so far."""
    file = RESULTS / f"{agents}.parquet"
    return pl.read_parquet(file) if file.exists() else None


def run(agents: str, worlds: list[str], only: list[str], seeds: int) -> None:
    """All runs that are not in the file yet, seed after seed; the file is published by rename after each."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for seed in range(seeds):
        for world in worlds:
            for name, learner in AGENTS[agents].items():
                known = read(agents)
                key = {"world": world, "agent": name, "seed": seed}
                if (
                    world not in learner.worlds
                    or (only and name not in only)
                    or (known is not None and known.filter(**key).height)
                ):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # findings: they are counted here
                    row = pl.DataFrame([{**key, **measure(learner, WORLDS[world], seed)}])
                unfinished = RESULTS / f"{agents}.unfinished"
                (row if known is None else pl.concat([known, row])).write_parquet(unfinished)
                unfinished.replace(RESULTS / f"{agents}.parquet")


def show(agents: str) -> None:
    """For each agent and world: seeds, in how many 97 % of the optimum is earned greedily, and R̄ beside the policy's reward."""
    runs = read(agents)
    if runs is None:
        return
    rows = []
    for (world, name), found in runs.group_by("world", "agent", maintain_order=True):
        optimum = found["optimum"][0]
        off = ((found["average_reward"] - found["earned"]) / optimum).abs()
        greedy = found["greedy"]
        good = int((greedy >= 0.967 * optimum).sum())  # 2.9 of 3
        rows.append(
            (
                world, name, found.height, good, f"{greedy.min():.3f}",
                *(f"{found[column].median():.3f}" for column in ("greedy", "as it acts", "life", "average_reward")),
                f"{off.max():.1%}",
            )
        )  # fmt: skip
    columns = (
        "world",
        "agent",
        "seeds",
        "good",
        "worst greedy",
        "greedy",
        "as it acts",
        "life",
        "R̄",
        "|R̄ − earned|, worst",
    )
    table(f"{agents}: medians over seeds; good: 2.9/3 of the optimum, greedily", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", nargs="+", choices=tuple(AGENTS), default=list(AGENTS))
    parser.add_argument("--worlds", nargs="+", choices=tuple(WORLDS), default=list(WORLDS))
    parser.add_argument("--only", nargs="+", metavar="AGENT", default=[], help="agents with their rules, as 'TileQ d2'")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--show", action="store_true", help="print what is there, and run nothing")
    arguments = parser.parse_args()
    for agents in arguments.agents:
        if not arguments.show:
            run(agents, arguments.worlds, arguments.only, arguments.seeds)
        show(agents)


if __name__ == "__main__":
    main()
