"""Exploration that reaches far-off rewards, on a table: the urge to go where little is known, which travels through the bootstrap.

Beside the values the table keeps urges E(s, a): the discounted sum of 1/√(1 + ν) along the most promising path, ν being the
visits of a pair. An exploration goes where the urge is largest, for about a hundred steps. Values, θ, R̄ and recorded rewards know
nothing of it, so that the scale of the rewards plays no role.

The agent lives in cycles. In the first part of a cycle it explores at times, and tries single actions. In the rest it takes the
best actions and nothing else. What it earns there, once it has settled, is the distribution of the reward: the cost of a try is no
part of it, however late it comes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import compiled, inlined
from perstep.policies import greedy, most_promising
from perstep.randomness import uniform

EXPLORING, CHOSEN, ENTRIES, POSITION = 0, 1, 2, 3
"""Places of the mood. EXPLORING: steps of this exploration so far; below 0, between explorations and tries, or not settled yet.
CHOSEN: actions chosen so far. ENTRIES: pairs visited so far. POSITION: steps of this cycle so far."""
MOOD = 4
HORIZON_FACTOR = 0.99  # of the urges: they see about a hundred steps ahead
GREATEST_URGE = 1.0 / (1.0 - HORIZON_FACTOR)  # nothing is known yet
LENGTH = 100.0  # mean number of steps of an exploration
FALL = 10_000.0  # steps after which the share of explorations begins to fall
FALL_PER_ENTRY = 4.0  # the same for every entry of the table that was met, where that is more
SHARE_TO_FIND = 0.9  # where the share of explorations stays while all rewards were the same
EARLY = 0.1  # share of explorations above which R̄ follows all steps with the best actions, not only those that count
SHORTEST_CYCLE, SHORT_CYCLE = (
    100.0,
    1_000.0,
)  # steps; cycles do not become longer than short ones in a world that changes
CYCLE = 0.1  # length of a cycle, as a share of all steps so far
BUSY, MOST_BUSY = 0.4, 0.9  # least and largest part of a cycle with explorations and tries
SETTLING = 0.15  # of the rest: steps that do not count, since an exploration or a try may have left the agent far away
MOST_TRIES = 0.1  # the largest chance of trying a rarely tried action
FALL_OF_TRIES = 2.0  # how fast that chance falls with the visits of a state
TRIES_OF_PROMISING = 0.5  # the chance of an action that may be the best
DOUBT = 2.0  # standard errors by which a value may be too small


@inlined
def share_of_explorations(table: Any, least: Any) -> Any:
    """The share of steps that belong to explorations now."""
    fall = max(FALL, FALL_PER_ENTRY * table.mood[ENTRIES])
    return max(least, 1.0 / (1.0 + table.mood[CHOSEN] / fall))


@compiled
def chance_of_a_try(visits: Any, least: Any) -> Any:
    """The chance of trying the action with the fewest visits in a state, whose actions have these visits."""
    total = 0
    for a in range(visits.shape[0]):
        total += visits[a]
    return max(least, min(MOST_TRIES, 1.0 / math.sqrt(1.0 + FALL_OF_TRIES * total)))


@inlined
def is_usual(table: Any) -> Any:
    """Whether this step counts as what the agent does when it neither explores nor tries; in the first cycle all steps do."""
    return table.mood[EXPLORING] == 0 or table.mood[CHOSEN] <= SHORTEST_CYCLE


@inlined
def moves_average(table: Any) -> Any:
    """Whether R̄ may follow this step. After a try it may take long until all is as before, and δ may be large on the way."""
    return is_usual(table) or share_of_explorations(table, 0.0) > EARLY


@inlined
def enter_cycle(mood: Any, busy: Any, short: Any) -> Any:
    """Take one more step in the cycle; returns whether it is in the busy part. If not, the mood is set to whether it counts."""
    length = max(SHORTEST_CYCLE, CYCLE * mood[CHOSEN])
    if short:
        length = min(length, SHORT_CYCLE)
    if mood[POSITION] >= length:
        mood[POSITION] = 0
    position = mood[POSITION] / length
    mood[POSITION] += 1
    if position < busy:
        return True
    mood[EXPLORING] = -1 if position < busy + SETTLING * (1.0 - busy) else 0
    return False


@compiled
def act_curiously(table: Any, model: Any, state: Any, least: Any, nothing_to_lose: Any, generator: Any) -> Any:
    """The best action; in the busy part of a cycle, where the urge is largest during an exploration, and at times the action with
    the fewest visits, or with a model often one that may be better than the best.

    `least`: the least share of explorations and of tries, above 0 for worlds that change. `nothing_to_lose`: all rewards were the
    same so far, so that whatever makes a difference is still to be found; explorations do not become rarer then.
    """
    mood, visits = table.mood, table.visits[state]
    share = share_of_explorations(table, least)
    if not nothing_to_lose or share > SHARE_TO_FIND:
        mood[CHOSEN] += 1
    best, busy = greedy(table.scores[state]), min(max(BUSY, share), MOST_BUSY)
    has_model = model.numbers.shape[0] > 0  # without one, values need tries all the time
    if not enter_cycle(mood, busy, least > 0.0 or not has_model):
        return best
    share = min(SHARE_TO_FIND, share / busy)
    draw = uniform(generator)
    if mood[EXPLORING] > 0:
        mood[EXPLORING] = -1 if draw * LENGTH < 1.0 else mood[EXPLORING] + 1
    else:
        mood[EXPLORING] = 1 if draw * LENGTH * (1.0 - share) < share else -1
    if mood[EXPLORING] > 0:
        return greedy(table.urges[state])
    draw = uniform(generator)
    if draw * busy < chance_of_a_try(visits, least):
        rarest = best
        for a in range(visits.shape[0]):
            if visits[a] < visits[rarest]:
                rarest = a
        return rarest
    if has_model and draw < TRIES_OF_PROMISING:
        pairs = slice(state * visits.shape[0], (state + 1) * visits.shape[0])
        return most_promising(table.scores[state], best, model.numbers[pairs], model.squares[pairs], DOUBT)
    return best


@inlined
def urge_of(visits: Any, ahead: Any) -> Any:
    """The urge of an entry with this many visits, if the largest urge after it is `ahead`."""
    return 1.0 / math.sqrt(1.0 + visits) + HORIZON_FACTOR * ahead


@compiled
def grow_curious(table: Any, state: Any, action: Any, next_state: Any) -> None:
    """Move the urge of an entry that was just visited. Its first visit has a step of one half."""
    visits = table.visits[state, action]
    if visits == 1:
        table.mood[ENTRIES] += 1
    ahead = table.urges[next_state, greedy(table.urges[next_state])]
    step = 0.5 / math.sqrt(visits)
    table.urges[state, action] += step * (urge_of(visits, ahead) - table.urges[state, action])


def with_position(mood: NDArray[np.int64]) -> NDArray[np.int64]:
    """The mood of a file, also of one that was written when there were no cycles: the first one begins."""
    return np.append(mood, 0) if mood.shape == (POSITION,) else mood
