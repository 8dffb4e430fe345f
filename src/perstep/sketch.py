"""A sketch of the rewards: their distribution with its tails, in memory of a fixed size. It holds what the m quantiles θ cannot.

A table holds distinct rewards with exact counts. With more than `ENTRIES` distinct rewards, neighbours are merged to their mean as
in a t-digest (Dunning & Ertl 2019): the nearer an entry lies to an end, the fewer rewards it takes. The number of rewards, the
smallest and the largest stay exact, and so does the mean up to rounding. Merging looks at counts alone: rewards c·R with c > 0 give
the same counts at c times the values, to the bit if c is a power of two.

What counts is how the agent behaves now. So there is a table for the current epoch and one for the epoch before. An epoch ends
whenever the number of steps has doubled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import compiled, inlined

ENTRIES = 1024  # of a table
WAITING = 4096  # rewards that are not in the table wait until there are so many, then all are sorted and merged into it
SLOTS = 2048  # of the hash table that finds an entry: a power of two, and more than ENTRIES, so that a search ends
DIGITS, BUCKETS = 8, 256  # of a 64-bit key in the radix sort
SLOTS_BEGIN = WAITING
ROOM_BEGIN = SLOTS_BEGIN + SLOTS
BUCKETS_BEGIN = ROOM_BEGIN + WAITING
UNBOUNDED = 2**61  # steps of an epoch: no limit

CURRENT, SIZES, WAIT, END, LEFT, LONGEST = 0, 1, 3, 4, 5, 6  # places in the cursor; SIZES takes two
CURSOR = 7

EMPTY = -1
WIDTH = 5.0 / ENTRIES  # of merged entries in the middle, as a share of all rewards; divided by √(q (1 − q)) everywhere
WIDER = 1.25  # if the entries do not fit
MULTIPLIER, SHIFT = -7046029254386353131, 53  # Fibonacci hashing: 2⁶⁴ divided by the golden ratio; 64 − log₂ SLOTS
MAGNITUDE = 0x7FFFFFFFFFFFFFFF


class Sketch(NamedTuple):
    """The two tables, and the room to work in. All arrays have size 0 where no rewards are sketched."""

    cursor: NDArray[
        np.int64
    ]  # (7,): current table, sizes of both, waiting rewards, last step and steps left of the epoch, limit
    values: NDArray[np.float64]  # both tables, each sorted; then room for merging
    counts: NDArray[np.int64]  # likewise
    words: NDArray[np.int64]  # keys of the waiting rewards, the hash table, room for sorting, sizes of the buckets


class Kept(NamedTuple):
    """What a file keeps of a sketch: views of its arrays."""

    cursor: NDArray[np.int64]
    values: NDArray[np.float64]  # (2, ENTRIES)
    counts: NDArray[np.int64]  # (2, ENTRIES)
    words: NDArray[np.int64]  # (WAITING + SLOTS,)


def new_sketch(longest_epoch: int = UNBOUNDED) -> Sketch:
    """An empty sketch, whose epochs end at steps 1, 2, 4, 8, …, or earlier, after `longest_epoch` steps."""
    room = 2 * ENTRIES + ENTRIES + WAITING
    words = np.zeros(BUCKETS_BEGIN + DIGITS * BUCKETS, np.int64)
    words[SLOTS_BEGIN:ROOM_BEGIN] = EMPTY
    cursor = np.array([0, 0, 0, 0, 1, 1, longest_epoch], np.int64)
    return Sketch(cursor, np.zeros(room), np.zeros(room, np.int64), words)


def no_sketch() -> Sketch:
    """A sketch that takes no notes and no time."""
    nothing = np.zeros(0, np.int64)
    return Sketch(nothing, np.zeros(0), nothing, nothing)


@inlined
def key_of(value: Any) -> Any:
    """A whole number for each float, in the same order."""
    bits = np.float64(value).view(np.int64)
    return bits ^ ((bits >> 63) & MAGNITUDE)


@inlined
def value_of(key: Any) -> Any:
    """The float that has this key."""
    return np.int64(key ^ ((key >> 63) & MAGNITUDE)).view(np.float64)


@inlined
def slot_of(key: Any) -> Any:
    """Where the search for a key begins in the hash table."""
    return ((key * MULTIPLIER) >> SHIFT) & (SLOTS - 1)


@inlined
def take(sketch: Any, reward: Any) -> None:
    """Take one reward into the sketch, if there is one."""
    if sketch.cursor.shape[0] > 0:
        value = reward + 0.0  # −0 is 0
        key = key_of(value)
        slot = slot_of(key)
        entry = sketch.words[SLOTS_BEGIN + slot]
        while entry >= 0 and sketch.values[entry] != value:
            slot = (slot + 1) & (SLOTS - 1)
            entry = sketch.words[SLOTS_BEGIN + slot]
        if entry >= 0:
            sketch.counts[entry] += 1
        else:
            sketch.words[sketch.cursor[WAIT]] = key
            sketch.cursor[WAIT] += 1
        sketch.cursor[LEFT] -= 1
        if sketch.cursor[WAIT] == WAITING or sketch.cursor[LEFT] == 0:
            merge(sketch.cursor, sketch.values, sketch.counts, sketch.words)


@compiled
def merge(cursor: Any, values: Any, counts: Any, words: Any) -> None:
    """Merge the waiting rewards into the current table. At the end of an epoch it becomes the table of the epoch before, and a new
    one takes the place of that."""
    begin, size = cursor[CURRENT] * ENTRIES, cursor[SIZES + cursor[CURRENT]]
    merged = _interleave(values, counts, words, begin, size, sort(words, cursor[WAIT]), cursor[WAIT])
    if merged <= ENTRIES:
        for i in range(merged):
            values[begin + i], counts[begin + i] = values[2 * ENTRIES + i], counts[2 * ENTRIES + i]
        width = 0.0
    else:
        width = WIDTH
        compressed = compress(values, counts, begin, merged, width)
        while compressed > ENTRIES:
            width *= WIDER
            compressed = compress(values, counts, begin, merged, width)
        merged = compressed
    cursor[SIZES + cursor[CURRENT]] = merged
    cursor[WAIT] = 0
    if cursor[LEFT] == 0:
        cursor[CURRENT] = 1 - cursor[CURRENT]
        cursor[SIZES + cursor[CURRENT]] = 0
        cursor[LEFT] = min(cursor[END], cursor[LONGEST])
        cursor[END] += cursor[LEFT]
    index(cursor, values, counts, words, width)


@compiled
def sort(words: Any, size: Any) -> Any:
    """Sort the first `size` keys by their digits, the lowest first; returns where they begin then, 0 or ROOM_BEGIN."""
    for i in range(BUCKETS_BEGIN, BUCKETS_BEGIN + DIGITS * BUCKETS):
        words[i] = 0
    for i in range(size):
        key = words[i] ^ ~MAGNITUDE  # as a number without a sign
        for digit in range(DIGITS):
            words[BUCKETS_BEGIN + digit * BUCKETS + ((key >> (8 * digit)) & (BUCKETS - 1))] += 1
    source, target = 0, ROOM_BEGIN
    for digit in range(DIGITS):
        buckets = BUCKETS_BEGIN + digit * BUCKETS
        flip = BUCKETS >> 1 if digit == DIGITS - 1 else 0  # the sign
        if size > 0 and words[buckets + (((words[source] >> (8 * digit)) & (BUCKETS - 1)) ^ flip)] == size:
            continue  # all keys have this digit in common
        total = 0
        for bucket in range(buckets, buckets + BUCKETS):
            words[bucket], total = total, total + words[bucket]
        for i in range(source, source + size):
            key = words[i]
            bucket = buckets + (((key >> (8 * digit)) & (BUCKETS - 1)) ^ flip)
            words[target + words[bucket]] = key
            words[bucket] += 1
        source, target = target, source
    return source


@compiled
def _interleave(values: Any, counts: Any, words: Any, begin: Any, size: Any, first: Any, waiting: Any) -> Any:
    """Write the entries of a table and sorted keys into the room for merging, in order; returns the number of distinct values."""
    room = 2 * ENTRIES
    last, entry, end, key, stop = room - 1, begin, begin + size, first, first + waiting
    while entry < end or key < stop:
        if key >= stop:
            value, number = values[entry], counts[entry]
            entry += 1
        else:
            value, number = value_of(words[key]), 1
            if entry < end and values[entry] <= value:
                value, number = values[entry], counts[entry]
                entry += 1
            else:
                key += 1
        if last >= room and values[last] == value:
            counts[last] += number
        else:
            last += 1
            values[last], counts[last] = value, number
    return last + 1 - room


@compiled
def compress(values: Any, counts: Any, begin: Any, merged: Any, width: Any) -> Any:
    """Merge neighbours in the room into the table that begins at `begin`; returns the size of the table, or ENTRIES + 1 if it does
    not fit. An entry with a rewards before it and b after it takes no more than `width` · √(a b), unless it is one value."""
    room = 2 * ENTRIES
    total = 0
    for i in range(room, room + merged):
        total += counts[i]
    size, before, i, squared = 0, 0, room, width * width
    while i < room + merged:
        if size == ENTRIES:
            return ENTRIES + 1
        first, number, weighted = i, counts[i], values[i] * counts[i]
        i += 1
        while i < room + merged:
            more = number + counts[i]
            if float(more) * more > squared * before * (total - before - more):
                break
            weighted += values[i] * counts[i]
            number = more
            i += 1
        mean = values[first]
        if i > first + 1:
            mean = min(max(weighted / number, values[first]), values[i - 1])
        values[begin + size], counts[begin + size] = mean, number
        size += 1
        before += number
    return size


@compiled
def index(cursor: Any, values: Any, counts: Any, words: Any, width: Any) -> None:
    """Write the hash table of the current table. Where entries were merged, only those that are too heavy for it are looked for: a
    reward is hardly ever equal to a mean."""
    for i in range(SLOTS_BEGIN, SLOTS_BEGIN + SLOTS):
        words[i] = EMPTY
    begin, total, before, squared = cursor[CURRENT] * ENTRIES, 0, 0, width * width
    end = begin + cursor[SIZES + cursor[CURRENT]]
    for entry in range(begin, end):
        total += counts[entry]
    for entry in range(begin, end):
        number = counts[entry]
        if float(number) * number > squared * before * (total - before - number):
            slot = slot_of(key_of(values[entry]))
            while words[SLOTS_BEGIN + slot] >= 0:
                slot = (slot + 1) & (SLOTS - 1)
            words[SLOTS_BEGIN + slot] = entry
        before += number


def kept(sketch: Sketch) -> Kept:
    """What a file keeps."""
    tables = slice(0, 2 * ENTRIES if sketch.cursor.size else 0)
    return Kept(
        sketch.cursor,
        sketch.values[tables].reshape(2, -1),
        sketch.counts[tables].reshape(2, -1),
        sketch.words[: ROOM_BEGIN if sketch.cursor.size else 0],
    )


def atoms(sketch: Sketch) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The distinct rewards of late, in order, and how often each came: those of the current epoch, and also those of the epoch
    before while it has more steps."""
    if not sketch.cursor.size:
        return np.zeros(0), np.zeros(0, np.int64)
    current = int(sketch.cursor[CURRENT])
    now, before, alone = entries(sketch, current), entries(sketch, 1 - current), waiting(sketch)
    values = np.append(now[0], alone)
    counts = np.append(now[1], np.ones(alone.size, np.int64))
    if counts.sum() < before[1].sum():
        values, counts = np.append(values, before[0]), np.append(counts, before[1])
    distinct, places = np.unique(values, return_inverse=True)
    total = np.zeros(distinct.size, np.int64)
    np.add.at(total, places, counts)
    return distinct, total


def entries(sketch: Sketch, table: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The values and counts of one of the two tables."""
    filled = slice(table * ENTRIES, table * ENTRIES + int(sketch.cursor[SIZES + table]))
    return sketch.values[filled], sketch.counts[filled]


def waiting(sketch: Sketch) -> NDArray[np.float64]:
    """The rewards of the current epoch that are not in its table yet."""
    keys = sketch.words[: sketch.cursor[WAIT]]
    return (keys ^ ((keys >> 63) & MAGNITUDE)).view(np.float64)
