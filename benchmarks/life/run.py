"""What agents earn over their whole life: scores per world, agent, seed and moment, as one Parquet file.

python benchmarks/life/run.py --steps 1e5 --seeds 10 --worlds choose --agents planner,tsde --out results/life.parquet

A score is the mean reward since the first step, on a scale where 0 is the uniformly random policy and 1 the optimum, both exact
in the long run. Lives that are in the file are skipped. The file is published by rename, so it is complete at all times.

The engine of studies (perstep.studies.engines) does not carry this: its unit is an algorithm of the lattice in a world with a
Gymnasium id, and its workers call `run_unit` and nothing else. Peers are neither, so a pool of processes runs plain tasks here.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from peers import PEERS, moments_until

import perstep
from perstep.agent.tracking import totals
from perstep.display.progress import Bar
from perstep.files.storage import read_table, write_table
from worlds import WORLDS, Bounds, bounds

SAVE_EVERY = 5.0  # seconds

SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "group": pl.String,
    "states": pl.Int64,
    "actions": pl.Int64,
    "small": pl.Boolean,  # at most 100 pairs
    "agent": pl.String,
    "seed": pl.Int64,
    "steps": pl.Int64,  # the moment: steps lived
    "reward": pl.Float64,  # mean reward since the first step
    "score": pl.Float64,
    "random": pl.Float64,
    "optimum": pl.Float64,
    "seconds": pl.Float64,  # of the whole run
    "error": pl.String,  # why the run failed, then there is one row with null reward and score
}


class Task(NamedTuple):
    """One life."""

    world: str
    agent: str
    seed: int
    steps: int


# ----------------------------------------------------------------------------------------------------------- our agents


def lifetime_reward(agent: Any) -> float:
    """The mean reward per step since the first step."""
    known = getattr(agent.history, "lifetime_reward", None)
    return totals(agent).rewards / agent.steps if known is None else float(known)


def life_of(make: Callable[[perstep.FiniteMDP, int], Any]) -> Callable[[perstep.FiniteMDP, int, int], np.ndarray]:
    """A life of one of our agents with its defaults, in the form of the peers."""

    def live(mdp: perstep.FiniteMDP, steps: int, seed: int) -> np.ndarray:
        agent, earned = make(mdp, seed), []
        for moment in moments_until(steps).tolist():
            agent.learn(moment - agent.steps, progress=False)
            earned.append(lifetime_reward(agent))
        return np.array(earned)

    return live


OURS = {
    "planner": life_of(lambda mdp, seed: perstep.Planner(mdp, seed=seed)),
    "differential-q": life_of(lambda mdp, seed: perstep.QLearning(mdp, rule="differential", seed=seed)),
    "d2-q": life_of(lambda mdp, seed: perstep.QLearning(mdp, rule="d2", seed=seed)),
    "d3-q": life_of(lambda mdp, seed: perstep.QLearning(mdp, rule="d3", seed=seed)),
}
AGENTS = {**OURS, **PEERS}


# ----------------------------------------------------------------------------------------------------------------- runs


@functools.cache
def opened(name: str) -> tuple[perstep.FiniteMDP, Bounds]:
    """A world and what its scores are measured by, once per process."""
    mdp = WORLDS[name].make()
    return mdp, bounds(mdp)


def life(task: Task) -> list[dict[str, Any]]:
    """The rows of one life. Any exception becomes the error of one row."""
    mdp, (low, high) = opened(task.world)
    world = WORLDS[task.world]
    about = {
        "world": task.world, "group": world.group, "states": mdp.num_states, "actions": mdp.num_actions,
        "small": world.small, "agent": task.agent, "seed": task.seed, "random": low, "optimum": high,
    }  # fmt: skip
    begin = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # findings about what was learnt: only what was earned counts here
            earned = AGENTS[task.agent](mdp, task.steps, task.seed)
    except Exception as error:
        return [about | {"steps": task.steps, "error": f"{type(error).__name__}: {error}"}]
    about["seconds"] = time.monotonic() - begin
    moments = moments_until(task.steps).tolist()
    return [
        about | {"steps": moment, "reward": reward, "score": (reward - low) / (high - low)}
        for moment, reward in zip(moments, earned.tolist(), strict=True)
    ]


def read(path: Path, retry_failed: bool) -> pl.DataFrame:
    """The rows so far."""
    rows = read_table(path).select(list(SCHEMA)) if path.exists() else pl.DataFrame(schema=SCHEMA)
    return rows.filter(pl.col("error").is_null()) if retry_failed else rows


def merged(rows: pl.DataFrame, new: list[dict[str, Any]]) -> pl.DataFrame:
    """With new rows; of a moment that is there already, the first row stays, for a longer life gives it again."""
    added = pl.DataFrame(new, schema=SCHEMA)
    key = ["world", "agent", "seed", "steps"]
    return pl.concat([rows, added]).unique(key, keep="first", maintain_order=True).sort(key)


def missing(rows: pl.DataFrame, tasks: Iterator[Task]) -> list[Task]:
    """The tasks whose last moment is not among the rows."""
    there = set(rows.select("world", "agent", "seed", "steps").iter_rows())
    return [task for task in tasks if tuple(task) not in there]


def complete(path: Path, tasks: Iterator[Task], processes: int = 2, retry_failed: bool = False) -> None:
    """Run the missing tasks in a pool of processes, all worlds and agents with the first seed first."""
    rows = read(path, retry_failed)
    left = missing(rows, tasks)
    new: list[dict[str, Any]] = []
    saved, done, failed = time.monotonic(), 0, 0
    context = multiprocessing.get_context("spawn")
    try:
        with (
            Bar(sum(task.steps for task in left), "life", lines=True) as bar,
            ProcessPoolExecutor(processes, context) as pool,
        ):
            try:
                running = {pool.submit(life, task): task for task in left}
                for number, ended in enumerate(as_completed(running), start=1):
                    result = ended.result()
                    new += result
                    done, failed = done + running[ended].steps, failed + any(row.get("error") for row in result)
                    bar.update(done, f"{number:,}/{len(left):,} lives" + (f", {failed:,} failed" if failed else ""))
                    if time.monotonic() - saved > SAVE_EVERY:
                        rows, new, saved = merged(rows, new), [], time.monotonic()
                        write_table(path, rows)
            finally:  # after an interrupt: what has not begun does not begin
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        if new:
            rows = merged(rows, new)
            write_table(path, rows)
    print(f"{len(left) - failed:,} lives run, {failed:,} failed; {path}")
    errors = rows.filter(pl.col("error").is_not_null())
    for world, agent, seed, error in errors.select("world", "agent", "seed", "error").iter_rows():
        print(f"failed: {world}, {agent}, seed {seed}: {error}")


def chosen(text: str, known: list[str], what: str) -> list[str]:
    """Names from a list with commas."""
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"There is no {what} {unknown[0]!r}; there are {', '.join(known)}.")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, default=1e5, help="of each life")
    parser.add_argument(
        "--seeds", type=int, default=10, help="lives of each agent in each world, with the seeds 0, 1, …"
    )
    parser.add_argument("--worlds", default="choose", help="choose, judge, all, or names with commas")
    parser.add_argument("--agents", default=",".join(AGENTS), help=f"names with commas, of {', '.join(AGENTS)}")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the Parquet file to write or to complete"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--retry-failed", action="store_true", help="run lives again that failed")
    arguments = parser.parse_args()
    groups = {
        "all": list(WORLDS),
        **{group: [name for name in WORLDS if WORLDS[name].group == group] for group in ("choose", "judge")},
    }
    worlds = groups.get(arguments.worlds) or chosen(arguments.worlds, list(WORLDS), "world")
    agents = chosen(arguments.agents, list(AGENTS), "agent")
    if "planner" in agents and not hasattr(perstep, "Planner"):
        raise SystemExit("This perstep has no Planner. Name other --agents.")
    steps = int(arguments.steps)
    tasks = (Task(w, a, seed, steps) for seed, w, a in itertools.product(range(arguments.seeds), worlds, agents))
    complete(arguments.out, tasks, arguments.processes, arguments.retry_failed)


if __name__ == "__main__":
    main()
