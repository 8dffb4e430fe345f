"""Worlds with episodes as continuing worlds: an end becomes a jump to the next start, and time limits are removed."""

from __future__ import annotations

from typing import Any, final

import gymnasium

from perstep.environments.world_state import TIME_LIMIT, kind


@final
class Teleport(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Where the episode would terminate, the world jumps to the start of the next one, and `reset_cost` is subtracted.

    It never terminates. The observation of that step is the first one of the next episode, and `info["teleported"]` is True. A
    truncation is not an end of the task but a cut of the wrapper that caused it: remove it with `without_time_limit`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], reset_cost: float = 0.0) -> None:
        _refuse_vector(env)
        super().__init__(env)
        self.reset_cost = float(reset_cost)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """That of the registered world."""
        return self.env.spec

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step; at an end, also the reset."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated:
            reward = float(reward) - self.reset_cost
            observation, _ = self.env.reset()
            info = {**info, "teleported": True}
        return observation, reward, False, truncated and not terminated, info


def without_time_limit(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The same environment with every TimeLimit wrapper taken out; the other wrappers stay."""
    _refuse_vector(env)
    while kind(env) == TIME_LIMIT:
        env = env.env  # type: ignore[attr-defined]
    layer: Any = env
    while hasattr(layer, "env"):
        while kind(layer.env) == TIME_LIMIT:
            layer.env = layer.env.env
        layer = layer.env
    return env


def endless(env: gymnasium.Env[Any, Any] | str, reset_cost: float = 0.0) -> gymnasium.Env[Any, Any]:
    """An environment with episodes (or its id) as a continuing world: no time limit, and `Teleport` instead of ends.

    For a vector of them: `gymnasium.make_vec(id, num_envs, vectorization_mode="sync", wrappers=[endless])`.
    """
    made = gymnasium.make(env) if isinstance(env, str) else env
    return Teleport(without_time_limit(made), reset_cost)


def _refuse_vector(env: Any) -> None:
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(
            "The environments inside a vector have to be wrapped one by one, got the vector. Make it with "
            "gymnasium.make_vec(id, num_envs, vectorization_mode='sync', wrappers=[perstep.environments.endless]), or 'async'."
        )


def endless_env(name: str, reset_cost: float, **settings: Any) -> gymnasium.Env[Any, Any]:
    """perstep/CartPole-v0, perstep/MountainCar-v0 and perstep/Acrobot-v0"""
    return Teleport(gymnasium.make(name, **settings).unwrapped, reset_cost)
