"""A training run in a folder: what was asked, what was learnt, and after any interruption the same run goes on to the bit.

`agent.safetensors` is the run. All other files are made from it and from `run.json`, so nothing can disagree after a crash.
"""

from __future__ import annotations

import contextlib
import json
import platform
import signal
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perstep.agents.agent import Agent
from perstep.agents.making import load
from perstep.config import count
from perstep.interruption import deferred_signals
from perstep.live import Moment
from perstep.recording import PENDING
from perstep.storage import published
from perstep.training.exact import exact_answers
from perstep.training.task import Task, read_json

if TYPE_CHECKING:
    import polars

AGENT, METRICS, RUN = "agent.safetensors", "metrics.parquet", "run.json"
QUANTILES, REWARD_RATE = "quantiles.png", "reward_rate.png"

CHECKPOINTS = 20  # of a run, unless told otherwise
LEAST_STRETCH = 1000  # steps between two checkpoints that nobody asked for
LIBRARIES = ("numpy", "numba", "gymnasium", "torch")  # whose versions may change the bits of a run


class Interrupted(Exception):
    """The run was told to stop, and has saved itself."""

    def __init__(self, signal_number: int, steps: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after {steps:,} steps")
        self.signal_number, self.steps = signal_number, steps


def train(
    task: Task,
    steps: int,
    folder: Path,
    *,
    checkpoint_every: int | None = None,
    resume: bool = False,
    watch: Callable[[Agent], None] = lambda agent: None,
    command: str = "",
) -> Agent:
    """Learn until the agent has made `steps` steps and leave everything in `folder`.

    With `resume` a run that is there goes on; otherwise a folder with a run is refused. `watch` sees the agent several times
    a second. None of this changes what is learnt, nor do checkpoints. Raises `Interrupted`, with all saved, on SIGINT and SIGTERM.
    """
    count("steps", steps, 1)
    every = max(-(-steps // CHECKPOINTS), LEAST_STRETCH) if checkpoint_every is None else checkpoint_every
    count("checkpoint_every", every, 1)
    run = Run.opened(folder, task, resume)
    agent = load(run.path(AGENT), task.world_made()) if run.path(AGENT).exists() else task.agent()
    if run.record.get("finished") and agent.steps >= steps:
        return agent
    run.write(**task.to_json(), steps=agent.steps, finished=False, command=command, versions=versions())
    with deferred_signals() as received:
        while agent.steps < steps and not received:
            target = min(agent.steps - agent.steps % every + every, steps)
            _stretch(agent, target, received, watch)
            run.checkpoint(agent)
        if received:
            raise Interrupted(received[0], agent.steps)
    write_metrics(agent, run.path(METRICS))
    run.write(exact=exact_answers(agent), steps=agent.steps)
    draw(folder)
    run.write(finished=True)
    return agent


def _stretch(agent: Agent, target: int, received: list[int], watch: Callable[[Agent], None]) -> None:
    def look(_: Any) -> bool:
        watch(agent)
        return not received

    agent.learn(target - agent.steps, progress=False, callback=look)


class Run:
    """The folder of a run and its record, which says what was asked and how far it is."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.folder, self.record = folder, record
        self._since = time.monotonic()

    @classmethod
    def opened(cls, folder: Path, task: Task, resume: bool) -> Run:
        """The run in the folder, if there is one to resume and it is this one; a new one if there is none."""
        there = [name for name in (RUN, AGENT) if (folder / name).exists()]
        if there and not resume:
            raise FileExistsError(f"{folder} already holds a run. Go on with it by --resume, or choose another folder.")
        if there == [AGENT]:
            raise FileNotFoundError(
                f"{folder} holds {AGENT} without its {RUN}: no run to resume. Choose another folder."
            )
        for draft in folder.glob(".*.part"):  # left by a process that was killed while it wrote
            draft.unlink(missing_ok=True)
        record = read_json(folder / RUN) if there else {}
        if there:
            _refuse_another(record, task, folder)
        return cls(folder, record)

    def path(self, name: str) -> Path:
        """A file of the run."""
        return self.folder / name

    def write(self, **news: Any) -> None:
        """Add to the record and publish it."""
        now = time.monotonic()
        seconds = self.record.get("seconds", 0.0) + now - self._since
        self._since = now
        self.record |= {**news, "seconds": round(seconds, 3)}
        with published(self.path(RUN)) as draft:
            draft.write_text(json.dumps(self.record, indent=2) + "\n", encoding="utf-8")

    def checkpoint(self, agent: Agent) -> None:
        """The agent first: what follows is made from it, and may be lost."""
        agent.save(self.path(AGENT))
        write_metrics(agent, self.path(METRICS))
        self.write(steps=agent.steps)


def _refuse_another(record: dict[str, Any], task: Task, folder: Path) -> None:
    if different := task.differences(record):
        words = "; ".join(f"{name} was {_say(old)} and is now {_say(new)}" for name, (old, new) in different.items())
        raise ValueError(f"{folder} holds another run: {words}. Resume as it began, or choose another folder.")


def _say(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"scale", "power"}:
        return f"{value['scale']:g}:{value['power']:g}"  # a step size that falls, as it is written in flags
    return "not given" if value is None else json.dumps(value)


def moment(agent: Agent) -> Moment:
    """What there is to see of an agent now."""
    history = agent.history
    rows = max(1, len(history) // 20)
    rate = float(np.mean(history.reward_rate[-rows:])) if len(history) else float("nan")
    return Moment(
        agent.steps, agent.average_reward, rate, history.window * min(rows, len(history)), agent.reward_quantiles
    )


def metrics_frame(agent: Agent) -> polars.DataFrame:
    """One row a window: step, window, reward_rate, average_reward, theta_1 …; the last window may be shorter.

    Taken from the record that the agent carries, so rows depend on nothing but the steps made.
    """
    import polars

    history = agent.history
    frame = history.frame()
    window = polars.Series("window", np.full(len(frame), history.window), polars.Int64)
    frame = frame.insert_column(1, window)
    if rest := int(history.record.cursor[PENDING]):
        theta = {f"theta_{i + 1}": [float(x)] for i, x in enumerate(agent.reward_quantiles)}
        rate = float(history.record.pending[0]) / rest
        last = {
            "step": [agent.steps],
            "window": [rest],
            "reward_rate": [rate],
            "average_reward": [agent.average_reward],
        }
        frame = frame.vstack(polars.DataFrame({**last, **theta}, schema=frame.schema))
    return frame


def write_metrics(agent: Agent, path: Path) -> None:
    """Publish the metrics as they are now."""
    with published(path) as draft:
        metrics_frame(agent).write_parquet(draft)


def draw(folder: Path) -> None:
    """The figures of a run, from its files."""
    import polars

    from perstep.figures import training as figures

    metrics, record = polars.read_parquet(folder / METRICS), read_json(folder / RUN)
    title = f"{record['algorithm']} in {record['world']}"
    exact = record.get("exact") or {}
    figures.quantile_convergence(folder / QUANTILES.removesuffix(".png"), metrics, exact, title)
    figures.reward_rate(folder / REWARD_RATE.removesuffix(".png"), metrics, exact, title)


def versions() -> dict[str, str]:
    """Versions of what may change the bits of a run."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("perstep", *LIBRARIES):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def read_record(folder: Path) -> dict[str, Any]:
    """What the run in a folder was asked, and how far it is."""
    return dict(read_json(folder / RUN))
