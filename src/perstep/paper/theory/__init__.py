"""The paper's theorems (Sec. 4, App. B) measured in worlds with exact solutions, including the cases in which they do not hold."""

from __future__ import annotations

from dataclasses import replace

from perstep.paper.claims.claim import Claim
from perstep.paper.theory import control, prediction, quantile_tracking, returns
from perstep.studies.results import Results, table

__all__ = ["MEASUREMENTS", "THEOREMS", "claims"]

THEOREMS = (
    *quantile_tracking.THEOREMS,
    *prediction.THEOREMS,
    *control.THEOREMS,
    *returns.THEOREMS,
)

MEASUREMENTS = tuple(theorem.measurement for theorem in THEOREMS)
"""Each leaves one table, `<name>.parquet`."""


def claims(results: Results) -> list[Claim]:
    """All claims that the paper proves, and ours beyond it, in the order of the paper."""
    return [
        replace(claim, figure=each.figure)
        for each in THEOREMS
        for claim in each.claims(table(results.folder, each.name))
    ]
