"""Eligibility traces on tiles: an error δ moves not only the last value but those of the steps before it, each by γλ less.

The last steps are kept in a ring, as far back as a trace is worth something. Traces of values are those of true online TD(λ)
(van Seijen & Sutton 2014): a step that shares features with the ones before it enters with a smaller weight, so that no step
grows, and values that have moved since they were a bootstrap are corrected. Only the weights of the steps and the features that
they share are needed for it, no vector of all features. Traces of the policy add up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.system.budget import claim

SMALLEST = 0.02  # a trace below this is forgotten
LONGEST = 200  # steps

NOW, KEPT = 0, 1  # places of the clock
SAVED = ("active", "columns", "gradients", "weights", "before", "clock")


class Traces(NamedTuple):
    """The last steps (L of them, K active of F features; C columns of values, A actions)."""

    active: NDArray[np.int64]  # (L, K)
    columns: NDArray[np.int64]  # (L,): whose values they were
    gradients: NDArray[np.float64]  # (L, A): ∇ ln π of the policy; (L, 0) for Q
    weights: NDArray[np.float64]  # (L,): with which they entered
    before: NDArray[np.float64]  # (C,): the values of S before the last move of w
    clock: NDArray[np.int64]  # (2,): steps so far, and how many of the last ones are kept
    decay: float = 0.0  # γλ


def length(decay: float) -> int:
    """The number of steps until a trace is forgotten."""
    return (
        min(math.ceil(math.log(SMALLEST) / math.log(decay)), LONGEST) if 0.0 < decay < 1.0 else LONGEST if decay else 0
    )


def new_traces(decay: float, num_columns: int, num_active: int, num_gradients: int) -> Traces:
    """Nothing done yet."""
    steps = length(decay)
    if steps:
        claim(
            8 * steps * (num_active + num_gradients + 2),
            f"traces over {steps:,} steps",
            "Choose fewer tilings, or trace_decay=0.",
        )
    return Traces(
        np.zeros((steps, num_active), np.int64),
        np.zeros(steps, np.int64),
        np.zeros((steps, num_gradients)),
        np.zeros(steps),
        np.zeros(num_columns if steps else 0),
        np.zeros(2, np.int64),
        decay,
    )


@compiled
def weight_now(traces: Traces, active: NDArray[np.int64], column: int, alpha: float) -> float:
    """With which this step enters: 1 − α z·x, where z are the traces of the steps before it and x its features."""
    size, now = traces.active.shape[0], traces.clock[NOW]
    share, known = 1.0, 0.0
    for ago in range(1, min(traces.clock[KEPT], size - 1) + 1):
        share *= traces.decay
        place = (now - ago) % size
        if traces.columns[place] == column:
            same = 0
            for k in range(active.shape[0]):
                same += traces.active[place, k] == active[k]
            known += share * traces.weights[place] * same
    return 1.0 - alpha * known


@compiled
def look_back(
    traces: Traces, active: NDArray[np.int64], column: int, critic: NDArray[np.float64], alpha: float, pull: float, value: float,
    weight: float,
) -> float:  # fmt: skip
    """The values of the steps before this one move by α times the `pull`, the less the longer ago; then this step is kept as well.

    `value`: of S, before this move. How far it went since the step before this one bootstrapped from it is added to the pull on the
    earlier steps; S itself has moved already. Returns by how much one feature of each step moved, added up.
    """
    size, now = traces.active.shape[0], traces.clock[NOW]
    moved = value - traces.before[column] if traces.clock[KEPT] > 0 else 0.0
    for k in range(active.shape[0]):
        for j in range(critic.shape[2]):
            critic[column, active[k], j] += alpha * (weight - 1.0) * moved
    share, total = alpha * (pull + moved), alpha * (weight - 1.0) * moved
    for ago in range(1, min(traces.clock[KEPT], size - 1) + 1):
        share *= traces.decay
        place = (now - ago) % size
        before, change = traces.columns[place], share * traces.weights[place]
        total += change
        for k in range(active.shape[0]):
            for j in range(critic.shape[2]):
                critic[before, traces.active[place, k], j] += change
    place = now % size
    for k in range(active.shape[0]):
        traces.active[place, k] = active[k]
    traces.columns[place] = column
    traces.weights[place] = weight
    traces.clock[NOW] = now + 1
    traces.clock[KEPT] = min(traces.clock[KEPT] + 1, size)
    return total


@compiled
def look_back_at_choices(
    traces: Traces, gradient: NDArray[np.float64], actor: NDArray[np.float64], change: float
) -> None:
    """The preferences of the steps before this one move likewise, after `look_back`."""
    size, now = traces.active.shape[0], traces.clock[NOW] - 1
    for a in range(gradient.shape[0]):
        traces.gradients[now % size, a] = gradient[a]
    share = change
    for ago in range(1, traces.clock[KEPT]):
        share *= traces.decay
        place = (now - ago) % size
        for k in range(traces.active.shape[1]):
            feature = traces.active[place, k]
            for a in range(gradient.shape[0]):
                actor[feature, a] += share * traces.gradients[place, a]
