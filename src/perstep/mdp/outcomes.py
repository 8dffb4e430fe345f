"""A finite MDP as a list of outcomes for each state and action: the paper's p(s′, r | s, a), with normal rewards.

This is the one representation behind `FiniteMDP`: exact solutions sum over it, compiled code samples from it, and files store
it. Outcomes of probability 0 are dropped, so an MDP with many states and few successors stays small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.distributions.distribution import Floats, capped_moments
from perstep.system.budget import claim

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PROBABILITY_TOLERANCE = 1e-9  # a row of probabilities whose sum is farther from 1 is an error
SHOWN = 5  # pairs in a message
OUTCOME_BYTES = 200  # for each outcome, while a model is built
LEAST = float(np.finfo(np.float64).tiny)  # a smaller probability is 0: products of such numbers are
LARGEST_REWARD = 1e100  # squares of sums of rewards are then numbers too
ROUNDING = 1e-13  # a row whose sum is nearer to 1 is not normalised again, so storing and loading changes no bit


class Outcomes(NamedTuple):
    """Up to K outcomes for each state and action, in arrays that cannot be written to. Rows with fewer outcomes end in outcomes of
    probability 0."""

    probability: Floats  # (S, A, K)
    next_state: NDArray[np.int32]  # (S, A, K)
    mean: Floats  # (S, A, K), mean of the reward before the cap
    sd: Floats  # (S, A, K), standard deviation of the reward before the cap
    cap: float  # the reward is min(cap, draw); inf for no cap


def claim_outcomes(name: str, num_states: int, num_actions: int, num_outcomes: int) -> None:
    """Refuse a world with more outcomes than fit into the memory, before any array is made."""
    claim(
        OUTCOME_BYTES * num_states * num_actions * num_outcomes,
        f"{name} with {num_states:,} states",
        "Choose a smaller one.",
    )


def make_outcomes(
    probability: ArrayLike, next_state: ArrayLike, mean: ArrayLike, sd: ArrayLike = 0.0, cap: float = math.inf
) -> Outcomes:
    """Outcomes from arrays that broadcast to (S, A, K). They are checked and normalised, and equal outcomes are merged."""
    probability = normalised(np.asarray(probability, dtype=np.float64), "probability", "the outcomes")  # (S, A, K)
    shape = probability.shape
    cap = checked_cap(cap)
    states = _broadcast(next_state, shape, "next_state")
    means, sds = _broadcast(mean, shape, "mean"), _broadcast(sd, shape, "sd")
    kept = probability > 0.0
    place = np.nonzero(kept)
    successors, means, sds = states[kept], means[kept], sds[kept]
    wrong = (successors != np.floor(successors)) | (successors < 0) | (successors >= shape[0])
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"next_state must hold integers from 0 to {shape[0] - 1}, got {successors[i]:g} at next_state{_at(place, i)}. "
            "Number the states from 0."
        )
    _require_finite_rewards(means, place, "mean")
    if not (np.isfinite(sds).all() and (sds >= 0.0).all()):
        i = int(np.flatnonzero(~(np.isfinite(sds) & (sds >= 0.0)))[0])
        raise ValueError(
            f"Standard deviations must be finite and 0 or more, got {sds[i]:g} at sd{_at(place, i)}. Correct that entry."
        )
    return pack(
        shape[0],
        shape[1],
        place[0] * shape[1] + place[1],
        successors.astype(np.int64),
        means,
        sds,
        probability[kept],
        cap,
    )


def pack(
    num_states: int,
    num_actions: int,
    pair: NDArray[np.int64],
    next_state: NDArray[np.int64],
    mean: Floats,
    sd: Floats,
    probability: Floats,
    cap: float,
) -> Outcomes:
    """Outcomes from a flat list, where `pair` is state · A + action. Entries that differ only in probability are merged."""
    if not (kept := probability >= LEAST).all():
        pair, next_state, mean, sd, probability = pair[kept], next_state[kept], mean[kept], sd[kept], probability[kept]
    if (largest := max(float(np.abs(mean).max()), float(sd.max()))) > LARGEST_REWARD:
        raise ValueError(
            f"Rewards and their standard deviations must be at most {LARGEST_REWARD:g} in size, so that squares of their sums are "
            f"numbers too, got {largest:g}. Choose a larger unit."
        )
    mean = np.where(sd == 0.0, np.minimum(mean, cap), mean)
    # Most models name a next state once for each pair. They need one sort by whole numbers, or none, and nothing is merged.
    key = pair * num_states + next_state
    if not (np.diff(key) > 0).all():
        order = np.argsort(key, kind="stable")
        if repeated := bool((np.diff(key[order]) == 0).any()):
            order = np.lexsort((sd, mean, next_state, pair))
        pair, next_state, mean, sd = pair[order], next_state[order], mean[order], sd[order]
        probability = probability[order]
        if repeated:
            new = (np.diff(pair) != 0) | (np.diff(next_state) != 0) | (np.diff(mean) != 0.0) | (np.diff(sd) != 0.0)
            first = np.flatnonzero(np.append(True, new))
            probability = np.add.reduceat(probability, first)
            pair, next_state, mean, sd = pair[first], next_state[first], mean[first], sd[first]
    count = np.bincount(pair, minlength=num_states * num_actions)
    column = np.arange(pair.size) - np.repeat(np.cumsum(count) - count, count)

    def table(values: NDArray[Any], dtype: type) -> NDArray[Any]:
        filled = np.zeros((num_states * num_actions, count.max()), dtype=dtype)
        filled[pair, column] = values
        return constant(filled.reshape(num_states, num_actions, -1))

    return Outcomes(
        probability=table(probability, np.float64),
        next_state=table(next_state, np.int32),
        mean=table(mean, np.float64),
        sd=table(sd, np.float64),
        cap=cap,
    )


def constant(array: NDArray[Any]) -> NDArray[Any]:
    """An array in C order that cannot be written to, with the same content: compiled code does not check what it reads."""
    fixed = np.ascontiguousarray(array).view()
    fixed.flags.writeable = False
    return fixed


def require_consistent(outcomes: Outcomes, initial: Floats) -> None:
    """Refuse outcomes with which compiled code would leave its arrays: the one check before it receives them."""
    shape = outcomes.probability.shape
    kinds = {"probability": np.float64, "next_state": np.int32, "mean": np.float64, "sd": np.float64}
    for name, kind in kinds.items():
        array = getattr(outcomes, name)
        if array.shape != shape or array.dtype != kind or array.ndim != 3 or not array.size:
            raise ValueError(
                f"The outcomes of a world must be arrays of one shape (states, actions, outcomes), here {shape}; got {name} as "
                f"{array.dtype} of shape {array.shape}. Build the world with FiniteMDP.from_outcomes."
            )
    low, high = int(outcomes.next_state.min()), int(outcomes.next_state.max())
    if low < 0 or high >= shape[0]:
        raise ValueError(
            f"next_state must hold numbers of states from 0 to {shape[0] - 1}, got {low if low < 0 else high}. "
            "Build the world with FiniteMDP.from_outcomes."
        )
    if initial.shape != (shape[0],) or initial.dtype != np.float64:
        raise ValueError(
            f"initial must hold a probability for each of the {shape[0]} states, got {initial.dtype} of shape {initial.shape}."
        )


def transition_matrix(outcomes: Outcomes) -> csr_array:
    """P(s′ | s, a), with row state · A + action for each pair. (S·A, S)"""
    from scipy.sparse import coo_array

    num_states, num_actions, _ = outcomes.probability.shape
    state, action, _ = place = np.nonzero(outcomes.probability)
    entries = (state * num_actions + action, outcomes.next_state[place])
    return coo_array((outcomes.probability[place], entries), shape=(num_states * num_actions, num_states)).tocsr()


def expected_rewards(outcomes: Outcomes) -> Floats:
    """r(s, a), with the cap taken into account. (S, A)"""
    mean, _ = capped_moments(outcomes.mean, outcomes.sd, outcomes.cap)
    return np.asarray((outcomes.probability * mean).sum(axis=2))


def normalised(table: Floats, name: str, over: str) -> Floats:
    """`table` (S, A, ·) with rows that sum to exactly 1. Raises a ValueError if a row is not a distribution."""
    if table.ndim != 3 or 0 in table.shape:
        raise ValueError(
            f"{name} must have three axes, (states, actions, {over}), none of them empty; got shape {table.shape}. "
            "Reshape it."
        )
    if not np.isfinite(table).all():
        s, a, k = (int(i) for i in np.argwhere(~np.isfinite(table))[0])
        raise ValueError(
            f"{name} must hold finite probabilities, got {table[s, a, k]} at {name}[{s}, {a}, {k}]. "
            "Check how that entry was computed."
        )
    if (table < 0.0).any():
        s, a, k = (int(i) for i in np.argwhere(table < 0.0)[0])
        raise ValueError(
            f"{name} must hold probabilities, 0 or more, got {table[s, a, k]:g} at {name}[{s}, {a}, {k}]. "
            "Correct that entry."
        )
    total = table.sum(axis=2)
    if (empty := np.argwhere(~table.any(axis=2))).size:
        shown = ", ".join(f"({s}, {a})" for s, a in empty[:SHOWN])
        more = f" and {len(empty) - SHOWN} more" if len(empty) > SHOWN else ""
        raise ValueError(
            f"{name} must say where every action leads, but these pairs (state, action) have no outcome: {shown}{more}. "
            "If a state does not have that action, or nobody has seen it there, give matrices to FiniteMDP.from_matrices, "
            "where a row of zeros leaves the action out in that state."
        )
    off = np.abs(total - 1.0)
    if off.max() > PROBABILITY_TOLERANCE:
        s, a = (int(i) for i in np.unravel_index(off.argmax(), off.shape))
        others = int((off > PROBABILITY_TOLERANCE).sum()) - 1
        raise ValueError(
            f"{name} must sum to 1 over {over}, got the sum {total[s, a]:.12g} at {name}[{s}, {a}], "
            f"off by {total[s, a] - 1.0:+.3g}"
            + (f"; {others + 1} rows are wrong in total. " if others else ". ")
            + "Add the missing outcome, or divide each row by its sum."
        )
    return np.asarray(table / np.where(off > ROUNDING, total, 1.0)[:, :, None])


def numbers(given: ArrayLike, name: str) -> Floats:
    """`given` as an array of float64. Raises a ValueError if it holds anything but numbers."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {type(given).__name__}: {error}.") from error


def normalised_initial(initial: ArrayLike | None, num_states: int) -> Floats:
    """The distribution of the first state, uniform if `initial` is None. (S,)"""
    if initial is None:
        return constant(np.full(num_states, 1.0 / num_states))
    first = numbers(initial, "initial").copy()
    if first.shape != (num_states,):
        raise ValueError(
            f"initial must hold a probability for each of the {num_states} states, shape ({num_states},), got shape "
            f"{first.shape}. For a fixed first state s, give np.eye({num_states})[s]."
        )
    total = float(first.sum())
    if not np.isfinite(first).all() or (first < 0.0).any() or abs(total - 1.0) > PROBABILITY_TOLERANCE:
        raise ValueError(
            "initial must hold probabilities, 0 or more, that sum to 1; got "
            f"{first.min():g} as the smallest entry and {total:.12g} as the sum. Divide it by its sum, or leave it out for a "
            "uniform first state."
        )
    return constant(first / total if abs(total - 1.0) > ROUNDING else first)


def checked_cap(cap: float | None) -> float:
    """The cap as a number; inf for no cap."""
    limit = math.inf if cap is None else float(cap)
    if math.isnan(limit) or limit == -math.inf:
        raise ValueError(
            f"The cap must be a number, the largest possible reward, got {cap}. Give a number, or leave it out for no cap."
        )
    return limit


def _broadcast(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"{name} must broadcast to the shape {shape} of the probabilities, got shape {array.shape}. "
            "Add axes of length 1 where it is constant."
        ) from None


def _require_finite_rewards(means: Floats, place: tuple[NDArray[np.int64], ...], name: str) -> None:
    if not np.isfinite(means).all():
        i = int(np.flatnonzero(~np.isfinite(means))[0])
        raise ValueError(
            f"Rewards must be finite for every possible outcome, got {means[i]} at {name}{_at(place, i)}. "
            "Correct that entry, or give the outcome probability 0."
        )


def _at(place: tuple[NDArray[np.int64], ...], i: int) -> str:
    return f"[{', '.join(str(int(axis[i])) for axis in place)}]"
