"""One command for the paper's experiments: run what is missing, draw the figures, and say which claims hold."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perstep.algorithms import algorithm
from perstep.errors import unknown
from perstep.figures import games as games_figures
from perstep.figures import pendulum as pendulum_figures
from perstep.figures import redpill as redpill_figures
from perstep.figures import style
from perstep.figures import theory as theory_figures
from perstep.progress import duration
from perstep.report import report
from perstep.report.paper import tables
from perstep.studies import catalog, games, pendulum, redpill, theory
from perstep.studies.claims import Claim
from perstep.studies.engine import Tally
from perstep.studies.folder_lock import locked
from perstep.studies.provenance import write_json, write_provenance
from perstep.studies.results import MissingRuns, Results, explained, publishing
from perstep.studies.runs import try_out
from perstep.studies.session import Orders, carry_out, new_console


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the paper that can be asked for by name."""

    studies: Sequence[catalog.Study]
    figures: Mapping[str, Callable[[Results], Figure]] = field(default_factory=dict)
    claims: Callable[[Results], list[Claim]] = lambda _: []
    measure: Callable[[Path, catalog.Scale], tuple[int, int]] | None = None
    """For a part without a grid: make the tables that are not in the folder yet, and say how many were and how many were not."""


def _games(*names: str) -> dict[str, Callable[[Results], Figure]]:
    return {name: games_figures.FIGURES[name] for name in names}


PARTS = {
    "redpill": Part(studies=catalog.REDPILL, figures=redpill_figures.FIGURES, claims=redpill.claims),
    "pendulum": Part(studies=catalog.PENDULUM, figures=pendulum_figures.FIGURES, claims=pendulum.claims),
    "theory": Part(studies=(), figures=theory_figures.FIGURES, claims=theory.claims, measure=theory.measure),
    "minatar": Part(studies=catalog.MINATAR, figures=_games("figure_4", "figure_late_returns"), claims=games.claims),
    "minatar-tuning": Part(studies=catalog.MINATAR_TUNING),
    "atari": Part(studies=catalog.ATARI, figures=games_figures.FIGURES, claims=games.claims),
    "atari-short": Part(studies=catalog.ATARI_SHORT, figures=_games("figure_4", "figure_c8")),
}
BY_DEFAULT = ("redpill", "pendulum", "theory")  # minutes; the games take hours, or a cluster, and are run when named

CLAIMS = "claims.json"
STYLES = {"holds": "green", "does not hold": "bold red", "not run": "dim"}

NOTHING = Tally(0, 0, 0, 0, ())


def reproduce(parts: Sequence[str], scale: str, out: Path, orders: Orders | None = None) -> int:
    """Run the named parts of the paper (none named: those that take minutes) into `out`; returns 0, or 1 if a run failed.

    What is there already is not run again, so that after an interruption the same command goes on. A claim that does not hold
    is a result, not a failure.
    """
    orders = orders or Orders()
    chosen, size = _parts(parts), catalog.scale_named(scale)
    every = {
        name: Results(
            Path(out) / name / size.name,
            [study.at(size) for study in PARTS[name].studies],
            tuned_only=orders.tuned_only,
        )
        for name in chosen
    }
    for results in every.values():
        _check(results)
    console = new_console()
    failed = False
    for name, results in every.items():
        with locked(results.folder, orders.share):
            failed |= _reproduce(name, PARTS[name], results, size, console, orders)
    if orders.share is None:  # a share alone has nothing to report
        with explained(Path(out) / "report.html"):
            console.print(f"report: {report(Path(out))}", highlight=False)
    return int(failed)


def _parts(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in PARTS:
            raise unknown("part of the paper", name, PARTS)
    return list(dict.fromkeys(names or BY_DEFAULT))


def _check(results: Results) -> None:
    """Refuse a part whose networks or games lack a library, before anything runs; what is all there needs none."""
    for study, setting in results.configurations():
        if algorithm(study.algorithm).learner.values == "network" and not results.path(study, setting).exists():
            try_out(study)
            return


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
    drawn = {"figures": _draw(part, results, console), "tables": _write_tables(name, results)}
    _tell(part, results, console)
    for what, paths in drawn.items():
        if paths:
            console.print(f"{what}:")
        for _, (first, *others) in itertools.groupby(paths, lambda path: path.stem):
            also = ", ".join(path.suffix.removeprefix(".") for path in others)
            console.print(f"  {first} ({also})", highlight=False)
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
                figure = draw(results)
                with explained(results.folder / "figures" / name):
                    written += style.save(figure, results.folder / "figures" / name, "png", "pdf", "svg")
        except MissingRuns as missing:
            console.print(Text(f"{name} is not drawn. {missing}", style="red"))
    return written


def _write_tables(name: str, results: Results) -> list[Path]:
    """The tables of a part as Markdown and LaTeX, beside its figures."""
    written = []
    for title, content in tables(name).items():
        stem = re.sub(r"[^a-z0-9]+", "_", title.lower().replace(".", ""))
        for suffix, text in (("md", content.markdown()), ("tex", content.latex())):
            path = results.folder / "tables" / f"{stem}.{suffix}"
            with publishing(path) as draft:
                draft.write_text(text, encoding="utf-8")
            written.append(path)
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
    if not claims:
        return
    efforts = dict.fromkeys(f"{study.num_runs} runs of {study.steps:,} steps" for study in results.studies.values())
    effort = f", with {' or '.join(efforts)}" if efforts else ""
    table = Table(title=f"What the paper says{effort}", title_justify="left")
    for column in ("where", "claim", "measured", "tolerance", "verdict"):
        table.add_column(column)
    for claim in claims:
        verdict = Text(claim.verdict, STYLES[claim.verdict])
        table.add_row(claim.where, claim.says, claim.measured, claim.tolerance, verdict, end_section=True)
    console.print(table)
