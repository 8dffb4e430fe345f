"""Sweeps of value iteration as compiled code: before and between linear systems they save most rounds of policy iteration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.distribution import Floats
from perstep.numerics.compiled import compiled

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def backup(matrix: csr_array, rewards: Floats) -> Callable[[Floats], Floats]:
    """A function from v (S,) to max r + P v − v (S,), for P (S·A, S) and r (S, A). It writes all its answers to one array.

    In one pass, so no table (S, A) goes through the memory.
    """
    model = (
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), np.ascontiguousarray(matrix.data),
        np.ascontiguousarray(rewards),
    )  # fmt: skip
    residual = np.empty(rewards.shape[0])

    def sweep(values: Floats) -> Floats:
        _backup(*model, values, residual)
        return residual

    return sweep


@compiled
def _backup(
    pointers: NDArray[np.int64],
    successors: NDArray[np.int32],
    chances: Floats,
    rewards: Floats,
    values: Floats,
    residual: Floats,
) -> None:
    for state in range(rewards.shape[0]):
        best = -math.inf
        for action in range(rewards.shape[1]):
            row = state * rewards.shape[1] + action
            following = 0.0
            for k in range(pointers[row], pointers[row + 1]):
                following += chances[k] * values[successors[k]]
            best = max(best, rewards[state, action] + following)
        residual[state] = best - values[state]


def relax(matrix: csr_array, rewards: Floats, gain: float, values: Floats, anchor: int, num_rounds: int) -> None:
    """Improve `values` (S,) for P (S·A, S) and r (S, A), each round in ascending and in descending order; v(anchor) stays.

    In place, a sweep in the order in which states lead to each other carries the values through the whole model. Ordinary value
    iteration carries them by one step. If v ≤ Tv − gain before, as for the values of a policy, so it is afterwards: the greedy
    policy then earns at least `gain`.
    """
    _relax(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), np.ascontiguousarray(matrix.data),
        np.ascontiguousarray(rewards), gain, values, anchor, num_rounds,
    )  # fmt: skip


@compiled
def _relax(
    pointers: NDArray[np.int64],
    successors: NDArray[np.int32],
    chances: Floats,
    rewards: Floats,
    gain: float,
    values: Floats,
    anchor: int,
    num_rounds: int,
) -> None:
    size = values.shape[0]
    for turn in range(2 * num_rounds):
        for place in range(size):
            state = place if turn % 2 == 0 else size - 1 - place
            if state == anchor:
                continue
            here = values[state]
            rise = -math.inf  # of the value; solved for the state itself, where it can be its own successor
            for action in range(rewards.shape[1]):
                row = state * rewards.shape[1] + action
                residual, moves = rewards[state, action] - gain, 0.0
                for k in range(pointers[row], pointers[row + 1]):
                    if successors[k] != state:
                        # Differences of values are almost exact, so values of 1e9 do not cost nine digits.
                        residual += chances[k] * (values[successors[k]] - here)
                        moves += chances[k]
                if moves > 0.0:
                    rise = max(rise, residual / moves)
            if rise > -math.inf:
                values[state] = here + rise


def settle(chain: csr_array, share: Floats, num_rounds: int) -> None:
    """Move a distribution (S,) towards the stationary one of a chain (S, S), in place, each round upwards and downwards."""
    backwards = chain.T.tocsr()
    _settle(backwards.indptr.astype(np.int64), backwards.indices.astype(np.int32), backwards.data, share, num_rounds)
    share /= share.sum()


@compiled
def _settle(
    pointers: NDArray[np.int64], origins: NDArray[np.int32], chances: Floats, share: Floats, num_rounds: int
) -> None:
    size = share.shape[0]
    for turn in range(2 * num_rounds):
        for place in range(size):
            state = place if turn % 2 == 0 else size - 1 - place
            comes, stays = 0.0, 0.0
            for k in range(pointers[state], pointers[state + 1]):
                if origins[k] == state:
                    stays += chances[k]
                else:
                    comes += chances[k] * share[origins[k]]
            if stays < 1.0:
                share[state] = comes / (1.0 - stays)
