"""The claims about red-pill blue-pill: each holds and fails where it should, on made-up results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from perstep.paper.catalog import REDPILL
from perstep.paper.claims import comparison, redpill
from perstep.studies.results import SCHEMA, Results

# ε-greedy blue is in the blue world 0.95 of the time. Below the middle only its lower half counts, of mass 0.475 at −1.0, so
# the τ-quantile is −1.0 + 0.05 · Φ⁻¹(τ / 0.475); for τ = .15, Φ⁻¹(.3158) = −0.4795. The upper half is the mirror at −0.6.
LOWER = [-1.0626, -1.0240, -0.9967, -0.9683, -0.9190]  # τ = .05, .15, … .45
EXACT = [*LOWER, *(-1.2 - x for x in reversed(LOWER))]
D2 = dataclasses.replace(REDPILL[1], num_runs=2)
D3 = dataclasses.replace(REDPILL[2], num_runs=2)


def rows(study, setting, **columns):
    empty = dict.fromkeys(SCHEMA) | {"description": study.description(setting)}
    return [
        empty | {"seed": seed} | {name: values[i] for name, values in columns.items()}
        for i, seed in enumerate((0, 1000))
    ]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path, [dataclasses.replace(REDPILL[0], num_runs=2), D2, D3])


def test_the_optimal_rewards_are_those_of_epsilon_greedy_blue():
    exact = redpill.optimal_rewards(0.1)
    assert exact.mean == pytest.approx(-0.605, abs=1e-5)
    np.testing.assert_allclose(exact.levels_and_quantiles(10)[1], EXACT, atol=6e-5)


@pytest.mark.parametrize(("off", "holds"), [(0.009, True), (0.012, False)])
def test_quantiles_converge(results, off, holds):
    # One run is above and one below by 0.1 everywhere, so only what is added to the last quantile remains in the mean.
    theta = np.array(EXACT)
    last = np.eye(10)[-1] * off
    results.write(
        D2, D2.traced, rows(D2, D2.traced, reward_quantiles=[list(theta + 0.1 + last), list(theta - 0.1 + last)])
    )
    found = redpill.quantiles_converge(results, D2)
    assert found.holds is holds
    assert f"{off:.3f}"[:4] in found.measured


@pytest.mark.parametrize(("end", "holds"), [(1.02, True), (1.2, False)])
def test_returns_converge(results, end, holds):
    # Quantiles ±1 halfway and ±end at the end: each moves by end − 1, of a spread of 2 · end.
    trace = [[0.0, 0.0], [-1.0, 1.0], [-end, end]]
    results.write(D3, D3.traced, rows(D3, D3.traced, return_quantile_trace=[trace, trace]))
    found = redpill.returns_converge(results, D3)
    assert found.holds is holds
    assert f"{(end - 1) / (2 * end):.1%}" in found.measured


@pytest.mark.parametrize(("second", "holds"), [([1, 1], True), ([0, 1], False), ([1, 0], False)])
def test_stays_in_the_blue_world(results, second, holds):
    results.write(D2, D2.tuned, rows(D2, D2.tuned, greedy_actions=[[1, 1], second]))
    assert redpill.stays_in_the_blue_world(results, D2).holds is holds


@pytest.mark.parametrize(("behind", "holds"), [(0.0005, True), (0.002, False), (-0.01, True)])
def test_competitive(results, behind, holds):
    differential = results.studies["differential-q"]
    results.write(
        differential, differential.tuned, rows(differential, differential.tuned, average_reward=[-0.6, -0.61])
    )
    results.write(D2, D2.tuned, rows(D2, D2.tuned, average_reward=[-0.6 - behind, -0.61 - behind]))
    found = comparison.competitive(results, D2, differential, tolerance=redpill.REWARD_TOLERANCE)
    assert found.holds is holds
    assert "± 0.0000" in found.measured  # the luck of a seed is in both, and leaves


def test_tuned_is_best(results):
    for setting in D2.settings:
        results.write(D2, setting, rows(D2, setting, average_reward=[-0.65, -0.66]))
    results.write(D2, D2.tuned, rows(D2, D2.tuned, average_reward=[-0.605, -0.606]))
    assert comparison.tuned_is_best(results, D2).measured == "-0.6055 over all steps, rank 1"
    other = D2.settings[0]
    results.write(D2, other, rows(D2, other, average_reward=[-0.600, -0.610]))  # better in one, worse in the other
    results.write(D2, other, rows(D2, other, average_reward=[-0.600, -0.608]))
    found = comparison.tuned_is_best(results, D2)  # differences +0.005 and −0.002: 0.0015 ± 0.0069
    assert found.holds
    assert (
        "rank 2; the best, α = 2e-05, η = 0.001, m = 10, has -0.6040 and is 0.00150 ± 0.00686 ahead" in found.measured
    )
    results.write(D2, other, rows(D2, other, average_reward=[-0.600, -0.601]))
    assert not comparison.tuned_is_best(results, D2).holds


def test_what_was_not_run_has_the_same_words_and_says_why(results):
    told = redpill.claims(results)
    assert {claim.verdict for claim in told} == {"not run"}
    assert told[0].where == "Fig. 2c"
    assert told[0].says == "D2's reward quantiles converge to those of the optimal policy"
    assert told[0].measured.startswith("There are no results of redpill/d2-q")
    assert told[-1].says == "α = 0.02, η = 2, m = 51 is the best of D3's 70 settings"
