"""What agents learn beyond the paper: coverage of their forecasts, and CVaR of their policies. What each costs: costs.py.

Forecasts: the share of simulated sums of the best policy in the 90 % band of the agent, for agents with default settings. In finite
worlds the agent is the Planner; and its bands are made early as well, in random worlds, with what is not known in them.
Risk: the share of agents whose greedy policy has the best CVaR of all policies, but for 0.002.
"""

from __future__ import annotations

import numpy as np
from measuring import table

import perstep
from perstep.agent.agent import Agent
from perstep.agent.evaluation import Evaluation
from perstep.display.progress import Bar
from perstep.numerics.randomness import make_generator
from perstep.worlds import (
    access_control,
    garnet,
    inventory,
    maintenance,
    red_pill_blue_pill,
    routing,
    service_queue,
)

WORLDS = {
    "red-pill": red_pill_blue_pill,
    "access control": access_control,
    "Garnet(10, 3, 3)": lambda: garnet(10, 3, 3, seed=1),
    "inventory": inventory,
    "maintenance": maintenance,
    "service queue": service_queue,
    "routing": routing,
}
LENGTHS = {10: 20_000, 100: 20_000, 1_000: 5_000, 10_000: 1_000}  # H → number of simulated sums
LEVELS = (0.1, 0.25, 0.5, 0.9)
ENOUGH = 0.002


def inside(sums: np.ndarray, agent: Agent | Evaluation, num_steps: int) -> float:
    """The share of the sums in the 90 % band."""
    low, high = agent.forecast(num_steps).interval(0.9)
    return float(np.mean((low <= sums) & (sums <= high)))


def on_a_table(make: object, steps: int, seed: int) -> list[float]:
    """Variance learnt and exact, error of the gain in standard errors, coverage at all lengths."""
    mdp = make()  # type: ignore[operator]
    agent = perstep.Planner(mdp, seed=seed).learn(steps, progress=False)
    exact = mdp.evaluate(agent.policy(deterministic=True), start=mdp.initial)
    long = agent.forecast(10**9)
    off = (long.mean - 1e9 * exact.average_reward) / long.mean_error
    sums = {H: exact.forecast(H, num_paths=number, seed=seed).samples for H, number in LENGTHS.items()}
    return [long.variance / 1e9 / exact.asymptotic_variance, off, *(inside(sums[H], agent, H) for H in LENGTHS)]


def in_the_pendulum(steps: int, seed: int) -> list[float]:
    """The same for tiles: the forecast of an evaluation, and consecutive parts of another run of the greedy policy."""
    learner = perstep.TileQ("perstep/InvertedPendulum-v0", seed=seed).learn(steps, progress=False)
    rewards = np.full(10_000_000, np.nan)  # a thousand sums of 10,000 steps
    learner._follow(make_generator(seed, 7), make_generator(seed, 3), rewards.size, True, rewards)
    agent = learner.evaluate(1_000_000, deterministic=True)
    rewards = rewards[10_000:]
    parts = {H: rewards[: rewards.size // H * H].reshape(-1, H).sum(axis=1) for H in LENGTHS}
    long = agent.forecast(10**9)
    exact = parts[10_000].var() / 10_000
    off = (long.mean / 1e9 - rewards.mean()) / (long.mean_error / 1e9)
    return [long.variance / 1e9 / exact, off, *(inside(parts[H], agent, H) for H in LENGTHS)]


def forecasts(*, quick: bool) -> None:
    steps, seeds = (200_000, 1) if quick else (1_000_000, 5)
    rows = []
    with Bar((len(WORLDS) + 1) * seeds, "forecasts", show=None) as bar:
        for name in (*WORLDS, "pendulum (tiles)"):
            found = []
            for seed in range(seeds):
                make = WORLDS.get(name)
                found.append(in_the_pendulum(3 * steps, seed) if make is None else on_a_table(make, steps, seed))
                bar.update(len(rows) * seeds + seed + 1, name)
            mean, spread = np.mean(found, axis=0), np.array(found)
            worst = [f"{low:.3f}–{high:.3f}" for low, high in zip(spread.min(0)[2:], spread.max(0)[2:], strict=True)]
            rows.append((name, f"{mean[0]:.3f}", f"{np.sqrt(np.mean(spread[:, 1] ** 2)):.1f}", *worst))
            print(*rows[-1], flush=True)
    table(
        "Forecasts of learnt agents",
        ["world", "σ²/exact", "error of R̄ / its standard error", *(f"H = {H:,}" for H in LENGTHS)],
        rows,
    )


def random_world(number: int) -> perstep.FiniteMDP:
    """A Garnet, a queue or an access control with random settings."""
    random, kind = np.random.default_rng(number), number % 4
    if kind == 2:
        arrival, cost = float(random.uniform(0.1, 0.45)), float(random.uniform(0.3, 3.0))
        return service_queue(int(random.integers(5, 40)), arrival=arrival, holding_cost=cost)
    if kind == 3:
        return access_control(
            num_servers=int(random.integers(3, 12)), free_probability=float(random.uniform(0.03, 0.2))
        )
    states, actions, branching = (int(random.integers(*ends)) for ends in ((5, 60), (2, 5), (2, 6)))
    return garnet(states, actions, branching, seed=number, reward_sd=float(random.choice([0.0, 0.5, 1.0])))


def promises(*, quick: bool) -> None:
    """The chance that the next 1,000 rewards of the best policy fall into its band, made after few steps and after many."""
    worlds, moments, found = 20 if quick else 200, (1_000, 10_000, 100_000), []
    with Bar(worlds, "promises", show=None) as bar:
        for number in range(worlds):
            mdp = random_world(number)
            agent, row = perstep.Planner(mdp, seed=number), []
            for moment in moments:
                agent.learn(moment - agent.steps, progress=False)
                low, high = agent.forecast(1_000).interval(0.9)
                state = np.arange(mdp.num_states) == agent._state_now
                truth = mdp.evaluate(agent.policy(deterministic=True), start=state)
                sums = truth.forecast(1_000, start=state.astype(float), num_paths=500, seed=number).samples
                row.append(float(np.mean((low <= sums) & (sums <= high))))
            found.append(row)
            bar.update(number + 1)
    kinds = {"Garnets": (0, 1), "queues": (2,), "access controls": (3,), "all": (0, 1, 2, 3)}
    rows = [
        (name, *(f"{x:.3f}" for x in np.mean([row for i, row in enumerate(found) if i % 4 in which], axis=0)))
        for name, which in kinds.items()
    ]
    table("The next 1,000 rewards in the 90 % band", ["worlds", *(f"after {n:,} steps" for n in moments)], rows)


def risk(*, quick: bool) -> None:
    steps, seeds = (50_000, 2) if quick else (200_000, 10)
    worlds = {"red-pill": red_pill_blue_pill(), **{f"Garnet seed {i}": garnet(5, 2, 3, seed=i) for i in range(10)}}
    rows = []
    for name, mdp in worlds.items():
        best = {level: mdp.solve(risk_level=level).cvar for level in LEVELS}
        row: list[str] = [name]
        for level in LEVELS:
            made = [perstep.Planner(mdp, risk_level=level, seed=seed) for seed in range(seeds)]
            perstep.learn_together(made, steps, progress=False)
            lost = [best[level] - cvar(agent, level) for agent in made]
            row.append(f"{sum(loss <= ENOUGH for loss in lost)} of {seeds}")
        rows.append(tuple(row))
        print(*row, flush=True)
    table("Agents whose policy has the best CVaR", ["world", *(f"τ = {level:g}" for level in LEVELS)], rows)


def queues(*, quick: bool) -> None:
    """Worlds whose rewards are skewed: what the agents' policies have, and the best policy."""
    rows = []
    for name in ("service queue", "routing"):
        mdp = WORLDS[name]()
        made = [perstep.Planner(mdp, risk_level=0.1, seed=seed) for seed in range(2 if quick else 10)]
        for steps in (50_000, 150_000) if quick else (50_000, 150_000, 800_000):
            perstep.learn_together(made, steps, progress=False)
            found = [cvar(agent, 0.1) for agent in made]
            shown = f"{np.median(found):.2f}", f"{min(found):.2f}", f"{mdp.solve(risk_level=0.1).cvar:.2f}"
            rows.append((name, f"{made[0].steps:,}", *shown))
            print(*rows[-1], flush=True)
    table("CVaR at the level 0.1", ["world", "steps", "median agent", "worst agent", "best policy"], rows)


def cvar(agent: perstep.QLearning, level: float) -> float:
    """Of the greedy policy, from the state where it is most of the time."""
    assert agent.mdp is not None
    state = int(agent.visits.sum(axis=1).argmax())
    return agent.mdp.evaluate(agent.policy(deterministic=True), start=state).reward_distribution.cvar(level)


def main(*, quick: bool = False) -> None:
    """All of it."""
    forecasts(quick=quick)
    promises(quick=quick)
    risk(quick=quick)
    queues(quick=quick)


if __name__ == "__main__":
    main()
