"""Signals that wait until it is safe: an agent is whole between two stretches of learning, not within one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM as a list that is empty until one comes; a second one stops at once.

    Only the main thread gets signals, so elsewhere there is nothing to defer.
    """
    received: list[int] = []
    watched = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in watched}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for each in watched:
            signal.signal(each, before[each])

    for number in watched:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number in watched:
            signal.signal(number, before[number])
