"""The two pendulums: steps worked out by hand, known averages, Gymnasium's contract, the picture."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import make_generator, uniform
from perstep.worlds.pendulum import (
    INVERTED_PENDULUM,
    PENDULUM_SWING_UP,
    TASKS,
    PendulumEnv,
    PendulumParameters,
    step,
    wrap_angle,
)

PI = math.pi


def one_step(parameters: PendulumParameters, angle: float, velocity: float, action: int) -> tuple[Any, ...]:
    after = np.empty(2)
    reward, restarted = step(parameters, np.array([angle, velocity]), action, after)
    return (*after.tolist(), reward, restarted)


# --- By hand


@pytest.mark.parametrize(
    ("angle", "velocity", "action", "expected"),
    [
        # Hanging, pushed: gravity 0, torque 4·3 = 12, velocity 0.6, angle π + 0.03 ≡ 0.03 − π;
        # reward −(π − 0.03)² = −(π² − 0.06π + 0.0009) = −9.68200884.
        (PI, 0.0, 2, (0.03 - PI, 0.6, -9.68200884)),
        # The other way: π − 0.03, the same reward.
        (PI, 0.0, 0, (PI - 0.03, -0.6, -9.68200884)),
        # π/6 has sine ½: 4.9·0.05 = 0.245, velocity −0.755, angle 0.52359878 − 0.03775 = 0.48584878.
        (PI / 6, -1.0, 1, (0.48584878, -0.755, -0.23604903)),
        # Horizontal, the torque beats gravity: (9.8 − 12)·0.05 = −0.11, angle π/2 − 0.0055, so the rod rises.
        (PI / 2, 0.0, 0, (1.56529633, -0.11, -2.45015259)),
        # Upright at rest, left alone: it stays, and the reward is 0.
        (0.0, 0.0, 1, (0.0, 0.0, 0.0)),
    ],
)
def test_inverted_pendulum(angle: float, velocity: float, action: int, expected: tuple[float, float, float]) -> None:
    *numbers, restarted = one_step(INVERTED_PENDULUM, angle, velocity, action)
    assert numbers == pytest.approx(expected, abs=1e-8)
    assert not restarted


@pytest.mark.parametrize(
    ("angle", "velocity", "action", "expected"),
    [
        # Hanging, pushed: acceleration 1, velocity 0.05, angle −π + 0.0025.
        (-PI, 0.0, 2, (0.0025 - PI, 0.05, 0.0025 - PI)),
        # π/6: 4.9·½ = 2.45, velocity −1 + 0.1225 = −0.8775, angle 0.52359878 − 0.043875 = 0.47972378.
        (PI / 6, -1.0, 1, (0.47972378, -0.8775, -0.47972378)),
        # Horizontal, gravity beats the torque: (4.9 − 1)·0.05 = 0.195, angle π/2 + 0.00975, so the rod falls.
        (PI / 2, 0.0, 0, (1.58054633, 0.195, -1.58054633)),
    ],
)
def test_swing_up(angle: float, velocity: float, action: int, expected: tuple[float, float, float]) -> None:
    *numbers, restarted = one_step(PENDULUM_SWING_UP, angle, velocity, action)
    assert numbers == pytest.approx(expected, abs=1e-8)
    assert not restarted


def test_inverted_pendulum_is_paid_before_it_is_put_back() -> None:
    # (9.8 + 12)·0.05 = 1.09, velocity 7.29 ≥ 2π. It had reached π/2 + 0.3645 = 1.93529633: reward −3.74537187.
    angle, velocity, reward, restarted = one_step(INVERTED_PENDULUM, PI / 2, 6.2, 2)
    assert (angle, velocity, restarted) == (PI, 0.0, True)
    assert reward == pytest.approx(-3.74537187, abs=1e-8)


def test_swing_up_is_paid_where_it_is_put_back() -> None:
    # (4.9 + 1)·0.05 = 0.295, velocity 6.495 ≥ 2π: hanging at −π, reward −π.
    assert one_step(PENDULUM_SWING_UP, PI / 2, 6.2, 2) == (-PI, 0.0, -PI, True)
    assert one_step(PENDULUM_SWING_UP, -PI / 2, -6.2, 0) == (-PI, 0.0, -PI, True)


def test_the_limit_itself_is_too_fast() -> None:
    adrift = INVERTED_PENDULUM._replace(gravity=0.0)
    assert one_step(adrift, 0.0, 2 * PI, 1)[3]
    assert one_step(adrift, 0.0, -2 * PI, 1)[3]
    assert not one_step(adrift, 0.0, math.nextafter(2 * PI, 0.0), 1)[3]


def test_angles_are_wrapped_to_the_half_open_circle() -> None:
    assert wrap_angle(PI) == wrap_angle(-PI) == -PI
    assert wrap_angle(3 * PI / 2) == pytest.approx(-PI / 2)
    assert wrap_angle(-3 * PI / 2) == pytest.approx(PI / 2)


def test_the_courses_rod_is_one_of_twice_the_length() -> None:
    # As the course has it, for half-length l: ¾·(u + m·l·g·sin β) / (m·l²), with m = 1/3 and l = 3/2.
    m, half, g, beta, u = 1 / 3, 3 / 2, 9.8, 0.7, 1.0
    acceleration = 0.75 * (u + m * half * g * math.sin(beta)) / (m * half**2)
    _, velocity, _, _ = one_step(PENDULUM_SWING_UP, beta, 0.0, 2)
    assert velocity == pytest.approx(acceleration * 0.05, rel=1e-12)


# --- Laws


states = st.tuples(st.floats(-PI, PI), st.floats(-6.28, 6.28))


@given(st.sampled_from(sorted(TASKS)), states, st.integers(0, 2))
def test_state_and_reward_stay_in_their_ranges(task: str, state: tuple[float, float], action: int) -> None:
    angle, velocity, reward, _ = one_step(TASKS[task], *state, action)
    assert -PI <= angle <= PI
    assert abs(velocity) < 2 * PI
    assert -(PI ** TASKS[task].reward_power) <= reward <= 0.0


@given(st.sampled_from(sorted(TASKS)), states, st.integers(0, 2))
def test_left_and_right_are_mirror_images(task: str, state: tuple[float, float], action: int) -> None:
    angle, velocity, reward, restarted = one_step(TASKS[task], *state, action)
    mirrored = one_step(TASKS[task], -state[0], -state[1], 2 - action)
    assert mirrored[2] == pytest.approx(reward, abs=1e-9)
    assert mirrored[3] == restarted
    if not restarted:
        assert mirrored[1] == -velocity
        assert math.cos(mirrored[0]) == pytest.approx(math.cos(angle), abs=1e-9)


@given(states, st.integers(0, 2))
def test_the_state_may_be_its_own_successor(state: tuple[float, float], action: int) -> None:
    place = np.array(state)
    reward, _ = step(INVERTED_PENDULUM, place, action, place)
    assert (*place.tolist(), reward) == one_step(INVERTED_PENDULUM, *state, action)[:3]


# --- Known averages


@compiled
def follow_chance(parameters: Any, state: Any, generator: Any, num_steps: Any) -> Any:
    total, restarts = 0.0, 0
    for _ in range(num_steps):
        reward, restarted = step(parameters, state, int(3 * uniform(generator)), state)
        total += reward
        restarts += restarted
    return total / num_steps, restarts / num_steps


@pytest.mark.parametrize(
    # 20 runs of 10 million steps: −5.970 ± 0.001 with a restart in 206 steps, −2.113 ± 0.003 with one in 24,600.
    ("task", "average", "rate", "within"),
    [("inverted-pendulum", -5.970, 1 / 206, 0.03), ("pendulum-swing-up", -2.113, 1 / 24_600, 0.25)],
)
def test_chance(task: str, average: float, rate: float, within: float) -> None:
    start = np.array([TASKS[task].start_angle, 0.0])
    found, restarts = follow_chance(TASKS[task], start, make_generator(0), 5_000_000)
    assert found == pytest.approx(average, abs=0.05)
    assert restarts == pytest.approx(rate, rel=within)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_left_alone_it_hangs_for_ever(task: str) -> None:
    state = np.array([TASKS[task].start_angle, 0.0])
    rewards = [step(TASKS[task], state, 1, state)[0] for _ in range(1000)]
    assert rewards == pytest.approx([-(PI ** TASKS[task].reward_power)] * 1000)


def against(lean: float, dead: float) -> int:
    """The torque against a lean, none where it is small."""
    return 1 if abs(lean) < dead else 0 if lean > 0 else 2


def averages(task: str, controller: Any, settled: int = 2000, num_steps: int = 20_000) -> tuple[float, int]:
    state, rewards, restarts = np.array([TASKS[task].start_angle, 0.0]), [], 0
    for _ in range(settled + num_steps):
        reward, restarted = step(TASKS[task], state, controller(*state), state)
        rewards.append(reward)
        restarts += restarted
    return float(np.mean(rewards[settled:])), restarts


def test_inverted_pendulum_can_be_held_upright() -> None:
    average, restarts = averages("inverted-pendulum", lambda angle, velocity: against(angle + 0.4 * velocity, 0.03))
    assert restarts == 0
    assert -7e-5 < average < -5e-5


def test_swing_up_can_be_swung_up_and_held() -> None:
    def pump_then_hold(angle: float, velocity: float) -> int:
        if abs(angle) < 0.3:
            return against(angle + 0.35 * velocity, 0.002)
        energy = 0.5 * velocity**2 + 4.9 * (math.cos(angle) - 1.0)  # 0 upright at rest
        return 2 if (velocity >= 0) == (energy < 0) else 0

    average, restarts = averages("pendulum-swing-up", pump_then_hold)
    assert restarts == 0
    assert -6e-4 < average < -4e-4


# --- Gymnasium


REGISTERED = {"perstep/InvertedPendulum-v0": INVERTED_PENDULUM, "perstep/PendulumSwingUp-v0": PENDULUM_SWING_UP}


@pytest.mark.parametrize("name", REGISTERED)
def test_gymnasium_checks_pass(name: str) -> None:
    check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize(("name", "parameters"), REGISTERED.items())
def test_registered_without_a_time_limit(name: str, parameters: PendulumParameters) -> None:
    env: Any = gymnasium.make(name)
    assert env.unwrapped.parameters == parameters
    assert env.spec.max_episode_steps is None
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [parameters.start_angle, 0.0]


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_world_takes_the_steps_of_the_function(task: str) -> None:
    env = PendulumEnv(task)
    observation, info = env.reset(seed=3)
    assert (observation.tolist(), info) == ([TASKS[task].start_angle, 0.0], {})
    expected: NDArray[np.float64] = observation.copy()
    restarts = 0
    for action in np.random.default_rng(0).integers(0, 3, 2000):
        before = observation.copy()
        following, reward, terminated, truncated, info = env.step(action)
        assert observation.tolist() == before.tolist()  # an observation kept by the caller does not move
        expected_reward, restarted = step(TASKS[task], expected, int(action), expected)
        assert (following.tolist(), reward) == (expected.tolist(), expected_reward)
        assert (terminated, truncated, info) == (False, False, {"restarted": restarted})
        restarts += restarted
        observation = following
    assert restarts > 0 or task == "pendulum-swing-up"


def test_own_parameters() -> None:
    moon = PendulumEnv(INVERTED_PENDULUM._replace(gravity=1.62))
    moon.reset()
    assert moon.parameters.gravity == 1.62


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("inverted", "no pendulum task 'inverted'. Did you mean 'inverted-pendulum'?"),
        (INVERTED_PENDULUM._replace(mass=0.0), "mass must be a positive number, got 0.0"),
        (INVERTED_PENDULUM._replace(time_step=-0.05), "time_step must be a positive number"),
        (INVERTED_PENDULUM._replace(length=math.inf), "length must be a positive number"),
        (INVERTED_PENDULUM._replace(torque=math.nan), "torque must be a finite number"),
        (INVERTED_PENDULUM._replace(gravity=10**400), "gravity must be a finite number, got 1000"),
        (INVERTED_PENDULUM._replace(start_angle=4.0), "start_angle must be in"),
        (INVERTED_PENDULUM._replace(reward_power=3), "reward_power must be 1"),
    ],
)
def test_impossible_pendulums_are_refused(parameters: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PendulumEnv(parameters)


def test_impossible_uses_are_refused() -> None:
    env = PendulumEnv(render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.step(np.int64(1))
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.render()
    env.reset()
    with pytest.raises(ValueError, match=r"The action must be 0 .*, got 3"):
        env.step(np.int64(3))
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        PendulumEnv(render_mode="human")


# --- The picture


def picture(angle: float, action: int | None = None) -> NDArray[np.int64]:
    env = PendulumEnv(INVERTED_PENDULUM._replace(gravity=0.0, time_step=1e-9), render_mode="rgb_array")
    env.reset()
    env.state = np.array([angle, 0.0])
    if action is not None:
        env.step(np.int64(action))
    image = env.render()
    assert image is not None
    assert image.shape == (400, 400, 3)
    assert image.dtype == np.uint8
    return np.asarray(image, dtype=np.int64)


def dark(image: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(image.sum(axis=-1) < 300)  # the rod and its pivot


def test_the_rod_is_drawn_where_it_is() -> None:
    above, below = dark(picture(0.0))[:180].sum(), dark(picture(0.0))[220:].sum()
    assert above > 1000
    assert below == 0
    assert (dark(picture(PI)) == dark(picture(0.0))[::-1]).all()  # hanging is upright upside down
    left = dark(picture(PI / 2))  # positive angles are counter-clockwise: to the left of upright
    assert left[:, :180].sum() > 1000
    assert left[:, 220:].sum() == 0


def test_the_arrow_turns_with_the_torque() -> None:
    without, clockwise, counter = picture(0.0), picture(0.0, 0), picture(0.0, 2)
    assert (picture(0.0, 1) == without).all()
    assert (clockwise == counter[:, ::-1]).all()
    assert (clockwise != counter).any()


def test_no_picture_without_a_render_mode() -> None:
    env = PendulumEnv()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


# ------------------------------------------------------------------------------------------------------ a continuous motor


def swinging_up(p: PendulumParameters) -> Any:
    """Where the motor can hold the rod, gravity is cancelled and the rest is damped; elsewhere energy is added, or taken away."""
    gravity, motor = 3.0 * p.gravity / (2.0 * p.length), 3.0 * p.torque / (p.mass * p.length**2)

    def act(angle: float, velocity: float) -> float:
        hold = -(gravity * math.sin(angle) + 10.0 * angle + 6.0 * velocity) / motor
        if abs(hold) <= 1.0:
            return hold
        missing = gravity * (1.0 - math.cos(angle)) - 0.5 * velocity**2  # to stand upright at rest
        return float(np.clip(5.0 * missing * (velocity or 1.0), -1.0, 1.0))

    return act


@pytest.mark.parametrize("name", ["ContinuousInvertedPendulum", "ContinuousPendulumSwingUp"])
def test_a_continuous_motor_earns_the_most_there_is(name: str) -> None:
    """Upright and at rest every reward is 0, which no reward exceeds: the best average is 0, with a distribution of one point."""
    env = gymnasium.make(f"perstep/{name}-v0")
    act = swinging_up(env.unwrapped.parameters)  # type: ignore[attr-defined]
    observation, _ = env.reset()
    rewards = []
    for _ in range(1_500):
        observation, reward, *_ = env.step(np.array([act(*observation)]))
        rewards.append(float(reward))
    assert min(rewards[-1_000:]) > -1e-3
    assert -1e-12 < min(rewards[-100:]) <= max(rewards[-100:]) <= 0.0
    with pytest.raises(ValueError, match="one number from −1 to 1"):
        env.unwrapped.step(np.array([1.5]))


@pytest.mark.parametrize("task", TASKS)
def test_a_continuous_motor_at_its_ends_is_that_of_three_torques(task: str) -> None:
    numbered, continuous = PendulumEnv(task), PendulumEnv(task, motor="continuous")
    numbered.reset()
    continuous.reset()
    for t in range(60):
        here, there = numbered.step(t * t % 3), continuous.step(np.array([t * t % 3 - 1.0]))
        np.testing.assert_array_equal(here[0], there[0])
        assert here[1:] == there[1:]
    with pytest.raises(ValueError, match="motor"):
        PendulumEnv(task, motor="two torques")  # type: ignore[arg-type]
