"""A progress bar for anything that takes longer than a glance, and silence for the rest."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0  # seconds without a bar that nobody minds


class Bar:
    """Shows itself on the terminal after two seconds, or at once if asked to; never if told not to."""

    def __init__(self, total: int, what: str, *, show: bool | None = None, unit: str = "steps") -> None:
        self._total, self._what, self._show, self._unit = total, what, show, unit
        self._begin = time.monotonic()
        self._shown: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._show:
            self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def update(self, done: int, note: str = "") -> None:
        """Say that `done` of the total are done."""
        if self._shown is None and self._show is None and sys.stderr.isatty() and self._elapsed() > PATIENCE:
            self._open()
        if self._shown is not None:
            rate = done / max(self._elapsed(), 1e-9)
            self._shown.update(self._task, completed=done, note=f"{si(rate)} {self._unit}/s  {note}")

    def _elapsed(self) -> float:
        return time.monotonic() - self._begin

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._shown = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.fields[note]}"), TimeRemainingColumn(), console=Console(stderr=True),
        )  # fmt: skip
        self._task = self._shown.add_task(self._what, total=self._total, note="")
        self._shown.start()


def si(number: float) -> str:
    """A number of things in three digits and a letter: 12.3M."""
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
