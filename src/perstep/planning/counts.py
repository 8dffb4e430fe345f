"""What was seen, counted: which states followed each pair (S, A), how often, and what was paid on the way.

Memory is for what is distinct, not for steps. An entry is a pair and a next state. Its rewards are atoms; up to `ATOMS` distinct
rewards are exact, and of more the nearest one moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import Whole, compiled
from perstep.system.budget import claim

Floats = NDArray[np.float64]

NONE = -1
ATOMS = 64  # of an entry: a quantile of its rewards is then known to about one or two hundredths
FIRST_ROOM = 256  # entries and atoms to begin with
BYTES_OF_A_PAIR, BYTES_OF_AN_ENTRY = 60, 28


class Counts(NamedTuple):
    """The entries of a pair form a chain, the newest first; so do the atoms of an entry. Counts are numbers, not whole ones: they
    fade in a world that changes."""

    visits: Floats  # (P,): of each pair, state · A + action
    paid: Floats  # (P,): mean reward
    spread: Floats  # (P,): sum of squared distances of the rewards from their mean
    newest: NDArray[np.int32]  # (P,): its newest entry, or NONE
    follower: NDArray[np.int32]  # (C,): the next state of an entry
    seen: Floats  # (C,): how often the pair led there
    older: NDArray[np.int32]  # (C,): the next entry of the same pair, or NONE
    atom: NDArray[np.int32]  # (C,): the newest atom of the entry
    reward: Floats  # (D,): of an atom
    weight: Floats  # (D,): how often it was paid
    next_atom: NDArray[np.int32]  # (D,): the next atom of the same entry, or NONE
    size: NDArray[np.int64]  # (2,): entries and atoms so far


PER_PAIR = ("visits", "paid", "spread", "newest")
PER_ENTRY = ("follower", "seen", "older", "atom")
PER_ATOM = ("reward", "weight", "next_atom")


def new_counts(num_pairs: int, num_entries: int = FIRST_ROOM, num_atoms: int = FIRST_ROOM) -> Counts:
    """Nothing seen, and room for so many entries and atoms."""
    claim(
        BYTES_OF_A_PAIR * num_pairs + BYTES_OF_AN_ENTRY * (num_entries + num_atoms),
        f"the counts of {num_pairs:,} pairs of a state and an action",
        "Use perstep.DeepQ, or a world with fewer states.",
    )
    return Counts(
        visits=np.zeros(num_pairs),
        paid=np.zeros(num_pairs),
        spread=np.zeros(num_pairs),
        newest=np.full(num_pairs, NONE, np.int32),
        follower=np.zeros(num_entries, np.int32),
        seen=np.zeros(num_entries),
        older=np.full(num_entries, NONE, np.int32),
        atom=np.full(num_entries, NONE, np.int32),
        reward=np.zeros(num_atoms),
        weight=np.zeros(num_atoms),
        next_atom=np.full(num_atoms, NONE, np.int32),
        size=np.zeros(2, np.int64),
    )


def with_room(counts: Counts) -> Counts:
    """The same with twice the room, where there is little left."""
    entries, atoms = counts.follower.size, counts.reward.size
    more = new_counts(
        0,
        max(2 * entries, FIRST_ROOM) if counts.size[0] >= entries else entries,
        max(2 * atoms, FIRST_ROOM) if counts.size[1] >= atoms else atoms,
    )
    for name in (*PER_ENTRY, *PER_ATOM):
        old = getattr(counts, name)
        getattr(more, name)[: old.size] = old
    return more._replace(**{name: getattr(counts, name) for name in (*PER_PAIR, "size")})


@compiled
def has_room(counts: Counts) -> bool:
    """Whether one more transition fits."""
    return bool(counts.size[0] < counts.follower.shape[0] and counts.size[1] < counts.reward.shape[0])


@compiled
def take_note(counts: Counts, pair: Whole, reward: float, follower: Whole) -> bool:
    """Count one transition; returns whether the pair never led there before."""
    counts.visits[pair] += 1.0
    distance = reward - counts.paid[pair]
    counts.paid[pair] += distance / counts.visits[pair]
    counts.spread[pair] += distance * (reward - counts.paid[pair])
    entry = np.int64(counts.newest[pair])
    while entry != NONE and counts.follower[entry] != follower:
        entry = np.int64(counts.older[entry])
    is_new = entry == NONE
    if is_new:
        entry = counts.size[0]
        counts.size[0] = entry + 1
        counts.follower[entry], counts.seen[entry] = follower, 0.0
        counts.older[entry], counts.newest[pair] = counts.newest[pair], entry
        counts.atom[entry] = NONE
    counts.seen[entry] += 1.0
    _take_reward(counts, entry, reward)
    return bool(is_new)


@compiled
def _take_reward(counts: Counts, entry: Whole, reward: float) -> None:
    """Count a reward of an entry: as an atom of its own, or in the mean of the nearest one."""
    nearest, known = np.int64(counts.atom[entry]), 0
    atom = nearest
    while atom != NONE:
        if abs(counts.reward[atom] - reward) < abs(counts.reward[nearest] - reward):
            nearest = atom
        known += 1
        atom = np.int64(counts.next_atom[atom])
    if nearest == NONE or (counts.reward[nearest] != reward and known < ATOMS):
        nearest = counts.size[1]
        counts.size[1] = nearest + 1
        counts.reward[nearest], counts.weight[nearest] = reward, 0.0
        counts.next_atom[nearest], counts.atom[entry] = counts.atom[entry], nearest
    counts.weight[nearest] += 1.0
    counts.reward[nearest] += (reward - counts.reward[nearest]) / counts.weight[nearest]


@compiled
def fade(counts: Counts, factor: float) -> None:
    """Let all that was seen count less."""
    for pair in range(counts.visits.shape[0]):
        counts.visits[pair] *= factor
        counts.spread[pair] *= factor
    for entry in range(counts.size[0]):
        counts.seen[entry] *= factor
    for atom in range(counts.size[1]):
        counts.weight[atom] *= factor
