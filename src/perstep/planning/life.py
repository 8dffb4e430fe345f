"""The life of a planner, compiled: take a step, count it, and plan again when enough was learnt to change its mind.

A new plan is made when the tries of a pair have doubled, or when this plan has lasted one step longer than the one before (TSDE's
two criteria: Ouyang et al. 2017), as far as the work allows: planning may read `WORK_OF_A_STEP` entries for each step lived.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from perstep.distributions.history import note
from perstep.mdp.sampler import step
from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import uniform
from perstep.planning.beliefs import (
    DEGREES,
    DIFFER,
    FIRST_REWARD,
    LAST_LENGTH,
    LENGTH,
    MEAN,
    PLANNED_AT,
    PLANS,
    REWARD_SPREAD,
    WORK,
    be_surprised,
    draw_model,
    enter,
)
from perstep.planning.counts import fade, has_room, take_note
from perstep.planning.plan import FRESH, MOST_SWEEPS, TOLERANCE, improve
from perstep.rules.transition import DIFFERENTIAL

WORK_OF_A_STEP = 1_000  # entries: about twenty microseconds
FIRST_WORK = 1_000_000_000  # entries that may be read at once: five to thirty seconds, by the size of the world
WORK_OF_A_DRAW = 20  # a random chance takes as long as reading so many entries


@compiled
def make_plan(mind: Any, state: Any, clock: Any, memory: Any, level: Any, generator: Any) -> None:
    """Draw a model and plan in it. `memory`: steps after which what was seen counts 1/e; infinite in a world that stays."""
    counts, experience, draw, plan = mind
    numbers, sums = experience.numbers, experience.sums
    if memory < math.inf:
        fade(counts, math.exp(-(clock - sums[PLANNED_AT]) / memory))
    life = min(float(clock), memory)
    draw_model(
        counts, experience, draw, counts.tries.shape[0] // experience.order.shape[0], clock, life, level, generator
    )
    improve(experience, draw, plan, state, life, MOST_SWEEPS, TOLERANCE)
    for pair in range(counts.tries.shape[0]):
        plan.tries[pair] = counts.tries[pair]
    sums[PLANNED_AT] = clock
    numbers[WORK] += WORK_OF_A_DRAW * counts.size[0]
    numbers[PLANS] += 1
    numbers[LAST_LENGTH], numbers[LENGTH] = numbers[LENGTH], 0


@compiled
def choose(mind: Any, state: Any, clock: Any, memory: Any, level: Any, generator: Any) -> Any:
    """The action of the plan, after a new plan if it is time for one; in a state that no plan has seen, a random one."""
    counts, experience, _, plan = mind
    numbers, action = experience.numbers, np.int64(plan.actions[state])
    num_actions = counts.tries.shape[0] // experience.order.shape[0]
    if experience.entered[state] == 0:
        enter(experience, state, clock)
    is_time = action == FRESH or numbers[LENGTH] > numbers[LAST_LENGTH]
    if not is_time:
        pair = state * num_actions + action
        is_time = counts.tries[pair] >= 2.0 * plan.tries[pair]
    if is_time and numbers[WORK] <= FIRST_WORK + WORK_OF_A_STEP * clock:
        make_plan(mind, state, clock, memory, level, generator)
        action = np.int64(plan.actions[state])
    numbers[LENGTH] += 1
    return np.int64(uniform(generator) * num_actions) if action == FRESH else action


@compiled
def learn(mind: Any, state: Any, action: Any, reward: Any, next_state: Any, clock: Any) -> None:
    """Count one transition."""
    counts, experience, _, _ = mind
    sums = experience.sums
    pair = state * (counts.tries.shape[0] // experience.order.shape[0]) + action
    tries, distance = counts.tries[pair], reward - counts.paid[pair]
    if tries >= 1.0:
        sums[REWARD_SPREAD] += distance * distance * tries / (tries + 1.0)
        sums[DEGREES] += 1.0
    if clock == 0:
        sums[FIRST_REWARD] = reward
    elif reward != sums[FIRST_REWARD]:
        sums[DIFFER] = 1.0
    sums[MEAN] += (reward - sums[MEAN]) / (clock + 1.0)
    surprised = take_note(counts, pair, reward, next_state)
    be_surprised(experience, tries, surprised, enter(experience, next_state, clock))


@compiled
def live(world: Any, mind: Any, record: Any, rewards: Any, memory: Any, level: Any, generator: Any, place: Any, clock: Any,
         num_steps: Any) -> Any:  # fmt: skip
    """Live in a finite MDP; `place` (1,) moves along. Returns the number of steps, fewer where the counts lack room."""
    state = place[0]
    for t in range(clock, clock + num_steps):
        if not has_room(mind[0]):
            place[0] = state
            return t - clock
        action = choose(mind, state, t, memory, level, generator)
        reward, next_state = step(world, state, action, generator)
        learn(mind, state, action, reward, next_state, t)
        rewards.theta[0] += (reward - rewards.theta[0]) / (t + 1.0)
        note(DIFFERENTIAL, record, reward, rewards)
        state = next_state
    place[0] = state
    return num_steps


@compiled
def learn_then_act(mind: Any, record: Any, rewards: Any, memory: Any, level: Any, generator: Any, clock: Any, state: Any,
                   action: Any, reward: Any, next_state: Any, resume: Any) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action."""
    learn(mind, state, action, reward, next_state, clock)
    rewards.theta[0] += (reward - rewards.theta[0]) / (clock + 1.0)
    note(DIFFERENTIAL, record, reward, rewards)
    return choose(mind, resume, clock + 1, memory, level, generator)
