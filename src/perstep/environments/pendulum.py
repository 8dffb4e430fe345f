"""A rod on a motor, to be held upright for ever: the paper's inverted pendulum, and the swing-up task of a course.

Both are one compiled function and two rows of parameters. The paper's motor is stronger than gravity and can lift the
rod at once (its "Inverted Pendulum Experiment"); the course's is weaker by a factor of five and has to swing it up.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from perstep.compiled import compiled, inlined
from perstep.errors import unknown


class PendulumParameters(NamedTuple):
    """A uniform rod that turns about one end, without friction. The angle is 0 upright and grows counter-clockwise."""

    gravity: float = 9.8  # m/s²
    mass: float = 1.0 / 3.0  # kg
    length: float = 3.0 / 2.0  # m, of the whole rod
    time_step: float = 0.05  # s
    torque: float = 3.0  # N·m; the actions 0, 1, 2 apply −torque, 0, +torque
    max_velocity: float = 2.0 * math.pi  # rad/s; a rod as fast as this is put back to the start, at rest
    start_angle: float = math.pi  # hanging
    reward_power: int = 2  # 2: −angle², 1: −|angle|
    reward_after_reset: bool = False  # whether a step that puts the rod back is paid for where it is put


INVERTED_PENDULUM = PendulumParameters()
"""The paper's: acceleration 9.8·sin θ ± 12, so that the torque lifts the rod from anywhere."""

# The course states a rod of half-length 3/2: moment of inertia 4/3·m·(3/2)² = 1/3·m·3², centre of mass at 3/2.
PENDULUM_SWING_UP = PendulumParameters(
    length=3.0, torque=1.0, start_angle=-math.pi, reward_power=1, reward_after_reset=True
)
"""The course's: acceleration 4.9·sin β ± 1, so that the rod has to be swung up."""

TASKS = {"inverted-pendulum": INVERTED_PENDULUM, "pendulum-swing-up": PENDULUM_SWING_UP}


@inlined
def named(p: Any) -> Any:
    """The array of parameters with names."""
    return PendulumParameters(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8])


@compiled
def start(parameters: Any, state: Any) -> None:
    """Write the first state: hanging, at rest."""
    state[0], state[1] = named(parameters).start_angle, 0.0


@compiled
def wrap_angle(angle: Any) -> Any:
    """The same direction in [−π, π)."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


@compiled
def step(parameters: Any, state: Any, action: Any, next_state: Any) -> Any:
    """One step from `state` (2,) = (angle, velocity) under `action` 0, 1 or 2.

    Writes `next_state` (2,), which may be `state` itself; returns the reward and whether the rod was put back.
    """
    p = parameters
    angle, velocity = state[0], state[1]
    # Torque over moment of inertia: (½·m·g·l·sin θ + u) / (⅓·m·l²).
    pull = 3.0 * p.gravity / (2.0 * p.length) * math.sin(angle)
    push = 3.0 / (p.mass * p.length**2) * (action - 1) * p.torque
    velocity += (pull + push) * p.time_step
    angle = wrap_angle(angle + velocity * p.time_step)  # with the new velocity
    reached = angle
    too_fast = abs(velocity) >= p.max_velocity
    if too_fast:
        angle, velocity = p.start_angle, 0.0
    distance = abs(angle if p.reward_after_reset else reached)
    next_state[0], next_state[1] = angle, velocity
    return -(distance * distance if p.reward_power == 2 else distance), too_fast


@final
class PendulumEnv(gymnasium.Env[NDArray[np.float64], np.int64]):
    """`step` as a Gymnasium world: it starts hanging at rest, and neither terminates nor truncates.

    `info["restarted"]` says whether a step was too fast and put the rod back to the start.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(
        self, parameters: PendulumParameters | str = "inverted-pendulum", render_mode: str | None = None
    ) -> None:
        """`parameters`: the name of one of `TASKS`, or a row of your own."""
        if isinstance(parameters, str):
            if parameters not in TASKS:
                raise unknown("pendulum task", parameters, TASKS)
            parameters = TASKS[parameters]
        _check(parameters)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is None or 'rgb_array', but it is {render_mode!r}; choose one of these.")
        self.parameters = parameters
        self.render_mode = render_mode
        low, high = bounds(parameters)
        self.observation_space = gymnasium.spaces.Box(np.array(low), np.array(high), dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.state: NDArray[np.float64] | None = None  # (2,), all that the world remembers
        self._last_torque = 0.0  # for the picture alone

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Hanging, at rest. Nothing here is random; the seed is taken as Gymnasium asks."""
        super().reset(seed=seed)
        self.state = np.array([self.parameters.start_angle, 0.0])
        self._last_torque = 0.0
        return self.state.copy(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """One step of 0.05 s under the torque of `action`."""
        if self.state is None:
            raise ResetNeeded("The pendulum has no state before the first reset; call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(f"The actions are 0 (clockwise), 1 (no torque) and 2 (counter-clockwise), not {action}.")
        reward, restarted = step(self.parameters, self.state, int(action), self.state)
        self._last_torque = (int(action) - 1) * self.parameters.torque
        return self.state.copy(), float(reward), False, False, {"restarted": bool(restarted)}

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (400, 400, 3) of the rod and the torque that moved it there, or None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("Give render_mode='rgb_array' when making the world to see it.")
            return None
        if self.state is None:
            raise ResetNeeded("There is nothing to draw before the first reset; call reset() first.")
        from perstep.environments.pendulum_picture import draw  # a run that draws nothing pays nothing

        return draw(float(self.state[0]), self._last_torque)


def parameters_of(env: Any) -> PendulumParameters:
    """The physics of a `PendulumEnv`."""
    return env.parameters  # type: ignore[no-any-return]


def bounds(p: PendulumParameters) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest observation."""
    return (-math.pi, -p.max_velocity), (math.pi, p.max_velocity)


def _check(p: PendulumParameters) -> None:
    for name in ("mass", "length", "time_step", "max_velocity"):
        if not (math.isfinite(value := getattr(p, name)) and value > 0):
            raise ValueError(f"{name} must be a positive number, but it is {value}.")
    if not (math.isfinite(p.gravity) and math.isfinite(p.torque)):
        raise ValueError(f"gravity and torque must be finite, but they are {p.gravity} and {p.torque}.")
    if not -math.pi <= p.start_angle <= math.pi:
        raise ValueError(f"start_angle must lie in [−π, π], but it is {p.start_angle}.")
    if p.reward_power not in (1, 2):
        raise ValueError(f"reward_power must be 1 (−|angle|) or 2 (−angle²), but it is {p.reward_power}.")
