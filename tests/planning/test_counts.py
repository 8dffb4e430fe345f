"""What was seen, counted: compiled counts beside dictionaries, on the same transitions."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from perstep.planning.counts import ATOMS, NONE, fade, has_room, new_counts, take_note, with_room
from perstep.system.budget import TooLarge

STATES, ACTIONS = 6, 3
PAIRS = STATES * ACTIONS


class Notes:
    """The same in dictionaries: every reward of every transition, in order."""

    def __init__(self):
        self.rewards = defaultdict(list)  # of a pair
        self.outcomes = defaultdict(list)  # the rewards of a pair and a next state

    def take(self, pair, reward, follower):
        is_new = (pair, follower) not in self.outcomes
        self.rewards[pair].append(reward)
        self.outcomes[pair, follower].append(reward)
        return is_new


def transitions(number, rewards, seed=0):
    """Random pairs, rewards and next states."""
    rng = np.random.default_rng(seed)
    return [(int(rng.integers(PAIRS)), rewards(rng), int(rng.integers(STATES))) for _ in range(number)]


def counted(seen, entries=256, atoms=256):
    """Counts and notes of the same transitions; the counts grow where they must."""
    counts, notes = new_counts(PAIRS, entries, atoms), Notes()
    for one in seen:
        if not has_room(counts):
            counts = with_room(counts)
        assert take_note(counts, *one) == notes.take(*one)
    return counts, notes


def chain(first, following):
    """The elements of a chain, the newest first."""
    found, place = [], int(first)
    while place != NONE:
        found.append(place)
        place = int(following[place])
    return found


def entries_of(counts):
    """{(pair, next state): entry}."""
    return {
        (pair, int(counts.follower[entry])): entry
        for pair in range(PAIRS)
        for entry in chain(counts.newest[pair], counts.older)
    }


def atoms_of(counts, entry):
    """The rewards of an entry and how often each was paid, the smallest first."""
    atoms = chain(counts.atom[entry], counts.next_atom)
    return sorted((float(counts.reward[atom]), float(counts.weight[atom])) for atom in atoms)


def test_counts_are_those_of_dictionaries():
    counts, notes = counted(transitions(5_000, lambda rng: float(rng.integers(-9, 10)) / 4.0))
    for pair in range(PAIRS):
        rewards = np.array(notes.rewards[pair])
        assert counts.visits[pair] == rewards.size
        assert counts.paid[pair] == pytest.approx(rewards.mean(), abs=1e-12)
        assert counts.spread[pair] == pytest.approx(((rewards - rewards.mean()) ** 2).sum(), rel=1e-10)
    entries = entries_of(counts)
    assert entries.keys() == notes.outcomes.keys()
    assert counts.size[0] == len(entries)
    for outcome, entry in entries.items():
        values, times = np.unique(notes.outcomes[outcome], return_counts=True)
        assert counts.seen[entry] == len(notes.outcomes[outcome])
        assert atoms_of(counts, entry) == list(zip(values, times, strict=True))


def test_the_newest_entry_is_the_first_of_its_chain():
    counts, _ = counted([(4, 1.0, 3), (4, 1.0, 0), (4, 1.0, 3), (4, 1.0, 5)])
    assert [int(counts.follower[entry]) for entry in chain(counts.newest[4], counts.older)] == [5, 0, 3]


def test_so_many_distinct_rewards_are_exact():
    rewards = np.random.default_rng(0).permutation(np.repeat(np.arange(ATOMS), 3)) / 7.0
    counts, _ = counted([(0, float(reward), 1) for reward in rewards])
    assert atoms_of(counts, 0) == [(k / 7.0, 3.0) for k in range(ATOMS)]


def test_of_more_rewards_the_nearest_atom_moves_to_the_mean():
    # 64 atoms at 0, 10, …, 630. Then 12.0: the nearest is 10, which becomes (10 + 12)/2 = 11. Then 14: (2·11 + 14)/3 = 12.
    counts, _ = counted([(0, 10.0 * k, 1) for k in range(ATOMS)] + [(0, 12.0, 1), (0, 14.0, 1)])
    expected = [(10.0 * k, 1.0) for k in range(ATOMS)]
    expected[1] = (12.0, 3.0)
    assert atoms_of(counts, 0) == expected


def test_many_rewards_keep_their_mean_and_quantiles():
    counts, notes = counted([(0, reward, 1) for _, reward, _ in transitions(20_000, lambda rng: rng.normal())])
    values, times = np.array(atoms_of(counts, 0)).T
    rewards = np.sort(notes.rewards[0])
    assert times.size == ATOMS
    assert times.sum() == rewards.size
    assert values @ times / times.sum() == pytest.approx(rewards.mean(), abs=1e-12)
    middle = values[np.searchsorted(times.cumsum() / times.sum(), [0.1, 0.5, 0.9])]
    np.testing.assert_allclose(middle, np.quantile(rewards, [0.1, 0.5, 0.9]), atol=0.15)


@pytest.mark.parametrize(("entries", "atoms"), [(1, 1), (0, 0), (256, 1), (1, 256)])
def test_growing_keeps_everything(entries, atoms):
    seen = transitions(2_000, lambda rng: float(rng.integers(5)))
    grown, _ = counted(seen, entries, atoms)
    roomy, _ = counted(seen, 10_000, 10_000)
    for name in grown._fields:
        size = getattr(grown, name).size
        if name in ("visits", "paid", "spread", "newest", "size"):
            size = None
        elif name in ("reward", "weight", "next_atom"):
            size = int(grown.size[1])
        else:
            size = int(grown.size[0])
        np.testing.assert_array_equal(getattr(grown, name)[:size], getattr(roomy, name)[:size])


def test_fading_lets_all_count_less_and_keeps_means():
    counts, _ = counted(transitions(1_000, lambda rng: float(rng.integers(5))))
    before = [array.copy() for array in counts]
    fade(counts, 0.25)
    for name, old, new in zip(counts._fields, before, counts, strict=True):
        factor = 0.25 if name in ("visits", "spread", "seen", "weight") else 1
        np.testing.assert_array_equal(new, old * factor)


def test_after_fading_new_rewards_count_more():
    # Eight rewards of 0 that count 1/8 each are one: with one reward of 1 the mean is 1/2, and the spread 2 · 1/4.
    counts, _ = counted([(0, 0.0, 1)] * 8)
    fade(counts, 0.125)
    take_note(counts, 0, 1.0, 1)
    assert (counts.visits[0], counts.paid[0], counts.spread[0], counts.seen[0]) == (2.0, 0.5, 0.5, 2.0)
    assert atoms_of(counts, 0) == [(0.0, 1.0), (1.0, 1.0)]


def test_too_many_pairs_are_refused_before_memory_is_taken():
    with pytest.raises(TooLarge, match=r"counts of 2,000,000,000 pairs .* Use perstep\.DeepQ, or a world with fewer"):
        new_counts(2_000_000_000)
