"""The state of a Gymnasium world as plain JSON, for checkpoints: only for worlds whose whole state is known to be in it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

TIME_LIMIT = "gymnasium.wrappers.common:TimeLimit"

# Attributes that change as the world goes on, by the class that has them. A class that is not here has no known state.
CHANGING: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.taxi:TaxiEnv": ("s", "lastaction", "taxi_orientation", "fickle_step"),
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.classic_control.mountain_car:MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": ("state",),
    TIME_LIMIT: ("_elapsed_steps",),
    "perstep.environments.gym_env:FiniteMDPEnv": ("state",),
    "perstep.environments.pendulum:PendulumEnv": ("state",),
    "perstep.environments.minatar:MinAtarEnv": ("state",),
    "perstep.environments.atari:AtariEnv": ("state",),
}


# Wrappers that only watch: they change neither states nor rewards, and after a reset they have nothing to remember.
WATCHING = ("gymnasium.wrappers.common:OrderEnforcing", "gymnasium.wrappers.common:PassiveEnvChecker")


def kind(layer: Any) -> str:
    """The class of a world or wrapper, as a name."""
    return f"{type(layer).__module__}:{type(layer).__qualname__}"


def layers_of(env: Any) -> list[Any]:
    """The wrappers of a world from the outermost, and the world itself at the end; without those that only watch."""
    layers = [env]
    while hasattr(layers[-1], "env"):
        layers.append(layers[-1].env)
    return [layer for layer in layers if kind(layer) not in WATCHING]


def kinds(env: Any) -> list[str]:
    """The classes of a world and its wrappers, from the outermost, but for those that only watch."""
    return [kind(layer) for layer in layers_of(env)]


def time_limit(env: Any) -> int | None:
    """The steps after which a wrapper cuts an episode short, whatever the world's spec says; None where none does."""
    limits = [layer._max_episode_steps for layer in layers_of(env) if kind(layer) == TIME_LIMIT]
    return int(limits[0]) if limits else None


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
                raise ValueError(f"an array of {dtype}, which is no number")
            return np.array(value["array"], dtype)
        return tuple(_restored(v) for v in value["tuple"])
    return value


def snapshot(env: Any) -> dict[str, Any] | None:
    """Everything that changes in `env` and its wrappers, with its generator; None if some part of it is not known."""
    layers = []
    for layer in layers_of(env):
        if (names := CHANGING.get(kind(layer))) is None:
            return None
        values = {name: _plain(getattr(layer, name)) for name in names if hasattr(layer, name)}
        layers.append({"kind": kind(layer), "values": values})
    taken = {"layers": layers, "generator": env.unwrapped.np_random.bit_generator.state}
    try:
        json.dumps(taken, allow_nan=False)
    except (TypeError, ValueError):  # a subclass keeps something else under a name we know
        return None
    return taken


def restore(env: Any, taken: dict[str, Any]) -> bool:
    """Put `env` into a state taken by `snapshot`, if it is the same kind of world in the same wrappers; says whether it is."""
    layers = layers_of(env)
    if kinds(env) != [saved["kind"] for saved in taken["layers"]]:
        return False
    for layer, saved in zip(layers, taken["layers"], strict=True):
        for name in CHANGING.get(kind(layer), ()):
            if name in saved["values"]:
                setattr(layer, name, _restored(saved["values"][name]))
    env.unwrapped.np_random.bit_generator.state = taken["generator"]
    return True
