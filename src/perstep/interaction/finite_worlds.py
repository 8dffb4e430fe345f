"""The loop of tables in finite MDPs, compiled; and one step of it for plain loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from perstep import tabular
from perstep.compiled import compiled, copied, inlined
from perstep.environments.finite_world import start, step
from perstep.interaction.behaviour import NO_ACTION
from perstep.interaction.sampling import keep
from perstep.policies import SAMPLED, epsilon_greedy
from perstep.randomness import draw
from perstep.recording import note
from perstep.risk import careful_reward
from perstep.schedules import step_size


@inlined
def act(learner: Any, behaviour: Any, run: Any, state: Any, generator: Any) -> Any:
    """`A ← action given by π for S`."""
    if learner == tabular.TD:
        return draw(behaviour.policy[state], generator)
    return epsilon_greedy(run.table.scores[state], epsilon_at(behaviour, run.table.visits[state]), generator)


@inlined
def epsilon_at(behaviour: Any, visits: Any) -> Any:
    """ε in a state whose actions have these visits."""
    if behaviour.epsilon_power == 0.0:
        return behaviour.epsilon
    total = 0
    for a in range(visits.shape[0]):
        total += visits[a]
    return step_size(behaviour.epsilon, behaviour.epsilon_power, behaviour.epsilon_delay, total)


# One transition of each learner: it moves its estimates, and the record takes note. Returns A′ where Sarsa has chosen it.


@inlined
def after_td(rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any, state: Any, action: Any,
             reward: Any, next_state: Any, masked: Any) -> Any:  # fmt: skip
    """Prediction."""
    tabular.td_learning(rule, run, clock, state, reward, next_state, masked)
    note(record, reward, run.rewards)
    return NO_ACTION


@inlined
def after_q(rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any, state: Any, action: Any,
            reward: Any, next_state: Any, masked: Any) -> Any:  # fmt: skip
    """Q-learning, also with a target for a risk level."""
    felt = reward
    if run.risk.level < 1.0:
        felt = careful_reward(run.risk, run.schedule, run.work, reward, clock, masked)
    tabular.q_learning(rule, run, clock, state, action, felt, next_state, masked)
    note(record, reward, run.risk.rewards)
    return NO_ACTION


@inlined
def after_any_q(rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any, state: Any, action: Any,
                reward: Any, next_state: Any, masked: Any) -> Any:  # fmt: skip
    """Q with any bootstrap, and with the average of `rvi`."""
    following = NO_ACTION
    if behaviour.bootstrap == SAMPLED:  # before the values move
        following = act(tabular.ANY_Q, behaviour, run, next_state, generator)
    tabular.any_q_learning(rule, run, clock, state, action, reward, next_state, masked, behaviour.bootstrap,
                           max(following, 0), epsilon_at(behaviour, run.table.visits[next_state]))  # fmt: skip
    note(record, reward, run.rewards)
    return following


LEARNER, RULE, after = (
    tabular.Q,
    0,
    after_q,
)  # in the copies of the two functions below: one learner, one rule, its transition


def learn_in_mdp(world: Any, behaviour: Any, run: Any, record: Any, generator: Any, place: Any,
                 clock: Any, num_steps: Any) -> None:  # fmt: skip
    """Learn for a number of steps in a finite MDP; `place` (2,), the state and the chosen action, moves along."""
    state, action = place[0], place[1]
    masked = bool(0)  # nothing ends; as a literal, it would be a type of its own, with learners compiled for it alone
    for t in range(clock, clock + num_steps):
        if action == NO_ACTION:
            action = act(LEARNER, behaviour, run, state, generator)
        reward, next_state = step(world, state, action, generator)
        action = after(RULE, behaviour, run, record, generator, t, state, action, reward, next_state, masked)
        state = next_state
    place[0], place[1] = state, action


def learn_then_act(behaviour: Any, run: Any, record: Any, generator: Any, clock: Any,
                   state: Any, action: Any, reward: Any, next_state: Any, masked: Any, resume_state: Any) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, in one call of compiled code."""
    following = after(RULE, behaviour, run, record, generator, clock, state, action, reward, next_state, masked)
    if following == NO_ACTION or resume_state != next_state:
        following = act(LEARNER, behaviour, run, resume_state, generator)
    return following


@functools.cache
def loops(learner: int, rule: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """learn_in_mdp and learn_then_act, compiled with this learner and this rule alone. With a choice inside they would take several
    times as long to compile, and their steps would be slower by a third."""
    each = {tabular.TD: after_td, tabular.Q: after_q, tabular.ANY_Q: after_any_q}[learner]
    learning, acting = (
        copied(function, LEARNER=learner, RULE=rule, after=each) for function in (learn_in_mdp, learn_then_act)
    )
    return learning, acting


@compiled
def follow_in_mdp(world: Any, policy: Any, generator: Any, picker: Any, begin: Any, end: Any, num_steps: Any, state: Any,
                  total: Any, kept: Any) -> None:  # fmt: skip
    """Follow fixed probabilities without learning, from step `begin` to `end` of `num_steps`. `state` (1,) and `total` (1,), the
    sum of all rewards, move along; as many rewards as fit are kept."""
    if begin == 0:
        state[0] = start(world, generator)
    for t in range(begin, end):
        reward, state[0] = step(world, state[0], draw(policy[state[0]], generator), generator)
        total[0] += reward
        keep(t, num_steps, reward, kept, picker)
