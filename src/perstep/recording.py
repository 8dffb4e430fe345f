"""What a run leaves behind while it learns: reward rate and reward quantiles over windows, in a memory that does not grow.

When the last row is full, neighbouring rows are merged and the window doubles, so a record always has between half and all
of its rows, whatever the number of steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import compiled, inlined
from perstep.rules import average_reward

if TYPE_CHECKING:
    import polars

ROWS = 1024
WINDOW, FILLED, PENDING = 0, 1, 2


class Record(NamedTuple):
    """Rows of equal windows of steps; only the first `cursor[FILLED]` are filled."""

    cursor: NDArray[np.int64]  # (3,): steps per row, rows filled, steps in the row under way
    pending: NDArray[np.float64]  # (1,): sum of the rewards in the row under way
    reward_rate: NDArray[np.float64]  # (rows,): mean reward over the window
    average_reward: NDArray[np.float64]  # (rows,): R̄ at its end
    reward_quantiles: NDArray[np.float64]  # (rows, m): θ at its end


def new_record(num_quantiles: int, window: int = 1, rows: int = ROWS) -> Record:
    """An empty record."""
    cursor = np.array([window, 0, 0], np.int64)
    return Record(cursor, np.zeros(1), np.zeros(rows), np.zeros(rows), np.zeros((rows, num_quantiles)))


@compiled
def copy(source: Any, target: Any) -> None:
    """target[:] = source."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@compiled
def halve(record: Any) -> None:
    """Merge rows two by two: the mean of their rates, the later of their estimates."""
    for row in range(record.reward_rate.shape[0] // 2):
        record.reward_rate[row] = 0.5 * (record.reward_rate[2 * row] + record.reward_rate[2 * row + 1])
        record.average_reward[row] = record.average_reward[2 * row + 1]
        copy(record.reward_quantiles[2 * row + 1], record.reward_quantiles[row])
    record.cursor[WINDOW] *= 2
    record.cursor[FILLED] //= 2


@inlined
def note(record: Any, reward: Any, rewards: Any) -> None:
    """Take down one step."""
    cursor = record.cursor
    record.pending[0] += reward
    cursor[PENDING] += 1
    if cursor[PENDING] < cursor[WINDOW]:
        return
    row = cursor[FILLED]
    record.reward_rate[row] = record.pending[0] / cursor[WINDOW]
    record.average_reward[row] = average_reward(rewards)
    copy(rewards.theta, record.reward_quantiles[row])
    record.pending[0] = 0.0
    cursor[PENDING] = 0
    cursor[FILLED] = row + 1
    if cursor[FILLED] >= record.reward_rate.shape[0]:
        halve(record)


class History:
    """The record of a run, as people read it."""

    def __init__(self, record: Record) -> None:
        self.record = record

    @property
    def window(self) -> int:
        """Steps per row."""
        return int(self.record.cursor[WINDOW])

    @property
    def steps(self) -> NDArray[np.int64]:
        """The step at which each window ends."""
        return self.window * np.arange(1, self.record.cursor[FILLED] + 1)

    @property
    def reward_rate(self) -> NDArray[np.float64]:
        """Mean reward per step over each window."""
        return self.record.reward_rate[: self.record.cursor[FILLED]].copy()

    @property
    def average_reward(self) -> NDArray[np.float64]:
        """R̄ at the end of each window."""
        return self.record.average_reward[: self.record.cursor[FILLED]].copy()

    @property
    def reward_quantiles(self) -> NDArray[np.float64]:
        """θ at the end of each window, (windows, m)."""
        return self.record.reward_quantiles[: self.record.cursor[FILLED]].copy()

    def frame(self) -> polars.DataFrame:
        """One row a window: step, reward_rate, average_reward, theta_1 … theta_m."""
        import polars

        theta = {f"theta_{i + 1}": column for i, column in enumerate(self.reward_quantiles.T)}
        columns = {"step": self.steps, "reward_rate": self.reward_rate, "average_reward": self.average_reward}
        return polars.DataFrame({**columns, **theta})

    def __len__(self) -> int:
        return int(self.record.cursor[FILLED])

    def __repr__(self) -> str:
        return f"History({len(self)} windows of {self.window} steps)"
