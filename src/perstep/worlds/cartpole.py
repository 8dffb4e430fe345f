"""CartPole, compiled: a cart is pushed left or right so that the pole hinged on it stays upright (Barto et al. 1983).

The equations are those of Gymnasium's `CartPoleEnv`, in the order of its step, so that both give the same numbers.
"""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.randomness import Generator, uniform

Floats = NDArray[np.float64]

START = 0.05  # each of the four numbers of a first state is uniform in ±START


class CartPoleParameters(NamedTuple):
    """The physics of the cart and the pole. The angle is 0 upright and increases clockwise.

    `total_mass` and `pole_moment` follow from the masses and the length. Gymnasium stores them separately, so they are here too.
    """

    gravity: float = 9.8  # m/s²
    pole_mass: float = 0.1  # kg
    total_mass: float = 1.1  # kg, cart and pole together
    half_length: float = 0.5  # m, from the hinge to the centre of the pole
    pole_moment: float = 0.05  # kg·m, mass of the pole times half_length
    force: float = 10.0  # N; action 0 pushes left, action 1 pushes right
    time_step: float = 0.02  # s
    max_angle: float = 12 * 2 * pi / 360  # rad; beyond it the episode ends
    max_position: float = 2.4  # m; beyond it the episode ends
    step_reward: float = 1.0  # reward of a step that does not end the episode
    end_reward: float = 1.0  # reward of the step that ends the episode


@inlined
def named(p: Floats) -> CartPoleParameters:
    """The parameters as a named tuple, from an array."""
    return CartPoleParameters(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10])


@compiled
def start(state: Floats, generator: Generator) -> None:
    """Write a first state: near the centre, almost upright, almost at rest."""
    for i in range(4):
        state[i] = -START + 2.0 * START * uniform(generator)


@compiled
def step(parameters: Floats, state: Floats, action: int) -> tuple[float, bool]:
    """Move `state` (4,) = (position, velocity, angle, angular velocity) by one step; returns (reward, terminated)."""
    p = named(parameters)
    position, velocity, angle, turning = state[0], state[1], state[2], state[3]
    force = p.force if action == 1 else -p.force
    cosine, sine = cos(angle), sin(angle)
    # `push` is the acceleration of the cart without that of the pole (equations: Florian 2007).
    push = (force + p.pole_moment * (turning * turning) * sine) / p.total_mass
    inertia = p.half_length * (4.0 / 3.0 - p.pole_mass * (cosine * cosine) / p.total_mass)
    angular_acceleration = (p.gravity * sine - cosine * push) / inertia
    acceleration = push - p.pole_moment * angular_acceleration * cosine / p.total_mass
    # Explicit Euler: positions move with the old velocities.
    position += p.time_step * velocity
    angle += p.time_step * turning
    state[0], state[1] = position, velocity + p.time_step * acceleration
    state[2], state[3] = angle, turning + p.time_step * angular_acceleration
    terminated = abs(position) > p.max_position or abs(angle) > p.max_angle
    return p.end_reward if terminated else p.step_reward, terminated


# Where Gymnasium stores the parameters, in their order; the two rewards depend on an option.
ATTRIBUTES = (
    "gravity", "masspole", "total_mass", "length", "polemass_length", "force_mag", "tau", "theta_threshold_radians", "x_threshold",
)  # fmt: skip


def parameters_of(env: Any) -> CartPoleParameters | None:
    """The physics of a Gymnasium `CartPoleEnv`; None if its integrator is not explicit Euler."""
    if env.kinematics_integrator != "euler":
        return None
    rewards = (0.0, -1.0) if env._sutton_barto_reward else (1.0, 1.0)
    return CartPoleParameters._make([*(getattr(env, name) for name in ATTRIBUTES), *rewards])


def bounds(p: CartPoleParameters) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest observation during an episode, for tile coding.

    Gymnasium's bounds are twice as wide in position and angle, but beyond these limits the episode has ended. Its bounds of the
    velocities are infinite. Episodes start near rest and end before the pole is fast: pushing in one direction reaches 2.0 m/s
    and 3.0 rad/s, and agents that learn to balance with long runs to one side were seen at 4.5 m/s and 3.4 rad/s.
    """
    high = (p.max_position, 5.0, p.max_angle, 4.0)
    return tuple(-bound for bound in high), high
