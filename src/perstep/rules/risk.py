"""One target from θ: the cheap way to a policy whose bad steps are least bad, for every learner (docs/decisions/0012-risk.md).

The reward R that the values learn from becomes y − (y − R)⁺/τ, and y is the τ-quantile of the rewards as θ has it. Policy and y
settle in a pair that fits together, which need not be the best one. θ, R̄ and what is recorded stay those of the rewards as they
are; the values have a reward estimate of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.rules.transition import RewardEstimate, Steps, follow, track_rewards


class Risk(NamedTuple):
    """The risk level τ, and the estimate of the rewards as they are."""

    level: float
    rewards: RewardEstimate


@compiled
def careful(level: float, theta: NDArray[np.float64], reward: float) -> float:
    """y − (y − R)⁺/τ with y from θ."""
    y = theta[min(int(level * theta.shape[0]), theta.shape[0] - 1)]
    return y - max(y - reward, 0.0) / level


@inlined
def careful_reward(rule: int, risk: Risk, reward: float, steps: Steps) -> float:
    """Let θ and R̄ see the reward as it is, without values, so that R̄ follows the rewards; returns the one that the values learn
    from."""
    average = track_rewards(rule, risk.rewards, reward, steps, 1.0)
    follow(rule, risk.rewards, average, reward, reward - average, steps)
    return careful(risk.level, risk.rewards.theta, reward)
