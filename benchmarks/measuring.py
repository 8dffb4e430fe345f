"""How the benchmarks measure: the best of several tries, taken in turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

console = Console()


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turns(works: Sequence[Callable[[], object]], tries: int = 5) -> list[float]:
    """The shortest time of each work, over several rounds in which each has its turn."""
    times = [[seconds(work) for work in works] for _ in range(tries)]
    return [min(column) for column in zip(*times, strict=True)]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    shown = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        shown.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        shown.add_row(*map(str, row))
    console.print(shown)


def rate(steps_per_second: float) -> str:
    return f"{steps_per_second / 1e6:.2f}M" if steps_per_second >= 1e5 else f"{steps_per_second:,.0f}"
