"""Exact distributions of the differential return with a horizon: what D3 with a horizon estimates. Not in the paper.

With g = 1 − 1/H, the return is q(s, a) + Z(s, a), where Z = Σ g^t δ_t and δ = R − r̄ + q(S′, A′) − q(S, A). So Z = δ + g Z(S′, A′),
and its variance solves one linear system. Its characteristic function φ satisfies φ(x) = E[e^{ixδ} φ′(g x)], φ′ that of the
next pair. It is known near 0, and dynamic programming leads from g x to x. The Fourier transform then gives the distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.display.progress import Bar
from perstep.distributions.distribution import Floats, capped_moments
from perstep.mdp.outcomes import Outcomes
from perstep.system.budget import claim

NEAR_ZERO = 1e-5  # in standard deviations; up to here φ(x) = 1 − x²·variance/2, within rounding errors
BLOCK = 1 << 21  # complex numbers in memory at once
FREQUENCIES_AT_ONCE = 256
OUTSIDE = (
    1e-12  # probability that Z may have outside the interval of the Fourier transform; also a φ that does not count
)
CUT = 7.4  # a normal distribution's φ is below 1e-12 from this many inverse standard deviations on
TILTS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0)  # in inverse standard deviations; arguments at which tails are bounded


class Transitions(NamedTuple):
    """What one step adds to Z, for each possible step between nodes (state-action pairs, or states); sorted by `origin`."""

    origin: NDArray[np.int64]  # (E,)
    target: NDArray[np.int64]  # (E,)
    probability: Floats  # (E,)
    mean: Floats  # (E,), of the reward before the cap
    sd: Floats  # (E,)
    shift: Floats  # (E,), what δ has beside the reward
    cap: float


def pair_transitions(
    outcomes: Outcomes, policy: Floats, average_reward: float, action_values: Floats, nodes: NDArray[np.bool_]
) -> Transitions:
    """Steps between state-action pairs; `nodes` (S, A) marks the pairs, among them all that can follow."""
    number = np.cumsum(nodes).reshape(nodes.shape) - 1
    s, a, k = np.nonzero((outcomes.probability > 0.0) & nodes[:, :, None])
    step, then = np.nonzero(policy[outcomes.next_state[s, a, k]])
    s, a, k = s[step], a[step], k[step]
    to = outcomes.next_state[s, a, k]
    return Transitions(
        origin=number[s, a],
        target=number[to, then],
        probability=outcomes.probability[s, a, k] * policy[to, then],
        mean=outcomes.mean[s, a, k],
        sd=outcomes.sd[s, a, k],
        shift=action_values[to, then] - action_values[s, a] - average_reward,
        cap=outcomes.cap,
    )


def state_transitions(
    outcomes: Outcomes, policy: Floats, average_reward: float, state_values: Floats, nodes: NDArray[np.bool_]
) -> Transitions:
    """Steps between states, for δ = R − r̄ + v(S′) − v(S); `nodes` (S,) marks the states, which the policy does not leave."""
    number = np.cumsum(nodes) - 1
    weight = policy[:, :, None] * outcomes.probability
    s, a, k = np.nonzero((weight > 0.0) & nodes[:, None, None])
    to = outcomes.next_state[s, a, k]
    return Transitions(
        origin=number[s],
        target=number[to],
        probability=weight[s, a, k],
        mean=outcomes.mean[s, a, k],
        sd=outcomes.sd[s, a, k],
        shift=state_values[to] - state_values[s] - average_reward,
        cap=outcomes.cap,
    )


def return_variances(steps: Transitions, discount: float) -> Floats:
    """The variance of Z for each node: that of δ, and g² times that of what follows. (N,)"""
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import spsolve

    size = int(steps.origin[-1]) + 1
    means, variances = capped_moments(steps.mean, steps.sd, steps.cap)
    squares = steps.probability * (variances + (means + steps.shift) ** 2)
    spread = np.bincount(steps.origin, weights=squares, minlength=size)
    chain = coo_array((steps.probability, (steps.origin, steps.target)), shape=(size, size))
    return np.atleast_1d(spsolve((eye_array(size) - discount**2 * chain).tocsc(), spread))


def return_distribution(
    steps: Transitions, discount: float, node: int, variances: Floats, error: float
) -> tuple[Floats, Floats]:
    """Probabilities and values of Z of one node, on a grid. (M,), (M,)

    It is the exact distribution with normal noise added, so that the Fourier transform ends at a finite frequency. Noise and grid
    together change a draw by at most `error` standard deviations, in the mean of squares.
    """
    sd = math.sqrt(float(variances[node]))
    noise = 0.8 * error * sd
    reach = _reach(steps, discount, node, variances, sd)
    size = 2 * math.ceil(reach * CUT / (math.pi * noise))  # the distance of points is 0.42 · noise
    claim(
        64 * size, f"a return distribution on a grid of {size:,} points", "Choose a shorter horizon or a larger error."
    )
    frequencies = np.arange(size // 2 + 1) * (math.pi / reach)
    phi, peaks = np.zeros(frequencies.size, dtype=np.complex128), np.ones(frequencies.size)
    at_once = min(FREQUENCIES_AT_ONCE, max(1, BLOCK // steps.origin.size))
    with Bar(frequencies.size, "return distribution", unit="frequencies") as bar:
        for begin in range(0, frequencies.size, at_once):
            block = slice(begin, begin + at_once)
            found = _characteristic(steps, discount, variances, frequencies[block].astype(np.complex128))
            phi[block], peaks[block] = found[node], np.abs(found).max(axis=0)
            bar.update(min(begin + at_once, frequencies.size))
            # |φ(x)| is at most the largest |φ(g x)|: if all are negligible from g x to x, they are so from there on.
            last = frequencies[block][-1]
            if peaks[(frequencies >= discount * last) & (frequencies <= last)].max() < OUTSIDE:
                break
    phi *= np.exp(-0.5 * (noise * frequencies) ** 2)
    phi[1::2] *= -1.0  # the grid begins at −reach
    weights = np.fft.irfft(phi.conj(), size)
    weights[weights < OUTSIDE] = 0.0
    return weights / weights.sum(), np.linspace(-reach, reach, size, endpoint=False)


def _reach(steps: Transitions, discount: float, node: int, variances: Floats, sd: float) -> float:
    """A number that |Z| exceeds with at most the probability OUTSIDE: P(Z > b) ≤ E[e^{cZ}] e^{−cb} for every c (Chernoff)."""
    tilts = np.array(TILTS) / sd
    with np.errstate(over="ignore", invalid="ignore"):
        growth = _characteristic(steps, discount, variances, np.concatenate([-1j * tilts, 1j * tilts]))[node].real
        needed = (np.log(growth.reshape(2, -1)) - math.log(0.5 * OUTSIDE)) / tilts
    return float(np.nanmin(np.where(np.isfinite(needed), needed, np.nan), axis=1).max())


def _characteristic(
    steps: Transitions, discount: float, variances: Floats, x: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """φ(x) = E[e^{ixZ}] of each node, for numbers x (F,), which may be complex. (N, F)"""
    first = np.flatnonzero(np.append(True, np.diff(steps.origin) > 0))
    largest = float(np.abs(x).max() * math.sqrt(variances.max()))
    levels = 1
    if discount > 0.0 and largest > NEAR_ZERO:
        levels = math.ceil(math.log(NEAR_ZERO / largest) / math.log(discount))
    phi = 1.0 - 0.5 * variances[:, None] * (x * discount**levels) ** 2
    for level in reversed(range(levels)):
        phi = np.add.reduceat(_step_factor(steps, x * discount**level) * phi[steps.target], first, axis=0)
    return phi


def _step_factor(steps: Transitions, x: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """The probability of each step times E[e^{ixδ}]. (E, F)"""
    mean, sd, shift = steps.mean[:, None], steps.sd[:, None], steps.shift[:, None]
    if not steps.sd.any():
        return np.asarray(steps.probability[:, None] * np.exp(1j * x * (mean + shift)))
    exponent = 1j * x * (mean + shift) - 0.5 * (x * sd) ** 2
    if steps.cap < math.inf:
        return _capped_step_factor(steps, x, exponent)
    return np.asarray(steps.probability[:, None] * np.exp(exponent))


def _capped_step_factor(
    steps: Transitions, x: NDArray[np.complex128], exponent: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Below the cap a normal distribution, cut off there; at the cap the probability of all that is above it. (E, F)"""
    from scipy.special import log_ndtr, ndtr

    random = steps.sd > 0.0
    sd, gap = steps.sd[random][:, None], (steps.cap - steps.mean[random])[:, None]
    below = np.exp(exponent[random] + log_ndtr(gap / sd - 1j * x * sd))
    above = np.exp(1j * x * (steps.cap + steps.shift[random][:, None])) * ndtr(-gap / sd)
    factor = np.exp(exponent)
    factor[random] = below + above
    return np.asarray(steps.probability[:, None] * factor)
