"""What the paper says of red-pill blue-pill (Sec. 5, App. C.1), as sentences that the results confirm or refute."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import polars as pl

from perstep.distribution import Distribution
from perstep.environments.redpill import BLUE, RED, red_pill_blue_pill
from perstep.studies import comparison
from perstep.studies.catalog import Study
from perstep.studies.claims import Claim, judge
from perstep.studies.comparison import label, tuned_is_best
from perstep.studies.results import Results

QUANTILE_TOLERANCE = 0.01  # a hundredth of the range of the rewards; at α_θ = 4e-4 one run wanders about as far
REWARD_TOLERANCE = 0.001  # a hundredth of what the blue world is better by
SETTLED = 0.05  # of the spread of the quantiles: how far they may still move in the second half of a run


@cache
def optimal_rewards(epsilon: float) -> Distribution:
    """The exact long-run distribution of the reward per step of the best policy, acting at random with probability ε."""
    mdp = red_pill_blue_pill()
    return mdp.evaluate(mdp.solve().policy, epsilon=epsilon).reward_distribution


def claims(results: Results) -> list[Claim]:
    """All of the paper's claims about this world, in its order."""
    differential, d2, d3 = (results.studies[name] for name in ("differential-q", "d2-q", "d3-q"))
    return [
        judge(quantiles_converge, results, d2, "Fig. 2c"),
        judge(quantiles_converge, results, d3, "Fig. C.3"),
        judge(returns_converge, results, d3),
        *(judge(stays_in_the_blue_world, results, study) for study in (differential, d2, d3)),
        *(judge(competitive, results, study, differential) for study in (d2, d3)),
        *(judge(tuned_is_best, results, study) for study in (differential, d2, d3)),
    ]


def quantiles_converge(results: Results, study: Study, where: str) -> Claim:
    """θ goes to the quantiles of the reward under the optimal (ε-greedy) policy."""
    final = np.array(_traced(results, study)["reward_quantiles"].to_list())  # (runs, m)
    _, exact = optimal_rewards(study.fixed["epsilon"]).levels_and_quantiles(final.shape[1])
    off = float(np.abs(final.mean(axis=0) - exact).max())
    one = float(np.median(np.abs(final - exact).max(axis=1)))
    return Claim(
        where=where,
        says=f"{label(study)}'s reward quantiles converge to those of the optimal policy",
        measured=f"the worst quantile is {off:.4f} off in the mean over runs, {one:.4f} in a typical run",
        tolerance=f"{QUANTILE_TOLERANCE:g} in the mean",
        holds=off <= QUANTILE_TOLERANCE,
    )


def returns_converge(results: Results, study: Study) -> Claim:
    """Ω(blue, blue) settles within the run."""
    trace = np.array(_traced(results, study)["return_quantile_trace"].to_list()).mean(axis=0)  # (T, n)
    spread = float(np.ptp(trace[-1]))
    moved = float(np.abs(trace[-1] - trace[len(trace) // 2]).max()) / spread if spread else math.inf
    return Claim(
        where="Fig. C.4",
        says=f"{label(study)}'s return quantiles of (blue world, blue pill) converge",
        measured=f"in the second half of the run they still move by up to {moved:.1%} of their spread of {spread:.2f}",
        tolerance=f"{SETTLED:.0%}",
        holds=moved <= SETTLED,
    )


def stays_in_the_blue_world(results: Results, study: Study) -> Claim:
    """The greedy policy takes the blue pill in both worlds."""
    greedy = results.runs(study, study.tuned)["greedy_actions"].to_list()
    good = sum(actions[RED] == actions[BLUE] == BLUE for actions in greedy)
    return Claim(
        where="App. C.1",
        says=f"{label(study)} learns a policy that stays in the blue world",
        measured=f"{good} of {len(greedy)} runs end with it",
        tolerance="all runs",
        holds=good == len(greedy),
    )


def competitive(results: Results, study: Study, baseline: Study) -> Claim:
    """The tuned algorithm earns as much as tuned Differential."""
    return comparison.competitive(results, study, baseline, where="Fig. 3", tolerance=REWARD_TOLERANCE)


def _traced(results: Results, study: Study) -> pl.DataFrame:
    assert study.traced is not None
    return results.runs(study, study.traced)
