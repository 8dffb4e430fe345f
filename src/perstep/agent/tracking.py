"""The metrics of a run for tools that show them: each is computed once, and written to TensorBoard, Weights & Biases or both."""

from __future__ import annotations

import math
import os
import re
import secrets
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray

from perstep.agent.earned import rows
from perstep.agent.evaluation import Evaluation
from perstep.distributions.distribution import NORMAL_95, TAILS
from perstep.distributions.history import EPISODES, RETURNS, REWARDS
from perstep.files.storage import writing

FLUSH_SECONDS = 10  # between two writes to the file of TensorBoard
BUCKETS = 30  # of the histogram of the quantiles


class Log(Protocol):
    """A tool that shows metrics. All modules of tools are imported here alone, when a log is opened."""

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write numbers by name."""

    def distribution(self, step: int, name: str, values: NDArray[np.float64]) -> None:
        """Write finite values, (m,), as a distribution."""

    def flush(self) -> None:
        """Write all pending entries."""

    def close(self, failed: bool = False) -> None:
        """Write all pending entries, and end."""


@final
class TensorBoardLog:
    """TensorBoard events in a folder. `begin`: the step of an agent that resumes; entries of later steps no longer count."""

    def __init__(self, folder: str | os.PathLike[str], begin: int = 0) -> None:
        Event, SessionLog, RecordWriter = tensorboard_classes()
        self._event: Any = Event
        self._path = next_event_file(Path(folder))
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Not TensorBoard's own writer: its thread prints a traceback when the disk is full, and its clock alone names the file.
            self._writer: Any = RecordWriter(open(self._path, "xb"))  # noqa: SIM115 (closed by `close`)
        self._flushed = -math.inf
        start = SessionLog(status=SessionLog.START)  # TensorBoard then ignores all earlier events from this step on
        self._add(wall_time=time.time(), file_version="brain.Event:2")
        self._add(wall_time=time.time(), step=begin + 1, session_log=start)

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write numbers by name."""
        for name, value in numbers.items():
            self._put(step, tag=name, simple_value=value)

    def distribution(self, step: int, name: str, values: NDArray[np.float64]) -> None:
        """Write values as a histogram."""
        self._put(step, tag=name, histo=histogram(values))

    def flush(self) -> None:
        """Write all pending events to the file."""
        with writing(self._path):
            self._writer.flush()
        self._flushed = time.monotonic()

    def close(self, failed: bool = False) -> None:
        """Write all pending events, and close the file."""
        with writing(self._path):
            self._writer.close()

    def _put(self, step: int, **value: Any) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._add(wall_time=time.time(), step=step, summary=Summary(value=[Summary.Value(**value)]))

    def _add(self, **entries: Any) -> None:
        with writing(self._path):
            self._writer.write(self._event(**entries).SerializeToString())
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()


def next_event_file(folder: Path) -> Path:
    """A new file for events, whose name is after those of all others there.

    TensorBoard reads the files of a folder in the order of their names, which begin with a time: after the clock was set back, or
    within the same second, it would drop the events of the later file as those of a run that has been resumed since.
    """
    found = (re.match(r"events\.out\.tfevents\.(\d{10})\b", path.name) for path in folder.glob("events.out.tfevents.*"))
    last = max((int(match[1]) for match in found if match), default=0)
    number = max(int(time.time()), last + 1)
    return folder / f"events.out.tfevents.{number:010d}.{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"


@final
class WandbLog:
    """A run of Weights & Biases. The same `id` continues a run; W&B ignores entries of steps that it has already.

    `settings`: more arguments of `wandb.init`, such as entity, name, tags, dir, mode or config.
    """

    def __init__(self, project: str, id: str | None = None, **settings: Any) -> None:
        wandb = wandb_module()
        self.id = id or uuid.uuid4().hex[:8]
        quiet = wandb.Settings(console="off", silent=True)  # the terminal belongs to the view of the run
        try:
            arguments = {"resume": "allow", "reinit": "create_new", "settings": quiet}
            arguments |= {**settings, "project": project, "id": self.id}
            self.run: Any = wandb.init(**arguments)
        except wandb.Error as error:
            raise RuntimeError(
                f"Weights & Biases could not start a run: {error}. Use `wandb login`, or set WANDB_MODE=offline and send the run "
                "later with `wandb sync`."
            ) from error

    @property
    def place(self) -> str:
        """Where to look: an address, or the command that sends the run to it."""
        return str(self.run.url or f"wandb sync {os.path.dirname(self.run.dir)}")

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write numbers by name."""
        self.run.log(dict(numbers), step=step)

    def distribution(self, step: int, name: str, values: NDArray[np.float64]) -> None:
        """Write values as a histogram."""
        counts, edges = np.histogram(values, bins=min(values.size, BUCKETS))
        self.run.log({name: wandb_module().Histogram(np_histogram=(counts.tolist(), edges.tolist()))}, step=step)

    def flush(self) -> None:
        """W&B writes by itself."""

    def close(self, failed: bool = False) -> None:
        """End the run."""
        self.run.finish(exit_code=int(failed))


class Totals(NamedTuple):
    """What an agent has earned since its first step, at some time."""

    time: float
    steps: int
    rewards: float
    returns: float
    episodes: float


@final
class Tracker:
    """A callback for `learn` that writes metrics to logs.

    `every`: at least this many steps between two entries. `begin`: an agent that resumes, or its step. With a step alone, the first
    chunk of learning is in no entry, because the rewards before it are unknown. The callback changes no result.
    """

    def __init__(self, logs: Sequence[Log], every: int = 1, begin: Any = 0) -> None:
        self._logs = tuple(logs)
        self._every = every
        self._last: Totals | None = None  # at the last entry
        if not isinstance(begin, int):
            self._last, begin = totals(begin), begin.steps
        elif begin == 0:
            self._last = Totals(math.nan, 0, 0.0, 0.0, 0.0)  # nobody knows when it began
        self._written: int = begin

    @property
    def last_step(self) -> int:
        """Step of the last entry."""
        return self._written

    def __call__(self, agent: Any) -> None:
        """Write an entry, if `every` steps have passed since the last one."""
        if self._last is None:
            self._last = totals(agent)
        elif agent.steps - self._last.steps >= self._every:
            self.write(agent)

    def write(self, agent: Any) -> None:
        """Write an entry at the agent's step, about the steps since the last entry."""
        now = totals(agent)
        numbers = {"average_reward": agent.average_reward, **earned(agent), **learning(agent), **since(self._last, now)}
        self._add(agent.steps, numbers)
        if agent.config.rule_row.has_reward_quantiles and np.isfinite(agent.reward_quantiles).all():
            for log in self._logs:
                log.distribution(agent.steps, "reward_quantiles", agent.reward_quantiles)
        self._last, self._written = now, agent.steps

    def write_evaluation(self, step: int, earned: Evaluation) -> None:
        """Write the result of an evaluation at this step."""
        numbers = {"evaluation/average_reward": earned.average_reward}
        if earned.episode_returns.size:
            numbers["evaluation/episode_return"] = float(earned.episode_returns.mean())
        self._add(step, numbers)

    def flush(self) -> None:
        """Write all pending entries."""
        for log in self._logs:
            log.flush()

    def close(self, failed: bool = False) -> None:
        """Write all pending entries, and end."""
        for log in self._logs:
            log.close(failed)

    def _add(self, step: int, numbers: Mapping[str, float]) -> None:
        for log in self._logs:
            log.numbers(step, numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)


def tensorboard_classes() -> tuple[Any, Any, Any]:
    """Event, SessionLog and RecordWriter of TensorBoard; an error that says how to install it."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ModuleNotFoundError as error:
        raise ImportError("TensorBoard is not installed. Install it: pip install 'perstep[deep]'") from error
    return Event, SessionLog, RecordWriter


def wandb_module() -> Any:
    """The module of Weights & Biases; an error that says how to install it."""
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise ImportError("Weights & Biases is not installed. Install it: pip install 'perstep[wandb]'") from error
    return wandb


def histogram(values: NDArray[np.float64]) -> Any:
    """A histogram in the format of TensorBoard: the number of values in each bucket, and its upper limit."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    counts, edges = np.histogram(values, bins=min(values.size, BUCKETS))
    sums = {"sum": values.sum(), "sum_squares": (values**2).sum()}
    span = {"min": values.min(), "max": values.max(), "num": values.size}
    return HistogramProto(**span, **sums, bucket_limit=edges[1:], bucket=counts)


def totals(agent: Any) -> Totals:
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
    numbers = {"reward_rate": (now.rewards - last.rewards) / steps}
    if now.time > last.time:
        numbers["steps_per_second"] = steps / (now.time - last.time)
    if now.episodes > last.episodes:
        numbers["episode_return"] = (now.returns - last.returns) / (now.episodes - last.episodes)
    return numbers


def earned(agent: Any) -> dict[str, float]:
    """What the agent earns now: the mean with the half width of its 95 % interval, and the means of the worst steps."""
    found = agent._life.reward_distribution
    if found is None:
        return {}
    mean, *others = rows(found)
    numbers = {"earned/mean": mean.value, "earned/mean_95": NORMAL_95 * mean.error}
    for row, share in zip(others[-len(TAILS) :], TAILS, strict=True):
        numbers[f"earned/worst_{100 * share:g}_percent"] = row.value
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def learning(agent: Any) -> dict[str, float]:
    """The loss of the last minibatch and ε, of agents that have them."""
    found = {"loss": getattr(agent, "last_loss", None), "epsilon": getattr(agent, "epsilon", None)}
    return {name: value for name, value in found.items() if isinstance(value, float)}
