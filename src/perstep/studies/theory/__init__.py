"""The paper's theorems (Sec. 4, App. B) as measurements on worlds with exact answers, and where they do not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perstep.studies.catalog import Scale
from perstep.studies.claims import Claim
from perstep.studies.results import Results
from perstep.studies.theory import control, prediction, quantile_tracking, returns
from perstep.studies.theory.measuring import complete, table

__all__ = ["MEASUREMENTS", "claims", "measure"]

MEASUREMENTS = (
    *quantile_tracking.MEASUREMENTS,
    *prediction.MEASUREMENTS,
    *control.MEASUREMENTS,
    *returns.MEASUREMENTS,
)
"""Each leaves one table, `<name>.parquet`."""


def measure(folder: Path, scale: Scale) -> tuple[int, int]:
    """Measure what is not there yet; returns how many tables were found and how many were made."""
    return complete(folder, scale, MEASUREMENTS)


def claims(results: Results) -> list[Claim]:
    """All that the paper proves, and what we say beyond it, in the order of the paper."""
    return [
        replace(claim, figure=each.figure)
        for each in MEASUREMENTS
        for claim in each.claims(table(results.folder, each.name))
    ]
