"""The theory part at smoke scale: numbers right where they are exact, bounds that hold at any effort, and nothing done twice."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.quantiles import levels
from perstep.paper import reproduction, theory
from perstep.paper.catalog import SCALES
from perstep.paper.figures import style
from perstep.paper.figures import theory as figures
from perstep.paper.theory import control, prediction, quantile_tracking, returns
from perstep.paper.theory.measuring import EFFORTS, log_spaced_steps, slope
from perstep.paper.theory.quantile_tracking import Target, expected_gap, lyapunov
from perstep.studies.execution import Shard, complete
from perstep.studies.measurement import Measurement
from perstep.studies.results import MissingRuns, Results, table
from perstep.studies.runs import run_unit
from perstep.worlds import garnet, red_pill_blue_pill, two_loop

SMOKE = SCALES["smoke"]


class InThisProcess:
    """An engine without processes, for measurements that only this file defines."""

    name = "local"

    def work(self, units):
        for unit in units:
            yield unit, run_unit(unit)


def at_smoke(folder, measurements):
    return Results(folder, measurements=[each.at(SMOKE) for each in measurements])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theory")
    results = at_smoke(folder, theory.MEASUREMENTS)
    summary = complete(results, progress=False)
    assert (summary.found, summary.made, summary.failures) == (0, len(theory.MEASUREMENTS), ())
    return results


# What is exact


def test_the_mean_of_the_quantiles_is_within_its_bound_and_goes_to_the_average(results):
    frame = table(results.folder, "quantile_mean")
    discrete = frame.filter(pl.col("bound").is_not_null())
    assert (discrete["error"] <= discrete["bound"] + 1e-12).all()
    for curve in frame.partition_by("world"):
        error, m = curve["error"].to_numpy(), curve["m"].to_numpy()
        assert error[m >= 100].max() < error[m <= 10].max() / 5
    # Two-loop, m = 10: eight zeros, a one and a two, whose mean 0.3 is the average reward.
    assert frame.filter((pl.col("world") == "two-loop") & (pl.col("m") == 10))["error"][0] == pytest.approx(
        0, abs=1e-12
    )


def test_the_bound_of_theorem_4_4_holds_at_every_look(results):
    frame = table(results.folder, "optimality_gap")
    assert set(frame["world"]) == set(control.worlds())
    assert (frame["low"] <= frame["gain"] + 1e-9).all()
    assert (frame["gain"] <= frame["best"] + 1e-9).all()
    assert (frame["best"] <= frame["high"] + 1e-9).all()


def test_lyapunov_is_the_integral_of_the_mean_pull():
    mdp = red_pill_blue_pill()
    target = Target.of(mdp.evaluate([1, 1], epsilon=0.1).reward_distribution, 4)
    theta = np.array([-1.2, -0.5, 0.1, 0.4])  # on both sides of the quantiles, and above the cap of 0
    by_sums = 0.0
    for end, start, tau in zip(theta, target.low, target.tau, strict=True):
        points = np.linspace(start, end, 200_001)
        by_sums += np.trapezoid(target.rewards.cdf(points) - tau, points)
    assert lyapunov(target, theta) == pytest.approx(by_sums, abs=1e-5)
    assert lyapunov(target, target.low) == pytest.approx(0.0, abs=1e-12)


def test_expected_gap_of_atoms_is_by_hand():
    # Two-loop under the uniform policy pays 0, 1, 2 with probability 0.8, 0.1, 0.1: E(1.5 − R)⁺ = 0.8 · 1.5 + 0.1 · 0.5.
    rewards = two_loop().evaluate(np.full((9, 2), 0.5)).reward_distribution
    np.testing.assert_allclose(expected_gap(rewards, np.array([-1.0, 1.5])), [0.0, 1.25])


def test_a_flat_stretch_is_no_distance():
    # F stays at 0.9 from 1 to 2, so with m = 5 anything between them is a 0.9-quantile.
    rewards = two_loop().evaluate(np.full((9, 2), 0.5)).reward_distribution
    target = Target.of(rewards, 5)
    assert (target.low[4], target.high[4]) == (1.0, 2.0)
    np.testing.assert_allclose(target.distance(np.array([0.0, 0.0, 0.0, 0.25, 1.7])), [0, 0, 0, 0.25, 0])


def test_lyapunov_never_rises_along_the_mean_path(results):
    (claim,) = quantile_tracking.flow_claims(table(results.folder, "flow"))
    assert claim.holds


def test_the_floor_of_lyapunov_is_the_sum_over_levels():
    for m in (1, 5, 51):
        tau = levels(m)
        assert quantile_tracking.predicted_lyapunov(m, 0.3) == pytest.approx(0.3 * (tau * (1 - tau)).sum() / 4)


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_the_rise_of_red_pill_is_by_hand(epsilon):
    # The greedy policy is a loop at (blue, blue), with share w = (1 − ε/2)² of the visits, so k / w = r̄* − R̄.
    mdp = red_pill_blue_pill()
    best = mdp.solve().average_reward
    acted = mdp.evaluate([1, 1], epsilon=epsilon)
    weights = acted.stationary[:, None] * acted.policy
    wanted = (1 - epsilon / 2) ** 2 * (best - acted.average_reward)
    assert control.rise(mdp, weights, acted.average_reward) == pytest.approx(wanted, rel=1e-6)
    # With steps c/ν every pair moves alike, whatever its visits: k is the whole difference.
    assert control.rise(mdp, weights, acted.average_reward, power=1.0) == pytest.approx(
        best - acted.average_reward, rel=1e-6
    )


def test_the_rise_is_none_where_the_average_is_right():
    mdp = garnet(8, 2, 3, seed=3)
    assert control.rise(mdp, np.full((8, 2), 1 / 16), mdp.solve().average_reward) == pytest.approx(0.0, abs=1e-9)


def test_the_rise_of_one_action_is_that_of_prediction():
    # With one action, w = μ and Σ μ/w = S: k = (r̄ − R̄)/S, as tests/tabular/test_learning.py derives it for TD.
    mdp = FiniteMDP([[[0.2, 0.8]], [[0.5, 0.5]]], [[1.0], [0.0]])
    exact = mdp.evaluate([0, 0])
    assert control.rise(mdp, exact.stationary[:, None], exact.average_reward - 0.1) == pytest.approx(0.05, rel=1e-6)


def test_the_flow_of_returns_keeps_the_mean_where_the_median_is_the_average():
    mdp = red_pill_blue_pill()
    rewards = mdp.evaluate([1, 1]).reward_distribution  # half below −0.6, half above, and alike on both sides
    early, late = returns.flow(rewards, -0.6, 10, np.array([20.0, 400.0]))
    assert abs(late.mean()) < 1e-4
    assert early.std() < late.std()
    assert (np.diff(late) > 0).all()


def test_sampled_returns_spread_as_the_root_of_the_horizon(results):
    (claim,) = returns.sampled_claims(table(results.folder, "sampled_returns"))
    assert claim.holds


def test_the_gain_from_the_worst_start_where_a_policy_splits_the_world():
    assert control.lowest_gain(red_pill_blue_pill(), np.eye(2)) == pytest.approx(
        -0.7, abs=1e-3
    )  # each pill keeps its world


def test_a_slope_and_its_steps():
    steps = np.array(log_spaced_steps(100, 100_000), float)
    assert len(steps) == 19
    assert slope(steps, steps**-0.5) == pytest.approx(-0.5)
    assert log_spaced_steps(1000, 500) == [500]


# What is measured


def test_learning_is_seen_even_at_smoke_scale(results):
    tracking = table(results.folder, "tracking")
    for curve in quantile_tracking.tracking_curves(tracking, "world", "m", "power").values():
        assert curve["lyapunov"][-1] < curve["lyapunov"][0]
    values = prediction.value_curves(table(results.folder, "values"))
    for curve in values.partition_by("world", "m", "timescale"):
        assert curve["error"][-1] < curve["error"][0]
    drift = control.drifts(table(results.folder, "drift"))
    printed, offset = (
        drift.filter(pl.col("algorithm") == name)["drift"].to_numpy() for name in ("D2 as printed", "D2 with offset")
    )
    assert (printed > 3 * np.abs(offset)).all()
    following = returns.returns_claims(table(results.folder, "returns"))[1]
    assert following.holds


def test_every_claim_has_a_verdict_and_a_figure(results):
    claims = theory.claims(results)
    assert len(claims) >= 16
    for claim in claims:
        assert claim.verdict in ("holds", "does not hold", "not run")
        assert claim.figure in figures.FIGURES
        assert claim.says
        assert claim.measured
        assert "[" not in claim.measured  # the terminal's table would take it for markup


@pytest.mark.parametrize("name", figures.FIGURES)
def test_figures_are_drawn_labelled_and_say_what_the_paper_says(results, name):
    with style.look():
        figure = figures.FIGURES[name].draw(results)
    assert all(axes.get_xlabel() for axes in figure.axes)
    assert figure.axes[0].get_ylabel()
    assert "paper" in " ".join(figures.FIGURES[name].caption)


def test_what_is_there_is_not_measured_again(results):
    before = {file.name: file.stat().st_mtime_ns for file in results.folder.glob("*.parquet")}
    summary = complete(results, progress=False)
    assert (summary.found, summary.made) == (len(theory.MEASUREMENTS), 0)
    assert {file.name: file.stat().st_mtime_ns for file in results.folder.glob("*.parquet")} == before


def test_a_damaged_table_or_one_of_another_effort_is_measured_again(tmp_path):
    measurement = next(each for each in theory.MEASUREMENTS if each.name == "sampled_returns")
    with pytest.raises(MissingRuns, match="no measurement 'sampled_returns'"):
        table(tmp_path, "sampled_returns")
    mine = at_smoke(tmp_path, [measurement])
    assert complete(mine, progress=False).made == 1
    first = table(tmp_path, "sampled_returns")
    assert mine.find(measurement.at(SCALES["small"]), {}) is None
    (tmp_path / "sampled_returns.parquet").write_bytes(b"PAR1")
    summary = complete(mine, progress=False)
    assert (summary.made, len(summary.damaged)) == (1, 1)
    assert table(tmp_path, "sampled_returns").equals(first)  # the same run, the same bits


def broken(effort):
    raise ArithmeticError("no number")


def quick(effort):
    return [{"steps": effort.steps}]


def test_a_measurement_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    made = [
        Measurement(part="theory", name=name, measure=measure, efforts=EFFORTS)
        for name, measure in (("broken", broken), ("quick", quick))
    ]
    results = at_smoke(tmp_path, made)
    summary = complete(results, engine=InThisProcess(), progress=False)
    assert [failure.error for failure in summary.failures] == ["ArithmeticError: no number"]
    assert table(tmp_path, "quick")["steps"].to_list() == [EFFORTS["smoke"].steps]
    with pytest.raises(MissingRuns, match="'broken' failed: ArithmeticError: no number"):
        table(tmp_path, "broken")
    assert complete(results, engine=InThisProcess(), progress=False).made == 0
    assert complete(results, engine=InThisProcess(), progress=False, retry_failed=True).made == 1


def test_shards_share_the_measurements(tmp_path):
    made = [Measurement(part="theory", name=f"m{i}", measure=quick, efforts=EFFORTS) for i in range(3)]
    results = at_smoke(tmp_path, made)
    first = complete(results, engine=InThisProcess(), progress=False, shard=Shard(0, 2))
    assert (first.made, first.elsewhere) == (2, 1)
    assert complete(results, engine=InThisProcess(), progress=False, shard=Shard(1, 2)).made == 1


def test_the_part_runs_from_the_one_command(tmp_path, capsys, monkeypatch):
    few = [each for each in theory.MEASUREMENTS if each.name == "quantile_mean"]
    monkeypatch.setattr(theory, "THEOREMS", [each for each in theory.THEOREMS if each.name == "quantile_mean"])
    part = dataclasses.replace(
        reproduction.PARTS["theory"],
        measurements=few,
        figures={"quantile_mean": figures.FIGURES["quantile_mean"]},
    )
    monkeypatch.setitem(reproduction.PARTS, "theory", part)
    assert reproduction.reproduce(["theory"], "smoke", tmp_path) == 0
    told = capsys.readouterr().out
    folder = tmp_path / "theory" / "smoke"
    assert "ran 1 tables" in told
    assert "Lemma 4.2" in told
    assert json.loads((folder / "claims.json").read_text())[0]["figure"] == "quantile_mean"
    assert (folder / "figures" / "quantile_mean.png").stat().st_size > 2000
    assert json.loads((folder / "provenance.json").read_text())["runs"] == 1
    assert reproduction.reproduce(["theory"], "smoke", tmp_path) == 0
    assert "everything is there; nothing had to run" in capsys.readouterr().out
