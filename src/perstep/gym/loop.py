"""The loop of any agent in any Gymnasium environment, in plain Python."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perstep.gym.answers import first_observation, whole_step
from perstep.gym.behaviour import Ends, finite, see
from perstep.gym.world_state import fingerprint, kinds
from perstep.system.budget import claim


class Hooks(Protocol):
    """What the plain loop asks of an agent. A point is an observation in the form that the agent's learner reads."""

    def read(self, observation: Any) -> Any:
        """The point of an observation."""

    def act(self, point: Any) -> Any:
        """An action for the world at this point, chosen as the agent behaves while it learns."""

    def learn_then_act(self, point: Any, action: Any, reward: float, next_point: Any, masked: bool, resume: Any) -> Any:
        """Learn from one transition, then act at the point `resume` where the world goes on."""

    def note_end(self, episode_return: float) -> None:
        """An episode ends with the transition that is learnt next."""


class GymnasiumWorld:
    """A Gymnasium environment that one agent learns in, and where it is."""

    def __init__(self, env: Any, ends: Ends, seed: int) -> None:
        self.env = env
        self.ends = ends
        self.first_seed = seed
        self.seed: int | None = seed  # of the next reset: only the first one gets a seed
        self.point: Any = None  # where the agent is; None before the first reset
        self.action: Any = None  # chosen there and not yet taken
        self.episode_return = 0.0  # sum of the rewards since the last reset
        self._left_as: int | None = None  # the world's fingerprint after the agent's last step

    def reset(self) -> Any:
        """The first observation of an episode."""
        observation = first_observation(self.env, self.seed)
        self.seed, self.episode_return = None, 0.0
        return observation

    def learn(self, hooks: Hooks, clock: int, num_steps: int) -> None:
        """Learn from `num_steps` transitions. An end is an ordinary transition to the next start; a truncation is none."""
        if self.point is not None and moved(self.env, self._left_as):
            self.point = self.action = None
        try:
            self._learn(hooks, clock, num_steps)
        finally:
            self._left_as = fingerprint(self.env)

    def _learn(self, hooks: Hooks, clock: int, num_steps: int) -> None:
        if self.point is None:
            self.point = hooks.read(self.reset())
            self.action = None
        if self.action is None:
            self.action = hooks.act(self.point)
        for moment in range(clock, clock + num_steps):
            try:
                observation, reward, terminated, truncated, _ = whole_step(self.env.step(self.action))
                reward = finite(reward, moment)
                next_point = resume = hooks.read(observation)
                self.episode_return += reward
                ended_with = self.episode_return
                if terminated or truncated:
                    hooks.note_end(self.episode_return)
                    if not terminated:
                        next_point = copy.copy(next_point)  # a world may write its next start to the same memory
                    resume = hooks.read(self.reset())
                see(self.ends.known, reward, bool(terminated), ended_with)
                if terminated:
                    reward -= self.ends.reset_cost
                    next_point = resume
                masked = bool(terminated) and self.ends.mask
                action = hooks.learn_then_act(self.point, self.action, reward, next_point, masked, resume)
            except BaseException:  # the world has moved on and the agent has not: both continue from a reset
                self.point = self.action = None
                raise
            self.point, self.action = resume, action

    def _made_again(self) -> Any:
        """Another world of this kind, made from its spec; None where there is none, or it does not tell all."""
        import gymnasium

        try:
            made = gymnasium.make(self.env.spec)
            return next(env for env in (made, made.unwrapped) if kinds(env) == kinds(self.env))
        except (gymnasium.error.Error, AttributeError, StopIteration, TypeError, ValueError):
            return None

    def _copy(self, seed: int | None) -> Any:
        """A copy of the world with all its parts; the world itself where that cannot be had, as with a window or an open file.

        Generators that `reset` does not seed would be the same in every copy: they are seeded here.
        """
        try:
            copied = copy.deepcopy(self.env)
        except Exception:  # whatever the parts of somebody's world say to this
            return self.env
        layer, number = copied, self.first_seed if seed is None else seed
        while layer is not None:
            parts = getattr(layer, "__dict__", {})
            for part in parts.values():
                if isinstance(part, np.random.Generator):
                    part.bit_generator.state = type(part.bit_generator)(number).state
                elif hasattr(part, "random") and hasattr(part, "seed"):  # generators of older kinds
                    part.seed(number % 2**32)
            layer = parts.get("env")
        return copied

    def follow(
        self, choose: Callable[[Any], Any], num_steps: int, seed: int | None, *, in_copy: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Take a budget of steps without learning, in a copy of the world if one can be made (otherwise learning continues from a
        fresh reset). Returns all rewards, reset costs subtracted, and the returns of the episodes that ended."""
        made = self._made_again() if in_copy else None
        env = made if made is not None else self._copy(seed) if in_copy else self.env
        if env is self.env:  # whatever happens below, learning continues from a reset
            self.point = self.action = None
        claim(8 * num_steps, f"an evaluation of {num_steps:,} steps", "Choose fewer steps.")
        rewards, returns, episode = np.zeros(num_steps), [], 0.0
        observation = first_observation(env, self.first_seed if seed is None else seed)
        for moment in range(num_steps):
            observation, reward, terminated, truncated, _ = whole_step(env.step(choose(observation)))
            value = finite(reward, moment)
            episode += value
            rewards[moment] = value - (self.ends.reset_cost if terminated else 0.0)
            if terminated or truncated:
                returns.append(episode)
                episode = 0.0
                observation = first_observation(env, None)
        if made is not None:
            made.close()  # a copy is not: what it closes may be the agent's own
        return rewards, np.array(returns)


def moved(env: Any, left_as: int | None) -> bool:
    """Whether a world is no longer as an agent left it, which the caller of `learn` is told."""
    if left_as is None or fingerprint(env) == left_as:
        return False
    warnings.warn(
        "The world has moved since this agent's last step: another agent, or a call of env.reset or env.step, has used it. "
        "Learning continues from a fresh reset. Give every agent a world of its own.",
        stacklevel=6,
    )
    return True
