"""Signals that ask a process to stop: handled when it is safe, since an agent is consistent only between two learning chunks."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGBREAK")  # those that the system has; SIGBREAK is Windows' Ctrl-Break
PATIENCE = 3.0  # seconds from a signal to the line that says what it waits for
WAITING = "perstep: stopping when the step that has begun is done; press Ctrl-C again to stop at once\n"
LARGEST_ACTION = 1024  # bytes: more than the structure of a signal's action has on any system


@contextlib.contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Collect stop signals in the list that is yielded, instead of acting on them. A second signal acts at once, also where this is
    inside of another one.

    If the body does not end soon after a signal, a line on stderr says so. Only the main thread receives signals. In another
    thread, the list stays empty.
    """
    received: list[int] = []
    before = _handlers()
    acting = {number: getattr(there.python, "acting", there) for number, there in before.items()}
    ended = threading.Event()

    def collect(number: int, frame: FrameType | None) -> None:
        received.append(number)
        _install(acting)
        threading.Thread(target=_say_unless, args=(ended,), daemon=True).start()

    with _asleep():
        _install({number: _Handler(_Collector(collect, acting[number])) for number in before})
        try:
            yield received
        finally:
            ended.set()
            _install(before)


def _say_unless(ended: threading.Event) -> None:
    """Say that a signal has arrived, unless the work that it waits for ends soon: that may hang."""
    if not ended.wait(PATIENCE):
        with contextlib.suppress(OSError):
            os.write(2, WAITING.encode())


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


@dataclass(frozen=True)
class _Collector:
    """Collects a signal, and knows the handler that would act on it."""

    collect: Callable[[int, FrameType | None], None]
    acting: _Handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.collect(number, frame)


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
        _install(dict.fromkeys(before, _Handler(leave)))
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


@dataclass(frozen=True)
class _Handler:
    """The handler of a signal: Python's, and the action that the system itself has, where it can be read."""

    python: Any
    system: Any = None


def _handlers() -> dict[signal.Signals, _Handler]:
    """The stop signals of this system with their handlers. Python cannot restore one that was there before it (None)."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    there = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    return {
        number: _Handler(handler, _system_action(number))
        for number in there
        if (handler := signal.getsignal(number)) is not None
    }


def _install(handlers: dict[signal.Signals, _Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler.python)
        if handler.system is not None:  # a library in C may have installed its own, of which Python does not know
            _sigaction()(number, handler.system, None)


def _system_action(number: int) -> Any:
    """The action of a signal, as bytes that only `sigaction` understands; None where it cannot be read, as on Windows."""
    action = ctypes.create_string_buffer(LARGEST_ACTION)
    call = _sigaction()
    return action if call is not None and call(number, None, action) == 0 else None


@functools.cache
def _sigaction() -> Any:
    """The call of the C library; None if there is none."""
    try:
        return ctypes.CDLL(None).sigaction
    except (AttributeError, OSError, TypeError):  # Windows has no CDLL(None)
        return None
