"""Complete a study: find the missing configurations, let an engine run them, and publish each one when its last run ends."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perstep.display.progress import Bar
from perstep.studies.engines import Engine, LocalEngine
from perstep.studies.measurement import Row
from perstep.studies.results import Results, errors
from perstep.studies.run_checkpoints import FOLDER
from perstep.studies.runs import Unit


@dataclass(frozen=True)
class Shard:
    """One of `count` equal shares of a study: the configurations whose position modulo `count` is `index`."""

    index: int
    count: int

    @classmethod
    def of(cls, text: str) -> Shard:
        """From "i/n", for example --shard 0/4."""
        index, slash, count = text.partition("/")
        if slash and index.isdecimal() and count.isdecimal() and int(index) < int(count):
            return cls(int(index), int(count))
        raise ValueError(f"A shard must be i/n with i from 0 to n − 1, for example 0/4, 1/4, 2/4 or 3/4, got {text!r}.")

    def __contains__(self, index: int) -> bool:
        return index % self.count == self.index


WHOLE = Shard(0, 1)


@dataclass(frozen=True)
class Failure:
    """A configuration with at least one failed run."""

    path: Path
    """Its file, which also holds the successful runs."""
    runs: str
    """How many of its runs failed, for example "2 of 50"."""
    error: str
    """The error of the first failed run."""


@dataclass(frozen=True)
class Summary:
    """What was found, what ran, and what failed."""

    found: int
    """Configurations that had results already."""
    made: int
    """Configurations that were run."""
    steps: int
    """Steps that were run."""
    runs: int
    """Runs that were run."""
    failures: tuple[Failure, ...]
    elsewhere: int = 0
    """Missing configurations that belong to other shards."""
    damaged: tuple[Path, ...] = ()
    """Damaged files that were set aside, and whose runs were run again."""


def complete(
    results: Results,
    *,
    engine: Engine | None = None,
    threads: int | None = None,
    shard: Shard = WHOLE,
    retry_failed: bool = False,
    progress: bool | None = None,
    code: str | None = None,
    run_timeout: float | None = None,
) -> Summary:
    """Run the missing configurations. Each one is published as soon as its last run ends.

    `engine`: all cores of this machine if not given, or as many as `threads`. `code`: a Python file that every process loads first.
    `run_timeout`: seconds after which a run is stopped and recorded as failed.
    """
    found, elsewhere, failures, damaged = 0, 0, [], []
    missing: list[Unit] = []
    for index, (study, setting) in enumerate(results.expected()):
        if index not in shard:
            elsewhere += results.find(study, setting) is None
            continue
        frame, aside = results.find_or_set_aside(study, setting)
        damaged += [aside] if aside else []
        failure = None if frame is None else _failure(results.path(study, setting), errors(study, frame))
        if frame is None or (failure and retry_failed):
            seeds, folder = tuple(study.seeds), str(results.folder.absolute())
            unit = Unit(index=index, study=study, setting=setting, seeds=seeds, code=code, folder=folder)
            missing.append(replace(unit, timeout=run_timeout))
            continue
        found += 1
        failures += [failure] if failure else []
    if missing:
        failures += _run_all(results, missing, engine or LocalEngine(threads), progress)
    if shard == WHOLE and not results.tuned_only:  # what is left there belongs to studies that have changed since
        shutil.rmtree(results.folder / FOLDER, ignore_errors=True)
    total = sum(unit.study.steps * len(unit.seeds) for unit in missing)
    num_runs = sum(len(unit.seeds) for unit in missing)
    return Summary(found, len(missing), total, num_runs, tuple(failures), elsewhere, tuple(damaged))


def _run_all(results: Results, units: Sequence[Unit], engine: Engine, progress: bool | None) -> list[Failure]:
    failures: list[Failure] = []
    total = sum(unit.study.steps * len(unit.seeds) for unit in units)
    num_runs = sum(len(unit.seeds) for unit in units)
    whole = {unit.index: unit for unit in units}
    partial: dict[int, list[Row]] = {}
    under_way: dict[tuple[int, tuple[int, ...]], int] = {}  # (configuration, seeds) → steps of runs that have not ended
    done = found = runs = failed = published = 0

    def tell() -> str:
        return f"{runs:,}/{num_runs:,} runs" + (f", {failed:,} failed" if failed else "")

    with (
        Bar(total, units[0].study.part.partition("/")[0], show=progress, unit=units[0].study.unit, lines=True) as bar,
        contextlib.closing(engine.work(units)) as work,
    ):
        for unit, rows in work:
            which = (unit.index, unit.seeds)
            if isinstance(rows, int):
                found += rows if which not in under_way else 0
                under_way[which] = rows
                bar.update(done + sum(under_way.values()), tell(), found)
                continue
            under_way.pop(which, None)
            partial.setdefault(unit.index, []).extend(rows)
            done, runs = done + unit.study.steps * len(rows), runs + len(rows)
            failed += sum(row["error"] is not None for row in rows)
            bar.update(done + sum(under_way.values()), tell(), found)
            if len(partial[unit.index]) == len(whole[unit.index].seeds):
                failure = _publish(results, whole[unit.index], partial.pop(unit.index), published)
                published += 1
                failures += [failure] if failure else []
    return sorted(failures, key=lambda failure: failure.path)


def _publish(results: Results, unit: Unit, rows: list[Row], before: int) -> Failure | None:
    rows.sort(key=lambda row: unit.seeds.index(row["seed"]))
    results.write(unit.study, unit.setting, rows, f"The {before} configurations that were published before it")
    if (results.folder / FOLDER).is_dir():  # skipped for compiled runs: they are many, and they leave no files there
        for seed in unit.seeds:
            if (checkpoint := unit.checkpoint(seed)) is not None:
                checkpoint.remove()
    return _failure(results.path(unit.study, unit.setting), [row["error"] for row in rows])


def _failure(path: Path, errors: list[str | None]) -> Failure | None:
    known = [error for error in errors if error is not None]
    return Failure(path, f"{len(known)} of {len(errors)}", known[0]) if known else None
