"""The policy whose bad steps are least bad: the largest CVaR of the long-run reward per step, with a proof. Not in the paper.

CVaR_τ, the mean of the worst fraction τ of the steps, is the largest E[y − (y − R)⁺/τ] over y (Rockafellar & Uryasev 2000). For a
fixed y this is an ordinary average reward. As a function of y the optimum has many peaks, so the search bounds it from above on
intervals of y: with a tangent in place of each pair's reward, which is concave in y, the optimum is convex in y, and largest at an
end of the interval.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from perstep.display.colours import BLUE, ORANGE
from perstep.display.progress import Bar
from perstep.distributions.distribution import Distribution, Floats, expected_excess
from perstep.mdp.chains import Integers
from perstep.mdp.evaluation import evaluate
from perstep.mdp.outcomes import Outcomes, expected_rewards, transition_matrix
from perstep.mdp.policy_tables import policy_probabilities
from perstep.mdp.solving import TOLERANCE, Solution, solve_model
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
    actions: Integers
    rewards: Distribution
    threshold: float  # y, at which its E[y − (y − R)⁺/τ] is largest
    share: float  # of the steps with exactly that reward, the part that is among the worst


class _Model:
    """The world with the reward y − (y − R)⁺/τ for any y, and the best policy seen so far."""

    def __init__(self, outcomes: Outcomes, initial: Floats, risk_level: float) -> None:
        self.outcomes, self.initial, self.risk_level = outcomes, initial, risk_level
        self.matrix: csr_array = transition_matrix(outcomes)
        happens = outcomes.probability > 0.0
        self.means, self.sds = outcomes.mean[happens], outcomes.sd[happens]
        self.atoms = np.unique(self.means[self.sds == 0.0])
        self.seen: set[bytes] = set()
        self.best = self.candidate(solve_model(self.matrix, expected_rewards(outcomes), initial).policy)

    def range(self) -> tuple[float, float]:
        """The τ-quantile of a mixture, at which its CVaR is attained, lies between those of its components."""
        from scipy.special import ndtri

        quantiles = np.minimum(self.means + self.sds * ndtri(self.risk_level), self.outcomes.cap)
        return float(quantiles.min()), float(quantiles.max())

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

    def optimum(self, rewards: Floats) -> Solution:
        """The best policy for these rewards (S, A); its CVaR, which is at least its average of them, is remembered."""
        solution = solve_model(self.matrix, rewards, self.initial)
        self.consider(solution.policy)
        return solution

    def consider(self, actions: Integers, allowance: float = 0.0) -> None:
        """Keep the policy if it is the best so far; or, if CVaR is no more than `allowance` smaller, if its mean is larger."""
        if actions.tobytes() in self.seen:
            return
        new, best = self.candidate(actions), self.best
        if new.cvar > best.cvar + allowance or (
            new.cvar >= best.cvar - allowance and new.rewards.mean > best.rewards.mean
        ):
            self.best = new

    def candidate(self, actions: Integers) -> Candidate:
        """The policy (S,) with its long-run rewards."""
        self.seen.add(actions.tobytes())
        policy = policy_probabilities(actions, *self.outcomes.probability.shape[:2])
        rewards = evaluate(self.outcomes, policy, self.initial).reward_distribution
        threshold = rewards.quantile(self.risk_level)
        below, up_to = rewards.cdf([np.nextafter(threshold, -np.inf), threshold])
        share = (self.risk_level - below) / (up_to - below) if up_to > below else 0.0
        return Candidate(rewards.cvar(self.risk_level), actions, rewards, threshold, float(np.clip(share, 0.0, 1.0)))

    def bound(self, low: float, high: float) -> float:
        """No policy has a larger E[y − (y − R)⁺/τ] for any y between `low` and `high`.

        A tangent is nowhere below a concave function. With rewards that are linear in y, each policy's average is linear and the
        largest of them convex, so it is largest at an end. The tangents touch where the best policy so far has its largest value,
        since that policy's line is then level and equals its CVaR, or else in the middle.
        """
        best = self.best
        y, share = (best.threshold, best.share) if low <= best.threshold <= high else (0.5 * (low + high), 0.5)
        rewards, slopes = self.rewards(y), self.slopes(y, share)
        return max(self.optimum(rewards + (end - y) * slopes).interval[1] for end in (low, high))

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
) -> Solution:
    """The policy with the largest CVaR at a level below 1. Branch and bound: the interval with the largest bound is divided next.

    `candidates` are policies (S,) that may be good; they save work.
    """
    model = _Model(outcomes, initial, risk_level)
    for actions in candidates:
        model.consider(actions)
    first, last = model.range()
    width = max(tolerance, PROVABLE * float(np.abs(model.means).max()) / risk_level)
    queue = [(-model.bound(first, last), first, last)]  # the largest bound comes first
    high = -queue[0][0]
    with Bar(0, f"risk level {risk_level:g}", unit="intervals") as bar:
        for number in range(MOST_INTERVALS):
            bar.update(number, f"proven within {high - model.best.cvar:.1e}")
            negative, low_end, high_end = queue[0]
            high = -negative
            if high <= model.best.cvar + width or high_end - low_end <= NARROWEST * (last - first):
                break
            heapq.heappop(queue)
            cut = model.cut(low_end, high_end)
            for part in ((low_end, cut), (cut, high_end)):
                heapq.heappush(queue, (max(negative, -model.bound(*part)), *part))
    # Of policies that are equally good, the one with the larger mean.
    rewards = model.rewards(model.best.threshold) + MEAN_WEIGHT * expected_rewards(outcomes)
    model.consider(solve_model(model.matrix, rewards, initial).policy, 1e-4 * width)
    best = model.best
    return replace(
        solve_model(model.matrix, model.rewards(best.threshold), initial),
        average_reward=best.rewards.mean,
        policy=best.actions,
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
        """CVaR over the risk level for both kinds of policy, and the mean of the careful ones; drawn into `ax` if given."""
        from perstep.display.drawing import drawn, legend_below

        with drawn(ax) as (figure, axes):
            axes.plot(
                self.risk_levels, self.cvars, color=BLUE, marker=".", label="CVaR of the best policy at this level"
            )
            axes.plot(
                self.risk_levels, self.average_rewards, color=BLUE, ls="--", marker=".", label="mean of that policy"
            )
            every = np.linspace(self.risk_levels[0], self.risk_levels[-1], 200)
            neutral = self.neutral.cvar(every)
            axes.plot(every, neutral, color=ORANGE, label="CVaR of the policy with the largest mean")
            axes.set(xlabel="risk level: the worst fraction of the steps that counts", ylabel="reward per step")
            legend_below(axes)
        return figure


def frontier(outcomes: Outcomes, initial: Floats, risk_levels: Sequence[float] | Floats) -> Frontier:
    """The frontier at these levels; the policies of each level are candidates for the next."""
    neutral = solve_mean(outcomes, initial)
    policies, solutions = [neutral.policy], []
    for level in sorted(risk_levels):
        solutions.append(neutral if level == 1.0 else solve(outcomes, initial, level, candidates=policies))
        policies.append(solutions[-1].policy)
    table = policy_probabilities(neutral.policy, *outcomes.probability.shape[:2])
    return Frontier(tuple(solutions), evaluate(outcomes, table, initial).reward_distribution)
