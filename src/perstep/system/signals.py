"""Signals that ask a process to stop: handled when it is safe, since an agent is consistent only between two learning chunks."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGBREAK")  # those that the system has; SIGBREAK is Windows' Ctrl-Break


@contextlib.contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect stop signals in the list that is yielded, instead of acting on them. A second signal acts at once.

    Only the main thread receives signals. In another thread, the list stays empty.
    """
    received: list[int] = []
    before = _handlers()

    def collect(number: int, frame: FrameType | None) -> None:
        received.append(number)
        _install(before)

    with _asleep():
        _install(dict.fromkeys(before, collect))
        try:
            yield received
        finally:
            _install(before)


@contextlib.contextmanager
def _asleep() -> Iterator[None]:
    """Do not wake an event loop, as that of asyncio, which would call its handler now and again when the signal is delivered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        if before != -1:
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)  # as asyncio set it


class _Abandon(BaseException):
    """Leaves the body of `abandoned_at_signals`, which catches it."""


@contextlib.contextmanager
def abandoned_at_signals(received: list[int]) -> Iterator[None]:
    """Leave the body at once when a stop signal arrives, and append the signal to `received`.

    The body must have no effect that a later run of it could not repeat.
    """
    before = _handlers()

    def leave(number: int, frame: FrameType | None) -> None:
        received.append(number)
        _install(before)
        raise _Abandon

    try:
        _install(dict.fromkeys(before, leave))
        yield
    except _Abandon:
        pass
    finally:
        _install(before)


@contextlib.contextmanager
def restored_handlers() -> Iterator[None]:
    """Restore the handlers of the stop signals at the end, for a body that may replace them."""
    before = _handlers()
    try:
        yield
    finally:
        _install(before)


def raise_again(received: Iterable[int]) -> None:
    """Deliver the signals that `deferred_signals` collected."""
    for number in received:
        signal.raise_signal(number)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C in this process, which its parent will end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def signal_name(number: int) -> str:
    """ "SIGTERM" for 15; "signal 15" if this system has no name for the number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def cause_of_exit(code: int | None) -> str:
    """How a process ended, by its exit code: "by SIGTERM" or "with exit code 1"."""
    if code is None or code >= 0:  # Windows has no signal that ends another process, and so no negative code
        return f"with exit code {code}"
    name = signal_name(-code)
    return f"by {name}" + (", perhaps because memory ran out" if name == "SIGKILL" else "")


def _handlers() -> dict[signal.Signals, Any]:
    """The stop signals of this system with their handlers. Python cannot restore one that it did not install (None)."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    there = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    return {number: handler for number in there if (handler := signal.getsignal(number)) is not None}


def _install(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
