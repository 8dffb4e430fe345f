"""The two claims that the paper makes of every world (App. C.1, Fig. 3 and C.7): tuned settings are best, rules are competitive."""

from __future__ import annotations

from collections.abc import Sequence

from perstep.paper.claims.claim import Finding
from perstep.studies.notation import label, symbols
from perstep.studies.ranking import ALL_STEPS, Ranked, paired_difference, ranked_as, ranking
from perstep.studies.results import Results
from perstep.studies.study import Setting, Study


def competitive_says(study: Study, baseline: Study) -> str:
    """The claim in words."""
    return f"{label(study)} is competitive with {label(baseline)}"


def competitive(
    results: Results, study: Study, baseline: Study, *, tolerance: float, column: str = ALL_STEPS
) -> Finding:
    """Compares what two algorithms earn with the paper's settings."""
    ours, theirs = (results.runs(each, each.tuned) for each in (study, baseline))
    difference, error, _ = paired_difference(ours, theirs, column)
    means = [float(runs[column].to_numpy().mean()) for runs in (ours, theirs)]
    return Finding(
        measured=f"{over(study, column)} {means[0]:.4f} against {means[1]:.4f}; {difference:+.4f} ± {error:.4f} apart",
        tolerance=f"no worse by {tolerance:g}",
        holds=difference >= -tolerance,
    )


def over(study: Study, column: str) -> str:
    """The steps that a column of the results covers, in words."""
    return "over all steps" if column == ALL_STEPS else f"over the last {study.steps // 10:,} steps"


def tuned_is_best_says(study: Study) -> str:
    """The claim in words."""
    return f"{symbols(study.tuned)} is the best of {label(study)}'s {len(study.settings)} settings"


def tuned_is_best(
    results: Results, study: Study, *, rows: Sequence[Ranked[Setting]] | None = None, digits: int = 5
) -> Finding:
    """Compares the paper's choice with the configuration that earned most over all steps.

    `rows`: the ranking, if it is known already.
    """
    rows = rows or ranking(results, study)
    best, tuned = rows[0], ranked_as(study.tuned, rows)
    runs, paper_runs = (results.runs(study, row.configuration) for row in (best, tuned))
    difference, error, _ = paired_difference(runs, paper_runs)
    lead = f"{difference:.{digits}f} ± {error:.{digits}f}"
    rest = f"; the best, {symbols(best.configuration)}, has {best.mean:.4f} and is {lead} ahead"
    return Finding(
        measured=f"{tuned.mean:.4f} over all steps, rank {tuned.rank}" + (rest if tuned.rank > 1 else ""),
        tolerance="none better beyond the 95 % interval",
        holds=tuned.rank == 1 or difference <= error,
    )
