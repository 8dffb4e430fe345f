"""A claim of the paper beside what was measured: a verdict with a number and a tolerance, never a bare yes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from perstep.studies.catalog import Study
from perstep.studies.results import MissingRuns, Results


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, and what came of it."""

    where: str
    """Where the paper says it."""
    says: str
    measured: str
    tolerance: str
    holds: bool | None
    """None if it was not run."""
    figure: str = ""
    """Its name, where `where` does not say it."""

    @property
    def verdict(self) -> str:
        """In words."""
        return "not run" if self.holds is None else "holds" if self.holds else "does not hold"

    def to_json(self, figures: Container[str]) -> dict[str, Any]:
        """Plain values, for a file; with the figure that `where` names, if it is one of these."""
        return {
            "where": self.where,
            "says": self.says,
            "measured": self.measured,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "figure": self.figure or _figure_in(self.where, figures),
        }


def judge(claim: Callable[..., Claim], results: Results, *about: Any) -> Claim:
    """What `claim` says of the results; where those are missing it is not run, and so says the first line of its docstring."""
    try:
        return claim(results, *about)
    except MissingRuns as missing:
        where = next((word for word in about if isinstance(word, str)), "")
        study = next((each for each in about if isinstance(each, Study)), None)
        says = (inspect.getdoc(claim) or claim.__name__).partition("\n")[0].rstrip(".")
        return not_run(where, f"{study.algorithm}: {says}" if study else says, str(missing))


def not_run(where: str, says: str, reason: str) -> Claim:
    """A claim that nothing was measured for."""
    return Claim(where=where, says=says, measured=reason, tolerance="", holds=None)


def _figure_in(where: str, figures: Container[str]) -> str:
    """ "figure_c4" for "Fig. C.4", "figure_2" for "Fig. 2c"; nothing if there is no such figure."""
    found = re.search(r"Fig(?:ure|\.) (C\.)?(\d+)", where)
    name = f"figure_{'c' if found[1] else ''}{found[2]}" if found else ""
    return name if name in figures else ""
