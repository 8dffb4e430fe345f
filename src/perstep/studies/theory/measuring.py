"""Measurements of theorems: each is a function of an effort and leaves one table, a Parquet file published by rename."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perstep.agents import Agent, learn_together
from perstep.agents.doubts import DoubtWarning
from perstep.progress import Bar
from perstep.storage import BadFile, read_table
from perstep.studies.claims.claim import Claim
from perstep.studies.results import MissingRuns, publish_table
from perstep.studies.study import Scale

Row = dict[str, Any]
Floats = NDArray[np.float64]

LOOKS_PER_DECADE = 6  # observations per factor of ten in steps: evenly spaced on a logarithmic axis


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much to spend on a measurement."""

    steps: int
    """Steps per run; each measurement takes a fixed multiple of it."""
    runs: int
    """Runs per configuration, each with its own seed."""


EFFORTS = {
    "smoke": Effort(steps=20_000, runs=2),  # checks that everything runs
    "small": Effort(steps=300_000, runs=4),  # the same figures with more noise
    "paper": Effort(steps=4_000_000, runs=8),
}
"""Scale → effort. The paper measures none of this, so the numbers are ours: enough to show the limits within a minute."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measurement of a theorem."""

    name: str
    figure: str
    """The figure that shows it."""
    measure: Callable[[Effort], list[Row]]
    claims: Callable[[pl.DataFrame], list[Claim]] = lambda _: []
    """Judges the claims that need this table alone."""

    def description(self, effort: Effort) -> str:
        """Everything that determines the table except the code."""
        return json.dumps({"measurement": self.name, **asdict(effort)}, sort_keys=True)


def log_spaced_steps(first: int, last: int) -> list[int]:
    """Steps from `first` to `last`, evenly spaced on a logarithmic axis."""
    first = min(first, last)
    number = max(2, round(LOOKS_PER_DECADE * np.log10(last / first)) + 1)
    return sorted({round(step) for step in np.geomspace(first, last, number)})


def learn_in_stages(agents: Sequence[Agent], at: Sequence[int]) -> Iterator[int]:
    """Let all agents learn in parallel, and yield at each of these steps so that they can be observed."""
    done = 0
    for look in at:
        learn_together(agents, look - done, progress=False)
        done = look
        yield look


def slope(steps: Floats, errors: Floats, share: float = 0.5) -> float:
    """The power of t that the errors follow over the last `share` of the observations: the slope of a fit to the logarithms."""
    late = slice(min(len(steps) - 2, int((1 - share) * len(steps))), None)
    return float(np.polyfit(np.log(steps[late]), np.log(np.maximum(errors[late], 1e-300)), 1)[0])


def measure_missing(
    folder: Path,
    scale: Scale,
    measurements: Sequence[Measurement],
    *,
    efforts: Mapping[str, Effort] = EFFORTS,
    title: str = "theory",
    progress: bool | None = None,
) -> tuple[int, int]:
    """Make the missing tables. Returns the number of tables found and the number of tables made."""
    effort = efforts[scale.name]
    missing = [each for each in measurements if find(folder, each, effort) is None]
    with Bar(len(missing), title, show=progress, unit="tables", lines=True) as bar:
        for done, measurement in enumerate(missing):
            bar.update(done, measurement.name)
            with warnings.catch_warnings():  # a study measures what agent.check() would doubt
                warnings.simplefilter("ignore", DoubtWarning)
                frame = pl.DataFrame(measurement.measure(effort), infer_schema_length=None)
            frame = frame.with_columns(description=pl.lit(measurement.description(effort)))
            publish_table(path(folder, measurement.name), frame)
    return len(measurements) - len(missing), len(missing)


def path(folder: Path, name: str) -> Path:
    """The file of a measurement."""
    return folder / f"{name}.parquet"


def find(folder: Path, measurement: Measurement, effort: Effort) -> pl.DataFrame | None:
    """The table of a measurement; None if it is missing, damaged or of another effort."""
    try:
        frame = table(folder, measurement.name)
    except MissingRuns:
        return None
    return frame if set(frame["description"]) == {measurement.description(effort)} else None


def table(folder: Path, name: str) -> pl.DataFrame:
    """The table of a measurement in this folder, for figures and claims. Raises MissingRuns if there is none."""
    try:
        return read_table(path(folder, name))
    except (BadFile, OSError):
        raise MissingRuns(f"There is no measurement {name!r} in {folder}.") from None
