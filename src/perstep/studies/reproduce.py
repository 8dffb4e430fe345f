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
from perstep.figures import pendulum as pendulum_figures
from perstep.figures import redpill as redpill_figures
from perstep.figures import style
from perstep.figures import theory as theory_figures
from perstep.report import report
from perstep.studies import catalog, pendulum, redpill, theory
from perstep.studies.claims import Claim
from perstep.studies.engine import Tally
from perstep.studies.lock import locked
from perstep.studies.provenance import write_json, write_provenance
from perstep.studies.results import MissingRuns, Results
from perstep.studies.session import Orders, carry_out, duration, new_console


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the paper that can be asked for by name."""

    studies: Sequence[catalog.Study]
    figures: Mapping[str, Callable[[Results], Figure]]
    claims: Callable[[Results], list[Claim]]
    measure: Callable[[Path, catalog.Scale], tuple[int, int]] | None = None
    """For a part without a grid: make the tables that are not in the folder yet, and say how many were and how many were not."""


PARTS = {
    "redpill": Part(studies=catalog.REDPILL, figures=redpill_figures.FIGURES, claims=redpill.claims),
    "pendulum": Part(studies=catalog.PENDULUM, figures=pendulum_figures.FIGURES, claims=pendulum.claims),
    "theory": Part(studies=(), figures=theory_figures.FIGURES, claims=theory.claims, measure=theory.measure),
}

CLAIMS = "claims.json"
STYLES = {"holds": "green", "does not hold": "bold red", "not run": "dim"}

NOTHING = Tally(0, 0, 0, 0, ())

PLANNED = ("minatar", "atari")


def reproduce(parts: Sequence[str], scale: str, out: Path, orders: Orders | None = None) -> int:
    """Run the named parts of the paper (none named: all there are) into `out`; returns 0, or 1 if a run failed.

    What is there already is not run again, so that after an interruption the same command goes on. A claim that does not hold
    is a result, not a failure.
    """
    orders = orders or Orders()
    chosen, size = _parts(parts), catalog.scale_named(scale)
    console = new_console()
    failed = False
    for name in chosen:
        studies = [study.at(size) for study in PARTS[name].studies]
        results = Results(Path(out) / name / size.name, studies)
        with locked(results.folder, orders.share):
            failed |= _reproduce(name, PARTS[name], results, size, console, orders)
    if orders.share is None:  # a share alone has nothing to report
        console.print(f"report: {report(Path(out))}", highlight=False)
    return int(failed)


def _parts(names: Sequence[str]) -> list[str]:
    for name in names:
        if name in PLANNED:
            raise ValueError(f"The part {name!r} of the paper is not built yet; there is {', '.join(PARTS)}.")
        if name not in PARTS:
            raise unknown("part of the paper", name, PARTS)
    return list(dict.fromkeys(names)) or list(PARTS)


def _reproduce(name: str, part: Part, results: Results, size: catalog.Scale, console: Console, orders: Orders) -> bool:
    """One part; returns whether a run failed."""
    begin = time.monotonic()
    if part.measure is not None:
        if orders.shard.index:  # too little to share: the first shard does it all
            return False
        _measure(name, part.measure, results, size, console, orders)
    tally = carry_out(name, results, orders, console) if part.studies else NOTHING
    if tally.elsewhere:
        return bool(tally.failures)
    figures = _draw(part, results, console)
    _tell(part, results, console)
    console.print("figures:")
    for path in figures:
        console.print(f"  {path}", highlight=False)
    console.print(f"took {duration(time.monotonic() - begin)}")
    return bool(tally.failures)


def _measure(
    name: str,
    measure: Callable[[Path, catalog.Scale], tuple[int, int]],
    results: Results,
    size: catalog.Scale,
    console: Console,
    orders: Orders,
) -> None:
    begin = time.monotonic()
    console.print(f"{name}: measurements on exact worlds, into {results.folder}")
    found, made = measure(results.folder, size)
    seconds = time.monotonic() - begin
    rest = f" ({found} were there already)" if found else ""
    console.print(
        f"made {made} tables in {duration(seconds)}{rest}" if made else "everything is there; nothing had to run"
    )
    write_provenance(results.folder, command=orders.command, engine="local", seconds=seconds, runs=made)


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
    """The claims of the paper, as a file and as a table."""
    try:
        claims = part.claims(results)
    except MissingRuns as missing:
        console.print(Text(f"The claims are not judged. {missing}", style="red"))
        (results.folder / CLAIMS).unlink(missing_ok=True)  # of runs that are no longer there
        return
    write_json(results.folder / CLAIMS, [claim.to_json(part.figures) for claim in claims])
    study = next(iter(results.studies.values()), None)
    effort = f", with {study.num_runs} runs of {study.steps:,} steps" if study else ""
    table = Table(title=f"What the paper says{effort}", title_justify="left")
    for column in ("where", "claim", "measured", "tolerance", "verdict"):
        table.add_column(column)
    for claim in claims:
        verdict = Text(claim.verdict, STYLES[claim.verdict])
        table.add_row(claim.where, claim.says, claim.measured, claim.tolerance, verdict, end_section=True)
    console.print(table)
