"""The two learners on a table: TD for prediction (Alg. 3, 7) and Q for control (Alg. 4, 8, 11).

A learner names the two vectors that a rule is about, and moves the table by the rule's pull. For control there is a choice of
the bootstrap at S′: the best action (Q-learning), the action taken next (Sarsa) or the average over the policy (Expected Sarsa).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.budget import claim
from perstep.compiled import compiled, inlined, merged
from perstep.curiosity import EXPLORING, GREATEST_URGE, MOOD, grow_curious, moves_average, urge_of
from perstep.foresight import ENTRY, Foresight, foresee, no_foresight
from perstep.model import NONE, Model, any_pair, expected_target, expected_urge, is_modelled, no_model, witness
from perstep.policies import EXPECTED, SAMPLED, epsilon_greedy_mean, greedy
from perstep.randomness import uniform
from perstep.risk import Risk
from perstep.rules import (
    MEAN,
    NO_REFERENCE,
    PAIR,
    RewardEstimate,
    Schedule,
    Steps,
    Workspace,
    apply_rule,
    average_reward,
    average_step,
    look_at,
    nothing_follows,
    steps_now,
    surplus,
    value_after_end,
    value_of,
    value_step,
)
from perstep.scan import WINNER, Scan, no_scan, scan_entry, see_and_review
from perstep.units import FIRST

TD, Q, ANY_Q, SCAN = 0, 1, 2, 3  # ANY_Q: Q with any bootstrap, and with the average of `rvi`; SCAN: for a risk level
CANDIDATES = 8  # remembered transitions, of which the one with the rarest entry is replayed


class Table(NamedTuple):
    """Values of all states (TD: one column) or of all state-action pairs (Q: one column per action)."""

    values: NDArray[np.float64]  # (S, A, n)
    scores: NDArray[
        np.float64
    ]  # (S, A): the value that the rule reads from n numbers, kept so that a greedy look-up costs A
    visits: NDArray[np.int64]  # (S, A): ν, the number of updates of each entry
    urges: NDArray[np.float64]  # (S, A): how much there is to discover (curiosity.py); empty without curiosity
    mood: NDArray[np.int64]  # (4,): whether it explores now, and clocks of it (curiosity.py)


class Memory(NamedTuple):
    """The last transitions, to learn from once more; empty where nothing is replayed."""

    places: NDArray[np.int32]  # (N, 4): state, action, next state, and whether the bootstrap is masked
    rewards: NDArray[np.float64]  # (N,)
    cursor: NDArray[np.int64]  # (1,): the number of transitions so far


class LearnerState(NamedTuple):
    """Everything that a tabular learner reads and writes."""

    table: Table
    memory: Memory
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule
    reference: NDArray[
        np.int64
    ]  # (3,): of `rvi`: kind of f(Q), state and action of its pair; NO_REFERENCE for other rules
    foresight: Foresight = no_foresight()  # (S, A, 4)
    scan: Scan = no_scan()  # (S, A, K)
    risk: Risk = Risk()
    model: Model = no_model()


def table(num_states: int, num_columns: int, num_quantiles: int, initial: float, curious: bool = False) -> Table:
    """Every value at the same initial guess, nothing visited."""
    shape = (num_states, num_columns)
    claim(
        8 * num_states * num_columns * (num_quantiles + 3),
        f"a table of {num_states:,} states, {num_columns:,} columns and {num_quantiles:,} numbers in each",
        "Use perstep.DeepQ, or a world with fewer states.",
    )
    values = np.full((*shape, num_quantiles), float(initial))
    urges = np.full(shape if curious else (0, 0), GREATEST_URGE)
    return Table(values, np.full(shape, float(initial)), np.zeros(shape, np.int64), urges, np.zeros(MOOD, np.int64))


def memory(capacity: int) -> Memory:
    """Room for this many transitions."""
    claim(24 * capacity, f"a replay of {capacity:,} transitions", "Choose a smaller replay_capacity.")
    return Memory(np.zeros((capacity, 4), np.int32), np.zeros(capacity), np.zeros(1, np.int64))


@inlined
def remember(memory: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any) -> None:
    """Keep a transition in place of the oldest one."""
    row = memory.cursor[0] % memory.rewards.shape[0]
    places = memory.places[row]
    places[0], places[1], places[2], places[3] = state, action, next_state, 1 if masked else 0
    memory.rewards[row] = reward
    memory.cursor[0] += 1


@inlined
def recalled(memory: Any, generator: Any) -> Any:
    """One of the remembered transitions: state, action, reward, next state, and whether the bootstrap is masked."""
    row = int(uniform(generator) * min(memory.cursor[0], memory.rewards.shape[0]))
    places = memory.places[row]
    return np.int64(places[0]), np.int64(places[1]), memory.rewards[row], np.int64(places[2]), places[3] == 1


@inlined
def rarest_recalled(memory: Any, visits: Any, generator: Any) -> Any:
    """Of a few remembered transitions, the one whose entry was updated least often. So entries that the agent avoids follow the
    others: learners that would like to be there must not judge them by what they were worth long ago."""
    s, a, r, s_next, end = recalled(memory, generator)
    for _ in range(CANDIDATES - 1):
        s_other, a_other, r_other, s_next_other, end_other = recalled(memory, generator)
        if visits[s_other, a_other] < visits[s, a]:
            s, a, r, s_next, end = s_other, a_other, r_other, s_next_other, end_other
    return s, a, r, s_next, end


@inlined
def is_exploiting(run: Any, state: Any, action: Any) -> Any:
    """Whether the action is the best one, and was not taken to explore; asked only where an average needs it."""
    if run.schedule.average_scale == 0.0 and run.foresight.values.shape[0] == 0:
        return False
    return run.table.mood[EXPLORING] <= 0 and action == greedy(run.table.scores[state])


@inlined
def move(rule: Any, run: Any, clock: Any, state: Any, column: Any, reward: Any, bootstrap: Any, masked: Any,
         counts: Any, fresh: Any) -> Any:  # fmt: skip
    """Let the rule look at one entry and its bootstrap, then move the entry: what TD and Q have in common.

    `counts`: whether the step may move an average that follows δ. Without `fresh` the transition is a remembered one: θ, R̄ and
    the units belong to what happens now, and stay. Returns δ and α.
    """
    entries = run.table
    estimate = entries.values[state, column]
    if fresh:
        look_at(run.rewards, run.schedule, reward, masked, value_after_end(run.rewards, run.work), False)
    moves = counts and moves_average(entries)
    steps = steps_now(run.schedule, entries.visits[state, column], clock, run.rewards.units, moves)
    if not fresh:
        steps = Steps(steps.value, 0.0, 0.0, steps.reward_unit, steps.value_unit)
    delta = apply_rule(rule, run.rewards, reward, bootstrap, estimate, steps, run.work)
    for j in range(estimate.shape[0]):
        estimate[j] += steps.value * run.work.pull[j]
    entries.scores[state, column] = value_of(rule, estimate)
    entries.visits[state, column] += 1
    return delta, steps.value


@compiled
def foresee_entry(foresight: Any, state: Any, column: Any, reward: Any, next_state: Any, best: Any, usual: Any,
                  alpha: Any) -> None:  # fmt: skip
    """Move what is foreseen from one entry. The end of an episode leads to the next start, masked or not. Not inlined, so that
    steps without foresight are not slowed down."""
    here, there = foresight.values[state, column], foresight.values[next_state, best]
    errors = foresight.errors
    foresee(foresight.averages, reward, here, there, usual, errors)
    for j in range(ENTRY):
        here[j] += alpha * errors[j]


@merged
def td_learning(rule: Any, run: Any, clock: Any, state: Any, reward: Any, next_state: Any, masked: Any) -> Any:
    """Estimate V(S), bootstrap V(S′)."""
    bootstrap = nothing_follows(run.rewards, run.work) if masked else run.table.values[next_state, 0]
    delta, alpha = move(rule, run, clock, state, 0, reward, bootstrap, masked, True, True)
    if run.foresight.values.shape[0] > 0:
        foresee_entry(run.foresight, state, 0, reward, next_state, 0, True, alpha)
    return delta


@merged
def q_learning(rule: Any, run: Any, clock: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any,
               generator: Any) -> Any:  # fmt: skip
    """Estimate Q(S, A), bootstrap Q(S′, a*); then once more for a remembered transition, if there is a memory.

    With a model, the value then moves on to its mean target over all that was seen after the pair. Instead of a remembered
    transition it is then any pair whose value moves to its mean target.
    """
    memory, model, delta, turns = run.memory, run.model, 0.0, 1
    num_actions = run.table.scores.shape[1]
    if memory.rewards.shape[0] > 0:
        remember(memory, state, action, reward, next_state, masked)
        turns = 2
    if model.numbers.shape[0] > 0:
        witness(model, state * num_actions + action, reward, NONE if masked else next_state)
    s, a, r, s_next, end = np.int64(state), np.int64(action), reward, np.int64(next_state), masked
    pair = s * num_actions + a
    for turn in range(turns):  # one loop, not two calls: the rule is compiled into it once
        if turn == 1:
            s, a, r, s_next, end = recalled(memory, generator)
            pair = any_pair(model, generator)
        modelled = is_modelled(model, pair)
        before = run.table.scores[pair // num_actions, pair % num_actions] if modelled else 0.0
        best = greedy(run.table.scores[s_next])
        counts = turn == 0 and is_exploiting(run, s, a)
        if turn == 0 or not modelled:
            bootstrap = nothing_follows(run.rewards, run.work) if end else run.table.values[s_next, best]
            moved, alpha = move(rule, run, clock, s, a, r, bootstrap, end, counts, turn == 0)
            if turn == 0:
                delta = moved
                if modelled:
                    model.squares[pair] += delta * delta
                if run.table.urges.shape[0] > 0:
                    grow_curious(run.table, state, action, next_state)
        else:
            alpha = value_step(run.schedule, run.table.visits[s, a])
        if run.foresight.values.shape[0] > 0:
            foresee_entry(run.foresight, s, a, r, s_next, best, counts, alpha)
        if modelled:
            back_up(rule, run, clock, pair, before, counts)
            refresh_best(rule, run, clock, pair)
    return delta


@compiled
def refresh_best(rule: Any, run: Any, clock: Any, pair: Any) -> None:
    """Back up the best action of the state whose entry `pair` was just moved, and the next best one if that was too high. A value
    that was not moved for long may be too high beside others that fell since, and an action that leads nowhere would look best."""
    scores = run.table.scores
    num_actions = scores.shape[1]
    state = pair // num_actions
    for _ in range(num_actions):
        best = greedy(scores[state])
        if state * num_actions + best == pair or not is_modelled(run.model, state * num_actions + best):
            return
        pair = state * num_actions + best
        back_up(rule, run, clock, pair, scores[state, best], False)


@compiled
def back_up(rule: Any, run: Any, clock: Any, pair: Any, before: Any, counts: Any) -> None:
    """Move an entry from its value `before` this step to its mean target over the model, whatever the rule has done to it. Return
    quantiles move all by the same amount. The urge to explore it moves to its mean too.

    `counts`: whether the gain of the model may follow. It is not R̄, which follows single rewards: values that are moved with
    a wrong gain all rise or fall, those that are moved more often before the others, and then the best action is a matter of that.
    """
    entries, model = run.table, run.model
    state, action = pair // entries.scores.shape[1], pair % entries.scores.shape[1]
    estimate, moved = entries.values[state, action], entries.scores[state, action]
    entries.scores[state, action] = before  # it may be in its own target
    after_end = value_after_end(run.rewards, run.work)
    step = average_step(run.schedule, clock)
    if (
        step == 0.0 or run.work.discount < 1.0 or clock < FIRST
    ):  # R̄ has no steps of its own, or the level of values is not free
        model.gain[0] = average_reward(run.rewards)
    gain = -surplus(0.0, model.gain[0], run.work)
    target, now = expected_target(model, entries.scores, pair, run.work.discount, after_end, gain)
    if counts:
        model.gain[0] += step * (target - before)
    for j in range(estimate.shape[0]):
        estimate[j] += now - moved
    entries.scores[state, action] = value_of(rule, estimate)
    if entries.urges.shape[0] > 0:
        entries.urges[state, action] = urge_of(entries.visits[state, action], expected_urge(model, entries.urges, pair))


@merged
def scan_learning(rule: Any, run: Any, clock: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any,
                  generator: Any) -> None:  # fmt: skip
    """As q_learning, with the values of the scan. The rule sees the rewards alone, so that θ and R̄ are about them as they are."""
    memory, entries, work, turns = run.memory, run.table, run.work, 1
    if memory.rewards.shape[0] > 0:
        remember(memory, state, action, reward, next_state, masked)
        turns = 2
    s, a, r, s_next, end = np.int64(state), np.int64(action), reward, np.int64(next_state), masked
    for turn in range(turns):
        if turn == 1:
            s, a, r, s_next, end = rarest_recalled(memory, entries.visits, generator)
        counts = turn == 0 and is_exploiting(run, s, a)
        if turn == 0:
            look_at(run.rewards, run.schedule, reward, masked, 0.0, False)
        moves = counts and moves_average(entries)
        steps = steps_now(run.schedule, entries.visits[s, a], clock, run.rewards.units, moves)
        if turn == 0:
            best = greedy(entries.scores[s_next])
            apply_rule(rule, run.rewards, r, work.nothing, work.nothing, steps, work)
            if run.foresight.values.shape[0] > 0:
                foresee_entry(run.foresight, s, a, r, s_next, best, counts, steps.value)
        scan_entry(run.scan, s, a, r, s_next, end, steps.value)
        entries.scores[s, a] = run.scan.values[s, a, run.scan.cursor[WINNER]]
        entries.visits[s, a] += 1
        if turn == 0:
            see_and_review(run.scan, reward, entries.scores)
            if entries.urges.shape[0] > 0:
                grow_curious(entries, state, action, next_state)


@merged
def any_q_learning(rule: Any, run: Any, clock: Any, state: Any, action: Any, reward: Any, next_state: Any, masked: Any,
                   kind: Any, following: Any, epsilon: Any) -> Any:  # fmt: skip
    """As q_learning, with the bootstrap Q(S′, a*), Q(S′, A′) with A′ = `following`, or the ε-greedy average of Q(S′, ·)."""
    scores = run.table.scores[next_state]
    best = greedy(scores)
    column = following if kind == SAMPLED else best
    bootstrap = nothing_follows(run.rewards, run.work) if masked else run.table.values[next_state, column]
    if kind == EXPECTED and not masked:
        run.work.mixed[0] = epsilon_greedy_mean(scores, epsilon)
        bootstrap = run.work.mixed
    before = run.table.scores[state, action]
    counts = is_exploiting(run, state, action)
    delta, alpha = move(rule, run, clock, state, action, reward, bootstrap, masked, counts, True)
    if run.foresight.values.shape[0] > 0:
        foresee_entry(run.foresight, state, action, reward, next_state, best, counts, alpha)
    if run.table.urges.shape[0] > 0:
        grow_curious(run.table, state, action, next_state)
    if run.reference[0] != NO_REFERENCE:
        run.rewards.theta[0] = reference_value(run, before, state, action)
    return delta


@compiled
def reference_value(run: Any, before: Any, state: Any, action: Any) -> Any:
    """f(Q) of RVI after the entry (S, A) moved from `before`. The mean moves by a share; the maximum is sought again only
    where the largest entry fell."""
    scores, now, f = run.table.scores, run.table.scores[state, action], run.rewards.theta[0]
    if run.reference[0] == PAIR:
        return scores[run.reference[1], run.reference[2]]
    if run.reference[0] == MEAN:
        return f + (now - before) / scores.size
    if now >= f or before < f:
        return max(now, f)
    for s in range(scores.shape[0]):
        for a in range(scores.shape[1]):
            now = max(now, scores[s, a])
    return now
