"""What all loops share: how actions are chosen while learning, and what the end of an episode means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_ACTION = -1  # no action has been chosen yet


class Behaviour(NamedTuple):
    """How actions are chosen, and which action at S′ the target takes."""

    epsilon: float  # of ε-greedy, or the least share of explorations; 0 where the policy is given or learnt
    bootstrap: int  # of policies.BOOTSTRAPS
    policy: NDArray[np.float64]  # (S, A), the given probabilities of prediction; (0, 0) for control
    epsilon_delay: float = 0.0  # on tiles, above 0: the number of steps after which ε begins to fall


class Ends(NamedTuple):
    """What the end of an episode means: the one place where it is decided."""

    mask: bool  # whether the value after an end is 0; otherwise it is that of the next start
    reset_cost: float  # subtracted from the reward of the last transition

    @classmethod
    def of(cls, termination: str, reset_cost: float) -> Ends:
        """From the settings of an agent."""
        return cls(termination != "continue", reset_cost)


class BadReward(ValueError):
    """A reward that no estimate can learn from."""


def finite(reward: Any, moment: int) -> float:
    """The reward as a float; refused with a sentence if it is not one finite number."""
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise BadReward(
            f"At step {moment} the reward must be one finite number, got {reward!r}. "
            "Correct the reward of the world; the agent is as it was before this step."
        )
    return value
