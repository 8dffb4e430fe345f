"""Where the printed algorithms stop short: on access control (docs/decisions/0001-learned-offset.md), and with a network in
two-loop (docs/learners/deep-q.md)."""

from __future__ import annotations

import importlib.util

import numpy as np
from measuring import table

import perstep
from perstep.worlds import access_control, two_loop

CASES = (
    ("Differential, η = 0.05", {"rule": "differential", "reward_ratio": 0.05}),
    ("Differential, η = 1", {"rule": "differential", "reward_ratio": 1.0}),
    ("D2 as printed, m = 51", {"rule": "d2", "reward_ratio": 1.0}),
    ("D2 as printed, m = 200", {"rule": "d2", "reward_ratio": 1.0, "num_quantiles": 200}),
    ("D2 + offset, η_b = 0.05", {"rule": "d2", "reward_ratio": 1.0, "offset_ratio": 0.05}),
    ("D2 + offset, η_b = 0.125", {"rule": "d2", "reward_ratio": 1.0, "offset_ratio": 0.125}),
    ("D3 as printed, n = 51", {"rule": "d3", "reward_ratio": 1.0}),
)


DEEP_CASES = (
    ("Differential", {"rule": "differential"}),
    ("D2 as printed, m = 10", {"rule": "d2", "num_quantiles": 10, "reward_tracking": "per-sample"}),
    (
        "D2 + offset, η_b = 20",
        {"rule": "d2", "num_quantiles": 10, "reward_tracking": "per-sample", "offset_ratio": 20.0},
    ),
    ("D2 as printed, batch means", {"rule": "d2", "num_quantiles": 10, "reward_tracking": "batch-mean"}),
    ("D3 as printed, n = 10", {"rule": "d3", "num_quantiles": 10, "reward_tracking": "per-sample"}),
)


def main(*, quick: bool) -> None:
    tables(quick=quick)
    if importlib.util.find_spec("torch") is None:
        print("networks: skipped, torch is not installed")
    else:
        networks(quick=quick)


def networks(*, quick: bool) -> None:
    """The level of Q and, in D3, the spread of Ω, as a network continues to learn long after its policy is found."""
    mdp = two_loop()
    looks = (2_000, 4_000, 8_000) if quick else (10_000, 20_000, 40_000)
    rows = []
    for name, settings in DEEP_CASES:
        agent = perstep.DeepQ(
            mdp, step_size=1e-3, reward_ratio=20.0, target_step_size=0.05, hidden=(16,), replay_capacity=1000,
            epsilon=0.1, epsilon_steps=1000, threads=1, device="cpu", **settings,
        )  # fmt: skip
        cells = []
        for step in looks:
            agent.learn(step - agent.steps)
            values = np.array([agent.action_values(state) for state in range(mdp.num_states)])
            cells.append(f"{values.mean():.1f}")
            if agent.config.rule == "d3":
                cells[-1] += f" ± {np.mean([agent.return_quantiles(s, 0).std() for s in range(mdp.num_states)]):.1f}"
        gain = mdp.evaluate([int(agent.predict(state)[0]) for state in range(mdp.num_states)]).average_reward
        rows.append((name, f"{gain:.1f}", f"{agent.average_reward:.3f}", *cells))
    table(
        "Two-loop with a network of 16 units (optimum 0.4; 0.1-greedy earns less): mean Q, ± spread of Ω, after so many steps",
        ("algorithm", "greedy gain", "R̄", *(f"{step:,}" for step in looks)),
        rows,
    )


def tables(*, quick: bool) -> None:
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
