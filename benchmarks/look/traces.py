"""Do values and R̄ stay where they should on tiles? Ten worlds × agents × rules × λ: the largest |Q| and |R̄ − earned|.

python benchmarks/look/traces.py [--seeds 1] [--steps 20000]
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
from worlds import TwoLoops

WORLDS = (
    "CartPole-v1", "MountainCar-v0", "Acrobot-v1", "perstep/CartPole-v0", "perstep/MountainCar-v0", "perstep/Acrobot-v0",
    "perstep/InvertedPendulum-v0", "perstep/PendulumSwingUp-v0", "perstep/PuckWorld-v0", "two-loops-100",
)  # fmt: skip
AGENTS = (perstep.TileQ, perstep.ActorCritic)
RULES = ("differential", "d2", "d3")
LAMBDAS = (0.0, 0.5, 0.7, 0.9, 0.95)


def measure(world: str, agent_type: Any, rule: str, decay: float, seed: int, steps: int) -> dict[str, Any]:
    """One run. Both numbers are shares of the range of the recent rewards; |Q| is at most the largest weight of every tiling."""
    env = TwoLoops(100) if world == "two-loops-100" else world
    agent = agent_type(env, rule=rule, trace_decay=decay, seed=seed).learn(steps, progress=False)
    rewards = agent.reward_distribution
    unit = float(np.ptp(rewards.means)) or 1.0
    weights = agent._run.weights.critic.mean(axis=2)
    return {
        "world": world,
        "agent": agent_type.__name__,
        "rule": rule,
        "decay": decay,
        "largest": agent.config.tilings * float(np.abs(weights).max()) / unit,
        "off": abs(agent.average_reward - rewards.mean) / unit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    arguments = parser.parse_args()
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # findings: what they are about is measured here
        for seed in range(arguments.seeds):
            for agent_type, rule, world, decay in itertools.product(AGENTS, RULES, WORLDS, LAMBDAS):
                rows.append(measure(world, agent_type, rule, decay, seed, arguments.steps))
    runs = pl.DataFrame(rows)
    shown = [
        (
            agent,
            world,
            *(f"{found.filter(decay=decay)['largest'].max():.3g}" for decay in LAMBDAS),
            f"{found['off'].max():.2%}",
        )
        for (agent, world), found in runs.group_by("agent", "world", maintain_order=True)
    ]
    columns = ("agent", "world", *(f"λ = {decay:g}" for decay in LAMBDAS), "|R̄ − earned|")
    table(f"Largest |Q| over {len(RULES)} rules, in ranges of the reward; {runs.height} runs", columns, shown)
    print(f"largest |Q|: {runs['largest'].max():.4g} ranges of the reward; |R̄ − earned|: {runs['off'].max():.2%} of it")


if __name__ == "__main__":
    main()
