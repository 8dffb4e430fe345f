"""A plan for a drawn model: the actions with the largest reward per step, by sweeps of value iteration in place.

Values are relative to the state where the agent is now, the anchor. The gain of a policy is what it earns from there until it is
back, per step (renewal). When the gain moves, all values shift by −Δgain · time to the anchor, so that they stay those of the
policy. After each step the plan begins anew at the anchor with chance 1/L, L being the life so far: it looks as far ahead as the
agent has lived, and needs no assumption on which states lead to which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import compiled
from perstep.planning.beliefs import GAIN, KNOWN, MEAN, WORK
from perstep.planning.counts import NONE

Floats = NDArray[np.float64]

SHORTEST_LIFE = 20.0  # L at the beginning
MOST_SWEEPS = 200
TOLERANCE = 1e-3  # of values, beside the surplus of a new state: a plan is for some steps only
FRESH = -1  # no plan has seen the state


class Plan(NamedTuple):
    """The present plan."""

    values: Floats  # (S,): relative to the anchor
    times: Floats  # (S,): steps to the anchor
    actions: NDArray[np.int32]  # (S,): FRESH where no plan has seen the state
    tries: Floats  # (P,): of each pair when the plan was made


def new_plan(num_states: int, num_pairs: int) -> Plan:
    """No plan."""
    return Plan(np.zeros(num_states), np.zeros(num_states), np.full(num_states, FRESH, np.int32), np.zeros(num_pairs))


@compiled
def target(counts: Any, draw: Any, plan: Any, state: Any, pair: Any, anchor: Any, gain: Any, going_on: Any) -> Any:
    """Value and time of a pair, with the steps that stay in the state put together; and the number of entries read."""
    values, times, unseen, new = plan.values, plan.times, draw.unseen[pair], draw.new[pair]
    value, time, stays, entries = 0.0, 0.0, 0.0, 1
    entry = np.int64(counts.newest[pair])
    while entry != NONE:
        follower = counts.follower[entry]
        if follower == state:
            stays += draw.chance[entry]
        elif follower != anchor:
            value += draw.chance[entry] * values[follower]
            time += draw.chance[entry] * times[follower]
        entries += 1
        entry = np.int64(counts.older[entry])
    seen = going_on * (1.0 - unseen)
    steps = 1.0 + new * draw.worth[1]
    reward = draw.reward[pair] + new * draw.worth[1] * max(draw.worth[0], gain)
    # What is unseen, but for a new state, leads to the anchor; from a new state the way leads back here.
    leaves = 1.0 - seen * stays - going_on * new
    return (reward - gain * steps + seen * value) / leaves, (steps + seen * time) / leaves, entries


@compiled
def improve(counts: Any, experience: Any, draw: Any, plan: Any, anchor: Any, life: Any, most_sweeps: Any,
            tolerance: Any) -> None:  # fmt: skip
    """Sweep up and down through the states that were met, until the values rest."""
    values, times, order = plan.values, plan.times, experience.order
    num_states, num_actions = experience.numbers[KNOWN], counts.tries.shape[0] // order.shape[0]
    gain, going_on = experience.sums[GAIN], 1.0 - 1.0 / max(life, SHORTEST_LIFE)
    enough = tolerance * (abs(draw.worth[0] - experience.sums[MEAN]) + 1e-300)
    values[anchor] = times[anchor] = 0.0
    for sweep in range(most_sweeps):
        moved, work = 0.0, 0
        for i in range(num_states):
            state = np.int64(order[i if sweep % 2 == 0 else num_states - 1 - i])
            best, best_time, action = -np.inf, 0.0, 0
            for a in range(num_actions):
                value, time, entries = target(
                    counts, draw, plan, state, state * num_actions + a, anchor, gain, going_on
                )
                work += entries
                if value > best:
                    best, best_time, action = value, time, a
            plan.actions[state] = action
            if state == anchor:
                change = best / best_time
                gain += change
                moved = max(moved, abs(change) * max(1.0, min(best_time, num_states)))
                for k in range(num_states):
                    values[order[k]] -= change * times[order[k]]
            else:
                moved = max(moved, abs(best - values[state]))
                values[state], times[state] = best, best_time
        experience.numbers[WORK] += work
        if sweep >= 2 and moved <= enough:
            break
    experience.sums[GAIN] = gain
