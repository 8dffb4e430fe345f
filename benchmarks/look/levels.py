"""How large the values of networks become with the defaults, for every rule, with one and with three steps before the bootstrap.

python benchmarks/look/levels.py [--seeds 1] [--steps 20000] [--show]   # resumes
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.append(str(Path(__file__).parents[1]))
from measuring import table

import perstep
from perstep.numerics.randomness import make_generator

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "look" / "levels.parquet"
WORLDS = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "perstep/Autoscaling-v0", "perstep/PuckWorld-v0")
RULES = ("d3", "d2", "differential")
LOOKS = 20  # in a life


def measure(world: str, rule: str, return_steps: int, seed: int, steps: int) -> dict[str, Any]:
    """The largest |Q| of minibatches, at evenly spaced moments of a life, beside the largest reward."""
    agent = perstep.DeepQ(world, rule=rule, return_steps=return_steps, seed=seed, threads=1)
    generator, sizes = make_generator(seed, 7), []
    for _ in range(LOOKS):
        agent.learn(steps // LOOKS, progress=False)
        values = agent._network.scores(agent._replay.sample(generator).observation)
        sizes.append(float(np.abs(values).max()))
    return {
        "steps": steps,
        "largest": max(sizes),
        "largest in the first half": max(sizes[: LOOKS // 2]),
        "last": sizes[-1],
        "largest reward": float(np.abs(agent.reward_distribution.means).max()) + abs(agent.reset_cost or 0.0),
        "average_reward": float(agent.average_reward),
        "earned": float(agent.reward_distribution.mean),
    }


def read() -> pl.DataFrame | None:
    """The runs so far."""
    return pl.read_parquet(RESULTS) if RESULTS.exists() else None


def run(seeds: int, steps: int) -> None:
    """All runs that are not in the file yet; it is published by rename after each."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    cells = [(seed, rule, n, world) for seed in range(seeds) for rule in RULES for n in (3, 1) for world in WORLDS]
    for seed, rule, return_steps, world in cells:
        known, key = read(), {"world": world, "rule": rule, "return_steps": return_steps, "seed": seed}
        if known is not None and known.filter(**key).height:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # doubts about lives as short as these
            row = pl.DataFrame([{**key, **measure(world, rule, return_steps, seed, steps)}])
        unfinished = RESULTS.with_suffix(".unfinished")
        (row if known is None else pl.concat([known, row])).write_parquet(unfinished)
        unfinished.replace(RESULTS)


def show() -> None:
    """For each world, rule and n: the largest |Q| of a life, and that of its first half."""
    if (runs := read()) is None:
        return
    rows = [
        (
            world, rule, n, found.height,
            *(f"{found[name].max():.4g}" for name in ("largest", "largest in the first half", "last", "largest reward")),
            f"{found['average_reward'].mean():.3f}", f"{found['earned'].mean():.3f}",
        )
        for (world, rule, n), found in runs.group_by("world", "rule", "return_steps", maintain_order=True)
    ]  # fmt: skip
    columns = ("world", "rule", "n", "seeds", "largest |Q|", "in the first half", "last", "largest |R|", "R̄", "earned")
    table(f"Networks with their defaults, {runs['steps'][0]:,} steps", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--show", action="store_true", help="print what is there, and run nothing")
    arguments = parser.parse_args()
    if not arguments.show:
        run(arguments.seeds, arguments.steps)
    show()


if __name__ == "__main__":
    main()
