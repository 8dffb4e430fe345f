"""The posterior of what was seen and of what is unseen, and one model drawn from it: this draw is all of the exploration.

Posterior sampling (Thompson 1933; Strens 2000; Ouyang et al. 2017) with a posterior that holds the unseen. A model is drawn from
the Dirichlet posterior of the next states of each pair and the normal posterior of its mean reward. Beside it stands what a pair
has not shown in n visits:

- The chance that the next visit shows it. A pair has more to show with probability π, and then with an unknown chance, uniform in
  [0, 1]. So n visits without it leave π / ((n + 1) (n + 2)) / (1 − π + π / (n + 1)) (Laplace's rule, with a spike at 0). π is
  learnt from how often visits of the same doubling of n showed something unseen; for first visits the chance itself is learnt.
- Its worth. The next state to be met is the best of K + 1 with chance 1 / (K + 1), since they are exchangeable. Then it is worth as
  much above the gain of the plan before as that is above the reward of the average pair, for as long as the life so far.
- Whatever is unseen leads back to where the agent is now.

What is proven: posterior sampling without the unseen part has a bounded regret (Ouyang et al. 2017, for weakly communicating worlds
and a known set of states). With it nothing is proven; docs/learners/planner.md has the measurements.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import Whole, compiled
from perstep.numerics.randomness import Generator, normal, uniform
from perstep.planning.counts import NONE, Counts

Floats = NDArray[np.float64]

DOUBLINGS = 64
KNOWN, VISITED, RECENT_NEW_STATES, LENGTH, LAST_LENGTH, PLANS, WORK = range(7)
NUMBERS = 7
MEAN, REWARD_SPREAD, DEGREES, GAIN, FIRST_REWARD, DIFFER, PLANNED_AT, THRESHOLD = range(8)
SUMS = 8


class Experience(NamedTuple):
    """What was met, and how often it was unseen before."""

    order: NDArray[np.int32]  # (S,): the states in the order in which they were met
    entered: NDArray[np.int64]  # (S,): how often
    last: NDArray[np.int64]  # (S,): when last
    expected: Floats  # (64,): Σ 1/((n + 1)(n + 2)) over the visits of a doubling of n: what π is measured against
    new_successors: Floats  # (64,): visits that led where their pair never led before
    new_states: Floats  # (64,): visits that led to a state never met before
    first: NDArray[np.bool_]  # (P,): of the k-th pair visited, whether its first visit led to a new state
    numbers: NDArray[np.int64]  # (7,): KNOWN … WORK
    sums: Floats  # (8,): MEAN … THRESHOLD


class Draw(NamedTuple):
    """A model drawn from the posterior. Next states of a pair stand together, in the order in which a plan reads them."""

    chance: Floats  # (C,): of a next state, given that the pair shows nothing unseen
    follower: NDArray[np.int32]  # (C,): that next state
    begin: NDArray[np.int32]  # (P,): where those of a pair begin
    end: NDArray[np.int32]  # (P,): and end
    reward: Floats  # (P,): mean reward of a pair
    unseen: Floats  # (P,): the chance of an outcome that the pair never had
    new: Floats  # (P,): that of a state that was never met
    worth: Floats  # (2,): the reward per step of a new state, and for how many steps


def new_experience(num_states: int, num_pairs: int) -> Experience:
    """Nothing met."""
    return Experience(
        order=np.zeros(num_states, np.int32),
        entered=np.zeros(num_states, np.int64),
        last=np.zeros(num_states, np.int64),
        expected=np.zeros(DOUBLINGS),
        new_successors=np.zeros(DOUBLINGS),
        new_states=np.zeros(DOUBLINGS),
        first=np.zeros(num_pairs, np.bool_),
        numbers=np.zeros(NUMBERS, np.int64),
        sums=np.zeros(SUMS),
    )


def new_draw(num_pairs: int, num_entries: int) -> Draw:
    """Room for a model."""
    return Draw(
        chance=np.zeros(num_entries),
        follower=np.zeros(num_entries, np.int32),
        begin=np.zeros(num_pairs, np.int32),
        end=np.zeros(num_pairs, np.int32),
        reward=np.zeros(num_pairs),
        unseen=np.zeros(num_pairs),
        new=np.zeros(num_pairs),
        worth=np.zeros(2),
    )


@compiled
def doubling(visits: float) -> np.int64:
    """0 for a first visit, k for visits from 2^(k − 1) on."""
    return np.int64(math.log2(visits)) + 1 if visits >= 1.0 else np.int64(0)


@compiled
def enter(experience: Experience, state: Whole, clock: int) -> bool:
    """Meet a state; returns whether for the first time."""
    is_new = experience.entered[state] == 0
    if is_new:
        experience.order[experience.numbers[KNOWN]] = state
        experience.numbers[KNOWN] += 1
    experience.entered[state] += 1
    experience.last[state] = clock
    return bool(is_new)


@compiled
def note_outcome(experience: Experience, visits: float, is_unseen: bool, is_new: bool) -> None:
    """Take note of what a visit has shown, of a pair that had `visits` before."""
    k = doubling(visits)
    if k > 0:
        experience.expected[k] += 1.0 / ((visits + 1.0) * (visits + 2.0))
        experience.new_successors[k] += 1.0 if is_unseen else 0.0
        experience.new_states[k] += 1.0 if is_new else 0.0
        return
    numbers = experience.numbers
    if numbers[VISITED] < experience.first.shape[0]:  # counts that fade may fall below one visit again
        experience.first[numbers[VISITED]] = is_new
        numbers[VISITED] += 1
        numbers[RECENT_NEW_STATES] += 1 if is_new else 0
        if numbers[VISITED] % 2 == 0 and experience.first[numbers[VISITED] // 2 - 1]:  # leaves the later half
            numbers[RECENT_NEW_STATES] -= 1


@compiled
def unseen_chance(share: float, visits: float) -> float:
    """The chance that the next visit shows what `visits` have not, if a `share` of pairs has something to show."""
    return share / ((visits + 1.0) * (visits + 2.0)) / (1.0 - share + share / (visits + 1.0))


@compiled
def share_with_unseen(experience: Experience, events: Floats, k: Whole) -> float:
    """π at a doubling: events over what was expected, begun from the doubling before with the weight of one pair."""
    share = 1.0
    for i in range(1, k + 1):
        share = min(1.0, (events[i] + share) / (experience.expected[i] + 1.0))
    return share


@compiled
def gamma(shape: float, generator: Generator) -> float:
    """A draw from the gamma distribution (Marsaglia & Tsang 2000)."""
    boost = 1.0
    if shape < 1.0:
        boost, shape = (1.0 - uniform(generator)) ** (1.0 / shape), shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(generator)
        v = (1.0 + c * x) ** 3
        if v > 0.0:
            u = 1.0 - uniform(generator)
            if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return boost * d * v


@compiled
def mean_with_risk(counts: Counts, pair: Whole, threshold: float, level: float) -> float:
    """The mean of what the rewards of a pair are worth: min(y, R) less the part below y once more for each 1/τ (CVaR)."""
    if level == 1.0:
        return float(counts.paid[pair])
    total, entry = 0.0, np.int64(counts.newest[pair])
    while entry != NONE:
        atom = np.int64(counts.atom[entry])
        while atom != NONE:
            total += counts.weight[atom] * (threshold - max(threshold - counts.reward[atom], 0.0) / level)
            atom = np.int64(counts.next_atom[atom])
        entry = np.int64(counts.older[entry])
    return float(total / counts.visits[pair])


@compiled
def draw_chances(counts: Counts, pair: Whole, draw: Draw, place: int, generator: Generator) -> int:
    """Chances of the next states of a pair, from their Dirichlet posterior; returns where those of the next pair begin."""
    total, entry, begin = 0.0, np.int64(counts.newest[pair]), place
    while entry != NONE:
        draw.chance[place], draw.follower[place] = gamma(counts.seen[entry], generator), counts.follower[entry]
        total += draw.chance[place]
        place += 1
        entry = np.int64(counts.older[entry])
    for i in range(begin, place):
        draw.chance[i] = draw.chance[i] / total if total > 0.0 else 1.0 / (place - begin)
    draw.begin[pair], draw.end[pair] = begin, place
    return place


@compiled
def reward_error(counts: Counts, experience: Experience, pair: Whole) -> float:
    """The standard error of the mean reward of a pair. Its variance is pooled with that within all pairs, as one more reward."""
    sums = experience.sums
    pooled = sums[REWARD_SPREAD] / sums[DEGREES] if sums[DEGREES] > 0.0 else 0.0
    return math.sqrt((counts.spread[pair] + pooled) / counts.visits[pair] / counts.visits[pair])


@compiled
def draw_model(
    counts: Counts,
    experience: Experience,
    draw: Draw,
    num_actions: int,
    clock: int,
    life: float,
    level: float,
    generator: Generator,
) -> None:
    """Draw a model from the posterior at this step of the clock, in a life that counts for so many steps. For a `level` below 1, of
    what rewards are worth (CVaR)."""
    numbers, sums = experience.numbers, experience.sums
    record, total, pairs = -math.inf, 0.0, 0
    for i in range(numbers[KNOWN]):
        state = experience.order[i]
        is_late = experience.last[state] >= clock - 0.5 * life
        for pair in range(state * num_actions, (state + 1) * num_actions):
            if counts.visits[pair] > 0.0:
                mean = mean_with_risk(counts, pair, sums[THRESHOLD], level)
                draw.reward[pair] = mean
                total += mean
                pairs += 1
                if is_late:
                    record = max(record, mean)
    average = total / pairs if pairs > 0 else 0.0
    record = record if record > -math.inf else average
    gain = max(min(sums[GAIN], record), average)  # what the plan before expected, at most the record
    draw.worth[0] = (
        2.0 * gain - average if sums[DIFFER] > 0.0 else record + 1.0
    )  # with equal rewards any surplus will do
    draw.worth[1] = life / (numbers[KNOWN] + 1.0)
    recent = numbers[VISITED] - numbers[VISITED] // 2
    first_is_new = (numbers[RECENT_NEW_STATES] + 1.0) / (recent + 1.0)
    place = 0
    for i in range(numbers[KNOWN]):
        state = experience.order[i]
        for pair in range(state * num_actions, (state + 1) * num_actions):
            visits = counts.visits[pair]
            draw.begin[pair] = draw.end[pair] = place
            if visits < 1.0:
                draw.reward[pair], draw.unseen[pair], draw.new[pair] = sums[MEAN], 1.0, first_is_new
                continue
            k = doubling(visits)
            draw.unseen[pair] = unseen_chance(share_with_unseen(experience, experience.new_successors, k), visits)
            draw.new[pair] = min(
                unseen_chance(share_with_unseen(experience, experience.new_states, k), visits), draw.unseen[pair]
            )
            draw.reward[pair] += reward_error(counts, experience, pair) * normal(generator)
            place = draw_chances(counts, pair, draw, place, generator)
