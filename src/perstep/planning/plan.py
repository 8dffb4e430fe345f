"""A plan for a drawn model: the actions with the largest reward per step, by sweeps of value iteration in place.

Values are relative to the state where the agent is now, the anchor. The gain of a policy is what it earns from there until it is
back, per step (renewal). When the gain moves, all values shift by −Δgain · time to the anchor, so that they stay those of the
policy. After each step the plan begins anew at the anchor with chance 1/L, L being the life so far: it looks as far ahead as the
agent has lived, and needs no assumption on which states lead to which.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import Whole, compiled
from perstep.planning.beliefs import GAIN, KNOWN, MEAN, WORK, Draw, Experience

Floats = NDArray[np.float64]

SHORTEST_LIFE = 20.0  # L at the beginning
MOST_SWEEPS = 200
TOLERANCE = 1e-3  # of values, beside the surplus of a new state: a plan is for some steps only
FRESH = -1  # no plan has seen the state


class Plan(NamedTuple):
    """The current plan."""

    values: Floats  # (S,): relative to the anchor
    times: Floats  # (S,): steps to the anchor
    actions: NDArray[np.int32]  # (S,): FRESH where no plan has seen the state
    visits: Floats  # (P,): of each pair when the plan was made


def new_plan(num_states: int, num_pairs: int) -> Plan:
    """No plan."""
    return Plan(np.zeros(num_states), np.zeros(num_states), np.full(num_states, FRESH, np.int32), np.zeros(num_pairs))


@compiled
def target(
    draw: Draw, plan: Plan, state: Whole, pair: Whole, anchor: Whole, gain: float, going_on: float
) -> tuple[float, float, float]:
    """Value and time of a pair, both to be divided by the third number: with steps that stay in the state put together."""
    value, time, stays = 0.0, 0.0, 0.0
    for i in range(draw.begin[pair], draw.end[pair]):
        follower, chance = draw.follower[i], draw.chance[i]
        if follower == state:
            stays += chance
        elif follower != anchor:
            value += chance * plan.values[follower]
            time += chance * plan.times[follower]
    new = draw.new[pair]
    seen = going_on * (1.0 - draw.unseen[pair])
    steps = 1.0 + new * draw.worth[1]
    reward = draw.reward[pair] + new * draw.worth[1] * max(draw.worth[0], gain)
    # What is unseen leads to the anchor, but for a new state: from there the way leads back here.
    return reward - gain * steps + seen * value, steps + seen * time, 1.0 - seen * stays - going_on * new


@compiled
def improve(
    experience: Experience, draw: Draw, plan: Plan, anchor: Whole, life: float, most_sweeps: int, tolerance: float
) -> None:
    """Sweep up and down through the states that were met, until the values stop moving."""
    values, times, order = plan.values, plan.times, experience.order
    num_states, num_actions = experience.numbers[KNOWN], draw.reward.shape[0] // order.shape[0]
    gain, going_on = experience.sums[GAIN], 1.0 - 1.0 / max(life, SHORTEST_LIFE)
    enough = tolerance * (abs(draw.worth[0] - experience.sums[MEAN]) + 1e-300)
    last = np.int64(order[num_states - 1] + 1) * num_actions - 1  # the pair drawn last
    values[anchor] = times[anchor] = 0.0
    for sweep in range(most_sweeps):
        moved = 0.0
        for i in range(num_states):
            state = np.int64(order[i if sweep % 2 == 0 else num_states - 1 - i])
            best, best_time, action = -np.inf, 0.0, 0
            for a in range(num_actions):
                value, time, leaves = target(draw, plan, state, state * num_actions + a, anchor, gain, going_on)
                value /= leaves
                if value > best:
                    best, best_time, action = value, time / leaves, a
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
        experience.numbers[WORK] += num_states * num_actions + draw.end[last]
        if sweep >= 2 and moved <= enough:
            break
    experience.sums[GAIN] = gain
