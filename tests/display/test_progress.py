"""Progress where there is no terminal: a line now and then, none for what is short, and none when told not to."""

from __future__ import annotations

import re
import time

import pytest

from perstep.display import progress
from perstep.display.progress import Bar, duration


def wait_for_lines(capsys, number: int) -> list[str]:
    """What is told on stderr, as soon as there is so much of it."""
    told = ""
    while told.count("\n") < number:
        time.sleep(0.005)
        told += capsys.readouterr().err
    return told.splitlines()


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.01)
    with Bar(1000, "redpill", lines=True) as bar:
        first, *_ = wait_for_lines(capsys, 1)
        assert first == "redpill: 0%, 0 steps/s, time left not known yet"
        bar.update(250, "5/20 runs, 1 failed")
        last = wait_for_lines(capsys, 2)[-1]
    assert re.fullmatch(r"redpill: 25%, 5/20 runs, 1 failed, \S+ steps/s, \S+ s left", last)
    time.sleep(0.05)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""  # nothing after the end


def test_what_was_there_before_is_not_counted_as_speed():
    with Bar(1000, "redpill") as bar:
        bar.update(900, found=900)
        assert bar.line() == "redpill: 90%, 0 steps/s, time left not known yet"


@pytest.mark.parametrize("given", [{"lines": True, "show": False}, {"lines": False}])
def test_nothing_is_told_to_those_who_did_not_ask(capsys, monkeypatch, given):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.01)
    with Bar(1000, "redpill", **given):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5.04, "5.0 s"),
        (125, "2 min 5 s"),
        (3599, "59 min 59 s"),
        (12_060, "3 h 21 min"),
        (90_000, "25 h 0 min"),
        (357_000, "4 days 3 h"),
    ],
)
def test_durations_are_said_as_people_do(seconds, text):
    assert duration(seconds) == text
