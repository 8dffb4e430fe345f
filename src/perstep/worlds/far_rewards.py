"""Worlds whose large reward is far from the first state: tests of exploration. The paper does not use them."""

from __future__ import annotations

import numpy as np

from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import claim_outcomes
from perstep.worlds.arguments import checked

DOWN, UP = 0, 1
ARM_CHANCES = (1.0, 0.15, 0.1, 0.05, 0.03, 0.01)
ARM_REWARDS = (50.0, 133.0, 300.0, 800.0, 1660.0, 6000.0)
BACK, FORWARD = 0, 1


@checked
def river_swim(length: int = 6, *, small_reward: float = 0.005, large_reward: float = 1.0) -> FiniteMDP:
    """A swimmer in a river with a strong current (Strehl & Littman 2008); state = place, action 0 swims down, 1 swims up.

    It is here because random actions almost never reach the far end: with `length` 12 they are there in four of a million steps.
    Down always works, and earns `small_reward` at place 0. Up works with probability 0.35, fails with 0.6 and drifts down with
    0.05; it works with 0.6 at place 0. At the last place the swimmer stays with 0.6, and swimming up there earns `large_reward`.
    It begins at place 0.
    """
    if length < 2:
        raise ValueError(f"RiverSwim needs a length of at least 2 places, got {length}.")
    claim_outcomes("RiverSwim", length, 2, 3)
    place = np.arange(length)
    first, last = place == 0, place == length - 1
    above, below = np.minimum(place + 1, length - 1), np.maximum(place - 1, 0)
    probability, rewards = np.zeros((length, 2, 3)), np.zeros((length, 2, 1))
    probability[:, DOWN, 0] = 1.0
    probability[:, UP, 0] = np.where(first, 0.0, np.where(last, 0.4, 0.05))
    probability[:, UP, 1] = np.where(first, 0.4, 0.6)
    probability[:, UP, 2] = np.where(first, 0.6, np.where(last, 0.0, 0.35))
    rewards[0, DOWN], rewards[-1, UP] = small_reward, large_reward
    return FiniteMDP.from_outcomes(
        probability,
        np.stack([below, place, above], axis=1)[:, None, :],  # (S, 1, 3)
        rewards,
        initial=first.astype(np.float64),
        name=f"RiverSwim({length})",
    )


@checked
def long_chain(
    length: int = 12, *, slip: float = 0.2, step_cost: float = 0.01, near_reward: float = 0.1, far_reward: float = 5.0
) -> FiniteMDP:
    """A chain in which every step forward costs a little, a slip leads back to the start, and the far end pays much.

    It is here because each step away from the start looks like a loss until the end has been found. State = place. Action 0 goes
    back to place 0 and earns `near_reward`. Action 1 goes forward with probability 1 − `slip`, otherwise back to place 0, and costs
    `step_cost`; at the last place it earns `far_reward` instead, and stays there unless it slips.
    """
    if length < 2:
        raise ValueError(f"A chain needs a length of at least 2 places, got {length}.")
    if not 0.0 <= slip < 1.0:
        raise ValueError(
            f"slip must be a probability from 0 to below 1, got {slip}. At 1 nothing but place 0 can be reached."
        )
    claim_outcomes("a chain", length, 2, 2)
    place = np.arange(length)
    probability, next_state, rewards = (
        np.zeros((length, 2, 2)),
        np.zeros((length, 2, 2), np.int64),
        np.empty((length, 2)),
    )
    probability[:, BACK, 0], probability[:, FORWARD] = 1.0, (slip, 1.0 - slip)
    next_state[:, FORWARD, 1] = np.minimum(place + 1, length - 1)
    rewards[:, BACK], rewards[:, FORWARD] = near_reward, -step_cost
    rewards[-1, FORWARD] = far_reward
    return FiniteMDP.from_outcomes(
        probability, next_state, rewards[:, :, None], initial=place == 0, name=f"LongChain({length})"
    )


def six_arms() -> FiniteMDP:
    """Six arms, of which the best pay the most and are the hardest to reach (after Strehl & Littman 2008).

    It is here because one wrong action costs a hundred steps: the way back to the best arm takes that long. State 0 is the hall,
    state i arm i. Action a in the hall leads to arm a + 1 with probability 1, 0.15, 0.1, 0.05, 0.03 or 0.01. At an arm the action
    that leads there stays and earns 50, 133, 300, 800, 1660 or 6000; any other goes back to the hall.
    """
    num_arms = len(ARM_CHANCES)
    probability = np.zeros((num_arms + 1, num_arms, 2))  # back to the hall, or on
    next_state = np.zeros(probability.shape, np.int64)
    rewards = np.zeros((num_arms + 1, num_arms, 1))
    probability[:, :, 0] = 1.0
    for action, (chance, reward) in enumerate(zip(ARM_CHANCES, ARM_REWARDS, strict=True)):
        arm = action + 1
        probability[0, action], probability[arm, action] = (1.0 - chance, chance), (0.0, 1.0)
        next_state[0, action, 1] = next_state[arm, action, 1] = arm
        rewards[arm, action] = reward
    initial = np.arange(num_arms + 1) == 0
    return FiniteMDP.from_outcomes(probability, next_state, rewards, initial=initial, name="SixArms")
