"""The best policy of a known finite MDP, with a proof: policy iteration between sweeps of value iteration.

Control needs a communicating MDP (Sec. 4, App. B). The interval within which the optimum is proven to lie counts rounding errors.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from perstep.display.progress import Bar
from perstep.distributions.distribution import Floats
from perstep.mdp import chains
from perstep.mdp.chains import (
    MOST_ROUNDS,
    PLACE_SWEEPS,
    Integers,
    Mask,
    SeveralAnswers,
    any_action,
    class_names,
    closed_classes,
    end_components,
    led_to,
    reachable,
    stationary_gain_values,
    submodel,
)
from perstep.mdp.outcomes import Outcomes, expected_rewards, numbers, transition_matrix
from perstep.mdp.sweeps import backup, relax

if TYPE_CHECKING:
    from scipy.sparse import csr_array

WARM_UP_SWEEPS = 100  # of value iteration before the first linear system; they save most rounds of policy iteration
MOST_WARM_UP = 3000  # sweeps, where value iteration alone is about to reach the tolerance
LONG_WARM_UP = (
    20_000  # sweeps, where policy iteration has not proven its answer within POOR, relative to the rewards ...
)
WARM_UP_WORK = 2e10  # ... but not more than this number of transitions
POOR = 1e-6
CLOSE = 0.001  # share of states whose action still changes; below, the optimum may be proven already
IMPROVEMENT = 1e-13  # relative to the values; a smaller advantage is a rounding error
TIE = 1e-10  # relative to the values; actions that differ by less are equally good
ROUNDING = 1e-14  # relative to the values; rounding error of their sums
TOLERANCE = 1e-8  # width of the interval within which the optimum should be proven to lie
EPSILON = float(np.finfo(np.float64).eps)
TILTS = 10.0 ** np.arange(-13, -5)  # see `_interval`


class Optimum(NamedTuple):
    """A policy of a model with one end component, and what it proves."""

    actions: Integers  # (S,)
    gain: float
    values: Floats  # (S,)
    stationary: Floats  # (S,)
    interval: tuple[float, float]  # within which the optimal gain is proven to lie


class NotCommunicating(SeveralAnswers):
    """The MDP has parts that a policy can stay in and that do not communicate, so the optimum can depend on the first state."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The exact optimum over all policies."""

    average_reward: float
    """r̄*, the optimal average reward per step."""
    policy: Integers
    """An optimal action in each state. Ties go to the lowest action, unless that gives the chain several closed classes. (S,)"""
    state_values: Floats
    """v(s) = max q(s, ·), with μ·v = 0 for the stationary distribution μ of `policy`; NaN where q is NaN. (S,)"""
    action_values: Floats
    """A solution of q(s, a) = r(s, a) − r̄* + Σ p(s′ | s, a) max q(s′, ·); NaN for states that were not solved. (S, A)"""
    interval: tuple[float, float]
    """(low, high): proven, with rounding errors counted, that `policy` attains at least `low` and no policy more than `high`."""
    tolerance: float
    """The width of the interval that was asked for."""
    risk_level: float = field(default=1.0, kw_only=True)
    """τ: what is maximised is CVaR, the mean reward of the worst fraction τ of the steps; 1 is the average reward."""
    cvar: float = field(default=math.nan, kw_only=True)
    """The CVaR of `policy` at the risk level; at 1 the average reward. `interval` holds the largest CVaR."""
    threshold: float = field(default=math.inf, kw_only=True)
    """y, the reward below which a step counts among the worst. Values are those of the reward y − (y − R)⁺ / τ."""

    def __post_init__(self) -> None:
        if self.risk_level == 1.0:
            object.__setattr__(self, "cvar", self.average_reward)

    @property
    def proven(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        return self.interval[1] - self.interval[0] <= self.tolerance

    def __repr__(self) -> str:
        low, high = self.interval
        risk = "" if self.risk_level == 1.0 else f"risk_level {self.risk_level:g}, cvar {self.cvar:.10g}, "
        text = f"Solution({risk}average_reward {self.average_reward:.10g}, optimum proven within {high - low:.1e}"
        if not self.proven:
            text += f", not within the {self.tolerance:g} that was asked for"
        return f"{text}, {self.policy.size} states)"


def solve(outcomes: Outcomes, initial: Floats, tolerance: float = TOLERANCE, deadline: float = math.inf) -> Solution:
    """The optimum over all policies; only for the states reachable from `initial` if parts of the MDP do not communicate.

    After the `deadline` of the monotonic clock no further round begins, and the interval shows what was proven until then.
    """
    return solve_model(transition_matrix(outcomes), expected_rewards(outcomes), initial, tolerance, deadline)


def solve_model(
    matrix: csr_array, rewards: Floats, initial: Floats, tolerance: float = TOLERANCE, deadline: float = math.inf
) -> Solution:
    """The optimum for transition probabilities P (S·A, S), rewards (S, A) and the distribution of the first state (S,)."""
    counted = solved_states(matrix, rewards.shape[1], initial)
    model = submodel(matrix, rewards.shape[1], counted)[0]
    with Bar(None, f"solving {model.shape[1]:,} states", unit="rounds", lines=True) as bar:
        found = optimum(model, rewards[counted], tolerance, bar, deadline)
    return solution_of(found, matrix, rewards, counted, tolerance)


def solved_states(matrix: csr_array, num_actions: int, initial: Floats) -> Mask:
    """All states of a model P (S·A, S) that communicates, or else those reachable from `initial`. (S,)"""
    counted = np.ones(matrix.shape[1], dtype=np.bool_)
    parts = end_components(matrix, num_actions)
    if len(parts) > 1:
        counted = reachable(any_action(matrix, num_actions), initial > 0.0)
        parts = end_components(*submodel(matrix, num_actions, counted))
    if len(parts) > 1:
        members = [np.flatnonzero(counted)[each] for each in parts]
        names = class_names(members)
        raise NotCommunicating(
            "The MDP must communicate: from every state that a policy can return to, some policy must reach every other. Got "
            f"{len(parts)} parts that a policy can stay in and that do not communicate: {names}. The optimal average reward "
            "can then depend on the first state. Add transitions between the parts, or give FiniteMDP "
            "an initial distribution that leads to only one of them.",
            [int(each[0]) for each in members[:4]],
        )
    return counted


def solution_of(found: Optimum, matrix: csr_array, rewards: Floats, counted: Mask, tolerance: float) -> Solution:
    """What was found for the `counted` states, for all states of P (S·A, S)."""
    values = np.full(counted.size, np.nan)
    values[counted] = found.values
    action_values = rewards - found.gain + (matrix @ values).reshape(rewards.shape)
    action_values[~counted] = np.nan
    policy = np.zeros(counted.size, dtype=np.int64)
    policy[counted] = found.actions
    return Solution(
        found.gain, led_to(counted, policy, matrix), action_values.max(axis=1), action_values, found.interval, tolerance
    )


def optimality_gap(outcomes: Outcomes, action_values: ArrayLike) -> float:
    """sp(Tq − q) with Tq(s, a) = Σ p(s′, r | s, a)(r + max q(s′, ·)): the greedy policy earns at least r̄* minus this."""
    num_states, num_actions, _ = outcomes.probability.shape
    q = numbers(action_values, "Action values")
    if q.shape != (num_states, num_actions):
        raise ValueError(
            f"Action values must have a row for each state and a column for each action, shape {(num_states, num_actions)}, "
            f"got shape {q.shape}."
        )
    known = ~np.isnan(q).all(axis=1)  # `solve` gives NaN for states that are not reachable from `initial`
    difference = expected_rewards(outcomes) + (transition_matrix(outcomes) @ q.max(axis=1)).reshape(q.shape) - q
    if not known.any() or not np.isfinite(difference[known]).all():
        raise ValueError(
            "Action values must be finite to bound the optimality gap, got NaN or infinite values. "
            "If they were learned, use a smaller step size."
        )
    return float(np.ptp(difference[known]))


def optimum(matrix: csr_array, rewards: Floats, tolerance: float, bar: Bar, deadline: float) -> Optimum:
    """By policy iteration; if that does not prove much, because a policy almost never leaves some states, after more sweeps."""
    values = np.zeros(rewards.shape[0])
    warm_up(matrix, rewards, values, tolerance, bar, deadline)
    found = _policy_iteration(matrix, rewards, _greedy(matrix, rewards, values), tolerance, bar, deadline)
    if _width(found) > max(tolerance, POOR * (1.0 + np.abs(rewards).max())) and time.monotonic() < deadline:
        values[:] = 0.0
        warm_up(matrix, rewards, values, tolerance, bar, deadline, min(LONG_WARM_UP, int(WARM_UP_WORK / matrix.nnz)))
        again = _policy_iteration(matrix, rewards, _greedy(matrix, rewards, values), tolerance, bar, deadline)
        found = min(found, again, key=_width)
    return found


def _width(found: Optimum) -> float:
    low, high = found.interval
    return high - low


def gain_of(matrix: csr_array, rewards: Floats, actions: Integers) -> Optimum:
    """A policy (S,), changed so that every state leads to its best closed class. Nothing is proven."""
    actions, recurrent = _one_class(actions, matrix, rewards)
    states = np.arange(actions.size)
    chain = matrix[states * rewards.shape[1] + actions]
    stationary, gain, values = stationary_gain_values(chain, rewards[states, actions], recurrent)
    return Optimum(actions, gain, values, stationary, (gain, math.inf))


def improved(matrix: csr_array, rewards: Floats, near: Optimum) -> Optimum:
    """The optimum, from the policy of a similar model."""
    return _policy_iteration(matrix, rewards, near.actions, TOLERANCE, anchor=int(near.stationary.argmax()))


def compare(matrix: csr_array, rewards: Floats, near: Optimum, enough: float, tolerance: float) -> Optimum:
    """Whether the optimum is above `enough`, with as few linear systems as that takes, from the values of a similar model.

    The upper end of the interval is a bound in any case. It is at most `enough`, or else the policy is one that earns more than
    `enough`, or the best one.
    """
    if rewards.shape[0] <= chains.DENSE_UP_TO:
        return _policy_iteration(matrix, rewards, near.actions, tolerance, enough=enough)
    values, sweep_once = near.values.copy(), backup(matrix, rewards)
    for _ in range(WARM_UP_SWEEPS):
        residual = sweep_once(values)
        if residual.max() <= enough:
            residuals, error = _residuals(matrix, rewards, values)
            if (high := float((residuals + error).max())) <= enough:
                return near._replace(values=values, interval=(-math.inf, high))
        values += 0.5 * residual  # averaged, so that periodic MDPs converge too
        values -= values[0]
    actions, anchor = _greedy(matrix, rewards, values), int(near.stationary.argmax())
    return _policy_iteration(matrix, rewards, actions, tolerance, enough=enough, anchor=anchor)


def _policy_iteration(
    matrix: csr_array,
    rewards: Floats,
    actions: Integers,
    tolerance: float,
    bar: Bar | None = None,
    deadline: float = math.inf,
    enough: float = math.nan,
    anchor: int | None = None,
) -> Optimum:
    """Optimal actions (S,), their gain, values (S,) and the proven interval, for an MDP with one end component.

    Haviv & Puterman (1991): if the chain of a policy has several closed classes, the policy is first changed so that every
    state leads to the best class. An action changes only if the advantage is larger than rounding errors. So each iteration
    raises the gain, or keeps the class and raises values outside it, and no policy occurs twice. A model that is not small also
    gets some sweeps of value iteration in each round, and then needs about five rounds, whatever its size.

    It ends before that as soon as it is known whether the optimum is above `enough`, if that is a number.
    """
    num_states, num_actions = rewards.shape
    small = num_states <= chains.DENSE_UP_TO
    states = np.arange(num_states)
    seen: set[int] = set()
    while True:
        if bar is not None:
            bar.update(len(seen))
        actions, recurrent = _one_class(actions, matrix, rewards)
        seen.add(hash(actions.tobytes()))
        stationary, gain, values = stationary_gain_values(
            matrix[states * num_actions + actions], rewards[states, actions], recurrent, anchor
        )
        if not small:
            anchor = int(stationary.argmax())
            values -= values[anchor]
            relax(matrix, rewards, gain, values, anchor, PLACE_SWEEPS)
        residual, error = _residuals(matrix, rewards, values)
        if gain > enough or (residual + error).max() <= enough:
            return Optimum(actions, gain, values, stationary, (-math.inf, float((residual + error).max())))
        kept, best = residual[states, actions], _largest(residual)
        scale = 1.0 + np.abs(values).max() + np.abs(rewards).max()
        noise = IMPROVEMENT * scale if small else 2.0 * _largest(error)
        better = best > kept + noise
        improved = np.where(better, residual.argmax(axis=1), actions)
        late = time.monotonic() > deadline
        last = late or not better.any() or hash(improved.tobytes()) in seen or len(seen) >= MOST_ROUNDS
        close = last or better.sum() < CLOSE * num_states
        low, high = _interval(matrix, rewards, values, actions, recurrent, tolerance) if close else (-np.inf, np.inf)
        if last or (not small and high - low <= tolerance):
            break
        actions = improved
    if small and not late:
        # Every choice among equally good actions is optimal. Take the lowest, if the chain then has one closed class.
        lowest = (residual >= best[:, None] - TIE * scale).argmax(axis=1)
        chain = matrix[states * num_actions + lowest]
        if len(classes := closed_classes(chain)) == 1:
            its_stationary, its_gain, _ = stationary_gain_values(chain, rewards[states, lowest], classes[0])
            bounds = _interval(matrix, rewards, values, lowest, classes[0], tolerance)
            # If the values are huge, actions within TIE may differ.
            if its_gain >= gain - max(1e-10 * (1.0 + np.abs(rewards).max()), ROUNDING * scale):
                values -= its_stationary @ values
                return Optimum(lowest, its_gain, values, its_stationary, _around(its_gain, bounds))
    return Optimum(actions, gain, values - stationary @ values, stationary, _around(gain, (low, high)))


def _around(gain: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """The bounds, widened where the rounded gain lies outside."""
    return min(bounds[0], gain), max(bounds[1], gain)


def _residuals(matrix: csr_array, rewards: Floats, values: Floats) -> tuple[Floats, Floats]:
    """r + Σ p (v(s′) − v(s)) for each state and action, and bounds of its rounding errors. (S, A) each

    Differences of values are almost exact, so values of 1e9 do not cost nine digits.
    """
    num_actions = rewards.shape[1]
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    change = matrix.data * (values[matrix.indices] - values[row // num_actions])
    length = np.diff(matrix.indptr).reshape(rewards.shape)

    def total(parts: Floats) -> Floats:
        return np.asarray(np.add.reduceat(parts, matrix.indptr[:-1])).reshape(rewards.shape)

    error = (length + 4) * EPSILON * (total(np.abs(change)) + np.abs(rewards))
    return rewards + total(change), error


def _interval(
    matrix: csr_array, rewards: Floats, values: Floats, actions: Integers, recurrent: Integers, tolerance: float
) -> tuple[float, float]:
    """A lower bound of the gain of `actions`, whose closed class is `recurrent`, and an upper bound of every gain.

    For any v, a policy earns at least the smallest of its residuals in its closed class, and no policy earns more than the
    largest residual of all (Puterman 1994, Theorem 8.5.5). Rare states with large costs have large values, whose rounding errors
    spoil the bounds. But (1 − t) v has the residuals (1 − t) · residual + t · reward. They are lower where rewards are low, and
    those of (1 + t) v are higher there. So a small tilt t removes these errors at the price of t times the other rewards.
    """

    def low(tilt: float) -> float:
        residual, error = _residuals(matrix, rewards, (1.0 + tilt) * values)
        return float((residual - error)[recurrent, actions[recurrent]].min())

    def high(tilt: float) -> float:
        residual, error = _residuals(matrix, rewards, (1.0 - tilt) * values)
        return float((residual + error).max())

    bounds = low(0.0), high(0.0)
    for tilt in TILTS if bounds[1] - bounds[0] > tolerance else ():
        bounds = max(bounds[0], low(tilt)), min(bounds[1], high(tilt))
    return bounds


def warm_up(
    matrix: csr_array,
    rewards: Floats,
    values: Floats,
    tolerance: float,
    bar: Bar,
    deadline: float,
    least: int = WARM_UP_SWEEPS,
) -> None:
    """Some sweeps of value iteration, in place; more, if that alone is about to reach the tolerance."""
    small, before = rewards.shape[0] <= chains.DENSE_UP_TO, np.inf
    most = max(MOST_WARM_UP, least + 1)
    sweep_once = None if small else backup(matrix, rewards)  # compiled code pays only where there is much to do
    for sweep in range(most):
        if sweep_once is not None:
            residual = sweep_once(values)
        else:
            residual = _largest(rewards + (matrix @ values).reshape(rewards.shape)) - values
        if sweep % WARM_UP_SWEEPS == 0:
            bar.update(0, f"{sweep:,} sweeps")
            if time.monotonic() > deadline:
                break
        if sweep >= least and sweep % WARM_UP_SWEEPS == 0:
            width = float(np.ptp(residual))
            needed = np.log(max(width, 1e-300) / max(tolerance, 1e-300))
            rate = np.log(before / max(width, 1e-300)) / WARM_UP_SWEEPS
            if small or not 0.0 < needed < rate * (most - sweep):
                break
            before = width
        values += 0.5 * residual  # averaged, so that periodic MDPs converge too
        values -= values[0]


def _greedy(matrix: csr_array, rewards: Floats, values: Floats) -> Integers:
    return np.asarray((rewards + (matrix @ values).reshape(rewards.shape)).argmax(axis=1))


def _largest(table: Floats) -> Floats:
    """max over the actions (S,) of a table (S, A); NumPy's own takes ten times as long where A is small."""
    return reduce(np.maximum, table.T)


def _one_class(actions: Integers, matrix: csr_array, rewards: Floats) -> tuple[Integers, Integers]:
    """The policy (S,), changed so that every state leads to its best closed class, and that class."""
    num_states, num_actions = rewards.shape
    states = np.arange(num_states)
    chain, mean = matrix[states * num_actions + actions], rewards[states, actions]
    classes = closed_classes(chain)
    if len(classes) == 1:
        return actions, classes[0]
    gains = [stationary_gain_values(chain[c][:, c], mean[c], np.arange(c.size))[1] for c in classes]
    best = classes[int(np.argmax(gains))]
    target = np.zeros(num_states, dtype=np.bool_)
    target[best] = True
    return led_to(target, actions, matrix), best
