"""One command for the paper's experiments: run what is missing, draw the figures, and say which claims hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perstep.errors import unknown
from perstep.figures import redpill as redpill_figures
from perstep.figures import style
from perstep.progress import si
from perstep.studies import catalog, engine, redpill
from perstep.studies.claims import Claim
from perstep.studies.results import MissingRuns, Results


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the paper that can be asked for by name."""

    studies: Sequence[catalog.Study]
    figures: Mapping[str, Callable[[Results], Figure]]
    claims: Callable[[Results], list[Claim]]


PARTS = {
    "redpill": Part(studies=catalog.REDPILL, figures=redpill_figures.FIGURES, claims=redpill.claims),
}

FILE_WIDTH = 132  # columns of the table of claims where no terminal says

PLANNED = ("pendulum", "theory", "minatar", "atari")


def reproduce(parts: Sequence[str], scale: str, out: Path, *, retry_failed: bool = False) -> int:
    """Run the named parts of the paper (none named: all there are) into `out`; returns 0, or 1 if a run failed.

    What is there already is not run again, so that after an interruption the same command goes on. A claim that does not hold
    is a result, not a failure.
    """
    chosen, size = _parts(parts), catalog.scale_named(scale)
    console = Console(soft_wrap=True)
    if not console.is_terminal:  # a file has no width of its own
        console.width = FILE_WIDTH
    failed = False
    for name in chosen:
        studies = [study.at(size) for study in PARTS[name].studies]
        results = Results(Path(out) / name / size.name, studies)
        failed |= _reproduce(name, PARTS[name], results, console, retry_failed=retry_failed)
    return int(failed)


def _parts(names: Sequence[str]) -> list[str]:
    for name in names:
        if name in PLANNED:
            raise ValueError(f"The part {name!r} of the paper is not built yet; there is {', '.join(PARTS)}.")
        if name not in PARTS:
            raise unknown("part of the paper", name, PARTS)
    return list(dict.fromkeys(names)) or list(PARTS)


def _reproduce(name: str, part: Part, results: Results, console: Console, *, retry_failed: bool) -> bool:
    """One part; returns whether a run failed."""
    begin = time.monotonic()
    studies = results.studies.values()
    configurations = sum(len(study.settings) for study in studies)
    runs = sum(len(study.settings) * study.num_runs for study in studies)
    steps = sum(len(study.settings) * study.num_runs * study.steps for study in studies)
    console.print(f"{name}: {configurations} configurations, {runs:,} runs, {si(steps)} steps, into {results.folder}")
    tally = engine.complete(results, retry_failed=retry_failed)
    seconds = time.monotonic() - begin
    if tally.made:
        rest = f" ({tally.found} were there already)" if tally.found else ""
        console.print(f"ran {tally.made} configurations in {_duration(seconds)}{rest}")
    else:
        console.print("everything is there; nothing had to run")
    for failure in tally.failures:
        console.print(Text(f"failed: {failure.path}\n  {failure.error}", style="red"))
    if tally.failures:
        console.print("Give --retry-failed to run again what failed.")
    figures = _draw(part, results, console)
    _tell(part, results, console)
    console.print("figures:")
    for path in figures:
        console.print(f"  {path}", highlight=False)
    console.print(f"took {_duration(time.monotonic() - begin)}")
    return bool(tally.failures)


def _draw(part: Part, results: Results, console: Console) -> list[Path]:
    written = []
    for name, draw in part.figures.items():
        try:
            with style.look():
                written += style.save(draw(results), results.folder / "figures" / name)
        except MissingRuns as missing:
            console.print(Text(f"{name} is not drawn. {missing}", style="red"))
    return written


def _tell(part: Part, results: Results, console: Console) -> None:
    """The claims of the paper as a table."""
    try:
        claims = part.claims(results)
    except MissingRuns as missing:
        console.print(Text(f"The claims are not judged. {missing}", style="red"))
        return
    study = next(iter(results.studies.values()))
    table = Table(
        title=f"What the paper says, with {study.num_runs} runs of {study.steps:,} steps", title_justify="left"
    )
    for column in ("where", "claim", "measured", "tolerance", "verdict"):
        table.add_column(column)
    for claim in claims:
        verdict = Text("holds", "green") if claim.holds else Text("does not hold", "bold red")
        table.add_row(claim.where, claim.says, claim.measured, claim.tolerance, verdict, end_section=True)
    console.print(table)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"
