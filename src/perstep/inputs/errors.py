"""Errors for names that do not exist: the name, the most similar known name, and the known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MANY = 40  # if there are more known names, they are not listed


class UnknownName(ValueError):
    """A rule, algorithm, world or setting that does not exist."""


def unknown(kind: str, name: object, known: Iterable[str], hint: str = "") -> UnknownName:
    """The error for `name`, with the known names and the most similar one. `hint` is said where no known name is similar."""
    names = sorted(known)
    folded = {known_name.lower(): known_name for known_name in names}
    near = [folded[match] for match in difflib.get_close_matches(str(name).lower(), folded, n=5, cutoff=0.6)]
    meant = f" Did you mean {near[0]!r}?" if near else f" {hint}" if hint else ""
    if len(names) > MANY:
        return UnknownName(
            f"There is no {kind} {name!r}.{meant}" + (f" Similar names: {', '.join(near)}." if near else "")
        )
    return UnknownName(f"There is no {kind} {name!r}.{meant} Known: {', '.join(names)}.")
