"""What the paper says of its games (Sec. 5, Fig. 4), as sentences that the results confirm or refute: on Atari, and on MinAtar,
which two cores can run.

The paper: "the D2 and D3 algorithms consistently outperform the non-distributional baseline, with the D3 algorithm showing better
performance than the D2 algorithm". It gives no number, so the criterion is ours, and was written before there were results: of two
rules in a game, one outperforms the other if the 95 % interval of the difference of their mean late returns is above 0. An interval
with 0 in it decides nothing, and then the claim does not hold. The late return of a run is the mean, over the windows of its last
tenth in which an episode ended (one window at least), of the mean return of the episodes that ended in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from perstep.studies.catalog import Study
from perstep.studies.claims import Claim, not_run
from perstep.studies.comparison import label
from perstep.studies.results import MissingRuns, Results
from perstep.studies.statistics import Floats, mean_difference
from perstep.studies.tables import world_name

RANDOM_PLAY = {
    "ALE/Breakout-v5": 1.40,
    "ALE/BeamRider-v5": 8.66,
    "ALE/Freeway-v5": 0.0,
    "perstep/MinAtar-Breakout-v0": 0.38,
    "perstep/MinAtar-Freeway-v0": 0.26,
}
"""World → mean return of a fresh agent, which acts at random:
`perstep.DeepQ(world).evaluate(100_000, seed=0).episode_returns.mean()`."""
LATE = 10  # the late return is that of the last of so many equal parts of a run, in whole windows


def claims(results: Results) -> list[Claim]:
    """All of the paper's claims about games, game by game."""
    return [
        outperforms(results, ours, theirs)
        for differential, d2, d3 in _by_game(results)
        for ours, theirs in ((d2, differential), (d3, differential), (d3, d2))
    ]


def outperforms(results: Results, ours: Study, theirs: Study) -> Claim:
    """One rule earns more in an episode than another, late in the run and with tuned settings."""
    where, says = "Fig. 4", f"{label(ours)} outperforms {label(theirs)} in {world_name(ours)}"
    try:
        late, beside = late_returns(results, ours), late_returns(results, theirs)
    except MissingRuns as missing:
        return not_run(where, says, str(missing))
    covered = late_windows(ours) * ours.window
    span = f"the last {covered:,} steps" if covered < ours.steps else f"all {covered:,} steps"
    numbers = f"over {span} {late.mean():.3g} an episode against {beside.mean():.3g}"
    if min(late.size, beside.size) < 2:
        return not_run(where, says, f"{numbers}, but one run cannot tell")
    apart = mean_difference(late, beside)
    found = "ahead" if apart.low > 0 else "behind" if apart.high < 0 else "undecided"
    return Claim(
        where=where,
        says=says,
        measured=f"{numbers}: {apart.value:+.3g} ({apart.low:.3g} to {apart.high:.3g}), {found}",
        tolerance="the 95 % interval of the difference is above 0",
        holds=apart.low > 0,
    )


def _by_game(results: Results) -> Iterator[tuple[Study, Study, Study]]:
    """The studies of each game: Differential, D2, D3."""
    for game in dict.fromkeys(study.game for study in results.studies.values()):
        differential, d2, d3 = (results.studies[f"{game}/{rule}-deep-q"] for rule in ("differential", "d2", "d3"))
        yield differential, d2, d3


def found_by_game(results: Results, read: Callable[[Results, Study], Floats]) -> dict[str, list[tuple[Study, Floats]]]:
    """Game → those of its studies that `read` finds runs of, with what it reads; games without any are left out."""
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
    """Mean return of the episodes that ended in each window, NaN where none did, for the tuned setting. (runs, windows)"""
    curves = results.runs(study, study.tuned)["episode_return"].to_list()
    if None in curves:
        raise MissingRuns(f"No episode ended in a run of {study.name}.")
    return np.array(curves, np.float64)


def late_windows(study: Study) -> int:
    """How many windows are the late part of a run: a short run may have one in all."""
    return max(1, study.steps // study.window // LATE)


def late_returns(results: Results, study: Study) -> Floats:
    """The mean of the late windows' mean returns in each run, those without an end of an episode left out, (runs,)."""
    late = episode_returns(results, study)[:, -late_windows(study) :]
    if np.isnan(late).all(axis=1).any():
        raise MissingRuns(f"No episode ended late in a run of {study.name}.")
    return np.asarray(np.nanmean(late, axis=1))
