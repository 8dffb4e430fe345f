"""The learners on active tiles: the actor-critic (Alg. 5, 9, 12) and Q with linear values; the same rules as the tables.

Only the few weights of the active tiles take part in a step: a value is their sum, a move adds the same to each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled, inlined, merged
from perstep.numerics.policies import (
    EXPECTED,
    GREEDY,
    SAMPLED,
    epsilon_greedy,
    epsilon_greedy_mean,
    greedy,
    softmax,
)
from perstep.numerics.quantiles import mean
from perstep.numerics.randomness import Generator, draw
from perstep.numerics.scale import SEEN, Scale, return_unit, see_error, unexplained_unit
from perstep.numerics.schedules import step_size
from perstep.rules.risk import Risk, careful_reward
from perstep.rules.transition import (
    BY_OWN_PULLS,
    MEAN,
    RVI,
    SCALAR,
    AverageSteps,
    RewardEstimate,
    Schedule,
    Steps,
    Workspace,
    any_rule,
    look_at,
    nothing_follows,
    steps_now,
    track_beside,
)
from perstep.system.budget import claim
from perstep.tiles.coder import Tiling, active_tiles
from perstep.tiles.traces import KEPT, Traces, look_back, look_back_at_choices, weight_now

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

ACTOR_CRITIC, TILE_Q = 0, 1

LARGEST_ERROR = 1.0  # that moves the policy, in units of what values do not explain of returns
FIRST_BONUS = 10.0  # while all returns seen were equal
UNSEEN_STEP = 0.5  # divided by the number of tilings
UNSEEN_DISCOUNT = 0.96  # how far ahead the unseen counts


class Weights(NamedTuple):
    """What is learnt, and where the agent stands (K active of F features; C columns: one for state values, A for Q)."""

    critic: Floats  # (C, F, n): w
    actor: Floats  # (F, A): u; (0, A) for Q
    active: Indices  # (K,): the features of S
    numbers: Floats  # (C, n): the values of S
    scores: Floats  # (C,): their means; for Q only
    clipped: Indices  # (1,): how many coordinates were outside the bounds so far


class Room(NamedTuple):
    """Memory that a step writes to, allocated once per run."""

    next_active: Indices  # (K,): the features of S′
    numbers: Floats  # (C, n): the values of S′
    scores: Floats  # (C,): their means; for Q only
    chances: Floats  # (A,): π(·|S)


class Optimism(NamedTuple):
    """The bonus of what is unseen."""

    unseen: Floats  # (C, F, 1): their sum is 1 where nothing was seen, and falls to 0
    scores: Floats  # (C,): what actions at S are chosen by: values in units of return, and the bonus
    next_scores: Floats  # (C,): of S′
    size: float  # the bonus where nothing was seen, in units of return
    delay: float  # the number of steps after which it begins to fall


class Level(NamedTuple):
    """The level of the values, of which a share is subtracted with R̄."""

    mean: Floats  # (1,): of all values over the box
    share: float  # κ


class Reference(NamedTuple):
    """f(Q) of the rule `rvi`."""

    kind: Indices  # (2,): of rules.REFERENCES, and the action of a pair
    active: Indices  # (K,): the features of the observation of a pair


class LearnerState(NamedTuple):
    """Everything that a learner on tiles reads and writes, as its functions take it; None for what it does without."""

    weights: Weights
    rewards: RewardEstimate
    work: Workspace
    schedule: Schedule
    policy_ratio: float  # η_π
    tiling: Tiling
    room: Room
    scale: Scale | None = None
    average: AverageSteps | None = None  # of an R̄ that θ stands beside
    level: Level | None = None
    optimism: Optimism | None = None
    traces: Traces | None = None
    reference: Reference | None = None
    risk: Risk | None = None


def weights(
    num_features: int,
    num_active: int,
    num_actions: int,
    num_quantiles: int,
    initial: float,
    learner: int = ACTOR_CRITIC,
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
    )


def optimism(weights: Weights, size: float, delay: float) -> Optimism:
    """Nothing was seen."""
    columns, features, _ = weights.critic.shape
    unseen = np.full((columns, features, 1), 1.0 / weights.active.size)
    return Optimism(unseen, np.zeros(columns), np.zeros(columns), size, delay)


def room(num_active: int, num_actions: int, num_quantiles: int, learner: int = ACTOR_CRITIC) -> Room:
    """Memory for one step."""
    columns = num_actions if learner == TILE_Q else 1
    return Room(
        np.zeros(num_active, np.int64), np.zeros((columns, num_quantiles)), np.zeros(columns), np.zeros(num_actions)
    )


@inlined
def steps_on_tiles(
    rule: int,
    scale: Scale | None,
    schedule: Schedule,
    average: AverageSteps | None,
    units: Floats,
    clock: int,
    follows: bool,
) -> Steps:
    """The steps of one transition, all by the clock. `follows`: whether R̄ may follow this δ, where it has a step of its own: the
    action was the greedy one."""
    steps = steps_now(rule, scale, schedule, units, clock, clock)
    if average is None:
        return steps
    by_delta = step_size(average.delta_scale, average.power, average.delay, clock) if follows else 0.0
    by_reward = step_size(average.reward_scale, average.power, average.delay, clock)
    theta = by_delta + by_reward if rule in SCALAR or rule == RVI else steps.theta
    return Steps(steps.value, theta, by_delta, steps.reward_unit, steps.value_unit, by_reward)


@inlined
def apply_on_tiles(
    rule: int, average: AverageSteps | None, level: Level | None, rewards: RewardEstimate, reward: float, bootstrap: Floats,
    estimate: Floats, steps: Steps, work: Workspace,
) -> float:  # fmt: skip
    """The rule. Where R̄ has steps of its own, θ has moved beside it before; a share of the level is subtracted with R̄."""
    if level is not None:
        for j in range(bootstrap.shape[0]):
            work.ahead[j] = bootstrap[j] - level.share * level.mean[0]
        bootstrap = work.ahead
    if average is not None:
        steps = beside(rule, rewards, reward, steps)
    return any_rule(rule, rewards, reward, bootstrap, estimate, steps, work)


@inlined
def beside(rule: int, rewards: RewardEstimate, reward: float, steps: Steps) -> Steps:
    """Let θ move while R̄ stays; returns the steps that are left."""
    if rule in SCALAR or rule == RVI:
        return steps
    track_beside(rule, rewards, reward, steps, 1.0)
    return Steps(steps.value, 0.0, steps.offset, steps.reward_unit, steps.value_unit, steps.offset_by_reward)


@compiled
def careful_reward_on_tiles(
    rule: int, risk: Risk, scale: Scale | None, schedule: Schedule, average: AverageSteps | None, reward: float, clock: int,
    ended: bool,
) -> float:  # fmt: skip
    """As risk.careful_reward."""
    look_at(rule, scale, risk.rewards, reward, ended, np.inf, False)
    steps = steps_on_tiles(rule, scale, schedule, average, risk.rewards.units, clock, True)
    if average is not None:
        steps = beside(rule, risk.rewards, reward, steps)
    return careful_reward(rule, risk, reward, steps)


NARROW = 4  # columns up to which going down each column beats going along each row


@compiled
def gather(matrix: Floats, active: Indices, out: Floats) -> None:
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
def gather_column(matrix: Floats, active: Indices, j: int) -> float:
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


@merged
def scatter(matrix: Floats, active: Indices, step: float, pull: Floats) -> None:
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
def enter(
    learner: int, weights: Weights, rewards: RewardEstimate, tiling: Tiling, optimism: Optimism | None, traces: Traces | None,
    point: Floats,
) -> None:  # fmt: skip
    """Stand at a point that was not reached by a transition, such as the first one."""
    if traces is not None:
        traces.clock[KEPT] = 0
    weights.clipped[0] += active_tiles(tiling, point, weights.active)
    gather_values(learner, weights.critic, weights.active, weights.numbers, weights.scores)
    if learner == TILE_Q and optimism is not None:
        add_bonus(optimism, rewards, weights.active, weights.scores, optimism.scores)


@inlined
def stand(
    learner: int, weights: Weights, rewards: RewardEstimate, tiling: Tiling, optimism: Optimism | None, point: Floats
) -> None:
    """Stand at a point to act and not to learn: an actor-critic then needs no values."""
    active_tiles(tiling, point, weights.active)
    if learner == TILE_Q:
        gather_values(learner, weights.critic, weights.active, weights.numbers, weights.scores)
        if optimism is not None:
            add_bonus(optimism, rewards, weights.active, weights.scores, optimism.scores)


@inlined
def gather_values(learner: int, critic: Floats, active: Indices, numbers: Floats, scores: Floats) -> None:
    """The values at the active features, and their means where actions are chosen by them."""
    for column in range(numbers.shape[0]):
        gather(critic[column], active, numbers[column])
        if learner == TILE_Q:
            scores[column] = mean(numbers[column])


@inlined
def in_units(number: float, units: Floats) -> float:
    """A value or δ in units of return; 0 while all returns seen were equal."""
    unit = return_unit(units)
    return number / unit if unit > 0.0 else 0.0


@inlined
def in_unexplained_units(delta: float, bonus: float, units: Floats) -> float:
    """δ and what a bonus in units of return adds to it, in units of what values do not explain of returns. In those of return,
    rewards that are far larger than all others would make small what the policy has to learn, long after values explain them."""
    unit = unexplained_unit(units)
    if unit == 0.0 or return_unit(units) == 0.0:  # nothing to learn from, but the bonus
        return bonus
    return (delta + bonus * return_unit(units)) / unit


@inlined
def bonus_now(optimism: Optimism, rewards: RewardEstimate) -> float:
    """The bonus where nothing was seen, in units of return: it falls with time. While all returns seen were equal there is nothing
    else to go by."""
    if return_unit(rewards.units) == 0.0:
        return optimism.size * FIRST_BONUS
    return optimism.size / (1.0 + rewards.units[SEEN] / optimism.delay)


@compiled
def add_bonus(optimism: Optimism, rewards: RewardEstimate, active: Indices, scores: Floats, out: Floats) -> None:
    """What actions are chosen by: values in units of return, and the bonus."""
    bonus = bonus_now(optimism, rewards)
    for column in range(scores.shape[0]):
        unseen = gather_column(optimism.unseen[column], active, 0)
        out[column] = in_units(scores[column], rewards.units) + bonus * unseen


@compiled
def lower_bonus(optimism: Optimism, active: Indices, next_active: Indices, column: int, next_column: int) -> float:
    """Move what is unseen at S to a part of that at S′, so that it falls where the agent has been. Returns its TD error.

    TD is linear: values that start at 0, plus the bonus times what is unseen, are values with an optimistic start. Kept apart, the
    optimism has no scale of its own, and values, θ and R̄ are free of it.
    """
    alpha = UNSEEN_STEP / active.shape[0]
    there = gather_column(optimism.unseen[next_column], next_active, 0)
    error = UNSEEN_DISCOUNT * there - gather_column(optimism.unseen[column], active, 0)
    for k in range(active.shape[0]):
        optimism.unseen[column, active[k], 0] += alpha * error
    return error


@inlined
def softmax_policy(weights: Weights, chances: Floats) -> None:
    """π(·|S, u)."""
    gather(weights.actor, weights.active, chances)
    softmax(chances)


@inlined
def choose(
    learner: int, weights: Weights, chances: Floats, optimism: Optimism | None, epsilon: float, generator: Generator
) -> int:
    """`A ∼ π(·|S)` where the agent stands: the softmax policy of the actor-critic, ε-greedy for Q."""
    if learner == TILE_Q:
        return epsilon_greedy(weights.scores if optimism is None else optimism.scores, epsilon, generator)
    softmax_policy(weights, chances)
    return draw(chances, generator)


@inlined
def choose_without_chance(learner: int, weights: Weights, chances: Floats, optimism: Optimism | None) -> int:
    """The most likely action of the actor-critic, the best one for Q; ties to the first."""
    if learner == TILE_Q:
        return greedy(weights.scores if optimism is None else optimism.scores)
    softmax_policy(weights, chances)
    return greedy(chances)


@inlined
def look_ahead(learner: int, weights: Weights, tiling: Tiling, room: Room, next_point: Floats) -> None:
    """The features and values of S′ into the room."""
    weights.clipped[0] += active_tiles(tiling, next_point, room.next_active)
    gather_values(learner, weights.critic, room.next_active, room.numbers, room.scores)


@inlined
def arrive(
    learner: int, weights: Weights, room: Room, pull: Floats, traces: Traces | None, column: int, alpha: float
) -> None:
    """S′ becomes S. Its values were summed before w moved: add what moved under the tiles that S and S′ share."""
    shared = 0
    for k in range(weights.active.shape[0]):
        shared += weights.active[k] == room.next_active[k]
        weights.active[k] = room.next_active[k]
    if traces is not None:  # which moved more than that
        for c in range(weights.numbers.shape[0]):
            traces.before[c] = mean(room.numbers[c])
        gather_values(learner, weights.critic, weights.active, room.numbers, room.scores)
        shared = 0
    for c in range(weights.numbers.shape[0]):
        moved = shared if c == column else 0
        for j in range(pull.shape[0]):
            weights.numbers[c, j] = room.numbers[c, j] + moved * alpha * pull[j]
        if learner == TILE_Q:
            weights.scores[c] = mean(weights.numbers[c])


@inlined
def move_values(
    rule: int,
    weights: Weights,
    level: Level | None,
    traces: Traces | None,
    pull: Floats,
    column: int,
    alpha: float,
    delta: float,
) -> None:
    """The values of S move by their pull. With traces those of the steps before it move too: as a whole, by δ, or by the mean of
    the pulls on their quantiles where these have no δ of their own."""
    if traces is None:
        scatter(weights.critic[column], weights.active, alpha, pull)
        total = alpha * mean(pull)
    else:
        weight = weight_now(traces, weights.active, column, alpha)
        scatter(weights.critic[column], weights.active, alpha * weight, pull)
        value = mean(weights.numbers[column])
        whole = mean(pull) if rule in BY_OWN_PULLS and pull.shape[0] > 1 else delta
        total = alpha * weight * mean(pull)
        total += look_back(traces, weights.active, column, weights.critic, alpha, whole, value, weight)
    if level is not None:
        columns, features, _ = weights.critic.shape
        level.mean[0] += total * weights.active.shape[0] ** 2 / (columns * features)


@merged
def actor_critic(
    rule: int, weights: Weights, rewards: RewardEstimate, work: Workspace, schedule: Schedule, policy_ratio: float,
    tiling: Tiling, room: Room, scale: Scale | None, average: AverageSteps | None, level: Level | None, optimism: Optimism | None,
    traces: Traces | None, clock: int, action: int, reward: float, next_point: Floats, masked: bool,
) -> float:  # fmt: skip
    """Estimate v(S), bootstrap v(S′); then w, then u with the probabilities A was drawn from; S′ becomes S."""
    look_ahead(ACTOR_CRITIC, weights, tiling, room, next_point)
    bootstrap = nothing_follows(rule, rewards, work) if masked else room.numbers[0]
    look_at(rule, scale, rewards, reward, masked, work.lost_divisor, False)
    steps = steps_on_tiles(rule, scale, schedule, average, rewards.units, clock, True)
    delta = apply_on_tiles(rule, average, level, rewards, reward, bootstrap, weights.numbers[0], steps, work)
    move_values(rule, weights, level, traces, work.pull, 0, steps.value, delta)
    error = delta
    if scale is not None:
        see_error(rewards.units, delta)
        by_bonus = 0.0  # what the bonus adds to δ, in units of return
        if optimism is not None:
            by_bonus = bonus_now(optimism, rewards) * lower_bonus(optimism, weights.active, room.next_active, 0, 0)
        error = in_unexplained_units(delta, by_bonus, rewards.units)
        error = min(max(error, -LARGEST_ERROR), LARGEST_ERROR)
    change = policy_ratio * steps.value * error
    chances = room.chances
    for a in range(chances.shape[0]):
        chances[a] = (1.0 if a == action else 0.0) - chances[a]  # ∇ ln π(A|S) on every active feature
    scatter(weights.actor, weights.active, change, chances)
    if traces is not None:
        look_back_at_choices(traces, chances, weights.actor, change)
        if masked:  # nothing after an end says anything about what was before it
            traces.clock[KEPT] = 0
    arrive(ACTOR_CRITIC, weights, room, work.pull, traces, 0, steps.value)
    return delta


@merged
def tile_q(
    rule: int, weights: Weights, rewards: RewardEstimate, work: Workspace, schedule: Schedule, tiling: Tiling, room: Room,
    scale: Scale | None, average: AverageSteps | None, level: Level | None, optimism: Optimism | None, traces: Traces | None,
    reference: Reference | None, clock: int, action: int, reward: float, next_point: Floats, masked: bool, kind: int,
    epsilon: float, generator: Generator,
) -> int:  # fmt: skip
    """Estimate q(S, A); bootstrap q(S′, a*), q(S′, A′) or the ε-greedy average of q(S′, ·); then w; S′ becomes S.

    Returns A′ where the bootstrap needs it (Sarsa chooses it before w moves), otherwise −1.
    """
    look_ahead(TILE_Q, weights, tiling, room, next_point)
    here, there = weights.scores, room.scores  # what actions at S and S′ are chosen by
    if optimism is not None:
        add_bonus(optimism, rewards, room.next_active, room.scores, optimism.next_scores)
        here, there = optimism.scores, optimism.next_scores
    following = epsilon_greedy(there, epsilon, generator) if kind == SAMPLED else -1
    best = greedy(there) if kind == GREEDY else max(following, 0)
    bootstrap = nothing_follows(rule, rewards, work) if masked else room.numbers[best]
    if kind == EXPECTED and not masked:
        work.ahead[0] = epsilon_greedy_mean(room.scores, epsilon)
        bootstrap = work.ahead
    look_at(rule, scale, rewards, reward, masked, work.lost_divisor, False)
    follows = average is not None and action == greedy(weights.scores)
    steps = steps_on_tiles(rule, scale, schedule, average, rewards.units, clock, follows)
    if traces is not None and kind == GREEDY and here[action] < here[greedy(here)]:
        traces.clock[KEPT] = 0  # Q-learning learns of the best actions, and this one is another (Watkins)
    delta = apply_on_tiles(rule, average, level, rewards, reward, bootstrap, weights.numbers[action], steps, work)
    move_values(rule, weights, level, traces, work.pull, action, steps.value, delta)
    if traces is not None and masked:
        traces.clock[KEPT] = 0
    if optimism is not None:
        next_best = best if kind != EXPECTED else greedy(optimism.next_scores)
        lower_bonus(optimism, weights.active, room.next_active, action, next_best)
    if reference is not None:
        rewards.theta[0] = reference_value(weights, reference, rewards.theta[0], steps.value, work.pull[0])
    arrive(TILE_Q, weights, room, work.pull, traces, action, steps.value)
    if optimism is not None:
        add_bonus(optimism, rewards, weights.active, weights.scores, optimism.scores)
    return following


@compiled
def reference_value(weights: Weights, reference: Reference, f: float, alpha: float, pull: float) -> float:
    """f(Q) of RVI, which was `f`, after K weights of one action moved by α · pull: of a pair, or the mean, in which every feature
    of every action has the same share."""
    columns, features, _ = weights.critic.shape
    count = weights.active.shape[0]
    if reference.kind[0] == MEAN:
        return f + count * count * alpha * pull / (features * columns)
    return gather_column(weights.critic[reference.kind[1]], reference.active, 0)
