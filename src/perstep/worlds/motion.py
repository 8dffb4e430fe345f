"""Compiled worlds whose state is a vector of numbers: pendulum, CartPole, MountainCar, Acrobot and PuckWorld, chosen by number.

Every such world has the same types: an integer, and the float64 arrays `parameters` (P,), `state` (D,) and `observation` (K,).
So one compiled loop serves all of them and is cached. Functions as arguments would prevent the cache, and a parameter type of
its own for each world would compile the loop once for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.randomness import Generator
from perstep.worlds import acrobot, cartpole, mountain_car, pendulum, puck_world

Floats = NDArray[np.float64]

Bounds = tuple[tuple[float, ...], tuple[float, ...]]


class _Row(NamedTuple):
    """What distinguishes one world from the others, outside compiled code."""

    name: str
    env: str  # the class of the Gymnasium environment that takes the same steps
    parameters_of: Callable[
        [Any], tuple[float, ...] | None
    ]  # the parameters of such an environment; None if not supported
    bounds: Callable[[Any], Bounds]  # the lowest and the highest observation, given the parameters
    state_size: int
    num_actions: int
    single_precision: bool  # whether observations are rounded to float32


CLASSIC = "gymnasium.envs.classic_control."
_PENDULUM_ENV = "perstep.worlds.pendulum:PendulumEnv"
_PUCK_ENV = "perstep.worlds.puck_world:PuckWorldEnv"
TABLE = (
    _Row("Pendulum", _PENDULUM_ENV, pendulum.parameters_of, pendulum.bounds, 2, 3, False),
    _Row("CartPole", CLASSIC + "cartpole:CartPoleEnv", cartpole.parameters_of, cartpole.bounds, 4, 2, True),
    _Row("MountainCar", CLASSIC + "mountain_car:MountainCarEnv", mountain_car.parameters_of, mountain_car.bounds, 2, 3, True),
    _Row("Acrobot", CLASSIC + "acrobot:AcrobotEnv", acrobot.parameters_of, acrobot.bounds, 4, 3, True),
    _Row("PuckWorld", _PUCK_ENV, puck_world.parameters_of, puck_world.bounds, 6, 5, False),
)  # fmt: skip
PENDULUM, CARTPOLE, MOUNTAIN_CAR, ACROBOT, PUCK_WORLD = range(len(TABLE))


@inlined
def start(world: int, parameters: Floats, state: Floats, generator: Generator) -> None:
    """Write a first state to `state`; NaN for a world that does not exist."""
    if world == PENDULUM:
        pendulum.start(parameters, state)
    elif world == CARTPOLE:
        cartpole.start(state, generator)
    elif world == MOUNTAIN_CAR:
        mountain_car.start(state, generator)
    elif world == ACROBOT:
        acrobot.start(state, generator)
    elif world == PUCK_WORLD:
        puck_world.start(state, generator)
    else:
        fill_with_nan(state)


@inlined
def step(world: int, parameters: Floats, state: Floats, action: int, generator: Generator) -> tuple[float, bool]:
    """Move `state` by one step; returns (reward, terminated). The reward is NaN for a world that does not exist."""
    reward, terminated = math.nan, False
    if world == PENDULUM:
        reward, _ = pendulum.step(pendulum.named(parameters), state, action, state)
    elif world == CARTPOLE:
        reward, terminated = cartpole.step(parameters, state, action)
    elif world == MOUNTAIN_CAR:
        reward, terminated = mountain_car.step(parameters, state, action)
    elif world == ACROBOT:
        reward, terminated = acrobot.step(parameters, state, action)
    elif world == PUCK_WORLD:
        reward = puck_world.step(parameters, state, action, generator)
    return reward, terminated


@inlined
def observe(world: int, state: Floats, observation: Floats) -> None:
    """Write what the agent sees in `state`: the numbers that the Gymnasium environment returns, with its rounding."""
    if world == PENDULUM:
        observation[0], observation[1] = state[0], state[1]
    elif world in (CARTPOLE, MOUNTAIN_CAR):
        round_to_single(state, observation)
    elif world == ACROBOT:
        acrobot.observe(state, observation)
    elif world == PUCK_WORLD:
        puck_world.observe(state, observation)
    else:
        fill_with_nan(observation)


@compiled
def round_to_single(state: Floats, observation: Floats) -> None:
    """Write the state, rounded to float32."""
    for i in range(state.shape[0]):
        observation[i] = np.float64(np.float32(state[i]))


@compiled
def fill_with_nan(numbers: Floats) -> None:
    """Write NaN to every entry, so that an error is noticed."""
    for i in range(numbers.shape[0]):
        numbers[i] = math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """A compiled world: everything that other code needs to know about it."""

    name: str
    """Its name, for example "CartPole"."""
    number: int
    """PENDULUM, CARTPOLE, MOUNTAIN_CAR, ACROBOT or PUCK_WORLD: compiled code chooses the world by this number."""
    parameters: NDArray[np.float64]
    """(P,), the parameters of `start` and `step`."""
    num_actions: int
    """The actions are 0 … num_actions − 1."""
    state_size: int
    """D, the length of `state`."""
    low: tuple[float, ...]
    """(K,), the lowest observation, for tile coding."""
    high: tuple[float, ...]
    """(K,), the highest observation, for tile coding."""
    time_limit: int
    """Number of steps after which an episode is truncated; 0 for no limit. The caller applies it; `step` does not."""
    teleport_cost: float | None
    """The reset cost of a `Teleport` wrapper, with which an end is a jump to the next start; None without such a wrapper."""
    replaces_gymnasium: bool
    """Whether it takes the place of an environment of Gymnasium's own, which agents tell the user."""

    @property
    def observation_size(self) -> int:
        """K, the length of `observation`."""
        return len(self.low)
