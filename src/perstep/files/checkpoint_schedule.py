"""When a run saves a checkpoint: often enough to lose little work, rarely enough to spend little time on saving."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

CHECKPOINTS = 20  # of a run, about
MIN_STEPS = 1000  # between two checkpoints
MAX_SECONDS = 300.0  # between two checkpoints of a run with a folder of its own
COST_FACTOR = 50  # saving may take one part in this many of the time: the replay of an Atari agent takes seconds


@final
class CheckpointSchedule:
    """Checkpoints are due at the multiples of `every` steps, and at any step when `max_seconds` have passed.

    None is due before `cost_factor` times the duration of the last one has passed.
    """

    def __init__(self, *, every: int | None, max_seconds: float, cost_factor: float) -> None:
        self._every, self._max_seconds, self._cost_factor = every, max_seconds, cost_factor
        self._last, self._cost = time.monotonic(), 0.0

    @classmethod
    def of_run(cls, steps: int, every: int | None) -> CheckpointSchedule:
        """The schedule of a run of `steps` steps: exactly the multiples of `every`, or if it is None, about 20 checkpoints."""
        if every is not None:
            return cls(every=every, max_seconds=math.inf, cost_factor=0)
        return cls(every=max(-(-steps // CHECKPOINTS), MIN_STEPS), max_seconds=MAX_SECONDS, cost_factor=COST_FACTOR)

    def next_step(self, step: int) -> int | None:
        """The first multiple of `every` after this step; None without `every`."""
        return None if self._every is None else step - step % self._every + self._every

    def is_overdue(self) -> bool:
        """Whether a checkpoint is due at any step."""
        return self._elapsed() >= max(self._max_seconds, self._cost_factor * self._cost)

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint is due at this step."""
        if step == 0:
            return False
        at_multiple = self._every is not None and step % self._every == 0
        return (at_multiple and self._elapsed() >= self._cost_factor * self._cost) or self.is_overdue()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Put around a save, to measure how long it takes."""
        begin = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - begin

    def _elapsed(self) -> float:
        return time.monotonic() - self._last
