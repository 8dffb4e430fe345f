"""The paper's claims about red-pill blue-pill (Sec. 5, App. C.1), judged from result files and the exact solution."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from perstep.paper.claims import comparison
from perstep.paper.claims.claim import Claim, Finding, judge
from perstep.paper.reference import BLUE, RED, optimal_rewards
from perstep.studies.notation import label
from perstep.studies.results import Results
from perstep.studies.study import Study

QUANTILE_TOLERANCE = 0.01  # 1 % of the range of the rewards; a single run fluctuates about as much at α_θ = 4e-4
REWARD_TOLERANCE = 0.001  # 1 % of the advantage of the blue world
SETTLED = 0.05  # of the spread of the quantiles: how far they may still move in the second half of a run


def claims(results: Results) -> list[Claim]:
    """All claims about this world, in the order of the paper."""
    differential, d2, d3 = (results.studies[name] for name in ("differential-q", "d2-q", "d3-q"))
    return [
        *(
            judge(
                where,
                f"{label(study)}'s reward quantiles converge to those of the optimal policy",
                partial(quantiles_converge, results, study),
            )
            for study, where in ((d2, "Fig. 2c"), (d3, "Fig. C.3"))
        ),
        judge(
            "Fig. C.4",
            f"{label(d3)}'s return quantiles of (blue world, blue pill) converge",
            partial(returns_converge, results, d3),
        ),
        *(
            judge(
                "App. C.1",
                f"{label(study)} learns a policy that stays in the blue world",
                partial(stays_in_the_blue_world, results, study),
            )
            for study in (differential, d2, d3)
        ),
        *(
            judge(
                "Fig. 3",
                comparison.competitive_says(study, differential),
                partial(comparison.competitive, results, study, differential, tolerance=REWARD_TOLERANCE),
            )
            for study in (d2, d3)
        ),
        *(
            judge(
                "App. C.1",
                comparison.tuned_is_best_says(study),
                partial(comparison.tuned_is_best, results, study),
            )
            for study in (differential, d2, d3)
        ),
    ]


def quantiles_converge(results: Results, study: Study) -> Finding:
    """Compares θ at the end with the exact quantiles of the reward under the ε-greedy optimal policy."""
    final = np.array(results.traced_runs(study)["reward_quantiles"].to_list())  # (runs, m)
    _, exact = optimal_rewards(study.fixed["epsilon"]).levels_and_quantiles(final.shape[1])
    off = float(np.abs(final.mean(axis=0) - exact).max())
    one = float(np.median(np.abs(final - exact).max(axis=1)))
    return Finding(
        measured=f"the worst quantile is {off:.4f} off in the mean over runs, {one:.4f} in a typical run",
        tolerance=f"{QUANTILE_TOLERANCE:g} in the mean",
        holds=off <= QUANTILE_TOLERANCE,
    )


def returns_converge(results: Results, study: Study) -> Finding:
    """Measures how far Ω(blue, blue) still moves in the second half of a run."""
    trace = np.array(results.traced_runs(study)["return_quantile_trace"].to_list()).mean(axis=0)  # (T, n)
    spread = float(np.ptp(trace[-1]))
    moved = float(np.abs(trace[-1] - trace[len(trace) // 2]).max()) / spread if spread else math.inf
    return Finding(
        measured=f"in the second half of the run they still move by up to {moved:.1%} of their spread of {spread:.2f}",
        tolerance=f"{SETTLED:.0%}",
        holds=moved <= SETTLED,
    )


def stays_in_the_blue_world(results: Results, study: Study) -> Finding:
    """Counts the runs whose greedy policy takes the blue pill in both worlds."""
    greedy = results.runs(study, study.tuned)["greedy_actions"].to_list()
    good = sum(actions[RED] == actions[BLUE] == BLUE for actions in greedy)
    return Finding(
        measured=f"{good} of {len(greedy)} runs end with it",
        tolerance="all runs",
        holds=good == len(greedy),
    )
