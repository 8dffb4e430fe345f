"""PuckWorld: its steps by hand, its bounds, the same bits compiled and through Gymnasium, and that it can be learnt."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import perstep
from perstep.gym.world_state import restore, snapshot
from perstep.numerics.randomness import make_generator, uniform
from perstep.worlds import puck_world
from perstep.worlds.puck_world import DOWN, LEFT, NOTHING, RIGHT, UP, PuckWorldEnv
from played import earned

NAME = "perstep/PuckWorld-v0"


def at(state: list[float], **settings: Any) -> PuckWorldEnv:
    """A world in a given state, whose target stays."""
    env = PuckWorldEnv(**{"jump_probability": 0.0, **settings})
    env.reset(seed=0)
    env.state = np.array(state)
    return env


# Dynamics


def test_pushes_by_hand() -> None:
    # The velocity is halved, then the push of 0.1 is added; the puck moves with the new velocity.
    env = at([0.5, 0.5, 0.0, 0.0, 0.8, 0.9], push=0.1, damping=0.5)
    observation, reward, terminated, truncated, info = env.step(np.int64(RIGHT))
    assert observation == pytest.approx([0.2, 0.4, 0.1, 0.0, 0.6, 0.5])
    assert reward == pytest.approx(-math.hypot(0.2, 0.4))
    assert (terminated, truncated, info) == (False, False, {"jumped": False})
    observation, *_ = env.step(np.int64(UP))  # velocities 0.05 and 0.1
    assert observation == pytest.approx([0.15, 0.3, 0.05, 0.1, 0.65, 0.6])
    observation, *_ = env.step(np.int64(NOTHING))
    assert observation == pytest.approx([0.125, 0.25, 0.025, 0.05, 0.675, 0.65])
    observation, *_ = env.step(np.int64(DOWN))
    assert observation[3] == pytest.approx(0.025 - 0.1)
    observation, *_ = env.step(np.int64(LEFT))
    assert observation[2] == pytest.approx(0.00625 - 0.1)


def test_walls_stop_the_puck() -> None:
    env = at([0.02, 0.5, -0.05, 0.03, 0.5, 0.5], damping=0.9)
    observation, *_ = env.step(np.int64(LEFT))
    assert observation[2:] == pytest.approx([0.0, 0.027, 0.0, 0.527])  # only the axis of the wall is stopped


def test_the_target_jumps_as_often_as_said_and_anywhere() -> None:
    env: Any = gymnasium.make(NAME)
    env.reset(seed=0)
    places = []
    for _ in range(20_000):
        before = env.unwrapped.state.copy()
        _, reward, _, _, info = env.step(NOTHING)
        assert reward == pytest.approx(
            -math.hypot(*(before[4:] - before[:2]))
        )  # of the target's old place; the puck rests
        assert info["jumped"] == (before[4:] != env.unwrapped.state[4:]).any()
        if info["jumped"]:
            places.append(env.unwrapped.state[4:].copy())
    assert len(places) == pytest.approx(200, abs=5 * math.sqrt(200))
    assert np.mean(places, axis=0) == pytest.approx(0.5, abs=5 * math.sqrt(1 / 12 / 200))


def test_observations_are_within_their_bounds() -> None:
    for settings in ({}, {"push": 3.0, "damping": 0.99}):
        env = PuckWorldEnv(**settings)
        env.reset(seed=0)
        for action in np.random.default_rng(0).integers(0, 5, 100).repeat(50):
            observation, reward, *_ = env.step(action)
            assert env.observation_space.contains(observation)
            assert -math.sqrt(2) <= reward <= 0.0


def test_the_same_bits_compiled_and_through_gymnasium() -> None:
    """The environment with our generator in place of NumPy's goes through the same states and rewards as the compiled step."""
    env = PuckWorldEnv(jump_probability=0.2)
    ours, theirs = make_generator(5), make_generator(5)

    class Same:
        def random(self) -> float:
            return float(uniform(theirs))

    env._np_random = Same()  # type: ignore[assignment]
    seen, _ = env.reset()
    physics, state, observation = np.array(env.parameters), np.empty(6), np.empty(6)
    puck_world.start(state, ours)
    puck_world.observe(state, observation)
    assert observation.tolist() == seen.tolist()
    for action in np.random.default_rng(0).integers(0, 5, 2000):
        reward = puck_world.step(physics, state, int(action), ours)
        puck_world.observe(state, observation)
        seen, expected, *_ = env.step(action)
        assert (observation.tolist(), reward) == (seen.tolist(), expected)


# Learning


def test_what_is_earned_by_steering_and_by_a_learner() -> None:
    env = PuckWorldEnv()
    env.action_space.seed(0)
    random, steered = (earned(env, choose, 20_000) for choose in (lambda _: env.action_space.sample(), env.heuristic))
    assert random == pytest.approx(-0.53, abs=0.05)
    assert steered == pytest.approx(-0.0686, abs=0.005)
    agent = perstep.ActorCritic(NAME, seed=0)
    assert agent.compiled_world == "PuckWorld"
    learnt = agent.learn(1_000_000).evaluate(50_000, deterministic=True).average_reward
    assert (learnt - random) / (steered - random) > 0.8
    q = perstep.TileQ(NAME, seed=0).learn(1_000_000).evaluate(50_000).average_reward
    assert (q - random) / (steered - random) > 0.7


def test_a_loaded_agent_goes_on_to_the_bit(tmp_path: Any) -> None:
    whole = perstep.ActorCritic(NAME, seed=2).learn(3000)
    perstep.ActorCritic(NAME, seed=2).learn(1000).save(tmp_path / "agent.safetensors")
    resumed = perstep.load(tmp_path / "agent.safetensors").learn(2000)
    assert resumed.average_reward == whole.average_reward
    observation = np.array([0.1, -0.2, 0.01, 0.0, 0.5, 0.5])
    assert resumed.policy(observation).tolist() == whole.policy(observation).tolist()


# Gymnasium


def test_gymnasium_approves() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what check_env only warns about is an error here
        check_env(gymnasium.make(NAME, disable_env_checker=True).unwrapped)


def test_its_state_is_saved_and_restored() -> None:
    env, other = (gymnasium.make(NAME, jump_probability=0.1) for _ in range(2))
    env.reset(seed=5)
    other.reset(seed=6)
    for t in range(100):
        env.step(t % 5)
    assert restore(other, json.loads(json.dumps(snapshot(env))))
    for t in range(300):
        mine, theirs = env.step(t * t % 5), other.step(t * t % 5)
        assert mine[0].tolist() == theirs[0].tolist()
        assert mine[1:] == theirs[1:]


def test_the_picture_shows_puck_target_and_push() -> None:
    env = at([0.5, 0.5, 0.0, 0.0, 0.1, 0.9], render_mode="rgb_array")
    env.step(np.int64(RIGHT))
    picture = env.render()
    assert picture is not None
    assert picture.shape == (400, 400, 3)
    assert picture[200, 202].tolist() == [44, 82, 120]  # the puck, in the middle
    assert picture[200, 178].tolist() == [228, 118, 44]  # it is pushed to the right from the left
    assert picture[64, 64 + 20].tolist() == [64, 145, 108]  # the outer ring of the target, at the upper left


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"push": 0.0}, "push must be a positive number, got 0.0"),
        ({"push": math.inf}, "push must be a positive number, got inf"),
        ({"damping": 1.0}, "damping must be at least 0 and below 1, got 1.0"),
        ({"jump_probability": math.nan}, "jump_probability must be between 0 and 1, got nan"),
        ({"render_mode": "human"}, "render_mode must be None or 'rgb_array', got 'human'"),
    ],
)
def test_impossible_worlds_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PuckWorldEnv(**settings)


def test_impossible_uses_are_refused() -> None:
    env = PuckWorldEnv()
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.step(np.int64(1))
    env.reset()
    with pytest.raises(ValueError, match=r"The action must be 0 .*, got 5"):
        env.step(np.int64(5))
