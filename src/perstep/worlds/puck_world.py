"""PuckWorld: a puck in a unit square is pushed towards a target that jumps to another place now and then (Karpathy 2015; PLE).

A task without an end, not one of the paper. The target jumps with a small probability in every step, so the state needs no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.randomness import Generator, uniform
from perstep.numerics.schedules import is_finite

Floats = NDArray[np.float64]

LEFT, RIGHT, DOWN, UP, NOTHING = range(5)  # the actions


class PuckParameters(NamedTuple):
    """The physics of the puck. Velocities are distances per step; the square has sides of length 1."""

    push: float = 0.005  # what an action adds to the velocity
    damping: float = 0.9  # the fraction of the velocity that a step keeps
    jump_probability: float = 0.01  # of the target, in each step


@inlined
def named(p: Floats) -> PuckParameters:
    """The parameters as a named tuple, from an array."""
    return PuckParameters(p[0], p[1], p[2])


@compiled
def place(state: Floats, x: float, y: float, target_x: float, target_y: float) -> None:
    """Write a first state (6,) = (x, y, velocity x, velocity y, target x, target y): at rest."""
    state[0], state[1], state[2], state[3], state[4], state[5] = x, y, 0.0, 0.0, target_x, target_y


@compiled
def start(state: Floats, generator: Generator) -> None:
    """Write a first state: the puck at rest and the target, both anywhere."""
    place(state, uniform(generator), uniform(generator), uniform(generator), uniform(generator))


@compiled
def move(parameters: Floats, state: Floats, action: int) -> float:
    """Move the puck by one step, without a jump of the target. Returns the reward, minus the distance to the target."""
    p = named(parameters)
    for axis in range(2):
        velocity = p.damping * state[2 + axis]
        if action == 2 * axis:
            velocity -= p.push
        elif action == 2 * axis + 1:
            velocity += p.push
        position = state[axis] + velocity  # with the new velocity
        if not 0.0 <= position <= 1.0:  # a wall stops the puck
            position, velocity = min(max(position, 0.0), 1.0), 0.0
        state[axis], state[2 + axis] = position, velocity
    return -math.sqrt((state[4] - state[0]) ** 2 + (state[5] - state[1]) ** 2)


@compiled
def step(parameters: Floats, state: Floats, action: int, generator: Generator) -> float:
    """Move the puck, then perhaps the target. Returns the reward, which is that before a jump."""
    reward = move(parameters, state, action)
    if uniform(generator) < named(parameters).jump_probability:
        state[4], state[5] = uniform(generator), uniform(generator)
    return reward


@compiled
def observe(state: Floats, observation: Floats) -> None:
    """Write the observation (6,): offset of the target from the puck (x, y), velocity (x, y), position (x, y)."""
    observation[0], observation[1] = state[4] - state[0], state[5] - state[1]
    observation[2], observation[3] = state[2], state[3]
    observation[4], observation[5] = state[0], state[1]


@final
class PuckWorldEnv(gymnasium.Env[NDArray[np.float64], np.int64]):
    """PuckWorld as a Gymnasium environment. It starts with puck and target anywhere, and never terminates or truncates.

    `info["jumped"]` is True if the target has jumped in this step. The reward of that step is that of the target's old place.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        push: float = PuckParameters._field_defaults["push"],
        damping: float = PuckParameters._field_defaults["damping"],
        jump_probability: float = PuckParameters._field_defaults["jump_probability"],
        render_mode: str | None = None,
    ) -> None:
        """Create the world.

        Args:
            push: what an action adds to the velocity, which is a distance per step. The square has sides of length 1.
            damping: the fraction of the velocity that a step keeps.
            jump_probability: of the target, in each step.
            render_mode: None or "rgb_array".
        """
        self.parameters = PuckParameters(push, damping, jump_probability)
        _check(self.parameters)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}.")
        self.render_mode = render_mode
        low, high = bounds(self.parameters)
        self.observation_space = gymnasium.spaces.Box(np.array(low), np.array(high), dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(5)
        self.state: NDArray[np.float64] | None = None  # (6,), the complete state
        self._physics = np.array(self.parameters, np.float64)
        self._last_action = NOTHING  # for the picture only

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Put the puck, at rest, and the target anywhere."""
        super().reset(seed=seed)
        self.state = np.empty(6)
        random = self.np_random.random
        place(self.state, random(), random(), random(), random())
        self._last_action = NOTHING
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Push the puck, and perhaps let the target jump."""
        if self.state is None:
            raise ResetNeeded("The puck has no place before the first reset. Call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(f"The action must be 0 (left), 1 (right), 2 (down), 3 (up) or 4 (nothing), got {action}.")
        reward = move(self._physics, self.state, int(action))
        random = self.np_random.random
        if jumped := random() < self.parameters.jump_probability:
            self.state[4], self.state[5] = random(), random()
        self._last_action = int(action)
        return self._observe(), float(reward), False, False, {"jumped": bool(jumped)}

    @property
    def heuristics(self) -> dict[str, Callable[[NDArray[np.float64]], int]]:
        """Simple policies to beat, by name: functions of the observation."""
        return {"steering": self.heuristic}

    def heuristic(self, observation: NDArray[np.float64]) -> int:
        """The action that steers to the target: along the axis on which the puck, three steps from now, will be further from it.

        Three steps is the best whole number with the settings of the registered world. Within a push of the target it does nothing.
        """
        missing = np.asarray(observation[:2]) - 3.0 * np.asarray(observation[2:4])
        axis = int(np.abs(missing).argmax())
        if abs(missing[axis]) <= self.parameters.push:
            return NOTHING
        return 2 * axis + int(missing[axis] > 0.0)

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (400, 400, 3) of the puck, the target and the last push; None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("To see the puck, create the environment with render_mode='rgb_array'.")
            return None
        if self.state is None:
            raise ResetNeeded("There is nothing to draw before the first reset. Call reset() first.")
        from perstep.worlds.puck_picture import draw  # imported only when a picture is drawn

        x, y, _, _, target_x, target_y = self.state.tolist()
        axis, forward = divmod(self._last_action, 2)
        pushed = [0.0, 0.0]
        if self._last_action != NOTHING:
            pushed[axis] = 2.0 * forward - 1.0
        return draw((x, y), (target_x, target_y), (pushed[0], pushed[1]))

    def _observe(self) -> NDArray[np.float64]:
        assert self.state is not None  # after a reset
        observation = np.empty(6)
        observe(self.state, observation)
        return observation


def parameters_of(env: Any) -> PuckParameters:
    """The physics of a `PuckWorldEnv`."""
    return env.parameters  # type: ignore[no-any-return]


def bounds(p: PuckParameters) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest observation."""
    # A wall at the latest stops a puck that is faster than 1: it cannot go further than from one side to the other.
    speed = min(p.push / (1.0 - p.damping), 1.0)
    return (-1.0, -1.0, -speed, -speed, 0.0, 0.0), (1.0, 1.0, speed, speed, 1.0, 1.0)


def _check(p: PuckParameters) -> None:
    for name, value in p._asdict().items():
        if not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {value!r}.")
    if not (is_finite(p.push) and p.push > 0):
        raise ValueError(f"push must be a positive number, got {p.push}.")
    if not 0 <= p.damping < 1:
        raise ValueError(f"damping must be at least 0 and below 1, got {p.damping}. It is the fraction that is kept.")
    if not 0 <= p.jump_probability <= 1:
        raise ValueError(f"jump_probability must be between 0 and 1, got {p.jump_probability}.")
