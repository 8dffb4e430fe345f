"""Exploration that reaches far-off rewards, on a table: the urge to go where little is known, which travels through the bootstrap.

Beside the values the table keeps urges E(s, a): the discounted sum of 1/√(1 + ν) along the most promising path, ν being the
visits of a pair. An exploration goes where the urge is largest, for about a hundred steps; in between the agent is greedy. Values,
θ, R̄ and recorded rewards know nothing of it, so that the scale of the rewards plays no role.
"""

from __future__ import annotations

import math
from typing import Any

from perstep.compiled import compiled, inlined
from perstep.policies import greedy, most_promising
from perstep.randomness import uniform

EXPLORING, CHOSEN, ENTRIES = 0, 1, 2
"""Places of the mood. EXPLORING: steps of this exploration so far; below 0, a try, or steps that the way back from one or from an
exploration may still take."""
MOOD = 3
HORIZON_FACTOR = 0.99  # of the urges: they see about a hundred steps ahead
GREATEST_URGE = 1.0 / (1.0 - HORIZON_FACTOR)  # nothing is known yet
LENGTH = 100.0  # mean number of steps of an exploration
FALL = 10_000.0  # steps after which the share of explorations begins to fall
FALL_PER_ENTRY = 4.0  # the same for every entry of the table that was met, where that is more
SHARE_TO_FIND = 0.9  # where the share of explorations stays while all rewards were the same
WAY_BACK = 2.0  # length of the way back from an exploration, in lengths of the exploration
SHORTEST_WAY_BACK = 10.0  # steps, where few steps explore: what one action costs may come later
MOST_TRIES = 0.1  # the largest chance of trying a rarely tried action outside of explorations
FALL_OF_TRIES = 2.0  # how fast that chance falls with the visits of a state
MORE_TRIES = 10.0  # how many times as often an action is tried that may be the best
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
def way_back(length: Any, share: Any) -> Any:
    """Steps after an exploration, or a try, whose rewards still belong to it, since it may have left the agent far away. While most
    steps explore they are few, so that enough of the others are left."""
    return int(max(SHORTEST_WAY_BACK, WAY_BACK * length) * (1.0 - share))


@inlined
def is_usual(table: Any) -> Any:
    """Whether this step belongs neither to an exploration or a try, nor to the way back from one."""
    return table.mood[EXPLORING] == 0


@compiled
def act_curiously(table: Any, model: Any, state: Any, least: Any, nothing_to_lose: Any, generator: Any) -> Any:
    """Where the urge is largest during an exploration; otherwise the best action, at times the one with the fewest visits, or with
    a model more often one that may be better than the best.

    `least`: the least share of explorations and of tries, above 0 for worlds that change. `nothing_to_lose`: all rewards were the
    same so far, so that whatever makes a difference is still to be found; explorations do not become rarer then.
    """
    mood, visits = table.mood, table.visits[state]
    share = share_of_explorations(table, least)
    if not nothing_to_lose or share > SHARE_TO_FIND:
        mood[CHOSEN] += 1
    draw = uniform(generator)
    if mood[EXPLORING] > 0:
        mood[EXPLORING] = -way_back(mood[EXPLORING], share) if draw * LENGTH < 1.0 else mood[EXPLORING] + 1
    else:
        mood[EXPLORING] = 1 if draw * LENGTH * (1.0 - share) < share else min(mood[EXPLORING] + 1, 0)
    if mood[EXPLORING] > 0:
        return greedy(table.urges[state])
    best = greedy(table.scores[state])
    draw, chance = uniform(generator), chance_of_a_try(visits, least)
    if draw < chance:
        rarest = best
        for a in range(visits.shape[0]):
            if visits[a] < visits[rarest]:
                rarest = a
        if rarest != best:  # an exploration of one step
            mood[EXPLORING] = min(mood[EXPLORING], -1 - way_back(1, share))
        return rarest
    if model.numbers.shape[0] > 0 and draw < min(MOST_TRIES, MORE_TRIES * chance):
        pairs = slice(state * visits.shape[0], (state + 1) * visits.shape[0])
        return most_promising(table.scores[state], best, model.numbers[pairs], model.squares[pairs], DOUBT)
    return best


@compiled
def grow_curious(table: Any, state: Any, action: Any, next_state: Any) -> None:
    """Move the urge of an entry that was just visited. Its first visit has a step of one half."""
    visits = table.visits[state, action]
    if visits == 1:
        table.mood[ENTRIES] += 1
    news = 1.0 / math.sqrt(1.0 + visits)
    ahead = table.urges[next_state, greedy(table.urges[next_state])]
    step = 0.5 / math.sqrt(visits)
    table.urges[state, action] += step * (news + HORIZON_FACTOR * ahead - table.urges[state, action])
