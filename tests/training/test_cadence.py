"""When a run saves itself, by a clock that only these tests move."""

from __future__ import annotations

import pytest

from perstep.training import cadence
from perstep.training.cadence import Cadence


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(cadence, "time", made)
    return made


def save(made: Cadence, clock: Clock, seconds: float) -> None:
    with made.saving():
        clock.now += seconds


def test_as_often_as_asked_whatever_it_costs(clock: Clock) -> None:
    made = Cadence(10_000, 300)
    save(made, clock, 1000.0)
    assert [step for step in range(0, 1000, 50) if made.due(step)] == [300, 600, 900]
    assert made.next(299) == 300
    assert made.next(300) == 600
    clock.now += 1e6
    assert not made.late()


@pytest.mark.parametrize(("steps", "every"), [(1_000_000, 50_000), (5_000, 1000), (21_000, 1050), (30_001, 1501)])
def test_a_twentieth_of_the_run_unless_asked(steps: int, every: int, clock: Clock) -> None:
    made = Cadence(steps, None)
    assert made.next(0) == every
    assert made.due(every)
    assert not made.due(every + 1)
    assert not made.due(0)


def test_a_save_that_takes_long_is_put_off_until_it_is_a_fiftieth(clock: Clock) -> None:
    made = Cadence(200_000, None)
    save(made, clock, 3.0)
    clock.now += 149.0
    assert not made.due(20_000)
    clock.now += 1.0
    assert made.due(20_000)


def test_after_five_minutes_at_any_step(clock: Clock) -> None:
    made = Cadence(10**9, None)
    clock.now += 299.0
    assert not made.late()
    clock.now += 1.0
    assert made.late()
    assert made.due(12_345)
    save(made, clock, 10.0)  # so that five minutes would be too often
    clock.now += 499.0
    assert not made.late()
    clock.now += 1.0
    assert made.late()


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="checkpoint_every must be a whole number of at least 1"):
        Cadence(100, 0)
