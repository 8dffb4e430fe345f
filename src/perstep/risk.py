"""One target from θ: the cheap way to a policy whose bad steps are least bad, for every learner (docs/decisions/0012-risk.md).

The reward R that the values learn from becomes y − (y − R)⁺/τ, and y is the τ-quantile of the rewards as θ has it. Policy and y
settle in a pair that fits together, which need not be the best one. θ, R̄ and what is recorded stay those of the rewards as they
are; the values have a reward estimate of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perstep.compiled import compiled
from perstep.rules import RewardEstimate, look_at, pull_value, reward_estimate, steps_now, track_quantiles


class Risk(NamedTuple):
    """The risk level τ, and the estimate of the rewards as they are."""

    level: float = 1.0
    rewards: RewardEstimate = reward_estimate(1, 0.0)


@compiled
def careful(level: Any, theta: Any, reward: Any) -> Any:
    """y − (y − R)⁺/τ with y from θ."""
    y = theta[min(int(level * theta.shape[0]), theta.shape[0] - 1)]
    return y - max(y - reward, 0.0) / level


@compiled
def careful_reward(risk: Any, schedule: Any, work: Any, reward: Any, clock: Any, ended: Any) -> Any:
    """Let θ and R̄ see the reward as it is; returns the one that the values learn from. Not inlined, so that steps without a risk
    level are not slowed down."""
    look_at(risk.rewards, schedule, reward, ended, 0.0, False)
    steps = steps_now(schedule, clock, clock, risk.rewards.units)
    average = track_quantiles(risk.rewards, reward, steps)
    pull_value(
        risk.rewards, average, reward, work.nothing, work.nothing, steps, work
    )  # no values: R̄ follows the rewards
    return careful(risk.level, risk.rewards.theta, reward)
