"""Finite MDPs from what people have: one matrix for each action, or a Python function that gives the outcomes of an action."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.display.progress import Bar
from perstep.distributions.distribution import Floats
from perstep.inputs.checks import count
from perstep.mdp.outcomes import OUTCOME_BYTES, PROBABILITY_TOLERANCE, Outcomes, numbers, pack
from perstep.system.budget import claim

MOST_STATES = 10_000_000  # a model with more does not fit into the memory of most machines
UNBOUNDED = "Bound what can grow, such as the length of a queue."

State = Hashable
Action = Hashable
Actions = Sequence[Action] | Callable[[Any], Iterable[Action]]
OutcomesOf = Callable[[Any, Any], Iterable[tuple[float, State, float]]]


class Model(NamedTuple):
    """A finite MDP with names."""

    outcomes: Outcomes
    allowed: NDArray[np.bool_]  # (S, A); an action that is not allowed does what the first allowed one does
    initial: Floats | None  # (S,)
    states: Sequence[State] | None
    actions: Sequence[Action] | None


# Matrices


def from_matrices(transitions: Sequence[Any] | ArrayLike, rewards: Any) -> Model:
    """From A matrices (S, S), sparse or dense. A row of zeros says that the action is not allowed in that state.

    `rewards` has shape (S,) or (S, A), or is given like the transitions, for each next state.
    """
    if not isinstance(transitions, Iterable):
        raise TypeError(
            f"from_matrices needs one matrix (states, states) for each action, got {type(transitions).__name__}."
        )
    matrices = [_sparse(matrix, f"transitions[{a}]") for a, matrix in enumerate(transitions)]
    if not matrices:
        raise ValueError("from_matrices needs one matrix (states, states) for each action, got an empty list.")
    num_states, num_actions = matrices[0].shape[0], len(matrices)
    for a, matrix in enumerate(matrices):
        if matrix.shape != (num_states, num_states) or num_states == 0:
            raise ValueError(
                "from_matrices needs one square matrix for each action, all of the same size, got shape "
                f"{matrix.shape} for action {a}" + (f" and {matrices[0].shape} for action 0." if a else ".")
                + " An array must have the shape (actions, states, states); FiniteMDP itself takes (states, actions, states)."
            )  # fmt: skip
    entries = [matrix.tocoo() for matrix in matrices]
    state = np.concatenate([entry.row for entry in entries]).astype(np.int64)
    successor = np.concatenate([entry.col for entry in entries]).astype(np.int64)
    action = np.repeat(np.arange(num_actions), [entry.nnz for entry in entries])
    chance = np.concatenate([entry.data for entry in entries])
    reward = _rewards_of(rewards, matrices, state, action, successor)
    kept = chance != 0.0
    return _model(num_states, num_actions, state[kept], action[kept], successor[kept], reward[kept], chance[kept])


def _sparse(matrix: Any, name: str) -> Any:
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        matrix = numbers(matrix, name)
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be a matrix (states, states), got shape {matrix.shape}.")
    return csr_array(matrix, dtype=np.float64)


def _rewards_of(
    rewards: Any, matrices: list[Any], state: NDArray[np.int64], action: NDArray[Any], successor: NDArray[np.int64]
) -> Floats:
    """The reward of each entry of the matrices."""
    from scipy.sparse import issparse

    num_states, num_actions = matrices[0].shape[0], len(matrices)
    per_matrix = isinstance(rewards, Sequence) and len(rewards) == num_actions and all(map(issparse, rewards))
    if not per_matrix:
        table = numbers(rewards, "rewards")
        if table.shape == (num_states,):
            return np.asarray(table[state])
        if table.shape == (num_states, num_actions):
            return np.asarray(table[state, action])
        if table.shape == (num_actions, num_states, num_states):
            return np.asarray(table[action, state, successor])
        raise ValueError(
            f"rewards must have shape (states,), here ({num_states},), (states, actions), here {(num_states, num_actions)}, or be "
            f"given like the transitions, one matrix for each action; got shape {table.shape}."
        )
    found = np.empty(state.size)
    for a, matrix in enumerate(rewards):
        mine = action == a
        found[mine] = np.asarray(_sparse(matrix, f"rewards[{a}]")[state[mine], successor[mine]]).ravel()
    return found


# A function


def from_function(
    start: State | Mapping[Any, float], actions: Actions, outcomes: OutcomesOf, max_states: int, progress: bool | None
) -> Model:
    """Enumerate the states that can be reached from `start`, in the order in which they are found."""
    count("max_states", max_states, 1)
    if not isinstance(start, Mapping | Hashable) or (isinstance(start, Mapping) and not start):
        raise TypeError(
            f"start must be a state, which can be a key of a dict, or a dict from states to probabilities, got {start!r}."
        )
    listed = isinstance(actions, Iterable) and not isinstance(actions, str | bytes)
    if not callable(actions) and not (listed and len(list(actions))):
        raise TypeError(
            f"actions must be a list of actions, or a function from a state to its actions, got {actions!r}."
        )
    first = dict(start) if isinstance(start, Mapping) else {start: 1.0}
    found: dict[State, int] = {state: i for i, state in enumerate(first)}
    names: dict[Action, int] = {}
    places = array("q")  # state, action and next state of each outcome, one after the other
    amounts = array("d")  # its reward and its probability
    queue = list(found)
    with Bar(max_states, "finding states", show=progress, unit="states") as bar:
        for number, state in enumerate(queue):  # the list grows while it is read
            if number % 1000 == 0:
                bar.update(number, f"{len(queue)} found")
                claim(
                    OUTCOME_BYTES * (len(amounts) // 2),
                    f"the model, of which {len(queue):,} states are found, the last one {queue[-1]!r},",
                    UNBOUNDED,
                )
            for action in _actions_of(actions, state):
                a = names.setdefault(action, len(names))
                for chance, successor, reward in _outcomes_of(outcomes, state, action):
                    to = found.get(successor)
                    if to is None:
                        if len(found) >= max_states:
                            raise ValueError(
                                f"The model has more than max_states = {max_states:,} states; the last one found is {successor!r}. "
                                f"{UNBOUNDED[:-1]}, or give a larger max_states."
                            )
                        to = found[successor] = len(queue)
                        queue.append(successor)
                    places.extend((number, a, to))
                    amounts.extend((reward, chance))
    state_of, action_of, successor_of = np.asarray(places).reshape(-1, 3).T
    reward_of, chance_of = np.asarray(amounts).reshape(-1, 2).T
    initial = np.zeros(len(found))
    initial[: len(first)] = list(first.values())
    states = tuple(queue)
    built = _model(
        len(states), len(names), state_of, action_of, successor_of, reward_of, chance_of, states, tuple(names)
    )
    return built._replace(initial=initial)


def _actions_of(actions: Actions, state: State) -> list[Action]:
    if not callable(actions):
        return list(actions)
    try:
        given = actions(state)
        chosen = list(given)
    except Exception as error:
        raise ValueError(
            f"actions({state!r}) raised {type(error).__name__}: {error}. Check it for that state."
        ) from error
    if isinstance(given, str | bytes):
        raise ValueError(f"actions({state!r}) must be a list of actions, got the text {given!r}. Give [{given!r}].")
    if not chosen:
        raise ValueError(
            f"Every state needs at least one action, got none from actions({state!r}). Give an action that waits."
        )
    return chosen


def _outcomes_of(outcomes: OutcomesOf, state: State, action: Action) -> list[tuple[float, State, float]]:
    where = f"outcomes({state!r}, {action!r})"
    try:
        listed = [(float(chance), successor, float(reward)) for chance, successor, reward in outcomes(state, action)]
        hash(tuple(successor for _, successor, _ in listed))
    except Exception as error:
        raise ValueError(
            f"{where} must return a list of (probability, next state, reward), with states that can be keys of a dict; it raised "
            f"{type(error).__name__}: {error}. Check it for that state and action."
        ) from error
    return [outcome for outcome in listed if outcome[0] != 0.0]


# Both


def _model(
    num_states: int,
    num_actions: int,
    state: NDArray[np.int64],
    action: NDArray[Any],
    successor: NDArray[np.int64],
    reward: Floats,
    chance: Floats,
    states: tuple[State, ...] | None = None,
    actions: tuple[Action, ...] | None = None,
) -> Model:
    """The model with these outcomes, checked."""

    def named(s: int, a: int) -> str:
        return (
            f"state {s if states is None else repr(states[s])} with action {a if actions is None else repr(actions[a])}"
        )

    def refuse(wrong: NDArray[np.bool_], what: str, value: Floats) -> None:
        if wrong.any():
            i = int(wrong.argmax())
            raise ValueError(
                f"{what}, got {value[i]:g} in {named(int(state[i]), int(action[i]))}. Correct that outcome."
            )

    refuse(~(np.isfinite(chance) & (chance >= 0.0)), "Probabilities must be finite and 0 or more", chance)
    refuse(~np.isfinite(reward), "Rewards must be finite", reward)
    pair = state * num_actions + action
    total = np.bincount(pair, weights=chance, minlength=num_states * num_actions).reshape(num_states, num_actions)
    allowed = np.bincount(pair, minlength=num_states * num_actions).reshape(num_states, num_actions) > 0
    off = np.where(allowed, np.abs(total - 1.0), 0.0)
    if off.max() > PROBABILITY_TOLERANCE:
        s, a = (int(i) for i in np.unravel_index(off.argmax(), off.shape))
        raise ValueError(
            f"The probabilities of every state and action must sum to 1, got {total[s, a]:.12g} in {named(s, a)}. "
            f"{'Add the missing outcome' if total[s, a] < 1.0 else 'See if an outcome or an action is given twice'}, or divide "
            "the probabilities by their sum."
        )
    if not allowed.any(axis=0).all():
        a = int((~allowed.any(axis=0)).argmax())
        raise ValueError(
            f"Action {a if actions is None else repr(actions[a])} is not allowed in any state: it has no outcome anywhere (in a "
            "matrix, all its rows are 0). Leave it out."
        )
    if not allowed.any(axis=1).all():
        s = int((~allowed.any(axis=1)).argmax())
        raise ValueError(
            f"Every state needs at least one action, got none for state {s if states is None else repr(states[s])}."
        )
    chance = chance / total.ravel()[pair]
    if not allowed.all():
        pair, which = _with_actions_not_allowed(pair, allowed)
        successor, reward, chance = successor[which], reward[which], chance[which]
    outcomes = pack(num_states, num_actions, pair, successor, reward, np.zeros(reward.size), chance, math.inf)
    return Model(outcomes, allowed, None, states, actions)


def _with_actions_not_allowed(
    pair: NDArray[np.int64], allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A learner chooses among A actions in every state. One that is not allowed does what the first allowed one does: the pairs
    with these, and the outcome that each of them has."""
    num_actions = allowed.shape[1]
    missing_state, missing_action = np.nonzero(~allowed)
    source = missing_state * num_actions + allowed.argmax(axis=1)[missing_state]
    order = np.argsort(pair, kind="stable")
    begin, end = (np.searchsorted(pair[order], source, side=side) for side in ("left", "right"))
    lengths = end - begin
    offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    copied = order[np.repeat(begin, lengths) + offset]
    added = np.repeat(missing_state * num_actions + missing_action, lengths)
    return np.concatenate([pair, added]), np.concatenate([np.arange(pair.size), copied])
