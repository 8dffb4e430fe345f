"""The two learners on a table: TD for prediction (Alg. 3, 7) and Q for control (Alg. 4, 8, 11).

A learner names the two vectors that a rule is about, and moves the table by the rule's pull. Nothing else moves it. For control
there is a choice of the bootstrap at S′: the best action (Q-learning), the action taken next (Sarsa) or the average over the policy
(Expected Sarsa).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.budget import claim
from perstep.compiled import compiled, inlined, merged
from perstep.policies import EXPECTED, SAMPLED, epsilon_greedy_mean, greedy
from perstep.risk import Risk
from perstep.rules import (
    MEAN,
    NO_REFERENCE,
    PAIR,
    RewardEstimate,
    Schedule,
    Workspace,
    apply_rule,
    look_at,
    nothing_follows,
    steps_now,
    value_after_end,
    value_of,
)

TD, Q, ANY_Q = 0, 1, 2  # ANY_Q: Q with any bootstrap, and with the average of `rvi`


class Table(NamedTuple):
    """Values of all states (TD: one column) or of all state-action pairs (Q: one column per action)."""

    values: NDArray[np.float64]  # (S, A, n)
    scores: NDArray[np.float64]  # (S, A): the mean of the n numbers, kept so that a greedy look-up costs A
    visits: NDArray[np.int64]  # (S, A): ν, the number of updates of each entry


class LearnerState(NamedTuple):
    """Everything that a tabular learner reads and writes."""

    table: Table
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule
    reference: NDArray[
        np.int64
    ]  # (3,): of `rvi`: kind of f(Q), state and action of its pair; NO_REFERENCE for other rules
    risk: Risk = Risk()


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


@merged
def move(rule: Any, run: Any, clock: Any, state: Any, column: Any, reward: Any, bootstrap: Any, masked: Any) -> Any:
    """Let the rule look at one entry and its bootstrap, then move the entry: what TD and Q have in common."""
    entries = run.table
    estimate = entries.values[state, column]
    look_at(run.rewards, run.schedule, reward, masked, value_after_end(run.rewards, run.work), False)
    steps = steps_now(run.schedule, entries.visits[state, column], clock, run.rewards.units)
    delta = apply_rule(rule, run.rewards, reward, bootstrap, estimate, steps, run.work)
    for j in range(estimate.shape[0]):
        estimate[j] += steps.value * run.work.pull[j]
    entries.scores[state, column] = value_of(rule, estimate)
    entries.visits[state, column] += 1
    return delta


@inlined
def td_learning(rule: Any, run: Any, clock: Any, state: Any, reward: Any, next_state: Any, masked: Any) -> Any:
    """Estimate V(S), bootstrap V(S′)."""
    bootstrap = nothing_follows(run.rewards, run.work) if masked else run.table.values[next_state, 0]
    return move(rule, run, clock, state, 0, reward, bootstrap, masked)


@inlined
def q_learning(
    rule: Any, run: Any, clock: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any
) -> Any:
    """Estimate Q(S, A), bootstrap Q(S′, a*)."""
    best = greedy(run.table.scores[next_state])
    bootstrap = nothing_follows(run.rewards, run.work) if masked else run.table.values[next_state, best]
    return move(rule, run, clock, state, action, reward, bootstrap, masked)


@inlined
def any_q_learning(rule: Any, run: Any, clock: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any,
                   kind: Any, following: Any, epsilon: Any) -> Any:  # fmt: skip
    """As q_learning, with the bootstrap Q(S′, a*), Q(S′, A′) with A′ = `following`, or the ε-greedy average of Q(S′, ·)."""
    scores = run.table.scores[next_state]
    column = following if kind == SAMPLED else greedy(scores)
    bootstrap = nothing_follows(run.rewards, run.work) if masked else run.table.values[next_state, column]
    if kind == EXPECTED and not masked:
        run.work.mixed[0] = epsilon_greedy_mean(scores, epsilon)
        bootstrap = run.work.mixed
    before = run.table.scores[state, action]
    delta = move(rule, run, clock, state, action, reward, bootstrap, masked)
    if run.reference[0] != NO_REFERENCE:
        run.rewards.theta[0] = reference_value(run, before, state, action)
    return delta


@compiled
def reference_value(run: Any, before: Any, state: Any, action: Any) -> Any:
    """f(Q) of RVI after the entry (S, A) moved from `before`. The mean moves by a share; the maximum is sought again only
    where the largest entry fell."""
    scores, now, f = run.table.scores, run.table.scores[state, action], run.rewards.theta[0]
    if run.reference[0] == PAIR:
        return scores[run.reference[1], run.reference[2]]
    if run.reference[0] == MEAN:
        return f + (now - before) / scores.size
    if now >= f or before < f:
        return max(now, f)
    for s in range(scores.shape[0]):
        for a in range(scores.shape[1]):
            now = max(now, scores[s, a])
    return now
