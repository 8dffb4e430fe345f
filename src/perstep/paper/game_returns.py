"""Episode returns in the results of games (Fig. 4): read for each game, over all windows or late in a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perstep.numerics.statistics import Floats
from perstep.studies.results import MissingRuns, Results
from perstep.studies.study import Study

LATE = 10  # the late part of a run is the last one of ten equal parts, in whole windows


def found_by_game(results: Results, read: Callable[[Results, Study], Floats]) -> dict[str, list[tuple[Study, Floats]]]:
    """Game → its studies that have runs, each with what `read` returns. Games without any runs are left out."""
    found: dict[str, list[tuple[Study, Floats]]] = {}
    reasons = []
    for study in results.studies.values():
        try:
            found.setdefault(study.game, []).append((study, read(results, study)))
        except MissingRuns as missing:
            reasons.append(str(missing))
    if not any(found.values()):
        raise MissingRuns(reasons[0])
    return {game: studies for game, studies in found.items() if studies}


def episode_returns(results: Results, study: Study) -> Floats:
    """Mean return of the episodes that ended in each window, for the tuned configuration; NaN if none ended. (runs, windows)"""
    curves = results.runs(study, study.tuned)["episode_return"].to_list()
    if None in curves:
        raise MissingRuns(f"No episode ended in a run of {study.name}.")
    return np.array(curves, np.float64)


def late_windows(study: Study) -> int:
    """Number of windows in the late part of a run; at least one, also in a short run."""
    return max(1, study.steps // study.window // LATE)


def late_returns(results: Results, study: Study) -> Floats:
    """The late return of each run: the mean over its late windows in which an episode ended. (runs,)"""
    late = episode_returns(results, study)[:, -late_windows(study) :]
    if np.isnan(late).all(axis=1).any():
        raise MissingRuns(f"No episode ended late in a run of {study.name}.")
    return np.asarray(np.nanmean(late, axis=1))


def late_scores(results: Results, study: Study) -> Floats | None:
    """The mean score, in points of the game, of the last tenth of the games of each run. (runs,) None where rewards are not
    clipped, so that returns are scores, and in files from before scores were kept."""
    scores = results.runs(study, study.tuned)["final_scores"].to_list()
    if not all(scores):
        return None
    return np.array([np.mean(games[-max(1, len(games) // LATE) :]) for games in scores])
