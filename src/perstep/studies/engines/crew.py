"""Runs in processes, one at a time in each: if a process dies, it is known whose run it was, and the others go on.

concurrent.futures has a pool of processes too, but there one death ends all runs, and a run under way cannot be stopped.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from perstep.studies.runs import News, Unit, Work, run_unit

ATTEMPTS = 3  # at a run whose process died, before it is recorded as failed


class Worker:
    """A process, and the unit that it has in hand."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: Unit | None = None
        self.attempt = 0

    def begin(self, unit: Unit, attempt: int) -> None:
        """Take a unit in hand."""
        self.unit, self.attempt = unit, attempt
        with contextlib.suppress(OSError):  # it died while idle: seen when its rows do not come
            self.connection.send(unit)

    def news(self) -> News | None:
        """What came of the unit, or how far it is; None if the process died."""
        try:
            return self.connection.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            return None

    def end(self, patience: float = 0.0) -> int | None:
        """Stop, whatever is in hand; returns the exit code of one that ends by itself in so many seconds."""
        self.connection.close()
        self.process.join(patience)
        code: int | None = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.process.close()
        return code


def work_in_processes(units: Sequence[Unit], size: int) -> Work:
    """The rows of all units, as they come, and how far each is."""
    waiting = deque((unit, 1) for unit in units)
    idle: list[Worker] = []
    busy: dict[Any, Worker] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < size:
                worker = idle.pop() if idle else Worker()
                busy[worker.connection] = worker
                worker.begin(*waiting.popleft())
            for ready in wait(list(busy)):
                worker = busy.pop(ready)
                unit, news = worker.unit, worker.news()
                assert unit is not None
                if news is not None:
                    if isinstance(news, int):
                        busy[ready] = worker
                    else:
                        idle.append(worker)
                    yield unit, news
                    continue
                code = worker.end(patience=5.0)
                if worker.attempt < ATTEMPTS:
                    waiting.appendleft((unit, worker.attempt + 1))
                else:
                    yield unit, unit.failed(f"ProcessDied: its process ended {_cause(code)}, each of {ATTEMPTS} times.")
    finally:
        for worker in (*busy.values(), *idle):
            worker.end()


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}" + (", perhaps for want of memory" if code == -signal.SIGKILL else "")
    return f"with exit code {code}"


def _serve(connection: Connection) -> None:
    """The life of a process: units in, rows out, until nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started all this, who ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(run_unit(connection.recv(), tell=connection.send))


def _end_with_parent() -> None:
    """A run whose study was killed would go on for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
