"""When a checkpoint is due, by a clock that only these tests move."""

from __future__ import annotations

import pytest

from perstep.files import checkpoint_schedule
from perstep.files.checkpoint_schedule import COST_FACTOR, CheckpointSchedule


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(checkpoint_schedule, "time", made)
    return made


def save(made: CheckpointSchedule, clock: Clock, seconds: float) -> None:
    with made.saving():
        clock.now += seconds


def test_as_often_as_asked_whatever_it_costs(clock: Clock) -> None:
    made = CheckpointSchedule.of_run(10_000, 300)
    save(made, clock, 1000.0)
    assert [step for step in range(0, 1000, 50) if made.is_due(step)] == [300, 600, 900]
    assert made.next_step(299) == 300
    assert made.next_step(300) == 600
    clock.now += 1e6
    assert not made.is_overdue()


@pytest.mark.parametrize(("steps", "every"), [(1_000_000, 50_000), (5_000, 1000), (21_000, 1050), (30_001, 1501)])
def test_a_twentieth_of_the_run_unless_asked(steps: int, every: int, clock: Clock) -> None:
    made = CheckpointSchedule.of_run(steps, None)
    assert made.next_step(0) == every
    assert made.is_due(every)
    assert not made.is_due(every + 1)
    assert not made.is_due(0)


def test_a_save_that_takes_long_is_put_off_until_it_is_a_fiftieth(clock: Clock) -> None:
    made = CheckpointSchedule.of_run(200_000, None)
    save(made, clock, 3.0)
    clock.now += 149.0
    assert not made.is_due(20_000)
    clock.now += 1.0
    assert made.is_due(20_000)


def test_after_five_minutes_at_any_step(clock: Clock) -> None:
    made = CheckpointSchedule.of_run(10**9, None)
    clock.now += 299.0
    assert not made.is_overdue()
    clock.now += 1.0
    assert made.is_overdue()
    assert made.is_due(12_345)
    save(made, clock, 10.0)  # so that five minutes would be too often
    clock.now += 499.0
    assert not made.is_overdue()
    clock.now += 1.0
    assert made.is_overdue()


def test_a_run_of_a_study_is_saved_by_the_clock_alone(clock: Clock) -> None:
    made = CheckpointSchedule(every=None, max_seconds=60.0, cost_factor=COST_FACTOR)
    assert made.next_step(10) is None
    clock.now += 59.0
    assert not made.is_due(1000)
    clock.now += 1.0
    assert made.is_due(1001)
    assert not made.is_due(0)
    save(made, clock, 2.0)  # so that a minute would be too often
    clock.now += 99.0
    assert not made.is_due(2000)
    clock.now += 1.0
    assert made.is_due(2000)
