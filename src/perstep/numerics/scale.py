"""The units of an agent: how far the rewards it has seen, and the returns, spread. Steps in these units fit any scale of rewards.

All numbers here follow the rewards: from c·R + d with c > 0 come the same units times c, to the bit if c is a power of two. A
single outlier changes nothing, since a deviation counts for no more than the second largest one so far.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined

Floats = NDArray[np.float64]

# Places; a spread takes three: mean square, largest, second largest.
SEEN, MEAN, REWARD, RETURN_SO_FAR, RETURN, ERROR = 0, 1, 2, 5, 6, 9
SIZE = 10
FIRST = 128  # rewards from which the first θ is made
RECENT = 3.0  # the running spread has a memory of a third of the steps so far
LONGEST_MEMORY = 100_000  # steps; rewards that change their scale are followed
HORIZON_FACTOR = 0.99  # of the return whose spread is the unit of values


class Scale(NamedTuple):
    """How the units of what was seen are taken; None in its place means that all units are 1, as in the paper."""

    longest_memory: float = LONGEST_MEMORY  # steps


def new_units() -> NDArray[np.float64]:
    """Nothing seen."""
    return np.zeros(SIZE)


@inlined
def reward_unit(units: Floats) -> float:
    """The spread of the rewards seen: their standard deviation, but for one outlier; 0 while all were equal."""
    return np.sqrt(units[REWARD])


@inlined
def return_unit(units: Floats) -> float:
    """The spread of discounted sums of the rewards around their mean; 0 while all rewards were equal."""
    return np.sqrt(units[RETURN])


@inlined
def _spread(units: Floats, place: int, deviation: float, rate: float) -> None:
    """Move a mean square towards the square of a deviation, which counts for no more than the second largest one so far."""
    size = abs(deviation)
    if size > units[place + 1]:
        units[place + 2] = units[place + 1]
        units[place + 1] = size
    elif size > units[place + 2]:
        units[place + 2] = size
    size = min(size, units[place + 2])
    units[place] += rate * (size * size - units[place])


@inlined
def _rate(units: Floats) -> float:
    """The step of what is seen: its memory is a third of the steps so far, up to the longest one."""
    return max(RECENT / (units[SEEN] + RECENT - 1.0), 1.0 / LONGEST_MEMORY)


@compiled
def see(units: Floats, reward: float, after_end: float, ended: bool, looks_back: bool) -> None:
    """Take note of one reward. `after_end`: what the value after an end adds to the return that ends there; with `looks_back` also
    to those that begin there, so that the spread is about that of returns from now on."""
    units[SEEN] += 1.0
    if units[SEEN] == 1.0:
        units[MEAN] = reward
    rate = _rate(units)
    deviation = reward - units[MEAN]
    units[MEAN] += rate * deviation
    _spread(units, REWARD, deviation, rate)
    units[RETURN_SO_FAR] = HORIZON_FACTOR * units[RETURN_SO_FAR] + deviation
    if ended:
        units[RETURN_SO_FAR] += after_end
    _spread(units, RETURN, units[RETURN_SO_FAR], rate)
    if ended:
        units[RETURN_SO_FAR] = after_end if looks_back else 0.0


@inlined
def see_error(units: Floats, delta: float) -> None:
    """Take note of the error of a value, after the reward."""
    units[ERROR] += _rate(units) * (abs(delta) - units[ERROR])


@inlined
def unexplained_unit(units: Floats) -> float:
    """The spread of returns around their values: a return minus its value is the sum of the errors δ that follow, discounted, and
    these are not correlated. It is taken from the mean size of δ, as if δ were normal, so that rare large errors, such as those of
    a rare penalty, do not make all others small."""
    return math.sqrt(math.pi / 2.0 / (1.0 - HORIZON_FACTOR**2)) * units[ERROR]


@compiled
def begin(units: Floats, first: Floats, theta: Floats, offset: Floats, tau: Floats, reward: float) -> None:
    """While the first rewards arrive: put θ at their quantiles, and R̄ at their mean.

    `units` has seen the reward already. `first` keeps the rewards in order.
    """
    count = int(units[SEEN])
    if (
        not 1 <= count <= first.shape[0]
    ):  # also of a file with an impossible number: compiled code does not check the index
        return
    place = count - 1
    while place > 0 and first[place - 1] > reward:
        first[place] = first[place - 1]
        place -= 1
    first[place] = reward
    total = 0.0
    for i in range(count):
        total += first[i]
    average = total / count
    quantile_mean = average
    if theta.shape[0] > 1:
        quantile_mean = 0.0
        for i in range(theta.shape[0]):
            theta[i] = first[min(int(tau[i] * count), count - 1)]
            quantile_mean += theta[i]
        quantile_mean /= theta.shape[0]
        offset[0] = average - quantile_mean
    else:
        theta[0] = average
