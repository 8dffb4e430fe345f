"""The loop of tables in finite MDPs, compiled; and one step of it for plain loops."""

from __future__ import annotations

from typing import Any

from perstep import tabular
from perstep.compiled import compiled, inlined
from perstep.environments.finite_world import start, step
from perstep.interaction.behaviour import NO_ACTION
from perstep.interaction.sampling import keep
from perstep.policies import SAMPLED, epsilon_greedy
from perstep.randomness import draw
from perstep.recording import note


@inlined
def act(learner: Any, behaviour: Any, run: Any, state: Any, generator: Any) -> Any:
    """`A ← action given by π for S`."""
    if learner == tabular.TD:
        return draw(behaviour.policy[state], generator)
    return epsilon_greedy(run.table.scores[state], behaviour.epsilon, generator)


@inlined
def learn_from(learner: Any, rule: Any, run: Any, record: Any, clock: Any, state: Any, action: Any, reward: Any,
               next_state: Any, masked: Any) -> None:  # fmt: skip
    """One transition by the paper's learners: the estimates move, the record takes note."""
    if learner == tabular.TD:
        tabular.td_learning(rule, run, clock, state, reward, next_state, masked)
    else:
        tabular.q_learning(rule, run, clock, state, action, reward, next_state, masked)
    note(record, reward, run.rewards)


@inlined
def learn_with_bootstrap(rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any, state: Any,
                         action: Any, reward: Any, next_state: Any, masked: Any) -> Any:  # fmt: skip
    """One transition by Q with any bootstrap. Returns A′ where Sarsa has chosen it, before the values move."""
    following = NO_ACTION
    if behaviour.bootstrap == SAMPLED:
        following = act(tabular.ANY_Q, behaviour, run, next_state, generator)
    tabular.any_q_learning(rule, run, clock, state, action, reward, next_state, masked, behaviour.bootstrap,
                           max(following, 0), behaviour.epsilon)  # fmt: skip
    note(record, reward, run.rewards)
    return following


@compiled
def learn_in_mdp(learner: Any, rule: Any, world: Any, behaviour: Any, run: Any, record: Any, generator: Any, place: Any,
                 clock: Any, num_steps: Any) -> None:  # fmt: skip
    """Learn for a number of steps in a finite MDP by TD or Q; `place` (2,), the state and the chosen action, moves along."""
    state = place[0]
    for t in range(clock, clock + num_steps):
        action = act(learner, behaviour, run, state, generator)
        reward, next_state = step(world, state, action, generator)
        learn_from(learner, rule, run, record, t, state, action, reward, next_state, False)
        state = next_state
    place[0] = state


@compiled
def learn_with_bootstrap_in_mdp(rule: Any, world: Any, behaviour: Any, run: Any, record: Any, generator: Any, place: Any,
                                clock: Any, num_steps: Any) -> None:  # fmt: skip
    """As learn_in_mdp, by Q with any bootstrap. A loop of its own: its paths in the other one would cost the paper's learners a
    third of their speed."""
    action = place[1]
    for t in range(clock, clock + num_steps):
        state = place[0]
        if action == NO_ACTION:
            action = act(tabular.ANY_Q, behaviour, run, state, generator)
        reward, place[0] = step(world, state, action, generator)
        action = learn_with_bootstrap(
            rule, behaviour, run, record, generator, t, state, action, reward, place[0], False
        )
    place[1] = action


@compiled
def learn_then_act(learner: Any, rule: Any, behaviour: Any, run: Any, record: Any, generator: Any, clock: Any,
                   state: Any, action: Any, reward: Any, next_state: Any, masked: Any, resume_state: Any) -> Any:  # fmt: skip
    """Learn from one transition of a plain loop and choose the next action, in one call of compiled code."""
    following = NO_ACTION
    if learner == tabular.ANY_Q:
        following = learn_with_bootstrap(
            rule, behaviour, run, record, generator, clock, state, action, reward, next_state, masked
        )
    else:
        learn_from(learner, rule, run, record, clock, state, action, reward, next_state, masked)
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
