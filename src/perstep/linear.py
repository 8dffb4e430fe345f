"""The learners on active tiles: the actor-critic (Alg. 5, 9, 12) and Q with linear values; the same rules as the tables.

Only the few weights of the active tiles take part in a step: a value is their sum, a move adds the same to each of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.budget import claim
from perstep.compiled import compiled, inlined, merged
from perstep.masses import track_masses
from perstep.policies import EXPECTED, GREEDY, SAMPLED, epsilon_greedy, epsilon_greedy_mean, greedy, softmax
from perstep.quantiles import mean, track
from perstep.randomness import draw
from perstep.risk import Risk, careful
from perstep.rules import (
    D2,
    D3,
    MEAN,
    NO_REFERENCE,
    AverageSteps,
    RewardEstimate,
    Schedule,
    Steps,
    Workspace,
    average_reward,
    look_at,
    nothing_follows,
    pull_of_rule,
    pull_value,
    steps_now,
    track_rewards,
    value_after_end,
    value_of,
)
from perstep.schedules import step_size
from perstep.tiles import Tiling, active_tiles
from perstep.traces import KEPT, NO_TRACES, Traces, look_back, look_back_at_choices, weight_now
from perstep.units import ENDED, SEEN, return_unit

Floats = NDArray[np.float64]

ACTOR_CRITIC, TILE_Q = 0, 1

LARGEST_ERROR = 1.0  # of a δ that moves the policy, in units of return
FIRST_HOPE = 10.0  # while all returns seen were equal
NOVELTY_STEP = 0.5  # divided by the number of tilings
NOVELTY_DISCOUNT = 0.96  # how far ahead novelty is seen


class Weights(NamedTuple):
    """What is learnt, and where the agent stands (K active of F features; C columns: one for state values, A for Q)."""

    critic: Floats  # (C, F, n): w
    actor: Floats  # (F, A): u; (0, A) for Q
    active: NDArray[np.int64]  # (K,): the features of S
    numbers: Floats  # (C, n): the values of S
    scores: Floats  # (C,): what the rule reads from them; for Q only
    clipped: NDArray[np.int64]  # (1,): how many coordinates were outside the bounds so far
    novelty: Floats  # (C, F, 1): their sum is 1 where nothing is known, and falls to 0; (0, 0, 1) without optimism
    appeal: Floats  # (C,): what actions at S are chosen by; for Q with optimism only, otherwise it is the scores


class Room(NamedTuple):
    """Memory that a step writes to, allocated once per run."""

    next_active: NDArray[np.int64]  # (K,): the features of S′
    numbers: Floats  # (C, n): the values of S′
    scores: Floats  # (C,): what the rule reads from them; for Q only
    chances: Floats  # (A,): π(·|S)
    appeal: Floats  # (C,): of S′; for Q with optimism only


class Reference(NamedTuple):
    """f(Q) of the rule `rvi`."""

    kind: NDArray[np.int64]  # (2,): of rules.REFERENCES, and the action of a pair
    active: NDArray[np.int64]  # (K,): the features of the observation of a pair


class LearnerState(NamedTuple):
    """Everything that a learner on tiles reads and writes."""

    weights: Weights
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule
    policy_ratio: float  # η_π
    tiling: Tiling
    room: Room
    reference: Reference
    optimism: float = 0.0  # how much the unknown is hoped to hold; 0 for no hope
    optimism_delay: float = 1.0  # where nothing ends: the number of steps after which hope begins to fall
    risk: Risk = Risk()
    traces: Traces = NO_TRACES
    average: AverageSteps = AverageSteps()


def weights(
    num_features: int,
    num_active: int,
    num_actions: int,
    num_quantiles: int,
    initial: float,
    learner: int = ACTOR_CRITIC,
    optimistic: bool = False,
) -> Weights:
    """Preferences of zero, and values of `initial` everywhere: each of the active features carries its share."""
    columns = num_actions if learner == TILE_Q else 1
    claim(
        8 * num_features * (columns * (num_quantiles + 1) + num_actions),
        f"weights for {num_features:,} features",
        "Choose fewer tilings, tiles or quantiles, or a smaller table_size.",
    )
    return Weights(
        np.full((columns, num_features, num_quantiles), initial / num_active),
        np.zeros((0 if learner == TILE_Q else num_features, num_actions)),
        np.zeros(num_active, np.int64),
        np.zeros((columns, num_quantiles)),
        np.zeros(columns),
        np.zeros(1, np.int64),
        np.full((columns, num_features, 1) if optimistic else (0, 0, 1), 1.0 / num_active),
        np.zeros(columns),
    )


def room(num_active: int, num_actions: int, num_quantiles: int, learner: int = ACTOR_CRITIC) -> Room:
    """Memory for one step."""
    columns = num_actions if learner == TILE_Q else 1
    return Room(
        np.zeros(num_active, np.int64),
        np.zeros((columns, num_quantiles)),
        np.zeros(columns),
        np.zeros(num_actions),
        np.zeros(columns),
    )


def no_reference(num_active: int) -> Reference:
    """For the rules whose average is not read from the values."""
    return Reference(np.array([NO_REFERENCE, 0]), np.zeros(num_active, np.int64))


@inlined
def steps_on_tiles(run: Any, clock: Any, units: Any, counts: Any) -> Any:
    """The steps of one transition, all by the clock. `counts`: whether R̄ may follow its δ, where it has a step of its own: the
    action was the greedy one."""
    steps, average = steps_now(run.schedule, clock, clock, units), run.average
    if average.scale <= 0.0:
        return steps
    offset = step_size(average.scale, average.power, average.delay, clock)
    offset = offset if counts or average.follows_rewards else 0.0
    theta = offset if average.moves_theta else steps.theta
    return Steps(steps.value, theta, offset, steps.reward_unit, steps.value_unit)


@inlined
def track_on_tiles(rule: Any, rewards: Any, average: Any, reward: Any, steps: Any) -> Any:
    """Move θ, and with it R̄, unless R̄ has steps of its own: then the offset takes the move of the mean back. Returns R̄."""
    if average.scale <= 0.0:
        return track_rewards(rule, rewards, reward, steps)
    if rewards.theta.shape[0] > 1 or not average.moves_theta:
        before = mean(rewards.theta)
        if rewards.masses.shape[0] > 0:
            track_masses(rewards.masses, rewards.grid, rewards.tau, reward, steps.theta, rewards.theta)
        else:
            track(rewards.theta, rewards.tau, reward, steps.theta * steps.reward_unit)
        rewards.offset[0] -= mean(rewards.theta) - before
    return average_reward(rewards)


@compiled
def careful_reward_on_tiles(run: Any, reward: Any, clock: Any, ended: Any) -> Any:
    """As risk.careful_reward."""
    seen, work = run.risk.rewards, run.work
    look_at(seen, run.schedule, reward, ended, 0.0, False)
    steps = steps_on_tiles(run, clock, seen.units, True)
    average = track_on_tiles(D2, seen, run.average, reward, steps)
    pull_value(seen, average, reward, work.nothing, work.nothing, steps, work)
    return careful(run.risk.level, seen.theta, reward)


NARROW = 4  # columns up to which going down each column beats going along each row


@compiled
def gather(matrix: Any, active: Any, out: Any) -> None:
    """out = the sum of the active rows: for every column one dot product with binary features."""
    count, width = active.shape[0], out.shape[0]
    if width <= NARROW:
        for j in range(width):
            out[j] = gather_column(matrix, active, j)
        return
    for j in range(width):
        out[j] = 0.0
    k = 0
    while k + 4 <= count:  # four rows at a time: a quarter of the accesses to `out`
        a, b, c, d = matrix[active[k]], matrix[active[k + 1]], matrix[active[k + 2]], matrix[active[k + 3]]
        for j in range(width):
            out[j] += (a[j] + b[j]) + (c[j] + d[j])
        k += 4
    while k < count:
        a = matrix[active[k]]
        for j in range(width):
            out[j] += a[j]
        k += 1


@compiled
def gather_column(matrix: Any, active: Any, j: Any) -> Any:
    """The sum of one column over the active rows, in four lanes like quantiles.mean."""
    count = active.shape[0]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    k = 0
    while k + 4 <= count:  # unsigned: numba then need not ask whether an index counts from the end
        a += matrix[np.uint64(active[k]), j]
        b += matrix[np.uint64(active[k + 1]), j]
        c += matrix[np.uint64(active[k + 2]), j]
        d += matrix[np.uint64(active[k + 3]), j]
        k += 4
    while k < count:
        a += matrix[np.uint64(active[k]), j]
        k += 1
    return (a + b) + (c + d)


@compiled
def scatter(matrix: Any, active: Any, step: Any, pull: Any) -> None:
    """Every active row += step · pull."""
    if pull.shape[0] <= NARROW:
        for j in range(pull.shape[0]):
            change = step * pull[j]
            for k in range(active.shape[0]):
                matrix[np.uint64(active[k]), j] += change
        return
    for k in range(active.shape[0]):
        row = matrix[active[k]]
        for j in range(pull.shape[0]):
            row[j] += step * pull[j]


@inlined
def enter(learner: Any, rule: Any, run: Any, point: Any) -> None:
    """Stand at a point that was not reached by a transition, such as the first one."""
    weights = run.weights
    run.traces.clock[KEPT] = 0
    weights.clipped[0] += active_tiles(run.tiling, point, weights.active)
    gather_values(learner, rule, weights.critic, weights.active, weights.numbers, weights.scores)
    if learner == TILE_Q and run.optimism > 0.0:
        weigh_actions(run, weights.active, weights.scores, weights.appeal)


@inlined
def stand(learner: Any, rule: Any, run: Any, point: Any) -> None:
    """Stand at a point to act and not to learn: an actor-critic then needs no values."""
    weights = run.weights
    active_tiles(run.tiling, point, weights.active)
    if learner == TILE_Q:
        gather_values(learner, rule, weights.critic, weights.active, weights.numbers, weights.scores)
        if run.optimism > 0.0:
            weigh_actions(run, weights.active, weights.scores, weights.appeal)


@inlined
def gather_values(learner: Any, rule: Any, critic: Any, active: Any, numbers: Any, scores: Any) -> None:
    """The values at the active features, and what the rule reads from them where actions are chosen by it."""
    for column in range(numbers.shape[0]):
        gather(critic[column], active, numbers[column])
        if learner == TILE_Q:
            scores[column] = value_of(rule, numbers[column])


@inlined
def in_units(number: Any, run: Any) -> Any:
    """A value or δ in units of return; 0 while all returns seen were equal."""
    unit = return_unit(run.rewards.units)
    return number / unit if unit > 0.0 else 0.0


@inlined
def hope(run: Any) -> Any:
    """What the unknown is hoped to hold, in units of return.

    While all returns seen were equal there is nothing else to go by. Where nothing ends it is one unit, and falls with time. Where
    games end it is as much as an end is worth, if ends are good: values from which no average is taken off would start at 0 and
    be optimistic in the same way.
    """
    if return_unit(run.rewards.units) == 0.0:
        return run.optimism * FIRST_HOPE
    if run.rewards.units[ENDED] == 0.0:
        return run.optimism / (1.0 + run.rewards.units[SEEN] / run.optimism_delay)
    return run.optimism * max(in_units(value_after_end(run.rewards, run.work), run), 0.0)


@inlined
def weigh(run: Any, active: Any, scores: Any, appeal: Any) -> None:
    """What actions are chosen by: values in units of return, and hope."""
    hoped = hope(run)
    for column in range(scores.shape[0]):
        unknown = gather_column(run.weights.novelty[column], active, 0)
        appeal[column] = in_units(scores[column], run) + hoped * unknown


@compiled
def prefer_with_hope(run: Any, kind: Any, epsilon: Any, generator: Any) -> Any:
    """A′ for Sarsa, otherwise −1, and the action at S′ whose value is the bootstrap, both by their appeal."""
    weigh(run, run.room.next_active, run.room.scores, run.room.appeal)
    following = epsilon_greedy(run.room.appeal, epsilon, generator) if kind == SAMPLED else -1
    return following, greedy(run.room.appeal) if kind == GREEDY else max(following, 0)


@compiled
def weigh_actions(run: Any, active: Any, scores: Any, appeal: Any) -> None:
    """As `weigh`; not inlined, so that steps without optimism are not slowed down."""
    weigh(run, active, scores, appeal)


@inlined
def wear_off(run: Any, column: Any, next_column: Any) -> Any:
    """Move the novelty at S to a part of that at S′, so that it falls where the agent has been. Returns its TD error.

    TD is linear: values that start at 0, plus hope times novelty, are values with an optimistic start. Kept apart, the optimism
    has no scale of its own, and values, θ and R̄ are free of it.
    """
    weights = run.weights
    alpha = NOVELTY_STEP / weights.active.shape[0]
    there = gather_column(weights.novelty[next_column], run.room.next_active, 0)
    surprise = NOVELTY_DISCOUNT * there - gather_column(weights.novelty[column], weights.active, 0)
    for k in range(weights.active.shape[0]):
        weights.novelty[column, weights.active[k], 0] += alpha * surprise
    return surprise


@compiled
def wear_off_pair(run: Any, action: Any, next_action: Any) -> None:
    """As `wear_off`; not inlined, so that steps without optimism are not slowed down."""
    wear_off(run, action, next_action)


@inlined
def softmax_policy(run: Any) -> None:
    """π(·|S, u) into `run.room.chances`."""
    gather(run.weights.actor, run.weights.active, run.room.chances)
    softmax(run.room.chances)


@inlined
def choose(learner: Any, run: Any, epsilon: Any, generator: Any) -> Any:
    """`A ∼ π(·|S)` where the agent stands: the softmax policy of the actor-critic, ε-greedy for Q."""
    if learner == TILE_Q:
        return epsilon_greedy(run.weights.appeal if run.optimism > 0.0 else run.weights.scores, epsilon, generator)
    softmax_policy(run)
    return draw(run.room.chances, generator)


@inlined
def choose_without_chance(learner: Any, run: Any) -> Any:
    """The most likely action of the actor-critic, the best one for Q; ties to the first."""
    if learner == TILE_Q:
        return greedy(run.weights.appeal if run.optimism > 0.0 else run.weights.scores)
    softmax_policy(run)
    return greedy(run.room.chances)


@inlined
def look_ahead(learner: Any, rule: Any, run: Any, next_point: Any) -> None:
    """The features and values of S′ into `run.room`."""
    run.weights.clipped[0] += active_tiles(run.tiling, next_point, run.room.next_active)
    gather_values(learner, rule, run.weights.critic, run.room.next_active, run.room.numbers, run.room.scores)


@inlined
def arrive(learner: Any, rule: Any, run: Any, column: Any, alpha: Any) -> None:
    """S′ becomes S. Its values were summed before w moved: add what moved under the tiles that S and S′ share."""
    weights, room, pull = run.weights, run.room, run.work.pull
    shared = 0
    for k in range(weights.active.shape[0]):
        shared += weights.active[k] == room.next_active[k]
        weights.active[k] = room.next_active[k]
    if run.traces.decay > 0.0:  # which moved more than that
        for c in range(weights.numbers.shape[0]):
            run.traces.before[c] = value_of(rule, room.numbers[c])
        gather_values(learner, rule, weights.critic, weights.active, room.numbers, room.scores)
        shared = 0
    for c in range(weights.numbers.shape[0]):
        moved = shared if c == column else 0
        for j in range(pull.shape[0]):
            weights.numbers[c, j] = room.numbers[c, j] + moved * alpha * pull[j]
        if learner == TILE_Q:
            weights.scores[c] = value_of(rule, weights.numbers[c])
    if learner == TILE_Q and run.optimism > 0.0:
        weigh_actions(run, weights.active, weights.scores, weights.appeal)


@inlined
def whole_pull(rule: Any, work: Any, delta: Any) -> Any:
    """By how much a value moves as a whole: δ, or the mean of the pulls on its quantiles where they have no δ of their own."""
    return mean(work.pull) if rule == D3 and work.pull.shape[0] > 1 else delta


@inlined
def move_values(rule: Any, run: Any, column: Any, alpha: Any, delta: Any) -> None:
    """The values of S move by their pull, and with traces those of the steps before it."""
    weights, traces = run.weights, run.traces
    if traces.decay > 0.0:
        weight = weight_now(traces, weights.active, column, alpha)
        scatter(weights.critic[column], weights.active, alpha * weight, run.work.pull)
        value = value_of(rule, weights.numbers[column])
        look_back(
            traces, weights.active, column, weights.critic, alpha, whole_pull(rule, run.work, delta), value, weight
        )
    else:
        scatter(weights.critic[column], weights.active, alpha, run.work.pull)


@merged
def actor_critic(rule: Any, run: Any, clock: Any, action: Any, reward: Any, next_point: Any, masked: Any) -> Any:
    """Estimate v(S), bootstrap v(S′); then w, then u with the probabilities A was drawn from; S′ becomes S."""
    weights, room = run.weights, run.room
    look_ahead(ACTOR_CRITIC, rule, run, next_point)
    bootstrap = nothing_follows(run.rewards, run.work) if masked else room.numbers[0]
    look_at(run.rewards, run.schedule, reward, masked, value_after_end(run.rewards, run.work), False)
    steps = steps_on_tiles(run, clock, run.rewards.units, True)
    average = track_on_tiles(rule, run.rewards, run.average, reward, steps)
    delta = pull_of_rule(rule, run.rewards, average, reward, bootstrap, weights.numbers[0], steps, run.work)
    move_values(rule, run, 0, steps.value, delta)
    error = delta
    if run.schedule.scale_free:
        error = in_units(delta, run)
        if run.optimism > 0.0:
            error += hope(run) * wear_off(run, 0, 0)
        error = min(max(error, -LARGEST_ERROR), LARGEST_ERROR)
    scale = run.policy_ratio * steps.value * error
    chances = room.chances
    for a in range(chances.shape[0]):
        chances[a] = (1.0 if a == action else 0.0) - chances[a]  # ∇ ln π(A|S) on every active feature
    scatter(weights.actor, weights.active, scale, chances)
    if run.traces.decay > 0.0:
        look_back_at_choices(run.traces, chances, weights.actor, scale)
        if masked:  # nothing after an end says anything about what was before it
            run.traces.clock[KEPT] = 0
    arrive(ACTOR_CRITIC, rule, run, 0, steps.value)
    return delta


@merged
def tile_q(rule: Any, run: Any, clock: Any, action: Any, reward: Any, next_point: Any, masked: Any, kind: Any,
           epsilon: Any, generator: Any) -> Any:  # fmt: skip
    """Estimate q(S, A); bootstrap q(S′, a*), q(S′, A′) or the ε-greedy average of q(S′, ·); then w; S′ becomes S.

    Returns A′ where the bootstrap needs it (Sarsa chooses it before w moves), otherwise −1.
    """
    weights, room = run.weights, run.room
    look_ahead(TILE_Q, rule, run, next_point)
    if run.optimism > 0.0:
        following, best = prefer_with_hope(run, kind, epsilon, generator)
    else:
        following = epsilon_greedy(room.scores, epsilon, generator) if kind == SAMPLED else -1
        best = greedy(room.scores) if kind == GREEDY else max(following, 0)
    bootstrap = nothing_follows(run.rewards, run.work) if masked else room.numbers[best]
    if kind == EXPECTED and not masked:
        run.work.mixed[0] = epsilon_greedy_mean(room.scores, epsilon)
        bootstrap = run.work.mixed
    look_at(run.rewards, run.schedule, reward, masked, value_after_end(run.rewards, run.work), False)
    counts = run.average.scale > 0.0 and action == greedy(weights.scores)
    steps = steps_on_tiles(run, clock, run.rewards.units, counts)
    if run.traces.decay > 0.0 and kind == GREEDY:
        preferences = weights.appeal if run.optimism > 0.0 else weights.scores
        if preferences[action] < preferences[greedy(preferences)]:
            run.traces.clock[KEPT] = 0  # Q-learning learns of the best actions, and this one is another (Watkins)
    average = track_on_tiles(rule, run.rewards, run.average, reward, steps)
    delta = pull_of_rule(rule, run.rewards, average, reward, bootstrap, weights.numbers[action], steps, run.work)
    move_values(rule, run, action, steps.value, delta)
    if run.traces.decay > 0.0 and masked:
        run.traces.clock[KEPT] = 0
    if run.optimism > 0.0:
        wear_off_pair(run, action, best if kind != EXPECTED else greedy(room.appeal))
    if run.reference.kind[0] != NO_REFERENCE:
        run.rewards.theta[0] = reference_value(run, steps.value)
    arrive(TILE_Q, rule, run, action, steps.value)
    return following


@compiled
def reference_value(run: Any, alpha: Any) -> Any:
    """f(Q) of RVI after K weights of one action moved by α · pull: of a pair, or the mean, in which every feature of every
    action has the same share."""
    columns, features, _ = run.weights.critic.shape
    count = run.weights.active.shape[0]
    if run.reference.kind[0] == MEAN:
        return run.rewards.theta[0] + count * count * alpha * run.work.pull[0] / (features * columns)
    return gather_column(run.weights.critic[run.reference.kind[1]], run.reference.active, 0)
