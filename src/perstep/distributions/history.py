"""The record of a run: reward rate, reward quantiles and episode returns in windows of steps, in memory of a fixed size. With it
goes a sketch of the rewards (distributions/sketch.py).

When all rows are full, each two neighbouring rows are merged and the window doubles. So, for any number of steps, between half and
all of the rows are filled, once the record has been full.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.display.colours import BLUE, ORANGE
from perstep.distributions.block_sums import BlockSums, add_up, no_block_sums
from perstep.distributions.sketch import Sketch, no_sketch, take
from perstep.inputs.checks import number
from perstep.numerics.compiled import compiled, inlined
from perstep.rules.transition import RewardEstimate, average_reward
from perstep.system.budget import claim

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 1024
WINDOW, FILLED, PENDING = 0, 1, 2
REWARDS, RETURNS, EPISODES = 0, 1, 2


class Record(NamedTuple):
    """One row for each window of steps; only the first `cursor[FILLED]` rows are filled."""

    cursor: NDArray[np.int64]  # (3,): steps per row, filled rows, steps in the current row
    pending: NDArray[np.float64]  # (3,): in the current row: sum of rewards, sum of episode returns, ended episodes
    reward_rate: NDArray[np.float64]  # (rows,): mean reward over the window
    average_reward: NDArray[np.float64]  # (rows,): R̄ at the end of the window
    reward_quantiles: NDArray[np.float64]  # (rows, m): θ at the end of the window
    returns: NDArray[np.float64]  # (rows,): sum of the returns of the episodes that ended in the window
    episodes: NDArray[np.float64]  # (rows,): number of those episodes
    sketch: Sketch  # of the recent rewards
    block_sums: BlockSums  # of consecutive rewards


def new_record(
    num_quantiles: int,
    window: int = 1,
    rows: int = ROWS,
    sketch: Sketch | None = None,
    block_sums: BlockSums | None = None,
) -> Record:
    """An empty record, without a sketch of the rewards and without sums of them if none are given."""
    claim(8 * rows * (num_quantiles + 4), f"a history of {rows:,} rows with {num_quantiles:,} quantiles each")
    cursor = np.array([window, 0, 0], np.int64)
    quantiles = np.zeros((rows, num_quantiles))
    sketch = no_sketch() if sketch is None else sketch
    block_sums = no_block_sums() if block_sums is None else block_sums
    return Record(
        cursor,
        np.zeros(3),
        np.zeros(rows),
        np.zeros(rows),
        quantiles,
        np.zeros(rows),
        np.zeros(rows),
        sketch,
        block_sums,
    )


@compiled
def copy(source: Any, target: Any) -> None:
    """target[:] = source."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@compiled
def merge_rows(record: Any) -> None:
    """Merge each two neighbouring rows: the mean of their rates, the later estimates, the sums over their episodes."""
    for row in range(record.reward_rate.shape[0] // 2):
        record.reward_rate[row] = 0.5 * (record.reward_rate[2 * row] + record.reward_rate[2 * row + 1])
        record.average_reward[row] = record.average_reward[2 * row + 1]
        copy(record.reward_quantiles[2 * row + 1], record.reward_quantiles[row])
        record.returns[row] = record.returns[2 * row] + record.returns[2 * row + 1]
        record.episodes[row] = record.episodes[2 * row] + record.episodes[2 * row + 1]
    record.cursor[WINDOW] *= 2
    record.cursor[FILLED] //= 2


@inlined
def note(rule: int, record: Record, reward: float, rewards: RewardEstimate) -> None:
    """Record one step."""
    take(record.sketch, reward)
    if record.block_sums.levels.shape[2] > 0:
        add_up(record.block_sums, reward)
    cursor = record.cursor
    record.pending[REWARDS] += reward
    cursor[PENDING] += 1
    if cursor[PENDING] < cursor[WINDOW]:
        return
    row = cursor[FILLED]
    record.reward_rate[row] = record.pending[REWARDS] / cursor[WINDOW]
    record.average_reward[row] = average_reward(rule, rewards)
    copy(rewards.theta, record.reward_quantiles[row])
    record.returns[row] = record.pending[RETURNS]
    record.episodes[row] = record.pending[EPISODES]
    for i in range(3):
        record.pending[i] = 0.0
    cursor[PENDING] = 0
    cursor[FILLED] = row + 1
    if cursor[FILLED] >= record.reward_rate.shape[0]:
        merge_rows(record)


@inlined
def note_end(record: Any, episode_return: Any) -> None:
    """Record the end of an episode, before the step that ends it is recorded."""
    record.pending[RETURNS] += episode_return
    record.pending[EPISODES] += 1


class History:
    """The filled rows of a record, as arrays and as a table."""

    def __init__(self, record: Record, optimum: Callable[[], float] | None = None) -> None:
        self.record = record
        self._optimum = optimum  # where the world can tell it

    @property
    def lifetime_steps(self) -> int:
        """Number of steps in the whole life."""
        window, filled, pending = map(int, self.record.cursor)
        return window * filled + pending

    @property
    def lifetime_reward(self) -> float:
        """Mean reward per step over the whole life, which is what was earned while learning; NaN before the first step."""
        return self.total_reward / self.lifetime_steps if self.lifetime_steps else math.nan

    @property
    def total_reward(self) -> float:
        """The sum of all rewards of the whole life."""
        window, filled, _ = map(int, self.record.cursor)
        return window * float(self.record.reward_rate[:filled].sum()) + float(self.record.pending[REWARDS])

    def regret(self, optimum: float | None = None) -> float:
        """The regret of the whole life: the number of steps times `optimum`, minus the sum of the rewards. In a finite world that
        is known, the optimum need not be given."""
        if optimum is None:
            if self._optimum is None:
                raise ValueError("The optimum of this world is not known. Give it: history.regret(optimum).")
            optimum = self._optimum()
        optimum = number("optimum", optimum, -math.inf, above=True)
        return self.lifetime_steps * (optimum - self.lifetime_reward) if self.lifetime_steps else 0.0

    def plot(self, optimum: float | None = None, ax: Axes | None = None) -> Figure:
        """What was earned over the life, as a matplotlib figure: the rate of each window, and the mean of the life so far; with the
        optimum and the regret where it is given, or known as in a finite world."""
        from perstep.display.drawing import drawn, legend_below

        if optimum is None and self._optimum is not None:
            with contextlib.suppress(ValueError, ArithmeticError):  # it is not known
                optimum = self._optimum()
        rates, title = self.reward_rate, f"earned {self.total_reward:,.6g} in {self.lifetime_steps:,} steps"
        with drawn(ax) as (figure, axes):
            axes.plot(self.steps, rates, color=BLUE, lw=0.6, alpha=0.6, label=f"mean of {self.window:,} steps")
            axes.plot(
                self.steps, rates.cumsum() / np.arange(1, rates.size + 1), color=ORANGE, label="mean of the life so far"
            )
            if optimum is not None:
                axes.axhline(optimum, color="black", ls="--", lw=1.0, label=f"optimum {optimum:.4g}")
                title += f", regret {self.regret(optimum):,.6g}"
            axes.set(xlabel="step", ylabel="reward per step", title=title)
            legend_below(axes)
        return figure

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
        """Number of episodes that ended in each window; 0 in worlds without episodes."""
        return self.record.episodes[: self.record.cursor[FILLED]].astype(np.int64)

    @property
    def episode_return(self) -> NDArray[np.float64]:
        """Mean return of the episodes that ended in each window; NaN if none ended."""
        filled = slice(self.record.cursor[FILLED])
        return mean_return(self.record.returns[filled], self.record.episodes[filled])

    def frame(self) -> polars.DataFrame:
        """One row for each window: step, reward_rate, average_reward, theta_1 … theta_m, episodes, episode_return."""
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
    """The mean return in each window; NaN if no episode ended."""
    return np.asarray(np.divide(returns, episodes, out=np.full(returns.shape, np.nan), where=episodes > 0))
