"""Learners on tiles with their defaults in the worlds of the control table: what they earn while they learn, and afterwards.

python benchmarks/lives.py run [--seeds 10] [--version now] [--agents TileQ ActorCritic] [--worlds CartPole …]   # resumes
python benchmarks/lives.py table

Another version of the library writes its own rows: `PYTHONPATH=OLD/src python benchmarks/lives.py run --version before`. Where
games end, numbers are returns per game, over all games of the life and over those of 20,000 steps afterwards; elsewhere the
reward per step. Afterwards the policy acts without exploration (greedy), and as it behaves.
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

sys.path.append(str(Path(__file__).parent))
from measuring import table
from recent import world_named

import perstep

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "tiles" / "lives.parquet"
STEPS, EVALUATED, TILED = {"CartPole-v1": 50_000}, 20_000, 100_000
WORLDS = (
    "CartPole-v1", "MountainCar-v0", "Acrobot-v1", "perstep/PuckWorld-v0", "perstep/InvertedPendulum-v0",
    "perstep/PendulumSwingUp-v0", "perstep/Autoscaling-v0", "Battery",
)  # fmt: skip
AGENTS = {"TileQ": "d2", "ActorCritic": "d2"}  # with their default rule; other rules have the same actions
KEY = ("version", "agent", "world", "seed")


def measure(agent_name: str, world: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One life, and the policy at its end."""
    steps = STEPS.get(world, TILED)
    agent = getattr(perstep, agent_name)(world_named(world), rule=AGENTS[agent_name], seed=seed, **settings)
    agent.record_every(steps // 100).learn(steps, progress=False)
    history = agent.history
    games, sums = history.episodes, np.nan_to_num(history.episode_return) * history.episodes
    ends = world.endswith(("v1", "Car-v0")) and bool(games.any())
    rates = sums.sum() / games.sum() if ends else history.reward_rate.mean()
    late = sums[-10:].sum() / max(games[-10:].sum(), 1) if ends else history.reward_rate[-10:].mean()
    found = {"life": float(rates), "late": float(late)}
    for name, deterministic in (("greedy", True), ("as it acts", False)):
        evaluation = agent.evaluate(EVALUATED, deterministic=deterministic, seed=seed)
        returns = evaluation.episode_returns
        found[name] = float(np.mean(returns)) if ends and len(returns) else float(evaluation.average_reward)
    unit = float(np.ptp(agent.reward_distribution.means)) or 1.0
    off = abs(float(agent.average_reward) - float(agent.reward_distribution.mean)) / unit
    return {**found, "average off": off}


def read() -> pl.DataFrame | None:
    """The runs so far."""
    return pl.read_parquet(RESULTS) if RESULTS.exists() else None


def run(version: str, agents: list[str], worlds: list[str], seeds: int, settings: dict[str, Any]) -> None:
    """All runs that are not in the file yet, seed after seed; the file is published by rename after each."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for seed, agent, world in itertools.product(range(seeds), agents, worlds):
        known, key = read(), dict(zip(KEY, (version, agent, world, seed), strict=True))
        if known is not None and known.filter(**key).height:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # findings: they are measured here
            row = pl.DataFrame([{**key, **measure(agent, world, seed, settings)}])
        unfinished = RESULTS.with_suffix(".unfinished")
        (row if known is None else pl.concat([known, row])).write_parquet(unfinished)
        unfinished.replace(RESULTS)


def show() -> None:
    """Mean ± standard error over seeds."""
    if (runs := read()) is None:
        return
    rows = []
    for (agent, world, version), found in runs.sort("agent", "world", "version").group_by(
        "agent", "world", "version", maintain_order=True
    ):
        numbers = []
        for name in ("life", "late", "greedy", "as it acts"):
            values = found[name].to_numpy()
            digits = 1 if abs(values.mean()) >= 30 else 2 if abs(values.mean()) >= 3 else 3
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            numbers.append(f"{values.mean():.{digits}f} ± {error:.{digits}f}")
        numbers.append(f"{found['greedy'].min():.4g}")
        rows.append((agent, world, version, found.height, *numbers, f"{found['average off'].max():.1%}"))
    columns = (
        "agent", "world", "version", "seeds", "life", "last tenth", "greedy", "as it acts", "worst greedy", "R̄ − earned",
    )  # fmt: skip
    table("Lives and trained policies", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="make the runs that are not in the file yet")
    running.add_argument("--seeds", type=int, default=10)
    running.add_argument("--version", default="now", help="the name of this version of the library in the table")
    running.add_argument("--agents", nargs="+", choices=tuple(AGENTS), default=list(AGENTS))
    running.add_argument("--worlds", nargs="+", default=list(WORLDS))
    running.add_argument("--settings", nargs="*", default=[], metavar="NAME=NUMBER", help="that are not the defaults")
    commands.add_parser("table", help="print the results so far")
    arguments = parser.parse_args()
    if arguments.command == "run":
        settings = {name: float(number) for name, _, number in (pair.partition("=") for pair in arguments.settings)}
        run(arguments.version, arguments.agents, arguments.worlds, arguments.seeds, settings)
    show()


if __name__ == "__main__":
    main()
