"""All cores of this machine: compiled runs in threads, which hold no lock, and all other runs in processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

from perstep.studies.engines.crew import work_in_processes
from perstep.studies.results import Row
from perstep.studies.runs import Unit, Work, is_compiled, run_unit

SHORT = 2_000_000  # steps, less than a second of most algorithms


@dataclass(frozen=True)
class LocalEngine:
    """Threads and processes, as many as there are cores unless told otherwise."""

    cores: int | None = None
    name: str = "local"

    def work(self, units: Sequence[Unit]) -> Work:
        """The rows of all units, run by run."""
        cores = self.cores or len(os.sched_getaffinity(0))
        compiled = [unit for unit in units if is_compiled(unit.study, unit.code)]
        others = [unit for unit in units if not is_compiled(unit.study, unit.code)]
        yield from _work_in_threads([few for unit in compiled for few in unit.split(_together(unit, cores))], cores)
        yield from work_in_processes([run for unit in others for run in unit.split()], cores)


def _together(unit: Unit, cores: int) -> int:
    """Runs to hand out at once: for short ones, to hand out each alone would cost more than it is worth."""
    return max(1, min(SHORT // unit.study.steps, -(-len(unit.seeds) // cores)))


def _work_in_threads(runs: Sequence[Unit], threads: int) -> Work:
    done: SimpleQueue[tuple[Unit, Future[list[Row]]]] = SimpleQueue()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for unit in runs:
                future = pool.submit(run_unit, unit)
                future.add_done_callback(lambda ended, unit=unit: done.put((unit, ended)))  # type: ignore[misc]
            for _ in runs:
                unit, ended = done.get()
                yield unit, ended.result()
        finally:  # if somebody stopped: the runs that wait are not worth waiting for
            pool.shutdown(wait=False, cancel_futures=True)
