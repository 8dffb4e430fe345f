"""One run: a function of (study, setting, seed) only, so that engines, order and interruptions do not change its result."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from perstep.agent.agent import Agent
from perstep.agent.checks import FindingWarning
from perstep.agent.making import make_agent
from perstep.distributions.history import PENDING, REWARDS, History
from perstep.gym.opening import make, open_world
from perstep.numerics.schedules import Decay
from perstep.numerics.statistics import Floats
from perstep.rules.lattice import algorithm
from perstep.studies.measurement import Measurement, Row
from perstep.studies.provenance import versions
from perstep.studies.results import COARSE_POINTS, ROWS, SCHEMA, Experiment
from perstep.studies.run_checkpoints import FOLDER, RunCheckpoint
from perstep.studies.study import Setting, Study

TRACE_POINTS = 200  # how often the quantiles of a traced run are recorded: more points than a figure can show


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A configuration or some of its runs: one task for a thread, a process or a machine."""

    index: int
    """Position of the configuration in its results."""
    study: Experiment
    setting: Setting
    seeds: tuple[int, ...]
    code: str | None = None
    """A Python file to load first if the study is written in one: it may register the world."""
    timeout: float | None = None
    """Seconds after which a run is stopped and recorded as failed; None for no limit."""
    folder: str | None = None
    """The results folder. Long runs save checkpoints there, if this machine can access it."""

    def checkpoint(self, seed: int) -> RunCheckpoint | None:
        """The checkpoint of one of its runs; None if it cannot be saved."""
        if self.folder is None or not os.path.isdir(self.folder) or isinstance(self.study, Measurement):
            return None
        if self.setting == self.study.traced:  # its progress cannot be saved: traces are in memory only
            return None
        code = "" if self.code is None else Path(self.code).read_text(encoding="utf-8")
        about = [self.study.description(self.setting), seed, _window(self.study, self.setting), versions(), code]
        return RunCheckpoint(Path(self.folder, FOLDER), json.dumps(about))

    def split(self, most: int = 1) -> list[Unit]:
        """Its runs as smaller units of at most `most` runs each."""
        return [replace(self, seeds=self.seeds[i : i + most]) for i in range(0, len(self.seeds), most)]

    def failed(self, error: str) -> list[Row]:
        """The rows of its runs, all failed with this error, for an engine whose worker died."""
        return [_empty_row(self.study, self.setting, seed) | {"error": error} for seed in self.seeds]


UnitUpdate: TypeAlias = list[Row] | int
"""The rows of a unit that has ended, or the number of steps that its run has made so far."""
UnitUpdates: TypeAlias = Generator[tuple[Unit, UnitUpdate], None, None]
"""Units with their updates, in the order in which they arrive."""


def run_unit(unit: Unit, tell: Callable[[int], None] | None = None) -> list[Row]:
    """All runs of a unit, in the order of their seeds.

    `tell` is called with the number of steps done, at the start of a run and several times per second, except in compiled runs.
    """
    if isinstance(unit.study, Measurement):
        return [_measure(unit.study)]
    return [_run_in_its_world(unit, unit.study, seed, tell) for seed in unit.seeds]


def _measure(measurement: Measurement) -> Row:
    """The rows of a measurement, as one row. Any exception becomes its error."""
    assert measurement.effort is not None, "at() chooses the effort"
    row = _empty_row(measurement, {}, seed=0)
    try:
        with warnings.catch_warnings():  # a measurement shows what agent.check() would report
            warnings.simplefilter("ignore", FindingWarning)
            return row | {ROWS: measurement.measure(measurement.effort)}
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}


def run(
    world: Any,
    study: Study,
    setting: Setting,
    seed: int,
    checkpoint: RunCheckpoint | None = None,
    tell: Callable[[int], None] | None = None,
    timeout: float | None = None,
) -> Row:
    """One run, as a row of the results. Any exception becomes the error of the row. A run continues from its checkpoint."""
    row = _empty_row(study, setting, seed)
    begin = time.monotonic()

    def look(agent: Agent) -> None:
        if timeout is not None and time.monotonic() - begin > timeout:
            raise TimeoutError(f"the run had made {agent.steps:,} steps {took_too_long(timeout)}")
        if checkpoint is not None:
            checkpoint.save_if_due(agent)
        if tell is not None:
            tell(agent.steps)

    try:
        agent = checkpoint.load(world, study.steps) if checkpoint is not None else None
        if agent is None:
            agent = make_agent(study.algorithm, world, *_given(study, world), **_settings(study, setting), seed=seed)
            window = _window(study, setting)
            agent.record_every(window, rows=2 * (study.steps // window // 2 + 1), sketch=False)
        agent.may_diverge = True  # with a large step size an agent may diverge: that is a result, not an error
        if tell is not None:
            tell(agent.steps)
        traced = setting == study.traced
        looks = range(0, study.steps + 1, max(1, study.steps // TRACE_POINTS)) if traced else ()
        agent.learn(study.steps - agent.steps, progress=False, callback=look, snapshot_at=looks)
        if checkpoint is not None:
            checkpoint.save_end(agent)
        scores = getattr(world.unwrapped, "final_scores", None) if hasattr(world, "unwrapped") else None
        return row | _kept(agent, study, setting) | {"final_scores": scores}
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}


def took_too_long(timeout: float) -> str:
    """The end of the sentence about a run that was stopped."""
    return f"when its time limit of {timeout:g} seconds was over. Give a longer --run-timeout and --retry-failed."


def is_compiled(study: Experiment, code: str | None = None) -> bool:
    """Whether its runs are compiled loops, which can run in parallel threads. Other runs need one process each.

    A measurement needs one: it suppresses warnings, which threads share. The answer for a study creates the world, so it raises if
    the world does not exist or needs a library that is not installed.
    """
    if isinstance(study, Measurement):
        return False
    load_code(code)
    return _shared(study.world, json.dumps(dict(study.world_settings), sort_keys=True), study.algorithm) is not None


def try_out(study: Study, code: str | None = None) -> None:
    """Create the first agent of a study, so that errors in the world or in the settings are raised before anything runs."""
    load_code(code)
    world = make(study.world, **study.world_settings)
    try:
        setting = study.settings[0]
        make_agent(study.algorithm, world, *_given(study, world), **_settings(study, setting), seed=study.seeds[0])
    finally:
        world.close()


@functools.cache
def load_code(path: str | None) -> Any:
    """The module in a Python file, loaded once per process; None without a file."""
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location(f"perstep_study_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run_in_its_world(unit: Unit, study: Study, seed: int, tell: Callable[[int], None] | None) -> Row:
    """One run, in a new world or in the one that compiled runs share."""
    try:
        load_code(unit.code)
        with _ONE_AT_A_TIME:
            world = _shared(study.world, json.dumps(dict(study.world_settings), sort_keys=True), study.algorithm)
        own = make(study.world, **study.world_settings) if world is None else None
    except Exception as error:
        return replace(unit, seeds=(seed,)).failed(f"{type(error).__name__}: {error}")[0]
    if own is None:
        return run(world, study, unit.setting, seed, timeout=unit.timeout)
    try:
        return run(own, study, unit.setting, seed, unit.checkpoint(seed), tell, unit.timeout)
    finally:
        own.close()


_ONE_AT_A_TIME = threading.Lock()  # otherwise each thread would create the world


@functools.cache
def _shared(world: str, settings: str, name: str) -> Any:
    """The world that compiled runs share, since they do not change it; None if each run needs its own."""
    env = make(world, **json.loads(settings))
    opened, learner = open_world(env), algorithm(name).learner
    if opened.mdp is not None and learner.compiled_worlds == "finite":
        return opened.mdp
    if opened.motion is not None and learner.compiled_worlds == "motion":
        return env
    env.close()
    return None


def _empty_row(study: Experiment, setting: Setting, seed: int) -> Row:
    return dict.fromkeys(SCHEMA) | {"description": study.description(setting), "seed": seed}


def _settings(study: Study, setting: Setting) -> dict[str, Any]:
    """The settings of the agent. A network uses one thread by default, since the number of threads changes the last bits."""
    plain = {"preset": "paper", **study.fixed, **setting}  # study files name another preset (study_file.py)
    plain.pop("policy", None)
    if algorithm(study.algorithm).learner.values == "network":
        plain = {"threads": 1, **plain}
    return {name: Decay(**value) if isinstance(value, Mapping) else value for name, value in plain.items()}


def _given(study: Study, world: Any) -> tuple[Any, ...]:
    """The policy for a prediction algorithm: actions or probabilities per state, or "uniform". Empty for control algorithms."""
    if algorithm(study.algorithm).learner.control:
        return ()
    policy = study.fixed.get("policy", "uniform")
    if isinstance(policy, str) and policy != "uniform":
        raise ValueError(
            f"policy must be 'uniform' or a list of actions or probabilities, one per state, got {policy!r}."
        )
    return (_uniform(world),) if isinstance(policy, str) else (np.array(policy),)


def _uniform(world: Any) -> Callable[[Any], Any]:
    opened = open_world(world)
    actions = opened.mdp.num_actions if opened.mdp is not None else int(opened.env.action_space.n)
    return lambda _: np.full(actions, 1.0 / actions)


def _window(study: Study, setting: Setting) -> int:
    """Steps over which a reward rate is averaged: the study's window if a figure shows the curve, else 1/100 of the run."""
    return study.window if _is_shown(study, setting) else max(study.window, study.steps // COARSE_POINTS)


def _is_shown(study: Study, setting: Setting) -> bool:
    return setting == study.tuned or not study.tuned


def _kept(agent: Agent, study: Study, setting: Setting) -> Row:
    """The columns of the results that a successful run fills."""
    history = agent.history
    rate = history.reward_rate
    kept: Row = {
        "average_reward": _earned(history, rate),
        "late_reward": float(np.mean(rate[-max(1, len(rate) // 10) :])),
        "estimated_average_reward": agent.average_reward,
        "reward_quantiles": agent.reward_quantiles.tolist(),
    }
    learner = algorithm(study.algorithm).learner
    if learner.values == "table" and learner.control:
        table: Any = agent
        kept["greedy_actions"] = table.policy(deterministic=True).argmax(axis=1).tolist()
    kept["reward_rate"] = rate.tolist()
    if _is_shown(study, setting) and history.episodes.any():
        kept["episode_return"] = history.episode_return.tolist()
    if setting == study.traced:
        kept["trace_steps"] = [look.step for look in agent.snapshots]
        kept["reward_quantile_trace"] = [look.reward_quantiles.tolist() for look in agent.snapshots]
        if study.traced_pair is not None:
            kept["return_quantile_trace"] = [look.values[study.traced_pair].tolist() for look in agent.snapshots]
    return kept


def _earned(history: History, rate: Floats) -> float:
    """The mean reward over all steps, including those of an incomplete last window."""
    rest = int(history.record.cursor[PENDING])
    if not rest:
        return float(np.mean(rate))
    whole = float(np.sum(rate)) * history.window
    return (whole + float(history.record.pending[REWARDS])) / (rate.size * history.window + rest)
