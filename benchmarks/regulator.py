"""How far the greedy policy of a soft actor-critic is from the optimum of linear-quadratic control, without noise of evaluation.

`python benchmarks/regulator.py [--rule d2] [--dimensions 2] [--steps 8000] [--then 3e-4]`

The cost of a policy u(x) is the optimal one plus E[eᵀ M e] over the states that it visits, with e = u(x) + K x, M = ρ I + Bᵀ P B.
So it is known without a difference of two noisy averages, and it falls into a constant, a linear and a remaining part of e. After
the life the agent learns 3,000 steps more with the step `--then`, and the average of the policy's weights over these is looked at.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import gymnasium
import numpy as np
import torch
from scipy.linalg import solve_discrete_are

import perstep
from perstep.worlds.linear_quadratic import PUSH

CHAINS, STEPS, SETTLED = 200, 150, 30


def costs(agent: Any, env: Any) -> tuple[float, ...]:
    """The cost of the greedy policy, and the parts above the optimum, all in optimal costs: constant, linear, the rest."""
    best, dimensions = env.solve(), env.dimensions
    unit, generator = np.eye(dimensions), np.random.default_rng(7)
    values = solve_discrete_are(env.transition, PUSH * unit, unit, env.action_cost * unit)
    weight = (env.action_cost * unit + PUSH**2 * values) / -best.average_reward
    x, states, errors = np.zeros((CHAINS, dimensions)), [], []
    for t in range(STEPS):
        u = agent.predict(x)[0]
        if t >= SETTLED:
            states.append(x)
            errors.append(u + x @ best.gain.T)
        x = x @ env.transition.T + PUSH * u + env.noise * generator.normal(size=x.shape)
    e, seen = np.concatenate(errors), np.concatenate(states)
    design = np.column_stack([np.ones(len(seen)), seen])
    found = np.linalg.lstsq(design, e, rcond=None)[0]
    parts = (e, np.tile(found[0], (len(e), 1)), seen @ found[1:], e - design @ found)
    sizes = [float(np.einsum("bi,ij,bj->b", part, weight, part).mean()) for part in parts]
    return 1.0 + sizes[0], *sizes[1:]


def tell(name: str, agent: Any, env: Any) -> None:
    numbers = " | ".join(f"{number:.3f}" for number in costs(agent, env))
    print(f"| {name} | {agent.steps:,} | {numbers} | {agent.temperature:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", default="d2")
    parser.add_argument("--dimensions", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--then", type=float, default=3e-4)
    flags = parser.parse_args()
    env = gymnasium.make("perstep/LinearQuadratic-v0", dimensions=flags.dimensions)
    agent = perstep.SoftActorCritic(env, rule=flags.rule, seed=flags.seed, threads=1, device="cpu")
    print("| policy | steps | cost | constant | linear | rest | temperature |\n|---|---|---|---|---|---|---|")
    for _ in range(4):
        tell("greedy", agent.learn(flags.steps // 4, progress=False), env.unwrapped)
    learner, policy = agent._network, list(agent._network.online.policy.parameters())
    learner.config = dataclasses.replace(learner.config, step_size=flags.then)
    average, count, update = [weight.detach().clone() for weight in policy], 0, learner.update

    def averaging(*given: Any) -> float:
        nonlocal count
        value, count = update(*given), count + 1
        with torch.no_grad():
            torch._foreach_lerp_(average, policy, 1.0 / count)
        return value

    learner.update = averaging  # type: ignore[method-assign]
    for _ in range(3):
        tell(f"then with {flags.then:g}", agent.learn(1_000, progress=False), env.unwrapped)
    for weight, mean in zip(policy, average, strict=True):
        weight.data.copy_(mean)
    tell("its average", agent, env.unwrapped)


if __name__ == "__main__":
    main()
