"""Peers of the Planner over a whole life, written plainly: four published algorithms and plain posterior sampling.

Each takes the steps of the world itself (`finite_world.step`) and gives its mean reward since the first step at some moments.
What differs from the paper stands in the docstring of each. Common to those that plan: a plan is relative value iteration that
starts from the last plan's values, and planning may read CREDIT numbers and BUDGET more per step of the life, so that a life of a
million steps ends; while that is used up, the last policy stays. It binds where there are many states (tickets, courier, taxi).

python benchmarks/life/peers.py    checks each in worlds whose answer is known
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from perstep import FiniteMDP
from perstep.mdp.sampler import start, step
from perstep.numerics.randomness import make_generator, normal, uniform

MOMENTS = (*(digit * 10**power for power in range(2, 6) for digit in (1, 2, 5)), 1_000_000)
"""Steps after which the mean reward of the life so far is noted."""

BUDGET = 50_000  # numbers that planning may read per step of the life
CREDIT = 2_000_000_000  # and at first
TOLERANCE = 1e-4  # of a plan: how far its gain may be from the optimum of the model, in ranges of the rewards
MOST_SWEEPS = 1_000
MOST_READ = 20_000_000  # in the improving sweeps of a plan, but at least LEAST_SWEEPS
LEAST_SWEEPS = 100
EVALUATIONS = 20  # sweeps with the policy of the last sweep after each that improves it (modified policy iteration)
MOVE = 0.8  # share of a sweep's change that is made, so that periodic models converge (Puterman 1994, Sec. 8.5.4)
STICKS = 8  # states that the unseen part of a transition may be spread over in one draw
CONFIDENCE = 0.05  # δ
LEAST_SPREAD = 1e-9  # of the prior of a mean reward: while all rewards are equal, ties are broken at random
MASS = 1.0  # of the prior of each pair's transitions, in visits

plain = numba.njit(cache=True, nogil=True, error_model="numpy")


# ----------------------------------------------------------------------------------------------------- what was seen


class Seen(NamedTuple):
    """Counts of a life; K is the most next states that a pair can have."""

    visits: Any  # (S, A)
    total: Any  # (S, A), sum of the rewards
    squares: Any  # (S, A), sum of their squares
    width: Any  # (S, A), number of next states seen
    next_state: Any  # (S, A, K)
    count: Any  # (S, A, K)
    rewards: Any  # (3,): number, sum and sum of squares of all rewards


class Model(NamedTuple):
    """A model to plan in."""

    reward: Any  # (S, A)
    width: Any  # (S, A), number of outcomes
    next_state: Any  # (S, A, L)
    chance: Any  # (S, A, L)


class Plan(NamedTuple):
    """The last plan."""

    value: Any  # (S,)
    draft: Any  # (S,)
    action: Any  # (S,); -1 where there is none


def nothing_seen(mdp: FiniteMDP) -> Seen:
    """No counts yet."""
    shape, most = (mdp.num_states, mdp.num_actions), int((mdp.outcomes.probability > 0.0).sum(axis=2).max())
    return Seen(
        np.zeros(shape, np.int64),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape, np.int32),
        np.zeros((*shape, most), np.int32),
        np.zeros((*shape, most), np.int32),
        np.zeros(3),
    )


def no_model(seen: Seen) -> Model:
    """Room for a model."""
    *shape, most = seen.count.shape
    outcomes = (*shape, most + STICKS)
    return Model(np.zeros(shape), np.zeros(shape, np.int32), np.zeros(outcomes, np.int32), np.zeros(outcomes))


def no_plan(num_states: int) -> Plan:
    """Room for a plan."""
    return Plan(np.zeros(num_states), np.zeros(num_states), np.full(num_states, -1))


@plain
def observe(seen, state, action, reward, to):
    """Count one transition."""
    seen.visits[state, action] += 1
    seen.total[state, action] += reward
    seen.squares[state, action] += reward * reward
    seen.rewards[0] += 1.0
    seen.rewards[1] += reward
    seen.rewards[2] += reward * reward
    width = seen.width[state, action]
    for k in range(width):
        if seen.next_state[state, action, k] == to:
            seen.count[state, action, k] += 1
            return
    seen.next_state[state, action, width] = to
    seen.count[state, action, width] = 1
    seen.width[state, action] = width + 1


# ----------------------------------------------------------------------------------------------------------- planning


@plain
def gamma(shape, generator):
    """A gamma number with scale 1 (Marsaglia & Tsang 2000)."""
    if shape < 1.0:
        return gamma(shape + 1.0, generator) * (1.0 - uniform(generator)) ** (1.0 / shape)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(generator)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - uniform(generator)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


@plain
def draw_pair(seen, model, state, action, states, known, mass, centre, spread, generator):
    """Draw a pair's transitions and mean reward from their posterior; returns the numbers read.

    Transitions: Dirichlet, with `mass` spread evenly over `known` states, drawn exactly as a Dirichlet process by its sticks
    (Sethuraman 1994), whose number is cut. Reward: normal, the prior as one visit that earned `centre` with deviation `spread`.
    """
    width = seen.width[state, action]
    whole = 0.0
    for k in range(width):
        model.next_state[state, action, k] = seen.next_state[state, action, k]
        model.chance[state, action, k] = gamma(float(seen.count[state, action, k]), generator)
        whole += model.chance[state, action, k]
    unseen = gamma(mass, generator)
    whole += unseen
    for k in range(width):
        model.chance[state, action, k] /= whole
    left, outcomes = unseen / whole, width
    for stick in range(STICKS):
        part = left
        if stick < STICKS - 1 and left > 1e-4:
            part = left * (1.0 - (1.0 - uniform(generator)) ** (1.0 / mass))
        model.next_state[state, action, outcomes] = states[int(uniform(generator) * known)]
        model.chance[state, action, outcomes] = part
        outcomes += 1
        left -= part
        if left <= 0.0:
            break
    model.width[state, action] = outcomes
    n, total = float(seen.visits[state, action]), seen.total[state, action]
    centred = seen.squares[state, action] - 2.0 * centre * total + n * centre * centre  # Σ(r − centre)²
    shift = (total - n * centre) / (1.0 + n)
    variance = max(spread * spread + centred - (1.0 + n) * shift * shift, 0.0) / (1.0 + n)
    model.reward[state, action] = centre + shift + math.sqrt(variance / (1.0 + n)) * normal(generator)
    return 20 * outcomes + 40


@plain
def back_up(model, value, state, action):
    """r + Σ p v of a pair."""
    total = model.reward[state, action]
    for k in range(model.width[state, action]):
        total += model.chance[state, action, k] * value[model.next_state[state, action, k]]
    return total


@plain
def solve(model, plan, states, known):
    """Modified relative value iteration over the known states, until the gain is known to TOLERANCE; returns the numbers read."""
    lowest, highest, read = math.inf, -math.inf, 0
    for i in range(known):
        for action in range(model.reward.shape[1]):
            lowest = min(lowest, model.reward[states[i], action])
            highest = max(highest, model.reward[states[i], action])
            read += model.width[states[i], action]
    done, value, draft = 0, plan.value, plan.draft
    for _ in range(min(MOST_SWEEPS, max(LEAST_SWEEPS, MOST_READ // read))):
        least, most = math.inf, -math.inf
        for i in range(known):
            state = states[i]
            best, chosen = -math.inf, 0
            for action in range(model.reward.shape[1]):
                worth = back_up(model, value, state, action)
                if worth > best:
                    best, chosen = worth, action
            plan.action[state] = chosen
            change = best - value[state]
            least, most = min(least, change), max(most, change)
            draft[state] = value[state] + MOVE * change
        take_over(value, draft, states, known)
        done += read
        if most - least <= TOLERANCE * (highest - lowest):
            break
        for _ in range(EVALUATIONS):
            for i in range(known):
                state = states[i]
                draft[state] = value[state] + MOVE * (back_up(model, value, state, plan.action[state]) - value[state])
            take_over(value, draft, states, known)
        done += EVALUATIONS * read // model.reward.shape[1]
    return done


@plain
def take_over(value, draft, states, known):
    """The new values, relative to those of the first state."""
    first = draft[states[0]]
    for i in range(known):
        value[states[i]] = draft[states[i]] - first


@plain
def prior_of_rewards(seen):
    """Mean and deviation of all rewards so far."""
    n = max(seen.rewards[0], 1.0)
    centre = seen.rewards[1] / n
    return centre, math.sqrt(max(seen.rewards[2] / n - centre * centre, LEAST_SPREAD**2))


# ------------------------------------------------------------------------------------------------- posterior sampling


@plain
def _posterior_sampling(world, generator, seen, model, plan, before, states, position, moments, earned):
    num_actions = seen.visits.shape[1]
    state, known, total, noted = start(world, generator), 0, 0.0, 0
    read, due = 0.0, True
    for t in range(moments[-1]):
        if position[state] < 0:
            position[state], states[known] = known, state
            known += 1
            due = True
        if due and read <= CREDIT + BUDGET * float(t):
            due = False
            centre, spread = prior_of_rewards(seen)
            for i in range(known):
                for action in range(num_actions):
                    before[states[i], action] = seen.visits[states[i], action]
                    read += draw_pair(seen, model, states[i], action, states, known, MASS, centre, spread, generator)
            read += solve(model, plan, states, known)
        action = plan.action[state]
        if action < 0:
            action = int(uniform(generator) * num_actions)
        reward, to = step(world, state, action, generator)
        observe(seen, state, action, reward, to)
        due = due or seen.visits[state, action] >= 2 * before[state, action]
        total += reward
        state = to
        if t + 1 == moments[noted]:
            earned[noted] = total / (t + 1)
            noted += 1


def posterior_sampling(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """PS: act by the optimum of a model drawn from the posterior, until the visits of a pair have doubled (Strens 2000).

    States are those met so far. A pair's transitions are Dirichlet, the counts plus one visit spread over the states met; its mean
    reward is normal, the prior as one visit with the mean and the deviation of all rewards so far. Nothing is known beforehand. A
    new plan is made when the visits of a pair have doubled or a state is new.
    """
    moments = moments_until(steps)
    earned, seen = np.full(moments.size, np.nan), nothing_seen(mdp)
    states, position = np.zeros(mdp.num_states, np.int64), np.full(mdp.num_states, -1)
    _posterior_sampling(
        mdp.world, make_generator(seed), seen, no_model(seen), no_plan(mdp.num_states), np.zeros_like(seen.visits), states,
        position, moments, earned,
    )  # fmt: skip
    return earned


# --------------------------------------------------------------------------------------------------------------- TSDE


@plain
def _tsde(world, generator, seen, model, plan, before, states, mass, known_range, centre, spread, moments, earned):
    num_states, num_actions = seen.visits.shape
    state, total, noted = start(world, generator), 0.0, 0
    read, doubled, begin, last = 0.0, True, 0, 0
    for t in range(moments[-1]):
        if (doubled or t > begin + last) and read <= CREDIT + BUDGET * float(t):
            doubled, last, begin = False, t - begin, t
            if not known_range:
                centre, spread = prior_of_rewards(seen)
            for s in range(num_states):
                for action in range(num_actions):
                    before[s, action] = seen.visits[s, action]
                    read += draw_pair(seen, model, s, action, states, num_states, mass, centre, spread, generator)
            read += solve(model, plan, states, num_states)
        action = plan.action[state]
        reward, to = step(world, state, action, generator)
        observe(seen, state, action, reward, to)
        doubled = doubled or seen.visits[state, action] > 2 * before[state, action]
        total += reward
        state = to
        if t + 1 == moments[noted]:
            earned[noted] = total / (t + 1)
            noted += 1


def tsde(mdp: FiniteMDP, steps: int, seed: int, mass: float = MASS, known_range: bool = True) -> np.ndarray:
    """TSDE: Thompson sampling with dynamic episodes (Ouyang, Gagrani, Nayyar & Jain 2017).

    A model is drawn when the visits of a pair have more than doubled since the last draw, or when the episode is longer than the
    one before it. The prior of a pair's transitions is Dirichlet with `mass` in all, spread evenly over all states of the world.
    Deviations: the paper leaves the prior open and its experiments know the rewards; here rewards are normal, the prior as one
    visit that earned the middle of the range of rewards, its half as deviation. The range is known, like [0, 1] there.
    Its experiments give 0.1 to each state; a mass of 1 in all is .1 each for ten states, and does not grow with the world.
    """
    moments = moments_until(steps)
    earned, seen, (low, high) = np.full(moments.size, np.nan), nothing_seen(mdp), reward_range(mdp)
    _tsde(
        mdp.world, make_generator(seed), seen, no_model(seen), no_plan(mdp.num_states), np.zeros_like(seen.visits),
        np.arange(mdp.num_states), mass, known_range, 0.5 * (low + high), 0.5 * (high - low), moments, earned,
    )  # fmt: skip
    return earned


def tsde_narrow(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """TSDE with a tenth of the mass: most transitions are believed at the first visit."""
    return tsde(mdp, steps, seed, mass=0.1)


def tsde_modest(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """TSDE that does not know the range: the prior of a mean reward is one visit with the mean and deviation of all so far."""
    return tsde(mdp, steps, seed, known_range=False)


# ------------------------------------------------------------------------------------------------------------- UCRL2B


@plain
def _optimistic_sweep(seen, low, scale, value, draft, action_of, order, chance):
    """One sweep of extended value iteration; returns the span of the change and the numbers read."""
    num_states, num_actions = seen.visits.shape
    least, most, read = math.inf, -math.inf, 14 * num_states
    for s in range(num_states):
        best, chosen = -math.inf, 0
        for a in range(num_actions):
            n = float(seen.visits[s, a])
            if n == 0.0:
                worth = 1.0 + value[order[0]]
            else:
                log = math.log(6.0 * num_states * num_actions * n / CONFIDENCE)
                mean = (seen.total[s, a] / n - low) / scale
                second = (seen.squares[s, a] - 2.0 * low * seen.total[s, a] + n * low * low) / (n * scale * scale)
                variance = max(second - mean * mean, 0.0)
                worth = min(1.0, mean + 2.0 * math.sqrt(variance * log / n) + 6.0 * log / n)
                # Each probability at its lower bound, then the rest to the best states, each up to its upper bound.
                left = 1.0
                for k in range(seen.width[s, a]):
                    p = seen.count[s, a, k] / n
                    chance[seen.next_state[s, a, k]] = p
                    lower = max(0.0, p - 2.0 * math.sqrt(p * (1.0 - p) * log / n) - 6.0 * log / n)
                    worth += lower * value[seen.next_state[s, a, k]]
                    left -= lower
                for i in range(num_states):
                    p = chance[order[i]]
                    radius = 2.0 * math.sqrt(p * (1.0 - p) * log / n) + 6.0 * log / n
                    more = min(left, min(1.0, p + radius) - max(0.0, p - radius))
                    worth += more * value[order[i]]
                    left -= more
                    read += 1
                    if left <= 1e-12:
                        break
                for k in range(seen.width[s, a]):
                    chance[seen.next_state[s, a, k]] = 0.0
            read += 2 * seen.width[s, a] + 1
            if worth > best:
                best, chosen = worth, a
        action_of[s] = chosen
        change = best - value[s]
        least, most = min(least, change), max(most, change)
        draft[s] = value[s] + 0.9 * change
    first = draft[0]
    for s in range(num_states):
        value[s] = draft[s] - first
    return most - least, read


@plain
def _ucrl2b(world, generator, seen, plan, before, low, scale, chance, moments, earned):
    num_states, num_actions = seen.visits.shape
    state, total, noted = start(world, generator), 0.0, 0
    read, doubled = 0.0, True
    for t in range(moments[-1]):
        if doubled and read <= CREDIT + BUDGET * float(t):
            doubled = False
            for s in range(num_states):
                for action in range(num_actions):
                    before[s, action] = seen.visits[s, action]
            for _ in range(MOST_SWEEPS):
                order = np.argsort(-plan.value)
                span, numbers = _optimistic_sweep(seen, low, scale, plan.value, plan.draft, plan.action, order, chance)
                read += numbers
                if span < 1.0 / math.sqrt(t + 1.0):
                    break
        action = plan.action[state]
        reward, to = step(world, state, action, generator)
        observe(seen, state, action, reward, to)
        doubled = doubled or seen.visits[state, action] >= before[state, action] + max(1, before[state, action])
        total += reward
        state = to
        if t + 1 == moments[noted]:
            earned[noted] = total / (t + 1)
            noted += 1


def ucrl2b(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """UCRL2B: optimism over empirical Bernstein intervals, extended value iteration (Fruit, Pirotta & Lazaric 2020).

    An episode ends when the visits of a pair double. Intervals: 2 √(σ̂² ln(6SAn/δ)/n) + 6 ln(6SAn/δ)/n around each transition
    probability and each mean reward, rewards scaled to [0, 1] by the known range. δ = .05. Deviations: extended value iteration
    starts from the last values, makes 0.9 of each change and at most MOST_SWEEPS sweeps; accuracy 1/√t as in UCRL2.
    """
    moments = moments_until(steps)
    earned, seen, (low, high) = np.full(moments.size, np.nan), nothing_seen(mdp), reward_range(mdp)
    _ucrl2b(
        mdp.world, make_generator(seed), seen, no_plan(mdp.num_states), np.zeros_like(seen.visits), low, high - low,
        np.zeros(mdp.num_states), moments, earned,
    )  # fmt: skip
    return earned


# ------------------------------------------------------------------------------------------------------- model-free


@plain
def _optimistic_q(world, generator, q, bounded, visits, horizon, bonus, low, scale, steps):
    """The mean reward of a life of `steps`."""
    num_actions = q.shape[1]
    state, total, discount = start(world, generator), 0.0, 1.0 - 1.0 / horizon
    for _ in range(steps):
        action = 0
        for a in range(1, num_actions):
            if bounded[state, a] > bounded[state, action]:
                action = a
        reward, to = step(world, state, action, generator)
        visits[state, action] += 1
        n = float(visits[state, action])
        best = bounded[to, 0]
        for a in range(1, num_actions):
            best = max(best, bounded[to, a])
        target = (reward - low) / scale + discount * best + bonus * math.sqrt(horizon / n)
        q[state, action] += (horizon + 1.0) / (horizon + n) * (target - q[state, action])
        bounded[state, action] = min(bounded[state, action], q[state, action])
        total += reward
        state = to
    return total / steps


def optimistic_q(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """Optimistic Q-learning for the average reward (Wei, Jafarnia-Jahromi, Luo, Sharma & Jain 2020, Alg. 1), constants as proven.

    Steps (H + 1)/(H + n), bonus 4 sp(v*) √(H ln(2T/δ)/n), H = min{√(sp(v*) T/(SA)), (T/(SA ln(4T/δ)))^⅓}, at least 2, δ = .05,
    rewards scaled to [0, 1] by the known range. The true span of v* is given to it, as in the paper. H depends on the length T of
    the life, so each moment is the end of a life of its own.
    """
    size, span = mdp.num_states * mdp.num_actions, value_span(mdp)

    def constants(length: int) -> tuple[float, float]:
        horizon = min(
            math.sqrt(span * length / size), (length / (size * math.log(4.0 * length / CONFIDENCE))) ** (1 / 3)
        )
        return max(2.0, horizon), 4.0 * span * math.sqrt(math.log(2.0 * length / CONFIDENCE))

    return _lives_of_optimistic_q(mdp, steps, seed, constants)


def optimistic_q_tuned(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """The same with the constants of the paper's experiments: discount .99 (H = 100) and bonus √(H/n)."""
    return _lives_of_optimistic_q(mdp, steps, seed, lambda _: (100.0, 1.0))


def _lives_of_optimistic_q(
    mdp: FiniteMDP, steps: int, seed: int, constants: Callable[[int], tuple[float, float]]
) -> np.ndarray:
    (low, high), lives = reward_range(mdp), []
    shape = (mdp.num_states, mdp.num_actions)
    for length in moments_until(steps).tolist():
        horizon, bonus = constants(length)
        tables = np.full(shape, horizon), np.full(shape, horizon), np.zeros(shape, np.int64)
        lives.append(_optimistic_q(mdp.world, make_generator(seed), *tables, horizon, bonus, low, high - low, length))
    return np.array(lives)


@plain
def _differential_q(world, generator, q, epsilon, alpha, eta, moments, earned):
    num_actions = q.shape[1]
    state, total, noted, average = start(world, generator), 0.0, 0, 0.0
    for t in range(moments[-1]):
        best, ties = 0, 1
        for a in range(1, num_actions):
            if q[state, a] > q[state, best]:
                best, ties = a, 1
            elif q[state, a] == q[state, best]:
                ties += 1
                if uniform(generator) * ties < 1.0:
                    best = a
        action = int(uniform(generator) * num_actions) if uniform(generator) < epsilon else best
        reward, to = step(world, state, action, generator)
        highest = q[to, 0]
        for a in range(1, num_actions):
            highest = max(highest, q[to, a])
        delta = reward - average + highest - q[state, action]
        q[state, action] += alpha * delta
        average += eta * alpha * delta
        total += reward
        state = to
        if t + 1 == moments[noted]:
            earned[noted] = total / (t + 1)
            noted += 1


def differential_q(mdp: FiniteMDP, steps: int, seed: int) -> np.ndarray:
    """ε-greedy Differential Q-learning (Wan, Naik & Sutton 2021): ε = .1, α = .1 constant, η = 1, table and R̄ from 0."""
    moments = moments_until(steps)
    earned = np.full(moments.size, np.nan)
    table = np.zeros((mdp.num_states, mdp.num_actions))
    _differential_q(mdp.world, make_generator(seed), table, 0.1, 0.1, 1.0, moments, earned)
    return earned


# ------------------------------------------------------------------------------------------------------------------ all


PEERS: dict[str, Callable[[FiniteMDP, int, int], np.ndarray]] = {
    "ps": posterior_sampling,
    "tsde": tsde,
    "tsde-narrow": tsde_narrow,
    "tsde-modest": tsde_modest,
    "ucrl2b": ucrl2b,
    "optimistic-q": optimistic_q,
    "optimistic-q-tuned": optimistic_q_tuned,
    "epsilon-greedy": differential_q,
}


def moments_until(steps: int) -> np.ndarray:
    """The moments up to a number of steps, and that number."""
    return np.array(sorted({moment for moment in MOMENTS if moment < steps} | {steps}))


def reward_range(mdp: FiniteMDP) -> tuple[float, float]:
    """The lowest and the highest reward; for normal rewards three deviations from the mean."""
    outcomes = mdp.outcomes
    possible = outcomes.probability > 0.0
    low, high = (outcomes.mean - 3.0 * outcomes.sd)[possible], (outcomes.mean + 3.0 * outcomes.sd)[possible]
    return float(low.min()), float(min(high.max(), outcomes.cap))


def value_span(mdp: FiniteMDP) -> float:
    """sp(v*) over the states that can be reached, with rewards scaled to [0, 1]."""
    low, high = reward_range(mdp)
    values = np.asarray(mdp.solve().action_values).max(axis=1)
    return float((np.nanmax(values) - np.nanmin(values)) / (high - low))


def check_planning() -> None:
    """The plan in the true model is the optimum, and so is an optimistic one after so many visits that its intervals vanish."""
    from perstep.worlds.random_mdps import garnet

    mdp, visits = garnet(12, 3, 3, 1), 10**9
    best, seen = mdp.solve().average_reward, nothing_seen(mdp)
    model, (low, high) = no_model(seen), reward_range(mdp)
    possible = mdp.outcomes.probability > 0.0
    for s, a, k in np.argwhere(possible).tolist():
        width = int(seen.width[s, a])
        chance, to = mdp.outcomes.probability[s, a, k], mdp.outcomes.next_state[s, a, k]
        seen.next_state[s, a, width] = model.next_state[s, a, width] = to
        seen.count[s, a, width], model.chance[s, a, width] = round(visits * chance), chance
        seen.width[s, a] = model.width[s, a] = width + 1
    seen.visits[:], model.reward[:] = visits, mdp.expected_rewards
    seen.total[:], seen.squares[:] = visits * mdp.expected_rewards, visits * mdp.expected_rewards**2
    plan, optimistic = no_plan(12), no_plan(12)
    solve(model, plan, np.arange(12), 12)
    for _ in range(300):
        order = np.argsort(-optimistic.value)
        _optimistic_sweep(
            seen, low, high - low, optimistic.value, optimistic.draft, optimistic.action, order, np.zeros(12)
        )
    for name, made in (("plan", plan), ("optimistic plan", optimistic)):
        gain = mdp.evaluate(made.action).average_reward
        print(f"{name:20} {gain:.9f}, optimum {best:.9f}")
        assert best - gain < 1e-4, name
    generator = make_generator(0)
    for shape in (0.1, 1.0, 7.5):
        draws = np.array([gamma(shape, generator) for _ in range(50_000)])
        assert abs(draws.mean() - shape) < 5.0 * math.sqrt(shape / draws.size), shape
        assert abs(draws.var() / shape - 1.0) < 0.15, shape


def main() -> None:
    """Lives of 20,000 steps in two states, of which staying in the second earns 1, and in a Garnet world, which is shown only."""
    check_planning()
    from perstep.worlds.random_mdps import garnet

    transitions = np.broadcast_to(np.eye(2), (2, 2, 2))  # the action is the next state
    two_states = FiniteMDP(transitions, np.array([[0.0, 0.0], [0.0, 1.0]]), initial=np.array([1.0, 0.0]))
    random_world = garnet(5, 2, 2, 0, reward_sd=0.1)
    best = random_world.solve().average_reward
    # 1 is the optimum. ε-greedy leaves in one of 20 steps, and returns in the next. The bonuses of the others last longer.
    least = {"epsilon-greedy": 0.85, "ucrl2b": 0.95, "optimistic-q": 0.0, "optimistic-q-tuned": 0.8}
    for name, peer in PEERS.items():
        first, second = peer(two_states, 20_000, 0)[-1], peer(random_world, 20_000, 0)[-1]
        print(f"{name:20} two states {first:.4f} of 1, Garnet {second:.4f} of {best:.4f}", flush=True)
        assert least.get(name, 0.99) <= first <= 1.0, name


if __name__ == "__main__":
    main()
