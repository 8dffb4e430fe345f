"""What agents return: the rewards of an evaluation, and the estimates at one step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perstep.agent.earned import with_interval
from perstep.distributions.block_sums import FEWEST, block_sums_of, expected_sum, sums_of
from perstep.distributions.distribution import Batches, Distribution
from perstep.distributions.forecast import Forecast
from perstep.inputs.checks import count

Floats = NDArray[np.float64]

ERRORS = 2.0  # standard errors that a difference must exceed to be told
BATCHES = 32  # from whose means the standard errors come
SEEN_STEPS = 100  # longer sums are taken as normal
SEEN_SUMS = 10_000  # of a forecast, at most


@dataclass(frozen=True)
class Evaluation:
    """What an agent earned in a budget of steps without learning."""

    average_reward: float
    """Mean reward per step, reset costs subtracted."""
    reward_distribution: Distribution
    """The distribution of the reward per step; of a million rewards, evenly spaced in time, if there were more."""
    episode_returns: Floats
    """Sum of rewards of every finished episode; empty where nothing ends. Compiled loops keep the first million."""
    num_steps: int
    """The number of steps taken."""
    risk_level: float = 1.0
    """τ of the agent."""
    rewards: Floats | None = field(default=None, repr=False, compare=False)
    """All rewards in their order; None if not all were kept."""

    while_learning: Distribution | None = field(default=None, repr=False, compare=False)
    """What the agent earned recently while it learnt; None if nothing was counted."""

    @property
    def price_of_learning(self) -> float:
        """By how much more per step this policy earned than the agent did recently while it learnt, with its random actions; 0
        where the difference is within twice its standard error, or where that is not known."""
        return max(self._gain_over_learning(ERRORS), 0.0)

    def _gain_over_learning(self, errors: float) -> float:
        """By how much more per step this policy earned than the agent did recently while it learnt, below 0 if it earned less; 0
        where the difference is within so many standard errors, or where that is not known."""
        if self.while_learning is None:
            return 0.0
        more = self.average_reward - self.while_learning.mean
        error = math.hypot(self.average_reward_error, self.while_learning.mean_error)
        return more if abs(more) > errors * error else 0.0

    @property
    def risk_adjusted_reward(self) -> float:
        """What the agent maximises: the mean reward, or with a risk_level below 1 the mean of the worst share of the rewards."""
        return self.average_reward if self.risk_level == 1.0 else self.reward_distribution.cvar(self.risk_level)

    @property
    def average_reward_error(self) -> float:
        """The standard error of the average reward, from batches of consecutive rewards; NaN if there are too few for one."""
        return self.reward_distribution.mean_error

    def __str__(self) -> str:
        episodes = f", {self.episode_returns.mean():.5g} per episode" if self.episode_returns.size else ""
        error = self.average_reward_error
        known = "95 %" if math.isfinite(error) else "too few for a standard error"
        paid = f"; {said}" if (said := self._said_of_learning) else ""
        return f"{with_interval(self.average_reward, error)} per step over {self.num_steps:,} steps ({known}){episodes}{paid}"

    @property
    def _said_of_learning(self) -> str:
        """What was earned while learning, where that is clearly another number; otherwise nothing."""
        gain = self._gain_over_learning(ERRORS)
        return f"while learning it earned {abs(gain):.2g} {'less' if gain > 0.0 else 'more'} per step" if gain else ""

    def forecast(self, num_steps: int) -> Forecast:
        """The distribution of the sum of the next `num_steps` rewards of the policy as it is, from the sums in this evaluation.

        Sums of up to 100 rewards are those that were seen, since they may be far from normal; longer ones are taken as normal.
        """
        num_steps = count("num_steps", num_steps, 1)
        if self.rewards is None:
            raise ValueError(
                f"A forecast needs all rewards of the evaluation in their order, and of {self.num_steps:,} only a part was kept. "
                "Evaluate for at most 1,000,000 steps."
            )
        seen = None
        if num_steps <= SEEN_STEPS and self.rewards.size >= FEWEST * num_steps:
            seen = sums_of(self.rewards, num_steps, SEEN_SUMS)
        return Forecast(num_steps, *expected_sum(block_sums_of(self.rewards), num_steps), samples=seen)

    @classmethod
    def of_kept(cls, total: float, kept: Floats, returns: Floats, num_steps: int) -> Evaluation:
        """From the sum of all rewards and those that were kept; places that were not filled are NaN."""
        rewards = kept[~np.isnan(kept)]
        whole = rewards if rewards.size == num_steps else None
        return cls(total / num_steps, distribution_in_order(rewards), returns, num_steps, rewards=whole)


def evaluation_of(rewards: Floats, returns: Floats) -> Evaluation:
    """The evaluation with these rewards in their order, and these returns of episodes."""
    return Evaluation(float(rewards.mean()), distribution_in_order(rewards), returns, rewards.size, rewards=rewards)


def distribution_in_order(rewards: Floats) -> Distribution:
    """The distribution of the rewards of a run in their order."""
    size = rewards.size
    batch = np.arange(size) * min(BATCHES, math.isqrt(size)) // size
    return Distribution.from_batches(Batches(rewards, np.ones(size, np.int64), batch))


@dataclass(frozen=True)
class Snapshot:
    """The estimates of an agent at one step."""

    step: int
    average_reward: float
    reward_quantiles: Floats
    """θ, (m,)."""
    values: Floats
    """All values as the learner keeps them: (S, n) or (S, A, n) for tables."""
