"""Results of games that were never played: episode returns by hand, in the files that a study leaves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from perstep.paper.catalog import MINATAR
from perstep.studies.results import SCHEMA, Results
from perstep.studies.study import Study

STUDIES = [replace(study, steps=1000, window=50) for study in MINATAR]  # 20 windows, the last two late


def results_of(folder: Path, studies: Iterable[Study] = STUDIES) -> Results:
    """Where the returns below are written."""
    return Results(folder, list(studies))


def write_returns(
    results: Results, key: str, curves: list[list[float] | None], scores: list[float] | None = None
) -> None:
    """The episode returns of all runs of a study, one curve a run, and the final scores of the games of each."""
    old = results.studies[key]
    study = results.studies[key] = replace(old, num_runs=len(curves))
    rows = [
        dict.fromkeys(SCHEMA)
        | {"description": study.description(study.tuned), "seed": seed, "average_reward": 0.0, "episode_return": curve}
        | {"final_scores": scores}
        for seed, curve in zip(study.seeds, curves, strict=True)
    ]
    results.write(study, study.tuned, rows)


def level(value: float, windows: int = 20) -> list[float]:
    """The same in every window."""
    return [value] * windows
