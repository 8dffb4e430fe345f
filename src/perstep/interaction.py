"""The paper's `while still time to train`: the one place where a learner meets a world.

Two loops call the same learners: a compiled one for finite MDPs, and a plain one for any Gymnasium environment.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from perstep import linear, tabular
from perstep.compiled import compiled, inlined
from perstep.environments import pendulum
from perstep.environments.finite_world import start, step
from perstep.environments.world_state import kinds
from perstep.randomness import draw, uniform
from perstep.recording import note
from perstep.tiles import active_tiles


class BadReward(ValueError):
    """A reward that no estimate can learn from."""


class Behaviour(NamedTuple):
    """How actions are chosen: ε-greedily by Q, by fixed probabilities in TD."""

    epsilon: float
    policy: NDArray[np.float64]  # (S, A), the probabilities; (0, 0) for Q


class Span(NamedTuple):
    """A stretch of a compiled run: where it is, for how long it goes on."""

    state: int
    clock: int  # steps taken before this stretch
    num_steps: int


@inlined
def act(learner: Any, behaviour: Any, run: Any, state: Any, generator: Any) -> Any:
    """`A ← action given by π for S`."""
    if learner == tabular.TD:
        return draw(behaviour.policy[state], generator)
    return tabular.epsilon_greedy(run.table.means[state], behaviour.epsilon, generator)


@inlined
def learn_from(learner: Any, rule: Any, run: Any, record: Any, clock: Any, state: Any, action: Any, reward: Any,
               next_state: Any, masked: Any) -> None:  # fmt: skip
    """One transition: the learner moves its estimates, the record takes it down."""
    if learner == tabular.TD:
        tabular.td_learning(rule, run, clock, state, reward, next_state, masked)
    else:
        tabular.q_learning(rule, run, clock, state, action, reward, next_state, masked)
    note(record, reward, run.rewards)


@compiled
def learn_in_mdp(
    learner: Any, rule: Any, world: Any, behaviour: Any, run: Any, record: Any, generator: Any, span: Any
) -> Any:
    """Learn for a stretch in a finite MDP; returns the state it ends in."""
    state = span.state
    for t in range(span.num_steps):
        action = act(learner, behaviour, run, state, generator)
        reward, next_state = step(world, state, action, generator)
        learn_from(learner, rule, run, record, span.clock + t, state, action, reward, next_state, False)
        state = next_state
    return state


@compiled
def learn_then_act(learner: Any, rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any,
                   state: Any, action: Any, reward: Any, next_state: Any, masked: Any, resume_state: Any) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, in one trip to compiled code."""
    learn_from(learner, rule, run, record, clock, state, action, reward, next_state, masked)
    return act(learner, behaviour, run, resume_state, generator)


@compiled
def keep(t: Any, num_steps: Any, reward: Any, kept: Any, picker: Any) -> None:
    """Keep one reward of every so many, so that all fit: any of them alike, since a fixed one could beat time with the world."""
    every = (num_steps + kept.shape[0] - 1) // kept.shape[0]
    if every == 1 or t % every == 0 or uniform(picker) * (t % every + 1) < 1.0:
        kept[t // every] = reward


@compiled
def follow_in_mdp(world: Any, policy: Any, generator: Any, picker: Any, num_steps: Any, kept: Any) -> Any:
    """Follow fixed probabilities without learning; sums all rewards and keeps as many as fit."""
    state = start(world, generator)
    total = 0.0
    for t in range(num_steps):
        reward, state = step(world, state, draw(policy[state], generator), generator)
        total += reward
        keep(t, num_steps, reward, kept, picker)
    return total


@compiled
def choose_at(run: Any, generator: Any) -> Any:
    """`A ∼ π(·|S, u)` where an actor-critic stands."""
    linear.softmax_policy(run)
    return draw(run.room.chances, generator)


@compiled
def stand_at(run: Any, point: Any) -> None:
    """Put an actor-critic at a point."""
    linear.enter(run, point)


@compiled
def learn_in_pendulum(
    rule: Any, parameters: Any, run: Any, record: Any, generator: Any, state: Any, clock: Any, num_steps: Any
) -> None:
    """Learn for a stretch with a pendulum; `state` (2,) moves along."""
    for t in range(clock, clock + num_steps):
        linear.softmax_policy(run)
        action = draw(run.room.chances, generator)
        reward, _ = pendulum.step(parameters, state, action, state)
        linear.actor_critic(rule, run, t, action, reward, state, False)
        note(record, reward, run.rewards)


@compiled
def learn_on_tiles_then_act(
    rule: Any, run: Any, record: Any, generator: Any, clock: Any, action: Any, reward: Any, next_point: Any, masked: Any,
    jumps: Any, resume: Any,
) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, at `resume` if the world jumps there."""
    linear.actor_critic(rule, run, clock, action, reward, next_point, masked)
    note(record, reward, run.rewards)
    if jumps:
        linear.enter(run, resume)
    linear.softmax_policy(run)
    return draw(run.room.chances, generator)


@compiled
def follow_in_pendulum(
    parameters: Any, run: Any, generator: Any, picker: Any, state: Any, num_steps: Any, deterministic: Any, kept: Any
) -> Any:
    """As follow_in_mdp, with a pendulum and the policy of an actor-critic."""
    total = 0.0
    for t in range(num_steps):
        active_tiles(run.tiling, state, run.weights.active)
        linear.softmax_policy(run)
        chances = run.room.chances
        action = tabular.greedy(chances) if deterministic else draw(chances, generator)
        reward, _ = pendulum.step(parameters, state, action, state)
        total += reward
        keep(t, num_steps, reward, kept, picker)
    return total


class Learner(Protocol):
    """What the plain loop asks of an agent; a point is an observation as the agent's learner reads it."""

    def read(self, observation: Any) -> Any:
        """The point for an observation of the world."""

    def act(self, point: Any) -> Any:
        """An action for the world at this point, chosen as the agent behaves while it learns."""

    def learn_then_act(self, point: Any, action: Any, reward: float, next_point: Any, masked: bool, resume: Any) -> Any:
        """Learn from one transition, then act at the point where the world goes on."""

    def note_end(self, episode_return: float) -> None:
        """An episode ends with the transition that is learnt from next."""


class GymnasiumWorld:
    """A Gymnasium environment in the middle of its life with one agent."""

    def __init__(self, env: Any, termination: str, reset_cost: float, seed: int) -> None:
        self.env = env
        self.mask = termination == "mask"
        self.reset_cost = reset_cost
        self.first_seed = seed
        self.seed: int | None = seed  # of the next reset: the first has one, the others go on from there
        self.point: Any = None  # where the agent is; None before the first reset
        self.action: Any = None  # chosen there and not yet taken
        self.episode_return = 0.0  # sum of the rewards since the last reset

    def reset(self) -> Any:
        """The first observation of an episode."""
        observation, _ = self.env.reset(seed=self.seed)
        self.seed, self.episode_return = None, 0.0
        return observation

    def learn(self, learner: Learner, clock: int, num_steps: int) -> None:
        """`num_steps` transitions. An end is an ordinary transition to the next start, a truncation is no transition."""
        if self.point is None:
            self.point = learner.read(self.reset())
            self.action = None
        if self.action is None:
            self.action = learner.act(self.point)
        for moment in range(clock, clock + num_steps):
            try:
                observation, reward, terminated, truncated, _ = self.env.step(self.action)
                reward = finite(reward, moment)
                next_point = resume = learner.read(observation)
                self.episode_return += reward
                if terminated or truncated:
                    learner.note_end(self.episode_return)
                    if not terminated:
                        next_point = copy.copy(next_point)  # a world may write its next start to the same memory
                    resume = learner.read(self.reset())
                if terminated:
                    reward -= self.reset_cost
                    next_point = resume
                masked = bool(terminated) and self.mask
                action = learner.learn_then_act(self.point, self.action, reward, next_point, masked, resume)
            except BaseException:  # the world has moved on and the agent has not: they meet again at a reset
                self.point = self.action = None
                raise
            self.point, self.action = resume, action

    def _copy(self) -> Any:
        """Another environment made as this one was; None where that is not known, as with a wrapper that says nothing."""
        import gymnasium

        if self.env.spec is None:
            return None
        try:
            made = gymnasium.make(self.env.spec)
        except (gymnasium.error.Error, ValueError, TypeError):
            return None
        return next((env for env in (made, made.unwrapped) if kinds(env) == kinds(self.env)), None)

    def follow(
        self, choose: Callable[[Any], Any], num_steps: int, seed: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Take a budget of steps without learning, in a copy of the world where one can be made (else learning goes on from
        a fresh reset); returns all rewards, less the cost of resets, and the returns of the episodes that ended."""
        env = self._copy() or self.env
        if env is self.env:  # whatever happens below, learning goes on from a reset
            self.point = self.action = None
        rewards, returns, episode = np.zeros(num_steps), [], 0.0
        observation, _ = env.reset(seed=self.first_seed if seed is None else seed)
        for moment in range(num_steps):
            observation, reward, terminated, truncated, _ = env.step(choose(observation))
            value = finite(reward, moment)
            episode += value
            rewards[moment] = value - (self.reset_cost if terminated else 0.0)
            if terminated or truncated:
                returns.append(episode)
                episode = 0.0
                observation, _ = env.reset()
        if env is not self.env:
            env.close()
        return rewards, np.array(returns)


def finite(reward: Any, moment: int) -> float:
    """The reward as a number, or a sentence about what came instead."""
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise BadReward(
            f"At step {moment} the world should give one finite number as the reward, but {reward!r} came. "
            "Mend the world's reward; the agent is as it was before this step."
        )
    return value
