"""The targets and gains of heads for a risk level (ours; docs/decisions/0012-risk.md).

The mean of the worst share τ of the rewards, CVaR_τ, is the maximum over y of E[y − (y − R)⁺/τ] (Rockafellar & Uryasev 2000). For
a fixed target y this is an ordinary average reward. So K heads, one for each y, learn from the same transitions, and the agent acts
by the one with the largest gain. The best y is a quantile of the rewards of the best policy, so the targets span the rewards seen,
and a third of them comes closer and closer to the target of the winner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.system.budget import claim

Floats = NDArray[np.float64]

WINNER, REVIEW, RELAY, LAID, SEEN = range(5)  # places of the cursor
LEVEL, LOW, HIGH = 0, 1, 2  # places of the span
SPARE, BEST_THERE, OLD_TARGETS = 0, 1, 2  # rows of the room
FIRST_LAID = 128  # steps after which the targets are first laid
LEAST_REVIEW = 256  # steps between two looks at who wins
RECENT, DELAY = 3.0, 30.0  # a gain has a memory of a third of the updates that moved it
MEAN_SHARE = 0.001  # of the mean is added to CVaR: of policies whose bad steps are the same, the one that earns more
COARSE = 3  # of so many targets, one less spans all rewards seen, and one is near the winner


class Scan(NamedTuple):
    """K heads, one for each target."""

    targets: Floats  # (K,): y
    gains: Floats  # (K,)
    counts: Floats  # (K,): how often a gain has moved
    room: Floats  # (3, K): memory of one step
    span: Floats  # (3,): τ, the smallest and the largest reward seen
    cursor: NDArray[
        np.int64
    ]  # (5,): the winner, steps of the next review and relay, whether targets are laid, steps seen


def new_scan(size: int, level: float) -> Scan:
    """Nothing seen."""
    claim(64 * size, f"a scan of {size:,} heads", "Choose fewer risk_heads.")
    cursor = np.array([0, FIRST_LAID, FIRST_LAID, 0, 0])
    span = np.array([level, np.inf, -np.inf])
    return Scan(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((3, size)), span, cursor)


@compiled
def see_and_review(scan: Any, reward: Any) -> Any:
    """Take note of a reward. At times let the best head lead, and lay the targets anew."""
    cursor, span = scan.cursor, scan.span
    span[LOW], span[HIGH] = min(span[LOW], reward), max(span[HIGH], reward)
    cursor[SEEN] += 1
    if cursor[SEEN] < cursor[REVIEW]:
        return
    cursor[REVIEW] += LEAST_REVIEW
    winner = 0
    for k in range(1, scan.gains.shape[0]):
        if scan.gains[k] > scan.gains[winner]:
            winner = k
    cursor[WINNER] = winner
    if cursor[SEEN] >= cursor[RELAY] and span[HIGH] > span[LOW]:
        lay_targets(scan)
        cursor[RELAY] = 2 * cursor[SEEN]


@compiled
def lay_targets(scan: Any) -> None:
    """Spread the targets over the rewards seen, and the last third around that of the winner. Every target takes over the values
    of the nearest one so far."""
    targets, old, span = scan.targets, scan.room[OLD_TARGETS], scan.span
    count, winner = targets.shape[0], scan.cursor[WINNER]
    fine = count // COARSE
    coarse = count - fine
    gap = (span[HIGH] - span[LOW]) / max(coarse - 1, 1)
    best = targets[winner]
    for k in range(count):
        old[k] = targets[k]
    if scan.cursor[LAID] == 0:
        for k in range(count):
            targets[k] = span[LOW] + k * (span[HIGH] - span[LOW]) / max(count - 1, 1)
            scan.gains[k] = targets[k]
        scan.cursor[LAID] = 1
        return
    left, right = gap, gap  # to the neighbours of the winner
    for k in range(count):
        if old[k] < best:
            left = min(left, best - old[k])
        elif old[k] > best:
            right = min(right, old[k] - best)
    leader = 0
    for k in range(count):
        if k < coarse:
            targets[k] = span[LOW] + k * gap
        else:
            place = 2.0 * (k - coarse + 0.5) / fine - 1.0
            targets[k] = best + place * (left if place < 0.0 else right)
    nearest = scan.room[BEST_THERE]
    for k in range(count):
        nearest[k] = 0.0
        for j in range(1, count):
            if abs(old[j] - targets[k]) < abs(old[int(nearest[k])] - targets[k]):
                nearest[k] = j
        if abs(targets[k] - best) < abs(targets[leader] - best):
            leader = k
    rearrange(scan.gains, nearest, scan.room[SPARE])
    rearrange(scan.counts, nearest, scan.room[SPARE])
    scan.cursor[WINNER] = leader


@compiled
def rearrange(numbers: Any, places: Any, room: Any) -> None:
    """numbers[k] becomes numbers[places[k]], by way of the room."""
    for k in range(numbers.shape[0]):
        room[k] = numbers[k]
    for k in range(numbers.shape[0]):
        numbers[k] = room[int(places[k])]
