"""The actor-critic on active tiles (Alg. 5, 9, 12): the same rules as the tables, a softmax policy beside them.

Only the few weights of the active tiles take part in a step: a value is their sum, a move adds the same to each of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import compiled, inlined
from perstep.rules import RewardEstimate, Schedule, Workspace, apply_rule, steps_now
from perstep.tiles import Tiling, active_tiles

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """What is learnt, and where the agent stands (K active of F features)."""

    critic: Floats  # (F, n): w
    actor: Floats  # (F, A): u
    active: NDArray[np.int64]  # (K,): the features of S
    estimate: Floats  # (n,): the value of S
    clipped: NDArray[np.int64]  # (1,): coordinates seen outside the bounds so far


class Room(NamedTuple):
    """What a step writes to, allocated once a run."""

    next_active: NDArray[np.int64]  # (K,): the features of S′
    bootstrap: Floats  # (n,): the value of S′
    chances: Floats  # (A,): π(·|S)


class Run(NamedTuple):
    """All that an actor-critic reads and writes."""

    weights: Weights
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule
    policy_ratio: float  # η_π
    tiling: Tiling
    room: Room


def weights(num_features: int, num_active: int, num_actions: int, num_quantiles: int, initial: float) -> Weights:
    """Preferences of zero, and values of `initial` everywhere: each of the active features carries its share."""
    return Weights(
        np.full((num_features, num_quantiles), initial / num_active),
        np.zeros((num_features, num_actions)),
        np.zeros(num_active, np.int64),
        np.zeros(num_quantiles),
        np.zeros(1, np.int64),
    )


def room(num_active: int, num_actions: int, num_quantiles: int) -> Room:
    """Scratch for one step."""
    return Room(np.zeros(num_active, np.int64), np.zeros(num_quantiles), np.zeros(num_actions))


NARROW = 4  # columns up to which going down each column beats going along each row


@compiled
def gather(matrix: Any, active: Any, out: Any) -> None:
    """out = the sum of the active rows: one dot product with binary features a column."""
    count, width = active.shape[0], out.shape[0]
    if width <= NARROW:
        for j in range(width):
            out[j] = gather_column(matrix, active, j)
        return
    for j in range(width):
        out[j] = 0.0
    k = 0
    while k + 4 <= count:  # four rows at a time: a quarter of the trips to `out`
        a, b, c, d = matrix[active[k]], matrix[active[k + 1]], matrix[active[k + 2]], matrix[active[k + 3]]
        for j in range(width):
            out[j] += (a[j] + b[j]) + (c[j] + d[j])
        k += 4
    while k < count:
        a = matrix[active[k]]
        for j in range(width):
            out[j] += a[j]
        k += 1


@compiled
def gather_column(matrix: Any, active: Any, j: Any) -> Any:
    """The sum of one column over the active rows, in four lanes as quantiles.mean."""
    count = active.shape[0]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    k = 0
    while k + 4 <= count:  # unsigned: numba then need not ask whether an index counts from the end
        a += matrix[np.uint64(active[k]), j]
        b += matrix[np.uint64(active[k + 1]), j]
        c += matrix[np.uint64(active[k + 2]), j]
        d += matrix[np.uint64(active[k + 3]), j]
        k += 4
    while k < count:
        a += matrix[np.uint64(active[k]), j]
        k += 1
    return (a + b) + (c + d)


@compiled
def scatter(matrix: Any, active: Any, step: Any, pull: Any) -> None:
    """Every active row += step · pull."""
    if pull.shape[0] <= NARROW:
        for j in range(pull.shape[0]):
            change = step * pull[j]
            for k in range(active.shape[0]):
                matrix[np.uint64(active[k]), j] += change
        return
    for k in range(active.shape[0]):
        row = matrix[active[k]]
        for j in range(pull.shape[0]):
            row[j] += step * pull[j]


@compiled
def softmax(preferences: Any) -> None:
    """Preferences to probabilities, in place; the largest is taken off first, so nothing overflows."""
    top = preferences[0]
    for a in range(1, preferences.shape[0]):
        top = max(top, preferences[a])
    total = 0.0
    for a in range(preferences.shape[0]):
        preferences[a] = math.exp(preferences[a] - top)
        total += preferences[a]
    for a in range(preferences.shape[0]):
        preferences[a] /= total


@inlined
def enter(run: Any, point: Any) -> None:
    """Stand at a point: S is obtained, not reached by a transition."""
    run.weights.clipped[0] += active_tiles(run.tiling, point, run.weights.active)
    gather(run.weights.critic, run.weights.active, run.weights.estimate)


@inlined
def softmax_policy(run: Any) -> None:
    """π(·|S, u) into `run.room.chances`."""
    gather(run.weights.actor, run.weights.active, run.room.chances)
    softmax(run.room.chances)


@inlined
def actor_critic(rule: Any, run: Any, clock: Any, action: Any, reward: Any, next_point: Any, masked: Any) -> Any:
    """Estimate v(S), bootstrap v(S′); then w, then u with the probabilities A was drawn from; S′ becomes S."""
    weights, room, pull = run.weights, run.room, run.work.pull
    weights.clipped[0] += active_tiles(run.tiling, next_point, room.next_active)
    gather(weights.critic, room.next_active, room.bootstrap)
    bootstrap = run.work.nothing if masked else room.bootstrap
    steps = steps_now(rule, run.schedule, clock, clock)
    delta = apply_rule(rule, run.rewards, reward, bootstrap, weights.estimate, steps, run.work)
    scatter(weights.critic, weights.active, steps.value, pull)
    scale = run.policy_ratio * steps.value * delta
    chances = room.chances
    for a in range(chances.shape[0]):
        chances[a] = (1.0 if a == action else 0.0) - chances[a]  # ∇ ln π(A|S) on every active feature
    scatter(weights.actor, weights.active, scale, chances)
    # The value of S′ was summed before w moved: add what moved under the tiles that S and S′ share.
    shared = 0
    for k in range(weights.active.shape[0]):
        shared += weights.active[k] == room.next_active[k]
        weights.active[k] = room.next_active[k]
    for j in range(pull.shape[0]):
        weights.estimate[j] = room.bootstrap[j] + shared * steps.value * pull[j]
    return delta
