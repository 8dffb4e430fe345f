"""FollowPolicy: prediction of a given policy by tiles and networks, against exact values."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.mdp.env import FiniteMDPEnv
from perstep.worlds import garnet, two_loop


class Placed(gymnasium.ObservationWrapper):
    """A finite world whose state is seen as a place on a line."""

    def __init__(self, mdp):
        super().__init__(FiniteMDPEnv(mdp))
        self.count = mdp.num_states
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)

    def observation(self, observation):
        return np.array([(observation + 0.5) / self.count])


def state_of(observation, count):
    return int(observation[0] * count)


@pytest.mark.parametrize("trace_decay", [0.0, 0.7])
def test_tiles_learn_the_values_of_a_policy(trace_decay):
    """TD(0) and TD(λ). The uniform policy in the two loops: average .3 and centred values −.2 −1.4 −1.1 −.8 −.5 .6 .9 1.2 1.5."""
    world = perstep.FollowPolicy(Placed(two_loop()), lambda observation: [0.5, 0.5])
    agent = perstep.ActorCritic(
        world, rule="d2", preset="paper", tilings=1, tiles=(9,), step_size=perstep.Decay(0.5, 0.6),
        reward_step_size=perstep.Decay(1.0, 0.6), offset_ratio=0.1, num_quantiles=51, seed=0,
        trace_decay=trace_decay,
    ).learn(60_000)  # fmt: skip
    values = np.array([agent.state_value([(s + 0.5) / 9]) for s in range(9)])
    np.testing.assert_allclose(values - values.mean(), [-0.2, -1.4, -1.1, -0.8, -0.5, 0.6, 0.9, 1.2, 1.5], atol=0.15)
    assert agent.reward_distribution.mean == pytest.approx(0.3, abs=0.02)


def test_defaults_learn_the_rewards_of_a_policy():
    mdp = garnet(10, 3, 3, seed=1)
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(3), size=10)
    world = perstep.FollowPolicy(Placed(mdp), lambda observation: chances[state_of(observation, 10)])
    agent = perstep.ActorCritic(world, rule="d2", seed=0).learn(40_000)
    exact = mdp.evaluate(chances)
    assert agent.average_reward == pytest.approx(exact.average_reward, abs=0.05)
    for level in (0.1, 0.5, 0.9):
        assert agent.reward_distribution.cvar(level) == pytest.approx(exact.reward_distribution.cvar(level), abs=0.05)


def test_an_agent_is_a_policy_and_so_are_continuous_actions():
    learner = perstep.ActorCritic("perstep/InvertedPendulum-v0", seed=0).learn(2_000)
    world = perstep.FollowPolicy("perstep/InvertedPendulum-v0", learner)
    assert perstep.ActorCritic(world, seed=0).learn(500).steps == 500
    torque = perstep.FollowPolicy("Pendulum-v1", lambda observation: np.array([0.5], np.float32))
    assert perstep.DeepQ(torque, seed=0, hidden=(8,), threads=1).learn(200).steps == 200


def test_a_prediction_goes_on_from_its_file(tmp_path):
    def policy(observation):
        return [0.2, 0.5, 0.3] if observation[0] < 0 else [0.1, 0.1, 0.8]

    def world():
        return perstep.FollowPolicy("MountainCar-v0", policy)

    whole = perstep.ActorCritic(world(), seed=3).learn(900)
    first = perstep.ActorCritic(world(), seed=3).learn(500)
    first.save(tmp_path / "a.safetensors")
    second = perstep.load(tmp_path / "a.safetensors", env=world()).learn(400)
    assert second.average_reward == whole.average_reward
    assert second.state_value([-0.5, 0.0]) == whole.state_value([-0.5, 0.0])


def test_what_no_policy_is():
    with pytest.raises(TypeError, match=r"a function of the observation .* got list"):
        perstep.FollowPolicy("CartPole-v1", [0, 1])
    world = perstep.FollowPolicy("CartPole-v1", lambda observation: 7)
    world.reset(seed=0)
    with pytest.raises(ValueError, match=r"an action of Discrete\(2\), got 7"):
        world.step(0)
    world = perstep.FollowPolicy("CartPole-v1", lambda observation: [0.9, 0.9])
    world.reset(seed=0)
    with pytest.raises(ValueError, match="the sum 1"):
        world.step(0)
    with pytest.raises(TypeError, match=r"perstep.FollowPolicy\(env, policy\)"):
        perstep.TDLearning("CartPole-v1", lambda observation: 0)


def test_what_a_policy_may_not_return_and_where_it_may_not_be():
    for wrong in (None, float("nan"), "left"):
        world = perstep.FollowPolicy("CartPole-v1", lambda observation, wrong=wrong: wrong)
        world.reset(seed=0)
        with pytest.raises(ValueError, match="an action of Discrete"):
            world.step(0)
    with pytest.raises(TypeError, match=r"perstep.TDLearning\(mdp, policy\)"):
        perstep.FollowPolicy(two_loop(), lambda observation: 0)


def test_a_file_says_that_its_world_must_be_given(tmp_path):
    world = perstep.FollowPolicy("MountainCar-v0", lambda observation: 2)
    perstep.ActorCritic(world, seed=0).learn(100).save(tmp_path / "a.safetensors")
    agent = perstep.load(tmp_path / "a.safetensors")  # answers questions without its world
    assert np.isfinite(agent.state_value([-0.5, 0.0]))
    with pytest.raises((RuntimeError, ValueError), match="env"):
        agent.learn(10)
