"""The state of a Gymnasium environment as plain JSON, for checkpoints; only for classes whose complete state is known."""

from __future__ import annotations

import json
import zlib
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 2**62  # steps that can be counted
TIME_LIMIT = "gymnasium.wrappers.common:TimeLimit"
TELEPORT = "perstep.gym.wrappers:Teleport"
FOLLOWING = "perstep.gym.wrappers:FollowPolicy"

# For each class, the attributes that change from step to step. The state of a class that is not listed is unknown.
CHANGING: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.taxi:TaxiEnv": ("s", "lastaction", "taxi_orientation", "fickle_step"),
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.classic_control.mountain_car:MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": ("state",),
    "gymnasium.envs.classic_control.pendulum:PendulumEnv": ("state",),
    "gymnasium.envs.classic_control.continuous_mountain_car:Continuous_MountainCarEnv": ("state",),
    TIME_LIMIT: ("_elapsed_steps",),
    TELEPORT: (),
    FOLLOWING: ("observation",),
    "perstep.mdp.env:FiniteMDPEnv": ("state",),
    "perstep.worlds.pendulum:PendulumEnv": ("state",),
    "perstep.worlds.puck_world:PuckWorldEnv": ("state",),
    "perstep.worlds.linear_quadratic:LinearQuadraticEnv": ("state",),
    "perstep.worlds.storage:EnergyStorageEnv": ("state",),
    "perstep.worlds.storage:ReservoirEnv": ("state",),
    "perstep.worlds.autoscaling:AutoscalingEnv": ("state",),
    "perstep.worlds.minatar:MinAtarEnv": ("state",),
    "perstep.worlds.atari:AtariEnv": ("state",),
}


MUJOCO = "gymnasium.envs.mujoco."  # the modules of worlds whose state is in MuJoCo's memory
PHYSICS = "physics"  # what this state is called in a file
READ_BEFORE_A_STEP = ("xpos", "xipos")  # positions of bodies, which MuJoCo computes at the beginning of a step

# Passive wrappers: they change neither observations nor rewards, and they have no state of their own after a reset.
WATCHING = ("gymnasium.wrappers.common:OrderEnforcing", "gymnasium.wrappers.common:PassiveEnvChecker")


def kind(layer: Any) -> str:
    """The class of an environment or a wrapper, as "module:class"."""
    return f"{type(layer).__module__}:{type(layer).__qualname__}"


def layers_of(env: Any) -> list[Any]:
    """The wrappers of an environment, outermost first, then the environment itself. Passive wrappers are left out."""
    layers = [env]
    while hasattr(layers[-1], "env"):
        layers.append(layers[-1].env)
    return [layer for layer in layers if kind(layer) not in WATCHING]


def kinds(env: Any) -> list[str]:
    """The classes of the wrappers, outermost first, then of the environment itself. Passive wrappers are left out."""
    return [kind(layer) for layer in layers_of(env)]


def time_limit(env: Any) -> int | None:
    """The number of steps after which a TimeLimit wrapper truncates an episode; None without such a wrapper.

    The wrapper is read, not `env.spec`, which may differ.
    """
    limits = [layer._max_episode_steps for layer in layers_of(env) if kind(layer) == TIME_LIMIT]
    return int(limits[0]) if limits else None


def _changing(layer: Any) -> tuple[str, ...] | None:
    """The attributes of an environment or a wrapper that change; None if they are not known."""
    return () if kind(layer).startswith(MUJOCO) else CHANGING.get(kind(layer))


def _physics(layer: Any) -> dict[str, NDArray[np.float64]]:
    """The whole state of MuJoCo: positions, velocities, the forces with which its solver begins, and what worlds read of it."""
    import mujoco

    whole = mujoco.mjtState.mjSTATE_INTEGRATION
    numbers = np.empty(mujoco.mj_stateSize(layer.model, whole))
    mujoco.mj_getState(layer.model, layer.data, numbers, whole)
    return {"state": numbers, **{name: getattr(layer.data, name).copy() for name in READ_BEFORE_A_STEP}}


def _set_physics(layer: Any, taken: dict[str, Any]) -> None:
    import mujoco

    now, saved = _physics(layer), {name: _restored(value) for name, value in taken.items()}
    for name, mine in now.items():
        if name not in saved or np.shape(saved[name]) != mine.shape or not np.isfinite(saved[name]).all():
            raise ValueError(f"the physics of {kind(layer)} cannot be {str(saved.get(name))[:100]}")
    whole = mujoco.mjtState.mjSTATE_INTEGRATION
    mujoco.mj_setState(layer.model, layer.data, saved["state"], whole)
    mujoco.mj_forward(layer.model, layer.data)  # all that follows from the state; it moves what the solver begins with
    mujoco.mj_setState(layer.model, layer.data, saved["state"], whole)
    for name in READ_BEFORE_A_STEP:
        getattr(layer.data, name)[:] = saved[name]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    return {"tuple": [_plain(v) for v in value]} if isinstance(value, tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            if (dtype := np.dtype(value["dtype"])).kind not in "biuf":
                raise ValueError(f"expected an array of numbers, got an array of {dtype}")
            return np.array(value["array"], dtype)
        return tuple(_restored(v) for v in value["tuple"])
    return value


def _refuse_other_kind(layer: Any, name: str, value: Any) -> None:
    """Refuse a state on which the next step of the world would fail. `layer` has just been reset: its own value is an example."""
    now = getattr(layer, name, None)
    if isinstance(now, np.ndarray):  # some worlds replace the array by a tuple
        numbers = isinstance(value, tuple | np.ndarray) and np.shape(value) == now.shape
        same = numbers and bool(np.isfinite(np.asarray(value, np.float64)).all())
    elif isinstance(now, tuple):
        same = isinstance(value, tuple) and len(value) == len(now)
    elif type(value) is int:  # a place, an action, or a number of steps
        spaces = {"s": "observation_space", "state": "observation_space", "lastaction": "action_space"}
        space = getattr(layer, spaces.get(name, ""), None)
        same = 0 <= value < LONGEST if space is None else bool(space.contains(value))
    else:
        same = type(value) is type(now)
    if not same:
        raise ValueError(f"the state {name} of {kind(layer)} cannot be {str(value)[:100]}")


def snapshot(env: Any) -> dict[str, Any] | None:
    """The state of `env`, of its wrappers and of its random generator; None if the state of some part is not known."""
    layers = []
    for layer in layers_of(env):
        if (names := _changing(layer)) is None:
            return None
        values = {name: _plain(getattr(layer, name)) for name in names if hasattr(layer, name)}
        if kind(layer).startswith(MUJOCO):
            values[PHYSICS] = {name: _plain(numbers) for name, numbers in _physics(layer).items()}
        layers.append({"kind": kind(layer), "values": values})
    taken = {"layers": layers, "generator": env.unwrapped.np_random.bit_generator.state}
    try:
        json.dumps(taken, allow_nan=False)
    except (TypeError, ValueError):  # an attribute in the list holds something that JSON cannot store
        return None
    return taken


def restore(env: Any, taken: dict[str, Any]) -> bool:
    """Put `env` into a state taken by `snapshot`. Returns False, and does nothing, if its class or its wrappers differ."""
    layers = layers_of(env)
    if kinds(env) != [saved["kind"] for saved in taken["layers"]]:
        return False
    for layer, saved in zip(layers, taken["layers"], strict=True):
        if PHYSICS in saved["values"] and kind(layer).startswith(MUJOCO):
            _set_physics(layer, saved["values"][PHYSICS])
        for name in _changing(layer) or ():
            if name in saved["values"]:
                value = _restored(saved["values"][name])
                _refuse_other_kind(layer, name, value)
                setattr(layer, name, value)
    env.unwrapped.np_random.bit_generator.state = taken["generator"]
    return True


PLAIN = (bool, int, float, str, np.generic)
LONGEST_LIST = 1_000  # items that are looked at


def fingerprint(env: Any) -> int:
    """A number that changes when a world moves, from everything in it that is plain data: of its wrappers, its generator, and the
    environments of a vector. It says nothing about worlds that keep their state elsewhere, as in another process."""
    found = 0
    for layer in [*layers_of(env), *(part for inner in getattr(env, "envs", ()) for part in layers_of(inner))]:
        for name, value in getattr(layer, "__dict__", {}).items():
            if isinstance(value, np.random.Generator):
                text = repr(value.bit_generator.state).encode()
            elif isinstance(value, np.ndarray) and value.dtype != object:
                text = value.tobytes()
            elif isinstance(value, PLAIN) or (isinstance(value, list | tuple | deque) and len(value) <= LONGEST_LIST):
                text = repr(value).encode()
            else:
                continue
            found = zlib.crc32(text, zlib.crc32(name.encode(), found))
    return found
