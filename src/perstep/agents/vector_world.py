"""The paper's `while still time to train` in several environments at once: a Gymnasium vector environment, in any autoreset mode.

Gymnasium's modes differ in what a step returns when an episode has ended. Here they are made one: a transition (S, A, R, S′) an
environment a step, whose S′ is the first state of the next episode if this one terminated and the true last one if it was
truncated. The step that NEXT_STEP makes up to say where the next episode starts is no transition: it completes the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from perstep.interaction import finite

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"


class Transition(NamedTuple):
    """What happened in one environment."""

    env: int
    action: int
    """As a number from 0."""
    reward: float
    """Less the cost of a reset."""
    next_point: Any
    """S′: the first state of the next episode if this one terminated, otherwise what the step led to."""
    terminated: bool
    resume: Any
    """Where the environment goes on: `next_point` itself, unless that was cut off."""

    @property
    def ends(self) -> bool:
        """Whether the episode was over, or cut off."""
        return self.terminated or self.resume is not self.next_point


class Outcome(NamedTuple):
    """What a step of the vector environment returned, an entry an environment."""

    points: NDArray[Any]  # (E, *shape)
    actions: NDArray[np.int64]
    rewards: list[float]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class VectorLearner(Protocol):
    """What the loop asks of an agent; points are observations as the agent's learner reads them."""

    def read(self, observation: Any) -> NDArray[Any]:
        """The points for a batch of observations."""

    def begin(self, env: int, point: NDArray[Any]) -> None:
        """An environment is at its first point."""

    def learn_from(self, transition: Transition) -> None:
        """Learn from one transition."""

    def note_end(self, episode_return: float) -> None:
        """An episode ends with the transition that is learnt from next."""

    def act_at(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """Actions for all environments, as numbers from 0."""


@final
class VectorWorld:
    """A vector environment in the middle of its life with one agent."""

    def __init__(self, env: Any, reset_cost: float, seed: int) -> None:
        self.env = env
        self.num_envs = int(env.num_envs)
        self.mode = autoreset_mode(env)
        self.reset_cost = reset_cost
        self.first_seed = seed
        self.seed: int | None = seed  # of the first reset for learning only
        self.points: NDArray[Any] | None = None  # where the environments are, (E, *shape); None before the first reset
        self._returns = np.zeros(self.num_envs)  # sums of the rewards since the last resets
        # Of NEXT_STEP: who ended in the last step, and what is not yet told of it because the next start is not known.
        self._over = np.zeros(self.num_envs, np.bool_)
        self._untold: dict[int, Transition] = {}

    def learn(self, learner: VectorLearner, clock: int, num_steps: int) -> None:
        """At least `num_steps` transitions, and no half step of the environments."""
        if self.points is None:
            self.points = learner.read(self.reset(self.seed))
            self.seed = None
            for env, point in enumerate(self.points):
                learner.begin(env, point)
        told = 0
        try:
            while told < num_steps:
                for transition in self.step(learner.read, learner.act_at(self.points), clock + told):
                    if (episode_return := self._ended(transition)) is not None:
                        learner.note_end(episode_return)
                    learner.learn_from(transition)
                    told += 1
        except BaseException:  # some environments have moved on and the agent has not: they meet again at a reset
            self.points = None
            raise

    def follow(
        self, read: Callable[[Any], NDArray[Any]], act: Callable[[NDArray[Any]], NDArray[np.int64]], num_steps: int,
        seed: int | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
        """Take a budget of steps without learning, after which learning goes on from a fresh reset; returns all rewards, less
        the cost of resets, and the returns of the episodes that ended."""
        rewards, returns = np.zeros(num_steps), []
        points = np.array(read(self.reset(self.first_seed if seed is None else seed)))
        moment = 0
        try:
            while moment < num_steps:
                for transition in self.step(read, act(points), moment):
                    episode_return = self._ended(transition)
                    if moment == num_steps:  # the budget ends within a step of all environments
                        continue
                    rewards[moment] = transition.reward
                    moment += 1
                    if episode_return is not None:
                        returns.append(episode_return)
                assert self.points is not None
                points = self.points
        finally:  # whatever happens above, learning goes on from a reset
            self.points = None
        return rewards, np.array(returns)

    def _ended(self, transition: Transition) -> float | None:
        """The return of an episode, without the cost of the reset, if it ends here."""
        env = transition.env
        self._returns[env] += transition.reward + (self.reset_cost if transition.terminated else 0.0)
        if not transition.ends:
            return None
        episode_return, self._returns[env] = float(self._returns[env]), 0.0
        return episode_return

    def reset(self, seed: int | None) -> Any:
        """The first observations of all environments."""
        observations, _ = self.env.reset(seed=seed)
        self._over[:] = False
        self._returns[:] = 0.0
        self._untold.clear()
        return observations

    def step(
        self, read: Callable[[Any], NDArray[Any]], actions: NDArray[np.int64], moment: int
    ) -> Iterator[Transition]:
        """One step of all environments: the transitions that it completes, in their order. `self.points` moves along."""
        start = int(getattr(self.env.single_action_space, "start", 0))
        observations, given, terminated, truncated, info = self.env.step(actions + start)
        points = np.array(read(observations))  # a copy: environments may write the next step to the same memory
        costs = np.where(terminated, self.reset_cost, 0.0)
        rewards = [finite(reward, moment) - cost for reward, cost in zip(given, costs, strict=True)]
        outcome = Outcome(points, actions, rewards, np.array(terminated, np.bool_), np.array(truncated, np.bool_))
        self.points = points
        if self.mode == NEXT_STEP:
            return self._told_late(outcome)
        last = points
        if (over := outcome.terminated | outcome.truncated).any():
            last = points.copy()
            if self.mode == SAME_STEP:
                for env in np.flatnonzero(over):
                    last[env] = read(true_last(info, int(env)))
            else:
                fresh, _ = self.env.reset(options={"reset_mask": over})
                points[over] = np.asarray(read(fresh))[over]
        return self._told_at_once(outcome, last)

    def _told_at_once(self, outcome: Outcome, last: NDArray[Any]) -> Iterator[Transition]:
        """SAME_STEP and DISABLED: `outcome.points` are where the environments go on, `last` what the step led to."""
        for env, resume in enumerate(outcome.points):
            cut = outcome.truncated[env] and not outcome.terminated[env]
            yield self._transition(outcome, env, last[env] if cut else resume, resume)

    def _told_late(self, outcome: Outcome) -> Iterator[Transition]:
        """NEXT_STEP: after an end the next step is made up; its observation is where the last transition goes on."""
        was_over, self._over = self._over, outcome.terminated | outcome.truncated
        for env, point in enumerate(outcome.points):
            if was_over[env]:
                self._over[env] = False
                if (untold := self._untold.pop(env, None)) is not None:
                    following = point if untold.next_point is None else untold.next_point
                    yield untold._replace(next_point=following, resume=point)
            elif outcome.terminated[env]:
                self._untold[env] = self._transition(outcome, env, None, None)
            elif outcome.truncated[env]:
                self._untold[env] = self._transition(outcome, env, point, None)
            else:
                yield self._transition(outcome, env, point, point)

    def _transition(self, outcome: Outcome, env: int, next_point: Any, resume: Any) -> Transition:
        action, reward, terminated = outcome.actions[env], outcome.rewards[env], outcome.terminated[env]
        return Transition(env, int(action), reward, next_point, bool(terminated), resume)


def is_vector(env: Any) -> bool:
    """Whether this is a vector environment of Gymnasium."""
    from gymnasium.vector import VectorEnv

    return isinstance(env, VectorEnv)


def autoreset_mode(env: Any) -> str:
    """How a vector environment says that it treats the ends of episodes."""
    mode = (env.metadata or {}).get("autoreset_mode")
    value = str(getattr(mode, "value", mode))
    if value not in (NEXT_STEP, SAME_STEP, DISABLED):
        raise ValueError(
            f"The vector environment says {mode!r} of its autoreset mode, but one of gymnasium.vector.AutoresetMode is needed: "
            "without it the ends of episodes cannot be told from made-up steps. Set env.metadata['autoreset_mode']."
        )
    return value


def true_last(info: dict[str, Any], env: int) -> Any:
    """The observation that a step led to, where the environment has already been reset."""
    if "final_obs" not in info:
        raise RuntimeError(
            "The vector environment says that it resets within the step, but info['final_obs'] is not there, so the true last "
            "observation is unknown. Use another autoreset mode."
        )
    return info["final_obs"][env]
