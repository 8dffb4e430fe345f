"""Where the printed algorithms stop short, measured on access control (docs/decisions/0001-learned-offset.md)."""

from __future__ import annotations

import numpy as np
from measuring import table

import perstep
from perstep.environments import access_control

CASES = (
    ("Differential, η = 0.05", {"rule": "differential", "reward_ratio": 0.05}),
    ("Differential, η = 1", {"rule": "differential", "reward_ratio": 1.0}),
    ("D2 as printed, m = 51", {"rule": "d2", "reward_ratio": 1.0}),
    ("D2 as printed, m = 200", {"rule": "d2", "reward_ratio": 1.0, "num_quantiles": 200}),
    ("D2 + offset, η_b = 0.05", {"rule": "d2", "reward_ratio": 1.0, "offset_ratio": 0.05}),
    ("D2 + offset, η_b = 0.125", {"rule": "d2", "reward_ratio": 1.0, "offset_ratio": 0.125}),
    ("D3 as printed, n = 51", {"rule": "d3", "reward_ratio": 1.0}),
)


def main(*, quick: bool) -> None:
    mdp = access_control()
    best = mdp.solve().average_reward
    steps = 400_000 if quick else 4_000_000
    rows = []
    for name, settings in CASES:
        agents = [perstep.QLearning(mdp, step_size=0.025, epsilon=0.1, seed=seed, **settings) for seed in range(8)]
        perstep.learn_together(agents, steps)
        gains = [mdp.evaluate(agent.policy(deterministic=True)).average_reward for agent in agents]
        level = np.mean([agent.all_action_values.mean() for agent in agents])
        rows.append((name, f"{min(gains):.4f}", f"{np.mean(gains):.4f}", f"{max(gains):.4f}", f"{level:.2f}"))
    table(
        f"Access control, {steps:,} steps, ε = 0.1, α = 0.025, 8 seeds: exact gain of the greedy policy (optimum {best:.4f})",
        ("algorithm", "lowest", "mean", "highest", "mean Q"),
        rows,
    )
