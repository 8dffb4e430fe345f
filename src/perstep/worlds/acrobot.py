"""Acrobot, compiled: two links hang from a hinge, and a motor between them has to swing the tip above a line (Sutton 1996).

The equations are those of Gymnasium's `AcrobotEnv` ("book" dynamics), so that both give the same numbers.
"""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.randomness import Generator, uniform

Floats = NDArray[np.float64]
Point = tuple[float, float, float, float]

START = 0.1  # each of the four numbers of a first state is uniform in ±START


class AcrobotParameters(NamedTuple):
    """The physics of the two links. The first angle is 0 when hanging; the second is relative to the first link."""

    time_step: float = 0.2  # s
    length_1: float = 1.0  # m, of the upper link
    mass_1: float = 1.0  # kg
    mass_2: float = 1.0  # kg
    centre_1: float = 0.5  # m, from the upper end of a link to its centre of mass
    centre_2: float = 0.5  # m
    inertia: float = 1.0  # kg·m², moment of inertia of either link
    max_velocity_1: float = 4 * pi  # rad/s
    max_velocity_2: float = 9 * pi  # rad/s
    torque_0: float = -1.0  # N·m, of action 0
    torque_1: float = 0.0  # N·m, of action 1
    torque_2: float = 1.0  # N·m, of action 2
    gravity: float = 9.8  # m/s²


@inlined
def named(p: Floats) -> AcrobotParameters:
    """The parameters as a named tuple, from an array."""
    return AcrobotParameters(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12])


@compiled
def start(state: Floats, generator: Generator) -> None:
    """Write a first state: both links almost hanging, almost at rest. Gymnasium rounds it to single precision."""
    for i in range(4):
        state[i] = np.float64(np.float32(-START + 2.0 * START * uniform(generator)))


@compiled
def slopes(p: AcrobotParameters, torque: float, at: Point) -> Point:
    """Time derivatives of (angle 1, angle 2, velocity 1, velocity 2) under a torque (Sutton & Barto 1998, section 11.3)."""
    angle_1, angle_2, velocity_1, velocity_2 = at
    lever = p.mass_2 * p.length_1 * p.centre_2
    cosine, sine = cos(angle_2), sin(angle_2)
    own_2 = p.mass_2 * p.centre_2**2 + p.inertia
    d_1 = p.mass_1 * p.centre_1**2 + p.mass_2 * p.length_1**2 + own_2 + p.inertia + 2.0 * lever * cosine
    d_2 = own_2 + lever * cosine
    # cos(x − π/2) instead of sin x, to keep the rounding of Gymnasium.
    phi_2 = p.mass_2 * p.centre_2 * p.gravity * cos(angle_1 + angle_2 - pi / 2.0)
    phi_1 = (
        -lever * velocity_2**2 * sine
        - 2.0 * lever * velocity_2 * velocity_1 * sine
        + (p.mass_1 * p.centre_1 + p.mass_2 * p.length_1) * p.gravity * cos(angle_1 - pi / 2.0)
        + phi_2
    )
    acceleration_2 = (torque + d_2 / d_1 * phi_1 - lever * velocity_1**2 * sine - phi_2) / (own_2 - d_2**2 / d_1)
    acceleration_1 = -(d_2 * acceleration_2 + phi_1) / d_1
    return velocity_1, velocity_2, acceleration_1, acceleration_2


@inlined
def along(at: Point, time: float, slope: Point) -> Point:
    """The point after `time` at a constant slope."""
    return (
        at[0] + time * slope[0],
        at[1] + time * slope[1],
        at[2] + time * slope[2],
        at[3] + time * slope[3],
    )


@compiled
def wrap_angle(angle: float) -> float:
    """The equivalent angle in [−π, π]; NaN for an infinite angle."""
    if angle > pi:
        return angle - 2.0 * pi * float(np.ceil((angle - pi) / (2.0 * pi)))
    if angle < -pi:
        return angle + 2.0 * pi * float(np.ceil((-pi - angle) / (2.0 * pi)))
    return angle


@compiled
def step(parameters: Floats, state: Floats, action: int) -> tuple[float, bool]:
    """Move `state` (4,) = (angle 1, angle 2, velocity 1, velocity 2) by one step; returns (reward, terminated).

    It is one step of the classical Runge-Kutta method. The reward is −1, and 0 when the tip is above the line.
    """
    p = named(parameters)
    torque = p.torque_0 if action == 0 else p.torque_1 if action == 1 else p.torque_2
    at = (state[0], state[1], state[2], state[3])
    half = p.time_step / 2.0
    k_1 = slopes(p, torque, at)
    k_2 = slopes(p, torque, along(at, half, k_1))
    k_3 = slopes(p, torque, along(at, half, k_2))
    k_4 = slopes(p, torque, along(at, p.time_step, k_3))
    for i in range(4):
        state[i] += p.time_step / 6.0 * (k_1[i] + 2.0 * k_2[i] + 2.0 * k_3[i] + k_4[i])
    state[0], state[1] = wrap_angle(state[0]), wrap_angle(state[1])
    state[2] = min(max(state[2], -p.max_velocity_1), p.max_velocity_1)
    state[3] = min(max(state[3], -p.max_velocity_2), p.max_velocity_2)
    terminated = -cos(state[0]) - cos(state[1] + state[0]) > 1.0
    return 0.0 if terminated else -1.0, terminated


@compiled
def observe(state: Floats, observation: Floats) -> None:
    """Write what the agent sees (6,): cosine and sine of both angles, and both velocities, in single precision."""
    observation[0], observation[1] = np.float64(np.float32(cos(state[0]))), np.float64(np.float32(sin(state[0])))
    observation[2], observation[3] = np.float64(np.float32(cos(state[1]))), np.float64(np.float32(sin(state[1])))
    observation[4], observation[5] = np.float64(np.float32(state[2])), np.float64(np.float32(state[3]))


# Where Gymnasium stores the parameters, in their order; the three torques are a list, and gravity is not stored.
ATTRIBUTES = (
    "dt", "LINK_LENGTH_1", "LINK_MASS_1", "LINK_MASS_2", "LINK_COM_POS_1", "LINK_COM_POS_2", "LINK_MOI", "MAX_VEL_1", "MAX_VEL_2",
)  # fmt: skip


def parameters_of(env: Any) -> AcrobotParameters | None:
    """The physics of a Gymnasium `AcrobotEnv`; None if its torque is noisy or its dynamics are those of the "nips" variant."""
    if env.torque_noise_max != 0.0 or env.book_or_nips != "book":
        return None
    stored = (getattr(env, name) for name in ATTRIBUTES)
    return AcrobotParameters._make([*stored, *env.AVAIL_TORQUE, AcrobotParameters().gravity])


def bounds(p: AcrobotParameters) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest observation, for tile coding: those of Gymnasium's observation space."""
    high = (1.0, 1.0, 1.0, 1.0, p.max_velocity_1, p.max_velocity_2)
    return tuple(-bound for bound in high), high
