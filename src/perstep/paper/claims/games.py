"""The paper's claims about its games (Sec. 5, Fig. 4), judged from result files of Atari or of MinAtar, which two cores can run.

The paper: "the D2 and D3 algorithms consistently outperform the non-distributional baseline, with the D3 algorithm showing better
performance than the D2 algorithm". It gives no number, so the criterion is ours; it was written down before there were results.
One rule outperforms another in a game if the 95 % interval of the difference of their mean late returns is above 0. If the
interval contains 0, nothing is decided, and the claim does not hold. The late return of a run is a mean over the windows of its
last tenth (at least one window) in which an episode ended: the mean of their mean episode returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from perstep.numerics.statistics import mean_difference
from perstep.paper.claims import comparison
from perstep.paper.claims.claim import Claim, Finding, judge
from perstep.paper.game_returns import late_returns, late_scores, late_windows
from perstep.studies.notation import label, world_name
from perstep.studies.results import Results
from perstep.studies.study import Study


def claims(results: Results) -> list[Claim]:
    """All claims about games, game by game."""
    return [
        judge(
            "Fig. 4",
            f"{label(ours)} outperforms {label(theirs)} in {world_name(ours)}",
            partial(outperforms, results, ours, theirs),
        )
        for differential, d2, d3 in _by_game(results)
        for ours, theirs in ((d2, differential), (d3, differential), (d3, d2))
    ]


def tuning_claims(results: Results) -> list[Claim]:
    """All claims about games, and that the tuned settings of each are the best of their grids (Tables C.1 to C.3)."""
    return claims(results) + [
        judge(
            "App. C.2",
            f"in {world_name(study)} {comparison.tuned_is_best_says(study)}",
            partial(comparison.tuned_is_best, results, study),
        )
        for study in results.studies.values()
    ]


def outperforms(results: Results, ours: Study, theirs: Study) -> Finding:
    """Compares the late returns of two rules with tuned settings."""
    late, beside = late_returns(results, ours), late_returns(results, theirs)
    covered = late_windows(ours) * ours.window
    span = f"the last {covered:,} steps" if covered < ours.steps else f"all {covered:,} steps"
    numbers = f"over {span} {late.mean():.3g} an episode against {beside.mean():.3g}"
    points = late_scores(results, ours), late_scores(results, theirs)
    if points[0] is not None and points[1] is not None:
        numbers += f" (in points of the game, without clipping: {points[0].mean():.4g} against {points[1].mean():.4g})"
    if min(late.size, beside.size) < 2:
        return Finding(measured=f"{numbers}, but one run cannot tell", holds=None)
    apart = mean_difference(late, beside)
    found = "ahead" if apart.low > 0 else "behind" if apart.high < 0 else "undecided"
    return Finding(
        measured=f"{numbers}: {apart.value:+.3g} ({apart.low:.3g} to {apart.high:.3g}), {found}",
        tolerance="the 95 % interval of the difference is above 0",
        holds=apart.low > 0,
    )


def _by_game(results: Results) -> Iterator[tuple[Study, Study, Study]]:
    """The studies of each game: Differential, D2, D3."""
    names = ("differential-deep-q", "d2-deep-q", "d3-deep-q")
    for game in dict.fromkeys(study.game for study in results.studies.values()):
        differential, d2, d3 = (results.studies[f"{game}/{name}"] for name in names)
        yield differential, d2, d3
