"""The baselines beside what others published: Wan et al. (2021) and Sutton & Barto (2018). QR-DQN is in games.py."""

from __future__ import annotations

import itertools
import sys

import numpy as np
from measuring import table

import perstep
from perstep.worlds import access_control, two_loop

RUNS = 30
STEP_SIZES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
RATIOS = (0.125, 0.25, 0.5, 1.0, 2.0)


def main(*, quick: bool) -> None:
    runs = 5 if quick else RUNS
    loops, queue, wan = two_loop(), access_control(), "(Wan et al. 2021)"
    pairs = [(state, action) for state in range(queue.num_states) for action in range(queue.num_actions)]
    rows = [
        ("two-loop, 10k", "Differential Q", *best(loops, 10_000, runs, differential_settings()), f"0.380 {wan}"),
        ("access control, 80k", "Differential Q", *best(queue, 80_000, runs, differential_settings()), "above RVI"),
        ("access control, 80k", "RVI Q, f(Q) = mean", *best(queue, 80_000, runs, rvi_settings(["mean"])), ""),
        ("access control, 80k", "RVI Q, f(Q) = max", *best(queue, 80_000, runs, rvi_settings(["max"])), ""),
        (
            "access control, 80k",
            f"RVI Q, {len(pairs)} pairs",
            *best(queue, 80_000, runs, rvi_settings(pairs)),
            f"2.568 {wan}",
        ),
    ]
    table(
        f"Reward per step over the whole run, ε = 0.1, {runs} runs",
        ("world, steps", "algorithm", "best of the grid ± 95 %", "its setting", "worst", "published"),
        rows,
    )
    sarsa(quick=quick)


def differential_settings() -> list[dict]:
    return [
        {"rule": "differential", "step_size": alpha, "reward_ratio": eta}
        for alpha, eta in itertools.product(STEP_SIZES, RATIOS)
    ]


def rvi_settings(references: list[object]) -> list[dict]:
    return [
        {"rule": "rvi", "step_size": alpha, "reference": reference}
        for alpha, reference in itertools.product((0.025, 0.05, 0.1, 0.2), references)
    ]


def best(mdp: perstep.FiniteMDP, steps: int, runs: int, grid: list[dict]) -> tuple[str, str, str]:
    """What the best setting of a grid earns over all steps, the setting, and what the worst earns."""
    found = []
    for settings in grid:
        agents = [perstep.QLearning(mdp, preset="paper", epsilon=0.1, seed=seed, **settings) for seed in range(runs)]
        for agent in agents:
            agent.may_diverge = True
            agent.record_every(steps // 100)
        perstep.learn_together(agents, steps, progress=False)
        earned = np.array([agent.history.reward_rate.mean() for agent in agents])
        found.append((earned.mean(), 1.96 * earned.std(ddof=1) / np.sqrt(runs), settings))
    mean, error, settings = max(found, key=lambda row: row[0])
    words = ", ".join(f"{name} {value}" for name, value in settings.items() if name != "rule")
    return f"{mean:.4f} ± {error:.4f}", words, f"{min(row[0] for row in found):.3f}"


def sarsa(*, quick: bool) -> None:
    """Sutton & Barto, Example 10.2: differential Sarsa with α = β = 0.01, ε = 0.1, 2M steps; R̄ at the end was about 2.31."""
    rows = []
    for order in ("accept-first", "free-first"):
        mdp = access_control(order=order)
        agents = [
            perstep.make_agent(
                "differential-sarsa", mdp, preset="paper", step_size=0.01, reward_ratio=1.0, epsilon=0.1, seed=seed
            )
            for seed in range(4 if quick else RUNS)
        ]
        for agent in agents:
            agent.record_every(2000, rows=1002)
        perstep.learn_together(agents, 2_000_000, progress=False)
        average = np.array([agent.history.average_reward[-500:] for agent in agents])  # (runs, looks), the last half
        rate = np.array([agent.history.reward_rate[-500:] for agent in agents])
        soft = mdp.evaluate(mdp.solve().policy, epsilon=0.1).average_reward
        low, high = np.quantile(average, (0.05, 0.95))
        rows.append(
            (order, f"{average.mean():.3f}", f"{low:.2f} to {high:.2f}", f"{rate.mean():.3f}", f"{soft:.3f}", "2.31")
        )
    table(
        "Access control by differential Sarsa as in Sutton & Barto (α = β = 0.01): R̄ over the second million steps",
        ("order", "mean R̄", "90 % of looks", "earned", "best policy, ε = 0.1", "published"),
        rows,
    )


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
