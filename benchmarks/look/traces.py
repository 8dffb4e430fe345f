"""Do values and R̄ stay where they should on tiles? Ten worlds × agents × rules × λ: the largest |Q| and |R̄ − earned|.

python benchmarks/look/traces.py [--seeds 5] [--steps 20000] [--show]   # resumes, seed after seed
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.append(str(Path(__file__).parents[1]))
from measuring import table

import perstep
from perstep.numerics.scale import REWARD
from worlds import TwoLoops

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "look" / "traces.parquet"
WORLDS = (
    "CartPole-v1", "MountainCar-v0", "Acrobot-v1", "perstep/CartPole-v0", "perstep/MountainCar-v0", "perstep/Acrobot-v0",
    "perstep/InvertedPendulum-v0", "perstep/PendulumSwingUp-v0", "perstep/PuckWorld-v0", "two-loops-100",
)  # fmt: skip
AGENTS = (perstep.TileQ, perstep.ActorCritic)
RULES = ("differential", "d2", "d3")
LAMBDAS = (0.0, 0.5, 0.7, 0.9, 0.95)


def measure(world: str, agent_type: Any, rule: str, decay: float, seed: int, steps: int) -> dict[str, Any]:
    """One run. Both numbers are in units of the largest reward so far, from the mean; |Q| is at most the largest weight of every
    tiling."""
    env = TwoLoops(100) if world == "two-loops-100" else world
    agent = agent_type(env, rule=rule, trace_decay=decay, seed=seed).learn(steps, progress=False)
    rewards = agent.reward_distribution
    unit = float(agent._rewards.units[REWARD + 1]) or 1.0
    weights = agent._run.weights.critic.mean(axis=2)
    return {
        "world": world,
        "agent": agent_type.__name__,
        "rule": rule,
        "decay": decay,
        "largest": agent.config.tilings * float(np.abs(weights).max()) / unit,
        "off": abs(agent.average_reward - rewards.mean) / unit,
    }


def read() -> pl.DataFrame | None:
    """The runs so far."""
    return pl.read_parquet(RESULTS) if RESULTS.exists() else None


def run(seeds: int, steps: int) -> None:
    """All agents of the seeds that are not in the file yet; it is published by rename after each."""
    for seed, agent_type in itertools.product(range(seeds), AGENTS):
        known = read()
        if known is not None and known.filter(seed=seed, agent=agent_type.__name__).height:
            continue
        cells = itertools.product(RULES, WORLDS, LAMBDAS)
        rows = [{"seed": seed, **measure(world, agent_type, rule, decay, seed, steps)} for rule, world, decay in cells]
        found = pl.DataFrame(rows)
        unfinished = RESULTS.with_suffix(".unfinished")
        (found if known is None else pl.concat([known, found])).write_parquet(unfinished)
        unfinished.replace(RESULTS)


def show() -> None:
    """The largest values of each agent in each world, by λ."""
    if (runs := read()) is None:
        return
    shown = [
        (
            agent, world, found["seed"].n_unique(), *(f"{found.filter(decay=decay)['largest'].max():.3g}" for decay in LAMBDAS),
            f"{found['off'].median():.2%}", f"{found['off'].max():.2%}",
        )
        for (agent, world), found in runs.group_by("agent", "world", maintain_order=True)
    ]  # fmt: skip
    columns = (
        "agent", "world", "seeds", *(f"λ = {decay:g}" for decay in LAMBDAS), "|R̄ − earned|, median", "largest",
    )  # fmt: skip
    table(f"Largest |Q| over {len(RULES)} rules, in units of the largest reward; {runs.height} runs", columns, shown)
    print(
        f"largest |Q|: {runs['largest'].max():.4g} times the largest reward; |R̄ − earned|: {runs['off'].max():.2%} of it"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--show", action="store_true", help="print what is there, and run nothing")
    arguments = parser.parse_args()
    if not arguments.show:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # findings: what they are about is measured here
            run(arguments.seeds, arguments.steps)
    show()


if __name__ == "__main__":
    main()
