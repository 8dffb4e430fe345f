"""Forecasts of learning agents: against the exact ones, laws of scale, files, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import perstep
from perstep.distributions import block_sums
from perstep.mdp.mdp import FiniteMDP
from perstep.worlds import garnet, red_pill_blue_pill


def world(scale=1.0, shift=0.0):
    """Three states, with rewards that are scaled and shifted."""
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(3), size=(3, 2))
    return FiniteMDP(transitions, rewards=scale * rng.normal(size=(3, 2, 3)) + shift)


def test_forecasts_of_a_default_agent_are_about_its_behaviour():
    mdp = garnet(10, 3, 3, seed=1)
    agent = perstep.QLearning(mdp, seed=2, epsilon=0.1).learn(400_000)
    exact = mdp.evaluate(agent.policy())
    for num_steps in (1, 10, 100, 1000, 10_000):
        learnt, truth = agent.forecast(num_steps), exact.forecast(num_steps)
        assert abs(learnt.mean - truth.mean) < 5 * learnt.mean_error
        assert math.sqrt(learnt.variance) == pytest.approx(math.sqrt(truth.variance), rel=0.1)
    with pytest.raises(ValueError, match="leave out the observation"):
        agent.forecast(10, 0)


def test_forecasts_follow_the_rewards():
    plain = perstep.QLearning(world(), seed=1).learn(20_000)
    other = perstep.QLearning(world(scale=4.0, shift=3.0), seed=1).learn(20_000)
    a, b = plain.forecast(50), other.forecast(50)
    assert b.mean == pytest.approx(4 * a.mean + 50 * 3, rel=1e-6)
    assert b.variance == pytest.approx(16 * a.variance, rel=1e-6)
    assert b.mean_error == pytest.approx(4 * a.mean_error, rel=1e-6)


@pytest.mark.parametrize("rule", ["differential", "d2", "d3"])
def test_forecasting_changes_nothing_else_and_resumes_to_the_bit(tmp_path, rule):
    settings = {"rule": rule, "num_quantiles": 5, "seed": 3}
    without = perstep.QLearning(world(), forecast=False, **settings).learn(3000)
    whole = perstep.QLearning(world(), forecast=True, **settings).learn(3000)
    np.testing.assert_array_equal(without.all_action_values, whole.all_action_values)
    np.testing.assert_array_equal(without.reward_quantiles, whole.reward_quantiles)
    half = perstep.QLearning(world(), forecast=True, **settings).learn(1700)
    half.save(tmp_path / "half.safetensors")
    again = perstep.load(tmp_path / "half.safetensors").learn(1300)
    assert vars(again.forecast(100)) == vars(whole.forecast(100))


def test_files_of_agents_without_forecasts_hold_no_sums(tmp_path):
    from perstep.files import storage

    perstep.QLearning(world(), forecast=False, seed=1).learn(10).save(tmp_path / "plain.safetensors")
    arrays, _ = storage.read(tmp_path / "plain.safetensors")
    assert not [name for name in arrays if name.startswith("block_sums")]


def test_prediction_is_forecast_too():
    mdp = red_pill_blue_pill()
    agent = perstep.TDLearning(mdp, [1, 0], rule="differential", preset="steady", seed=1).learn(100_000)
    learnt, truth = agent.forecast(500), mdp.evaluate([1, 0]).forecast(500)
    assert abs(learnt.mean - truth.mean) < 4 * learnt.mean_error
    assert learnt.variance == pytest.approx(truth.variance, rel=0.1)


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
    silent = perstep.QLearning(world(), forecast=False, seed=1).learn(10)
    with pytest.raises(ValueError, match="the setting forecast=True"):
        silent.forecast(10)
    agent = perstep.QLearning(world(), forecast=True, seed=1)
    with pytest.raises(ValueError, match="Call learn first"):
        agent.forecast(10)
    agent.learn(1000)
    for bad in (0, -3, 2.5, True, "ten"):
        with pytest.raises(ValueError, match="num_steps must be a whole number of at least 1"):
            agent.forecast(bad)
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
