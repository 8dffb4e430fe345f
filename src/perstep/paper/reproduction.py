"""Reproduce the paper: run the missing experiments, draw the figures, judge the claims, and write the report."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perstep.display.progress import duration
from perstep.files.folder_lock import locked
from perstep.paper.catalog import scale_named
from perstep.paper.figures import style
from perstep.paper.parts import PARTS, Part, parts_named
from perstep.paper.report import report
from perstep.rules.lattice import algorithm
from perstep.studies.execution import WHOLE
from perstep.studies.provenance import write_json
from perstep.studies.results import MissingRuns, Results, explained, publishing
from perstep.studies.runs import try_out
from perstep.studies.study_command import StudyOptions, new_console, run_study

CLAIMS = "claims.json"
STYLES = {"holds": "green", "does not hold": "bold red", "not run": "dim"}


def reproduce(parts: Sequence[str], scale: str, out: Path, options: StudyOptions | None = None) -> int:
    """Run the named parts of the paper and write their results into `out`. Returns 0, or 1 if a run failed.

    Without names, the parts that take minutes are run. Existing results are not computed again, so the same command continues
    after an interruption. A claim that does not hold is a result, not a failure.
    """
    options = options or StudyOptions()
    chosen, size = parts_named(parts), scale_named(scale)
    every = {
        name: Results(
            Path(out) / name / size.name,
            [study.at(size) for study in PARTS[name].studies],
            [measurement.at(size) for measurement in PARTS[name].measurements],
            tuned_only=options.tuned_only,
        )
        for name in chosen
    }
    for results in every.values():
        _check_libraries(results)
    console = new_console()
    failed = False
    for name, results in every.items():
        with locked(results.folder, options.share):
            failed |= _reproduce_part(name, results, console, options)
    if options.share is None:  # a single shard has nothing to report
        with explained(Path(out) / "report.html"):
            console.print(f"report: {report(Path(out))}", highlight=False, markup=False)
    return int(failed)


def _check_libraries(results: Results) -> None:
    """Raise an error before anything runs if missing runs need a library that is not installed."""
    for study, setting in results.configurations():
        if algorithm(study.algorithm).learner.values == "network" and not results.path(study, setting).exists():
            try_out(study)
            return


def _reproduce_part(name: str, results: Results, console: Console, options: StudyOptions) -> bool:
    """Reproduce one part. Returns whether a run failed."""
    part, begin = PARTS[name], time.monotonic()
    summary = run_study(name, results, options, console)
    failed = bool(summary.failures)
    if summary.elsewhere:
        return failed
    if part.follow_up is not None:
        failed |= _run_follow_up(name, part.follow_up(results), console, options)
    drawn = {"figures": _draw(part, results, console), "tables": _write_tables(part, results)}
    _judge_claims(part, results, console)
    for what, paths in drawn.items():
        if paths:
            console.print(f"{what}:")
        for _, (first, *others) in itertools.groupby(paths, lambda path: path.stem):
            also = ", ".join(path.suffix.removeprefix(".") for path in others)
            console.print(f"  {first} ({also})", highlight=False, markup=False)
    console.print(f"took {duration(time.monotonic() - begin)}")
    return failed


def _run_follow_up(name: str, results: Results, console: Console, options: StudyOptions) -> bool:
    """Run the studies that depend on the results of a part. Returns whether a run failed.

    With shards, the last shard to finish runs all of it. Older results have no record of these runs, so none is made up for them.
    """
    if not results.studies:
        return False
    whole = replace(options, shard=WHOLE)
    summary = run_study(f"{name}, {results.folder.name}", results, whole, console, record_if_idle=False)
    return bool(summary.failures)


def _draw(part: Part, results: Results, console: Console) -> list[Path]:
    written = []
    for name, figure in part.figures.items():
        try:
            with style.look():
                drawn = figure.draw(results)
                with explained(results.folder / "figures" / name):
                    written += style.save(drawn, results.folder / "figures" / name, "png", "pdf", "svg")
        except MissingRuns as missing:
            console.print(Text(f"{name} is not drawn. {missing}", style="red"))
    return written


def _write_tables(part: Part, results: Results) -> list[Path]:
    """Write the tables of a part as Markdown and LaTeX, beside its figures."""
    written = []
    for title, content in part.tables.items():
        stem = re.sub(r"[^a-z0-9]+", "_", title.lower().replace(".", ""))
        for suffix, text in (("md", content.markdown()), ("tex", content.latex())):
            path = results.folder / "tables" / f"{stem}.{suffix}"
            with publishing(path) as draft:
                draft.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def _judge_claims(part: Part, results: Results, console: Console) -> None:
    """Judge the claims of a part, write them into a file, and print them as a table."""
    try:
        claims = part.claims(results)
    except MissingRuns as missing:
        console.print(Text(f"The claims are not judged. {missing}", style="red"))
        (results.folder / CLAIMS).unlink(missing_ok=True)  # it belongs to results that no longer exist
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
