"""The loop of tables in finite MDPs, compiled; and one step of it for plain loops."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.history import Record, note
from perstep.gym.behaviour import NO_ACTION, Behaviour
from perstep.mdp.sampler import FiniteWorld, step
from perstep.numerics.compiled import copied, inlined
from perstep.numerics.policies import SAMPLED, epsilon_greedy
from perstep.numerics.randomness import Generator, draw
from perstep.numerics.scale import Scale
from perstep.numerics.schedules import step_size
from perstep.rules.risk import Risk, careful_reward
from perstep.rules.transition import D2, FUNCTIONS, RewardEstimate, Schedule, Workspace, d2, look_at, steps_now
from perstep.tabular import kernel
from perstep.tabular.kernel import ANY_Q, RISK_Q, TD, Q, Table


@inlined
def act(learner: int, behaviour: Behaviour, table: Table, state: int, generator: Generator) -> int:
    """`A ← action given by π for S`."""
    if learner == TD:
        return draw(behaviour.policy[state], generator)
    return epsilon_greedy(table.scores[state], epsilon_at(behaviour, table.visits[state]), generator)


@inlined
def epsilon_at(behaviour: Behaviour, visits: NDArray[np.int64]) -> float:
    """ε in a state whose actions have these visits."""
    if behaviour.epsilon_power == 0.0:
        return behaviour.epsilon
    total = 0
    for a in range(visits.shape[0]):
        total += visits[a]
    return step_size(behaviour.epsilon, behaviour.epsilon_power, behaviour.epsilon_delay, total)


# One transition of each learner: it moves its estimates, and the record takes note. Returns A′ where Sarsa has chosen it.


@inlined
def after_td(
    apply: Callable[..., float], rule: int, behaviour: Behaviour, table: Table, rewards: RewardEstimate, work: Workspace,
    schedule: Schedule, scale: Scale | None, reference: NDArray[np.int64] | None, risk: Risk | None, record: Record,
    generator: Generator, clock: int, state: int, action: int, reward: float, next_state: int, masked: bool,
) -> int:  # fmt: skip
    """Prediction."""
    kernel.td_learning(apply, rule, table, rewards, work, schedule, scale, clock, state, reward, next_state, masked)
    note(rule, record, reward, rewards)
    return NO_ACTION


@inlined
def after_q(
    apply: Callable[..., float], rule: int, behaviour: Behaviour, table: Table, rewards: RewardEstimate, work: Workspace,
    schedule: Schedule, scale: Scale | None, reference: NDArray[np.int64] | None, risk: Risk | None, record: Record,
    generator: Generator, clock: int, state: int, action: int, reward: float, next_state: int, masked: bool,
) -> int:  # fmt: skip
    """Q-learning."""
    kernel.q_learning(
        apply, rule, table, rewards, work, schedule, scale, clock, state, action, reward, next_state, masked
    )
    note(rule, record, reward, rewards)
    return NO_ACTION


@inlined
def after_risk_q(
    apply: Callable[..., float], rule: int, behaviour: Behaviour, table: Table, rewards: RewardEstimate, work: Workspace,
    schedule: Schedule, scale: Scale | None, reference: NDArray[np.int64] | None, risk: Risk, record: Record,
    generator: Generator, clock: int, state: int, action: int, reward: float, next_state: int, masked: bool,
) -> int:  # fmt: skip
    """Q-learning with a target for a risk level."""
    look_at(rule, scale, risk.rewards, reward, masked, np.inf, False)
    felt = careful_reward(rule, risk, reward, steps_now(rule, scale, schedule, risk.rewards.units, clock, clock))
    kernel.q_learning(
        apply, rule, table, rewards, work, schedule, scale, clock, state, action, felt, next_state, masked
    )
    note(rule, record, reward, risk.rewards)
    return NO_ACTION


@inlined
def after_any_q(
    apply: Callable[..., float], rule: int, behaviour: Behaviour, table: Table, rewards: RewardEstimate, work: Workspace,
    schedule: Schedule, scale: Scale | None, reference: NDArray[np.int64] | None, risk: Risk | None, record: Record,
    generator: Generator, clock: int, state: int, action: int, reward: float, next_state: int, masked: bool,
) -> int:  # fmt: skip
    """Q with any bootstrap, and with the average of `rvi`."""
    following = NO_ACTION
    if behaviour.bootstrap == SAMPLED:  # before the values move
        following = act(ANY_Q, behaviour, table, next_state, generator)
    epsilon = epsilon_at(behaviour, table.visits[next_state])
    kernel.any_q_learning(apply, rule, table, rewards, work, schedule, scale, reference, clock, state, action, reward, next_state,
                           masked, behaviour.bootstrap, max(following, 0), epsilon)  # fmt: skip
    note(rule, record, reward, rewards)
    return following


# In the copies of the two functions below: one learner, its transition, one rule and its function.
LEARNER, after, RULE, apply = Q, after_q, D2, d2


def learn_in_mdp(
    world: FiniteWorld, behaviour: Behaviour, table: Table, rewards: RewardEstimate, work: Workspace, schedule: Schedule,
    scale: Scale | None, reference: NDArray[np.int64] | None, risk: Risk | None, record: Record, generator: Generator,
    place: NDArray[np.int64], clock: int, num_steps: int,
) -> None:  # fmt: skip
    """Learn for a number of steps in a finite MDP; `place` (2,), the state and the chosen action, moves along."""
    state, action = place[0], place[1]
    for t in range(clock, clock + num_steps):
        if action == NO_ACTION:
            action = act(LEARNER, behaviour, table, state, generator)
        reward, next_state = step(world, state, action, generator)
        action = after(apply, RULE, behaviour, table, rewards, work, schedule, scale, reference, risk, record, generator, t,
                       state, action, reward, next_state, False)  # fmt: skip
        state = next_state
    place[0], place[1] = state, action


def learn_then_act(
    behaviour: Behaviour, table: Table, rewards: RewardEstimate, work: Workspace, schedule: Schedule, scale: Scale | None,
    reference: NDArray[np.int64] | None, risk: Risk | None, record: Record, generator: Generator, clock: int, state: int,
    action: int, reward: float, next_state: int, masked: bool, resume_state: int,
) -> int:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, in one call of compiled code."""
    following = after(apply, RULE, behaviour, table, rewards, work, schedule, scale, reference, risk, record, generator, clock,
                      state, action, reward, next_state, masked)  # fmt: skip
    if following == NO_ACTION or resume_state != next_state:
        following = act(LEARNER, behaviour, table, resume_state, generator)
    return following


@functools.cache
def loops(learner: int, rule: int) -> tuple[Callable[..., None], Callable[..., int]]:
    """learn_in_mdp and learn_then_act, compiled with this learner and this rule alone. With a choice inside they would take several
    times as long to compile, and their steps would be slower by a third."""
    each = {TD: after_td, Q: after_q, ANY_Q: after_any_q, RISK_Q: after_risk_q}[learner]
    learning, acting = (
        copied(function, LEARNER=learner, RULE=rule, after=each, apply=FUNCTIONS[rule])
        for function in (learn_in_mdp, learn_then_act)
    )
    return learning, acting
