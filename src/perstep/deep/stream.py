"""The stream of rewards, each taken in once as it is earned: the units, θ and R̄ of an agent with a network.

A replay holds rewards of older policies, so that minibatches tell about the past. It needs no PyTorch.
"""

from __future__ import annotations

from typing import NamedTuple

from perstep.deep.settings import NetworkConfig
from perstep.numerics.compiled import compiled
from perstep.numerics.scale import Scale, reward_unit
from perstep.numerics.schedules import as_decay, step_size
from perstep.rules.transition import (
    SCALAR,
    AverageSteps,
    RewardEstimate,
    Schedule,
    Steps,
    average_reward,
    follow,
    look_at,
    track_beside,
    track_rewards,
)

FASTEST = 25.0  # the largest step of an extreme quantile, in steps of the median


class Stream(NamedTuple):
    """What every reward does to the reward estimate when it is earned, as `take_in` takes it; None for what it does not do."""

    scale: Scale | None
    schedule: Schedule | None  # None: minibatches move θ and R̄
    average: AverageSteps | None  # of an R̄ that θ stands beside
    lost_divisor: float  # what an end takes from a return is R̄ divided by it

    @classmethod
    def of(cls, config: NetworkConfig) -> Stream:
        """From the settings of an agent."""
        schedule = config.schedule() if config.from_stream else None
        average = None
        if config.average_step_size is not None:
            step = as_decay(config.average_step_size)
            average = AverageSteps(0.0, step.scale, step.power, step.delay)
        return cls(config.scale, schedule, average, config.end_divisors[1])


@compiled
def take_in(
    rule: int, rewards: RewardEstimate, scale: Scale | None, schedule: Schedule | None, average: AverageSteps | None,
    lost_divisor: float, reward: float, ended: bool, clock: int,
) -> None:  # fmt: skip
    """Let one reward of the stream move the units, θ and R̄, which moves with θ or follows the rewards by steps of its own."""
    look_at(rule, scale, rewards, reward, ended, lost_divisor, True)
    if schedule is not None:
        unit = 1.0 if scale is None else reward_unit(rewards.units)
        step = step_size(schedule.theta_scale, schedule.theta_power, schedule.theta_delay, clock)
        steps, before = Steps(0.0, step, 0.0, unit, 1.0, 0.0), average_reward(rule, rewards)
        if average is None:
            track_rewards(rule, rewards, reward, steps, FASTEST)
        else:
            if rule not in SCALAR:
                track_beside(rule, rewards, reward, steps, FASTEST)
            step = step_size(average.reward_scale, average.power, average.delay, clock)
        if average is not None or rule in SCALAR:
            follow(rule, rewards, before, reward, 0.0, Steps(0.0, step, 0.0, 1.0, 1.0, step))
