"""Linear-quadratic control: its exact answers against closed forms and simulation, and that its state is all that it is."""

from __future__ import annotations

import json
import math
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from perstep.gym.world_state import restore, snapshot
from perstep.worlds.linear_quadratic import PUSH, SHRINK, LinearQuadraticEnv


def test_in_one_dimension_the_gain_solves_the_scalar_equation() -> None:
    """p = 1 + a² p − (a b p)²/(ρ + b² p), so b² p² + (ρ(1 − a²) − b²) p − ρ = 0 with a = .98, b = .5, ρ = .5."""
    a, b, rho = SHRINK, PUSH, 0.5
    middle = rho * (1.0 - a**2) - b**2
    p = (-middle + math.sqrt(middle**2 + 4.0 * b**2 * rho)) / (2.0 * b**2)
    found = LinearQuadraticEnv(dimensions=1).solve()
    assert found.average_reward == pytest.approx(-(0.15**2) * p, rel=1e-12)
    assert found.gain[0, 0] == pytest.approx(a * b * p / (rho + b**2 * p), rel=1e-12)


@pytest.mark.parametrize("dimensions", [2, 8])
def test_the_optimum_is_the_mean_of_its_distribution_and_of_a_simulation(dimensions: int) -> None:
    env = LinearQuadraticEnv(dimensions=dimensions)
    found = env.solve()
    assert -found.weights.sum() == pytest.approx(found.average_reward, rel=1e-10)
    observation, _ = env.reset(seed=1)
    rewards, largest = np.zeros(20_000), 0.0
    for t in range(len(rewards)):
        action = -found.gain @ observation
        largest = max(largest, float(np.abs(action).max()))
        observation, rewards[t], *_ = env.step(action)
    assert rewards.mean() == pytest.approx(found.average_reward, rel=0.03)
    assert largest < env.action_space.high[0]  # the bounds do not matter
    exact = -(np.random.default_rng(0).normal(size=(100_000, dimensions)) ** 2) @ found.weights
    levels = np.linspace(0.05, 0.95, 19)
    span = np.ptp(np.quantile(exact, [0.001, 0.999]))
    assert np.abs(np.quantile(rewards, levels) - np.quantile(exact, levels)).max() < 0.01 * span
    for other in (0.8, 1.2):  # no other policy of this form is better
        closed = env.transition - PUSH * other * found.gain
        cost = np.zeros((dimensions, dimensions))
        for _ in range(500):
            cost = np.eye(dimensions) + 0.5 * other**2 * found.gain.T @ found.gain + closed.T @ cost @ closed
        assert -(0.15**2) * np.trace(cost) < found.average_reward


def test_it_is_a_sound_world_and_its_state_can_be_saved() -> None:
    env, other = (gymnasium.make("perstep/LinearQuadratic-v0", dimensions=3) for _ in range(2))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*infinity.*")
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        check_env(env, skip_render_check=True)
    env.reset(seed=1)
    other.reset(seed=2)
    env.step(np.array([0.5, -0.5, 1.0]))
    taken = snapshot(env)
    assert restore(other, json.loads(json.dumps(taken)))
    for push in (0.1, -0.9):
        here, there = env.step(np.full(3, push)), other.step(np.full(3, push))
        np.testing.assert_array_equal(here[0], there[0])
        assert here[1] == there[1]


def test_what_makes_no_sense_is_refused() -> None:
    for settings in ({"dimensions": 0}, {"noise": -1.0}, {"action_cost": 0.0}, {"render_mode": "human"}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            LinearQuadraticEnv(**settings)
    env = LinearQuadraticEnv()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))
    env.reset(seed=0)
    for action in (np.zeros(3), np.array([np.nan, 0.0]), np.array([2.0, 0.0])):
        with pytest.raises(ValueError, match="2 numbers of the action space"):
            env.step(action)
