"""A progress bar for work that takes longer than two seconds; plain lines where there is no terminal. Times in words."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0  # seconds before a bar appears
LINE_EVERY = 30.0  # seconds between two lines, at first
LINE_SHARE = 20  # later, one part in this many of the elapsed time, so that a long run does not fill a log


class Bar:
    """A progress bar on the terminal: after two seconds (`show=None`), at once (True) or never (False).

    With `lines`, an output that is not a terminal (a log, a file) gets a plain line from time to time. `total` is None where nobody
    knows how much there is to do.
    """

    def __init__(
        self, total: int | None, what: str, *, show: bool | None = None, unit: str = "steps", lines: bool = False
    ) -> None:
        self._total, self._what, self._show, self._unit = total, what, show, unit
        self._begin = time.monotonic()
        self._done, self._found = 0, 0
        self._note: str | Callable[[], str] = ""
        self._ended = threading.Event() if lines and show is None else None
        self._shown: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._show:
            self._open()
        elif self._ended is not None and not sys.stderr.isatty():
            threading.Thread(target=self._print_lines, args=(self._ended,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended is not None:
            self._ended.set()
        if self._shown is not None:
            self._shown.stop()

    def update(self, done: int, note: str | Callable[[], str] = "", found: int = 0) -> None:
        """Set the number of units that are done, `found` of them before this bar began: those do not count for the speed. A note
        that takes time is a function, called when it is shown."""
        self._done, self._note, self._found = done, note, found
        if self._shown is None and self._show is None and sys.stderr.isatty() and self._elapsed() > PATIENCE:
            self._open()
        if self._shown is not None:
            self._shown.update(self._task, completed=done, note=self._told())

    def _said(self) -> str:
        return self._note() if callable(self._note) else self._note

    def _print_lines(self, ended: threading.Event) -> None:
        while not ended.wait(max(LINE_EVERY, self._elapsed() / LINE_SHARE)):
            print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        """The progress as a line, such as "redpill: 25%, 44/175 runs, 7.2M steps/s, 1 min 31 s left"."""
        if self._total is None:
            known = (f"{self._done:,} {self._unit}", self._said(), f"after {duration(self._elapsed())}")
            return f"{self._what}: {', '.join(filter(None, known))}"
        rate = self._rate()
        left = f"{duration((self._total - self._done) / rate)} left" if rate else "time left not known yet"
        words = (f"{self._done / max(self._total, 1):.0%}", self._said(), f"{si(rate)} {self._unit}/s", left)
        return f"{self._what}: {', '.join(filter(None, words))}"

    def _told(self) -> str:
        """What stands beside the bar."""
        if self._total is None:
            return f"{self._done:,} {self._unit}  {self._said()}"
        return f"{si(self._rate())} {self._unit}/s  {self._said()}"

    def _rate(self) -> float:
        return (self._done - self._found) / max(self._elapsed(), 1e-9)

    def _elapsed(self) -> float:
        return time.monotonic() - self._begin

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        share, clock = [TextColumn("{task.percentage:3.0f}%")], TimeRemainingColumn()
        self._shown = Progress(
            TextColumn("{task.description}"), BarColumn(), *(share if self._total is not None else []),
            TextColumn("{task.fields[note]}"), clock if self._total is not None else TimeElapsedColumn(),
            console=Console(stderr=True),
        )  # fmt: skip
        self._task = self._shown.add_task(self._what, total=self._total, note="")
        self._shown.start()


def duration(seconds: float) -> str:
    """Seconds in words: "8.2 s", "2 min 5 s", "3 h 20 min", "4 days 3 h"."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def si(number: float) -> str:
    """A number with three digits and an SI prefix: "12.3M"."""
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
