"""The paper's theorems (Sec. 4, App. B) measured in worlds with exact solutions, including the cases in which they do not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perstep.studies.claims.claim import Claim
from perstep.studies.results import Results
from perstep.studies.study import Scale
from perstep.studies.theory import control, prediction, quantile_tracking, returns
from perstep.studies.theory.measuring import measure_missing, table

__all__ = ["MEASUREMENTS", "claims", "measure"]

MEASUREMENTS = (
    *quantile_tracking.MEASUREMENTS,
    *prediction.MEASUREMENTS,
    *control.MEASUREMENTS,
    *returns.MEASUREMENTS,
)
"""Each writes one table, `<name>.parquet`."""


def measure(folder: Path, scale: Scale) -> tuple[int, int]:
    """Make the missing tables. Returns the number of tables found and the number of tables made."""
    return measure_missing(folder, scale, MEASUREMENTS)


def claims(results: Results) -> list[Claim]:
    """All claims that the paper proves, and ours beyond it, in the order of the paper."""
    return [
        replace(claim, figure=each.figure)
        for each in MEASUREMENTS
        for claim in each.claims(table(results.folder, each.name))
    ]
