"""A sketch of the rewards: their distribution with its tails, in memory of a fixed size. It holds what the m quantiles θ cannot.

A table holds distinct rewards with exact counts. With more than `ENTRIES` distinct rewards, neighbours are merged to their mean as
in a t-digest (Dunning & Ertl 2019): the nearer an entry lies to an end, the fewer rewards it takes. The number of rewards, the
smallest and the largest stay exact, and so does the mean up to rounding. Merging looks at counts alone: rewards c·R with c > 0 give
the same counts at c times the values, to the bit if c is a power of two.

A step only writes its reward down. What was written down is merged into the table once there is enough of it: at first sorted, and
once the table is full as the means of narrow buckets, where only those rewards are sorted that lie far out or close together.

What counts is how the agent behaves now. So there is a table for the current epoch and one for the epoch before. An epoch ends
whenever the number of steps has doubled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined

ENTRIES = 1024  # of a table
WAITING = 8192  # rewards that wait until all are merged into the table
BUCKETS = 2048  # of equal width
FULL_BUCKET = 40  # rewards, about the share of WIDTH
SLOTS = 2048  # of the hash table that finds an entry: a power of two, and more than ENTRIES, so that a search ends
DIGITS, VALUES = 8, 256  # of a 64-bit key in the radix sort
SORTED_BEGIN = SLOTS
SPARE_BEGIN = SORTED_BEGIN + WAITING
PLACES_BEGIN = SPARE_BEGIN + WAITING
NUMBERS_BEGIN = PLACES_BEGIN + WAITING
COUNTERS_BEGIN = NUMBERS_BEGIN + WAITING
COUNTERS = max(BUCKETS, DIGITS * VALUES)
UNBOUNDED = 2**61  # steps of an epoch: no limit

CURRENT, SIZES, WAIT, STOP, FULL, END, LEFT, LONGEST = 0, 1, 3, 4, 5, 6, 7, 8  # places in the cursor; SIZES takes two
CURSOR = 9

EMPTY = -1
WIDTH = 5.0 / ENTRIES  # of merged entries in the middle, as a share of all rewards; divided by √(q (1 − q)) everywhere
WIDER = 1.25  # if the entries do not fit
LEAST_SPAN = 1e-290  # of the buckets
MULTIPLIER, SHIFT = -7046029254386353131, 53  # Fibonacci hashing: 2⁶⁴ divided by the golden ratio; 64 − log₂ SLOTS
MAGNITUDE = 0x7FFFFFFFFFFFFFFF


class Sketch(NamedTuple):
    """The two tables, and the room to work in. All arrays have size 0 where no rewards are sketched."""

    cursor: NDArray[
        np.int64
    ]  # (9,): current table, sizes of both, waiting rewards and how many may wait, whether neighbours were
    # merged in the current table, last step and steps left of the epoch when rewards were merged last, limit
    values: NDArray[np.float64]  # both tables, each sorted; then room for merging
    counts: NDArray[np.int64]  # likewise
    waiting: NDArray[np.float64]  # (WAITING,): in the order in which they were earned
    room: NDArray[np.float64]  # (WAITING + BUCKETS,): what is to be merged, in order; sums of the buckets
    words: NDArray[
        np.int64
    ]  # the hash table; two times room for keys; buckets, and how often each number comes; counters


class Kept(NamedTuple):
    """What a file keeps of a sketch: views of its arrays."""

    cursor: NDArray[np.int64]
    values: NDArray[np.float64]  # (2, ENTRIES)
    counts: NDArray[np.int64]  # (2, ENTRIES)
    waiting: NDArray[np.float64]  # (WAITING,)


def new_sketch(longest_epoch: int = UNBOUNDED) -> Sketch:
    """An empty sketch, whose epochs end at steps 1, 2, 4, 8, …, or earlier, after `longest_epoch` steps."""
    room = 2 * ENTRIES + ENTRIES + WAITING
    words = np.zeros(COUNTERS_BEGIN + COUNTERS, np.int64)
    words[:SLOTS] = EMPTY
    cursor = np.array([0, 0, 0, 0, 1, 0, 1, 1, longest_epoch], np.int64)
    return Sketch(
        cursor, np.zeros(room), np.zeros(room, np.int64), np.zeros(WAITING), np.zeros(WAITING + BUCKETS), words
    )


def no_sketch() -> Sketch:
    """A sketch that takes no notes and no time."""
    nothing, none = np.zeros(0, np.int64), np.zeros(0)
    return Sketch(nothing, none, nothing, none, none, nothing)


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
        waiting = sketch.cursor[WAIT]
        sketch.waiting[waiting] = reward
        sketch.cursor[WAIT] = waiting + 1
        if waiting + 1 == sketch.cursor[STOP]:
            merge(sketch.cursor, sketch.values, sketch.counts, sketch.waiting, sketch.room, sketch.words)


@compiled
def merge(cursor: Any, values: Any, counts: Any, waiting: Any, room: Any, words: Any) -> None:
    """Merge the waiting rewards into the current table. At the end of an epoch it becomes the table of the epoch before, and a new
    one takes the place of that."""
    begin, size = cursor[CURRENT] * ENTRIES, cursor[SIZES + cursor[CURRENT]]
    if cursor[FULL] == 1 and size > 0:
        groups = group(values, begin, size, waiting, cursor[WAIT], room, words)
    else:
        groups = find(values, counts, waiting, cursor[WAIT], room, words)
    merged = _interleave(values, counts, room, words[NUMBERS_BEGIN:COUNTERS_BEGIN], begin, size, groups)
    if merged <= ENTRIES:
        for i in range(merged):
            values[begin + i], counts[begin + i] = values[2 * ENTRIES + i], counts[2 * ENTRIES + i]
    else:
        width = WIDTH
        compressed = compress(values, counts, begin, merged, width)
        while compressed > ENTRIES:
            width *= WIDER
            compressed = compress(values, counts, begin, merged, width)
        merged, cursor[FULL] = compressed, 1
    cursor[SIZES + cursor[CURRENT]] = merged
    cursor[LEFT] -= cursor[WAIT]
    cursor[WAIT] = 0
    if cursor[LEFT] == 0:
        cursor[CURRENT] = 1 - cursor[CURRENT]
        cursor[SIZES + cursor[CURRENT]] = cursor[FULL] = 0
        cursor[LEFT] = min(cursor[END], cursor[LONGEST])
        cursor[END] += cursor[LEFT]
    cursor[STOP] = min(WAITING, cursor[LEFT])
    if cursor[FULL] == 0:
        index(cursor, values, words)


@compiled
def find(values: Any, counts: Any, waiting: Any, number: Any, room: Any, words: Any) -> Any:
    """Count the rewards that the table has, and write the others in order to the room. Returns how many these are."""
    groups = 0
    for i in range(number):
        value = waiting[i] + 0.0  # −0 is 0
        key = key_of(value)
        slot = slot_of(key)
        entry = words[slot]
        while entry >= 0 and values[entry] != value:
            slot = (slot + 1) & (SLOTS - 1)
            entry = words[slot]
        if entry >= 0:
            counts[entry] += 1
        else:
            words[SORTED_BEGIN + groups] = key
            groups += 1
    begin = sort(words, groups)
    for i in range(groups):
        room[i], words[NUMBERS_BEGIN + i] = value_of(words[begin + i]), 1
    return groups


@inlined
def bucket_of(reward: Any, low: Any, scale: Any) -> Any:
    """The bucket of a reward. The outer two also hold what lies beyond."""
    return np.int64(min(max((0.5 * reward - 0.5 * low) * scale, 0.0), BUCKETS - 1.0))


@inlined
def is_apart(bucket: Any, number: Any) -> Any:
    """Whether the rewards of a bucket are sorted: the outer two, and those with many."""
    return bucket == 0 or bucket == BUCKETS - 1 or number > FULL_BUCKET


@compiled
def group(values: Any, begin: Any, size: Any, waiting: Any, number: Any, room: Any, words: Any) -> Any:
    """Write the means of buckets in order to the room, with their numbers of rewards; of buckets that are sorted, all rewards.
    Returns how many there are. The buckets lie between entries of the table: inside are about nine of ten rewards."""
    low, high = values[begin + size // 8], values[begin + size - 1 - size // 8]
    span = 0.5 * high - 0.5 * low
    scale = BUCKETS / span if span > LEAST_SPAN else 0.0
    for bucket in range(BUCKETS):
        words[COUNTERS_BEGIN + bucket], room[WAITING + bucket] = 0, 0.0
    for i in range(number):
        bucket = bucket_of(waiting[i], low, scale)
        words[PLACES_BEGIN + i] = bucket
        words[COUNTERS_BEGIN + bucket] += 1
        room[WAITING + bucket] += waiting[i]
    apart = 0
    for i in range(number):
        bucket = words[PLACES_BEGIN + i]
        if is_apart(bucket, words[COUNTERS_BEGIN + bucket]):
            words[SORTED_BEGIN + apart] = key_of(waiting[i] + 0.0)
            apart += 1
    for bucket in range(BUCKETS):  # sorting needs the counters
        words[PLACES_BEGIN + bucket] = words[COUNTERS_BEGIN + bucket]
    taken, groups = sort(words, apart), 0
    for bucket in range(BUCKETS):
        inside = words[PLACES_BEGIN + bucket]
        if is_apart(bucket, inside):
            for _ in range(inside):
                room[groups], words[NUMBERS_BEGIN + groups] = value_of(words[taken]), 1
                groups += 1
                taken += 1
        elif inside > 0:
            mean = room[WAITING + bucket] / inside
            room[groups], words[NUMBERS_BEGIN + groups] = max(mean, room[groups - 1]) if groups > 0 else mean, inside
            groups += 1
    return groups


@compiled
def sort(words: Any, size: Any) -> Any:
    """Sort `size` keys by their digits, the lowest first; returns where they begin then."""
    for i in range(COUNTERS_BEGIN, COUNTERS_BEGIN + DIGITS * VALUES):
        words[i] = 0
    for i in range(SORTED_BEGIN, SORTED_BEGIN + size):
        key = words[i] ^ ~MAGNITUDE  # as a number without a sign
        for digit in range(DIGITS):
            words[COUNTERS_BEGIN + digit * VALUES + ((key >> (8 * digit)) & (VALUES - 1))] += 1
    source, target = SORTED_BEGIN, SPARE_BEGIN
    for digit in range(DIGITS):
        counters = COUNTERS_BEGIN + digit * VALUES
        flip = VALUES >> 1 if digit == DIGITS - 1 else 0  # the sign
        if size > 0 and words[counters + (((words[source] >> (8 * digit)) & (VALUES - 1)) ^ flip)] == size:
            continue  # all keys have this digit in common
        total = 0
        for counter in range(counters, counters + VALUES):
            words[counter], total = total, total + words[counter]
        for i in range(source, source + size):
            key = words[i]
            counter = counters + (((key >> (8 * digit)) & (VALUES - 1)) ^ flip)
            words[target + words[counter]] = key
            words[counter] += 1
        source, target = target, source
    return source


@compiled
def _interleave(values: Any, counts: Any, ordered: Any, numbers: Any, begin: Any, size: Any, groups: Any) -> Any:
    """Write the entries of a table and sorted rewards in order into the room for merging; returns the number of distinct values."""
    room = 2 * ENTRIES
    last, entry, end, key, stop = room - 1, begin, begin + size, 0, groups
    while entry < end or key < stop:
        if key >= stop:
            value, number = values[entry], counts[entry]
            entry += 1
        else:
            value, number = ordered[key], numbers[key]
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
def index(cursor: Any, values: Any, words: Any) -> None:
    """Write the hash table of the current table, whose entries are single values."""
    for slot in range(SLOTS):
        words[slot] = EMPTY
    begin = cursor[CURRENT] * ENTRIES
    for entry in range(begin, begin + cursor[SIZES + cursor[CURRENT]]):
        slot = slot_of(key_of(values[entry]))
        while words[slot] >= 0:
            slot = (slot + 1) & (SLOTS - 1)
        words[slot] = entry


def kept(sketch: Sketch) -> Kept:
    """What a file keeps."""
    tables = slice(0, 2 * ENTRIES if sketch.cursor.size else 0)
    return Kept(
        sketch.cursor,
        sketch.values[tables].reshape(2, -1),
        sketch.counts[tables].reshape(2, -1),
        sketch.waiting,
    )


def atoms(sketch: Sketch) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The distinct recent rewards, in order, and how often each was earned: those of the current epoch, and also those of the epoch
    before while it has more steps."""
    if not sketch.cursor.size:
        return np.zeros(0), np.zeros(0, np.int64)
    current = int(sketch.cursor[CURRENT])
    now, before, alone = entries(sketch, current), entries(sketch, 1 - current), waiting_rewards(sketch)
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


def waiting_rewards(sketch: Sketch) -> NDArray[np.float64]:
    """The rewards of the current epoch that are not in its table yet."""
    return sketch.waiting[: sketch.cursor[WAIT]] + 0.0
