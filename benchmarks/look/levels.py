"""How large the values of networks become: one or three steps before the bootstrap, and other shares κ of the level.

python benchmarks/look/levels.py [--seeds 1] [--steps 10000] [--show]   # resumes
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import polars as pl

sys.path.append(str(Path(__file__).parents[1]))
from measuring import table

import perstep
from perstep.numerics.randomness import make_generator
from worlds import TwoLoops

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "look" / "levels.parquet"
WORLDS: dict[str, Callable[[], Any]] = {
    **{
        name: lambda name=name: gymnasium.make(name)
        for name in ("CartPole-v1", "Acrobot-v1", "perstep/Autoscaling-v0", "perstep/PuckWorld-v0")
    },
    "two-loops-300": lambda: TwoLoops(300),
}
RULES = ("d3", "d2")  # R̄ follows the stream, so that the values of differential are those of d2, to the bit
SHARES = (0.0, 0.001, 0.1, 1.0)  # κ, beside that of the defaults
LOOKS = 20  # in a life


class Cell(NamedTuple):
    """One kind of life."""

    world: str
    rule: str = "d3"
    return_steps: int = 3
    level_ratio: float = 0.01


CELLS = (
    *(Cell(world, rule, n) for rule in RULES for n in (3, 1) for world in WORLDS),
    *(Cell(world, level_ratio=share) for world in ("CartPole-v1", "two-loops-300") for share in SHARES),
)


def measure(cell: Cell, seed: int, steps: int) -> dict[str, Any]:
    """The largest |Q| of minibatches, at evenly spaced moments of a life, beside the largest reward."""
    settings = cell._asdict()
    agent = perstep.DeepQ(WORLDS[settings.pop("world")](), seed=seed, threads=1, **settings)
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
        "life": float(agent.history.lifetime_reward),
    }


def read() -> pl.DataFrame | None:
    """The runs so far."""
    return pl.read_parquet(RESULTS) if RESULTS.exists() else None


def run(seeds: int, steps: int) -> None:
    """All runs that are not in the file yet; it is published by rename after each."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for seed, cell in itertools.product(range(seeds), CELLS):
        known, key = read(), {**cell._asdict(), "seed": seed}
        if known is not None and known.filter(**key).height:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # doubts about lives as short as these
            row = pl.DataFrame([{**key, **measure(cell, seed, steps)}])
        unfinished = RESULTS.with_suffix(".unfinished")
        (row if known is None else pl.concat([known, row])).write_parquet(unfinished)
        unfinished.replace(RESULTS)


def show() -> None:
    """For each kind of life the largest |Q|, that of its first half, and what was earned."""
    if (runs := read()) is None:
        return
    rows = [
        (
            *cell, found.height,
            *(f"{found[name].max():.4g}" for name in ("largest", "largest in the first half", "last", "largest reward")),
            *(f"{found[name].mean():.3f}" for name in ("average_reward", "earned", "life")),
        )
        for cell, found in runs.group_by(*Cell._fields, maintain_order=True)
    ]  # fmt: skip
    columns = (
        "world",
        "rule",
        "n",
        "κ",
        "seeds",
        "largest |Q|",
        "in the first half",
        "last",
        "largest |R|",
        "R̄",
        "earned",
        "life",
    )
    table(f"Networks, {runs['steps'][0]:,} steps", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--show", action="store_true", help="print what is there, and run nothing")
    arguments = parser.parse_args()
    if not arguments.show:
        run(arguments.seeds, arguments.steps)
    show()


if __name__ == "__main__":
    main()
