"""Sums of consecutive rewards in blocks of 1, 2, 4, 8, … steps, and how far they vary: forecasts without values (ours).

δ also contains the error of the values, which can be larger than what is random in the world. So the recent sums themselves are
measured.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.numerics.scale import LONGEST_MEMORY

Floats = NDArray[np.float64]

LEVELS = 62  # blocks of 2^0 to 2^61 steps
BLOCKS, TOTAL, SQUARES, WAITING = (
    0,
    1,
    2,
    3,
)  # blocks, their sum, squared differences of partners, a block without a partner
NOW, BEFORE = 0, 1  # epochs
END, LONGEST = 0, 1  # places in the clock: the length at which the epoch ends, and the longest length of one
UNBOUNDED = 2**61
GROWTH = 10  # an epoch is a tenth longer than the one before: both together are about the last sixth of the steps
SHORTEST = 100  # steps of an epoch
FEWEST = 200  # pairs of blocks, below which the variance of a size is not used: from so many it is known to a tenth


class BlockSums(NamedTuple):
    """What is known of the sums of this epoch and of the one before; of size 0 where they are not watched."""

    levels: Floats  # (2, 4, 62): one column for each size of blocks
    clock: NDArray[np.int64]  # (2,)


def new_block_sums(*, changing: bool = False) -> BlockSums:
    """Nothing seen. With `changing` no epoch is longer than 100,000 steps."""
    return BlockSums(np.zeros((2, 4, LEVELS)), np.array([SHORTEST, LONGEST_MEMORY if changing else UNBOUNDED]))


def no_block_sums() -> BlockSums:
    """No sums are kept: they take no time."""
    return BlockSums(np.zeros((2, 4, 0)), np.zeros(2, np.int64))


def _late(rewards: Floats) -> Floats:
    return rewards[rewards.size // 10 :]


def sums_of(rewards: Floats, num_steps: int, most: int) -> Floats:
    """Sums of consecutive rewards, at most so many, evenly spaced; like `block_sums_of` without the first tenth."""
    windows = np.lib.stride_tricks.sliding_window_view(_late(rewards), num_steps)
    return np.asarray(windows[:: -(-len(windows) // most)].sum(axis=1))


def block_sums_of(rewards: Floats) -> BlockSums:
    """Those of rewards in their order, in one epoch. The first tenth is left out: the way from the start is not the long run."""
    sums, k, blocks = new_block_sums(), 0, _late(rewards)
    while blocks.size:
        pairs = blocks[: blocks.size // 2 * 2].reshape(-1, 2)
        sums.levels[NOW, :WAITING, k] = blocks.size, blocks.sum(), (np.diff(pairs, axis=1) ** 2).sum()
        k, blocks = k + 1, pairs.sum(axis=1)
    return sums


@compiled
def add_up(sums: Any, reward: Any) -> None:
    """Take note of one reward. Two blocks of one size make a block of the next: on average, two levels move."""
    now, block = sums.levels[NOW], reward
    for k in range(now.shape[1]):
        now[BLOCKS, k] += 1.0
        now[TOTAL, k] += block
        if now[BLOCKS, k] % 2.0 == 1.0:
            now[WAITING, k] = block
            break
        now[SQUARES, k] += (block - now[WAITING, k]) ** 2
        block += now[WAITING, k]
    if now[BLOCKS, 0] >= sums.clock[END]:
        sums.clock[END] = min(sums.clock[END] + sums.clock[END] // GROWTH, sums.clock[LONGEST])
        for row in range(now.shape[0]):
            for k in range(now.shape[1]):
                sums.levels[BEFORE, row, k] = now[row, k]
                now[row, k] = 0.0


def expected_sum(sums: BlockSums, num_steps: int) -> tuple[float, float, float]:
    """The sum of the next rewards: its mean, its variance, and the standard error of the mean, which includes by how much
    the mean has changed from one epoch to the next.

    Differences of neighbouring blocks say how far sums vary, since an agent that improves moves both. With D the half of their mean
    square and V the variance of a block, V(2H) = 4 V(H) − 2 D(H). At the largest size with enough pairs, neighbours are taken for
    independent: V = D. Longer sums have the variance per step of that size.
    """
    blocks, totals = sums.levels[:, BLOCKS], sums.levels[:, TOTAL]  # (2, 62)
    pairs = np.floor(blocks / 2.0).sum(axis=0)
    known = max(int((pairs >= FEWEST).sum()), 1)
    halves = sums.levels[:, SQUARES].sum(axis=0)[:known] / (2.0 * np.maximum(pairs[:known], 1.0))
    variances = halves.copy()
    for k in range(known - 2, -1, -1):
        variances[k] = (variances[k + 1] + 2.0 * halves[k]) / 4.0
    per_step = variances / 2.0 ** np.arange(known)
    steps = float(blocks[:, 0].sum())
    mean = float(totals[:, 0].sum()) / steps
    error = math.sqrt(float(per_step[-1]) / steps)
    if blocks[:, 0].all():
        now, before = totals[:, 0] / blocks[:, 0]
        error = math.hypot(error, now - before)
    variance = float(np.interp(math.log2(num_steps), np.arange(known), per_step))
    return num_steps * mean, num_steps * variance, num_steps * error
