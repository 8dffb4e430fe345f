"""The world as learnt, from counts: a `FiniteMDP`, and draws of what its policy may earn, given all that is not known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.mdp import building
from perstep.mdp.chains import closed_classes, reachable, stationary_gain_values
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import pack
from perstep.planning.beliefs import DEGREES, KNOWN, MEAN, REWARD_SPREAD, Experience
from perstep.planning.beliefs import share_with_unseen as share_now
from perstep.planning.counts import Counts

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def owners(counts: Counts) -> tuple[Integers, Integers]:
    """The pair of every entry, and the entry of every atom."""
    entries, atoms = map(int, counts.size)
    return _heads(counts.newest, counts.older[:entries]), _heads(counts.atom[:entries], counts.next_atom[:atoms])


def _heads(first: NDArray[np.int32], following: NDArray[np.int32]) -> Integers:
    """Which chain each element is in: all chains are walked at once."""
    owner = np.full(following.size, -1, np.int64)
    chain = np.flatnonzero(first >= 0)
    place = first[chain].astype(np.int64)
    while chain.size:
        owner[place] = chain
        place = following[place].astype(np.int64)
        chain, place = chain[place >= 0], place[place >= 0]
    return owner


def world_as_learnt(
    counts: Counts,
    experience: Experience,
    state: int,
    real: FiniteMDP | None,
    name: str,
) -> FiniteMDP:
    """All that was seen, as often as it was seen, with the states of the real world. `state`: where the agent is now;
    `real`: the world that it is, for its names.

    An action that was never taken does what the first one that was taken does. A state that was never left leads to the first
    state that was met, and pays the mean reward of the life so far.
    """
    num_states, num_actions = experience.order.size, counts.visits.size // experience.order.size
    entry_pair, atom_entry = owners(counts)
    share = counts.seen[: entry_pair.size] / np.maximum(counts.visits[entry_pair], 1e-300)
    weight = counts.weight[: atom_entry.size] / np.maximum(counts.seen[atom_entry], 1e-300)
    visited: NDArray[np.bool_] = np.asarray(counts.newest >= 0).reshape(num_states, num_actions)
    left = np.asarray(visited.any(axis=1))
    copied = np.where(left[:, None] & ~visited, visited.argmax(axis=1)[:, None], np.arange(num_actions))
    source = np.arange(num_states)[:, None] * num_actions + copied  # the pair that each pair is like
    pair, where = _rows_of(
        entry_pair[atom_entry], source.ravel(), visited[np.arange(num_states)[:, None], copied].ravel()
    )
    never = np.flatnonzero(np.repeat(~left, num_actions))
    outcomes = pack(
        num_states,
        num_actions,
        np.concatenate([pair, never]),
        np.concatenate([counts.follower[atom_entry[where]].astype(np.int64), np.full(never.size, experience.order[0])]),
        np.concatenate([counts.reward[where], np.full(never.size, experience.sums[MEAN])]),
        np.zeros(pair.size + never.size),
        np.concatenate([(share[atom_entry] * weight)[where], np.ones(never.size)]),
        np.inf,
    )
    allowed = None if real is None else real.allowed
    possible = np.where(left[:, None], visited, True if allowed is None else allowed)
    initial = np.arange(num_states) == state
    states, actions = (None, None) if real is None else (real.states, real.actions)
    model = building.Model(outcomes, possible, initial.astype(np.float64), states, actions)
    return FiniteMDP._from_model(model, None, name)


def _rows_of(owner: Integers, wanted: Integers, has: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """For rows that are copies of others: the number of each row, once for each element of its source, and the element."""
    order = np.argsort(owner, kind="stable")
    ordered = owner[order]
    rows = np.flatnonzero(has)
    begin, end = np.searchsorted(ordered, wanted[rows]), np.searchsorted(ordered, wanted[rows], side="right")
    length = end - begin
    inside = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(rows, length), order[np.repeat(begin, length) + inside]


class Possibility(NamedTuple):
    """What a policy earns in one of the worlds that the counts allow."""

    gain: float
    values: Floats  # (S,): relative to their mean in the long run; NaN where the policy does not lead


def possibilities(
    counts: Counts, experience: Experience, actions: Integers, state: int, number: int, random: np.random.Generator
) -> list[Possibility]:
    """Draws from the posterior: next states from a Dirichlet distribution, mean rewards from a normal one, and with the chance that
    a pair has more to show, an outcome of unknown chance that leads to a state that was met, drawn by its visits."""
    from scipy.sparse import csr_array

    num_states = experience.order.size
    num_actions = counts.visits.size // num_states
    entry_pair, _ = owners(counts)
    entry_state = entry_pair // num_actions
    follows = entry_pair == entry_state * num_actions + actions[entry_state]
    rows, successors = entry_state[follows], counts.follower[: entry_pair.size][follows].astype(np.int64)
    seen = counts.seen[: entry_pair.size][follows]
    met = np.sort(experience.order[: experience.numbers[KNOWN]].astype(np.int64))
    pairs = met * num_actions + actions[met]
    visits = counts.visits[pairs]
    pooled = experience.sums[REWARD_SPREAD] / max(experience.sums[DEGREES], 1.0)
    error = np.sqrt((counts.spread[pairs] + pooled) / np.maximum(visits, 1.0)) / np.sqrt(np.maximum(visits, 1.0))
    doublings = np.where(visits >= 1.0, np.floor(np.log2(np.maximum(visits, 1.0))).astype(int) + 1, 0)
    share = np.array(
        [share_now(experience, experience.new_successors, k) for k in range(int(doublings.max(initial=0)) + 1)]
    )
    share = share[doublings] / (visits + 1.0) / (1.0 - share[doublings] + share[doublings] / (visits + 1.0))
    frequency = np.maximum(experience.entered[met], 1) / np.maximum(experience.entered[met], 1).sum()
    found = []
    for _ in range(number):
        chance = random.standard_gamma(seen)
        total = np.bincount(rows, chance, num_states)[met]
        hidden = np.where(random.random(met.size) < share, random.beta(1.0, visits + 1.0), 0.0)
        hidden = np.where((visits < 1.0) | (total <= 0.0), 1.0, hidden)
        somewhere = random.choice(met, met.size, p=frequency)
        kept = np.zeros(num_states)
        kept[met] = np.where(hidden < 1.0, (1.0 - hidden) / np.where(total > 0.0, total, 1.0), 0.0)
        chain = csr_array(
            (
                np.concatenate([chance * kept[rows], hidden]),
                (np.concatenate([rows, met]), np.concatenate([successors, somewhere])),
            ),
            shape=(num_states, num_states),
        )
        chain.eliminate_zeros()
        reward = np.zeros(num_states)
        reward[met] = np.where(visits >= 1.0, counts.paid[pairs], experience.sums[MEAN])
        reward[met] += np.where(visits >= 1.0, error, 0.0) * random.standard_normal(met.size)
        counted = reachable(chain, np.arange(num_states) == state)
        inside = chain[counted][:, counted]
        classes = closed_classes(inside)
        values = np.full(num_states, np.nan)
        if len(classes) > 1:  # which of them is reached is a matter of chance: take one
            within = np.flatnonzero(counted)[classes[int(random.integers(len(classes)))]]
            counted = np.isin(np.arange(num_states), within)
            inside, classes = chain[counted][:, counted], [np.arange(within.size)]
        _, gain, values[counted] = stationary_gain_values(inside, reward[counted], classes[0])
        found.append(Possibility(gain, values))
    return found
