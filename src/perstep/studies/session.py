"""A session of work on a study, told as it goes: the same for the paper's studies and for those of users."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from perstep.progress import duration, si
from perstep.studies.engine import WHOLE, Shard, Tally, complete
from perstep.studies.engines import Engine, LocalEngine
from perstep.studies.provenance import gather_shares, write_provenance
from perstep.studies.results import Results

FILE_WIDTH = 132  # columns of a table where no terminal says
FEW = 20  # failures that are listed


@dataclass(frozen=True, kw_only=True)
class Orders:
    """How a study is to be run; none of it changes a result."""

    engine: Engine = field(default_factory=LocalEngine)
    """Who does the work."""
    shard: Shard = WHOLE
    """Which share of it."""
    retry_failed: bool = False
    """Whether to run again what failed."""
    tuned_only: bool = False
    """Whether to leave out all settings of a grid but those of the paper's figures."""
    command: str = ""
    """The words that asked for it, for the record."""
    code: str | None = None
    """A Python file that every process loads first."""

    @property
    def share(self) -> str | None:
        """The shard's name in files; None for the whole."""
        return None if self.shard == WHOLE else f"{self.shard.index}-of-{self.shard.count}"


def new_console() -> Console:
    """Where a session is told: the terminal, or a file that has no width of its own."""
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def carry_out(name: str, results: Results, orders: Orders, console: Console) -> Tally:
    """Run what is not there yet, say what came of it, and record where it comes from."""
    begin = time.monotonic()
    sizes = [(study.num_runs, study.num_runs * study.steps) for study, _ in results.configurations()]
    runs, steps = (sum(column) for column in zip(*sizes, strict=True))
    console.print(f"{name}: {len(sizes)} configurations, {runs:,} runs, {si(steps)} steps, into {results.folder}")
    try:
        tally = complete(
            results, engine=orders.engine, shard=orders.shard, retry_failed=orders.retry_failed, code=orders.code
        )
    except KeyboardInterrupt:
        console.print("stopped: what is done stays, and the same command goes on from there")
        raise
    seconds = time.monotonic() - begin
    if tally.made:
        rest = f" ({tally.found} were there already)" if tally.found else ""
        console.print(f"ran {tally.made} configurations in {duration(seconds)}{rest}")
    else:
        console.print("everything is there; nothing had to run")
    tell_failures(tally, console)
    write_provenance(
        results.folder,
        command=orders.command,
        engine=orders.engine.name,
        seconds=seconds,
        runs=tally.runs,
        share=orders.share,
    )
    if tally.elsewhere:
        console.print(
            f"{tally.elsewhere} configurations of other shards are not there yet; the last shard to end goes on from here."
        )
    else:
        gather_shares(results.folder)
    return tally


def tell_failures(tally: Tally, console: Console) -> None:
    """Which configurations failed, and why."""
    for failure in tally.failures[:FEW]:
        console.print(Text(f"failed: {failure.path}\n  {failure.runs} runs: {failure.error}", style="red"))
    if len(tally.failures) > FEW:
        console.print(Text(f"and {len(tally.failures) - FEW} configurations more", style="red"))
    if tally.failures:
        console.print("Give --retry-failed to run again what failed.")
