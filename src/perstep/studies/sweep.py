"""A study of one's own, from a file to a table: which configuration earns most, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from perstep.studies.catalog import setting_name
from perstep.studies.config import UserStudy, read_study
from perstep.studies.folder_lock import locked
from perstep.studies.results import MissingRuns, Results, publishing
from perstep.studies.runs import try_out
from perstep.studies.session import Orders, carry_out, new_console
from perstep.studies.statistics import mean_and_error

SHOWN = 20  # configurations on the terminal; the file has all of them
RANKING = "ranking.csv"


def sweep(path: Path, out: Path, orders: Orders) -> int:
    """Run the study in a file into `out`; returns 0, or 1 if a run failed."""
    study = read_study(Path(path))
    for each in study.studies:
        try_out(each, study.code)
    results = Results(Path(out) / study.name, study.studies)
    console = new_console()
    with locked(results.folder, orders.share):
        tally = carry_out(study.name, results, replace(orders, code=study.code), console)
        if not tally.elsewhere:
            _tell(study, results, console)
    return int(bool(tally.failures))


def ranking(results: Results) -> pl.DataFrame:
    """A row a configuration, the best average reward first; half the 95 % interval is null where one run cannot tell."""
    rows = []
    for study, setting in results.configurations():
        try:
            runs = results.runs(study, setting)
        except MissingRuns:  # all failed
            mean, error, good = math.nan, math.nan, 0
        else:
            earned, half = mean_and_error(runs["average_reward"].to_numpy())
            mean, error, good = float(earned), float(half), len(runs)
        path = str(results.path(study, setting))
        rows.append((study.algorithm, setting_name(setting), mean, error, good, study.num_runs - good, path))
    names = ("algorithm", "configuration", "average_reward", "half_interval", "runs", "failed", "path")
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("average_reward", "half_interval").cast(pl.Float64).fill_nan(None)
    )
    return frame.sort("average_reward", descending=True, nulls_last=True, maintain_order=True)


def _tell(study: UserStudy, results: Results, console: Console) -> None:
    ranked = ranking(results)
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
        console.print(f"and {len(ranked) - SHOWN} configurations more")
    console.print(f"all configurations: {results.folder / RANKING}", highlight=False)
    console.print(f"all runs: polars.scan_parquet({str(results.folder / '**/*.parquet')!r})", highlight=False)
    if ranked["average_reward"][0] is not None:
        console.print(f"the best: {ranked['path'][0]}", highlight=False)
