"""What a run leaves behind while it learns: reward rate, reward quantiles and the returns of episodes over windows, in a memory
that does not grow.

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
REWARDS, RETURNS, EPISODES = 0, 1, 2


class Record(NamedTuple):
    """Rows of equal windows of steps; only the first `cursor[FILLED]` are filled."""

    cursor: NDArray[np.int64]  # (3,): steps per row, rows filled, steps in the row under way
    pending: NDArray[np.float64]  # (3,): of the row under way: sum of rewards, sum of returns, episodes that ended
    reward_rate: NDArray[np.float64]  # (rows,): mean reward over the window
    average_reward: NDArray[np.float64]  # (rows,): R̄ at its end
    reward_quantiles: NDArray[np.float64]  # (rows, m): θ at its end
    returns: NDArray[np.float64]  # (rows,): sum of the returns of the episodes that ended in it
    episodes: NDArray[np.float64]  # (rows,): how many those were


def new_record(num_quantiles: int, window: int = 1, rows: int = ROWS) -> Record:
    """An empty record."""
    cursor = np.array([window, 0, 0], np.int64)
    quantiles = np.zeros((rows, num_quantiles))
    return Record(cursor, np.zeros(3), np.zeros(rows), np.zeros(rows), quantiles, np.zeros(rows), np.zeros(rows))


@compiled
def copy(source: Any, target: Any) -> None:
    """target[:] = source."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@compiled
def halve(record: Any) -> None:
    """Merge rows two by two: the mean of their rates, the later of their estimates, all of their episodes."""
    for row in range(record.reward_rate.shape[0] // 2):
        record.reward_rate[row] = 0.5 * (record.reward_rate[2 * row] + record.reward_rate[2 * row + 1])
        record.average_reward[row] = record.average_reward[2 * row + 1]
        copy(record.reward_quantiles[2 * row + 1], record.reward_quantiles[row])
        record.returns[row] = record.returns[2 * row] + record.returns[2 * row + 1]
        record.episodes[row] = record.episodes[2 * row] + record.episodes[2 * row + 1]
    record.cursor[WINDOW] *= 2
    record.cursor[FILLED] //= 2


@inlined
def note(record: Any, reward: Any, rewards: Any) -> None:
    """Take down one step."""
    cursor = record.cursor
    record.pending[REWARDS] += reward
    cursor[PENDING] += 1
    if cursor[PENDING] < cursor[WINDOW]:
        return
    row = cursor[FILLED]
    record.reward_rate[row] = record.pending[REWARDS] / cursor[WINDOW]
    record.average_reward[row] = average_reward(rewards)
    copy(rewards.theta, record.reward_quantiles[row])
    record.returns[row] = record.pending[RETURNS]
    record.episodes[row] = record.pending[EPISODES]
    for i in range(3):
        record.pending[i] = 0.0
    cursor[PENDING] = 0
    cursor[FILLED] = row + 1
    if cursor[FILLED] >= record.reward_rate.shape[0]:
        halve(record)


@inlined
def note_end(record: Any, episode_return: Any) -> None:
    """An episode ends with the step that is taken down next."""
    record.pending[RETURNS] += episode_return
    record.pending[EPISODES] += 1


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

    @property
    def episodes(self) -> NDArray[np.int64]:
        """Episodes that ended in each window; 0 where nothing ends."""
        return self.record.episodes[: self.record.cursor[FILLED]].astype(np.int64)

    @property
    def episode_return(self) -> NDArray[np.float64]:
        """Mean sum of rewards of the episodes that ended in each window; NaN where none did."""
        filled = slice(self.record.cursor[FILLED])
        return mean_return(self.record.returns[filled], self.record.episodes[filled])

    def frame(self) -> polars.DataFrame:
        """One row a window: step, reward_rate, average_reward, theta_1 … theta_m, episodes, episode_return."""
        import polars

        theta = {f"theta_{i + 1}": column for i, column in enumerate(self.reward_quantiles.T)}
        columns = {"step": self.steps, "reward_rate": self.reward_rate, "average_reward": self.average_reward}
        ends = {"episodes": self.episodes, "episode_return": self.episode_return}
        return polars.DataFrame({**columns, **theta, **ends})

    def __len__(self) -> int:
        return int(self.record.cursor[FILLED])

    def __repr__(self) -> str:
        return f"History({len(self)} windows of {self.window} steps)"


def mean_return(returns: NDArray[np.float64], episodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean return of a window, NaN where no episode ended."""
    return np.asarray(np.divide(returns, episodes, out=np.full(returns.shape, np.nan), where=episodes > 0))
