"""What the counts and the experience of a planner may be in a file, so that compiled code stays inside its arrays."""

from __future__ import annotations

import numpy as np

from perstep.agent.arrays import finite_numbers, within
from perstep.agent.life import LONGEST
from perstep.files import storage
from perstep.planning.beliefs import KNOWN, RECENT_NEW_STATES, VISITED, Experience
from perstep.planning.counts import NONE, Counts
from perstep.planning.known import owners

SMALLEST_COUNT = 1e-290  # counts that fade reach 0, and are not exact below this
COUNT_ROUNDING = 1e-6  # of sums of counts that fade


def check_counts(counts: Counts, num_states: int) -> None:
    """Refuse counts of a file with which compiled code would leave its arrays, or go round in a circle."""
    entries, atoms = counts.follower.size, counts.reward.size
    if tuple(counts.size) != (entries, atoms):
        raise storage.BadFile("The file's counts have another size than they say.")
    within("next states", counts.follower.astype(np.int64), num_states)
    within("newest entries", counts.newest.astype(np.int64), entries, least=NONE)
    within("atoms of entries", counts.atom.astype(np.int64), atoms, least=NONE)
    for name, heads, chain in (("entries", counts.newest, counts.older), ("atoms", counts.atom, counts.next_atom)):
        if (chain >= np.arange(chain.size)).any() or (chain < NONE).any():
            raise storage.BadFile(f"The file's chains of {name} do not end.")
        links = np.concatenate([heads, chain])
        if not np.array_equal(np.sort(links[links != NONE]), np.arange(chain.size)):
            raise storage.BadFile(f"The file's chains of {name} meet, or leave some out.")
    parts = (counts.visits, counts.paid, counts.spread, counts.seen, counts.reward, counts.weight)
    finite_numbers("counts", *parts)
    if any((part < 0.0).any() for part in (counts.visits, counts.spread, counts.seen, counts.weight)):
        raise storage.BadFile("The file has negative counts.")
    pair_of, entry_of = owners(counts)
    if np.unique(np.stack([pair_of, counts.follower]), axis=1).shape[1] != entries:
        raise storage.BadFile("The file counts the same next state of a pair twice.")
    for owner, parts_of, whole_of in ((pair_of, counts.seen, counts.visits), (entry_of, counts.weight, counts.seen)):
        total = np.bincount(owner, parts_of, whole_of.size)
        if not np.allclose(total, whole_of, rtol=COUNT_ROUNDING, atol=SMALLEST_COUNT):
            raise storage.BadFile("The file's counts of parts do not sum to those of the whole.")


def check_experience(experience: Experience, num_states: int, num_pairs: int) -> None:
    """The same for what was met."""
    numbers = experience.numbers
    within("numbers", numbers, LONGEST)
    within("known states", numbers[[KNOWN]], num_states + 1)
    within("visited pairs", numbers[[VISITED]], num_pairs + 1)
    within("new states", numbers[[RECENT_NEW_STATES]], num_pairs + 1)
    met = experience.order[: numbers[KNOWN]].astype(np.int64)
    within("states that were met", met, num_states)
    if np.unique(met).size != met.size or not np.array_equal(np.flatnonzero(experience.entered), np.sort(met)):
        raise storage.BadFile("The file's list of the states that were met contradicts its visits.")
    within("visits", experience.entered, LONGEST)
    within("last visits", experience.last, LONGEST)
    finite_numbers("experience", experience.expected, experience.new_successors, experience.new_states, experience.sums)
