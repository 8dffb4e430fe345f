"""Quantile regression (the paper's Eq. 6): levels τ, the pulls of its losses, and the tracking of reward quantiles θ.

A pull is minus the slope of a loss: an estimate moves by `estimate += step * pull`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, merged

Floats = NDArray[np.float64]


def levels(count: int) -> NDArray[np.float64]:
    """The midpoint levels τ_i = (2i − 1) / 2m, i = 1 … m, of m quantiles."""
    return np.asarray((2.0 * np.arange(1, count + 1) - 1.0) / (2.0 * count), np.float64)


@merged
def mean(x: Floats) -> float:
    """The mean, as four partial sums: a fixed order (the same bits on every machine) without one long chain of additions."""
    count = x.shape[0]
    if count == 1:
        return x[0]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    i = 0
    while i + 4 <= count:
        a += x[i]
        b += x[i + 1]
        c += x[i + 2]
        d += x[i + 3]
        i += 4
    while i < count:
        a += x[i]
        i += 1
    return ((a + b) + (c + d)) / count


@merged
def track(theta: Floats, tau: Floats, reward: float, step: float) -> None:
    """θ_i += α_θ (τ_i − 1{R < θ_i}) for all i: O(m), whatever the number of states."""
    for i in range(theta.shape[0]):
        theta[i] += step * (tau[i] - (1.0 if reward < theta[i] else 0.0))


@compiled
def track_evenly(theta: Floats, tau: Floats, reward: float, step: float, fastest: float) -> None:
    """As `track`, with a step in proportion to 1/(4 τ (1 − τ)). A policy that learns leaves the worst rewards behind,
    and the lowest quantiles then travel as fast as the median; otherwise they would need 1/τ times as long. `fastest`: the largest
    step, in steps of the median."""
    for i in range(theta.shape[0]):
        own = min(0.25 / (tau[i] * (1.0 - tau[i])), fastest)
        theta[i] += own * step * (tau[i] - (1.0 if reward < theta[i] else 0.0))


@compiled
def track_share(theta: Floats, tau: Floats, rewards: Floats, step: float) -> None:
    """`track` for several rewards at once and the same θ: θ_i += α_θ (τ_i − share of the rewards below θ_i)."""
    count = rewards.shape[0]
    for i in range(theta.shape[0]):
        below = 0
        for b in range(count):
            below += rewards[b] < theta[i]
        theta[i] += step * (tau[i] - below / count)


@compiled
def sort_between_infinities(x: Floats, out: Floats) -> None:
    """Copy x in ascending order to out[1:-1], between −∞ and ∞. Insertion sort takes linear time on quantiles, which are nearly
    in order."""
    count = x.shape[0]
    out[0] = -np.inf
    for i in range(count):
        value = x[i]
        place = i + 1
        while out[place - 1] > value:
            out[place] = out[place - 1]
            place -= 1
        out[place] = value
    out[count + 1] = np.inf


@compiled
def walk(ordered: Floats, place: int, bar: float) -> int:
    """How many of the ordered numbers are below `bar`, searched from the last answer, `place`."""
    while ordered[place + 1] < bar:
        place += 1
    while place > 0 and ordered[place] >= bar:  # no number is below a bar of −∞
        place -= 1
    return place


@compiled
def quantile_pulls(
    shift: float, scale: float, targets: Floats, estimates: Floats, tau: Floats, ordered: Floats, pulls: Floats
) -> None:
    """Pull of the quantile loss on every estimate, averaged over all targets: (1/n) Σ_k [τ_j − 1{shift + scale y_k − x_j < 0}].

    The sum counts the targets below x_j. With ordered targets, the count of one estimate is close to that of the one before,
    so all n counts cost O(n) after the sort instead of n² comparisons.
    """
    share = 1.0 / targets.shape[0]
    inverse = 1.0 / scale
    sort_between_infinities(targets, ordered)
    below = 0
    for j in range(estimates.shape[0]):
        below = walk(ordered, below, (estimates[j] - shift) * inverse)
        pulls[j] = tau[j] - below * share


@compiled
def huber_pulls(
    shift: float, scale: float, targets: Floats, estimates: Floats, tau: Floats, huber: float, ordered: Floats, sums: Floats,
    pulls: Floats,
) -> None:  # fmt: skip
    """Pull of the quantile Huber loss on every estimate, averaged over all targets: (1/n) Σ_k |τ_j − 1{x<0}| clip(x, ±λ) with
    x = shift + scale y_k − x_j.

    With ordered targets, three counts move along with the estimates: targets more than λ below, below, and up to λ above.
    Running sums of the targets give the rest: O(n) after the sort instead of n² terms.
    """
    count = targets.shape[0]
    inverse, width = 1.0 / scale, huber / scale  # x = scale (y_k − bar), with a bar and a λ in the units of the targets
    sort_between_infinities(targets, ordered)
    middle = ordered[(count + 1) // 2]  # sums of distances from it stay precise when the values are far from 0
    sums[0] = 0.0
    for k in range(count):
        sums[k + 1] = sums[k] + (ordered[k + 1] - middle)
    far, below, near = 0, 0, 0  # how many targets are below bar − width, bar, bar + width
    for j in range(estimates.shape[0]):
        bar = (estimates[j] - shift) * inverse
        far = walk(ordered, far, bar - width)
        below = walk(ordered, below, bar)
        near = walk(ordered, near, bar + width)
        away = bar - middle
        under = sums[below] - sums[far] - (below - far) * away - far * width
        over = sums[near] - sums[below] - (near - below) * away + (count - near) * width
        pulls[j] = scale * ((1.0 - tau[j]) * under + tau[j] * over) / count


@compiled
def smooth_pulls(
    shift: float, scale: float, targets: Floats, estimates: Floats, tau: Floats, ordered: Floats, pulls: Floats
) -> None:
    """As `quantile_pulls`, for targets that stand for a distribution without atoms: τ_j − P(shift + scale Y < x_j), where the
    distribution function of Y is straight between the targets, from level to level, and exponential beyond the outer two."""
    count = targets.shape[0]
    inverse, share = 1.0 / scale, 1.0 / count
    sort_between_infinities(targets, ordered)
    low = 0.5 * (ordered[2] - ordered[1])  # the scale of the tail whose density continues from the outermost interval
    high = 0.5 * (ordered[count] - ordered[count - 1])
    below = 0
    for j in range(estimates.shape[0]):
        bar = (estimates[j] - shift) * inverse
        below = walk(ordered, below, bar)
        if below == 0:
            level = 0.5 * share * np.exp((bar - ordered[1]) / low) if low > 0.0 else 0.0
        elif below == count:
            level = 1.0 - (0.5 * share * np.exp((ordered[count] - bar) / high) if high > 0.0 else 0.0)
        else:
            level = share * (below - 0.5 + (bar - ordered[below]) / (ordered[below + 1] - ordered[below]))
        pulls[j] = tau[j] - level


SHAPE_STEP = 2.0  # of the shape of a return distribution, in its standard deviations, for a step size of 1
LEAST_FACTOR = 1e-12  # g of a horizon of one step: pulls divide by it
ROUNDING = 1e-12  # a spread below this share of the mean is rounding, and has no shape


@compiled
def horizon_pulls(
    delta: float,
    factor: float,
    targets: Floats,
    estimates: Floats,
    tau: Floats,
    step: float,
    ordered: Floats,
    pulls: Floats,
) -> None:
    """Pull on estimates x_j = Q + Z_j, where Z is the distribution of Σ g^t δ_t (docs/decisions/0013-horizon.md).

    The mean of the estimates moves by δ, as a single value does. Their variance moves by step · (δ² + g² v′ − v), the recursion of
    Var Z, which is linear and so has no bias. Only the shape, what is left of them at mean 0 and variance 1, moves by quantile
    regression towards δ + g Z′. `step`: how far the estimates move by their pulls.
    """
    here, there = mean(estimates), mean(targets)
    variance, ahead = mean_square(estimates, here), mean_square(targets, there)
    rate = min(step, 1.0)
    spread = np.sqrt(variance)
    new_spread = np.sqrt(variance + rate * (delta * delta + factor * factor * ahead - variance))
    smooth_pulls(here + delta - factor * there, factor, targets, estimates, tau, ordered, pulls)
    middle = mean(pulls)
    for j in range(pulls.shape[0]):
        shape = (estimates[j] - here) / spread if spread > ROUNDING * abs(here) else 0.0
        pulls[j] = shape + rate * SHAPE_STEP * (pulls[j] - middle)
    size = np.sqrt(mean_square(pulls, 0.0))
    scale = new_spread / size if size > 0.0 else 0.0
    for j in range(pulls.shape[0]):
        pulls[j] = delta + (scale * pulls[j] - (estimates[j] - here)) / step


@compiled
def mean_square(x: Floats, middle: float) -> float:
    """The mean square of the distances from `middle`."""
    total = 0.0
    for i in range(x.shape[0]):
        total += (x[i] - middle) * (x[i] - middle)
    return total / x.shape[0]
