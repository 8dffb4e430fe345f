"""Forecasts of learning agents: against the exact ones, laws of scale, files, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import perstep
from perstep import block_sums, foresight
from perstep.environments import garnet, red_pill_blue_pill
from perstep.environments.mdp import FiniteMDP

SHORT = 1e-12


def foresee_slowly(values, averages, s, a, r, s_next, best, usual, alpha):
    """foresight.foresee as a listing: u, h, c, d by their TD errors, averages of a third of the usual steps."""
    u, h, c, d = values[s, a]
    u_next, h_next, c_next, _ = values[s_next, best]
    A = averages
    if A["seen"] == 0:
        A["gain"] = A["slow"] = r
    A["seen"] += 1
    delta = r - A["gain"] + u_next - u
    error = delta**2 - A["variance"] + h_next - h
    if usual:
        A["counted"] += 1
        rate = 3 / (A["counted"] + 33)
        old_gain = A["gain"]
        for name, sample in (("one", (r - old_gain) ** 2), ("lag", (r - old_gain) * (c_next - old_gain))):
            A[name] += rate * (sample - A[name])
        A["gain"] += rate * delta
        A["slow"] += rate * (A["gain"] - A["slow"])
        A["variance"] += rate * error
        A["level"] += rate * (u - A["level"])
        A["square"] += rate * (h - A["square"])
        now = c - A["gain"]
        later, later_there = u - A["level"] - now, u_next - A["level"] - (c_next - old_gain)
        samples = {"now": now**2, "now_later": now * later, "later": later**2, "later_lag": later * later_there}
        for name, sample in samples.items():
            A[name] += rate * (sample - A[name])
    values[s, a] += alpha * np.array([delta, error, r - c, c_next - d])


def test_foresight_is_its_listing():
    rng = np.random.default_rng(3)
    learnt = foresight.new_foresight(3, 2)
    names = ["least", "seen", "counted", "gain", "variance", "level", "square", "one", "lag", "now", "now_later", "later",
             "later_lag", "slow"]  # fmt: skip
    averages, values = dict.fromkeys(names, 0.0), np.zeros((3, 2, 4))
    from perstep.tabular import foresee_entry

    for step in range(300):
        s, s_next, a, best = (int(n) for n in rng.integers([3, 3, 2, 2]))
        r, usual, alpha = float(rng.normal()), bool(rng.random() < 0.7), 1 / (1 + step / 30)
        foresee_entry(learnt, s, a, r, s_next, best, usual, alpha)
        foresee_slowly(values, averages, s, a, r, s_next, best, usual, alpha)
    np.testing.assert_allclose(learnt.values, values, rtol=0, atol=SHORT)
    np.testing.assert_allclose(learnt.averages, list(averages.values()), rtol=SHORT)


def world(scale=1.0, shift=0.0):
    """Three states, with rewards that are scaled and shifted."""
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(3), size=(3, 2))
    return FiniteMDP(transitions, rewards=scale * rng.normal(size=(3, 2, 3)) + shift)


@pytest.mark.defaults
def test_forecasts_of_a_default_agent_are_the_exact_ones():
    mdp = garnet(10, 3, 3, seed=1)
    agent = perstep.QLearning(mdp, seed=2).learn(400_000)
    exact = mdp.evaluate(agent.policy(deterministic=True))
    for num_steps in (1, 10, 100, 1000, 100_000):
        learnt, truth = agent.forecast(num_steps), exact.forecast(num_steps)
        assert abs(learnt.mean - truth.mean) < 4 * learnt.mean_error
        assert math.sqrt(learnt.variance) == pytest.approx(
            math.sqrt(truth.variance), rel=0.1 if num_steps == 10 else 0.03
        )
    state = int(exact.stationary.argmax())
    learnt, truth = agent.forecast(1000, state), exact.forecast(1000, start=state)
    assert abs(learnt.mean - truth.mean) < 4 * learnt.mean_error
    assert math.sqrt(learnt.variance) == pytest.approx(math.sqrt(truth.variance), rel=0.03)
    assert agent.forecast(1, state).mean == pytest.approx(exact.forecast(1, start=state).mean, abs=0.02)
    band = agent.forecast(1000).interval(0.9)
    sums = exact.forecast(1000, num_paths=4000, seed=1).samples
    assert 0.85 < np.mean((band[0] <= sums) & (sums <= band[1])) < 0.95


@pytest.mark.defaults
def test_forecasts_follow_the_rewards():
    plain = perstep.QLearning(world(), seed=1).learn(20_000)
    other = perstep.QLearning(world(scale=4.0, shift=3.0), seed=1).learn(20_000)
    for start in (None, 1):
        a, b = plain.forecast(50, start), other.forecast(50, start)
        assert b.mean == pytest.approx(4 * a.mean + 50 * 3, rel=1e-6)
        assert b.variance == pytest.approx(16 * a.variance, rel=1e-6)
        assert b.mean_error == pytest.approx(4 * a.mean_error, rel=1e-6)


@pytest.mark.parametrize("rule", ["differential", "d2", "d3"])
def test_forecasting_changes_nothing_else_and_resumes_to_the_bit(tmp_path, rule):
    settings = {"rule": rule, "num_quantiles": 5, "seed": 3}
    without = perstep.QLearning(world(), **settings).learn(3000)
    whole = perstep.QLearning(world(), forecast=True, **settings).learn(3000)
    np.testing.assert_array_equal(without.all_action_values, whole.all_action_values)
    np.testing.assert_array_equal(without.reward_quantiles, whole.reward_quantiles)
    half = perstep.QLearning(world(), forecast=True, **settings).learn(1700)
    half.save(tmp_path / "half.safetensors")
    again = perstep.load(tmp_path / "half.safetensors").learn(1300)
    assert vars(again.forecast(100, 1, 1)) == vars(whole.forecast(100, 1, 1))


def test_the_error_of_the_mean_includes_how_far_the_gain_still_moves():
    learnt = foresight.new_foresight(1, 1)
    learnt.averages[[foresight.GAIN, foresight.SLOW_GAIN, foresight.VARIANCE, foresight.COUNTED]] = (
        2.0,
        2.0,
        1.0,
        2967.0,
    )
    settled = foresight.expected_sum(learnt, 100)[2]
    assert settled == pytest.approx(100 * math.sqrt(0.6 * 0.001))
    learnt.averages[foresight.SLOW_GAIN] = 1.9
    assert foresight.expected_sum(learnt, 100)[2] == pytest.approx(math.hypot(settled, 100 * 0.1))


def test_averages_of_older_files_begin_anew():
    """They have one number less: the average of the gain begins at the gain."""
    older = np.arange(13.0)
    assert foresight.with_slow_gain(older).tolist() == [*range(13), 3.0]
    assert foresight.with_slow_gain(np.arange(14.0)).tolist() == [*range(14)]


def test_files_of_agents_without_forecasts_are_as_before(tmp_path):
    from perstep import storage

    perstep.QLearning(world(), seed=1).learn(10).save(tmp_path / "plain.safetensors")
    arrays, metadata = storage.read(tmp_path / "plain.safetensors")
    assert not [name for name in arrays if name.startswith(("foresight", "block_sums", "scan"))]
    assert not {"forecast", "risk_level", "risk_scan", "risk_heads"} & set(metadata["config"])


def test_prediction_is_forecast_too():
    mdp = red_pill_blue_pill()
    agent = perstep.TDLearning(mdp, [1, 0], rule="differential", preset="steady", seed=1).learn(100_000)
    learnt, truth = agent.forecast(500), mdp.evaluate([1, 0]).forecast(500)
    assert abs(learnt.mean - truth.mean) < 4 * learnt.mean_error
    assert learnt.variance == pytest.approx(truth.variance, rel=0.1)
    with pytest.raises(ValueError, match="leave out the action"):
        agent.forecast(10, 0, 1)


def test_sums_of_rewards_have_their_variance():
    """Rewards x_t = ε_t + ε_{t−1}: Var of a sum of H is 4H − 2; a slow drift changes nothing."""
    noise = np.random.default_rng(0).normal(size=200_001)
    rewards = noise[1:] + noise[:-1] + np.linspace(0, 0.05, 200_000)
    sums = block_sums.new_block_sums()
    for reward in rewards:
        block_sums.add_up(sums, reward)
    for num_steps in (1, 4, 64, 10_000):
        mean, variance, error = block_sums.expected_sum(sums, num_steps)
        assert variance == pytest.approx(4 * num_steps - 2, rel=0.2)  # of 200 sums or more
        assert abs(mean / num_steps - 0.045) < 4 * error / num_steps


def test_tiles_forecast_what_they_earn_of_late(tmp_path):
    settings = {"forecast": True, "tilings": 4, "tiles": 4, "preset": "steady", "seed": 1}
    whole = perstep.TileQ("perstep/InvertedPendulum-v0", **settings).learn(10_000)
    perstep.TileQ("perstep/InvertedPendulum-v0", **settings).learn(1000).save(tmp_path / "tiles.safetensors")
    again = perstep.load(tmp_path / "tiles.safetensors").learn(9000)
    assert vars(again.forecast(100)) == vars(whole.forecast(100))
    assert whole.forecast(100).mean == pytest.approx(100 * whole.history.reward_rate[-100:].mean(), rel=0.5)
    with pytest.raises(ValueError, match="leave out the observation"):
        whole.forecast(100, [0.0, 0.0])


def test_what_is_refused():
    silent = perstep.QLearning(world(), seed=1).learn(10)
    with pytest.raises(ValueError, match="the setting forecast=True"):
        silent.forecast(10)
    agent = perstep.QLearning(world(), forecast=True, seed=1)
    with pytest.raises(ValueError, match="Call learn first"):
        agent.forecast(10)
    agent.learn(1000)
    for bad in (0, -3, 2.5, True, "ten"):
        with pytest.raises(ValueError, match="num_steps must be a whole number of at least 1"):
            agent.forecast(bad)
    with pytest.raises(ValueError, match="needs the observation"):
        agent.forecast(10, action=1)
    with pytest.raises(ValueError, match="forecast must be True or False"):
        perstep.QLearning(world(), forecast="yes")


def test_an_evaluation_forecasts_the_policy_as_it_is():
    mdp = red_pill_blue_pill()
    exact = mdp.evaluate([1, 1])
    found = perstep.TDLearning(mdp, [1, 1], seed=1).evaluate(200_000).forecast(1000)
    truth = exact.forecast(1000)
    assert abs(found.mean - truth.mean) < 4 * found.mean_error
    assert found.variance == pytest.approx(truth.variance, rel=0.2)


def test_an_evaluation_forecasts_few_steps_by_the_sums_it_has_seen():
    """Nine steps in ten pay nothing and one pays 100: a normal band of ten steps would begin far below 0."""
    pays = perstep.FiniteMDP.from_outcomes([[[0.9, 0.1]]], [[[0, 0]]], [[[0.0, 100.0]]])
    evaluation = perstep.TDLearning(pays, [0], seed=1).evaluate(200_000)
    found, truth = evaluation.forecast(10), pays.evaluate([0]).forecast(10)
    assert found.samples is not None
    assert 1_000 < found.samples.size <= 10_000
    assert found.samples.min() == 0.0
    assert found.mean == pytest.approx(truth.mean, abs=4 * found.mean_error)
    for sum_so_far in (50.0, 150.0, 250.0):
        assert found.cdf(sum_so_far) == pytest.approx(truth.cdf(sum_so_far), abs=0.02)
    assert evaluation.forecast(101).samples is None
    assert perstep.TDLearning(pays, [0], seed=1).evaluate(1_000).forecast(10).samples is None  # too few to see
