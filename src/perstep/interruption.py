"""Signals that wait until it is safe: an agent is whole between two stretches of learning, not within one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM as a list that is empty until one comes; a second one stops at once.

    Only the main thread gets signals, so elsewhere there is nothing to defer.
    """
    received: list[int] = []
    before = _handlers()

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        _handle(before)

    _handle(dict.fromkeys(before, note))
    try:
        yield received
    finally:
        _handle(before)


class _Abandon(BaseException):
    """Leaves what is being done; nobody but `abandoned_at_signals` sees it."""


@contextlib.contextmanager
def abandoned_at_signals(received: list[int]) -> Iterator[None]:
    """Around what changes nothing, and so may end at any moment: with a SIGINT or SIGTERM, which is added to the list."""
    before = _handlers()

    def leave(number: int, frame: FrameType | None) -> None:
        received.append(number)
        _handle(before)
        raise _Abandon

    try:
        _handle(dict.fromkeys(before, leave))
        yield
    except _Abandon:
        pass
    finally:
        _handle(before)


def _handlers() -> dict[signal.Signals, Any]:
    watched = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    return {number: signal.getsignal(number) for number in watched}


def _handle(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
