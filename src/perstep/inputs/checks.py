"""Checks of one setting: the value as the settings keep it, or a sentence about what was expected."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Iterable, Iterator

from perstep.inputs.errors import unknown
from perstep.numerics.schedules import is_finite

LONGEST_SHOWN = 200  # characters of a value in an error
LONGEST_HORIZON = (
    1e9  # steps: a return over more of them has no distribution that can be told from one without a horizon
)


def shown(value: object) -> str:
    """A value as an error shows it: an integer of thousands of digits has no text in Python, and a long one hides the sentence."""
    try:
        text = repr(value)
    except ValueError:
        return "an integer of thousands of digits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text):,} characters)"


def number(name: str, value: object, low: float, high: float = math.inf, *, above: bool = False) -> float:
    """`value` as a float, refused unless it is a finite number from `low` (or above it) to `high`."""
    if is_finite(value) and (low < value if above else low <= value) and value <= high:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    least = f"above {low:g}" if above else f"{low:g} or more"
    most = f"above {low:g} and at most {high:g}" if above else f"between {low:g} and {high:g}"
    span = least if high == math.inf else most
    raise ValueError(f"{name} must be a finite number {span}, got {shown(value)}.")


def count(name: str, value: object, least: int, most: int | None = None) -> int:
    """`value` as an int, refused unless it is a whole number from `least`, and to `most` if given."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(value)}.")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be a whole number from {least} to {most:,}, got {shown(value)}.")
    return int(value)


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """A number of steps, also as 1e6."""
    return count(name, int(value) if isinstance(value, float) and value.is_integer() else value, least, most)


def choice(name: str, value: object, known: Iterable[str]) -> None:
    """Refuse `value` unless it is one of the known names."""
    if not isinstance(value, str) or value not in known:
        raise unknown(name, value, known)


@contextlib.contextmanager
def naming(setting: str) -> Iterator[None]:
    """Let an error about a value say which setting gave it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from error


def switch(name: str, value: object) -> None:
    """Refuse `value` unless it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {shown(value)}.")
