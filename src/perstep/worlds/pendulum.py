"""Two pendulum tasks without an end: the paper's inverted pendulum, and the swing-up task of an online course.

Both use one compiled function with different parameters. In the paper's "Inverted Pendulum Experiment" the motor is stronger
than gravity and can lift the rod directly. In the course the motor is about five times weaker than gravity and has to swing
the rod up.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from perstep.inputs.checks import choice
from perstep.inputs.errors import unknown
from perstep.numerics.compiled import compiled, inlined
from perstep.numerics.schedules import is_finite

Floats = NDArray[np.float64]


class PendulumParameters(NamedTuple):
    """A uniform rod that rotates about one end, without friction. The angle is 0 upright and increases counter-clockwise."""

    gravity: float = 9.8  # m/s²
    mass: float = 1.0 / 3.0  # kg
    length: float = 3.0 / 2.0  # m, length of the whole rod
    time_step: float = 0.05  # s
    torque: float = 3.0  # N·m; the actions 0, 1, 2 apply −torque, 0, +torque
    max_velocity: float = 2.0 * math.pi  # rad/s; at this speed or above, the rod is moved back to the start, at rest
    start_angle: float = math.pi  # rad; hanging
    reward_power: int = 2  # 2: −angle², 1: −|angle|
    reward_after_reset: bool = (
        False  # for a step that moves the rod back: reward of the start angle, not of the angle reached
    )


INVERTED_PENDULUM = PendulumParameters()
"""The paper's pendulum: acceleration 9.8·sin θ ± 12, so the torque can lift the rod from any angle."""

# The course describes a rod of half-length 3/2: moment of inertia 4/3·m·(3/2)² = 1/3·m·3², centre of mass at 3/2.
PENDULUM_SWING_UP = PendulumParameters(
    length=3.0, torque=1.0, start_angle=-math.pi, reward_power=1, reward_after_reset=True
)
"""The course's pendulum: acceleration 4.9·sin β ± 1, so the rod has to be swung up."""

TASKS = {"inverted-pendulum": INVERTED_PENDULUM, "pendulum-swing-up": PENDULUM_SWING_UP}


@inlined
def named(p: Floats) -> PendulumParameters:
    """The parameters as a named tuple, from an array."""
    return PendulumParameters(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8])


@compiled
def start(parameters: Floats, state: Floats) -> None:
    """Write the first state: hanging, at rest."""
    state[0], state[1] = named(parameters).start_angle, 0.0


@compiled
def wrap_angle(angle: float) -> float:
    """The equivalent angle in [−π, π)."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


@compiled
def step(parameters: PendulumParameters, state: Floats, action: float, next_state: Floats) -> tuple[float, bool]:
    """One step from `state` (2,) = (angle, velocity) under `action` 0, 1 or 2, or a number between them.

    Writes `next_state` (2,), which may be `state` itself. Returns the reward and whether the rod was moved back to the start.
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
class PendulumEnv(gymnasium.Env[NDArray[np.float64], Any]):
    """The pendulum as a Gymnasium environment. It starts hanging at rest, and never terminates or truncates.

    An action is 0, 1 or 2, or with a continuous motor any share from −1 to 1 of the largest torque, as a vector of one number.
    `info["restarted"]` is True if the rod was too fast and was moved back to the start.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    action_space: gymnasium.Space[Any]

    def __init__(
        self,
        parameters: PendulumParameters | str = "inverted-pendulum",
        render_mode: str | None = None,
        motor: Literal["three torques", "continuous"] = "three torques",
    ) -> None:
        """`parameters`: the name of one of `TASKS`, or your own `PendulumParameters`. `motor`: which torques there are."""
        choice("motor", motor, ("three torques", "continuous"))
        if isinstance(parameters, str):
            if parameters not in TASKS:
                raise unknown("pendulum task", parameters, TASKS)
            parameters = TASKS[parameters]
        _check(parameters)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}.")
        self.parameters = parameters
        self.render_mode = render_mode
        low, high = bounds(parameters)
        self.observation_space = gymnasium.spaces.Box(np.array(low), np.array(high), dtype=np.float64)
        self.action_space = (
            gymnasium.spaces.Discrete(3)
            if motor == "three torques"
            else gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
        )
        self.state: NDArray[np.float64] | None = None  # (2,), the complete state
        self._last_torque = 0.0  # for the picture only

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Start hanging, at rest. Nothing is random; `seed` is accepted because Gymnasium requires it."""
        super().reset(seed=seed)
        self.state = np.array([self.parameters.start_angle, 0.0])
        self._last_torque = 0.0
        return self.state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """One time step under the torque of `action`."""
        if self.state is None:
            raise ResetNeeded("The pendulum has no state before the first reset. Call reset() first.")
        motion = self._motion(action)
        reward, restarted = step(self.parameters, self.state, motion, self.state)
        self._last_torque = (motion - 1) * self.parameters.torque
        return self.state.copy(), float(reward), False, False, {"restarted": bool(restarted)}

    def _motion(self, action: Any) -> float:
        """The action from 0, the largest torque clockwise, to 2."""
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            if not self.action_space.contains(action):
                raise ValueError(
                    f"The action must be 0 (clockwise), 1 (no torque) or 2 (counter-clockwise), got {action}."
                )
            return int(action)
        chosen = np.asarray(action, np.float64)
        if not self.action_space.contains(chosen):
            raise ValueError(f"The action must be one number from −1 to 1, got {action}.")
        return 1.0 + float(chosen[0])

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (400, 400, 3) of the rod and of the last torque; None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("To see the pendulum, create the environment with render_mode='rgb_array'.")
            return None
        if self.state is None:
            raise ResetNeeded("There is nothing to draw before the first reset. Call reset() first.")
        from perstep.worlds.pendulum_picture import draw  # imported only when a picture is drawn

        return draw(float(self.state[0]), self._last_torque)


def parameters_of(env: Any) -> PendulumParameters | None:
    """The physics of a `PendulumEnv` with three torques."""
    return env.parameters if isinstance(env.action_space, gymnasium.spaces.Discrete) else None


def bounds(p: PendulumParameters) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest observation."""
    return (-math.pi, -p.max_velocity), (math.pi, p.max_velocity)


def _check(p: PendulumParameters) -> None:
    if not isinstance(p, PendulumParameters):
        raise TypeError(f"parameters must be PendulumParameters or the name of one of {', '.join(TASKS)}, got {p!r}.")
    for name in ("mass", "length", "time_step", "max_velocity"):
        if not (is_finite(value := getattr(p, name)) and value > 0):
            raise ValueError(f"{name} must be a positive number, got {value!r}.")
    for name in ("gravity", "torque", "start_angle"):
        if not is_finite(value := getattr(p, name)):
            raise ValueError(f"{name} must be a finite number, got {value!r}.")
    if not -math.pi <= p.start_angle <= math.pi:
        raise ValueError(f"start_angle must be in [−π, π], got {p.start_angle}.")
    if p.reward_power not in (1, 2):
        raise ValueError(f"reward_power must be 1 (−|angle|) or 2 (−angle²), got {p.reward_power}.")
