"""Agents that maximise the mean of their worst rewards: one target from θ, files, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import perstep
from perstep.worlds import garnet, red_pill_blue_pill

TAU = 0.25


def test_rewards_of_another_scale_give_the_same_policy():
    def made(scale, shift):
        plain = garnet(5, 2, 3, seed=2)
        rewards = np.array([[plain.expected_rewards[s, a] for a in range(2)] for s in range(5)])
        return perstep.FiniteMDP(plain.transitions, rewards=scale * rewards + shift)

    plain, other = (
        perstep.QLearning(made(*law), risk_level=TAU, seed=1).learn(20_000) for law in ((1.0, 0.0), (1024.0, 0.0))
    )
    np.testing.assert_array_equal(other.all_action_values, 1024.0 * plain.all_action_values)
    assert other.risk_adjusted_reward == 1024.0 * plain.risk_adjusted_reward


def test_one_target_from_the_quantiles(tmp_path):
    """It finds a policy that suits its own target. The rewards that are shown stay as they are."""
    settings = {"risk_level": 0.25, "rule": "d2", "seed": 1}
    agent = perstep.QLearning(red_pill_blue_pill(), **settings).learn(100_000)
    assert agent.policy(deterministic=True).argmax(axis=1).tolist() == [0, 0]
    assert agent.average_reward == pytest.approx(-0.7, abs=0.01)
    assert agent.risk_adjusted_reward == pytest.approx(-0.788, abs=0.01)  # of the best actions: δ moves the offset
    assert agent.forecast(1000).mean == pytest.approx(-700, abs=10)
    perstep.QLearning(red_pill_blue_pill(), **settings).learn(60_000).save(tmp_path / "part.safetensors")
    again = perstep.load(tmp_path / "part.safetensors").learn(40_000)
    np.testing.assert_array_equal(again.all_action_values, agent.all_action_values)
    assert again.risk_adjusted_reward == agent.risk_adjusted_reward


def test_a_level_on_tiles_and_with_networks(tmp_path):
    tiles = perstep.TileQ("perstep/InvertedPendulum-v0", rule="d2", risk_level=0.1, tilings=4, preset="steady", seed=1)
    tiles.learn(60_000)
    assert tiles.risk_adjusted_reward < tiles.average_reward == pytest.approx(tiles.reward_distribution.mean, abs=0.5)
    tiles.save(tmp_path / "tiles.safetensors")
    again = perstep.load(tmp_path / "tiles.safetensors")
    assert again.learn(100).risk_adjusted_reward == tiles.learn(100).risk_adjusted_reward
    with pytest.raises(ValueError, match="needs reward quantiles"):
        perstep.TileQ("perstep/InvertedPendulum-v0", rule="differential", risk_level=0.1)
    with pytest.raises(ValueError, match="reward_tracking='stream'"):
        perstep.DeepQ("CartPole-v1", risk_level=0.1, preset="paper")
    network = perstep.DeepQ(
        red_pill_blue_pill(), rule="d2", risk_level=0.1, preset="steady", hidden=(8,), learning_starts=64, seed=1
    ).learn(300)
    assert (
        network.risk_adjusted_reward
        < network.average_reward
        == pytest.approx(network.reward_distribution.mean, abs=0.2)
    )
    network.save(tmp_path / "network.safetensors")
    assert perstep.load(tmp_path / "network.safetensors").risk_adjusted_reward == network.risk_adjusted_reward


@pytest.mark.parametrize("level", [0.0, -0.1, 1.5, float("nan"), "low", True])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(ValueError, match="risk_level must be a finite number above 0 and at most 1, got"):
        perstep.QLearning(red_pill_blue_pill(), risk_level=level)


def test_settings_that_contradict_a_level_are_refused():
    world = red_pill_blue_pill()
    for settings in ({"rule": "rvi"}, {"bootstrap": "sampled"}, {"rule": "differential"}):
        with pytest.raises(ValueError, match=r"needs (rule='d2'|reward quantiles)"):
            perstep.QLearning(world, risk_level=TAU, **settings)
    with pytest.raises(ValueError, match="use discount=1"):
        perstep.QLearning(world, risk_level=TAU, discount=0.9)
    with pytest.raises(ValueError, match="TDLearning knows no risk level"):
        perstep.TDLearning(world, [0, 0], risk_level=TAU)
