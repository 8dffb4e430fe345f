"""The loop of tables in finite MDPs, compiled; and one step of it for plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perstep import tabular
from perstep.compiled import compiled, inlined
from perstep.curiosity import EXPLORING, act_curiously
from perstep.environments.finite_world import start, step
from perstep.interaction.behaviour import NO_ACTION
from perstep.interaction.sampling import keep
from perstep.policies import SAMPLED, epsilon_greedy
from perstep.randomness import draw
from perstep.recording import note
from perstep.risk import careful_reward


@inlined
def act(learner: Any, behaviour: Any, run: Any, state: Any, generator: Any) -> Any:
    """`A ← action given by π for S`."""
    if learner == tabular.TD:
        return draw(behaviour.policy[state], generator)
    if run.table.urges.shape[0] > 0:
        return act_curiously(run.table, state, behaviour.epsilon, generator)
    return epsilon_greedy(run.table.scores[state], behaviour.epsilon, generator)


@inlined
def learn_from(learner: Any, rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any, state: Any,
               action: Any, reward: Any, next_state: Any, masked: Any) -> Any:  # fmt: skip
    """One transition: the learner moves its estimates, the record takes note. Returns A′ where Sarsa has chosen it."""
    following = NO_ACTION
    if learner == tabular.TD:
        tabular.td_learning(rule, run, clock, state, reward, next_state, masked)
    elif learner == tabular.Q:
        felt = reward
        if run.risk.level < 1.0:
            felt = careful_reward(run.risk, run.schedule, run.work, reward, clock, masked)
        tabular.q_learning(rule, run, clock, state, action, felt, next_state, masked, generator)
    elif learner == tabular.SCAN:
        tabular.scan_learning(rule, run, clock, state, action, reward, next_state, masked, generator)
    else:
        if behaviour.bootstrap == SAMPLED:  # before the values move
            following = act(learner, behaviour, run, next_state, generator)
        tabular.any_q_learning(rule, run, clock, state, action, reward, next_state, masked, behaviour.bootstrap,
                               max(following, 0), behaviour.epsilon)  # fmt: skip
    note(record, reward, run.risk.rewards, run.table.mood[EXPLORING] == 0)
    return following


def _learning_loop(learner: int) -> Callable[..., None]:
    """The compiled loop of one learner, whose number is a constant in it: paths of the others would cost a third of the speed."""

    @compiled
    def learn_in_mdp(rule: Any, world: Any, behaviour: Any, run: Any, record: Any, generator: Any, place: Any,
                     clock: Any, num_steps: Any) -> None:  # fmt: skip
        """Learn for a number of steps in a finite MDP; `place` (2,), the state and the chosen action, moves along."""
        state, action = place[0], place[1]
        for t in range(clock, clock + num_steps):
            if action == NO_ACTION:
                action = act(learner, behaviour, run, state, generator)
            reward, next_state = step(world, state, action, generator)
            action = learn_from(
                learner, rule, behaviour, run, record, generator, t, state, action, reward, next_state, False
            )
            state = next_state
        place[0], place[1] = state, action

    return learn_in_mdp


LEARN_IN_MDP = {learner: _learning_loop(learner) for learner in (tabular.TD, tabular.Q, tabular.ANY_Q, tabular.SCAN)}
"""Learner → its compiled loop."""


@compiled
def learn_then_act(learner: Any, rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any,
                   state: Any, action: Any, reward: Any, next_state: Any, masked: Any, resume_state: Any) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, in one call of compiled code."""
    following = learn_from(
        learner, rule, behaviour, run, record, generator, clock, state, action, reward, next_state, masked
    )
    if following == NO_ACTION or resume_state != next_state:
        following = act(learner, behaviour, run, resume_state, generator)
    return following


@compiled
def follow_in_mdp(world: Any, policy: Any, generator: Any, picker: Any, num_steps: Any, kept: Any) -> Any:
    """Follow fixed probabilities without learning; returns the sum of all rewards and keeps as many of them as fit."""
    state = start(world, generator)
    total = 0.0
    for t in range(num_steps):
        reward, state = step(world, state, draw(policy[state], generator), generator)
        total += reward
        keep(t, num_steps, reward, kept, picker)
    return total
