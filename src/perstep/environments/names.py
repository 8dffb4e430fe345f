"""The names of states and actions: what a person says instead of a number, in a start, an action or a whole policy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.environments.spaces import Numbering
from perstep.errors import unknown


class Names(NamedTuple):
    """The names of all states and actions of a world; ranges where they have none."""

    states: Sequence[Hashable]
    actions: Sequence[Hashable]
    allowed: NDArray[np.bool_] | None = None  # (S, A), the actions that a state has; None if all have all

    def state(self, given: Any) -> Any:
        """The number of a state that is given by its name; anything else as it is."""
        return _number("state", self.states)(given)

    def action(self, given: Any) -> Any:
        """The number of an action that is given by its name; anything else as it is."""
        return _number("action", self.actions)(given)

    def policy(self, policy: Any) -> Any:
        """A policy that speaks in names as one that speaks in numbers: a function of the name of the state or a dictionary from it,
        or one action for each state. Anything else as it is."""
        if isinstance(policy, Mapping):
            self._check_entries(policy)
            return self._numbered(lambda state: policy[self.states[state]])
        if callable(policy):
            if hasattr(type(getattr(policy, "__self__", None)), "reward_distribution"):  # a method of an agent
                raise TypeError(
                    f"A policy must be actions, probabilities or a function, got the method {policy.__name__}. Give agent.policy()."
                )
            return self._numbered(lambda state: self._asked(policy, state))
        if isinstance(self.actions, range):
            return policy
        listed = policy.tolist() if isinstance(policy, np.ndarray) and policy.dtype.kind in "OU" else policy
        listed = listed.to_list() if hasattr(listed, "to_list") else listed  # a column of a table
        if isinstance(listed, list | tuple) and any(isinstance(choice, str) for choice in listed):
            if len(listed) == len(self.states):
                return self._numbered(lambda state: listed[state])
            raise ValueError(
                f"A policy must have an action for each of the {len(self.states)} states, got {len(listed)} actions."
            )
        return policy

    def _numbered(self, choose: Callable[[int], Any]) -> Callable[[int], Any]:
        """Choices with numbers for names. A named action must be one that the state has."""
        number = _number("action", self.actions)

        def chosen(state: int) -> Any:
            choice = choose(state)
            if choice is None and None not in self.actions:
                raise ValueError(
                    f"A policy must have an action for every state, got None for {self.states[state]!r}. "
                    "If it is a function, check that it returns in all cases."
                )
            found = number(choice)
            if found is not choice and self.allowed is not None and not self.allowed[state, found]:
                has = [self.actions[a] for a in np.flatnonzero(self.allowed[state]).tolist()]
                raise ValueError(
                    f"The policy takes {choice!r} in {self.states[state]!r}, which does not have it. Choose one of {has}."
                )
            return found

        return chosen

    def _asked(self, policy: Callable[[Any], Any], state: int) -> Any:
        try:
            return policy(self.states[state])
        except Exception as error:
            raise ValueError(
                f"The policy raised {type(error).__name__}: {error} for the state {self.states[state]!r}. Check it for that state."
            ) from error

    def _check_entries(self, policy: Mapping[Any, Any]) -> None:
        missing = [state for state in self.states if state not in policy]
        known = set(self.states) if len(policy) + len(missing) > len(self.states) else set()
        extra = [state for state in policy if state not in known] if known else []
        if missing or extra:
            what = [f"none for {len(missing)} of them, such as {missing[0]!r}"] if missing else []
            what += [f"one for {extra[0]!r}, which is no state"] if extra else []
            raise ValueError(
                f"A policy must have an action for each of the {len(self.states)} states, got {', and '.join(what)}. "
                "Correct its entries."
            )


def _number(kind: str, names: Sequence[Hashable]) -> Callable[[Any], Any]:
    """A function from a name to its number. A text must be a name; anything else may be one, or a distribution, or a number."""
    if isinstance(names, range):
        return lambda given: given
    numbering = Numbering.named(names)

    def number(given: Any) -> Any:
        found = numbering.by_name(given)
        if found is None and isinstance(given, str):
            raise unknown(kind, given, map(str, names))
        return given if found is None else found

    return number
