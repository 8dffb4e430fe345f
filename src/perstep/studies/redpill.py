"""What the paper says of red-pill blue-pill (Sec. 5, App. C.1), as sentences that the results confirm or refute."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import polars as pl

from perstep.distribution import Distribution
from perstep.environments.redpill import BLUE, RED, red_pill_blue_pill
from perstep.studies.catalog import Setting, Study
from perstep.studies.claims import Claim
from perstep.studies.results import Results
from perstep.studies.statistics import mean_and_error

QUANTILE_TOLERANCE = 0.01  # a hundredth of the range of the rewards; at α_θ = 4e-4 one run wanders about as far
REWARD_TOLERANCE = 0.001  # a hundredth of what the blue world is better by
SETTLED = 0.05  # of the spread of the quantiles: how far they may still move in the second half of a run


@cache
def optimal_rewards(epsilon: float) -> Distribution:
    """The exact long-run distribution of the reward per step of the best policy, acting at random with probability ε."""
    mdp = red_pill_blue_pill()
    return mdp.evaluate(mdp.solve().policy, epsilon=epsilon).reward_distribution


def label(study: Study) -> str:
    """The algorithm as the paper calls it."""
    return {"differential": "Differential", "d2": "D2", "d3": "D3"}[study.rule]


def symbols(setting: Setting) -> str:
    """A setting in the paper's letters, as in "α = 0.002, η = 2, m = 51"."""
    letters = {"step_size": "α", "reward_ratio": "η", "num_quantiles": "m"}
    return ", ".join(f"{letters[name]} = {value:g}" for name, value in setting.items())


def tuning(results: Results, study: Study) -> list[tuple[Setting, float]]:
    """Every setting with the average reward of its runs over all steps, the best first."""
    rows = [(setting, earned(results, study, setting)) for setting in study.settings]
    return sorted(rows, key=lambda row: row[1], reverse=True)


def earned(results: Results, study: Study, setting: Setting) -> float:
    """The average reward over all steps and runs."""
    return float(results.runs(study, setting)["average_reward"].to_numpy().mean())


def ahead(results: Results, ours: tuple[Study, Setting], theirs: tuple[Study, Setting]) -> tuple[float, float]:
    """How much more ours earn, and half the 95 % interval of it. Runs of one seed meet the same luck, so they are compared."""
    pairs = results.runs(*ours).join(results.runs(*theirs), on="seed")
    mean, error = mean_and_error((pairs["average_reward"] - pairs["average_reward_right"]).to_numpy())
    return float(mean), float(error)


def claims(results: Results) -> list[Claim]:
    """All of the paper's claims about this world, in its order."""
    differential, d2, d3 = (results.studies[name] for name in ("differential-q", "d2-q", "d3-q"))
    return [
        quantiles_converge(results, d2, "Fig. 2c"),
        quantiles_converge(results, d3, "Fig. C.3"),
        returns_converge(results, d3),
        *(stays_in_the_blue_world(results, study) for study in (differential, d2, d3)),
        *(competitive(results, study, differential) for study in (d2, d3)),
        *(tuned_is_best(results, study) for study in (differential, d2, d3)),
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
    ours, theirs = (earned(results, each, each.tuned) for each in (study, baseline))
    difference, error = ahead(results, (study, study.tuned), (baseline, baseline.tuned))
    return Claim(
        where="Fig. 3",
        says=f"{label(study)} is competitive with {label(baseline)}",
        measured=f"over all steps {ours:.4f} against {theirs:.4f}; {difference:+.4f} ± {error:.4f} apart",
        tolerance=f"no worse by {REWARD_TOLERANCE:g}",
        holds=difference >= -REWARD_TOLERANCE,
    )


def tuned_is_best(results: Results, study: Study) -> Claim:
    """No other setting of the grid earns significantly more over all steps than the one the paper chose."""
    rows = tuning(results, study)
    rank, tuned = next((rank, mean) for rank, (setting, mean) in enumerate(rows, 1) if setting == study.tuned)
    best, mean = rows[0]
    difference, error = ahead(results, (study, best), (study, study.tuned))
    rest = f"; the best, {symbols(best)}, has {mean:.4f} and is {difference:.5f} ± {error:.5f} ahead"
    return Claim(
        where="App. C.1",
        says=f"{symbols(study.tuned)} is the best of {label(study)}'s {len(rows)} settings",
        measured=f"{tuned:.4f} over all steps, rank {rank}" + (rest if rank > 1 else ""),
        tolerance="none better beyond the 95 % interval",
        holds=rank == 1 or difference <= error,
    )


def _traced(results: Results, study: Study) -> pl.DataFrame:
    assert study.traced is not None
    return results.runs(study, study.traced)
