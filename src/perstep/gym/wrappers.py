"""Worlds with episodes as continuing worlds: an end becomes a jump to the next start, and time limits are removed. Worlds that
follow a given policy, for its prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, final

import gymnasium
import numpy as np

from perstep.gym.world_state import TIME_LIMIT, kind
from perstep.inputs.checks import number

ENDLESS = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1")


@final
class Teleport(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Where the episode would terminate, the world jumps to the start of the next one, and `reset_cost` is subtracted.

    It never terminates. The observation of that step is the first one of the next episode, and `info["teleported"]` is True. A
    truncation is not an end of the task but a cut of the wrapper that caused it: remove it with `without_time_limit`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], reset_cost: float = 0.0) -> None:
        _refuse_vector(env)
        super().__init__(env)
        self.reset_cost = number("reset_cost", reset_cost, -math.inf, above=True)

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


@final
class FollowPolicy(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The world under a given policy: one action is left, "continue". An agent in it predicts instead of choosing.

    `policy`: a function of the observation that returns an action, or the probabilities of all actions if these are `Discrete`; or
    an agent. Chances are drawn from the generator of the world. So tiles and networks estimate the values, the average reward and
    the distributions of any policy, also one with continuous actions.
    """

    def __init__(self, env: gymnasium.Env[Any, Any] | str, policy: Any) -> None:
        made = gymnasium.make(env) if isinstance(env, str) else env
        _refuse_vector(made)
        if not isinstance(made, gymnasium.Env):
            raise TypeError(
                f"A world must be a Gymnasium environment or its id, got {type(made).__name__}. In a FiniteMDP, "
                "perstep.TDLearning(mdp, policy) predicts."
            )
        super().__init__(made)
        if callable(getattr(policy, "predict", None)):
            self._choose: Callable[[Any], Any] = lambda observation: policy.predict(observation, deterministic=True)[0]
        elif callable(policy):
            self._choose = policy
        else:
            raise TypeError(
                "policy must be a function of the observation that returns an action or the probabilities of the actions, or an "
                f"agent, got {type(policy).__name__}. For a table of actions write: lambda observation: table[observation]."
            )
        self.action_space = gymnasium.spaces.Discrete(1)
        self.observation: Any = None
        """The last observation, which the policy sees next."""

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """That of the registered world."""
        return self.env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start again."""
        self.observation, info = self.env.reset(seed=seed, options=options)
        return self.observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the policy; `action` is always 0."""
        self.observation, *rest = self.env.step(self._action())
        return self.observation, *rest

    def _action(self) -> Any:
        space, chosen = self.env.action_space, self._choose(self.observation)
        if isinstance(space, gymnasium.spaces.Discrete):
            if np.shape(chosen) == (space.n,):
                chances = np.asarray(chosen, np.float64)
                if not (np.all(chances >= 0.0) and abs(float(chances.sum()) - 1.0) < 1e-6):
                    raise ValueError(f"The policy must return probabilities, which have the sum 1, got {chances}.")
                drawn = np.searchsorted(np.cumsum(chances), self.unwrapped.np_random.random(), side="right")
                return int(space.start) + min(int(drawn), int(np.flatnonzero(chances)[-1]))
            if isinstance(chosen, Real | np.ndarray) and np.ndim(chosen) == 0 and float(chosen).is_integer():  # type: ignore[arg-type]
                chosen = int(float(chosen))
        if not space.contains(chosen):
            hint = " If it is the predict of an agent, give the agent itself." if isinstance(chosen, tuple) else ""
            raise ValueError(f"The policy must return an action of {space}, got {chosen!r}.{hint}")
        return chosen


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
            "gymnasium.make_vec(id, num_envs, vectorization_mode='sync', wrappers=[perstep.gym.endless]), or 'async'."
        )


def endless_env(name: str, reset_cost: float, **settings: Any) -> gymnasium.Env[Any, Any]:
    """perstep/CartPole-v0, perstep/MountainCar-v0 and perstep/Acrobot-v0"""
    if name not in ENDLESS:  # also since "module:id" would import a module, and a file may give the name
        raise ValueError(
            f"name must be one of {', '.join(ENDLESS)}, got {name!r}. For others: environments.endless(env)."
        )
    return Teleport(gymnasium.make(name, **settings).unwrapped, reset_cost)
