"""The suite of continuing worlds: every registered world against linear programming, its heuristics, Gymnasium, and itself."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import perstep
from linear_programs import optimum_by_linear_program
from perstep.gym.world_state import kinds, restore, snapshot
from perstep.gym.wrappers import Teleport, endless, without_time_limit
from perstep.mdp import sampler as finite_world
from perstep.numerics.randomness import make_generator, normal, uniform
from perstep.worlds import WORLDS
from played import earned

SMALL: dict[str, dict[str, Any]] = {
    "AccessControl": {"num_servers": 4},  # with 10, probabilities of 1e-13 are too small for the linear program
    "AdmissionControl": {"capacity": 8},
    "CrissCross": {"capacity": 2},
    "Inventory": {"capacity": 6},
    "MultiItemInventory": {"capacity": 3, "mean_demand": 1.0},
    "PerishableStock": {"most": 3},
    "Routing": {"capacity": 4},
    "ServiceQueue": {"capacity": 12},
    "TandemQueue": {"capacity": 4},
    "Catch": {"rows": 4, "columns": 3},
}
"""Settings of small instances; the other worlds are small by themselves."""

FINITE = sorted(name for name, world in WORLDS.items() if "world" in world.settings)
OPERATIONS = [
    "AccessControl", "AdmissionControl", "Autoscaling", "CrissCross", "Inventory", "Maintenance", "MultiItemInventory",
    "PerishableStock", "Routing", "ServiceQueue", "TandemQueue",
]  # fmt: skip
ENDLESS = ["perstep/CartPole-v0", "perstep/MountainCar-v0", "perstep/Acrobot-v0"]


def small(name: str) -> Any:
    return gymnasium.make(name, **SMALL.get(name.removeprefix("perstep/").removesuffix("-v0"), {}))


@pytest.mark.parametrize("name", FINITE)
def test_the_optimum_is_that_of_linear_programming_and_no_heuristic_beats_it(name: str) -> None:
    mdp = small(name).unwrapped.mdp
    solution = mdp.solve()
    assert solution.proven
    assert solution.average_reward == pytest.approx(optimum_by_linear_program(mdp), abs=1e-8)
    for policy in mdp.heuristics.values():
        gain = mdp.evaluate(policy, start=mdp.initial).average_reward
        assert gain <= solution.interval[1] + 1e-12


def test_heuristics_of_operations() -> None:
    """Exact gains, as on the page of the worlds."""
    gains = {}
    for name in FINITE:
        mdp = gymnasium.make(name).unwrapped.mdp  # type: ignore[attr-defined]
        for rule, policy in mdp.heuristics.items():
            gains[mdp.name.partition("(")[0], rule] = round(mdp.evaluate(policy, start=mdp.initial).average_reward, 4)
    assert gains["AccessControl", "accept all"] == 2.1814  # as published
    assert gains["AccessControl", "reserve half"] == 2.7275
    assert gains["AdmissionControl", "individual threshold"] == 1.7381  # customers admit too many (Naor 1969)
    assert gains["CrissCross", "cμ"] == -4.9357
    assert gains["CrissCross", "MaxWeight"] == -5.66
    assert gains["Routing", "shortest delay, or reject"] == -5.3903
    assert gains["Inventory", "(s, S)"] == 10.1392
    assert gains["Catch", "follow the ball"] == 0.1  # every ball: 1 in ten steps
    assert gains["RecyclingRobot", "recharge when low"] == 1.6667


@pytest.mark.parametrize("name", [f"perstep/{world}-v0" for world in OPERATIONS])
def test_every_world_of_operations_has_a_rule_of_practice_that_beats_random_actions(name: str) -> None:
    env = gymnasium.make(name)
    rules = env.unwrapped.heuristics  # type: ignore[attr-defined]
    assert rules
    env.action_space.seed(0)
    followed = [earned(env, rule if callable(rule) else rule.__getitem__, 3000, seed=0) for rule in rules.values()]
    assert max(followed) > earned(env, lambda _: env.action_space.sample(), 3000, seed=0)


def test_published_values() -> None:
    assert perstep.worlds.access_control().solve().average_reward == pytest.approx(2.7432, abs=5e-5)
    # RiverSwim with six places: always up, with balance between neighbours (see test_operations), rounds to 0.4286.
    assert perstep.worlds.river_swim().solve().average_reward == pytest.approx(0.4286, abs=5e-5)


def test_admission_is_a_threshold_below_that_of_customers() -> None:
    mdp = perstep.worlds.admission_control()
    best, own = mdp.solve().policy, mdp.heuristics["individual threshold"]
    assert (np.diff(best[:-1]) >= 0).all()  # admit, then reject; where the queue is full, both are the same
    assert best.sum() > own.sum()  # and reject earlier


@pytest.mark.parametrize("name", [*FINITE, *ENDLESS])
def test_gymnasium_accepts_it_and_it_never_ends(name: str) -> None:
    env = small(name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*render.*")
        warnings.filterwarnings("ignore", message=".*infinity.*")  # velocities of CartPole
        check_env(env.unwrapped if name in FINITE else env, skip_render_check=True)
    env = small(name)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(500):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert not terminated
        assert not truncated
        assert np.isfinite(reward)
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize("name", FINITE)
def test_the_same_bits_compiled_and_through_gymnasium(name: str) -> None:
    """The environment with our generator in place of NumPy's goes through the same states and rewards as the compiled step."""
    env = small(name).unwrapped
    ours, theirs = make_generator(5), make_generator(5)

    class Same:
        def random(self) -> float:
            return float(uniform(theirs))

        def standard_normal(self) -> float:
            return float(normal(theirs))

    env._np_random = Same()
    state, _ = env.reset()
    world = env.mdp.world
    place = finite_world.start(world, ours)
    assert place == state
    for t in range(200):
        action = t % env.mdp.num_actions
        reward, place = finite_world.step(world, place, action, ours)
        state, seen, *_ = env.step(action)
        assert (place, reward) == (state, seen)


@pytest.mark.parametrize("name", [*FINITE, *ENDLESS])
def test_saved_and_restored_it_has_the_same_future(name: str) -> None:
    env, other = small(name), small(name)
    env.reset(seed=3)
    other.reset(seed=4)
    actions = [t * t % int(env.action_space.n) for t in range(300)]
    for action in actions:
        env.step(action)
    taken = snapshot(env)
    assert taken is not None
    assert restore(other, taken)
    for action in actions:
        mine, theirs = env.step(action), other.step(action)
        assert np.array_equal(mine[0], theirs[0])
        assert mine[1:4] == theirs[1:4]


def test_teleport_jumps_and_costs() -> None:
    env = endless("CartPole-v1", reset_cost=7.0)
    assert kinds(env)[0].endswith(":Teleport")
    assert not any(kind.endswith(":TimeLimit") for kind in kinds(env))
    env.reset(seed=0)
    rewards, jumps = [], 0
    for _ in range(100):
        observation, reward, terminated, truncated, info = env.step(0)
        rewards.append(reward)
        jumps += info.get("teleported", False)
        assert np.abs(observation).max() < 4.0
        assert not terminated
        assert not truncated
    assert jumps >= 5  # always to the left, the pole falls within ten steps or so
    assert rewards.count(-6.0) == jumps
    assert rewards.count(1.0) == 100 - jumps


def test_time_limits_are_taken_out_of_the_middle() -> None:
    env = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.ClipReward(gymnasium.make("MountainCar-v0"), -1, 1), 7)
    plain = without_time_limit(env)
    plain.reset(seed=0)
    assert not any(plain.step(1)[3] for _ in range(300))
    assert isinstance(plain, gymnasium.wrappers.ClipReward)


def test_a_pole_that_stands_up_again_is_compiled_and_learnt() -> None:
    agent = perstep.TileQ("perstep/CartPole-v0", seed=0)
    assert agent.compiled_world == "CartPole"
    assert agent.reset_cost == 10.0
    agent.learn(100_000)
    # Random actions fall about every 22 steps, and earn 1 − 10/22. A pole that stands for 100 steps earns 0.9.
    assert agent.evaluate(20_000).average_reward > 0.9
    assert isinstance(Teleport(gymnasium.make("CartPole-v1")).spec, gymnasium.envs.registration.EnvSpec)
    wrapped = perstep.TileQ(Teleport(gymnasium.make("CartPole-v1")), low=[-2.4, -5, -0.21, -4], high=[2.4, 5, 0.21, 4])
    assert wrapped.compiled_world is None  # a time limit inside: not the same world


def test_a_world_far_into_an_episode_is_restored():
    from perstep.gym.world_state import restore, snapshot

    env = gymnasium.make("MountainCar-v0", max_episode_steps=5000)
    env.reset(seed=1)
    for _ in range(2000):
        env.step(1)
    taken = snapshot(env)
    env.reset(seed=2)
    assert restore(env, taken)
    assert snapshot(env) == taken
