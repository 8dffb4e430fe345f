"""Autoscaling: its steps by hand, its bounds, what simple policies earn, and its life as a Gymnasium environment."""

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
from numpy.typing import NDArray

import perstep
from perstep.gym.world_state import restore, snapshot
from perstep.worlds.autoscaling import KEEP, START, SWITCH_OFF, AutoscalingEnv
from played import earned

NAME = "perstep/Autoscaling-v0"
CALM: dict[str, Any] = {"daily_wave": 0.0, "drift_noise": 0.0, "noise": 0.0}  # the demand is mean_demand in every step


def play(env: AutoscalingEnv, actions: list[int]) -> tuple[list[NDArray[np.float32]], list[float]]:
    steps = [env.step(np.int64(action)) for action in actions]
    assert all(step[2:] == (False, False, {}) for step in steps)  # it never ends
    return [step[0] for step in steps], [step[1] for step in steps]


def random_actions(count: int) -> list[int]:
    return [int(action) for action in np.random.default_rng(0).integers(0, 3, count)]


# ------------------------------------------------------------------------------------------------------------- dynamics


def test_a_started_server_costs_at_once_and_serves_after_the_delay() -> None:
    # Demand 10, one server that serves 8: two more requests wait in each step. The second server starts in the first step,
    # costs from then on, and serves in the third: then 16 are served, so the queue of 4 shrinks by 6, to 0.
    env = AutoscalingEnv(
        **CALM, mean_demand=10.0, requests_per_server=8.0, startup_steps=2, server_cost=1.0, waiting_cost=0.5
    )
    env.reset(seed=0)
    env.state = (0, 1, (), 0.0, 10.0, 0.0)
    observations, rewards = play(env, [START, KEEP, KEEP, SWITCH_OFF, SWITCH_OFF])
    assert rewards == [-(2 + 0.5 * 2), -(2 + 0.5 * 4), -2.0, -(1 + 0.5 * 2), -(1 + 0.5 * 4)]  # the last server stays on
    servers = [(round(float(on) * 12), round(float(starting) * 12)) for on, starting, *_ in observations]
    assert servers == [(1, 1), (1, 1), (2, 0), (1, 0), (1, 0)]
    waiting = [math.expm1(float(queue) * math.log1p(1000.0)) for _, _, queue, *_ in observations]
    assert waiting == pytest.approx([2, 4, 0, 2, 4], abs=1e-4)


def test_no_more_servers_than_there_are() -> None:
    env = AutoscalingEnv(**CALM, max_servers=3)
    env.reset(seed=0)
    play(env, [START] * 20)
    assert env.state is not None
    assert env.state[1:3] == (3, ())


def test_the_queue_and_the_reward_are_bounded() -> None:
    env = AutoscalingEnv(**CALM, mean_demand=100.0, max_waiting=1000.0, min_reward=-400.0)
    env.reset(seed=0)
    observations, rewards = play(env, [SWITCH_OFF] * 50)
    assert observations[-1][2] == 1.0
    assert rewards[-1] == -400.0


def test_the_demand_follows_the_day() -> None:
    env = AutoscalingEnv(day_steps=4, mean_demand=30.0, daily_wave=20.0, drift_noise=0.0, noise=0.0)
    env.reset(seed=0)
    env.state = (0, 5, (), 0.0, 30.0, 0.0)
    observations, _ = play(env, [KEEP] * 4)
    assert [float(observation[3]) * env.max_demand for observation in observations] == pytest.approx([30, 50, 30, 10])
    # The time of day is that of the next demand.
    assert [observation[4:].round(6).tolist() for observation in observations] == [[1, 0], [0, -1], [-1, 0], [0, 1]]


def test_observations_and_rewards_are_within_their_bounds() -> None:
    env = AutoscalingEnv()
    env.reset(seed=0)
    observations, rewards = play(env, random_actions(20_000))
    seen = np.array(observations)
    assert seen.dtype == np.float32
    assert env.observation_space.is_bounded()
    assert all(env.observation_space.contains(observation) for observation in observations)
    assert (seen[:, 0] >= 1 / 12 - 1e-6).all()
    assert (seen[:, :2].sum(axis=1) <= 1 + 1e-6).all()
    assert min(rewards) == -500.0  # random actions overload the service from time to time
    assert max(rewards) == -1.0


def test_there_is_something_to_learn() -> None:
    env = AutoscalingEnv()
    env.action_space.seed(0)
    random = earned(env, lambda _: int(env.action_space.sample()), 5000)
    every_server = earned(env, lambda _: START, 5000)
    heuristic = earned(env, env.heuristic, 5000)
    assert random < -50
    assert every_server == pytest.approx(-12, abs=0.1)
    assert -6 < heuristic < -4


# ------------------------------------------------------------------------------------------------------------ Gymnasium


def test_gymnasium_approves() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what check_env only warns about is an error here
        check_env(gymnasium.make(NAME, disable_env_checker=True).unwrapped)


def test_registered_without_a_time_limit() -> None:
    env = gymnasium.make(NAME, startup_steps=9)
    assert env.spec is not None
    assert env.spec.max_episode_steps is None
    assert isinstance(env.unwrapped, AutoscalingEnv)
    assert env.unwrapped.startup_steps == 9


def test_same_seed_same_life() -> None:
    def life(seed: int) -> Any:
        env = AutoscalingEnv()
        first, _ = env.reset(seed=seed)
        observations, rewards = play(env, random_actions(500))
        return np.array([first, *observations]).tolist(), rewards

    assert life(3) == life(3)
    assert life(3) != life(4)


def test_its_state_is_saved_and_restored() -> None:
    env: Any = gymnasium.make(NAME)
    env.reset(seed=5)
    play(env, random_actions(100))
    taken = json.loads(json.dumps(snapshot(env)))
    expected = play(env, random_actions(200))
    other: Any = gymnasium.make(NAME)
    other.reset(seed=6)
    assert restore(other, taken)
    observations, rewards = play(other, random_actions(200))
    assert np.array(observations).tolist() == np.array(expected[0]).tolist()
    assert rewards == expected[1]


def test_an_agent_in_it_goes_on_to_the_bit(tmp_path: Any) -> None:
    whole = perstep.TileQ(NAME, seed=2).learn(600)
    perstep.TileQ(NAME, seed=2).learn(300).save(tmp_path / "agent.safetensors")
    resumed = perstep.load(tmp_path / "agent.safetensors").learn(300)
    observation = np.array([0.5, 0.1, 0.2, 0.5, 0.6, 0.8], np.float32)
    assert resumed.average_reward == whole.average_reward
    assert resumed.action_values(observation).tolist() == whole.action_values(observation).tolist()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_servers": 0}, "max_servers must be a whole number of at least 1, got 0"),
        ({"startup_steps": 1.5}, "startup_steps must be a whole number of at least 1, got 1.5"),
        ({"mean_demand": -1.0}, "mean_demand must be a positive number, got -1.0"),
        ({"max_waiting": math.inf}, "max_waiting must be a positive number, got inf"),
        ({"noise": math.nan}, "noise must be a number of at least 0, got nan"),
        ({"drift_memory": 1.0}, "drift_memory must be at least 0 and below 1, got 1.0"),
        ({"min_reward": 0.0}, "min_reward must be below 0, got 0.0"),
    ],
)
def test_impossible_services_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AutoscalingEnv(**settings)


def test_impossible_uses_are_refused() -> None:
    env = AutoscalingEnv()
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.step(np.int64(1))
    env.reset()
    with pytest.raises(ValueError, match=r"The action must be 0 .*, got 3"):
        env.step(np.int64(3))
