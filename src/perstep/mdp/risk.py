"""The policy whose bad steps are least bad: the largest CVaR of the long-run reward per step, with a proof. Not in the paper.

CVaR_τ, the mean of the worst fraction τ of the steps, is the largest E[y − (y − R)⁺/τ] over y (Rockafellar & Uryasev 2000). For a
fixed y this is an ordinary average reward. As a function of y the optimum has many peaks, so the search bounds it from above on
intervals of y: with a tangent in place of each pair's reward, which is concave in y, the optimum is convex in y, and largest at an
end of the interval.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from perstep.display.colours import BLUE, ORANGE
from perstep.display.progress import Bar
from perstep.distributions.distribution import Distribution, Floats, expected_excess
from perstep.mdp.chains import Integers, submodel
from perstep.mdp.evaluation import evaluate, limiting_rewards
from perstep.mdp.outcomes import Outcomes, expected_rewards, transition_matrix
from perstep.mdp.policy_tables import policy_probabilities
from perstep.mdp.solving import (
    TOLERANCE,
    Optimum,
    Solution,
    compare,
    gain_of,
    improved,
    optimum,
    solution_of,
    solved_states,
)
from perstep.mdp.solving import solve as solve_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from scipy.sparse import csr_array

LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Risk levels of a frontier, if none are given."""
PROVABLE = 1e-12  # relative to the rewards over τ; a narrower interval than this is not aimed at
MOST_INTERVALS = 20_000  # of y; then the proof ends as it is, and the interval shows what was reached
NARROWEST = 1e-13  # relative to the range of y; a narrower interval is not divided
MEAN_WEIGHT = 1e-6  # of the mean beside CVaR: among policies that are equal in CVaR, the one with the larger mean


class Candidate(NamedTuple):
    """A policy with its long-run rewards."""

    cvar: float
    rewards: Distribution
    threshold: float  # y, at which its E[y − (y − R)⁺/τ] is largest
    share: float  # of the steps with exactly that reward, the part that is among the worst
    optimum: Optimum  # its actions, and a model in which it is the best policy, or was on the way to it


class _Model:
    """The solved states of a world with the reward y − (y − R)⁺/τ for any y, and the best policy seen so far."""

    def __init__(self, outcomes: Outcomes, initial: Floats, risk_level: float, deadline: float = math.inf) -> None:
        num_actions = outcomes.probability.shape[1]
        self.all_pairs, self.risk_level = transition_matrix(outcomes), risk_level
        self.counted = solved_states(self.all_pairs, num_actions, initial)
        self.matrix: csr_array = submodel(self.all_pairs, num_actions, self.counted)[0]
        self.outcomes = Outcomes(
            outcomes.probability[self.counted],
            outcomes.next_state[self.counted],
            outcomes.mean[self.counted],
            outcomes.sd[self.counted],
            outcomes.cap,
        )
        happens = self.outcomes.probability > 0.0
        self.means, self.sds = self.outcomes.mean[happens], self.outcomes.sd[happens]
        self.atoms = np.unique(self.means[self.sds == 0.0])
        self.seen: set[bytes] = set()
        self.expected = expected_rewards(self.outcomes)
        with Bar(None, f"solving {self.matrix.shape[1]:,} states", unit="rounds", lines=True) as bar:
            mean = optimum(self.matrix, self.expected, TOLERANCE, bar, deadline)
        self.largest_mean = mean.interval[1]
        self.best = self.candidate(mean)

    def range(self) -> tuple[float, float]:
        """Where the y of a better policy than the best so far must lie.

        The τ-quantile of a mixture, at which its CVaR is attained, lies between those of its components. And since
        (y − R)⁺ is at least 0, and at least y − R, E[y − (y − R)⁺/τ] is at most y, and at most (E R − (1 − τ) y)/τ.
        """
        from scipy.special import ndtri

        quantiles = np.minimum(self.means + self.sds * ndtri(self.risk_level), self.outcomes.cap)
        last = (self.largest_mean - self.risk_level * self.best.cvar) / (1.0 - self.risk_level)
        low, high = max(float(quantiles.min()), self.best.cvar), min(float(quantiles.max()), last)
        return min(low, high), high

    def rewards(self, y: float) -> Floats:
        """y − E[(y − R)⁺ | s, a]/τ for y up to the cap, under which the cap plays no role. (S, A)"""
        gap, sd = y - self.outcomes.mean, self.outcomes.sd
        smooth = sd * expected_excess(np.divide(gap, sd, out=np.zeros_like(gap), where=sd > 0.0))
        shortfall = np.where(sd > 0.0, smooth, np.maximum(gap, 0.0))
        return np.asarray(y - (self.outcomes.probability * shortfall).sum(axis=2) / self.risk_level)

    def slopes(self, y: float, share: float) -> Floats:
        """Slopes of tangents to `rewards` at y: 1 − P(R < y | s, a)/τ, and `share` of P(R = y | s, a)/τ less. (S, A)"""
        from scipy.special import ndtr

        gap, sd = y - self.outcomes.mean, self.outcomes.sd
        smooth = ndtr(np.divide(gap, sd, out=np.zeros_like(gap), where=sd > 0.0))
        below = np.where(sd > 0.0, smooth, (gap > 0.0) + share * (gap == 0.0))
        return np.asarray(1.0 - (self.outcomes.probability * below).sum(axis=2) / self.risk_level)

    def consider(self, found: Optimum, allowance: float = 0.0) -> None:
        """Keep the policy if it is the best so far; or, if CVaR is no more than `allowance` smaller, if its mean is larger."""
        if found.actions.tobytes() in self.seen:
            return
        new, best = self.candidate(found), self.best
        if new.cvar > best.cvar + allowance or (
            new.cvar >= best.cvar - allowance and new.rewards.mean > best.rewards.mean
        ):
            self.best = new

    def candidate(self, found: Optimum) -> Candidate:
        """The policy with its long-run rewards."""
        self.seen.add(found.actions.tobytes())
        policy = policy_probabilities(found.actions, *self.expected.shape)
        rewards = limiting_rewards(self.outcomes, policy, found.stationary)
        threshold = rewards.quantile(self.risk_level)
        below, up_to = rewards.cdf([np.nextafter(threshold, -np.inf), threshold])
        share = (self.risk_level - below) / (up_to - below) if up_to > below else 0.0
        return Candidate(rewards.cvar(self.risk_level), rewards, threshold, float(np.clip(share, 0.0, 1.0)), found)

    def compare(self, rewards: Floats, near: Optimum, enough: float) -> Optimum:
        """Whether the optimum for these rewards (S, A) is above `enough`. The policy is remembered, if it is the best so far."""
        found = compare(self.matrix, rewards, near, enough, TOLERANCE)
        self.consider(found)
        return found

    def climb(self, width: float) -> None:
        """Give y and the policy to each other until neither changes: a local optimum, to begin with."""
        before = -math.inf
        while self.best.cvar > before + width:
            before = self.best.cvar
            self.compare(self.rewards(self.best.threshold), self.best.optimum, before + width)

    def bound(self, low: float, high: float, near: Sequence[Optimum], enough: float) -> tuple[float, list[Optimum]]:
        """No policy has a larger E[y − (y − R)⁺/τ] for any y between `low` and `high`; and what was found at the two ends.

        A tangent is nowhere below a concave function. With rewards that are linear in y, each policy's average is linear and the
        largest of them convex, so it is largest at an end. The tangents touch where the best policy so far has its largest value,
        since that policy's line is then level and equals its CVaR, or else in the middle. The bound is as good as it takes to
        compare it with `enough`; `near` are optima of similar models.
        """
        best = self.best
        y, share = (best.threshold, best.share) if low <= best.threshold <= high else (0.5 * (low + high), 0.5)
        rewards, slopes = self.rewards(y), self.slopes(y, share)
        found = [
            self.compare(rewards + (end - y) * slopes, start, enough)
            for end, start in zip((low, high), near, strict=True)
        ]
        return max(each.interval[1] for each in found), found

    def cut(self, low: float, high: float) -> float:
        """Where to divide an interval: at the middle one of the fixed rewards in it, since the objective has a kink there."""
        inside = self.atoms[(self.atoms > low) & (self.atoms < high)]
        return float(inside[inside.size // 2]) if inside.size else 0.5 * (low + high)


def solve(
    outcomes: Outcomes,
    initial: Floats,
    risk_level: float,
    tolerance: float = TOLERANCE,
    candidates: Sequence[Integers] = (),
    deadline: float = math.inf,
) -> Solution:
    """The policy with the largest CVaR at a level below 1. Branch and bound: the interval with the largest bound is divided next.

    `candidates` are policies (S,) that may be good; they save work.
    """
    model = _Model(outcomes, initial, risk_level, deadline)
    for actions in candidates:
        model.consider(gain_of(model.matrix, model.expected, actions[model.counted]))
    width = max(tolerance, PROVABLE * float(np.abs(model.means).max()) / risk_level)
    aim = 0.5 * width  # so that the rounding of the two ends does not make the interval wider than that
    high = model.largest_mean
    with Bar(None, f"risk level {risk_level:g}", unit="intervals", lines=True) as bar:
        model.climb(aim)
        first, last = model.range()
        narrowest = NARROWEST * (last - first)
        queue: list[tuple[float, float, float, Sequence[Optimum]]] = []  # the largest bound comes first
        parts: list[tuple[float, float]] = [(first, last)]
        near: Sequence[Optimum] = [model.best.optimum] * 2
        for number in range(MOST_INTERVALS):
            for part in parts:
                enough = math.nan if part[1] - part[0] <= narrowest else model.best.cvar + aim
                bound, found = model.bound(*part, near, enough)
                heapq.heappush(queue, (max(-high, -bound), *part, () if bound <= enough else found))
            high = -queue[0][0]
            bar.update(number, f"{model.best.cvar:.6g}, proven within {max(high - model.best.cvar, 0.0):.1e}")
            _, low_end, high_end, near = queue[0]
            if high <= model.best.cvar + aim or high_end - low_end <= narrowest or time.monotonic() > deadline:
                break
            heapq.heappop(queue)
            cut = model.cut(low_end, high_end)
            parts = [(low_end, cut), (cut, high_end)]
    # Of policies that are equally good, the one with the larger mean.
    rewards = model.rewards(model.best.threshold)
    model.consider(improved(model.matrix, rewards + MEAN_WEIGHT * model.expected, model.best.optimum), 1e-4 * width)
    best = model.best
    rewards = model.rewards(best.threshold)
    its_values = improved(model.matrix, rewards, best.optimum)._replace(actions=best.optimum.actions)
    of_all = np.full((model.counted.size, rewards.shape[1]), np.nan)
    of_all[model.counted] = rewards
    return replace(
        solution_of(its_values, model.all_pairs, of_all, model.counted, tolerance),
        average_reward=best.rewards.mean,
        interval=(best.cvar, max(best.cvar, high)),
        tolerance=tolerance,
        risk_level=risk_level,
        cvar=best.cvar,
        threshold=best.threshold,
    )


@final
@dataclass(frozen=True, eq=False)
class Frontier:
    """What care costs: the policy with the largest CVaR at each risk level, beside the policy with the largest mean."""

    solutions: tuple[Solution, ...]
    """The best policy at each risk level, in increasing order of the levels."""
    neutral: Distribution
    """The long-run rewards of the policy with the largest mean."""

    @property
    def risk_levels(self) -> Floats:
        """τ, increasing. (L,)"""
        return np.array([solution.risk_level for solution in self.solutions])

    @property
    def cvars(self) -> Floats:
        """The largest CVaR at each level. (L,)"""
        return np.array([s.cvar for s in self.solutions])

    @property
    def average_rewards(self) -> Floats:
        """The mean of the policy with the largest CVaR. (L,)"""
        return np.array([solution.average_reward for solution in self.solutions])

    @property
    def neutral_cvars(self) -> Floats:
        """The CVaR, at each level, of the policy with the largest mean. (L,)"""
        return self.neutral.cvar(self.risk_levels)

    def plot(self, ax: Axes | None = None) -> Figure:
        """CVaR over the risk level for both kinds of policy, and the mean of the careful ones; drawn into `ax` if given. What was
        solved at single levels is drawn as points: a line between them would lie below what is best there."""
        from perstep.display.drawing import drawn, legend_below

        with drawn(ax) as (figure, axes):
            points: dict[str, Any] = {"color": BLUE, "ls": "", "marker": "o"}
            axes.plot(self.risk_levels, self.cvars, **points, label="CVaR of the best policy at this level")
            axes.plot(self.risk_levels, self.average_rewards, **points, mfc="none", label="mean of that policy")
            every = np.linspace(self.risk_levels[0], self.risk_levels[-1], 200)
            neutral = self.neutral.cvar(every)
            axes.plot(every, neutral, color=ORANGE, label="CVaR of the policy with the largest mean")
            axes.set(xlabel="risk level: the worst fraction of the steps that counts", ylabel="reward per step")
            legend_below(axes)
        return figure


def frontier(
    outcomes: Outcomes, initial: Floats, risk_levels: Sequence[float] | Floats, deadline: float = math.inf
) -> Frontier:
    """The frontier at these levels; the policies of each level are candidates for the next."""
    neutral = solve_mean(outcomes, initial, deadline=deadline)
    policies, solutions = [neutral.policy], []
    for level in sorted(risk_levels):
        solutions.append(
            neutral if level == 1.0 else solve(outcomes, initial, level, candidates=policies, deadline=deadline)
        )
        policies.append(solutions[-1].policy)
    table = policy_probabilities(neutral.policy, *outcomes.probability.shape[:2])
    return Frontier(tuple(solutions), evaluate(outcomes, table, initial).reward_distribution)
