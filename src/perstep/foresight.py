"""Foresight: what the next steps will earn under the policy, and how far that varies, learnt beside the values (ours).

Two differential learners follow the policy's own action a*. The first learns its gain r and its differential values u from
δ = R − r + u(S′, a*) − u(S, A), whatever the rule, the discount and the exploration of the agent. The second learns the variance
of a long sum per step, σ², and its values h from δ² − σ² + h(S′, a*) − h(S, A) (docs/decisions/0011-forecast.md).

A sum of H rewards is H·r + u(start) − u(end) + the sum of the δ, which are uncorrelated. Few numbers more say what matters of the
end for short sums: how u varies along the policy, how fast it forgets, and how it moves with δ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import inlined
from perstep.units import LONGEST_MEMORY

Floats = NDArray[np.float64]

# Places of the averages.
LEAST_RATE, SEEN, COUNTED, GAIN, VARIANCE, LEVEL, SPREAD, LAG, CROSS, VARIANCE_LEVEL = range(10)
SIZE = 10
VALUE, SQUARE = 0, 1  # u and h
RECENT = 3.0  # averages have a memory of a third of the steps so far
DELAY = 30.0  # steps before they begin to settle


class Foresight(NamedTuple):
    """What is learnt of the sums of rewards to come."""

    values: Floats  # (…, 2): u and h of every entry of a table, or weight of a feature; empty where nothing is foreseen
    averages: Floats  # (10,): see the places above


def new_foresight(shape: tuple[int, ...], *, changing: bool = False) -> Foresight:
    """Nothing seen. `changing`: averages never have a longer memory than 100,000 steps."""
    averages = np.zeros(SIZE)
    averages[LEAST_RATE] = 1.0 / LONGEST_MEMORY if changing else 0.0
    return Foresight(np.zeros((*shape, 2)), averages)


def no_foresight(axes: int) -> Foresight:
    """For an agent that makes no forecasts; `axes`: of the values of those that do."""
    return new_foresight((0,) * axes)


@inlined
def rate_now(averages: Any) -> Any:
    """The step of the averages."""
    return max(RECENT / (averages[COUNTED] + RECENT + DELAY), averages[LEAST_RATE])


@inlined
def foresee(averages: Any, reward: Any, value: Any, square: Any, next_value: Any, next_square: Any, usual: Any) -> Any:
    """Take note of one transition, whose u and h at (S, A) and (S′, a*) are given; returns the TD errors of both.

    `usual`: whether the policy itself would have taken A. Only then do the averages move, which are about the policy.
    """
    if averages[SEEN] == 0.0:
        averages[GAIN] = reward
    averages[SEEN] += 1.0
    delta = reward - averages[GAIN] + next_value - value
    error = delta * delta - averages[VARIANCE] + next_square - square
    if usual:
        averages[COUNTED] += 1.0
        rate = rate_now(averages)
        averages[GAIN] += rate * delta
        averages[VARIANCE] += rate * error
        averages[LEVEL] += rate * (value - averages[LEVEL])
        here, there = value - averages[LEVEL], next_value - averages[LEVEL]
        averages[SPREAD] += rate * (here * here - averages[SPREAD])
        averages[LAG] += rate * (here * there - averages[LAG])
        averages[CROSS] += rate * (delta * there - averages[CROSS])
        averages[VARIANCE_LEVEL] += rate * (square - averages[VARIANCE_LEVEL])
    return delta, error
