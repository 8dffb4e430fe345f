"""Foresight: what the next steps will earn under the policy, and how far that varies, learnt beside the values (ours).

Two differential learners follow the policy's own action a*. The first learns its gain r and its differential values u from
δ = R − r + u(S′, a*) − u(S, A), whatever the rule, the discount and the exploration of the agent. The second learns the variance
of a long sum per step, σ², and its values h from δ² − σ² + h(S′, a*) − h(S, A) (docs/decisions/0011-forecast.md).

A sum of H rewards is H·r + u(start) − u(end) + the sum of the δ, which are uncorrelated: this is what long sums need. For short
ones the means c and d of the next two rewards are learnt too, and how fast the rest of u forgets where it was.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import inlined
from perstep.units import LONGEST_MEMORY

Floats = NDArray[np.float64]

# Places of the averages; the gain has an average of its own, SLOW_GAIN, to tell how far it still moves.
(LEAST_RATE, SEEN, COUNTED, GAIN, VARIANCE, MEAN_VALUE, MEAN_SQUARE, REWARD_VARIANCE, REWARD_LAG, NOW, NOW_LATER, LATER,
 LATER_LAG, SLOW_GAIN) = range(14)  # fmt: skip
SIZE = 14
VALUE, SQUARE, REWARD, NEXT = 0, 1, 2, 3  # of an entry: u, h, c and d
ENTRY = 4
RECENT = 3.0  # averages have a memory of a third of the steps so far
DELAY = 30.0  # steps before they begin to settle
SLOWEST = 1.0 - 1e-6  # the largest factor by which u forgets


class Foresight(NamedTuple):
    """What is learnt of the sums of rewards to come."""

    values: Floats  # (S, A, 4): u, h, c and d of every entry of a table; empty without forecasts
    averages: Floats  # (14,): see the places above
    errors: Floats  # (4,): memory of one step


def new_foresight(num_states: int, num_columns: int, *, changing: bool = False) -> Foresight:
    """Nothing seen. `changing`: averages never have a longer memory than 100,000 steps."""
    averages = np.zeros(SIZE)
    averages[LEAST_RATE] = 1.0 / LONGEST_MEMORY if changing else 0.0
    return Foresight(np.zeros((num_states, num_columns, ENTRY)), averages, np.zeros(ENTRY))


def no_foresight() -> Foresight:
    """For an agent that makes no forecasts."""
    return new_foresight(0, 0)


class Learnt(NamedTuple):
    """What of it goes into a file."""

    values: Floats
    averages: Floats


def learnt(foresight: Foresight) -> Learnt:
    """What of it goes into a file."""
    return Learnt(foresight.values, foresight.averages)


def with_slow_gain(averages: Floats) -> Floats:
    """The averages of a file, also of one from before the gain had an average of its own: that then begins at the gain."""
    return np.append(averages, averages[GAIN]) if averages.shape == (SLOW_GAIN,) else averages


@inlined
def rate_now(averages: Any) -> Any:
    """The step of the averages."""
    return max(RECENT / (averages[COUNTED] + RECENT + DELAY), averages[LEAST_RATE])


@inlined
def foresee(averages: Any, reward: Any, here: Any, there: Any, usual: Any, errors: Any) -> None:
    """Take note of one transition, with the four numbers at (S, A) and those at (S′, a*): write the errors by which the first are
    to move.

    `usual`: whether the policy itself would have taken A. Only then do the averages move, which are about the policy.
    """
    if averages[SEEN] == 0.0:
        averages[GAIN] = averages[SLOW_GAIN] = reward
    averages[SEEN] += 1.0
    delta = reward - averages[GAIN] + there[VALUE] - here[VALUE]
    error = delta * delta - averages[VARIANCE] + there[SQUARE] - here[SQUARE]
    if usual:
        averages[COUNTED] += 1.0
        rate = rate_now(averages)
        excess, following = reward - averages[GAIN], there[REWARD] - averages[GAIN]
        averages[REWARD_VARIANCE] += rate * (excess * excess - averages[REWARD_VARIANCE])
        averages[REWARD_LAG] += rate * (excess * following - averages[REWARD_LAG])
        averages[GAIN] += rate * delta
        averages[SLOW_GAIN] += rate * (averages[GAIN] - averages[SLOW_GAIN])
        averages[VARIANCE] += rate * error
        averages[MEAN_VALUE] += rate * (here[VALUE] - averages[MEAN_VALUE])
        averages[MEAN_SQUARE] += rate * (here[SQUARE] - averages[MEAN_SQUARE])
        now = here[REWARD] - averages[GAIN]
        later = here[VALUE] - averages[MEAN_VALUE] - now
        later_there = there[VALUE] - averages[MEAN_VALUE] - following
        averages[NOW] += rate * (now * now - averages[NOW])
        averages[NOW_LATER] += rate * (now * later - averages[NOW_LATER])
        averages[LATER] += rate * (later * later - averages[LATER])
        averages[LATER_LAG] += rate * (later * later_there - averages[LATER_LAG])
    errors[VALUE], errors[SQUARE] = delta, error
    errors[REWARD], errors[NEXT] = reward - here[REWARD], there[REWARD] - here[NEXT]


def _factor(part: float, whole: float, otherwise: float) -> float:
    """The factor of a geometric fall, part/whole, if it is one."""
    return min(part / whole, SLOWEST) if whole and 0.0 <= part / whole <= 1.0 else otherwise


def expected_sum(foresight: Foresight, num_steps: int, start: Floats | None = None) -> tuple[float, float, float]:
    """The sum of the next rewards: its mean, its variance, and the standard error of the mean, which comes from that of the
    gain and from how far it still moves: the distance to its own average.

    `start`: the four numbers where it begins; without it, anywhere in the long run. Right for one step and for many, if the numbers
    are. In between, expected rewards and covariances of rewards are taken to fall geometrically to what they are in the long run.
    """
    averages = {place: float(average) for place, average in enumerate(foresight.averages)}
    gain, variance, one = averages[GAIN], max(averages[VARIANCE], 0.0), averages[REWARD_VARIANCE]
    rho = _factor(averages[LATER_LAG], averages[LATER], 0.0)
    fall = _factor(variance - one - 2.0 * averages[REWARD_LAG], variance - one, rho)  # of covariances of rewards
    memory = (1.0 - fall**num_steps) / (1.0 - fall)
    mean, total = num_steps * gain, (num_steps - memory) * variance + memory * one
    if start is not None:
        now, then = float(start[REWARD]) - gain, float(start[NEXT]) - gain
        later = float(start[VALUE]) - averages[MEAN_VALUE] - now
        mean += now + later * (1.0 - _factor(later - then, later, rho) ** (num_steps - 1))
        part = 1.0 - rho ** (num_steps - 1)
        explained = averages[NOW] + 2.0 * averages[NOW_LATER] * part + averages[LATER] * part**2
        total += float(start[SQUARE] - averages[MEAN_SQUARE]) * (1.0 - rho**num_steps) - explained
    error = math.sqrt(float(rate_now(foresight.averages)) * RECENT / (2.0 * RECENT - 1.0) * variance)
    return mean, max(total, 0.0), num_steps * math.hypot(error, gain - averages[SLOW_GAIN])
