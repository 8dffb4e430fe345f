"""A claim of the paper, what was measured, and the verdict: always with a number and a tolerance, never a bare yes."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perstep.studies.results import MissingRuns

VERDICTS: dict[str, bool | None] = {"holds": True, "does not hold": False, "not run": None}
"""The verdict in words → whether the claim holds."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the results say about a claim."""

    measured: str
    tolerance: str = ""
    holds: bool | None
    """None if the results are too few to judge."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, what was measured, and the verdict."""

    where: str
    """The place in the paper."""
    says: str
    measured: str = ""
    tolerance: str = ""
    holds: bool | None = None
    """None if there are no results, or too few."""
    figure: str = ""
    """The name of the figure that shows it, without folder and suffix."""

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return next(words for words, holds in VERDICTS.items() if holds is self.holds)

    def to_json(self, figures: Container[str]) -> dict[str, Any]:
        """Plain values for a file. Without a figure of its own, a claim gets the one that `where` names, if it is in `figures`."""
        return {
            "where": self.where,
            "says": self.says,
            "measured": self.measured,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "figure": self.figure or _figure_in(self.where, figures),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Claim:
        """The claim that `to_json` wrote. Raises KeyError if the verdict is not one of VERDICTS."""
        text = {key: str(row.get(key) or "") for key in ("where", "says", "measured", "tolerance")}
        return cls(**text, holds=VERDICTS[row["verdict"]], figure=Path(str(row.get("figure") or "")).stem)


def judge(where: str, says: str, check: Callable[[], Finding], *, figure: str = "") -> Claim:
    """The claim with what its check finds in the results; "not run" with the reason if results are missing."""
    try:
        found = check()
    except MissingRuns as missing:
        found = Finding(measured=str(missing), holds=None)
    return Claim(
        where=where, says=says, measured=found.measured, tolerance=found.tolerance, holds=found.holds, figure=figure
    )


def _figure_in(where: str, figures: Container[str]) -> str:
    """ "figure_c4" for "Fig. C.4", "figure_2" for "Fig. 2c"; empty if there is no such figure."""
    found = re.search(r"Fig(?:ure|\.) (C\.)?(\d+)", where)
    name = f"figure_{'c' if found[1] else ''}{found[2]}" if found else ""
    return name if name in figures else ""
