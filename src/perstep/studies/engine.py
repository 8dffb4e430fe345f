"""How a study runs: every run is a function of (study, setting, seed), so threads, order and interruptions change nothing."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perstep.agents import Agent, QLearning, make_agent
from perstep.agents.worlds import open_world
from perstep.progress import Bar
from perstep.studies.catalog import Setting, Study
from perstep.studies.results import SCHEMA, Results, Row

TRACE_POINTS = 200  # looks at the quantiles of a traced run: more than a figure can show


@dataclass(frozen=True)
class Failure:
    """A configuration with a run that did not end well."""

    path: Path
    """Its file, which holds the runs that did."""
    error: str


@dataclass(frozen=True)
class Tally:
    """What had to be done, and what came of it."""

    found: int
    """Configurations that were there already."""
    made: int
    """Configurations that ran now."""
    steps: int
    """Steps that were taken now."""
    failures: tuple[Failure, ...]


def run(world: Any, study: Study, setting: Setting, seed: int) -> Row:
    """One run, as a row of the results; whatever goes wrong in it becomes the row's error."""
    row: Row = dict.fromkeys(SCHEMA) | {"description": study.description(setting), "seed": seed}
    try:
        agent = make_agent(study.algorithm, world, **study.fixed, **setting, seed=seed)
        agent.record_every(study.window, rows=2 * (study.steps // study.window // 2 + 1))
        traced = setting == study.traced
        looks = range(0, study.steps + 1, max(1, study.steps // TRACE_POINTS)) if traced else ()
        agent.learn(study.steps, progress=False, snapshot_at=looks)
        return row | _kept(agent, study, setting)
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}


def _kept(agent: Agent, study: Study, setting: Setting) -> Row:
    """What the results keep of a run."""
    rate = agent.history.reward_rate
    kept: Row = {
        "average_reward": float(np.mean(rate)),
        "estimated_average_reward": agent.average_reward,
        "reward_quantiles": agent.reward_quantiles.tolist(),
    }
    if isinstance(agent, QLearning):
        kept["greedy_actions"] = agent.policy(deterministic=True).argmax(axis=1).tolist()
    if setting == study.tuned:
        kept["reward_rate"] = rate.tolist()
    if setting == study.traced:
        kept["trace_steps"] = [look.step for look in agent.snapshots]
        kept["reward_quantile_trace"] = [look.reward_quantiles.tolist() for look in agent.snapshots]
        if study.traced_pair is not None:
            kept["return_quantile_trace"] = [look.values[study.traced_pair].tolist() for look in agent.snapshots]
    return kept


def complete(
    results: Results, *, threads: int | None = None, retry_failed: bool = False, progress: bool | None = None
) -> Tally:
    """Run what is not there yet, on all cores; a configuration is published as soon as its last run ends."""
    found, failures = 0, []
    missing: list[tuple[Study, Setting]] = []
    for study in results.studies.values():
        for setting in study.settings:
            frame = results.find(study, setting)
            failure = None if frame is None else _failure(results.path(study, setting), frame["error"].to_list())
            if frame is None or (failure and retry_failed):
                missing.append((study, setting))
                continue
            found += 1
            failures += [failure] if failure else []
    total = sum(study.steps * study.num_runs for study, _ in missing)
    if missing:
        failures += _run_all(results, missing, total, threads or len(os.sched_getaffinity(0)), progress)
    return Tally(found, len(missing), total, tuple(failures))


def _run_all(
    results: Results, missing: list[tuple[Study, Setting]], total: int, threads: int, progress: bool | None
) -> list[Failure]:
    failures, done, runs = [], 0, 0
    num_runs = sum(study.num_runs for study, _ in missing)
    shared = {name: _shared_world(name) for name in {study.world for study, _ in missing}}
    with ThreadPoolExecutor(threads) as pool, Bar(total, missing[0][0].part, show=progress) as bar:
        queue: list[list[Future[Row]]] = [
            [pool.submit(run, shared[study.world], study, setting, seed) for seed in study.seeds]
            for study, setting in missing
        ]
        try:
            for study, setting in missing:
                rows = []
                for future in queue.pop(0):
                    rows.append(future.result())
                    done, runs = done + study.steps, runs + 1
                    bar.update(done, f"{runs:,}/{num_runs:,} runs")
                results.write(study, setting, rows)
                failure = _failure(results.path(study, setting), [row["error"] for row in rows])
                failures += [failure] if failure else []
        except BaseException:  # the runs that wait are not worth waiting for: what is published stays
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failures


def _shared_world(name: str) -> Any:
    """The MDP behind a name, made once, since nothing in it changes; for other worlds the name, and each run makes its own."""
    mdp = open_world(name).mdp
    return name if mdp is None else mdp


def _failure(path: Path, errors: list[str | None]) -> Failure | None:
    first = next((error for error in errors if error is not None), None)
    return None if first is None else Failure(path, first)
