"""A pool of processes with one run at a time in each: if a process dies, its run is known, and the others continue.

The pool of concurrent.futures cannot do this: there, one death ends all runs, and a run that has begun cannot be stopped.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from perstep.studies.measurement import Row
from perstep.studies.runs import Unit, UnitUpdate, UnitUpdates, run_unit, took_too_long
from perstep.system.signals import cause_of_exit, ignore_interrupts

ATTEMPTS = 3  # at a run whose process died, before it is recorded as failed
PATIENCE = 30.0  # seconds for a run to notice by itself that its time is over; includes the start of its process
EXIT_PATIENCE = 5.0  # seconds for a process to end by itself, so that its exit code tells why


class Worker:
    """A process, and the unit that it runs."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # on every system; a fork of a process with threads may hang
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: Unit | None = None
        self.attempt = 0
        self.deadline = math.inf  # when its run is given up

    def begin(self, unit: Unit, attempt: int) -> None:
        """Start to run a unit."""
        self.unit, self.attempt = unit, attempt
        self.deadline = math.inf if unit.timeout is None else time.monotonic() + unit.timeout + PATIENCE
        with contextlib.suppress(OSError):  # the process died while idle, which `receive` will report
            self.connection.send(unit)

    def receive(self) -> UnitUpdate | None:
        """The rows of the unit, or the steps of its run so far; None if the process died."""
        try:
            return self.connection.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            return None

    def end(self, patience: float = 0.0) -> int | None:
        """End the process, and the run in it. Returns its exit code if it ends by itself within `patience` seconds."""
        self.connection.close()
        self.process.join(patience)
        code: int | None = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.process.close()
        return code


def work_in_processes(units: Sequence[Unit], size: int) -> UnitUpdates:
    """Run all units in `size` processes; yields their rows in the order in which they end, and the steps of each so far."""
    waiting = deque((unit, 1) for unit in units)
    idle: list[Worker] = []
    busy: dict[Any, Worker] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < size:
                worker = idle.pop() if idle else Worker()
                busy[worker.connection] = worker
                worker.begin(*waiting.popleft())
            deadline = min(worker.deadline for worker in busy.values())
            for ready in wait(list(busy), None if deadline == math.inf else max(deadline - time.monotonic(), 0.0)):
                worker = busy.pop(ready)
                unit, update = worker.unit, worker.receive()
                assert unit is not None
                if update is not None:
                    if isinstance(update, int):
                        busy[ready] = worker
                    else:
                        idle.append(worker)
                    yield unit, update
                    continue
                cause = cause_of_exit(worker.end(EXIT_PATIENCE))
                if worker.attempt < ATTEMPTS:
                    waiting.appendleft((unit, worker.attempt + 1))
                else:
                    yield unit, unit.failed(f"ProcessDied: its process ended {cause}, each of {ATTEMPTS} times.")
            for late in [each for each in busy.values() if each.deadline <= time.monotonic()]:
                del busy[late.connection]
                unit = late.unit
                late.end()
                assert unit is not None
                assert unit.timeout is not None
                yield unit, unit.failed(f"TimeoutError: the run hung {took_too_long(unit.timeout)}")
    finally:
        for worker in (*busy.values(), *idle):
            worker.end()


def run_in_process(unit: Unit) -> list[Row]:
    """The rows of a unit, run in a process of its own, which can be ended if the world hangs."""
    return next(rows for _, rows in work_in_processes([unit], 1) if not isinstance(rows, int))


def _serve(connection: Connection) -> None:
    """The main function of a process: receive units and send their rows, until the parent closes the connection."""
    ignore_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(run_unit(connection.recv(), tell=connection.send))


def _end_with_parent() -> None:
    """End this process when its parent has ended: nobody would read the rows of its run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
