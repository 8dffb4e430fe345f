"""A training run in a folder: what was asked, what was learnt, and after any interruption the same run goes on to the bit.

`agent.safetensors` is the run. The other files are made from it and from `run.json`, and what evaluations and events say of steps
after it is dropped when it goes on: so nothing can disagree after a crash.
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
from typing import Any, final

from perstep.agents.agent import Agent
from perstep.agents.files import load
from perstep.agents.worlds import FRESH, describe
from perstep.config import count
from perstep.interruption import abandoned_at_signals, deferred_signals
from perstep.storage import BadFile, published, read_metadata, sweep
from perstep.training.cadence import Cadence
from perstep.training.evaluation import Evaluations, Plan
from perstep.training.events import EventWriter
from perstep.training.exact import exact_answers
from perstep.training.failure import in_words
from perstep.training.metrics import write_metrics
from perstep.training.task import Task, read_json

AGENT, METRICS, RUN = "agent.safetensors", "metrics.parquet", "run.json"
EVALUATIONS, EVENTS, FILM = "evaluations.parquet", "events.out.tfevents", "film.gif"
QUANTILES, REWARD_RATE, EPISODE_RETURN = "quantiles.png", "reward_rate.png", "episode_return.png"
FILES = (AGENT, METRICS, EVALUATIONS, RUN, QUANTILES, REWARD_RATE, EPISODE_RETURN, FILM)

ENTRIES = 1000  # of a run in TensorBoard, at most
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
    evaluate: Plan | None = None,
    tensorboard: bool = False,
    film: bool = False,
    watch: Callable[[Agent], None] = lambda agent: None,
    say: Callable[[str], None] = lambda text: None,
    command: str = "",
) -> Agent:
    """Learn until the agent has made `steps` steps and leave everything in `folder`.

    With `resume` a run that is there goes on; otherwise a folder with a run is refused. `evaluate`: evaluations on the way.
    `tensorboard`: also leave its events. `film`: also leave a film of the agent at the end. `watch` sees the agent several times
    a second, `say` hears of what happens in between. None of this changes what is learnt, nor do checkpoints. Raises
    `Interrupted`, with all saved, on SIGINT and SIGTERM.
    """
    cadence = Cadence(count("steps", steps, 1), checkpoint_every)
    run = Run.opened(folder, task, resume)
    agent = run.loaded(task) if run.path(AGENT).exists() else task.agent()
    if film:
        refuse_what_cannot_be_filmed(agent)
    finished = run.record.get("finished") and agent.steps >= steps
    if not finished:
        evaluations = None if evaluate is None else Evaluations(run.path(EVALUATIONS), evaluate, agent)
        with contextlib.ExitStack() as opened:
            events = None
            if tensorboard:
                events = opened.enter_context(EventWriter(folder, max(1, steps // ENTRIES), agent))
            run.write(**task.to_json(), steps=agent.steps, finished=False, command=command, versions=versions())
            Life(run, agent, cadence, evaluations, events, watch, say).go_on(steps)
        write_metrics(agent, run.path(METRICS))
        run.write(exact=exact_answers(agent), steps=agent.steps)
        draw(folder)
    asked = {EVALUATIONS: evaluate is not None, EVENTS: tensorboard}
    current = {name: agent.steps for name, wanted in asked.items() if wanted and not finished}
    if film and not (run.path(FILM).exists() and is_current(folder, FILM)):
        leave_film(agent, run.path(FILM))
        current[FILM] = agent.steps
    if not finished or current:
        run.write(finished=True, current=run.record.get("current", {}) | current)
    return agent


@final
class Life:
    """Stretches of learning, and between them what does not change it: evaluations, checkpoints, and looks at the agent."""

    def __init__(
        self,
        run: Run,
        agent: Agent,
        cadence: Cadence,
        evaluations: Evaluations | None,
        events: EventWriter | None,
        watch: Callable[[Agent], None],
        say: Callable[[str], None],
    ) -> None:
        self.run, self.agent, self.cadence, self.evaluations, self.events = run, agent, cadence, evaluations, events
        self.watch, self.say = watch, say

    def go_on(self, steps: int) -> None:
        """Until the agent has made `steps` steps, or a signal comes."""
        agent = self.agent
        with deferred_signals() as received:
            while True:
                self._evaluate(received)
                if received or agent.steps >= steps or self.cadence.due(agent.steps):
                    self._save()
                if received:
                    raise Interrupted(received[0], agent.steps)
                if agent.steps >= steps:
                    return
                stops = [steps, self.cadence.next(agent.steps)]
                if self.evaluations is not None:
                    stops.append(self.evaluations.next(agent.steps))
                self._learn(min(stops), received)

    def _learn(self, target: int, received: list[int]) -> None:
        def look(agent: Agent) -> bool:
            self.watch(agent)
            if self.events is not None:
                self.events(agent)
            return not received and not self.cadence.late()

        try:
            self.agent.learn(target - self.agent.steps, progress=False, callback=look)
        except (ArithmeticError, ValueError) as error:
            raise in_words(error, self.agent, self.run.path(AGENT), self._save) from error

    def _evaluate(self, received: list[int]) -> None:
        if self.evaluations is None or received or not self.evaluations.due(self.agent.steps):
            return
        earned = None
        with abandoned_at_signals(received):  # it is made when the run goes on
            earned = self.evaluations.make(self.agent)
        if earned is None:
            return
        if self.events is not None:
            self.events.write_evaluation(self.agent.steps, earned)
        returns = earned.episode_returns
        episodes = f", episode return {returns.mean():.5g} over {returns.size:,} episodes" if returns.size else ""
        self.say(f"evaluation at step {self.agent.steps:,}: average reward {earned.average_reward:.5g}{episodes}")

    def _save(self) -> None:
        """Events first: an agent that goes on from here must find them written."""
        if self.events is not None:
            if self.events.last_step < self.agent.steps:
                self.events.write(self.agent)
            self.events.flush()
        first = "resumes" not in self.run.record
        with self.cadence.saving():
            self.run.checkpoint(self.agent)
        if first and self.run.record["resumes"] == FRESH:
            self.say(
                "this world's state cannot be saved. Should the run be interrupted, it goes on from a reset of the world, "
                "with all that it has learnt."
            )


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
        record = read_record(folder) if there else {}
        if there:
            sweep(folder)
            _refuse_another(record, task, folder)
        return cls(folder, record)

    def path(self, name: str) -> Path:
        """A file of the run."""
        return self.folder / name

    def loaded(self, task: Task) -> Agent:
        """The agent as it was saved."""
        task.refuse_agent(read_metadata(self.path(AGENT)), self.path(AGENT))
        return load(self.path(AGENT), task.world_made())

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
        about = describe(agent._opened, agent._world, agent._spaces())[1]
        self.write(steps=agent.steps, resumes=about.get("resumes", "from the same state"))


def _refuse_another(record: dict[str, Any], task: Task, folder: Path) -> None:
    if different := task.differences(record):
        words = "; ".join(f"{name} was {_say(old)} and is now {_say(new)}" for name, (old, new) in different.items())
        raise ValueError(f"{folder} holds another run: {words}. Resume as it began, or choose another folder.")


def _say(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"scale", "power"}:
        return f"{value['scale']:g}:{value['power']:g}"  # a step size that falls, as it is written in flags
    return "not given" if value is None else json.dumps(value)


def refuse_what_cannot_be_filmed(agent: Agent) -> None:
    """At the beginning, not after hours. One picture is taken: some worlds miss their library only then."""
    from perstep.training.film import (
        LOOKS,
        Filmed,
        drawn_world,
    )  # a library for pictures, which others need not wait for

    stage = Filmed(drawn_world(agent), every=1, side=LOOKS[0][0])
    try:
        stage.reset(seed=agent.config.seed)
    except Exception as error:  # whatever the world says
        raise ValueError(
            f"To be filmed, the world should draw itself, but it cannot: {str(error).rstrip('.')}. "
            "Install what it needs, or leave --film out."
        ) from error
    finally:
        stage.close()


def leave_film(agent: Agent, path: Path) -> None:
    """The agent in its world, as it has come to behave."""
    from perstep.training.film import film

    film(agent, path)


def draw(folder: Path) -> None:
    """The figures of a run, from its files."""
    import polars

    from perstep.figures import training as figures

    metrics, record = polars.read_parquet(folder / METRICS), read_record(folder)
    evaluations = polars.read_parquet(folder / EVALUATIONS) if (folder / EVALUATIONS).exists() else None
    title = f"{record['algorithm']} in {record['world']}"
    exact = record.get("exact") or {}
    figures.quantile_convergence(folder / QUANTILES.removesuffix(".png"), metrics, exact, title)
    figures.reward_rate(folder / REWARD_RATE.removesuffix(".png"), metrics, exact, title, evaluations)
    if metrics["episodes"].sum():
        figures.episode_return(folder / EPISODE_RETURN.removesuffix(".png"), metrics, title, evaluations)


def versions() -> dict[str, str]:
    """Versions of what may change the bits of a run."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("perstep", *LIBRARIES):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def is_current(folder: Path, name: str) -> bool:
    """Whether what not every call renews, as the film, is of the agent as it now is."""
    record = read_record(folder)
    return name not in (EVALUATIONS, EVENTS, FILM) or record.get("current", {}).get(name) == record["steps"]


def read_record(folder: Path) -> dict[str, Any]:
    """What the run in a folder was asked, and how far it is."""
    record = read_json(folder / RUN)
    if not isinstance(record, dict) or not isinstance(record.get("settings", {}), dict):
        raise BadFile(f"{folder / RUN} should be the record of a run, an object in JSON, but is something else.")
    return record
