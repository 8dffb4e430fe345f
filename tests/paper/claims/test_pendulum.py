"""The claims about the inverted pendulum: each holds and fails where it should, on made-up results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from perstep.paper.catalog import PENDULUM
from perstep.paper.claims import comparison, pendulum
from perstep.paper.confirmation import confirmation, confirmed, confirming
from perstep.paper.reference import balanced_rewards
from perstep.studies.execution import complete
from perstep.studies.ranking import ALL_STEPS, LATE_STEPS
from perstep.studies.results import SCHEMA, Results

DIFFERENTIAL, D2, D3 = (dataclasses.replace(study, num_runs=2) for study in PENDULUM)


def rows(study, setting, **columns):
    empty = dict.fromkeys(SCHEMA) | {"description": study.description(setting)}
    return [
        empty | {"seed": seed} | {name: values[i] for name, values in columns.items()}
        for i, seed in enumerate(study.seeds)
    ]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path, [DIFFERENTIAL, D2, D3])


def test_a_balanced_rod_earns_about_nothing():
    rewards = balanced_rewards()
    # A push changes the velocity by 0.6 rad/s, the angle by 0.03 rad in the next step: so ±0.03 rad can hardly be bettered.
    assert -(0.03**2) < rewards.min() < rewards.mean() < 0.0
    assert rewards.mean() == pytest.approx(-6.5e-5, abs=1e-6)
    assert np.abs(rewards).max() < pendulum.TOLERANCE / 100


@pytest.mark.parametrize(("off", "holds"), [(-0.03, True), (-0.05, False)])
def test_quantiles_converge_but_for_the_lowest(results, off, holds):
    # One run is above and one below by 0.3, which leaves the mean; the lowest is far off and belongs to the other claim.
    theta = np.array([-0.8, *8 * [0.0], off])
    results.write(D2, D2.traced, rows(D2, D2.traced, reward_quantiles=[list(theta + 0.3), list(theta - 0.3)]))
    found = pendulum.quantiles_converge(results, D2)
    assert found.holds is holds
    assert f"the worst of these 9 is {-off:.4f} off in the mean over runs" in found.measured


@pytest.mark.parametrize(("lowest", "holds"), [(-0.03, True), (-0.83, False)])
def test_the_lowest_quantile_has_a_claim_of_its_own(results, lowest, holds):
    theta = [lowest, *9 * [0.0]]
    results.write(D2, D2.traced, rows(D2, D2.traced, reward_quantiles=[theta, theta]))
    found = pendulum.lowest_quantile_converges(results, D2)
    assert found.holds is holds
    # α_θ τ = 0.1 · 0.02 · 0.05 = 1e-4 a step; the balanced rod's own quantile is −0.0002, so 0.8298 are left.
    assert ("rises by 1e-04 a step, so this takes 8,298 more steps" in found.measured) is not holds


@pytest.mark.parametrize(("worst", "holds"), [(-0.03, True), (-0.05, False)])
def test_balances_in_every_run(results, worst, holds):
    results.write(D3, D3.tuned, rows(D3, D3.tuned, late_reward=[-0.001, worst]))
    found = pendulum.balances(results, D3)
    assert found.holds is holds
    assert f"over the last 1,000 steps {(worst - 0.001) / 2:.4f}" in found.measured
    assert f"{worst:.4f} in the worst" in found.measured


@pytest.mark.parametrize("column", [ALL_STEPS, LATE_STEPS])
@pytest.mark.parametrize(("behind", "holds"), [(0.03, True), (0.05, False), (-1.0, True)])
def test_competitive(results, column, behind, holds):
    results.write(DIFFERENTIAL, DIFFERENTIAL.tuned, rows(DIFFERENTIAL, DIFFERENTIAL.tuned, **{column: [-0.5, -0.7]}))
    results.write(D2, D2.tuned, rows(D2, D2.tuned, **{column: [-0.5 - behind, -0.7 - behind]}))
    found = comparison.competitive(results, D2, DIFFERENTIAL, tolerance=pendulum.TOLERANCE, column=column)
    assert found.holds is holds
    assert f"{-behind:+.4f} ± 0.0000 apart" in found.measured


@pytest.fixture
def pair(results):
    """Two settings, one of them the paper's, and a function that writes what their runs earned."""
    few = dataclasses.replace(
        D3, grid={name: (value,) for name, value in D3.tuned.items()} | {"num_quantiles": (10, 51)}
    )
    other = {**D3.tuned, "num_quantiles": 51}

    def write(setting, average, late):
        theta = 2 * [10 * [0.0]]
        results.write(
            few, setting, rows(few, setting, average_reward=average, late_reward=late, reward_quantiles=theta)
        )

    return few, other, write


def test_tuned_is_best_tells_both_ranks(results, pair):
    few, other, write = pair
    write(few.tuned, [-0.5, -0.5], [-0.01, -0.01])
    write(other, [-0.6, -0.6], [0.0, 0.0])
    found = pendulum.tuned_is_best(results, few)
    assert found.holds
    assert found.measured == "-0.5000 over all steps, rank 1; over the last 1,000 steps rank 2"
    assert not confirmation(Results(results.folder, [few])).studies  # nothing is to be confirmed


@pytest.mark.parametrize(("fresh", "again"), [([-0.4, -0.6], "0.000 ± 0.045"), ([-0.3, -0.32], "0.190 ± 0.004")])
def test_the_sweep_decides_whether_another_setting_is_better_and_other_seeds_are_told(results, pair, fresh, again):
    few, other, write = pair
    write(few.tuned, [-0.5, -0.5], [-0.01, -0.01])
    write(other, [-0.3, -0.31], [-0.1, -0.1])
    apart, study = confirmed(results, few, other)
    for setting, average in ((other, fresh), (few.tuned, [-0.5, -0.5])):
        apart.write(study, setting, rows(study, setting, average_reward=10 * average))
    found = pendulum.tuned_is_best(results, few)
    assert found.holds is False
    # In the sweep 0.2 and 0.19 ahead: 0.195 ± 1.96 · 0.00707/√2. With other seeds ten times 0.1 and −0.1, or 0.2 and 0.18:
    # 1.96 · 0.1026/√20 = 0.045, where the deviation is 0.1 · √(20/19), and a tenth of that.
    assert (
        "rank 2; the best, α = 0.2, η = 0.001, η_π = 0.1, m = 51, has -0.3050 and is 0.195 ± 0.010 ahead"
        in found.measured
    )
    assert f"{again} in 20 runs with other seeds" in found.measured


def test_a_claim_runs_nothing(results, pair):
    few, other, write = pair
    write(few.tuned, [-0.5, -0.5], [-0.01, -0.01])
    write(other, [-0.3, -0.31], [-0.1, -0.1])
    results.studies = {"differential-actor-critic": DIFFERENTIAL, "d2-actor-critic": D2, "d3-actor-critic": few}
    before = set(results.folder.rglob("*"))
    told = pendulum.claims(results)
    assert told[2].verdict == "not run"
    assert told[2].measured.startswith("There are no results of pendulum/d3-actor-critic")
    assert "confirmation" in told[2].measured
    assert set(results.folder.rglob("*")) == before


def test_the_confirmation_is_a_study_of_the_best_and_the_paper_s_choice_with_seeds_of_its_own(results, pair):
    few, other, _ = pair
    few = dataclasses.replace(few, steps=200)
    for setting, average in ((few.tuned, -0.5), (other, -0.3)):
        results.write(few, setting, rows(few, setting, average_reward=[average] * 2))
    apart = confirmation(Results(results.folder, [DIFFERENTIAL, few]))  # the grid of differential is not there
    assert list(apart.studies) == ["d3-actor-critic"]
    summary = complete(apart, progress=False)
    assert (summary.made, summary.runs) == (2, 40)
    study = apart.studies["d3-actor-critic"]
    assert study.settings == [other, few.tuned]
    for setting in study.settings:
        assert apart.runs(study, setting)["seed"].to_list() == [1_000_000 + 1000 * i for i in range(20)]
    assert apart.folder == results.folder / "confirmation"
    assert complete(apart, progress=False).made == 0


def test_a_confirmation_is_described_as_a_sweep_of_the_same_setting(pair):
    few, other, _ = pair
    assert confirming(few, other).description(other) == few.description(other)


def test_what_was_not_run_says_so(results):
    claims = pendulum.claims(results)
    assert len(claims) == 14
    assert {claim.verdict for claim in claims} == {"not run"}
    assert all(claim.where for claim in claims)
