"""What a policy earns in a Gymnasium world, played step by step."""

from __future__ import annotations


def earned(env, choose, num_steps, seed=1):
    """The mean reward per step; `choose` maps an observation to an action."""
    observation, _ = env.reset(seed=seed)
    total = 0.0
    for _ in range(num_steps):
        observation, reward, *_ = env.step(choose(observation))
        total += float(reward)
    return total / num_steps
