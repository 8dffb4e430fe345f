"""Run a study from the command line: its options, the messages on the terminal, and the record of where results come from."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from perstep.display.progress import duration, si
from perstep.studies.engines import Engine, LocalEngine
from perstep.studies.execution import WHOLE, Shard, Summary, complete
from perstep.studies.provenance import gather_shares, write_provenance
from perstep.studies.results import Results

FILE_WIDTH = 132  # columns of a table if the output is not a terminal
MAX_FAILURES = 20  # failures that are listed


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How to run a study. None of the options changes a result."""

    engine: Engine = field(default_factory=LocalEngine)
    """What runs the configurations: this machine or a cluster."""
    shard: Shard = WHOLE
    """Which share of the configurations to run."""
    retry_failed: bool = False
    """Whether to run failed configurations again."""
    tuned_only: bool = False
    """Whether to run only the configurations that the paper's figures show."""
    command: str = ""
    """The command line, for the record."""
    code: str | None = None
    """A Python file that every process loads first."""
    run_timeout: float | None = None
    """Seconds after which a run is stopped and recorded as failed; None for no limit."""

    @property
    def share(self) -> str | None:
        """The shard as part of a file name; None for the whole study."""
        return None if self.shard == WHOLE else f"{self.shard.index}-of-{self.shard.count}"


def new_console() -> Console:
    """The terminal; a fixed width if the output goes to a file."""
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def run_study(
    name: str, results: Results, options: StudyOptions, console: Console, *, record_if_idle: bool = True
) -> Summary:
    """Run the missing configurations of a study, print the outcome, and record where the results come from.

    `record_if_idle`: whether to write a record also if nothing had to run and there is none yet.
    """
    begin = time.monotonic()
    summary = _run_missing(name, results, options, console)
    if summary.runs or record_if_idle:
        write_provenance(
            results.folder,
            command=options.command,
            engine=options.engine.name,
            seconds=time.monotonic() - begin,
            runs=summary.runs,
            share=options.share,
        )
    if summary.elsewhere:
        console.print(
            f"{summary.elsewhere} configurations of other shards are missing; the last shard to finish continues from here."
        )
    else:
        gather_shares(results.folder)
    return summary


def print_failures(summary: Summary, console: Console) -> None:
    """Which configurations failed, and why."""
    for failure in summary.failures[:MAX_FAILURES]:
        console.print(Text(f"failed: {failure.path}\n  {failure.runs} runs: {failure.error}", style="red"))
    if len(summary.failures) > MAX_FAILURES:
        console.print(Text(f"and {len(summary.failures) - MAX_FAILURES} configurations more", style="red"))
    if summary.failures:
        console.print("Give --retry-failed to run the failed configurations again.")


def _size(results: Results) -> str:
    """How much there is to do if nothing is there yet."""
    if results.measurements:
        return f"{len(results.measurements)} tables"
    sizes = [(study.num_runs, study.num_runs * study.steps) for study, _ in results.configurations()]
    runs, steps = (sum(column) for column in zip(*sizes, strict=True))
    return f"{len(sizes)} configurations, {runs:,} runs, {si(steps)} steps"


def _run_missing(name: str, results: Results, options: StudyOptions, console: Console) -> Summary:
    begin = time.monotonic()
    console.print(f"{name}: {_size(results)}, into {results.folder}", markup=False)
    try:
        summary = complete(
            results, engine=options.engine, shard=options.shard, retry_failed=options.retry_failed, code=options.code,
            run_timeout=options.run_timeout,
        )  # fmt: skip
    except KeyboardInterrupt:
        console.print("stopped: finished runs are kept; repeat the same command to continue")
        raise
    if summary.made:
        rest = f" ({summary.found} were there already)" if summary.found else ""
        what = "tables" if results.measurements else "configurations"
        console.print(f"ran {summary.made} {what} in {duration(time.monotonic() - begin)}{rest}")
    else:
        console.print("everything is there; nothing had to run")
    for path in summary.damaged:
        console.print(Text(f"damaged, set aside and run again: {path}", style="yellow"))
    print_failures(summary, console)
    return summary
