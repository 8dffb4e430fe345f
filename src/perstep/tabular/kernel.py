"""The two learners on a table: TD for prediction (Alg. 3, 7) and Q for control (Alg. 4, 8, 11).

A learner names the two vectors that a rule is about, lets the rule look at them (`apply`, of rules/transition.py), and moves the
table by the rule's pull. Nothing else moves it. For control there is a choice of the bootstrap at S′: the best action
(Q-learning), the action taken next (Sarsa) or the average over the policy (Expected Sarsa).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.policies import EXPECTED, SAMPLED, epsilon_greedy_mean, greedy
from perstep.numerics.quantiles import mean
from perstep.numerics.scale import Scale
from perstep.rules.risk import Risk
from perstep.rules.transition import (
    MEAN,
    PAIR,
    RewardEstimate,
    Schedule,
    Workspace,
    look_at,
    nothing_follows,
    steps_now,
)
from perstep.system.budget import claim

TD, Q, ANY_Q, RISK_Q = range(
    4
)  # ANY_Q: with any bootstrap, and with the average of `rvi`; RISK_Q: with a target for a risk level


Apply = Callable[..., float]  # a rule of rules/transition.py


class Table(NamedTuple):
    """Values of all states (TD: one column) or of all state-action pairs (Q: one column per action)."""

    values: NDArray[np.float64]  # (S, A, n)
    scores: NDArray[np.float64]  # (S, A): the mean of the n numbers, kept so that a greedy look-up costs A
    visits: NDArray[np.int64]  # (S, A): ν, the number of updates of each entry


class LearnerState(NamedTuple):
    """Everything that a tabular learner reads and writes, as its functions take it; None for what it does without."""

    table: Table
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule
    scale: Scale | None = None
    reference: NDArray[np.int64] | None = None  # (3,): of `rvi`: kind of f(Q), state and action of its pair
    risk: Risk | None = None


def table(num_states: int, num_columns: int, num_quantiles: int, initial: float) -> Table:
    """Every value at the same initial guess, nothing visited."""
    shape = (num_states, num_columns)
    claim(
        8 * num_states * num_columns * (num_quantiles + 2),
        f"a table of {num_states:,} states, {num_columns:,} columns and {num_quantiles:,} numbers in each",
        "Use perstep.DeepQ, or a world with fewer states.",
    )
    values = np.full((*shape, num_quantiles), float(initial))
    return Table(values, np.full(shape, float(initial)), np.zeros(shape, np.int64))


@inlined
def move(
    apply: Apply, rule: int, table: Table, rewards: RewardEstimate, work: Workspace, schedule: Schedule, scale: Scale | None,
    clock: int, state: int, column: int, reward: float, bootstrap: NDArray[np.float64], masked: bool,
) -> float:  # fmt: skip
    """Let the rule look at one entry and its bootstrap, then move the entry: what TD and Q have in common. Returns δ."""
    estimate = table.values[state, column]
    look_at(rule, scale, rewards, reward, masked, work.lost_divisor, False)
    steps = steps_now(rule, scale, schedule, rewards.units, table.visits[state, column], clock)
    delta = apply(rule, rewards, reward, bootstrap, estimate, steps, work)
    for j in range(estimate.shape[0]):
        estimate[j] += steps.value * work.pull[j]
    table.scores[state, column] = mean(estimate)
    table.visits[state, column] += 1
    return delta


@inlined
def td_learning(
    apply: Apply, rule: int, table: Table, rewards: RewardEstimate, work: Workspace, schedule: Schedule, scale: Scale | None,
    clock: int, state: int, reward: float, next_state: int, masked: bool,
) -> float:  # fmt: skip
    """Estimate V(S), bootstrap V(S′)."""
    bootstrap = nothing_follows(rule, rewards, work) if masked else table.values[next_state, 0]
    return move(apply, rule, table, rewards, work, schedule, scale, clock, state, 0, reward, bootstrap, masked)


@inlined
def q_learning(
    apply: Apply, rule: int, table: Table, rewards: RewardEstimate, work: Workspace, schedule: Schedule, scale: Scale | None,
    clock: int, state: int, action: int, reward: float, next_state: int, masked: bool,
) -> float:  # fmt: skip
    """Estimate Q(S, A), bootstrap Q(S′, a*)."""
    best = greedy(table.scores[next_state])
    bootstrap = nothing_follows(rule, rewards, work) if masked else table.values[next_state, best]
    return move(apply, rule, table, rewards, work, schedule, scale, clock, state, action, reward, bootstrap, masked)


@inlined
def any_q_learning(
    apply: Apply, rule: int, table: Table, rewards: RewardEstimate, work: Workspace, schedule: Schedule, scale: Scale | None,
    reference: NDArray[np.int64] | None, clock: int, state: int, action: int, reward: float, next_state: int, masked: bool,
    kind: int, following: int, epsilon: float,
) -> float:  # fmt: skip
    """As q_learning, with the bootstrap Q(S′, a*), Q(S′, A′) with A′ = `following`, or the ε-greedy average of Q(S′, ·)."""
    scores = table.scores[next_state]
    column = following if kind == SAMPLED else greedy(scores)
    bootstrap = nothing_follows(rule, rewards, work) if masked else table.values[next_state, column]
    if kind == EXPECTED and not masked:
        work.ahead[0] = epsilon_greedy_mean(scores, epsilon)
        bootstrap = work.ahead
    before = table.scores[state, action]
    delta = move(apply, rule, table, rewards, work, schedule, scale, clock, state, action, reward, bootstrap, masked)
    if reference is not None:
        rewards.theta[0] = reference_value(
            reference, table.scores, rewards.theta[0], before, table.scores[state, action]
        )
    return delta


@compiled
def reference_value(
    reference: NDArray[np.int64], scores: NDArray[np.float64], f: float, before: float, now: float
) -> float:
    """f(Q) of RVI, which was `f`, after an entry moved from `before` to `now`. The mean moves by a share; the maximum is sought
    again only where the largest entry fell."""
    if reference[0] == PAIR:
        return float(scores[reference[1], reference[2]])
    if reference[0] == MEAN:
        return f + (now - before) / scores.size
    if now >= f or before < f:
        return max(now, f)
    for s in range(scores.shape[0]):
        for a in range(scores.shape[1]):
            now = max(now, scores[s, a])
    return now
