"""The empirical model of a table: which states followed each pair (S, A), how often, and what was paid on the way.

The target of a single transition is one draw. The target from the model is the mean of all that was ever seen after a pair, so a
value that is backed up over it has no noise but that of the world itself (Dyna with expected updates; Sutton & Barto, 2018, 8.5).
Memory is for each different transition, not for each step. A pair that no longer fits is left to its single transitions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.budget import claim
from perstep.compiled import compiled, inlined
from perstep.policies import greedy
from perstep.randomness import uniform

NONE = -1  # no entry; as a next state: nothing follows
NOT_MODELLED = -1  # in the place of the number of transitions
MOST_ENTRIES = 512  # entries of a pair: a step takes time for each of them
MOST_REWARDS = 32  # that are told apart between a pair and a next state
FEW_REWARDS = 16  # that are told apart although none of them came twice, as those of a continuous distribution


class Model(NamedTuple):
    """One entry for each different transition; those of a pair form a chain, the newest first."""

    newest: NDArray[np.int32]  # (P,): of each pair, state · A + action: its entry, or NONE
    numbers: NDArray[np.int64]  # (P,): how many transitions began there, or NOT_MODELLED
    paid: NDArray[np.float64]  # (P,): the sum of their rewards
    squares: NDArray[np.float64]  # (P,): the sum of their δ², the distances of single targets from the mean one
    pairs: NDArray[np.int32]  # (C,): of each entry
    followers: NDArray[np.int32]  # (C,): the next state, or NONE after a masked end
    rewards: NDArray[np.float64]  # (C,): the reward, or NaN where several are not told apart
    counts: NDArray[np.int64]  # (C,)
    older: NDArray[np.int32]  # (C,): the next entry of the same pair, or NONE
    size: NDArray[np.int64]  # (1,): entries so far
    gain: NDArray[np.float64]  # (1,): the average reward in the model of the actions that are taken as the best


def new_model(num_states: int, num_actions: int, capacity: int) -> Model:
    """Nothing seen, and room for this many different transitions, or as many as there can be."""
    pairs = num_states * num_actions if capacity else 0
    capacity = min(capacity, pairs * (num_states + 1) * (MOST_REWARDS + 1))
    claim(
        28 * pairs + 28 * capacity,
        f"a model of {capacity:,} transitions",
        "Choose a smaller model_capacity, or 0 for none.",
    )
    return Model(
        np.full(pairs, NONE, np.int32),
        np.zeros(pairs, np.int64),
        np.zeros(pairs),
        np.zeros(pairs),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int32),
        np.zeros(1, np.int64),
        np.zeros(1),
    )


def no_model() -> Model:
    """The model of a learner without one."""
    return new_model(0, 0, 0)


@compiled
def add_entry(model: Any, pair: Any, follower: Any, reward: Any, count: Any) -> None:
    """A transition that is new; the caller knows that there is room."""
    entry = model.size[0]
    model.pairs[entry], model.followers[entry], model.counts[entry] = pair, follower, count
    model.rewards[entry] = reward
    model.older[entry] = model.newest[pair]
    model.newest[pair] = entry
    model.size[0] = entry + 1


@compiled
def witness(model: Any, pair: Any, reward: Any, follower: Any) -> None:
    """Count one transition from a pair."""
    if model.numbers[pair] == NOT_MODELLED:
        return
    entry, of_any_reward, known, alike, repeated = np.int64(model.newest[pair]), np.int64(NONE), 0, 0, False
    while entry != NONE:
        if model.followers[entry] == follower:
            if model.rewards[entry] == reward:
                break
            if math.isnan(model.rewards[entry]):
                of_any_reward = entry
            alike += 1
            repeated = repeated or model.counts[entry] > 1
        entry = np.int64(model.older[entry])
        known += 1
    if entry == NONE:
        entry = of_any_reward
    if entry != NONE:
        model.counts[entry] += 1
    elif known < MOST_ENTRIES and model.size[0] < model.pairs.shape[0]:
        has_room = 2 * known < MOST_ENTRIES and 2 * model.size[0] < model.pairs.shape[0]
        told_apart = alike == 0 or (has_room and alike < (MOST_REWARDS if repeated else FEW_REWARDS))
        add_entry(model, pair, follower, reward if told_apart else math.nan, 1)
    else:
        model.numbers[pair] = NOT_MODELLED
        return
    model.numbers[pair] += 1
    model.paid[pair] += reward


@inlined
def is_modelled(model: Any, pair: Any) -> Any:
    """Whether the model knows all that followed a pair."""
    return model.numbers.shape[0] > 0 and pair != NONE and model.numbers[pair] > 0


@inlined
def any_pair(model: Any, generator: Any) -> Any:
    """The pair of a random entry; NONE without a model."""
    return np.int64(model.pairs[int(uniform(generator) * model.size[0])]) if model.size[0] > 0 else np.int64(NONE)


@compiled
def expected_target(model: Any, scores: Any, pair: Any, discount: Any, nothing: Any, gain: Any) -> Any:
    """The mean of R − gain + γ max Q(S′, ·) over all transitions from a pair; `nothing`: the value after a masked end. And the same
    with the transitions that stay in the state put together, so that a value need not fall or rise by one reward at a time.

    Who stays in a state either repeats the action until it leaves, or does what is best of the others.
    """
    num_actions = scores.shape[1]
    state, action = pair // num_actions, pair % num_actions
    total, staying = 0.0, 0
    entry = model.newest[pair]
    while entry != NONE:
        follower = model.followers[entry]
        if follower == state:
            staying += model.counts[entry]
        else:
            value = nothing if follower == NONE else scores[follower, greedy(scores[follower])]
            total += model.counts[entry] * value
        entry = model.older[entry]
    number = model.numbers[pair]
    gained = model.paid[pair] - number * gain + discount * total  # apart from what comes after staying
    if staying == 0:
        return gained / number, gained / number
    others = -np.inf
    for other in range(num_actions):
        if other != action:
            others = max(others, scores[state, other])
    now = max(others, scores[state, action])
    leaving = number - discount * staying
    if leaving > 0.0:
        settled = max(others, gained / leaving)
    else:  # nobody has ever left by this action
        settled = others if gained < 0.0 and num_actions > 1 else now
    return (gained + discount * staying * now) / number, (gained + discount * staying * settled) / number


@compiled
def expected_urge(model: Any, urges: Any, pair: Any) -> Any:
    """The mean over all transitions from a pair of the largest urge after it."""
    total = 0.0
    entry = model.newest[pair]
    while entry != NONE:
        follower = model.followers[entry]
        if follower != NONE:
            total += model.counts[entry] * urges[follower, greedy(urges[follower])]
        entry = model.older[entry]
    return total / model.numbers[pair]


class SavedModel(NamedTuple):
    """What a file holds of a model: the chains follow from the order of the entries."""

    numbers: NDArray[np.int64]
    paid: NDArray[np.float64]
    squares: NDArray[np.float64]
    pairs: NDArray[np.int32]
    followers: NDArray[np.int32]
    rewards: NDArray[np.float64]
    counts: NDArray[np.int64]
    gain: NDArray[np.float64]


def saved_part(model: Model, size: int) -> SavedModel:
    """Views of the parts that a file holds, with this many entries."""
    entries = model.pairs[:size], model.followers[:size], model.rewards[:size], model.counts[:size]
    return SavedModel(model.numbers, model.paid, model.squares, *entries, model.gain)


def link(model: Model, size: int) -> None:
    """Make the chains of a model whose first `size` entries were read from a file."""
    model.newest[:] = NONE
    model.size[0] = 0
    for entry in range(size):
        add_entry(model, model.pairs[entry], model.followers[entry], model.rewards[entry], model.counts[entry])
