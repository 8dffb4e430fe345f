"""A run in TensorBoard: what it earns and how fast as curves, the reward quantiles as a distribution."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from perstep.agents.agent import Agent, Evaluation
from perstep.recording import EPISODES, RETURNS, REWARDS
from perstep.training.metrics import learning

FLUSH = 10  # seconds that TensorBoard waits for what is written
BUCKETS = 30  # of the distribution of the quantiles


class Totals(NamedTuple):
    """What an agent has earned in all its life until a moment."""

    time: float
    steps: int
    rewards: float
    returns: float
    episodes: float


@final
class EventWriter:
    """A callback of `learn` that leaves TensorBoard's events in a folder.

        with EventWriter("runs/a", every=1000) as events:
            agent.learn(1_000_000, callback=events)

    `every`: so many steps go by from one entry to the next, or a few more. `begin`: an agent that goes on, or its step (then its
    first stretch is in no entry, since nobody knows what it had earned before); what was written for later steps by a process
    that has since been killed no longer counts. Nothing that is learnt changes.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 1, begin: int | Agent = 0) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ModuleNotFoundError as error:
            raise ImportError("TensorBoard is not here: pip install 'perstep[deep]'") from error
        self._event: Any = Event
        self._writer: Any = EventFileWriter(os.fspath(folder), flush_secs=FLUSH)
        self._every = every
        self._last: Totals | None = None  # at the last entry
        if isinstance(begin, Agent):
            self._last, begin = totals(begin), begin.steps
        elif begin == 0:
            self._last = Totals(time.monotonic(), 0, 0.0, 0.0, 0.0)
        self._written = begin
        start = SessionLog(status=SessionLog.START)  # strikes out all events from this step on
        self._writer.add_event(Event(wall_time=time.time(), step=begin + 1, session_log=start))

    @property
    def last_step(self) -> int:
        """Up to which there are entries."""
        return self._written

    def __call__(self, agent: Agent) -> None:
        """Write an entry, if it is time for one."""
        if self._last is None:
            self._last = totals(agent)
        elif agent.steps - self._last.steps >= self._every:
            self.write(agent)

    def write(self, agent: Agent) -> None:
        """An entry at the agent's step, about what has happened since the last one."""
        now = totals(agent)
        self._add(agent.steps, {"average_reward": agent.average_reward, **learning(agent), **since(self._last, now)})
        if agent.config.rule_row.has_reward_quantiles and np.isfinite(agent.reward_quantiles).all():
            self._put(agent.steps, tag="reward_quantiles", histo=histogram(agent.reward_quantiles))
        self._last, self._written = now, agent.steps

    def write_evaluation(self, step: int, earned: Evaluation) -> None:
        """What the agent earned without learning after so many steps."""
        numbers = {"evaluation/average_reward": earned.average_reward}
        if earned.episode_returns.size:
            numbers["evaluation/episode_return"] = float(earned.episode_returns.mean())
        self._add(step, numbers)

    def flush(self) -> None:
        """Write what is waiting."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is waiting, and no more."""
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


def histogram(values: NDArray[np.float64]) -> Any:
    """Values as TensorBoard counts them: how many up to each limit."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    counts, edges = np.histogram(values, bins=min(values.size, BUCKETS))
    sums = {"sum": values.sum(), "sum_squares": (values**2).sum()}
    span = {"min": values.min(), "max": values.max(), "num": values.size}
    return HistogramProto(**span, **sums, bucket_limit=edges[1:], bucket=counts)


def totals(agent: Agent) -> Totals:
    """From the record, which never forgets a reward although it merges its rows."""
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
    """What was earned between two moments, and how fast it went."""
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
