"""The state of a Gymnasium world as plain JSON, for checkpoints: only for worlds whose whole state is known to be in it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

# Attributes that change as the world goes on, by the class that has them. A class that is not here has no known state.
CHANGING: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.taxi:TaxiEnv": ("s", "lastaction", "taxi_orientation", "fickle_step"),
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.classic_control.mountain_car:MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": ("state",),
    "gymnasium.wrappers.common:TimeLimit": ("_elapsed_steps",),
    "gymnasium.wrappers.common:OrderEnforcing": ("_has_reset", "_has_rendered"),
    "gymnasium.wrappers.common:PassiveEnvChecker": ("checked_reset", "checked_step", "checked_render", "close_called"),
    "perstep.environments.gym_env:FiniteMDPEnv": ("state",),
    "perstep.environments.pendulum:PendulumEnv": ("state",),
}


def _layers(env: Any) -> list[Any]:
    layers = [env]
    while hasattr(layers[-1], "env"):
        layers.append(layers[-1].env)
    return layers


def _attributes(layer: Any) -> tuple[str, ...] | None:
    return CHANGING.get(f"{type(layer).__module__}:{type(layer).__qualname__}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    return {"tuple": [_plain(v) for v in value]} if isinstance(value, tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return np.array(value["array"], dtype=value["dtype"])
        return tuple(_restored(v) for v in value["tuple"])
    return value


def snapshot(env: Any) -> dict[str, Any] | None:
    """Everything that changes in `env` and its wrappers, with its generator; None if some part of it is not known."""
    layers = []
    for layer in _layers(env):
        if (names := _attributes(layer)) is None:
            return None
        layers.append({name: _plain(getattr(layer, name)) for name in names if hasattr(layer, name)})
    taken = {"layers": layers, "generator": env.unwrapped.np_random.bit_generator.state}
    try:
        json.dumps(taken, allow_nan=False)
    except (TypeError, ValueError):  # a subclass keeps something else under a name we know
        return None
    return taken


def restore(env: Any, taken: dict[str, Any]) -> None:
    """Put `env` into a state taken by `snapshot` of the same kind of world."""
    layers = _layers(env)
    if len(layers) != len(taken["layers"]):
        raise ValueError(f"The world has {len(layers)} layers of wrappers, but {len(taken['layers'])} were saved.")
    for layer, values in zip(layers, taken["layers"], strict=True):
        known = _attributes(layer) or ()
        for name in known:
            if name in values:
                setattr(layer, name, _restored(values[name]))
    env.unwrapped.np_random.bit_generator.state = taken["generator"]
