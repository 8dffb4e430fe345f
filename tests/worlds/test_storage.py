"""Stores with continuous actions: their optima against simulation, against other policies and on finer grids."""

from __future__ import annotations

import json
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from perstep.gym.world_state import restore, snapshot
from perstep.worlds.storage import EnergyStorageEnv, ReservoirEnv


def earned(env, policy, num_steps=20_000):
    observation, _ = env.reset(seed=3)
    total = 0.0
    for _ in range(num_steps):
        observation, reward, *_ = env.step(np.array([policy(observation)]))
        total += reward
    return total / num_steps


@pytest.mark.parametrize("efficiency", [1.0, 0.8, 0.3])
def test_thresholds_of_the_store_are_optimal(efficiency: float) -> None:
    """With e = 1 by hand: the worth is 1/2, a full store sells half of the time at 3/4, an empty one buys half of the time at 1/4:
    (1/2 · 3/4 − 1/2 · 1/4)/2 = 1/8."""
    env = EnergyStorageEnv(efficiency)
    best = env.solve()
    if efficiency == 1.0:
        assert best == (0.5, 0.5, 0.125)

    def of_thresholds(buy: float, sell: float) -> float:
        """Two levels: full with probability buy/(buy + 1 − sell); exact."""
        full = buy / (buy + 1.0 - sell)
        return full * (1.0 - sell**2) / 2.0 - (1.0 - full) * buy**2 / 2.0 / efficiency

    assert of_thresholds(*best[:2]) == pytest.approx(best.average_reward, rel=1e-12)
    for change in (-0.02, 0.02):
        assert of_thresholds(best.buy_below + change, best.sell_above) < best.average_reward
        assert of_thresholds(best.buy_below, best.sell_above + change) < best.average_reward
    found = earned(env, lambda seen: 1.0 if seen[1] < best.buy_below else -1.0 if seen[1] > best.sell_above else 0.0)
    assert found == pytest.approx(best.average_reward, abs=0.005)
    half = earned(env, lambda seen: 0.5 if seen[1] < best.buy_below else -0.5 if seen[1] > best.sell_above else 0.0)
    assert half < found


def test_the_grid_of_the_reservoir_bounds_its_optimum_from_below() -> None:
    env, optima = ReservoirEnv(), []
    for steps in (10, 20, 60):
        mdp = env.on_a_grid(steps)
        solution = mdp.solve()
        optima.append(solution.average_reward)
    assert optima == sorted(optima)
    assert optima[2] - optima[1] < 0.002
    policy = np.asarray(solution.policy)
    found = earned(env, lambda seen: 2.0 * policy[round(60 * float(seen[0]))] / 60)
    assert found == pytest.approx(optima[2], abs=0.004)
    assert earned(env, lambda seen: 0.22) < found  # the mean inflow, as evenly as there is water
    assert earned(env, lambda seen: 1.0) < found
    with pytest.raises(ValueError, match="multiple of 10"):
        env.on_a_grid(15)


@pytest.mark.parametrize("name", ["EnergyStorage", "Reservoir"])
def test_they_are_sound_worlds_whose_state_can_be_saved(name: str) -> None:
    env, other = (gymnasium.make(f"perstep/{name}-v0") for _ in range(2))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*between -1 and 1.*|.*symmetric and normalized.*")
        check_env(env, skip_render_check=True)
    env.reset(seed=1)
    other.reset(seed=2)
    env.step(np.array([0.7]))
    assert restore(other, json.loads(json.dumps(snapshot(env))))
    for action in (0.1, 0.9, 0.4):
        here, there = env.step(np.array([action])), other.step(np.array([action]))
        np.testing.assert_array_equal(here[0], there[0])
        assert here[1] == there[1]


@pytest.mark.parametrize(
    ("env", "settings"),
    [(EnergyStorageEnv, {"efficiency": 0.0}), (EnergyStorageEnv, {"efficiency": 1.5}), (ReservoirEnv, {"flood_cost": -1.0}),
     (ReservoirEnv, {"render_mode": "human"})],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(env, settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        env(**settings)
    store = env()
    with pytest.raises(gymnasium.error.ResetNeeded):
        store.step(np.array([0.0]))
    store.reset(seed=0)
    for action in (np.zeros(2), np.array([np.nan]), np.array([1.5])):
        with pytest.raises(ValueError, match="one number of"):
            store.step(action)
