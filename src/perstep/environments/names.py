"""The names of states and actions: what a person says instead of a number, in a start, an action or a whole policy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from perstep.environments.spaces import Numbering


class Names(NamedTuple):
    """The names of all states and actions of a world; ranges where they have none."""

    states: Sequence[Hashable]
    actions: Sequence[Hashable]

    def state(self, given: Any) -> Any:
        """The number of a state that is given by its name; anything else as it is."""
        return _number(self.states)(given)

    def action(self, given: Any) -> Any:
        """The number of an action that is given by its name; anything else as it is."""
        return _number(self.actions)(given)

    def policy(self, policy: Any) -> Any:
        """A policy that speaks in names as one that speaks in numbers: a function of the name of the state or a dictionary from it,
        or a list of actions. Anything else as it is."""
        number = _number(self.actions)
        if isinstance(policy, Mapping):
            missing = [state for state in self.states if state not in policy]
            if missing:
                raise ValueError(
                    f"A policy must have an action for each of the {len(self.states)} states, got none for {len(missing)} of "
                    f"them, such as {missing[0]!r}. Add an entry for each."
                )
            return lambda state: number(policy[self.states[state]])
        if callable(policy):
            return lambda state: number(policy(self.states[state]))
        if isinstance(policy, list | tuple) and any(isinstance(choice, str) for choice in policy):
            return [number(choice) for choice in policy]
        return policy


def _number(names: Sequence[Hashable]) -> Callable[[Any], Any]:
    """A function from a name to its number. A text must be a name; a tuple may be one, or a distribution."""
    if isinstance(names, range):
        return lambda given: given
    numbering = Numbering.named(names)

    def number(given: Any) -> Any:
        if isinstance(given, str):
            return numbering.one(given)
        found = numbering.by_name(given)
        return given if found is None else found

    return number
