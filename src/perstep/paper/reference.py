"""What claims and figures compare results with: exact solutions, a hand-written controller, and random play. No learning."""

from __future__ import annotations

from functools import cache

import numpy as np

from perstep.distributions.distribution import Distribution
from perstep.numerics.statistics import Floats
from perstep.worlds.pendulum import INVERTED_PENDULUM, step
from perstep.worlds.redpill import BLUE, RED, red_pill_blue_pill

__all__ = ["BLUE", "INVERTED_PENDULUM", "RANDOM_PLAY", "RED", "balanced_rewards", "optimal_rewards", "staying_rewards"]

RANDOM_PLAY = {
    "ALE/Breakout-v5": 1.40,
    "ALE/BeamRider-v5": 8.66,
    "ALE/Freeway-v5": 0.0,
    "perstep/MinAtar-Breakout-v0": 0.38,
    "perstep/MinAtar-Freeway-v0": 0.26,
}
"""World → mean return of an untrained agent, which takes random actions:
`perstep.DeepQ(world).evaluate(100_000, seed=0).episode_returns.mean()`."""

SETTLED, BALANCED = 200, 4000  # steps after which the rod has been upright for long, and steps in all


@cache
def optimal_rewards(epsilon: float) -> Distribution:
    """Red-pill blue-pill: the exact long-run distribution of the reward per step of the ε-greedy optimal policy."""
    mdp = red_pill_blue_pill()
    return mdp.evaluate(mdp.solve().policy, epsilon=epsilon).reward_distribution


def staying_rewards(state: int) -> Distribution:
    """Red-pill blue-pill: the exact distribution of the reward in one of the two worlds."""
    return red_pill_blue_pill().evaluate(np.full(2, state)).reward_distribution


@cache
def balanced_rewards() -> Floats:
    """Inverted pendulum: long-run rewards of a hand-written controller, about the best that three torques allow.

    The controller pushes against the angle that the rod will have in 0.2 s at its present velocity. It does nothing if that
    angle is less than 0.02 rad. The equations of motion and the controller contain no randomness.
    """
    state, rewards = np.array([INVERTED_PENDULUM.start_angle, 0.0]), np.zeros(BALANCED)
    for t in range(BALANCED):
        leaning = state[0] + 0.2 * state[1]
        action = 1 if abs(leaning) < 0.02 else 0 if leaning > 0 else 2
        rewards[t], _ = step(INVERTED_PENDULUM, state, action, state)
    return rewards[SETTLED:]
