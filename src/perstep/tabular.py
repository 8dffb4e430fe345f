"""The two learners on a table: TD for prediction (Alg. 3, 7) and Q for control (Alg. 4, 8, 11), and the ε-greedy policy.

A learner names the two vectors that a rule is about, and moves the table by the rule's pull.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import compiled, inlined
from perstep.quantiles import mean
from perstep.randomness import uniform
from perstep.rules import RewardEstimate, Schedule, Workspace, apply_rule, steps_now

LEARNERS = ("td", "q")
TD, Q = 0, 1


class Table(NamedTuple):
    """Values of all states (TD: one column) or of all state-action pairs (Q: a column an action)."""

    values: NDArray[np.float64]  # (S, A, n)
    means: NDArray[np.float64]  # (S, A): values.mean(-1), kept so that a greedy look-up costs A numbers, not A·n
    visits: NDArray[np.int64]  # (S, A): ν, how often each was updated


class Run(NamedTuple):
    """All that a tabular learner reads and writes."""

    table: Table
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule


def table(num_states: int, num_columns: int, num_quantiles: int, initial: float) -> Table:
    """Every value at the same initial guess, nothing visited."""
    shape = (num_states, num_columns)
    values = np.full((*shape, num_quantiles), float(initial))
    return Table(values, np.full(shape, float(initial)), np.zeros(shape, np.int64))


@compiled
def greedy(preferences: Any) -> Any:
    """The first of the best actions: a* of the listings, ties to the lowest index."""
    best = 0
    for action in range(1, preferences.shape[0]):
        if preferences[action] > preferences[best]:
            best = action
    return best


@compiled
def epsilon_greedy(preferences: Any, epsilon: Any, generator: Any) -> Any:
    """With probability ε any action, otherwise one of the best, ties broken uniformly."""
    count = preferences.shape[0]
    draw = uniform(generator)
    if draw < epsilon:
        return min(int(draw / epsilon * count), count - 1)  # given draw < ε, draw/ε is uniform again
    best, ties = 0, 1
    for action in range(1, count):
        if preferences[action] > preferences[best]:
            best, ties = action, 1
        elif preferences[action] == preferences[best]:
            ties += 1
    if ties == 1:
        return best
    skip = int(uniform(generator) * ties)
    for action in range(best, count):
        if preferences[action] == preferences[best]:
            if skip == 0:
                return action
            skip -= 1
    return best


@inlined
def move(rule: Any, run: Any, clock: Any, state: Any, column: Any, reward: Any, bootstrap: Any) -> Any:
    """Let the rule look at one entry and its bootstrap, then move the entry: what TD and Q have in common."""
    entries = run.table
    estimate = entries.values[state, column]
    steps = steps_now(rule, run.schedule, entries.visits[state, column], clock)
    delta = apply_rule(rule, run.rewards, reward, bootstrap, estimate, steps, run.work)
    for j in range(estimate.shape[0]):
        estimate[j] += steps.value * run.work.pull[j]
    entries.means[state, column] = mean(estimate)
    entries.visits[state, column] += 1
    return delta


@inlined
def td_learning(rule: Any, run: Any, clock: Any, state: Any, reward: Any, next_state: Any, masked: Any) -> Any:
    """Estimate V(S), bootstrap V(S′)."""
    bootstrap = run.work.nothing if masked else run.table.values[next_state, 0]
    return move(rule, run, clock, state, 0, reward, bootstrap)


@inlined
def q_learning(
    rule: Any, run: Any, clock: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any
) -> Any:
    """Estimate Q(S, A), bootstrap Q(S′, a*)."""
    best = greedy(run.table.means[next_state])
    bootstrap = run.work.nothing if masked else run.table.values[next_state, best]
    return move(rule, run, clock, state, action, reward, bootstrap)
