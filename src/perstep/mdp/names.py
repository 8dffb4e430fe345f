"""The names of states and actions: what a person says instead of a number, in a start, an action or a whole policy.

Names of any type are names. A number is the number of a state or an action only where no name is a number, or is written like one.
A table that was written to a file and read again may have changed the type of a name: 2 has become "2" or 2.0, and True "true". So
a text or a number is also a name if it is written like exactly one name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from perstep.inputs.errors import unknown

AMBIGUOUS = -1
MANY = 20  # if there are more names, only the first are listed


class ActionNumbers(np.ndarray[Any, Any]):
    """The actions of a policy (S,) by their numbers, in a world that names its actions by other numbers: what `solve` returns."""


@final
@dataclass(frozen=True, eq=False)
class NameTable:
    """The names of all states, or of all actions, and their numbers."""

    kind: str
    """What is named: "state" or "action"."""
    names: Sequence[Hashable]
    """The names, in order; a range where there are none."""

    @property
    def given(self) -> bool:
        """Whether there are names at all."""
        return not isinstance(self.names, range)

    @cached_property
    def numbers_are_names(self) -> bool:
        """Whether a number can only be meant as a name, since some name is a number or is written like one."""
        return self.given and any(_is_number(name) for name in self.names)

    @property
    def renumbered(self) -> bool:
        """Whether some number is the name of another state or action than the one that has this number."""
        return self.numbers_are_names and list(self.names) != list(range(len(self.names)))

    @cached_property
    def _exact(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _written(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, name in enumerate(self.names):
            for text in {_text(name), _with_type(name)}:
                found[text] = AMBIGUOUS if text in found else number
        return found

    def find(self, given: Any) -> int | None:
        """The number of a name; None if it is none."""
        if not self.given:
            return None
        if isinstance(given, np.ndarray) and given.ndim == 0:
            given = given.item()
        try:
            number = self._exact.get(given)
        except TypeError:  # a list or an array, which is no name
            return None
        if number is not None or not _plain(given):
            return number
        number = self._written.get(_text(given), self._written.get(given) if isinstance(given, str) else None)
        if number == AMBIGUOUS:
            alike = [name for name in self.names if _text(name) == _text(given)]
            raise ValueError(
                f"{given!r} may be any of the {self.kind}s {', '.join(map(repr, alike))}, which are written alike. Give the name "
                "itself, or choose other names."
            )
        return number

    def meant_by(self, given: Any) -> bool:
        """Whether this is meant as a name: a name, any text, and where numbers are names, any number."""
        text = isinstance(given, str) or (self.numbers_are_names and isinstance(given, Real | np.bool_))
        return self.given and (text or self.find(given) is not None)

    def batch(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The names with these numbers, as an array."""
        named = [self.names[number] for number in numbers.tolist()]
        if len(kinds := {type(name) for name in named}) == 1 and kinds <= {int, float, bool, str}:
            return np.array(named)
        return np.fromiter(named, object, len(named))

    def column(self, numbers: NDArray[np.int64]) -> list[Any]:
        """The names with these numbers as a column of a table; as texts, where a column cannot hold all names."""
        shown = column(self.names)
        return [shown[number] for number in numbers.tolist()]

    def number(self, given: Any) -> Any:
        """The number of a name. Anything else as it is: a distribution, or where numbers are no names, a number."""
        found = self.find(given)
        if found is not None:
            return found
        if self.given and isinstance(given, str):
            raise unknown(self.kind, given, map(str, self.names))
        if self.numbers_are_names and isinstance(given, Real | np.bool_):
            listed = ", ".join(map(repr, self.names[:MANY])) + (", …" if len(self.names) > MANY else "")
            raise ValueError(
                f"There is no {self.kind} {given!r}: in this world numbers are names of {self.kind}s, which are {listed}. Give one "
                "of them."
            )
        return given


@final
@dataclass(frozen=True, eq=False)
class Names:
    """The names of all states and actions of a world; ranges where they have none."""

    states: Sequence[Hashable]
    actions: Sequence[Hashable]
    allowed: NDArray[np.bool_] | None = None
    """(S, A), the actions that a state has; None if all have all."""

    @cached_property
    def of_states(self) -> NameTable:
        """The names of the states."""
        return NameTable("state", self.states)

    @cached_property
    def of_actions(self) -> NameTable:
        """The names of the actions."""
        return NameTable("action", self.actions)

    def state(self, given: Any) -> Any:
        """The number of a state that is given by its name; anything else as it is."""
        return self.of_states.number(given)

    def action(self, given: Any) -> Any:
        """The number of an action that is given by its name; anything else as it is."""
        return self.of_actions.number(given)

    def marked(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of actions, marked as such where they could be taken for names."""
        return numbers.view(ActionNumbers) if self.of_actions.renumbered else numbers

    def policy(self, policy: Any) -> Any:
        """A policy that speaks in names as one that speaks in numbers: a function of the name of the state or a dictionary from it,
        one action for each state, or a table of `FiniteMDP.policy_frame`. Anything else as it is."""
        if isinstance(policy, ActionNumbers):
            return np.asarray(policy)
        if isinstance(policy, Mapping):
            self._check_entries(policy)
            return self._numbered(lambda state: policy[self.states[state]])
        if hasattr(policy, "columns"):
            policy = self._of_table(policy)
        if callable(policy):
            if hasattr(type(getattr(policy, "__self__", None)), "reward_distribution"):  # a method of an agent
                raise TypeError(
                    f"A policy must be actions, probabilities or a function, got the method {policy.__name__}. Give agent.policy()."
                )
            return self._numbered(lambda state: self._asked(policy, state))
        listed = _listed(policy) if self.of_actions.given else None
        if listed is None or not any(map(self.of_actions.meant_by, listed)):
            return policy
        if len(listed) != len(self.states):
            raise ValueError(
                f"A policy must have an action for each of the {len(self.states)} states, got {len(listed)} actions."
            )
        return self._numbered(lambda state: listed[state])

    def _numbered(self, choose: Callable[[int], Any]) -> Callable[[int], Any]:
        """Choices with numbers for names. A named action must be one that the state has."""

        def chosen(state: int) -> Any:
            choice = choose(state)
            if choice is None and None not in self.actions:
                raise ValueError(
                    f"A policy must have an action for every state, got None for {self.states[state]!r}. "
                    "If it is a function, check that it returns in all cases."
                )
            found = self.of_actions.find(choice)
            if found is None:
                return self.action(choice)
            if self.allowed is not None and not self.allowed[state, found]:
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

    def _of_table(self, table: Any) -> list[Any]:
        """The actions of a table, whose rows may be in any order, in the order of the states."""
        columns = state_columns(self.states)
        if missing := [name for name in (*columns, "action") if name not in table.columns]:
            raise ValueError(
                f"A policy that is a table must have the columns {', '.join(columns)} and action, as policy_frame writes them; "
                f"missing: {', '.join(missing)}."
            )
        rows = list(zip(*(map(_text, table[name].to_list()) for name in columns), strict=True))
        place = {row: number for number, row in enumerate(rows)}
        wanted = list(zip(*(map(_text, entries) for entries in columns.values()), strict=True))
        if len(rows) != len(wanted) or set(place) != set(wanted):
            raise ValueError(
                f"A policy that is a table must have one row for each of the {len(wanted)} states, got {len(rows)} rows with "
                f"{len(set(wanted) & set(place))} of these states. Write it with policy_frame."
            )
        actions = table["action"].to_list()
        return [actions[place[row]] for row in wanted]


def state_columns(states: Sequence[Hashable]) -> dict[str, list[Any]]:
    """The names of states as columns of a table: one for each entry, where they are tuples."""
    first = states[0]
    if not isinstance(first, tuple) or any(type(state) is not type(first) for state in states):
        return {"state": column(states)}
    fields = getattr(first, "_fields", [f"state_{i}" for i in range(len(first))])
    if not first or any(len(state) != len(first) for state in states if isinstance(state, tuple)):
        return {"state": column(states)}
    columns = ("state_action" if field == "action" else field for field in fields)  # "action" is that of the policy
    return {name: column(entries) for name, entries in zip(columns, zip(*states, strict=True), strict=True)}


def column(entries: Iterable[Any]) -> list[Any]:
    """Numbers and text as they are, anything else as text: a file has no tuples."""
    listed = list(entries)
    kinds = {type(entry) for entry in listed}
    return listed if len(kinds) == 1 and kinds <= {int, float, bool, str} else labels(listed)


def labels(names: Iterable[Any]) -> list[str]:
    """Names as texts; with their types, where two are the same text, such as 1 and "1"."""
    listed = list(names)
    alike = len({str(name) for name in listed}) < len(set(listed))
    return [_with_type(name) if alike else str(name) for name in listed]


def _listed(policy: Any) -> list[Any] | None:
    """The entries of a list, of an array with one axis or of a column of a table; None for anything else."""
    if isinstance(policy, np.ndarray):
        return policy.tolist() if policy.ndim == 1 else None
    if hasattr(policy, "to_list"):
        policy = policy.to_list()
    return list(policy) if isinstance(policy, list | tuple) else None


def _plain(name: Any) -> bool:
    """Whether a file can have changed the type of this: texts and numbers."""
    return isinstance(name, str | Real | np.bool_)


def _with_type(name: Any) -> str:
    return f"{name} ({type(name).__name__})"


def _is_number(name: Any) -> bool:
    """Whether a name is a number, or a text that would be read as one."""
    return _plain(name) and (not isinstance(name, str) or _read(name) is not None)


def _read(text: str) -> Real | bool | None:
    """The number or the truth value that a text is read as; None for any other text."""
    if (word := text.strip().lower()) in ("true", "false"):
        return word == "true"
    kinds: tuple[Any, ...] = (int, float)
    for kind in kinds:
        with contextlib.suppress(ValueError):
            return kind(text)  # type: ignore[no-any-return]
    return None


def _text(name: Any) -> str:
    """How a text or a number is written, whatever its type: "2" for 2, 2.0 and "2.0", and "true" for True."""
    if isinstance(name, str):
        number = _read(name)
        return name if number is None else _text(number)
    if isinstance(name, bool | np.bool_):
        return str(name).lower()
    if isinstance(name, Real) and not isinstance(name, int):
        return str(int(float(name))) if float(name).is_integer() else repr(float(name))
    return str(name)
