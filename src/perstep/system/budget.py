"""Memory is claimed before it is allocated, and a claim that is too large is refused with a sentence.

Settings given in Python may take what is available on the machine. What a file asks for may take as much as the file itself holds,
and `BUDGET` more: a file of a few kilobytes cannot take the whole machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from perstep.system.memory import available_memory

BUDGET = 1_000_000_000  # bytes that an agent from a file may take beyond the size of its file
SMALL = 10_000_000  # bytes that every machine has: asking the system takes as long as making a small agent
UNKNOWN = 2**40  # bytes, where the system does not tell how much memory is available
MANY = 10**18  # bytes from which on the number says nothing more
FEWER_NUMBERS = "Choose smaller settings."


class TooLarge(MemoryError):
    """Memory was claimed that is not available, or that a file is not allowed to take."""


_ALLOWANCE: ContextVar[list[int] | None] = ContextVar("allowance", default=None)


def claim(num_bytes: int, what: str, remedy: str = FEWER_NUMBERS) -> None:
    """Raise TooLarge if `num_bytes` are more than is left. `what` needs them, and `remedy` says what to do about it."""
    allowance = _ALLOWANCE.get()
    if allowance is None:
        if num_bytes <= SMALL:
            return
        free = available_memory()
        if num_bytes > (UNKNOWN if free is None else free):
            there = "" if free is None else f", but {gigabytes(free)} are available"
            raise TooLarge(f"{_capitalized(what)} needs {gigabytes(num_bytes)} of memory{there}. {remedy}")
        return
    if num_bytes > allowance[0]:
        raise TooLarge(
            f"{_capitalized(what)} needs {gigabytes(num_bytes)} of memory, but {gigabytes(max(allowance[0], 0))} of what this file "
            "may take are left. If you trust the file, allow more: perstep.load(path, budget=…), in bytes."
        )
    allowance[0] -= num_bytes


@contextlib.contextmanager
def limited(num_bytes: int) -> Iterator[None]:
    """Let all claims in this context together take at most `num_bytes`."""
    token = _ALLOWANCE.set([num_bytes])
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


def gigabytes(num_bytes: float) -> str:
    """For example "0.73 GB"."""
    return f"{num_bytes / 1e9:,.2f} GB" if num_bytes < MANY else f"over {MANY / 1e9:,.0f} GB"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
