"""The claims about the inverted pendulum: each holds and fails where it should, on made-up results."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from perstep.studies import comparison, pendulum
from perstep.studies.catalog import PENDULUM
from perstep.studies.results import SCHEMA, MissingRuns, Results

DIFFERENTIAL, D2, D3 = (dataclasses.replace(study, num_runs=2) for study in PENDULUM)


def rows(study, setting, **columns):
    empty = dict.fromkeys(SCHEMA) | {"description": study.description(setting)}
    return [
        empty | {"seed": seed} | {name: values[i] for name, values in columns.items()}
        for i, seed in enumerate((0, 1000))
    ]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path, [DIFFERENTIAL, D2, D3])


def test_a_balanced_rod_earns_about_nothing():
    rewards = pendulum.balanced_rewards()
    # A push changes the velocity by 0.6 rad/s, the angle by 0.03 rad in the next step: so ±0.03 rad can hardly be bettered.
    assert -(0.03**2) < rewards.min() < rewards.mean() < 0.0
    assert rewards.mean() == pytest.approx(-6.5e-5, abs=1e-6)
    assert np.abs(rewards).max() < pendulum.TOLERANCE / 100


@pytest.mark.parametrize(("off", "holds"), [(-0.03, True), (-0.05, False)])
def test_quantiles_converge_but_for_the_lowest(results, off, holds):
    # One run is above and one below by 0.3, which leaves the mean; the lowest is far off and belongs to the other claim.
    theta = np.array([-0.8, *8 * [0.0], off])
    results.write(D2, D2.traced, rows(D2, D2.traced, reward_quantiles=[list(theta + 0.3), list(theta - 0.3)]))
    claim = pendulum.quantiles_converge(results, D2, "Fig. C.5")
    assert claim.holds is holds
    assert f"the worst of these 9 is {-off:.4f} off in the mean over runs" in claim.measured


@pytest.mark.parametrize(("lowest", "holds"), [(-0.03, True), (-0.83, False)])
def test_the_lowest_quantile_has_a_claim_of_its_own(results, lowest, holds):
    theta = [lowest, *9 * [0.0]]
    results.write(D2, D2.traced, rows(D2, D2.traced, reward_quantiles=[theta, theta]))
    claim = pendulum.lowest_quantile_converges(results, D2, "Fig. C.5")
    assert claim.holds is holds
    # α_θ τ = 0.1 · 0.02 · 0.05 = 1e-4 a step; the balanced rod's own quantile is −0.0002, so 0.8298 are left.
    assert ("rises by 1e-04 a step, so this takes 8,298 more steps" in claim.measured) is not holds


@pytest.mark.parametrize(("worst", "holds"), [(-0.03, True), (-0.05, False)])
def test_balances_in_every_run(results, worst, holds):
    results.write(D3, D3.tuned, rows(D3, D3.tuned, late_reward=[-0.001, worst]))
    claim = pendulum.balances(results, D3, "Fig. C.7")
    assert claim.holds is holds
    assert f"over the last 1,000 steps {(worst - 0.001) / 2:.4f}" in claim.measured
    assert f"{worst:.4f} in the worst" in claim.measured


@pytest.mark.parametrize("column", [comparison.ALL_STEPS, comparison.LATE_STEPS])
@pytest.mark.parametrize(("behind", "holds"), [(0.03, True), (0.05, False), (-1.0, True)])
def test_competitive(results, column, behind, holds):
    results.write(DIFFERENTIAL, DIFFERENTIAL.tuned, rows(DIFFERENTIAL, DIFFERENTIAL.tuned, **{column: [-0.5, -0.7]}))
    results.write(D2, D2.tuned, rows(D2, D2.tuned, **{column: [-0.5 - behind, -0.7 - behind]}))
    claim = pendulum.competitive(results, D2, DIFFERENTIAL, column)
    assert claim.holds is holds
    assert f"{-behind:+.4f} ± 0.0000 apart" in claim.measured


@pytest.fixture
def pair(results):
    """Two settings, one of them the paper's, and a function that writes what their runs earned."""
    few = dataclasses.replace(
        D3, grid={name: (value,) for name, value in D3.tuned.items()} | {"num_quantiles": (10, 51)}
    )
    other = {**D3.tuned, "num_quantiles": 51}

    def write(setting, average, late):
        results.write(few, setting, rows(few, setting, average_reward=average, late_reward=late))

    return few, other, write


def test_tuned_is_best_tells_both_ranks(results, pair, monkeypatch):
    few, other, write = pair
    write(few.tuned, [-0.5, -0.5], [-0.01, -0.01])
    write(other, [-0.6, -0.6], [0.0, 0.0])
    monkeypatch.delattr(pendulum, "confirmation")  # nothing is to be confirmed
    claim = pendulum.tuned_is_best(results, few)
    assert claim.holds
    assert claim.measured == "-0.5000 over all steps, rank 1; over the last 1,000 steps rank 2"
    assert claim.figure == "figure_sensitivity"


@pytest.mark.parametrize(("fresh", "again"), [([-0.4, -0.6], "0.000 ± 0.196"), ([-0.3, -0.32], "0.190 ± 0.020")])
def test_the_sweep_decides_whether_another_setting_is_better_and_other_seeds_are_told(
    results, pair, monkeypatch, fresh, again
):
    few, other, write = pair
    write(few.tuned, [-0.5, -0.5], [-0.01, -0.01])
    write(other, [-0.3, -0.31], [-0.1, -0.1])

    def made_up(_, study, setting):
        return pl.DataFrame({"seed": [1, 2], "average_reward": fresh if setting == other else [-0.5, -0.5]})

    monkeypatch.setattr(pendulum, "confirmation", made_up)
    claim = pendulum.tuned_is_best(results, few)
    assert claim.holds is False
    # In the sweep 0.2 and 0.19 ahead: 0.195 ± 1.96 · 0.00707/√2. With other seeds 0.1 and −0.1, or 0.2 and 0.18.
    assert (
        "rank 2; the best, α = 0.2, η = 0.001, η_π = 0.1, m = 51, has -0.3050 and is 0.195 ± 0.010 ahead"
        in claim.measured
    )
    assert f"{again} in 2 runs with other seeds" in claim.measured


def test_confirmation_runs_once_with_seeds_of_its_own(results):
    study = dataclasses.replace(D2, steps=200)
    first = pendulum.confirmation(results, study, study.tuned)
    assert first["seed"].to_list() == [1_000_000 + 1000 * i for i in range(20)]
    (path,) = results.folder.rglob("*.parquet")
    written = path.stat().st_mtime_ns
    assert pendulum.confirmation(results, study, study.tuned).equals(first)
    assert path.stat().st_mtime_ns == written


def test_what_was_not_run_says_so(results):
    claims = pendulum.claims(results)
    assert len(claims) == 14
    assert {claim.verdict for claim in claims} == {"not run"}


def test_a_setting_that_was_not_run_has_no_rank():
    assert comparison.rank_of({"step_size": 2.0}, [({"step_size": 1.0}, 0.0), ({"step_size": 2.0}, -1.0)]) == 2
    with pytest.raises(MissingRuns, match="α = 3 is not among the 1 settings"):
        comparison.rank_of({"step_size": 3.0}, [({"step_size": 1.0}, 0.0)])
