"""A life: what an agent has met so far, whatever its learner. It knows no world, no learner and no file.

It counts steps and rewards in three ways: a record of windows over the whole life, a sketch of recent rewards (their distribution),
and sums of consecutive rewards (forecasts).
"""

from __future__ import annotations

import math
from typing import Any

from perstep.agent.arrays import check_cursor, check_sketch, fill, fill_sketch, flatten
from perstep.agent.checks import Trace
from perstep.agent.evaluation import Evaluation, Snapshot
from perstep.distributions.block_sums import BlockSums, expected_sum, new_block_sums, no_block_sums
from perstep.distributions.distribution import Distribution
from perstep.distributions.forecast import Forecast
from perstep.distributions.history import new_record
from perstep.distributions.recent import recent_distribution
from perstep.distributions.sketch import BLOCKS, UNBOUNDED, Sketch, kept, new_sketch, no_sketch
from perstep.files import storage
from perstep.inputs.checks import count
from perstep.numerics.scale import LONGEST_MEMORY

LONGEST = 2**62  # the largest number of steps of an agent: compiled clocks have 64 bits
LEAST_EXPERIENCE = 1_000  # steps before a forecast


class Life:
    """Steps and rewards of one agent."""

    def __init__(self, theta_size: int, *, changing: bool, forecasts: bool) -> None:
        self.theta_size, self.changing, self.forecasts = theta_size, changing, forecasts
        self.steps = 0
        self.snapshots: list[Snapshot] = []
        self.trace = Trace()
        self.without_exploring: tuple[int, Evaluation] | None = None
        """The last evaluation of the policy without exploration, and the steps that the agent had then. It is not saved."""
        self.record = new_record(theta_size, sketch=self._new_sketch(), block_sums=self._new_block_sums())
        self._grown_at = 0
        self._read: tuple[tuple[int, ...], Distribution | None] | None = None  # what was read last, and when

    def has_grown(self) -> bool:
        """Whether at least a block of steps has come since this was last asked: less says nothing new of what was earned, and would
        make many short calls of learn slow."""
        if (self.steps - self._grown_at) * BLOCKS < self.steps:
            return False
        self._grown_at = self.steps
        return True

    def record_every(self, window: int, rows: int, sketch: bool) -> None:
        """Begin a record with windows of exactly `window` steps, in `rows` rows; without a sketch of the rewards if so told."""
        count("window", window, 1, LONGEST)
        if count("rows", rows, 2) % 2:
            raise ValueError(
                f"rows must be an even number of at least 2, since rows are merged in pairs, got {rows!r}."
            )
        if self.steps:
            raise ValueError(f"The history began {self.steps:,} steps ago. Call record_every before the first learn.")
        counted, self._read = self._new_sketch() if sketch else no_sketch(), None
        self.record = new_record(self.theta_size, window, rows, counted, self._new_block_sums())

    @property
    def recent_reward(self) -> float:
        """The mean of the recent rewards; NaN before the first step."""
        found = self.reward_distribution
        return math.nan if found is None else found.mean

    @property
    def reward_distribution(self) -> Distribution | None:
        """The recent rewards as they were counted; None if none were."""
        now = tuple(map(int, self.record.cursor))
        if self._read is None or self._read[0] != now:
            self._read = now, recent_distribution(self.record.sketch)
        return self._read[1]

    def forecast(self, num_steps: int) -> Forecast:
        """The distribution of the sum of the next rewards, from the sums of those before."""
        if self.steps < LEAST_EXPERIENCE:
            raise ValueError(
                f"There is too little to forecast from: {self.steps:,} steps, of at least {LEAST_EXPERIENCE:,}. Call learn first."
            )
        mean, variance, mean_error = expected_sum(self.record.block_sums, num_steps)
        if not all(map(math.isfinite, (mean, variance, mean_error))):
            raise ValueError(
                "What a forecast needs is NaN or infinite here: it learns from squares of rewards. Use smaller rewards."
            )
        return Forecast(num_steps, mean, variance, mean_error)

    def arrays(self) -> storage.Arrays:
        """All of it for a file, by name."""
        sums = flatten("block_sums", self.record.block_sums) if self._has_sums else {}
        return {**flatten("record", self.record), **flatten("sketch", kept(self.record.sketch)), **sums}

    def check(self) -> None:
        """Refuse what no life can hold, before it is written."""
        check_sketch(self.record.sketch)

    def restore(self, arrays: storage.Arrays, steps: Any) -> None:
        """Become the life that was saved."""
        sketch = self._new_sketch() if arrays["sketch.cursor"].size else no_sketch()
        if sketch.cursor.size:
            fill_sketch(sketch, arrays)
        else:
            fill("sketch", kept(sketch), arrays)
        self._read = None
        rows = len(arrays["record.reward_rate"])
        self.record = new_record(self.theta_size, rows=rows, sketch=sketch, block_sums=self._new_block_sums())
        fill("record", self.record, arrays)
        if self._has_sums:
            fill("block_sums", self.record.block_sums, arrays)
        check_cursor(self.record)
        self.steps = count("steps", steps, 0, LONGEST - 1)

    @property
    def _has_sums(self) -> bool:
        return self.record.block_sums.levels.size > 0

    def _new_sketch(self) -> Sketch:
        return new_sketch(4 * LONGEST_MEMORY // BLOCKS if self.changing else UNBOUNDED)

    def _new_block_sums(self) -> BlockSums:
        return new_block_sums(changing=self.changing) if self.forecasts else no_block_sums()
