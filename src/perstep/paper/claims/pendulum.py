"""The paper's claims about the inverted pendulum (App. C.1, Fig. C.5 to C.7), judged from result files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from perstep.numerics.quantiles import levels
from perstep.numerics.statistics import Floats
from perstep.paper.claims import comparison
from perstep.paper.claims.claim import Claim, Finding, judge
from perstep.paper.confirmation import confirmed
from perstep.paper.reference import balanced_rewards
from perstep.studies.notation import label
from perstep.studies.ranking import ALL_STEPS, LATE_STEPS, paired_difference, ranked_as, ranking
from perstep.studies.results import Results
from perstep.studies.study import Study

TOLERANCE = 0.04  # in reward: the rod is 0.2 rad (11 degrees) off; hanging costs π², random actions cost 5.9


def claims(results: Results) -> list[Claim]:
    """All claims about this world, in the order of the paper."""
    names = ("differential-actor-critic", "d2-actor-critic", "d3-actor-critic")
    differential, d2, d3 = (results.studies[name] for name in names)
    return [
        *(
            judge(
                "App. C.1",
                comparison.tuned_is_best_says(study),
                partial(tuned_is_best, results, study),
                figure="figure_sensitivity",
            )
            for study in (differential, d2, d3)
        ),
        *_convergence(results, d2, "Fig. C.5"),
        *_convergence(results, d3, "Fig. C.6"),
        *(
            judge("Fig. C.7", f"{label(study)} learns to balance the rod", partial(balances, results, study))
            for study in (differential, d2, d3)
        ),
        *(
            judge(
                "Fig. C.7",
                comparison.competitive_says(study, differential),
                partial(comparison.competitive, results, study, differential, tolerance=TOLERANCE, column=column),
            )
            for study in (d2, d3)
            for column in (ALL_STEPS, LATE_STEPS)
        ),
    ]


def _convergence(results: Results, study: Study, where: str) -> list[Claim]:
    """The claims that a figure makes of all quantiles but the lowest, and of the lowest."""
    lowest = f"(τ = {_lowest_level(study):g})"
    return [
        judge(
            where,
            f"{label(study)}'s reward quantiles converge to those of a balanced rod, about 0: all but the lowest",
            partial(quantiles_converge, results, study),
        ),
        judge(
            where,
            f"{label(study)}'s lowest reward quantile {lowest} converges to about 0 as well",
            partial(lowest_quantile_converges, results, study),
        ),
    ]


def tuned_is_best(results: Results, study: Study) -> Finding:
    """Compares the paper's choice with the configuration that earned most over all steps.

    The sweep decides, as in red-pill blue-pill. But few runs fail, and a failed run costs much: the best of hundreds of
    configurations by ten runs each is one without a failed run. So the best one and the paper's choice are run again with other
    seeds (paper/confirmation.py), and the result of that is reported beside the verdict.
    """
    rows = ranking(results, study)
    found, best = comparison.tuned_is_best(results, study, rows=rows, digits=3), rows[0].configuration
    late = ranked_as(study.tuned, ranking(results, study, LATE_STEPS)).rank
    again = ""
    if best != study.tuned:
        fresh, confirming = confirmed(results, study, best)
        ours, theirs = (fresh.runs(confirming, setting) for setting in confirming.settings)
        mean, error, pairs = paired_difference(ours, theirs)
        again = f", and {mean:.3f} ± {error:.3f} in {pairs} runs with other seeds"
    return replace(found, measured=f"{found.measured}{again}; {comparison.over(study, LATE_STEPS)} rank {late}")


def quantiles_converge(results: Results, study: Study) -> Finding:
    """Compares all θ but the lowest with the quantiles of the reward of a balanced rod."""
    final = _final_quantiles(results, study)
    m = final.shape[1]
    exact = np.quantile(balanced_rewards(), levels(m))
    off = float(np.abs(final.mean(axis=0) - exact)[1:].max())
    one = float(np.median(np.abs(final - exact)[:, 1:].max(axis=1)))
    return Finding(
        measured=f"the worst of these {m - 1} is {off:.4f} off in the mean over runs, {one:.4f} in a typical run",
        tolerance=f"{TOLERANCE:g} in the mean",
        holds=off <= TOLERANCE,
    )


def lowest_quantile_converges(results: Results, study: Study) -> Finding:
    """Compares the lowest θ with its quantile. It rises by at most α_θ τ per step, so it recovers slowly from the first rewards."""
    final, tau = _final_quantiles(results, study), _lowest_level(study)
    assert study.traced is not None
    rise = study.traced["step_size"] * study.traced["reward_ratio"] * tau
    off = abs(float(final[:, 0].mean() - np.quantile(balanced_rewards(), tau)))
    rest = f"; it rises by {rise:.0e} a step, so this takes {off / rise:,.0f} more steps"
    return Finding(
        measured=f"it is {off:.3f} off in the mean over runs" + (rest if off > TOLERANCE else ""),
        tolerance=f"{TOLERANCE:g} in the mean",
        holds=off <= TOLERANCE,
    )


def balances(results: Results, study: Study) -> Finding:
    """Counts the runs in which the rod is upright at the end."""
    late = results.runs(study, study.tuned)[LATE_STEPS].to_numpy()
    standing = int((late >= -TOLERANCE).sum())
    return Finding(
        measured=f"{comparison.over(study, LATE_STEPS)} {late.mean():.4f} in the mean over runs, {late.min():.4f} in the worst; "
        f"{standing} of {late.size} runs end above {-TOLERANCE:g}",
        tolerance=f"every run above {-TOLERANCE:g}",
        holds=standing == late.size,
    )


def _final_quantiles(results: Results, study: Study) -> Floats:
    """θ at the end of every run that Fig. C.5 or C.6 shows. (runs, m)"""
    return np.array(results.traced_runs(study)["reward_quantiles"].to_list())


def _lowest_level(study: Study) -> float:
    """τ of the lowest reward quantile in the configuration that Fig. C.5 or C.6 shows."""
    assert study.traced is not None
    return float(levels(int(study.traced["num_quantiles"]))[0])
