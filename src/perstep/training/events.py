"""TensorBoard events of a run: reward and speed as curves, the reward quantiles as a distribution."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from perstep.agents.agent import Agent
from perstep.agents.evaluation import Evaluation
from perstep.recording import EPISODES, RETURNS, REWARDS
from perstep.training.metrics import learning

FLUSH_SECONDS = 10  # between two writes to the file
BUCKETS = 30  # of the histogram of the quantiles


class Totals(NamedTuple):
    """What an agent has earned since its first step, at some time."""

    time: float
    steps: int
    rewards: float
    returns: float
    episodes: float


@final
class EventWriter:
    """A callback for `learn` that writes TensorBoard events to a folder.

        with EventWriter("runs/a", every=1000) as events:
            agent.learn(1_000_000, callback=events)

    `every`: at least this many steps between two entries. `begin`: an agent that resumes, or its step. With a step alone, the first
    chunk of learning is in no entry, because the rewards before it are unknown. Entries of later steps, from a process that was
    killed, no longer count. The callback changes no result.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 1, begin: int | Agent = 0) -> None:
        Event, SessionLog, EventFileWriter = tensorboard_classes()
        self._event: Any = Event
        self._writer: Any = EventFileWriter(os.fspath(folder), flush_secs=FLUSH_SECONDS)
        self._every = every
        self._last: Totals | None = None  # at the last entry
        if isinstance(begin, Agent):
            self._last, begin = totals(begin), begin.steps
        elif begin == 0:
            self._last = Totals(time.monotonic(), 0, 0.0, 0.0, 0.0)
        self._written = begin
        start = SessionLog(status=SessionLog.START)  # TensorBoard then ignores all earlier events from this step on
        self._writer.add_event(Event(wall_time=time.time(), step=begin + 1, session_log=start))

    @property
    def last_step(self) -> int:
        """Step of the last entry."""
        return self._written

    def __call__(self, agent: Agent) -> None:
        """Write an entry, if `every` steps have passed since the last one."""
        if self._last is None:
            self._last = totals(agent)
        elif agent.steps - self._last.steps >= self._every:
            self.write(agent)

    def write(self, agent: Agent) -> None:
        """Write an entry at the agent's step, about the steps since the last entry."""
        now = totals(agent)
        self._add(agent.steps, {"average_reward": agent.average_reward, **learning(agent), **since(self._last, now)})
        if agent.config.rule_row.has_reward_quantiles and np.isfinite(agent.reward_quantiles).all():
            self._put(agent.steps, tag="reward_quantiles", histo=histogram(agent.reward_quantiles))
        self._last, self._written = now, agent.steps

    def write_evaluation(self, step: int, earned: Evaluation) -> None:
        """Write the result of an evaluation at this step."""
        numbers = {"evaluation/average_reward": earned.average_reward}
        if earned.episode_returns.size:
            numbers["evaluation/episode_return"] = float(earned.episode_returns.mean())
        self._add(step, numbers)

    def flush(self) -> None:
        """Write all pending events to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Write all pending events, and close the file."""
        self._writer.close()

    def _add(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._put(step, tag=name, simple_value=value)

    def _put(self, step: int, **value: Any) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(**value)])
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def tensorboard_classes() -> tuple[Any, Any, Any]:
    """Event, SessionLog and EventFileWriter of TensorBoard; an error that says how to install it."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ModuleNotFoundError as error:
        raise ImportError("TensorBoard is not installed. Install it: pip install 'perstep[deep]'") from error
    return Event, SessionLog, EventFileWriter


def histogram(values: NDArray[np.float64]) -> Any:
    """A histogram in the format of TensorBoard: the number of values in each bucket, and its upper limit."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    counts, edges = np.histogram(values, bins=min(values.size, BUCKETS))
    sums = {"sum": values.sum(), "sum_squares": (values**2).sum()}
    span = {"min": values.min(), "max": values.max(), "num": values.size}
    return HistogramProto(**span, **sums, bucket_limit=edges[1:], bucket=counts)


def totals(agent: Agent) -> Totals:
    """The totals of an agent, from its record: merging rows keeps their sums."""
    history, pending = agent.history, agent.history.record.pending
    filled = slice(len(history))
    return Totals(
        time.monotonic(),
        agent.steps,
        history.window * float(history.record.reward_rate[filled].sum()) + float(pending[REWARDS]),
        float(history.record.returns[filled].sum()) + float(pending[RETURNS]),
        float(history.record.episodes[filled].sum()) + float(pending[EPISODES]),
    )


def since(last: Totals | None, now: Totals) -> dict[str, float]:
    """Reward per step, speed and mean episode return between two totals."""
    if last is None or now.steps <= last.steps:
        return {}
    steps = now.steps - last.steps
    numbers = {
        "reward_rate": (now.rewards - last.rewards) / steps,
        "steps_per_second": steps / max(now.time - last.time, 1e-9),
    }
    if now.episodes > last.episodes:
        numbers["episode_return"] = (now.returns - last.returns) / (now.episodes - last.episodes)
    return numbers
