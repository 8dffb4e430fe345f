"""A policy in any of its forms as a table of probabilities (S, A)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from numbers import Real
from typing import Any, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.distributions.distribution import Floats
from perstep.mdp.solving import Solution

Policy = Union[ArrayLike, Callable[[Any], Any], Mapping[Hashable, Any], "Solution"]
"""Actions (S,), probabilities (S, A), a function from a state to an action or to probabilities (A,), the same as a dictionary, or a
solution. Where states and actions have names, these."""


def policy_probabilities(policy: Policy, num_states: int, num_actions: int, epsilon: float = 0.0) -> Floats:
    """A policy as probabilities (S, A), mixed with the uniform policy: (1 − ε) π + ε/A. Greedy π gives the ε-greedy policy."""
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must be a probability from 0 to 1, got {epsilon}.")
    if isinstance(policy, Solution):
        policy = policy.policy
    if callable(policy):
        choices = [np.asarray(policy(state)) for state in range(num_states)]
        if len({choice.shape for choice in choices}) > 1:
            raise ValueError(
                "A policy function must return an action for every state, or probabilities for every state; got both. "
                "Return one kind."
            )
        given = np.stack(choices)
    else:
        given = np.asarray(policy)
    if given.shape not in ((num_states,), (num_states, num_actions)):
        if callable(getattr(policy, "policy", None)):
            raise TypeError(
                f"A policy must be actions, probabilities or a function, got {policy!r}. Give agent.policy()."
            )
        raise ValueError(
            f"A policy must be actions of shape ({num_states},), probabilities of shape ({num_states}, {num_actions}) or a "
            f"function of the state; got shape {given.shape}. Give one entry for each of the {num_states} states."
        )
    if given.dtype.kind not in "biuf":
        wrong = [entry for entry in given.ravel().tolist() if not isinstance(entry, Real)]
        if wrong:
            raise ValueError(
                f"A policy must consist of numbers, either actions or probabilities, got {wrong[0]!r}. "
                "If it is a function, check what it returns."
            )
        given = given.astype(np.float64)
    table = _one_hot(given, num_actions) if given.ndim == 1 else _normalised_policy(given.astype(np.float64))
    return (1.0 - epsilon) * table + epsilon / num_actions


def _one_hot(actions: NDArray[Any], num_actions: int) -> Floats:
    """Actions (S,) as probabilities. (S, A)"""
    wrong = ~((actions == np.floor(actions)) & (actions >= 0) & (actions < num_actions))
    if wrong.any():
        state = int(wrong.argmax())
        raise ValueError(
            f"The actions of a policy must be integers from 0 to {num_actions - 1}, got {actions[state]} at policy[{state}]. "
            "Number the actions from 0."
        )
    return np.eye(num_actions)[actions.astype(np.int64)]


def _normalised_policy(table: Floats) -> Floats:
    """Probabilities (S, A) with rows that sum to exactly 1. The sums of a float32 policy are off by about 1e-7."""
    total = table.sum(axis=1)
    wrong = ~((table >= 0.0).all(axis=1) & (np.abs(total - 1.0) <= 1e-6))
    if wrong.any():
        state = int(wrong.argmax())
        raise ValueError(
            f"Each row of a policy must hold probabilities, 0 or more, that sum to 1; got policy[{state}] = "
            f"{np.array2string(table[state], threshold=8)} with sum {total[state]:.9g}. Divide each row by its sum."
        )
    return np.asarray(table / total[:, None])
