"""The loop of tiles in worlds of motion (CartPole, pendulums, …), compiled; and one step of it for plain loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.history import Record, note, note_end
from perstep.distributions.sampling import keep
from perstep.gym.behaviour import COST, NO_ACTION, Behaviour, Ends, see
from perstep.numerics.compiled import compiled, copied, inlined
from perstep.numerics.randomness import Generator
from perstep.numerics.scale import Scale
from perstep.rules.risk import Risk
from perstep.rules.transition import AverageSteps, RewardEstimate, Schedule, Workspace
from perstep.tiles import kernel
from perstep.tiles.coder import Tiling
from perstep.tiles.kernel import ACTOR_CRITIC, TILE_Q, Level, Optimism, Reference, Room, Weights
from perstep.tiles.traces import Traces
from perstep.worlds import motion

Floats = NDArray[np.float64]


class MotionWorld(NamedTuple):
    """A world of motion (worlds/motion.py) and its time limit, for compiled loops."""

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


@inlined
def start_motion(world: MotionWorld, place: MotionPlace, generator: Generator) -> None:
    """A first state and its observation."""
    motion.start(world.number, world.parameters, place.state, generator)
    motion.observe(world.number, place.state, place.observation)
    place.counters[ELAPSED] = 0
    place.episode_return[0] = 0.0


@inlined
def step_motion(world: MotionWorld, place: MotionPlace, action: int, generator: Generator) -> tuple[float, bool, bool]:
    """One step: (reward, whether the episode terminated, whether the time limit cut it off)."""
    reward, terminated = motion.step(world.number, world.parameters, place.state, action, generator)
    motion.observe(world.number, place.state, place.observation)
    place.episode_return[0] += reward
    place.counters[ELAPSED] += 1
    truncated = world.time_limit > 0 and place.counters[ELAPSED] >= world.time_limit and not terminated
    return reward, terminated, truncated


@compiled
def epsilon_now(behaviour: Behaviour, clock: int) -> float:
    """ε after this many steps."""
    if behaviour.epsilon_delay == 0.0:
        return behaviour.epsilon
    return behaviour.epsilon / (1.0 + clock / behaviour.epsilon_delay)


@inlined
def after_actor_critic(
    rule: int, weights: Weights, rewards: RewardEstimate, work: Workspace, schedule: Schedule, policy_ratio: float,
    tiling: Tiling, room: Room, scale: Scale | None, average: AverageSteps | None, level: Level | None, optimism: Optimism | None,
    traces: Traces | None, reference: Reference | None, clock: int, action: int, reward: float, next_point: Floats,
    masked: bool, bootstrap: int, epsilon: float, generator: Generator,
) -> int:  # fmt: skip
    """One transition of the actor-critic."""
    kernel.actor_critic(rule, weights, rewards, work, schedule, policy_ratio, tiling, room, scale, average, level, optimism, traces,
                        clock, action, reward, next_point, masked)  # fmt: skip
    return NO_ACTION


@inlined
def after_tile_q(
    rule: int, weights: Weights, rewards: RewardEstimate, work: Workspace, schedule: Schedule, policy_ratio: float,
    tiling: Tiling, room: Room, scale: Scale | None, average: AverageSteps | None, level: Level | None, optimism: Optimism | None,
    traces: Traces | None, reference: Reference | None, clock: int, action: int, reward: float, next_point: Floats,
    masked: bool, bootstrap: int, epsilon: float, generator: Generator,
) -> int:  # fmt: skip
    """One transition of Q on tiles. Returns A′ where Sarsa has chosen it."""
    return kernel.tile_q(rule, weights, rewards, work, schedule, tiling, room, scale, average, level, optimism, traces, reference,
                         clock, action, reward, next_point, masked, bootstrap, epsilon, generator)  # fmt: skip


LEARNER, after = TILE_Q, after_tile_q  # in the copies of the functions below: one of the learners, and its transition


@inlined
def felt_reward(
    rule: int, risk: Risk | None, scale: Scale | None, schedule: Schedule, average: AverageSteps | None, reward: float,
    clock: int, masked: bool,
) -> float:  # fmt: skip
    """The reward that the values learn from: another one with a risk level."""
    if risk is None:
        return reward
    return kernel.careful_reward_on_tiles(rule, risk, scale, schedule, average, reward, clock, masked)


@inlined
def seen(rewards: RewardEstimate, risk: Risk | None) -> RewardEstimate:
    """The estimate of the rewards as they are."""
    if risk is None:
        return rewards
    return risk.rewards


def begin_motion(
    world: MotionWorld, place: MotionPlace, generator: Generator, weights: Weights, rewards: RewardEstimate, tiling: Tiling,
    optimism: Optimism | None, traces: Traces | None,
) -> None:  # fmt: skip
    """Start a world of motion, and let the agent stand there."""
    start_motion(world, place, generator)
    kernel.enter(LEARNER, weights, rewards, tiling, optimism, traces, place.observation)


def learn_in_motion(
    rule: int, world: MotionWorld, ends: Ends, behaviour: Behaviour, weights: Weights, rewards: RewardEstimate,
    work: Workspace, schedule: Schedule, policy_ratio: float, tiling: Tiling, room: Room, scale: Scale | None,
    average: AverageSteps | None, level: Level | None, optimism: Optimism | None, traces: Traces | None,
    reference: Reference | None, risk: Risk | None, record: Record, generator: Generator, place: MotionPlace, clock: int,
    num_steps: int,
) -> None:  # fmt: skip
    """Learn for a number of steps in any world of motion. An end is a transition to the next start; a truncation is none."""
    action = place.counters[CHOSEN]
    for t in range(clock, clock + num_steps):
        epsilon = epsilon_now(behaviour, t) if LEARNER == TILE_Q else 0.0
        if action == NO_ACTION:
            action = kernel.choose(LEARNER, weights, room.chances, optimism, epsilon, generator)
        reward, terminated, truncated = step_motion(world, place, action, generator)
        see(ends.known, reward, terminated, place.episode_return[0])
        if terminated or truncated:
            note_end(record, place.episode_return[0])
        if terminated:
            reward -= ends.known[COST]
            start_motion(world, place, generator)
        masked = terminated and ends.mask
        felt = felt_reward(rule, risk, scale, schedule, average, reward, t, masked)
        action = after(rule, weights, rewards, work, schedule, policy_ratio, tiling, room, scale, average, level, optimism, traces,
                       reference, t, action, felt, place.observation, masked, behaviour.bootstrap, epsilon, generator)  # fmt: skip
        note(rule, record, reward, seen(rewards, risk))
        if truncated:
            start_motion(world, place, generator)
            kernel.enter(LEARNER, weights, rewards, tiling, optimism, traces, place.observation)
            action = NO_ACTION
    place.counters[CHOSEN] = action


def enter_then_act(
    behaviour: Behaviour, weights: Weights, rewards: RewardEstimate, tiling: Tiling, room: Room, optimism: Optimism | None,
    traces: Traces | None, generator: Generator, point: Floats,
) -> int:  # fmt: skip
    """Stand at a point of a plain loop and choose an action there."""
    kernel.enter(LEARNER, weights, rewards, tiling, optimism, traces, point)
    return kernel.choose(LEARNER, weights, room.chances, optimism, behaviour.epsilon, generator)


def learn_then_act(
    rule: int, behaviour: Behaviour, weights: Weights, rewards: RewardEstimate, work: Workspace, schedule: Schedule,
    policy_ratio: float, tiling: Tiling, room: Room, scale: Scale | None, average: AverageSteps | None, level: Level | None,
    optimism: Optimism | None, traces: Traces | None, reference: Reference | None, risk: Risk | None, record: Record,
    generator: Generator, clock: int, action: int, reward: float, next_point: Floats, masked: bool, jumps: bool,
    resume: Floats,
) -> int:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, at `resume` if the world jumps there."""
    felt = felt_reward(rule, risk, scale, schedule, average, reward, clock, masked)
    following = after(rule, weights, rewards, work, schedule, policy_ratio, tiling, room, scale, average, level, optimism, traces,
                      reference, clock, action, felt, next_point, masked, behaviour.bootstrap, behaviour.epsilon,
                      generator)  # fmt: skip
    note(rule, record, reward, seen(rewards, risk))
    if jumps:
        kernel.enter(LEARNER, weights, rewards, tiling, optimism, traces, resume)
    if following == NO_ACTION or jumps:
        following = kernel.choose(LEARNER, weights, room.chances, optimism, behaviour.epsilon, generator)
    return following


def follow_in_motion(
    world: MotionWorld, ends: Ends, behaviour: Behaviour, weights: Weights, rewards: RewardEstimate, tiling: Tiling,
    room: Room, optimism: Optimism | None, generator: Generator, picker: Generator, place: MotionPlace, begin: int, end: int,
    num_steps: int, deterministic: bool, total: Floats, episodes: NDArray[np.int64], kept: Floats, returns: Floats,
) -> None:  # fmt: skip
    """As follow_in_mdp, in a world of motion. `episodes` (1,), the number of episodes that ended, moves along; the returns of as
    many of them as fit are written to `returns`."""
    if begin == 0:
        start_motion(world, place, generator)
    for t in range(begin, end):
        kernel.stand(LEARNER, weights, rewards, tiling, optimism, place.observation)
        if deterministic:
            action = kernel.choose_without_chance(LEARNER, weights, room.chances, optimism)
        else:
            action = kernel.choose(LEARNER, weights, room.chances, optimism, behaviour.epsilon, generator)
        reward, terminated, truncated = step_motion(world, place, action, generator)
        if terminated:
            reward -= ends.known[COST]
        if terminated or truncated:
            if episodes[0] < returns.shape[0]:
                returns[episodes[0]] = place.episode_return[0]
            episodes[0] += 1
            start_motion(world, place, generator)
        total[0] += reward
        keep(t, num_steps, reward, kept, picker)


class Loops(NamedTuple):
    """The compiled loops of one learner."""

    begin_motion: Callable[..., None]
    learn_in_motion: Callable[..., None]
    enter_then_act: Callable[..., int]
    learn_then_act: Callable[..., int]
    follow_in_motion: Callable[..., None]


@functools.cache
def loops(learner: int) -> Loops:
    """The loops of one learner, compiled with this learner alone, which takes half the time of compiling them with a choice inside.
    They serve all rules."""
    each = {ACTOR_CRITIC: after_actor_critic, TILE_Q: after_tile_q}[learner]
    functions = (begin_motion, learn_in_motion, enter_then_act, learn_then_act, follow_in_motion)
    return Loops(*(copied(function, LEARNER=learner, after=each) for function in functions))
