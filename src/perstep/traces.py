"""Eligibility traces on tiles: an error δ moves not only the last value but those of the steps before it, each by γλ less.

The last steps are kept in a ring, as far back as a trace is worth something. Traces of values replace each other: a feature that
was active several times follows its last visit (Singh & Sutton 1996), so that no step grows. Those of the policy add up.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.budget import claim
from perstep.compiled import compiled

SMALLEST = 0.02  # a trace below this is forgotten
LONGEST = 200  # steps

NOW, KEPT = 0, 1  # places of the clock
SAVED = ("active", "columns", "gradients", "clock")


class Traces(NamedTuple):
    """The last steps (L of them, K active of F features; C columns of values, A actions); empty without traces."""

    active: NDArray[np.int64]  # (L, K)
    columns: NDArray[np.int64]  # (L,): whose values they were
    gradients: NDArray[np.float64]  # (L, A): ∇ ln π of the policy; (L, 0) for Q
    visits: NDArray[np.int64]  # (C, F): when a feature was last active
    clock: NDArray[np.int64]  # (2,): steps so far, and how many of the last ones are kept
    decay: float = 0.0  # γλ


def length(decay: float) -> int:
    """The number of steps until a trace is forgotten."""
    return (
        min(math.ceil(math.log(SMALLEST) / math.log(decay)), LONGEST) if 0.0 < decay < 1.0 else LONGEST if decay else 0
    )


def new_traces(decay: float, num_columns: int, num_features: int, num_active: int, num_gradients: int) -> Traces:
    """Nothing done yet."""
    steps = length(decay)
    if steps:
        claim(
            8 * (num_columns * num_features + steps * (num_active + num_gradients)),
            f"traces over {num_features:,} features",
            "Choose fewer tilings or tiles, a smaller table_size, or trace_decay=0.",
        )
    return Traces(
        np.zeros((steps, num_active), np.int64),
        np.zeros(steps, np.int64),
        np.zeros((steps, num_gradients)),
        np.full((num_columns, num_features) if steps else (0, 0), -1),
        np.zeros(2, np.int64),
        decay,
    )


NO_TRACES = new_traces(0.0, 0, 0, 0, 0)


@compiled
def look_back(traces: Traces, active: Any, column: Any, critic: Any, change: Any) -> None:
    """The values of the steps before this one move by `change`, the less the longer ago; then this step is kept as well."""
    size, now = traces.active.shape[0], traces.clock[NOW]
    for k in range(active.shape[0]):
        traces.visits[column, active[k]] = now
    share = change
    for ago in range(1, min(traces.clock[KEPT], size - 1) + 1):
        share *= traces.decay
        place = (now - ago) % size
        before = traces.columns[place]
        for k in range(active.shape[0]):
            feature = traces.active[place, k]
            if traces.visits[before, feature] == now - ago:
                for j in range(critic.shape[2]):
                    critic[before, feature, j] += share
    place = now % size
    for k in range(active.shape[0]):
        traces.active[place, k] = active[k]
    traces.columns[place] = column
    traces.clock[NOW] = now + 1
    traces.clock[KEPT] = min(traces.clock[KEPT] + 1, size)


@compiled
def look_back_at_choices(traces: Traces, gradient: Any, actor: Any, change: Any) -> None:
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


def visit_again(traces: Traces) -> None:
    """When each feature was last active, from the steps that are kept: files hold those alone."""
    traces.visits[:] = -1
    now, kept = map(int, traces.clock)
    for ago in range(kept, 0, -1):
        place = (now - ago) % len(traces.columns)
        traces.visits[traces.columns[place], traces.active[place]] = now - ago
