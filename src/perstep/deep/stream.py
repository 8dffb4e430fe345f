"""The stream of rewards, each taken in once as it is earned: the units, θ and R̄ of an agent with a network.

A replay holds rewards of older policies, so that minibatches tell about the past. It needs no PyTorch.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from perstep.compiled import compiled
from perstep.config import DeepQConfig
from perstep.quantiles import mean, track_evenly
from perstep.rules import Schedule, average_reward, follow_masses, look_at
from perstep.schedules import as_decay, step_size
from perstep.units import reward_unit


class Stream(NamedTuple):
    """What every reward does to the reward estimate when it is earned, as numbers for compiled code."""

    schedule: Schedule
    theta: tuple[float, float, float]  # scale, power and delay of α_θ
    average: tuple[float, float, float]  # the same of the step of R̄
    tracks: bool  # whether θ and R̄ follow the stream; otherwise minibatches move them
    has_average: bool  # whether R̄ of a rule with reward quantiles has a step of its own
    has_masses: bool  # whether the reward quantiles are read from masses on a grid
    after_end: float  # the value after an end, in R̄

    @classmethod
    def of(cls, config: DeepQConfig) -> Stream:
        """From the settings of an agent."""
        schedule, step = config.schedule(), config.average_step_size
        theta = schedule.theta_scale, schedule.theta_power, schedule.theta_delay
        average = theta if step is None else dataclasses.astuple(as_decay(step))
        tracks, stops = config.reward_tracking == "stream", config.termination == "stop" and config.centered
        after_end = -1.0 / (1.0 - config.discount) if stops else 0.0
        return cls(schedule, theta, average, tracks, step is not None, config.rule_row.has_reward_masses, after_end)


@compiled
def take_in(rewards: Any, stream: Any, reward: Any, ended: Any, clock: Any) -> None:
    """Let one reward of the stream move the units, θ and R̄. The offset of θ is what makes R̄ the running mean of the rewards."""
    look_at(rewards, stream.schedule, reward, ended, stream.after_end * average_reward(rewards), True)
    if not stream.tracks:
        return
    average = average_reward(rewards)
    average += step_size(stream.average[0], stream.average[1], stream.average[2], clock) * (reward - average)
    if rewards.theta.shape[0] == 1:
        rewards.theta[0] = average
        return
    unit = reward_unit(rewards.units) if stream.schedule.scale_free else 1.0
    step = step_size(stream.theta[0], stream.theta[1], stream.theta[2], clock)
    if stream.has_masses:
        follow_masses(rewards, reward, step)
    else:
        track_evenly(rewards.theta, rewards.tau, reward, step * unit)
    if stream.has_average:
        rewards.offset[0] = average - mean(rewards.theta)
