"""The sum of the next H rewards under a policy: its exact mean and variance for every H, and simulated sums.

With rewards minus the average reward, one step adds r̃ to the mean of the sum f, and ρ + 2 A f to its second moment q:
f ← r̃ + P f, q ← ρ + 2 A f + P q, where A(s, s′) is the expected reward of a step on the way from s to s′. In a small world H such
steps are doubled again and again. In a large world they are made one by one, until the chain has forgotten where it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.display.progress import Bar
from perstep.distributions.distribution import Floats, capped_moments
from perstep.mdp.outcomes import Outcomes
from perstep.mdp.sampler import FiniteWorld, start, step
from perstep.numerics.compiled import announce, compiled
from perstep.numerics.randomness import Generator, draw

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DOUBLING_UP_TO = 400  # states; the products of dense matrices of this size take milliseconds
FORGOTTEN = 1e-13  # relative to the sums; a change that is still to come and is smaller does not count
ROUNDING = 1e-13  # relative to the second moments of the sum and of its steps; a smaller variance is a rounding error
STEPS_AT_ONCE = 20_000_000  # simulated steps between two updates of the progress bar


class CentredChain(NamedTuple):
    """The Markov chain of a policy, with rewards minus the average reward."""

    chain: csr_array  # P(s′ | s), (S, S)
    reward_and_next: csr_array  # A(s, s′) = E[R̃; S′ = s′ | s], (S, S)
    mean: Floats  # r̃(s) = E[R̃ | s], (S,)
    square: Floats  # ρ(s) = E[R̃² | s], (S,)


def centred_chain(outcomes: Outcomes, policy: Floats, average_reward: float) -> CentredChain:
    """The chain of a policy (S, A)."""
    from scipy.sparse import coo_array

    num_states = policy.shape[0]
    weight = policy[:, :, None] * outcomes.probability  # (S, A, K)
    place = np.nonzero(weight)
    weights, entries = weight[place], (place[0], outcomes.next_state[place])
    means, variances = centred_rewards(outcomes, average_reward)
    means, squares = means[place], (variances + means**2)[place]

    def matrix(values: Floats) -> csr_array:
        return coo_array((values, entries), shape=(num_states, num_states)).tocsr()

    def total(values: Floats) -> Floats:
        return np.bincount(place[0], weights=values, minlength=num_states).astype(np.float64)

    return CentredChain(matrix(weights), matrix(weights * means), total(weights * means), total(weights * squares))


def centred_rewards(outcomes: Outcomes, average_reward: float) -> tuple[Floats, Floats]:
    """Mean minus the average reward, and variance, of the reward of each outcome. (S, A, K), (S, A, K)"""
    means, variances = capped_moments(outcomes.mean, outcomes.sd, outcomes.cap)
    return means - average_reward, variances


def sum_moments(
    outcomes: Outcomes,
    policy: Floats,
    average_reward: float,
    asymptotic_variance: float,
    stationary: Floats,
    counted: NDArray[np.bool_],
    first: Floats,
    num_steps: int,
) -> tuple[float, float]:
    """Mean and variance of the sum of `num_steps` rewards, from state-action pairs with the distribution `first` (S, A).

    `counted` (S,) marks states that the chain does not leave, with one closed class.
    """
    f, q = np.zeros(counted.size), np.zeros(counted.size)
    whole = centred_chain(outcomes, policy, average_reward)
    part = CentredChain(
        chain=whole.chain[counted][:, counted],
        reward_and_next=whole.reward_and_next[counted][:, counted],
        mean=whole.mean[counted],
        square=whole.square[counted],
    )
    weight = (
        first[:, :, None] * outcomes.probability
    )  # (S, A, K), of the first step: its action may be another than the policy's
    if num_steps > 1:
        if num_steps <= counted.sum() or counted.sum() > DOUBLING_UP_TO:
            second = np.bincount(outcomes.next_state.ravel(), weight.ravel(), counted.size).astype(np.float64)
            f[counted], q[counted] = _by_steps(
                part, num_steps - 1, asymptotic_variance, stationary[counted], second[counted]
            )
        else:
            f[counted], q[counted] = _by_doubling(part, num_steps - 1)
    means, variances = centred_rewards(outcomes, average_reward)
    later, later_square = f[outcomes.next_state], q[outcomes.next_state]
    mean = float((weight * (means + later)).sum())
    square = float((weight * (variances + means**2 + 2.0 * means * later + later_square)).sum())
    variance = square - mean**2
    rounding = ROUNDING * (square + num_steps * float(stationary @ whole.square))
    return num_steps * average_reward + mean, variance if variance > rounding else 0.0


def _by_doubling(chain: CentredChain, num_steps: int) -> tuple[Floats, Floats]:
    """f and q after `num_steps` steps, by the binary digits of that number: 2k steps are k steps and then k steps."""
    f, q = np.zeros_like(chain.mean), np.zeros_like(chain.mean)
    power, cross = chain.chain.toarray(), chain.reward_and_next.toarray()  # of k steps: P(S_k), E[their sum; S_k]
    mean, square = chain.mean, chain.square  # of the sum of k steps
    while True:
        if num_steps % 2:
            f, q = mean + power @ f, square + power @ q + 2.0 * cross @ f
        num_steps //= 2
        if num_steps == 0:
            return f, q
        mean, square = mean + power @ mean, square + power @ square + 2.0 * cross @ mean
        cross = power @ cross + cross @ power
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)  # otherwise each doubling would double the rounding error of the sum


def _by_steps(
    chain: CentredChain, num_steps: int, asymptotic_variance: float, stationary: Floats, first: Floats
) -> tuple[Floats, Floats]:
    """f and q after `num_steps` steps, one by one, until each period adds the same: nothing to f, period · σ² to q.

    They are right where it counts: for a chain that begins with the distribution `first` (S,). A state that such a chain visits
    rarely at any time counts little. So states of a large world that are never seen do not decide how many steps are needed.
    """
    f, q = np.zeros_like(chain.mean), np.zeros_like(chain.mean)
    period = _period(chain.chain)
    blocks, rest = divmod(num_steps, period)
    forward = chain.chain.T.tocsr()
    present, ever = first, np.maximum(first, stationary)  # where the chain is; how likely a state was at any time
    change = np.inf
    with Bar(num_steps, "forecast") as bar:
        for _ in range(rest):
            f, q = _one_step(chain, f, q)
        for block in range(blocks):
            old_f, old_q, old_present, before = f, q, present, change
            for _ in range(period):
                f, q = _one_step(chain, f, q)
                present = forward @ present
                ever = np.maximum(ever, present)
            bar.update(rest + (block + 1) * period)
            scale = float(ever @ np.abs(q)) + period * asymptotic_variance
            change = float(
                ever @ np.abs(q - old_q - period * asymptotic_variance)
                + ever @ np.abs(f - old_f) * np.sqrt(scale)
                + np.abs(present - old_present) @ np.abs(q)
            )
            ratio = change / before
            # Changes fall geometrically, so those to come are this one times ratio / (1 − ratio).
            if change * max(1.0, ratio / (1.0 - ratio) if ratio < 1.0 else np.inf) <= FORGOTTEN * scale:
                return f, q + (blocks - 1 - block) * period * asymptotic_variance
    return f, q


def _one_step(chain: CentredChain, f: Floats, q: Floats) -> tuple[Floats, Floats]:
    return chain.mean + chain.chain @ f, chain.square + 2.0 * (chain.reward_and_next @ f) + chain.chain @ q


def _period(chain: csr_array) -> int:
    """The period of a chain (S, S) with one closed class: the greatest common divisor of the lengths of its cycles."""
    from scipy.sparse.csgraph import connected_components, dijkstra

    _, label = connected_components(chain, directed=True, connection="strong")
    edges = chain.tocoo()
    leaves = np.zeros(label.max() + 1, dtype=np.bool_)
    leaves[label[edges.row][label[edges.row] != label[edges.col]]] = True
    recurrent = ~leaves[label]
    distance = dijkstra(chain, unweighted=True, indices=int(recurrent.argmax()))
    inside = recurrent[edges.row]
    return int(np.gcd.reduce((distance[edges.row[inside]] + 1.0 - distance[edges.col[inside]]).astype(np.int64)))


def simulated_sums(
    world: FiniteWorld, policy: Floats, first_action: int, num_steps: int, num_paths: int, generator: Generator
) -> Floats:
    """Sums of the first `num_steps` rewards of `num_paths` paths; `first_action` −1 for that of the policy. (N,)"""
    if policy.shape != world.accept.shape[:2]:
        raise ValueError(f"The policy must have the shape {world.accept.shape[:2]} of its world, got {policy.shape}.")
    sums = np.empty(num_paths)
    at_once = max(1, STEPS_AT_ONCE // num_steps)
    announce(_walk)
    with Bar(num_paths * num_steps, "paths") as bar:
        for begin in range(0, num_paths, at_once):
            _walk(world, policy, first_action, num_steps, sums[begin : begin + at_once], generator)
            bar.update(min(begin + at_once, num_paths) * num_steps)
    return sums


@compiled
def _walk(world: Any, policy: Any, first_action: Any, num_steps: Any, sums: Any, generator: Any) -> None:
    for path in range(sums.shape[0]):
        state = start(world, generator)
        action = first_action if first_action >= 0 else draw(policy[state], generator)
        total = 0.0
        for _ in range(num_steps):
            reward, state = step(world, state, action, generator)
            total += reward
            action = draw(policy[state], generator)
        sums[path] = total
