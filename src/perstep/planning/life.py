"""The life of a planner, compiled: take a step, count it, and plan again when enough was learnt to change the plan.

A new plan is made when the visits of a pair have doubled, or when this plan has lasted one step longer than the one before (TSDE's
two criteria: Ouyang et al. 2017), as far as the work allows: planning may read `WORK_OF_A_STEP` entries for each step lived.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.history import Record, note
from perstep.mdp.sampler import FiniteWorld, step
from perstep.numerics.compiled import Whole, compiled
from perstep.numerics.randomness import Generator, uniform
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
    Draw,
    Experience,
    draw_model,
    enter,
    note_outcome,
)
from perstep.planning.counts import Counts, fade, has_room, take_note
from perstep.planning.plan import FRESH, MOST_SWEEPS, TOLERANCE, Plan, improve
from perstep.rules.transition import DIFFERENTIAL, RewardEstimate

Integers = NDArray[np.int64]
Learnt = tuple[Counts, Experience, Draw, Plan]

WORK_OF_A_STEP = 1_000  # entries: about twenty microseconds
FIRST_WORK = 1_000_000_000  # entries that may be read at once: five to thirty seconds, by the size of the world
WORK_OF_A_DRAW = 20  # a random chance takes as long as reading so many entries


@compiled
def make_plan(learnt: Learnt, state: Whole, clock: int, memory: float, level: float, generator: Generator) -> None:
    """Draw a model and plan in it. `memory`: steps after which what was seen counts 1/e; infinite: for ever."""
    counts, experience, draw, plan = learnt
    numbers, sums = experience.numbers, experience.sums
    if memory < math.inf:
        fade(counts, math.exp(-(clock - sums[PLANNED_AT]) / memory))
    life = min(float(clock), memory)
    draw_model(
        counts, experience, draw, counts.visits.shape[0] // experience.order.shape[0], clock, life, level, generator
    )
    improve(experience, draw, plan, state, life, MOST_SWEEPS, TOLERANCE)
    for pair in range(counts.visits.shape[0]):
        plan.visits[pair] = counts.visits[pair]
    sums[PLANNED_AT] = clock
    numbers[WORK] += WORK_OF_A_DRAW * counts.size[0]
    numbers[PLANS] += 1
    numbers[LAST_LENGTH], numbers[LENGTH] = numbers[LENGTH], 0


@compiled
def choose(learnt: Learnt, state: Whole, clock: int, memory: float, level: float, generator: Generator) -> np.int64:
    """The action of the plan, after a new plan if it is time for one; in a state that no plan has seen, a random one."""
    counts, experience, _, plan = learnt
    numbers, action = experience.numbers, np.int64(plan.actions[state])
    num_actions = counts.visits.shape[0] // experience.order.shape[0]
    if experience.entered[state] == 0:
        enter(experience, state, clock)
    is_time = action == FRESH or numbers[LENGTH] > numbers[LAST_LENGTH]
    if not is_time:
        pair = state * num_actions + action
        is_time = counts.visits[pair] >= 2.0 * plan.visits[pair]
    if is_time and numbers[WORK] <= FIRST_WORK + WORK_OF_A_STEP * clock:
        make_plan(learnt, state, clock, memory, level, generator)
        action = np.int64(plan.actions[state])
    numbers[LENGTH] += 1
    return np.int64(uniform(generator) * num_actions) if action == FRESH else action


@compiled
def learn(learnt: Learnt, state: Whole, action: Whole, reward: float, next_state: Whole, clock: int) -> None:
    """Count one transition."""
    counts, experience, _, _ = learnt
    sums = experience.sums
    pair = state * (counts.visits.shape[0] // experience.order.shape[0]) + action
    visits, distance = counts.visits[pair], reward - counts.paid[pair]
    if visits >= 1.0:
        sums[REWARD_SPREAD] += distance * distance * visits / (visits + 1.0)
        sums[DEGREES] += 1.0
    if clock == 0:
        sums[FIRST_REWARD] = reward
    elif reward != sums[FIRST_REWARD]:
        sums[DIFFER] = 1.0
    sums[MEAN] += (reward - sums[MEAN]) / (clock + 1.0)
    is_unseen = take_note(counts, pair, reward, next_state)
    note_outcome(experience, visits, is_unseen, enter(experience, next_state, clock))


@compiled
def live(
    world: FiniteWorld, learnt: Learnt, record: Record, rewards: RewardEstimate, memory: float, level: float,
    generator: Generator, place: Integers, clock: int, num_steps: int,
) -> int:  # fmt: skip
    """Live in a finite MDP; `place` (1,) moves along. Returns the number of steps, fewer where the counts lack room."""
    state = place[0]
    for t in range(clock, clock + num_steps):
        if not has_room(learnt[0]):
            place[0] = state
            return t - clock
        action = choose(learnt, state, t, memory, level, generator)
        reward, next_state = step(world, state, action, generator)
        learn(learnt, state, action, reward, next_state, t)
        rewards.theta[0] += (reward - rewards.theta[0]) / (t + 1.0)
        note(DIFFERENTIAL, record, reward, rewards)
        state = next_state
    place[0] = state
    return num_steps


@compiled
def learn_then_act(
    learnt: Learnt, record: Record, rewards: RewardEstimate, memory: float, level: float, generator: Generator, clock: int,
    state: Whole, action: Whole, reward: float, next_state: Whole, resume: Whole,
) -> np.int64:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action."""
    learn(learnt, state, action, reward, next_state, clock)
    rewards.theta[0] += (reward - rewards.theta[0]) / (clock + 1.0)
    note(DIFFERENTIAL, record, reward, rewards)
    return choose(learnt, resume, clock + 1, memory, level, generator)
