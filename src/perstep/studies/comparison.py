"""Settings and algorithms side by side (the tuning of App. C, Fig. 3 and C.7): which earns most, and by how much."""

from __future__ import annotations

from perstep.studies.catalog import Setting, Study
from perstep.studies.claims import Claim
from perstep.studies.results import COARSE_POINTS, MissingRuns, Results
from perstep.studies.statistics import Floats, coarser, mean_and_error

SYMBOLS = {"step_size": "α", "reward_ratio": "η", "policy_ratio": "η_π", "num_quantiles": "m"}
"""Setting → the paper's letter for it."""

ALL_STEPS, LATE_STEPS = "average_reward", "late_reward"  # columns of the results


def label(study: Study) -> str:
    """The algorithm as the paper calls it."""
    return {"differential": "Differential", "d2": "D2", "d3": "D3"}[study.rule]


def symbols(setting: Setting) -> str:
    """A setting in the paper's letters, as in "α = 0.002, η = 2, m = 51"."""
    return ", ".join(f"{SYMBOLS.get(name, name)} = {value:g}" for name, value in setting.items())


def scores(results: Results, study: Study, column: str = ALL_STEPS) -> list[tuple[Setting, Floats]]:
    """Every setting with what its runs earned. (runs,)"""
    return [(setting, results.runs(study, setting)[column].to_numpy()) for setting in study.settings]


def tuning(results: Results, study: Study, column: str = ALL_STEPS) -> list[tuple[Setting, float]]:
    """Every setting with the mean of what its runs earned, the best first."""
    rows = [(setting, float(each.mean())) for setting, each in scores(results, study, column)]
    return sorted(rows, key=lambda row: row[1], reverse=True)


def earned(results: Results, study: Study, setting: Setting, column: str = ALL_STEPS) -> float:
    """The mean of what the runs of a setting earned."""
    return float(results.runs(study, setting)[column].to_numpy().mean())


def ahead(
    results: Results, ours: tuple[Study, Setting], theirs: tuple[Study, Setting], column: str = ALL_STEPS
) -> tuple[float, float]:
    """How much more ours earn, and half the 95 % interval of it. Runs of one seed meet the same luck, so they are compared."""
    pairs = results.runs(*ours).join(results.runs(*theirs), on="seed")
    mean, error = mean_and_error((pairs[column] - pairs[f"{column}_right"]).to_numpy())
    return float(mean), float(error)


def coarse_rewards(results: Results, study: Study, setting: Setting) -> Floats:
    """The reward per step over a run in equal parts, as it is kept of every setting. (runs, T)"""
    curves = results.runs(study, setting)["reward_rate"]
    if curves.null_count():
        raise MissingRuns(f"The runs of {study.name} with {symbols(setting)} in {results.folder} keep no curve.")
    return coarser(curves.to_list(), COARSE_POINTS)


def rank_of(setting: Setting, rows: list[tuple[Setting, float]]) -> int:
    """The place of a setting among the best, from 1."""
    ranks = [rank for rank, (other, _) in enumerate(rows, 1) if other == setting]
    if not ranks:
        raise MissingRuns(f"{symbols(setting)} is not among the {len(rows)} settings that were run.")
    return ranks[0]


def competitive(
    results: Results, study: Study, baseline: Study, *, where: str, tolerance: float, column: str = ALL_STEPS
) -> Claim:
    """The tuned algorithm earns as much as the tuned baseline."""
    ours, theirs = (earned(results, each, each.tuned, column) for each in (study, baseline))
    difference, error = ahead(results, (study, study.tuned), (baseline, baseline.tuned), column)
    return Claim(
        where=where,
        says=f"{label(study)} is competitive with {label(baseline)}",
        measured=f"{over(study, column)} {ours:.4f} against {theirs:.4f}; {difference:+.4f} ± {error:.4f} apart",
        tolerance=f"no worse by {tolerance:g}",
        holds=difference >= -tolerance,
    )


def over(study: Study, column: str) -> str:
    """Which steps a column is about."""
    return "over all steps" if column == ALL_STEPS else f"over the last {study.steps // 10:,} steps"


def tuned_is_best(
    results: Results, study: Study, *, rows: list[tuple[Setting, float]] | None = None, digits: int = 5
) -> Claim:
    """No other setting of the grid earns significantly more over all steps than the one the paper chose.

    `rows`: the tuning, where it is known already.
    """
    rows = rows or tuning(results, study)
    rank = rank_of(study.tuned, rows)
    tuned, (best, mean) = rows[rank - 1][1], rows[0]
    difference, error = ahead(results, (study, best), (study, study.tuned))
    lead = f"{difference:.{digits}f} ± {error:.{digits}f}"
    rest = f"; the best, {symbols(best)}, has {mean:.4f} and is {lead} ahead"
    return Claim(
        where="App. C.1",
        says=f"{symbols(study.tuned)} is the best of {label(study)}'s {len(rows)} settings",
        measured=f"{tuned:.4f} over all steps, rank {rank}" + (rest if rank > 1 else ""),
        tolerance="none better beyond the 95 % interval",
        holds=rank == 1 or difference <= error,
    )
