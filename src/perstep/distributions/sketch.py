"""A sketch of the rewards: their distribution in the order of time, with its tails, in memory of a fixed size. It holds what the m
quantiles θ cannot.

Life is kept in blocks of equal length. When all `BLOCKS` are full, each two neighbours are merged and the length doubles; so, for
any number of steps, between half and all of the blocks are full. Blocks that may not grow any longer are dropped instead, the older
half of them at once. What was counted in the first half of the blocks is forgotten. Which of the others tell how the agent behaves
now is chosen when they are read (distributions/recent.py).

A block is a table of distinct rewards with exact counts. With more than `ENTRIES` distinct rewards, neighbours are merged to their
mean as in a t-digest (Dunning & Ertl 2019): the nearer an entry lies to an end, the fewer rewards it takes. The number of rewards,
the smallest and the largest stay exact, and so does the mean up to rounding. Merging looks at counts alone: rewards c·R with c > 0
give the same counts at c times the values, to the bit if c is a power of two.

A step only writes its reward down. What was written down is merged into the table of the current block once there is enough of it:
up to `ENTRIES` distinct rewards are counted in a hash table; of more, those that lie far out or close together are sorted, and the
others are taken as the means of narrow buckets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined

BLOCKS = 64  # an even number
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
KEYS_BEGIN = NUMBERS_BEGIN + ENTRIES  # of distinct rewards, while they are counted
COUNTERS_BEGIN = NUMBERS_BEGIN + WAITING
COUNTERS = max(BUCKETS, DIGITS * VALUES)
ROOM = BLOCKS * ENTRIES  # where the room for merging begins
UNBOUNDED = 2**55  # steps of a block: no limit in any life

LENGTH, FILLED, TAKEN, WAIT, STOP, LONGEST, SIZES = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
)  # places in the cursor; SIZES takes one for each block

EMPTY = -1
TOO_MANY = -1  # distinct rewards
WIDTH = 5.0 / ENTRIES  # of merged entries in the middle, as a share of all rewards; divided by √(q (1 − q)) everywhere
WIDER = 1.25  # if the entries do not fit
LEAST_SPAN = 1e-290  # of the buckets
MULTIPLIER, SHIFT = -7046029254386353131, 53  # Fibonacci hashing: 2⁶⁴ divided by the golden ratio; 64 − log₂ SLOTS
MAGNITUDE = 0x7FFFFFFFFFFFFFFF


class Sketch(NamedTuple):
    """The tables of the blocks, and the room to work in. All arrays have size 0 where no rewards are sketched."""

    cursor: NDArray[
        np.int64
    ]  # (6 + BLOCKS,): steps of a block, full blocks, steps in the table of the current block, waiting
    # rewards and how many may wait, the longest length of a block; the sizes of the tables
    values: NDArray[np.float64]  # the tables, the oldest first, each sorted; then room for merging
    counts: NDArray[np.int64]  # likewise
    waiting: NDArray[np.float64]  # (WAITING,): in the order in which they were earned
    room: NDArray[np.float64]  # (WAITING + BUCKETS,): what is to be merged, in order; sums of the buckets
    words: NDArray[
        np.int64
    ]  # the hash table; two times room for keys; buckets, and how often each number comes; counters


class Kept(NamedTuple):
    """What a file keeps of a sketch."""

    cursor: NDArray[np.int64]
    values: NDArray[np.float64]  # of all tables, one after the other
    counts: NDArray[np.int64]
    waiting: NDArray[np.float64]


def new_sketch(longest_block: int = UNBOUNDED) -> Sketch:
    """An empty sketch, whose blocks have 1, 2, 4, 8, … steps, and never more than `longest_block`."""
    room = ROOM + ENTRIES + WAITING
    words = np.zeros(COUNTERS_BEGIN + COUNTERS, np.int64)
    cursor = np.array([1, 0, 0, 0, 1, longest_block] + [0] * BLOCKS, np.int64)
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
    """Merge the waiting rewards into the table of the current block; when the block is full, the next one begins."""
    current = cursor[FILLED]
    begin, size = current * ENTRIES, cursor[SIZES + current]
    groups = count_distinct(waiting, cursor[WAIT], room, words)
    if groups == TOO_MANY:
        nearby = current if size > 0 or current == 0 else current - 1
        groups = group(values, nearby * ENTRIES, cursor[SIZES + nearby], waiting, cursor[WAIT], room, words)
    cursor[SIZES + current] = unite(values, counts, room, words, begin, size, groups, begin)
    cursor[TAKEN] += cursor[WAIT]
    cursor[WAIT] = 0
    if cursor[TAKEN] == cursor[LENGTH]:
        cursor[FILLED], cursor[TAKEN] = current + 1, 0
        if current + 1 == BLOCKS:
            make_room(cursor, values, counts, room, words)
        for block in range(cursor[FILLED] // 2):
            cursor[SIZES + block] = 0
    cursor[STOP] = min(WAITING, cursor[LENGTH] - cursor[TAKEN])


@compiled
def make_room(cursor: Any, values: Any, counts: Any, room: Any, words: Any) -> None:
    """Half as many blocks: each two neighbours merged, or the later half where blocks may not be longer."""
    half = BLOCKS // 2
    merging = 2 * cursor[LENGTH] <= cursor[LONGEST]
    for block in range(half):
        first = 2 * block if merging else half + block
        begin, size = first * ENTRIES, cursor[SIZES + first]
        groups = cursor[SIZES + first + 1] if merging else 0
        for i in range(groups):
            room[i], words[NUMBERS_BEGIN + i] = values[begin + ENTRIES + i], counts[begin + ENTRIES + i]
        cursor[SIZES + block] = unite(values, counts, room, words, begin, size, groups, block * ENTRIES)
    for block in range(half, BLOCKS):
        cursor[SIZES + block] = 0
    cursor[FILLED] = half
    if merging:
        cursor[LENGTH] *= 2


@compiled
def unite(values: Any, counts: Any, room: Any, words: Any, begin: Any, size: Any, groups: Any, target: Any) -> Any:
    """Merge a table and what lies in order in the room into the table that begins at `target`; returns its size."""
    merged = interleave(values, counts, room, words[NUMBERS_BEGIN:COUNTERS_BEGIN], begin, size, groups)
    if merged <= ENTRIES:
        for i in range(merged):
            values[target + i], counts[target + i] = values[ROOM + i], counts[ROOM + i]
        return merged
    width = WIDTH
    compressed = compress(values, counts, target, merged, width)
    while compressed > ENTRIES:
        width *= WIDER
        compressed = compress(values, counts, target, merged, width)
    return compressed


@compiled
def count_distinct(waiting: Any, number: Any, room: Any, words: Any) -> Any:
    """Count the distinct rewards and write them in order to the room, with their numbers. Returns how many there are, or TOO_MANY
    for a table."""
    groups = 0
    for slot in range(SLOTS):
        words[slot] = EMPTY
    for i in range(number):
        value = waiting[i] + 0.0  # −0 is 0
        key = key_of(value)
        slot = slot_of(key)
        entry = words[slot]
        while entry >= 0 and words[KEYS_BEGIN + entry] != key:
            slot = (slot + 1) & (SLOTS - 1)
            entry = words[slot]
        if entry >= 0:
            words[PLACES_BEGIN + entry] += 1
        elif groups == ENTRIES:
            return TOO_MANY
        else:
            words[slot] = groups
            words[KEYS_BEGIN + groups], words[SORTED_BEGIN + groups], words[PLACES_BEGIN + groups] = key, key, 1
            groups += 1
    begin = sort(words, groups)
    for i in range(groups):
        key = words[begin + i]
        slot = slot_of(key)
        while words[KEYS_BEGIN + words[slot]] != key:
            slot = (slot + 1) & (SLOTS - 1)
        room[i], words[NUMBERS_BEGIN + i] = value_of(key), words[PLACES_BEGIN + words[slot]]
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
def interleave(values: Any, counts: Any, ordered: Any, numbers: Any, begin: Any, size: Any, groups: Any) -> Any:
    """Write the entries of a table and sorted rewards in order into the room for merging; returns the number of distinct values."""
    last, entry, end, key, stop = ROOM - 1, begin, begin + size, 0, groups
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
        if last >= ROOM and values[last] == value:
            counts[last] += number
        else:
            last += 1
            values[last], counts[last] = value, number
    return last + 1 - ROOM


@compiled
def compress(values: Any, counts: Any, begin: Any, merged: Any, width: Any) -> Any:
    """Merge neighbours in the room into the table that begins at `begin`; returns the size of the table, or ENTRIES + 1 if it does
    not fit. An entry with a rewards before it and b after it takes no more than `width` · √(a b), unless it is one value."""
    total = 0
    for i in range(ROOM, ROOM + merged):
        total += counts[i]
    size, before, i, squared = 0, 0, ROOM, width * width
    while i < ROOM + merged:
        if size == ENTRIES:
            return ENTRIES + 1
        first, number, weighted = i, counts[i], values[i] * counts[i]
        i += 1
        while i < ROOM + merged:
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


def kept(sketch: Sketch) -> Kept:
    """What a file keeps."""
    if not sketch.cursor.size:
        return Kept(sketch.cursor, sketch.values, sketch.counts, sketch.waiting)
    filled = [table(sketch, block) for block in range(BLOCKS)]
    return Kept(
        sketch.cursor,
        np.concatenate([sketch.values[each] for each in filled]),
        np.concatenate([sketch.counts[each] for each in filled]),
        waiting_rewards(sketch).copy(),
    )


def put_back(sketch: Sketch, values: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    """Fill the tables, whose sizes are in the cursor, from what a file has kept."""
    begin = 0
    for block in range(BLOCKS):
        own = table(sketch, block)
        end = begin + own.stop - own.start
        sketch.values[own], sketch.counts[own] = values[begin:end], counts[begin:end]
        begin = end


def table(sketch: Sketch, block: int) -> slice:
    """The entries of a block."""
    return slice(block * ENTRIES, block * ENTRIES + int(sketch.cursor[SIZES + block]))


def waiting_rewards(sketch: Sketch) -> NDArray[np.float64]:
    """The rewards that wait until they are merged, in the order of time."""
    return sketch.waiting[: int(sketch.cursor[WAIT]) if sketch.cursor.size else 0]


class Atoms(NamedTuple):
    """Rewards as they were counted, block by block, without those that were forgotten."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    blocks: NDArray[np.int64]  # the block of each, the oldest is 0


def atoms(sketch: Sketch) -> Atoms:
    """The rewards of the later half of the blocks, the current one included."""
    if not sketch.cursor.size:
        none = np.zeros(0, np.int64)
        return Atoms(np.zeros(0), none, none)
    current, waiting = int(sketch.cursor[FILLED]), waiting_rewards(sketch) + 0.0  # −0 is 0
    tables = [table(sketch, block) for block in range(current + 1)]
    sizes = [each.stop - each.start for each in tables]
    return Atoms(
        np.concatenate([*(sketch.values[each] for each in tables), waiting]),
        np.concatenate([*(sketch.counts[each] for each in tables), np.ones(waiting.size, np.int64)]),
        np.repeat(np.arange(current + 2), [*sizes, waiting.size]).clip(max=current),
    )
