"""How a theorem becomes a table: a measurement is a function of an effort, its table a Parquet file published by rename."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perstep.agents import Agent, learn_together
from perstep.progress import Bar
from perstep.studies.catalog import Scale
from perstep.studies.claims import Claim
from perstep.studies.results import MissingRuns, publish_table

Row = dict[str, Any]
Floats = NDArray[np.float64]

LOOKS_A_DECADE = 6  # of steps: even on the logarithmic axes on which rates are straight lines


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much to spend on a measurement."""

    steps: int
    """Of a run; measurements take a fixed multiple of it."""
    runs: int
    """Of a setting, each with a seed of its own."""


EFFORTS = {
    "smoke": Effort(steps=20_000, runs=2),  # does everything run?
    "small": Effort(steps=300_000, runs=4),  # the figures, with more noise
    "paper": Effort(steps=4_000_000, runs=8),
}
"""Scale → effort. The paper measures none of this, so the numbers are ours: what shows the limits in under a minute."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A theorem, measured."""

    name: str
    figure: str
    """The figure that shows it."""
    measure: Callable[[Effort], list[Row]]
    claims: Callable[[pl.DataFrame], list[Claim]]

    def description(self, effort: Effort) -> str:
        """What decides the table besides the code."""
        return json.dumps({"measurement": self.name, **asdict(effort)}, sort_keys=True)


def looks(first: int, last: int) -> list[int]:
    """Steps from `first` to `last` that are even on a logarithmic axis."""
    first = min(first, last)
    number = max(2, round(LOOKS_A_DECADE * np.log10(last / first)) + 1)
    return sorted({round(step) for step in np.geomspace(first, last, number)})


def watched(agents: Sequence[Agent], at: Sequence[int]) -> Iterator[int]:
    """Let all agents learn, side by side, and stop for a look at each of these steps."""
    done = 0
    for look in at:
        learn_together(agents, look - done, progress=False)
        done = look
        yield look


def slope(steps: Floats, errors: Floats, share: float = 0.5) -> float:
    """The power of t that errors follow over the later `share` of the looks: a straight line through the logarithms."""
    late = slice(min(len(steps) - 2, int((1 - share) * len(steps))), None)
    return float(np.polyfit(np.log(steps[late]), np.log(np.maximum(errors[late], 1e-300)), 1)[0])


def complete(
    folder: Path, scale: Scale, measurements: Sequence[Measurement], *, progress: bool | None = None
) -> tuple[int, int]:
    """Measure what is not there yet; returns how many tables were found and how many were made."""
    effort = EFFORTS[scale.name]
    missing = [each for each in measurements if find(folder, each, effort) is None]
    with Bar(len(missing), "theory", show=progress, unit="tables", lines=True) as bar:
        for done, measurement in enumerate(missing):
            bar.update(done, measurement.name)
            frame = pl.DataFrame(measurement.measure(effort), infer_schema_length=None)
            frame = frame.with_columns(description=pl.lit(measurement.description(effort)))
            publish_table(path(folder, measurement.name), frame)
    return len(measurements) - len(missing), len(missing)


def path(folder: Path, name: str) -> Path:
    """The file of a measurement."""
    return folder / f"{name}.parquet"


def find(folder: Path, measurement: Measurement, effort: Effort) -> pl.DataFrame | None:
    """The table of a measurement; None if it is absent, damaged or of another effort."""
    try:
        frame = table(folder, measurement.name)
    except MissingRuns:
        return None
    return frame if set(frame["description"]) == {measurement.description(effort)} else None


def table(folder: Path, name: str) -> pl.DataFrame:
    """What a measurement left in this folder, for figures and claims."""
    try:
        return pl.read_parquet(path(folder, name), use_pyarrow=False)
    except (pl.exceptions.PolarsError, OSError):
        raise MissingRuns(f"There is no measurement {name!r} in {folder}.") from None
