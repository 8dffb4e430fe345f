"""The confirmation runs of the inverted pendulum: the best configuration of each grid and the paper's choice, with other seeds.

The best of hundreds of configurations is partly a matter of luck with the seeds of the sweep. The confirmation is a study like any
other: `perstep reproduce pendulum` runs it after the sweep, with the same engine, and the claims read its results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perstep.studies.ranking import ranking
from perstep.studies.results import CONFIRMATION, MissingRuns, Results
from perstep.studies.study import SEED_STRIDE, Setting, Study

RUNS_FACTOR = 10  # times as many runs as in the sweep
FIRST_SEED = 1_000_000  # larger than all seeds of the sweep


def confirmation(results: Results) -> Results:
    """The confirmation of a sweep. Grids that are incomplete, or whose best configuration is the paper's choice, are left out."""
    return _confirmations(results, [confirming(study, best) for study, best in _other_bests(results)])


def confirmed(results: Results, study: Study, best: Setting) -> tuple[Results, Study]:
    """The results of the confirmation of one study, to be read, and the study that they belong to."""
    again = confirming(study, best)
    return _confirmations(results, [again]), again


def confirming(study: Study, best: Setting) -> Study:
    """The study that runs the best configuration and the paper's choice with seeds that the sweep has not used."""
    num_runs = RUNS_FACTOR * study.num_runs
    return replace(
        study,
        own_settings=(best, study.tuned),
        num_runs=num_runs,
        own_seeds=tuple(FIRST_SEED + SEED_STRIDE * i for i in range(num_runs)),
        traced=None,
    )


def _confirmations(results: Results, studies: list[Study]) -> Results:
    return Results(results.folder / CONFIRMATION, studies)


def _other_bests(results: Results) -> Iterator[tuple[Study, Setting]]:
    for study in results.studies.values():
        try:
            best = ranking(results, study)[0].configuration
        except MissingRuns:
            continue
        if best != study.tuned:
            yield study, best
