"""When a run saves itself: often enough to lose little, seldom enough to cost little."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from perstep.config import count

CHECKPOINTS = 20  # of a run, about
LEAST_STRETCH = 1000  # steps between two of them
LONGEST = 300.0  # seconds after which one is made whatever the step
SHARE = 50  # of the time at most one part in so many goes into saving: a full replay of Atari takes seconds


@final
class Cadence:
    """The steps at which to save: the multiples of `every`, or those that seem right for a run of `steps` steps."""

    def __init__(self, steps: int, every: int | None) -> None:
        self._asked = every is not None
        self._every = max(-(-steps // CHECKPOINTS), LEAST_STRETCH) if every is None else every
        count("checkpoint_every", self._every, 1)
        self._last, self._cost = time.monotonic(), 0.0

    def next(self, step: int) -> int:
        """The next step at which to ask."""
        return step - step % self._every + self._every

    def late(self) -> bool:
        """Whether to save as soon as possible, at any step."""
        return not self._asked and self._elapsed() >= max(LONGEST, SHARE * self._cost)

    def due(self, step: int) -> bool:
        """Whether to save at this step."""
        if step % self._every == 0 and (self._asked or self._elapsed() >= SHARE * self._cost):
            return step > 0
        return self.late()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around a save, to learn what it takes."""
        begin = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - begin

    def _elapsed(self) -> float:
        return time.monotonic() - self._last
