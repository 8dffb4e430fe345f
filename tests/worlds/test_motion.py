"""Compiled worlds against their Gymnasium environments: the same steps, rewards, ends and observations on recorded actions."""

from __future__ import annotations

import inspect
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, MountainCarEnv

from perstep.gym.motion import compiled_world
from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import make_generator, uniform
from perstep.worlds import acrobot, cartpole, motion, mountain_car, pendulum, puck_world
from perstep.worlds.motion import (
    ACROBOT,
    CARTPOLE,
    MOUNTAIN_CAR,
    PENDULUM,
    PUCK_WORLD,
    Motion,
)
from perstep.worlds.pendulum import TASKS, PendulumEnv
from perstep.worlds.puck_world import PuckWorldEnv


@compiled
def first(world: Any, parameters: Any, state: Any, generator: Any, observation: Any) -> None:
    motion.start(world, parameters, state, generator)
    motion.observe(world, state, observation)


@compiled
def look(world: Any, state: Any, observation: Any) -> None:
    motion.observe(world, state, observation)


@compiled
def one(world: Any, parameters: Any, state: Any, action: Any, generator: Any, observation: Any) -> Any:
    reward, terminated = motion.step(world, parameters, state, action, generator)
    motion.observe(world, state, observation)
    return reward, terminated


@compiled
def act_at_random(world: Any, parameters: Any, state: Any, num_actions: Any, generator: Any, num_steps: Any) -> Any:
    """As a loop of interaction uses these functions: the number of episodes that ended."""
    ended = 0
    motion.start(world, parameters, state, generator)
    for _ in range(num_steps):
        _, terminated = motion.step(world, parameters, state, int(num_actions * uniform(generator)), generator)
        if terminated:
            ended += 1
            motion.start(world, parameters, state, generator)
    return ended


def found(env: Any) -> Motion:
    world = compiled_world(env)
    assert world is not None
    return world


# -------------------------------------------------------------------------------------------- the same steps as Gymnasium


def heavy_cartpole() -> Any:
    env: Any = CartPoleEnv(sutton_barto_reward=True)
    env.gravity, env.masspole, env.force_mag, env.tau, env.x_threshold = 3.7, 0.3, 7, 0.03, 1.5
    return env


def other_acrobot() -> Any:
    env: Any = AcrobotEnv()
    env.dt, env.LINK_LENGTH_1, env.LINK_MASS_1, env.LINK_MASS_2 = 0.15, 0.9, 0.8, 1.1
    env.LINK_COM_POS_1, env.LINK_COM_POS_2, env.LINK_MOI, env.MAX_VEL_1 = 0.6, 0.4, 0.9, 5.0
    env.AVAIL_TORQUE = [-2.5, 0.5, 2.0]
    return env


ENVIRONMENTS = {
    "CartPole": CartPoleEnv,
    "CartPole with other physics": heavy_cartpole,
    "MountainCar": MountainCarEnv,
    "MountainCar with a goal velocity": lambda: MountainCarEnv(goal_velocity=0.02),
    "Acrobot": AcrobotEnv,
    "Acrobot with other physics": other_acrobot,
}


def swing(name: str, state: Any, action: int) -> int:
    """An action towards the goal in MountainCar and Acrobot, whose goal random actions hardly ever reach."""
    if name.startswith("MountainCar") and action != 1:
        return 2 if state[1] >= 0 else 0
    if name.startswith("Acrobot") and action != 1:
        return 2 if state[2] < 0 else 0
    return action


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_steps_equal_gymnasium(name: str) -> None:
    env: Any = ENVIRONMENTS[name]()
    world = found(env)
    observation = np.empty(world.observation_size)
    ends = 0
    env.reset(seed=0)
    actions = np.random.default_rng(1).integers(0, world.num_actions, 6000)
    for t, drawn in enumerate(actions):
        # Random actions in the first half; in the second half mostly actions that reach the end of an episode.
        action = int(drawn) if t < 3000 else swing(name, env.state, int(drawn))
        state = np.array(env.state, np.float64)
        seen, reward, terminated, _, _ = env.step(action)
        answer = one(world.number, world.parameters, state, action, make_generator(0), observation)
        assert state == pytest.approx(np.array(env.state), rel=1e-12, abs=1e-12)
        assert answer == (reward, terminated)
        look(world.number, np.array(env.state, np.float64), observation)
        assert observation.tolist() == seen.astype(float).tolist()
        if terminated:
            ends += 1
            env.reset()
    assert ends > 3


@pytest.mark.parametrize("name", ["CartPole", "MountainCar", "Acrobot"])
def test_first_observations_equal_gymnasium(name: str) -> None:
    env: Any = ENVIRONMENTS[name]()
    world, observation = found(env), np.empty(6)
    for seed in range(100):
        seen, _ = env.reset(seed=seed)
        look(world.number, np.array(env.state, np.float64), observation)
        # At a reset Gymnasium takes Acrobot's cosines in single precision, so the last bit may differ there.
        within = 2.0**-24 if name == "Acrobot" else 0.0
        assert observation[: world.observation_size] == pytest.approx(seen.astype(float), rel=0.0, abs=within)


def test_an_infinite_angle_of_acrobot_is_noticed() -> None:
    assert acrobot.wrap_angle(5.0 * math.pi + 0.25) == pytest.approx(0.25 - math.pi)
    assert acrobot.wrap_angle(-5.0 * math.pi - 0.25) == pytest.approx(math.pi - 0.25)
    assert acrobot.wrap_angle(math.pi) == math.pi
    assert math.isnan(acrobot.wrap_angle(math.inf))


@pytest.mark.parametrize("task", sorted(TASKS))
def test_pendulum_is_bit_identical_to_its_environment(task: str) -> None:
    env = PendulumEnv(task)
    world, state, observation = found(env), np.empty(2), np.empty(2)
    expected, _ = env.reset()
    first(world.number, world.parameters, state, make_generator(0), observation)
    assert observation.tolist() == expected.tolist()
    for action in np.random.default_rng(2).integers(0, 3, 20_000):
        expected, expected_reward, _, _, _ = env.step(action)
        reward, terminated = one(world.number, world.parameters, state, int(action), make_generator(0), observation)
        assert (observation.tolist(), reward, terminated) == (expected.tolist(), expected_reward, False)


# ----------------------------------------------------------------------------------------------------------- first states


@pytest.mark.parametrize(
    ("number", "low", "high"),
    [
        (CARTPOLE, [-0.05] * 4, [0.05] * 4),
        (MOUNTAIN_CAR, [-0.6, 0.0], [-0.4, 0.0]),
        (ACROBOT, [-0.1] * 4, [0.1] * 4),
        (PUCK_WORLD, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
    ],
)
def test_first_states_are_uniform(number: int, low: list[float], high: list[float]) -> None:
    draws = 20_000
    state, observation, generator = np.empty(len(low)), np.empty(6), make_generator(5)
    states = np.empty((draws, len(low)))
    for row in states:
        first(number, np.zeros(20), state, generator, observation)
        row[:] = state
    low_, high_ = np.array(low, np.float32) - 1e-9, np.array(high, np.float32) + 1e-9
    assert ((low_ <= states) & (states <= high_)).all()
    width = np.array(high) - np.array(low)
    # A uniform number of width w has mean in the middle and variance w²/12; five standard errors.
    assert states.mean(axis=0) == pytest.approx((np.array(low) + high) / 2, abs=5 * width.max() / math.sqrt(12 * draws))
    assert states.var(axis=0) == pytest.approx(width**2 / 12, rel=0.05)
    correlation = np.corrcoef(states[:, width > 0].T) if (width > 0).sum() > 1 else np.eye(1)
    assert np.abs(correlation - np.eye(len(correlation))).max() < 0.04


@pytest.mark.parametrize("name", ["CartPole", "MountainCar", "Acrobot"])
def test_same_generator_same_life(name: str) -> None:
    world = found(ENVIRONMENTS[name]())

    def life(seed: int) -> tuple[int, list[float]]:
        state = np.empty(world.state_size)
        ended = act_at_random(world.number, world.parameters, state, world.num_actions, make_generator(seed), 50_000)
        return ended, state.tolist()

    assert life(1) == life(1)
    assert life(1) != life(2)


def test_random_cartpole_falls_as_often_as_gymnasiums() -> None:
    # A random agent of Gymnasium's CartPole lasts 22.2 ± 0.1 steps.
    world, state = found(CartPoleEnv()), np.empty(4)
    ended = act_at_random(world.number, world.parameters, state, 2, make_generator(0), 200_000)
    assert 200_000 / ended == pytest.approx(22.2, abs=0.5)


# ------------------------------------------------------------------------------------------------- what is matched, and not


@pytest.mark.parametrize(
    ("name", "number", "num_actions", "state_size", "observation_size", "time_limit"),
    [
        ("perstep/InvertedPendulum-v0", PENDULUM, 3, 2, 2, 0),
        ("perstep/PendulumSwingUp-v0", PENDULUM, 3, 2, 2, 0),
        ("CartPole-v1", CARTPOLE, 2, 4, 4, 500),
        ("MountainCar-v0", MOUNTAIN_CAR, 3, 2, 2, 200),
        ("Acrobot-v1", ACROBOT, 3, 4, 6, 500),
        ("perstep/PuckWorld-v0", PUCK_WORLD, 5, 6, 6, 0),
    ],
)
def test_standard_worlds(
    name: str, number: int, num_actions: int, state_size: int, observation_size: int, time_limit: int
) -> None:
    env: Any = gymnasium.make(name)
    world = found(env)
    assert (world.number, world.num_actions, world.state_size) == (number, num_actions, state_size)
    assert (world.observation_size, world.time_limit) == (observation_size, time_limit)
    assert found(env.unwrapped).time_limit == 0
    assert found(gymnasium.wrappers.TimeLimit(env, 77)).time_limit == 77  # the nearest of two limits
    assert env.observation_space.contains(np.array(world.low, env.observation_space.dtype))
    assert env.observation_space.contains(np.array(world.high, env.observation_space.dtype))
    if number in (PENDULUM, MOUNTAIN_CAR, ACROBOT, PUCK_WORLD):
        assert (list(world.low), list(world.high)) == (
            env.observation_space.low.tolist(),
            env.observation_space.high.tolist(),
        )


def test_numbers_have_no_gaps() -> None:
    assert (PENDULUM, CARTPOLE, MOUNTAIN_CAR, ACROBOT, PUCK_WORLD) == (0, 1, 2, 3, 4)
    names = [found(env).name for env in (PendulumEnv(), CartPoleEnv(), MountainCarEnv(), AcrobotEnv(), PuckWorldEnv())]
    assert names == ["Pendulum", "CartPole", "MountainCar", "Acrobot", "PuckWorld"]


@pytest.mark.parametrize(
    ("named", "parameters", "env"),
    [
        (pendulum.named, pendulum.INVERTED_PENDULUM, PendulumEnv()),
        (cartpole.named, cartpole.CartPoleParameters(), CartPoleEnv()),
        (mountain_car.named, mountain_car.MountainCarParameters(), MountainCarEnv()),
        (acrobot.named, acrobot.AcrobotParameters(), AcrobotEnv()),
        (puck_world.named, puck_world.PuckParameters(), PuckWorldEnv()),
    ],
)
def test_parameters_keep_their_names_and_are_gymnasiums(named: Any, parameters: Any, env: Any) -> None:
    numbered = np.arange(1.0, len(parameters) + 1.0)
    assert list(named(numbered)) == numbered.tolist()
    assert found(env).parameters.tolist() == pytest.approx([float(value) for value in parameters], rel=1e-15)


def test_cartpoles_bounds_hold_what_agents_meet() -> None:
    world, rng = found(env := CartPoleEnv()), np.random.default_rng(0)
    policies = [
        lambda o: int(rng.integers(2)),
        lambda o: 1,
        lambda o: int(o[2] > 0),  # swings ever wider
        lambda o: int(o[3] < 0),  # lets the pole fall as fast as it can
        lambda o: int(o[2] + 0.3 * o[3] > 0),  # balances
    ]
    for policy in policies:
        seen, _ = env.reset(seed=0)
        for _ in range(3000):
            seen, _, terminated, _, _ = env.step(policy(seen))
            if terminated:
                seen, _ = env.reset()
            assert (np.array(world.low) <= seen).all()
            assert (seen <= np.array(world.high)).all()


class OwnCartPole(CartPoleEnv):
    """A subclass may do anything."""


def changed(env: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(env, name, value)
    return env


def scaled(reward: float) -> float:
    return 2.0 * reward


@pytest.mark.parametrize(
    "env",
    [
        OwnCartPole(),
        changed(CartPoleEnv(), kinematics_integrator="semi-implicit euler"),
        changed(CartPoleEnv(), gravity=math.nan),
        changed(CartPoleEnv(), gravity="moon"),
        changed(CartPoleEnv(), render_mode="human"),
        changed(CartPoleEnv(), step=lambda action: None),
        changed(CartPoleEnv(), action_space=gymnasium.spaces.Discrete(2, start=1)),
        changed(AcrobotEnv(), torque_noise_max=0.1),
        changed(AcrobotEnv(), book_or_nips="nips"),
        changed(AcrobotEnv(), AVAIL_TORQUE=[-1.0, 1.0]),
        gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), scaled),
        gymnasium.wrappers.TimeAwareObservation(gymnasium.make("MountainCar-v0")),
        gymnasium.make("FrozenLake-v1"),
        gymnasium.make("perstep/RedPillBluePill-v0"),
    ],
    ids=lambda env: str(env)[:60],
)
def test_anything_else_is_not_matched(env: Any) -> None:
    assert compiled_world(env) is None


def test_physics_are_carried_over() -> None:
    assert found(changed(CartPoleEnv(), gravity=1.6)).parameters[0] == 1.6
    assert found(MountainCarEnv(goal_velocity=0.03)).parameters[4] == 0.03
    assert found(PendulumEnv(TASKS["inverted-pendulum"]._replace(gravity=1.62))).parameters[0] == 1.62


def test_gymnasium_has_no_setting_that_is_unknown_here() -> None:
    settings = {
        CartPoleEnv: ["sutton_barto_reward", "render_mode"],
        MountainCarEnv: ["render_mode", "goal_velocity"],
        AcrobotEnv: ["render_mode"],
    }
    for env, known in settings.items():
        assert list(inspect.signature(env).parameters) == known, (
            f"{env.__name__} has other settings: carry or refuse them."
        )


@pytest.mark.parametrize("number", [-1, 5])
def test_a_number_without_a_world_is_noticed(number: int) -> None:
    state, observation, parameters = np.zeros(4), np.zeros(4), np.ones(20)
    reward, terminated = one(number, parameters, state, 0, make_generator(0), observation)
    assert math.isnan(reward)
    assert not terminated
    assert np.isnan(observation).all()
    first(number, parameters, state, make_generator(0), observation)
    assert np.isnan(state).all()
