"""The three rules, in the order of the listings: what one transition does to the reward estimate and how it pulls a value.

A rule sees two vectors: the estimate (n numbers for S, or S and A) and the bootstrap (n numbers for S′). It moves θ, writes the
pull on the estimate and returns the TD error δ. Who owns the vectors, and what `estimate += α · pull` means, is the learner's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import inlined
from perstep.quantiles import huber_pulls, levels, mean, quantile_pulls, track
from perstep.schedules import step_size

Floats = NDArray[np.float64]

RULES = ("differential", "d2", "d3")
DIFFERENTIAL, D2, D3 = 0, 1, 2  # compiled code chooses by number: functions as arguments are never cached


class RewardEstimate(NamedTuple):
    """What is known of the reward per step: R̄ is the mean of θ plus the offset."""

    theta: Floats  # (m,) reward quantiles; for `differential` (1,), the average itself
    offset: Floats  # (1,) b, zero unless `offset_ratio` asks for it
    tau: Floats  # (m,)


class Workspace(NamedTuple):
    """What a rule writes to, allocated once a run."""

    pull: Floats  # (n,)
    ordered: Floats  # (n + 2,)
    tau: Floats  # (n,)
    nothing: Floats  # (n,) zeros: the bootstrap of a masked end
    sums: Floats  # (n + 1,)
    huber: float  # λ of the quantile Huber loss; 0 for the quantile loss itself


class Steps(NamedTuple):
    """The step sizes of one transition."""

    value: float  # α
    theta: float  # α_θ
    offset: float  # η_b α


class Schedule(NamedTuple):
    """α, α_θ and η_b of a whole run, as numbers for compiled code."""

    value_scale: float
    value_power: float
    theta_scale: float
    theta_power: float
    offset_ratio: float


def reward_estimate(num_quantiles: int, initial: float) -> RewardEstimate:
    """θ at its initial guess, no offset."""
    return RewardEstimate(np.full(num_quantiles, float(initial)), np.zeros(1), levels(num_quantiles))


def workspace(num_quantiles: int, huber: float = 0.0) -> Workspace:
    """Room for the pulls on one value, and the loss that pulls."""
    n = num_quantiles
    return Workspace(np.zeros(n), np.zeros(n + 2), levels(n), np.zeros(n), np.zeros(n + 1), huber)


@inlined
def steps_now(rule: Any, schedule: Any, visits: Any, clock: Any) -> Any:
    """α by the visits of the entry. θ moves at every step, whatever the entry, so α_θ goes by the clock; the average of
    `differential` moves with its value (Wan et al. 2021), so there it goes by the visits."""
    alpha = step_size(schedule.value_scale, schedule.value_power, visits)
    alpha_theta = step_size(schedule.theta_scale, schedule.theta_power, visits if rule == DIFFERENTIAL else clock)
    return Steps(alpha, alpha_theta, schedule.offset_ratio * alpha)


@inlined
def average_reward(rewards: Any) -> Any:
    """R̄ = (1/m) Σ θ_i + b."""
    return mean(rewards.theta) + rewards.offset[0]


@inlined
def differential(rewards: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """Wan et al. 2021; Alg. 11–12: δ with the old R̄, then R̄."""
    delta = reward - rewards.theta[0] + bootstrap[0] - estimate[0]
    rewards.theta[0] += steps.theta * delta
    work.pull[0] = delta
    return delta


@inlined
def d2(rewards: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """Alg. 3–5: θ, then R̄, then δ with the new R̄. The offset is ours (docs/decisions/0001-learned-offset.md)."""
    track(rewards.theta, rewards.tau, reward, steps.theta)
    delta = reward - average_reward(rewards) + bootstrap[0] - estimate[0]
    rewards.offset[0] += steps.offset * delta
    work.pull[0] = delta
    return delta


@inlined
def d3(rewards: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """Alg. 7–9: θ, then R̄, then all Ω_j at once from the old Ω; by quantile loss on tables, quantile Huber loss on tiles."""
    track(rewards.theta, rewards.tau, reward, steps.theta)
    surplus = reward - average_reward(rewards)
    if work.huber > 0.0:
        huber_pulls(surplus, bootstrap, estimate, work.tau, work.huber, work.ordered, work.sums, work.pull)
    else:
        quantile_pulls(surplus, bootstrap, estimate, work.tau, work.ordered, work.pull)
    return surplus + mean(bootstrap) - mean(estimate)


@inlined
def apply_rule(rule: Any, rewards: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """The rule with this number; returns δ and leaves the pull in `work.pull`."""
    if rule == DIFFERENTIAL:
        return differential(rewards, reward, bootstrap, estimate, steps, work)
    if rule == D2:
        return d2(rewards, reward, bootstrap, estimate, steps, work)
    return d3(rewards, reward, bootstrap, estimate, steps, work)
