"""The engine that uses all cores of this machine: threads for compiled runs, which hold no lock, processes for all others."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

from perstep.studies.engines.process_pool import work_in_processes
from perstep.studies.measurement import Row
from perstep.studies.runs import Unit, UnitUpdates, is_compiled, run_unit
from perstep.system.processors import usable_cores

BATCH_STEPS = 2_000_000  # of the short runs that a thread gets at once: less than a second for most algorithms


@dataclass(frozen=True)
class LocalEngine:
    """Threads and processes, as many as there are cores unless `cores` is given."""

    cores: int | None = None
    name: str = "local"

    def work(self, units: Sequence[Unit]) -> UnitUpdates:
        """The rows of all units, run by run."""
        cores = self.cores or usable_cores()
        compiled = [unit for unit in units if is_compiled(unit.study, unit.code)]
        others = [unit for unit in units if not is_compiled(unit.study, unit.code)]
        yield from _work_in_threads([part for unit in compiled for part in unit.split(_batch(unit, cores))], cores)
        yield from work_in_processes([run for unit in others for run in unit.split()], cores)


def _batch(unit: Unit, cores: int) -> int:
    """Number of runs that a thread gets at once: to hand out short runs one by one would cost more than to run them."""
    return max(1, min(BATCH_STEPS // unit.study.steps, -(-len(unit.seeds) // cores)))


def _work_in_threads(runs: Sequence[Unit], threads: int) -> UnitUpdates:
    done: SimpleQueue[tuple[Unit, Future[list[Row]]]] = SimpleQueue()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for unit in runs:
                future = pool.submit(run_unit, unit)
                future.add_done_callback(lambda ended, unit=unit: done.put((unit, ended)))  # type: ignore[misc]
            for _ in runs:
                unit, ended = done.get()
                yield unit, ended.result()
        finally:  # after an exception, or if the caller stops: runs that have not begun are cancelled
            pool.shutdown(wait=False, cancel_futures=True)
