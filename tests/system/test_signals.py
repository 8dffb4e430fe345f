"""Stop signals, with and without those that only some systems have."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from typing import Any

import pytest

from perstep.system import signals
from perstep.system.signals import (
    abandoned_at_signals,
    cause_of_exit,
    deferred_signals,
    raise_again,
    restored_handlers,
    signal_name,
)


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Signals that arrive at the handlers of the program itself."""
    seen: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, frame: seen.append(number))
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_wait_and_are_raised_again(caught: list[int]) -> None:
    with deferred_signals() as received:
        signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]
        assert caught == []
        signal.raise_signal(signal.SIGINT)  # a second one acts at once
        assert caught == [signal.SIGINT]
    raise_again(received)
    assert caught == [signal.SIGINT, signal.SIGTERM]


def test_a_second_signal_acts_at_once_inside_of_another_wait(caught: list[int]) -> None:
    with deferred_signals() as outer:
        with deferred_signals() as inner:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        assert (len(inner), len(outer), len(caught)) == (1, 0, 1)
        raise_again(inner)
        assert (len(outer), len(caught)) == (1, 1)
        signal.raise_signal(signal.SIGINT)
        assert len(caught) == 2


def test_a_wait_that_does_not_end_is_said(
    monkeypatch: pytest.MonkeyPatch, caught: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "PATIENCE", 0.0)
    with deferred_signals():
        signal.raise_signal(signal.SIGINT)
        said = ""
        while not said:
            said = capfd.readouterr().err
    assert "press Ctrl-C again to stop at once" in said


def test_a_signal_abandons_what_may_be_repeated(caught: list[int]) -> None:
    received: list[int] = []
    reached = False
    with abandoned_at_signals(received):
        signal.raise_signal(signal.SIGTERM)
        reached = True
    assert (received, reached, caught) == ([signal.SIGTERM], False, [])
    signal.raise_signal(signal.SIGTERM)
    assert caught == [signal.SIGTERM]


def test_handlers_that_somebody_replaced_are_restored(caught: list[int]) -> None:
    with restored_handlers():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.raise_signal(signal.SIGTERM)
    assert caught == [signal.SIGTERM]


def test_a_system_without_sigterm(monkeypatch: pytest.MonkeyPatch, caught: list[int]) -> None:
    number = signal.SIGTERM
    monkeypatch.delattr(signal, "SIGTERM")
    with deferred_signals() as received:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(number)
    assert received == [signal.SIGINT]
    assert caught == [number]


def test_ctrl_break_counts_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("There is no signal to stand for it.")
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    with deferred_signals() as received:
        signal.raise_signal(signal.SIGUSR1)
    assert received == [signal.SIGUSR1]


def test_a_handler_that_python_cannot_restore_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[int] = []
    monkeypatch.setattr(signal, "getsignal", lambda number: None)  # installed by a library in C
    monkeypatch.setattr(signal, "signal", lambda number, handler: installed.append(number))
    with deferred_signals() as received:
        assert received == []
    assert installed == []


def test_a_handler_set_in_c_is_there_again(caught: list[int]) -> None:
    if sys.platform == "win32":
        pytest.skip("There is no sigaction.")
    library = ctypes.CDLL(None)
    called: list[int] = []
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(called.append)
    library.signal(int(signal.SIGTERM), handler)  # behind the back of Python
    assert signal.getsignal(signal.SIGTERM) is not None
    with deferred_signals() as received:
        signal.raise_signal(signal.SIGTERM)
        assert (received, called) == ([signal.SIGTERM], [])
        signal.raise_signal(signal.SIGTERM)
        assert called == [signal.SIGTERM]  # a second one acts at once
    raise_again(received)
    with abandoned_at_signals([]), restored_handlers():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.raise_signal(signal.SIGTERM)
    assert called == 3 * [signal.SIGTERM]
    assert caught == []


def test_another_thread_defers_nothing() -> None:
    found: list[Any] = []

    def work() -> None:
        with deferred_signals() as received, abandoned_at_signals(received), restored_handlers():
            found.append(received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[]]


def test_names_and_causes_without_sigkill(monkeypatch: pytest.MonkeyPatch) -> None:
    assert signal_name(signal.SIGTERM) == "SIGTERM"
    assert signal_name(250) == "signal 250"
    assert cause_of_exit(3) == "with exit code 3"
    assert cause_of_exit(None) == "with exit code None"
    assert cause_of_exit(-int(signal.SIGTERM)) == "by SIGTERM"
    if hasattr(signal, "SIGKILL"):
        assert cause_of_exit(-9) == "by SIGKILL, perhaps because memory ran out"
        monkeypatch.delattr(signal, "SIGKILL")
        assert cause_of_exit(-9).startswith("by SIGKILL")
    assert cause_of_exit(-250) == "by signal 250"
