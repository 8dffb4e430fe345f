"""A user's own study, from a file to a table: which configuration earns most, with 95 % intervals."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from perstep.files.folder_lock import locked
from perstep.numerics.statistics import Floats
from perstep.studies.ranking import ALL_STEPS, rank
from perstep.studies.results import Results, StudyStopped, publishing
from perstep.studies.runs import try_out
from perstep.studies.search import failures, search
from perstep.studies.study import Setting, Study, setting_name
from perstep.studies.study_command import StudyOptions, new_console, run_study
from perstep.studies.study_file import UserStudy, read_study

SHOWN = 20  # configurations on the terminal; the file has all of them
RANKING = "ranking.csv"


def sweep(path: Path, out: Path, options: StudyOptions, trials: int | None = None) -> int:
    """Run the study in a file and write its results into `out`. Returns 0, or 1 if a run failed.

    `trials`: search that many configurations with Optuna; None for all configurations.
    """
    study = read_study(Path(path))
    if trials is None and study.ranges:
        name = next(iter(study.ranges))
        raise ValueError(
            f"{path}: {name} is a range, which has no end of values. Give --search optuna, or a list of values."
        )
    for each in study.studies:
        try_out(each, study.code)
    results = Results(Path(out) / study.name, study.studies)
    console = new_console()
    options = replace(options, code=study.code)
    with locked(results.folder, options.share):
        if trials is None:
            summary = run_study(study.name, results, options, console)
        else:
            results = search(study, results, trials, options, console)
            summary = failures(results, options, console)
        if not summary.elsewhere:
            _print_ranking(study, results, console)
    return int(bool(summary.failures))


def ranking_table(results: Results) -> pl.DataFrame:
    """One row per configuration, the highest average reward first. The interval is null if there is only one run."""
    rows = [
        (
            row.configuration[0].algorithm,
            setting_name(row.configuration[1]),
            row.mean,
            row.half_interval,
            row.num_runs,
            row.configuration[0].num_runs - row.num_runs,
            str(results.path(*row.configuration)),
        )
        for row in rank(_rewards(results))
    ]
    names = ("algorithm", "configuration", "average_reward", "half_interval", "runs", "failed", "path")
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("average_reward", "half_interval").cast(pl.Float64).fill_nan(None)
    )


def _rewards(results: Results) -> Iterator[tuple[tuple[Study, Setting], Floats]]:
    """Every configuration with the average rewards of its runs; none if all of them failed."""
    for study, setting in results.configurations():
        if (frame := results.find(study, setting)) is None:
            raise StudyStopped(
                f"{results.path(study, setting)} is no longer there, or no longer whole, though its runs have ended. "
                "Did something remove files while the study ran? Repeat the same command to run what is missing."
            )
        rewards = frame.filter(pl.col("error").is_null())[ALL_STEPS].to_numpy()
        yield (study, setting), rewards


def _print_ranking(study: UserStudy, results: Results, console: Console) -> None:
    ranked = ranking_table(results)
    with publishing(results.folder / RANKING) as draft:
        draft.write_text(ranked.write_csv(), encoding="utf-8")
    several = len(study.studies) > 1
    table = Table(title=f"{study.name}: average reward over all steps, 95 % intervals", title_justify="left")
    for column in (" ", *(["algorithm"] if several else []), "configuration", "average reward", "runs"):
        table.add_column(column, justify="right" if column in ("average reward", "runs") else "left")
    for place, row in enumerate(ranked.head(SHOWN).iter_rows(named=True)):
        reward, half = row["average_reward"], row["half_interval"]
        words = "failed" if reward is None else f"{reward:.6g}" + ("" if half is None else f" ± {half:.2g}")
        runs = str(row["runs"]) + (f", {row['failed']} failed" if row["failed"] else "")
        best = place == 0 and reward is not None
        table.add_row(
            "best" if best else "", *([row["algorithm"]] if several else []), row["configuration"], words, runs,
            style="bold green" if best else None,
        )  # fmt: skip
    console.print(table)
    if len(ranked) > SHOWN:
        console.print(f"and {len(ranked) - SHOWN} more configurations")
    pattern = Path(glob.escape(str(results.folder))) / "**" / "*.parquet"
    console.print(f"all configurations: {results.folder / RANKING}", highlight=False, markup=False)
    console.print(f"all runs: polars.scan_parquet({str(pattern)!r})", highlight=False, markup=False)
    if ranked["average_reward"][0] is not None:
        console.print(f"the best: {ranked['path'][0]}", highlight=False, markup=False)
