"""What all loops share: how actions are chosen while learning, and what the end of an episode means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled

NO_ACTION = -1  # no action has been chosen yet


class Behaviour(NamedTuple):
    """How actions are chosen, and which action at S′ the target takes."""

    epsilon: float  # of ε-greedy; 0 where the policy is given or learnt
    bootstrap: int  # of policies.BOOTSTRAPS
    policy: NDArray[np.float64]  # (S, A), the given probabilities of prediction; (0, 0) for control
    epsilon_delay: float = 0.0  # above 0: the steps (tables: visits of the state) after which ε begins to fall
    epsilon_power: float = 0.0  # on tables, how fast ε falls; 0 for a constant


ONLY_REWARD, COST, NUMBER = 0, 1, 2  # the reward that all steps paid, what an end costs, how many there were
NO_REWARD = math.inf  # before the first step. NaN stands for rewards that differ, and for a cost that is given


class Ends(NamedTuple):
    """What the end of an episode means: the one place where it is decided."""

    mask: bool  # whether the value after an end is 0; otherwise it is that of the next start
    is_found: bool  # whether the cost of an end is found by `see`
    known: NDArray[np.float64]  # (3,), what `see` moves, by the three names above

    @classmethod
    def of(cls, termination: str, reset_cost: float | str) -> Ends:
        """From the settings of an agent. Where an end is masked or stops everything, nothing is to be found: that is its worth."""
        is_found = isinstance(reset_cost, str) and termination == "continue"
        cost = 0.0 if isinstance(reset_cost, str) else float(reset_cost)
        return cls(termination != "continue", is_found, np.array([NO_REWARD if is_found else math.nan, cost, 0.0]))

    @property
    def reset_cost(self) -> float:
        """What is subtracted from the reward of the last transition, now."""
        return float(self.known[COST])

    @property
    def number(self) -> int:
        """How many ends there were while learning; truncations are none."""
        return int(self.known[NUMBER])


@compiled
def see(known: NDArray[np.float64], reward: float, terminated: bool, episode_return: float) -> None:
    """Take note of one step, before the cost of an end is subtracted.

    The cost of `reset_cost="auto"` is the return of the first episode while all rewards are the same, otherwise 0. Where every step
    pays the same, all policies have the same average reward, and nothing can be learnt. What people then want are long episodes if
    steps pay, and short ones if they cost. With a cost of the sign of the rewards that is what the average says; its size does not
    matter to the best policy.
    """
    known[NUMBER] += terminated
    if np.isnan(known[ONLY_REWARD]):
        return
    if known[ONLY_REWARD] == NO_REWARD:
        known[ONLY_REWARD] = reward
    elif reward != known[ONLY_REWARD]:
        known[ONLY_REWARD], known[COST] = math.nan, 0.0
        return
    if terminated and known[COST] == 0.0:
        known[COST] = episode_return


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
