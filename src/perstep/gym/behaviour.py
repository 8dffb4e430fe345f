"""What all loops share: how actions are chosen while learning, and what the end of an episode means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_ACTION = -1  # no action has been chosen yet


class Behaviour(NamedTuple):
    """How actions are chosen, and which action at S′ the target takes."""

    epsilon: float  # of ε-greedy; 0 where the policy is given or learnt
    bootstrap: int  # of policies.BOOTSTRAPS
    policy: NDArray[np.float64]  # (S, A), the given probabilities of prediction; (0, 0) for control
    epsilon_delay: float = 0.0  # above 0: the steps (tables: visits of the state) after which ε begins to fall
    epsilon_power: float = 0.0  # on tables, how fast ε falls; 0 for a constant


class Ends(NamedTuple):
    """What the end of an episode means: the one place where it is decided."""

    mask: bool  # whether the value after an end is 0; otherwise it is that of the next start
    reset_cost: float  # subtracted from the reward of the last transition
    adapts: bool = False  # whether the reset cost is found by AdaptiveCost instead

    @classmethod
    def of(cls, termination: str, reset_cost: float | str) -> Ends:
        """From the settings of an agent."""
        adapts = isinstance(reset_cost, str)
        return cls(termination != "continue", 0.0 if adapts else float(reset_cost), adapts)


class AdaptiveCost:
    """The reset cost of `reset_cost="auto"`: the return of the first episode while all rewards are the same, otherwise 0.

    Where every step pays the same, all policies have the same average reward, and nothing can be learnt. What people then want
    are long episodes if steps pay, and short ones if they cost. With a cost of the sign of the rewards that is what the average
    says; its size does not matter to the best policy.
    """

    def __init__(self) -> None:
        self.only_reward: float | None = None  # None before the first step, NaN once rewards differ
        self.cost = 0.0

    def see(self, reward: float, terminated: bool, episode_return: float) -> float:
        """Take note of one step; returns the cost of an end now."""
        if self.only_reward is None:
            self.only_reward = reward
        elif reward != self.only_reward:
            self.only_reward, self.cost = math.nan, 0.0
        if terminated and not math.isnan(self.only_reward) and self.cost == 0.0:
            self.cost = episode_return
        return self.cost


class BadReward(ValueError):
    """A reward that no estimate can learn from."""


def finite(reward: Any, moment: int) -> float:
    """The reward as a float; refused with a sentence if it is not one finite number."""
    try:
        value = (
            math.nan if isinstance(reward, str | bytes) else float(reward)
        )  # a text is a mistake, also if it reads as a number
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise BadReward(
            f"At step {moment} the reward must be one finite number, got {reward!r}. "
            "Correct the reward of the world; the agent is as it was before this step."
        )
    return value
