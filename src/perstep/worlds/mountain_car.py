"""MountainCar, compiled: a car too weak for the hill has to swing in the valley to reach the top (Moore 1990).

The equations are those of Gymnasium's `MountainCarEnv`, in the order of its step, so that both give the same numbers.
"""

from __future__ import annotations

from math import cos
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.randomness import Generator, uniform

Floats = NDArray[np.float64]

START_LOW, START_HIGH = -0.6, -0.4  # a first position is uniform between these, around the bottom of the valley


class MountainCarParameters(NamedTuple):
    """The physics of the car. Velocities are distances per step. The bottom of the valley is at −π/6."""

    min_position: float = -1.2  # a wall that stops the car
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.5
    goal_velocity: float = 0.0  # the smallest velocity with which the goal ends the episode
    force: float = 0.001  # actions 0, 1, 2 accelerate by −force, 0, +force
    gravity: float = 0.0025


@inlined
def named(p: Floats) -> MountainCarParameters:
    """The parameters as a named tuple, from an array."""
    return MountainCarParameters(p[0], p[1], p[2], p[3], p[4], p[5], p[6])


@compiled
def start(state: Floats, generator: Generator) -> None:
    """Write a first state: near the bottom of the valley, at rest."""
    state[0] = START_LOW + (START_HIGH - START_LOW) * uniform(generator)
    state[1] = 0.0


@compiled
def step(parameters: Floats, state: Floats, action: int) -> tuple[float, bool]:
    """Move `state` (2,) = (position, velocity) by one step; returns (reward, terminated). The reward is always −1."""
    p = named(parameters)
    position, velocity = state[0], state[1]
    velocity += (action - 1) * p.force - p.gravity * cos(3.0 * position)
    velocity = min(max(velocity, -p.max_speed), p.max_speed)
    position = min(max(position + velocity, p.min_position), p.max_position)  # with the new velocity
    if position == p.min_position and velocity < 0.0:
        velocity = 0.0
    state[0], state[1] = position, velocity
    return -1.0, position >= p.goal_position and velocity >= p.goal_velocity


def parameters_of(env: Any) -> MountainCarParameters:
    """The physics of a Gymnasium `MountainCarEnv`."""
    return MountainCarParameters(**{name: getattr(env, name) for name in MountainCarParameters._fields})


def bounds(p: MountainCarParameters) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest observation, for tile coding: those of Gymnasium's observation space."""
    return (p.min_position, -p.max_speed), (p.max_position, p.max_speed)
