"""The loop of tiles in worlds of motion (CartPole, pendulums, …), compiled; and one step of it for plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep import linear
from perstep.compiled import compiled, copied, inlined
from perstep.environments import motion
from perstep.interaction.behaviour import NO_ACTION
from perstep.interaction.sampling import keep
from perstep.recording import note, note_end

Floats = NDArray[np.float64]


class MotionWorld(NamedTuple):
    """A world of motion (environments/motion.py) and its time limit, for compiled loops."""

    number: int
    parameters: Floats  # (P,)
    time_limit: int  # steps until an episode is cut off; 0 for never


class MotionPlace(NamedTuple):
    """Where a run is in a world of motion."""

    state: Floats  # (D,)
    observation: Floats  # (K,)
    counters: NDArray[np.int64]  # (2,): steps since the last start, the chosen action
    episode_return: Floats  # (1,): the sum of rewards since the last start


ELAPSED, CHOSEN = 0, 1


def motion_place(world: motion.Motion) -> MotionPlace:
    """Before the first start."""
    return MotionPlace(
        np.zeros(world.state_size), np.zeros(world.observation_size), np.array([0, NO_ACTION]), np.zeros(1)
    )


@compiled
def begin_motion(learner: Any, rule: Any, world: Any, run: Any, place: Any, generator: Any) -> None:
    """Start a world of motion, and let the agent stand there."""
    start_motion(world, place, generator)
    linear.enter(learner, rule, run, place.observation)


@inlined
def start_motion(world: Any, place: Any, generator: Any) -> None:
    """A first state and its observation."""
    motion.start(world.number, world.parameters, place.state, generator)
    motion.observe(world.number, place.state, place.observation)
    place.counters[ELAPSED] = 0
    place.episode_return[0] = 0.0


@inlined
def step_motion(world: Any, place: Any, action: Any, generator: Any) -> Any:
    """One step: (reward, whether the episode terminated, whether the time limit cut it off)."""
    reward, terminated = motion.step(world.number, world.parameters, place.state, action, generator)
    motion.observe(world.number, place.state, place.observation)
    place.episode_return[0] += reward
    place.counters[ELAPSED] += 1
    truncated = world.time_limit > 0 and place.counters[ELAPSED] >= world.time_limit and not terminated
    return reward, terminated, truncated


@compiled
def epsilon_now(behaviour: Any, clock: Any) -> Any:
    """ε after this many steps."""
    if behaviour.epsilon_delay == 0.0:
        return behaviour.epsilon
    return behaviour.epsilon / (1.0 + clock / behaviour.epsilon_delay)


# One transition of each learner: it moves its estimates, and the record takes note. Returns A′ where Sarsa has chosen it.


@inlined
def after_actor_critic(rule: Any, bootstrap: Any, epsilon: Any, run: Any, record: Any, generator: Any, clock: Any,
                       action: Any, reward: Any, next_point: Any, masked: Any) -> Any:  # fmt: skip
    """The actor-critic."""
    linear.actor_critic(rule, run, clock, action, felt_reward(run, reward, clock, masked), next_point, masked)
    note(record, reward, run.risk.rewards)
    return NO_ACTION


@inlined
def after_tile_q(rule: Any, bootstrap: Any, epsilon: Any, run: Any, record: Any, generator: Any, clock: Any,
                 action: Any, reward: Any, next_point: Any, masked: Any) -> Any:  # fmt: skip
    """Q on tiles."""
    felt = felt_reward(run, reward, clock, masked)
    following = linear.tile_q(rule, run, clock, action, felt, next_point, masked, bootstrap, epsilon, generator)
    note(record, reward, run.risk.rewards)
    return following


@inlined
def felt_reward(run: Any, reward: Any, clock: Any, masked: Any) -> Any:
    """The reward that the values learn from: another one with a risk level."""
    felt = reward
    if run.risk.level < 1.0:
        felt = linear.careful_reward_on_tiles(run, reward, clock, masked)
    return felt


LEARNER, after = (
    linear.TILE_Q,
    after_tile_q,
)  # in the copies of the functions below: one of the learners, and its transition


def learn_in_motion(rule: Any, world: Any, ends: Any, behaviour: Any, run: Any, record: Any, generator: Any,
                    place: Any, clock: Any, num_steps: Any) -> None:  # fmt: skip
    """Learn for a number of steps in any world of motion. An end is a transition to the next start; a truncation is none."""
    action = place.counters[CHOSEN]
    for t in range(clock, clock + num_steps):
        epsilon = epsilon_now(behaviour, t) if LEARNER == linear.TILE_Q else 0.0
        if action == NO_ACTION:
            action = linear.choose(LEARNER, run, epsilon, generator)
        reward, terminated, truncated = step_motion(world, place, action, generator)
        if terminated or truncated:
            note_end(record, place.episode_return[0])
        if terminated:
            reward -= ends.reset_cost
            start_motion(world, place, generator)
        masked = terminated and ends.mask
        action = after(
            rule, behaviour.bootstrap, epsilon, run, record, generator, t, action, reward, place.observation, masked
        )
        if truncated:
            start_motion(world, place, generator)
            linear.enter(LEARNER, rule, run, place.observation)
            action = NO_ACTION
    place.counters[CHOSEN] = action


def _of_each(function: Callable[..., Any]) -> dict[int, Callable[..., Any]]:
    """Learner → the function, compiled with this learner alone, which takes half the time of compiling it with a choice inside."""
    learners = {linear.ACTOR_CRITIC: after_actor_critic, linear.TILE_Q: after_tile_q}
    return {learner: copied(function, LEARNER=learner, after=each) for learner, each in learners.items()}


@compiled
def follow_in_motion(learner: Any, rule: Any, world: Any, ends: Any, behaviour: Any, run: Any, generator: Any,
                     picker: Any, place: Any, begin: Any, end: Any, num_steps: Any, deterministic: Any, total: Any,
                     episodes: Any, kept: Any, returns: Any) -> None:  # fmt: skip
    """As follow_in_mdp, in a world of motion. `episodes` (1,), the number of episodes that ended, moves along; the returns of as
    many of them as fit are written to `returns`."""
    if begin == 0:
        start_motion(world, place, generator)
    for t in range(begin, end):
        linear.stand(learner, rule, run, place.observation)
        if deterministic:
            action = linear.choose_without_chance(learner, run)
        else:
            action = linear.choose(learner, run, behaviour.epsilon, generator)
        reward, terminated, truncated = step_motion(world, place, action, generator)
        if terminated:
            reward -= ends.reset_cost
        if terminated or truncated:
            if episodes[0] < returns.shape[0]:
                returns[episodes[0]] = place.episode_return[0]
            episodes[0] += 1
            start_motion(world, place, generator)
        total[0] += reward
        keep(t, num_steps, reward, kept, picker)


def enter_in_a_loop(rule: Any, behaviour: Any, run: Any, generator: Any, point: Any) -> Any:
    """Stand at a point of a plain loop and choose an action there."""
    linear.enter(LEARNER, rule, run, point)
    return linear.choose(LEARNER, run, behaviour.epsilon, generator)


def learn_in_a_loop(
    rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any, action: Any, reward: Any, next_point: Any,
    masked: Any, jumps: Any, resume: Any,
) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, at `resume` if the world jumps there."""
    following = after(
        rule, behaviour.bootstrap, behaviour.epsilon, run, record, generator, clock, action, reward, next_point, masked
    )
    if jumps:
        linear.enter(LEARNER, rule, run, resume)
    if following == NO_ACTION or jumps:
        following = linear.choose(LEARNER, run, behaviour.epsilon, generator)
    return following


LEARN_IN_MOTION, ENTER_IN_A_LOOP, LEARN_IN_A_LOOP = (
    _of_each(f) for f in (learn_in_motion, enter_in_a_loop, learn_in_a_loop)
)
"""Learner → its compiled function."""


def enter_then_act(learner: int, *arguments: Any) -> Any:
    """`enter_in_a_loop` of a learner."""
    return ENTER_IN_A_LOOP[learner](*arguments)


def learn_on_tiles_then_act(learner: int, *arguments: Any) -> Any:
    """`learn_in_a_loop` of a learner."""
    return LEARN_IN_A_LOOP[learner](*arguments)
