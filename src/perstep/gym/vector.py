"""The loop of an agent in several environments at once: a Gymnasium vector environment, in any autoreset mode.

Gymnasium's modes differ in what a step returns when an episode has ended. Here they become one: each step gives one transition
(S, A, R, S′) per environment. S′ is the first state of the next episode if this one terminated, and the true last state if it was
truncated. The extra step that NEXT_STEP inserts to report the next start is not a transition: it completes the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from perstep.gym.behaviour import Ends, finite, see
from perstep.gym.loop import moved
from perstep.gym.spaces import Actions
from perstep.gym.world_state import fingerprint
from perstep.system.budget import claim

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"


class Transition(NamedTuple):
    """What happened in one environment."""

    env: int
    action: Any
    """As the learner knows it: a number from 0, or a vector."""
    reward: float
    """As the environment gives it."""
    episode_return: float
    """The sum of the rewards of the episode up to here."""
    next_point: Any
    """S′: the first state of the next episode if this one terminated, otherwise the state that the step led to."""
    terminated: bool
    masked: bool
    """Whether the value of S′ counts as 0."""
    resume: Any
    """Where the environment continues: `next_point` itself, unless the episode was truncated."""

    @property
    def ends(self) -> bool:
        """Whether the episode terminated or was truncated."""
        return self.terminated or self.resume is not self.next_point


class Outcome(NamedTuple):
    """What a step of the vector environment returned, one entry per environment."""

    points: NDArray[Any]  # (E, *shape)
    actions: NDArray[Any]
    rewards: list[float]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class VectorHooks(Protocol):
    """What the loop asks of an agent. A point is an observation in the form that the agent's learner reads."""

    def read(self, observation: Any) -> NDArray[Any]:
        """The points of a batch of observations."""

    def begin(self, env: int, point: NDArray[Any]) -> None:
        """An environment is at its first point."""

    def learn_from(self, transition: Transition) -> None:
        """Learn from one transition."""

    def note_end(self, episode_return: float) -> None:
        """An episode ends with the transition that is learnt next."""

    def act_at(self, points: NDArray[Any]) -> NDArray[Any]:
        """Actions for all environments, as the learner knows them."""


@final
class VectorWorld:
    """A vector environment that one agent learns in, and where it is."""

    def __init__(self, env: Any, ends: Ends, seed: int, actions: Actions) -> None:
        self.env = env
        self.num_envs = int(env.num_envs)
        self.mode = autoreset_mode(env)
        self._actions = actions
        self.ends = ends
        self.first_seed = seed
        self.seed: int | None = seed  # of the first reset for learning only
        self.points: NDArray[Any] | None = None  # where the environments are, (E, *shape); None before the first reset
        self._left_as: int | None = None  # the fingerprint of the environments after the agent's last step
        self._returns = np.zeros(self.num_envs)  # sums of the rewards since the last resets
        # For NEXT_STEP: which episodes ended in the last step, and their last transitions, which wait for the next start.
        self._over = np.zeros(self.num_envs, np.bool_)
        self._waiting: dict[int, Transition] = {}

    def learn(self, hooks: VectorHooks, clock: int, num_steps: int) -> None:
        """Learn from at least `num_steps` transitions, in whole steps of all environments."""
        if self.points is not None and moved(self.env, self._left_as):
            self.points = None
        try:
            self._learn(hooks, clock, num_steps)
        finally:
            self._left_as = fingerprint(self.env)

    def _learn(self, hooks: VectorHooks, clock: int, num_steps: int) -> None:
        if self.points is None:
            self.points = hooks.read(self.reset(self.seed))
            self.seed = None
            for env, point in enumerate(self.points):
                hooks.begin(env, point)
        learnt = 0
        try:
            while learnt < num_steps:
                for transition in self.step(hooks.read, hooks.act_at(self.points), clock + learnt):
                    see(self.ends.known, transition.reward, transition.terminated, transition.episode_return)
                    if transition.ends:
                        hooks.note_end(transition.episode_return)
                    hooks.learn_from(self._with_cost(transition))
                    learnt += 1
        except BaseException:  # some environments have moved on and the agent has not: all continue from a reset
            self.points = None
            raise

    def follow(
        self, read: Callable[[Any], NDArray[Any]], act: Callable[[NDArray[Any]], NDArray[Any]], num_steps: int,
        seed: int | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
        """Take a budget of steps without learning; learning then continues from a fresh reset. Returns all rewards, reset costs
        subtracted, and the returns of the episodes that ended."""
        claim(8 * num_steps, f"an evaluation of {num_steps:,} steps", "Choose fewer steps.")
        rewards, returns = np.zeros(num_steps), []
        points = np.array(read(self.reset(self.first_seed if seed is None else seed)))
        moment = 0
        try:
            while moment < num_steps:
                for transition in self.step(read, act(points), moment):
                    if moment == num_steps:  # the budget ends within a step of all environments
                        continue
                    rewards[moment] = self._with_cost(transition).reward
                    moment += 1
                    if transition.ends:
                        returns.append(transition.episode_return)
                assert self.points is not None
                points = self.points
        finally:  # whatever happens above, learning continues from a reset
            self.points = None
        return rewards, np.array(returns)

    def _with_cost(self, transition: Transition) -> Transition:
        """The transition with what an end costs now subtracted from its reward, if it is one."""
        cost = self.ends.reset_cost if transition.terminated else 0.0
        return transition._replace(reward=transition.reward - cost)

    def reset(self, seed: int | None) -> Any:
        """The first observations of all environments."""
        observations, _ = self.env.reset(seed=seed)
        self._over[:] = False
        self._returns[:] = 0.0
        self._waiting.clear()
        return observations

    def step(self, read: Callable[[Any], NDArray[Any]], actions: NDArray[Any], moment: int) -> Iterator[Transition]:
        """One step of all environments: the transitions that it completes, in order. `self.points` moves along."""
        try:
            observations, given, terminated, truncated, info = self.env.step(self._actions.points(actions))
        except (EOFError, BrokenPipeError, ConnectionError) as error:  # of the pipe to the process of an environment
            raise RuntimeError(
                f"The process of one of the {actions.size} environments ended at step {moment}, by an error of its world or for "
                "lack of memory. The agent is as it was before this step; make the vector environment anew to go on learning."
            ) from error
        points = np.array(read(observations))  # a copy: environments may write the next step to the same memory
        rewards = [finite(reward, moment) for reward in given]
        outcome = Outcome(points, actions, rewards, np.array(terminated, np.bool_), np.array(truncated, np.bool_))
        self.points = points
        if self.mode == NEXT_STEP:
            return self._complete_late(outcome)
        last = points
        if (over := outcome.terminated | outcome.truncated).any():
            last = points.copy()
            if self.mode == SAME_STEP:
                for env in np.flatnonzero(over):
                    last[env] = read(true_last(info, int(env)))
            else:
                fresh, _ = self.env.reset(options={"reset_mask": over})
                points[over] = np.asarray(read(fresh))[over]
        return self._complete_now(outcome, last)

    def _complete_now(self, outcome: Outcome, last: NDArray[Any]) -> Iterator[Transition]:
        """SAME_STEP and DISABLED: the environments continue at `outcome.points`; the step led to `last`."""
        for env, resume in enumerate(outcome.points):
            cut = outcome.truncated[env] and not outcome.terminated[env]
            yield self._transition(outcome, env, last[env] if cut else resume, resume)

    def _complete_late(self, outcome: Outcome) -> Iterator[Transition]:
        """NEXT_STEP: the step after an end is an extra one; its observation is the next state of the last transition."""
        was_over, self._over = self._over, outcome.terminated | outcome.truncated
        for env, point in enumerate(outcome.points):
            if was_over[env]:
                self._over[env] = False
                if (waiting := self._waiting.pop(env, None)) is not None:
                    following = point if waiting.next_point is None else waiting.next_point
                    yield waiting._replace(next_point=following, resume=point)
            elif outcome.terminated[env]:
                self._waiting[env] = self._transition(outcome, env, None, None)
            elif outcome.truncated[env]:
                self._waiting[env] = self._transition(outcome, env, point, None)
            else:
                yield self._transition(outcome, env, point, point)

    def _transition(self, outcome: Outcome, env: int, next_point: Any, resume: Any) -> Transition:
        action, reward, terminated = outcome.actions[env], outcome.rewards[env], bool(outcome.terminated[env])
        self._returns[env] += reward
        episode_return = float(self._returns[env])
        if terminated or outcome.truncated[env]:
            self._returns[env] = 0.0
        masked = terminated and self.ends.mask
        return Transition(env, action, reward, episode_return, next_point, terminated, masked, resume)


def is_vector(env: Any) -> bool:
    """Whether this is a vector environment of Gymnasium."""
    from gymnasium.vector import VectorEnv

    return isinstance(env, VectorEnv)


def autoreset_mode(env: Any) -> str:
    """How a vector environment treats the ends of episodes, as it says itself."""
    mode = (env.metadata or {}).get("autoreset_mode")
    value = str(getattr(mode, "value", mode))
    if value not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            f"The autoreset mode of a vector environment must be one of gymnasium.vector.AutoresetMode, got {mode!r}. Without "
            "it, the extra steps after the ends of episodes cannot be recognized. Set env.metadata['autoreset_mode']."
        )
    return value


def true_last(info: dict[str, Any], env: int) -> Any:
    """The observation that a step led to, where the environment has already been reset."""
    if "final_obs" not in info:
        raise RuntimeError(
            "The vector environment resets within the step, but info['final_obs'] is missing, so the true last observation is "
            "unknown. Use another autoreset mode."
        )
    return info["final_obs"][env]
