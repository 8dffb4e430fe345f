"""Exact solutions of a known finite MDP: what the paper's algorithms estimate (Sec. 3.1 and 4, App. B).

A policy turns the MDP into a Markov chain. If the chain has a single closed class of states (the unichain assumption), its
stationary distribution gives the average reward and the limiting distribution of the reward per step, and one linear system
gives the differential values. Control needs a communicating MDP; policy iteration then finds the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.config import count
from perstep.distribution import Distribution, Floats
from perstep.environments.finite_world import make_world
from perstep.environments.outcomes import Outcomes, expected_rewards, normalised_initial, transition_matrix
from perstep.environments.reward_sums import centred_rewards, simulated_sums, sum_moments
from perstep.forecast import Forecast
from perstep.randomness import make_generator

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
Policy = ArrayLike | Callable[[int], Any]
"""Actions (S,), probabilities (S, A), or a function from a state to an action or to probabilities (A,)."""

DENSE_UP_TO = 1000  # states; LAPACK up to here, a sparse factorisation above, where states usually have few successors
WARM_UP_SWEEPS = 100  # of value iteration before the first linear system; they save most rounds of policy iteration
IMPROVEMENT = 1e-13  # relative to the values; a smaller advantage is a rounding error
TIE = 1e-10  # relative to the values; actions that differ by less are equally good
ROUNDING = 1e-14  # relative to the values; rounding error of their sums
CERTIFICATE = 1e-10  # relative to the rewards; tolerance within which the gain must be proven optimal


class NotUnichain(ValueError):
    """The policy's Markov chain has several closed classes, so the average reward depends on the first state."""


class NotCommunicating(ValueError):
    """The MDP has parts that a policy can stay in and that do not communicate, so the optimum can depend on the first state."""


@final
@dataclass(frozen=True, eq=False)
class PolicyEvaluation:
    """The exact long-run average reward, values and reward distribution of a policy."""

    average_reward: float
    """r̄, the long-run average reward per step."""
    stationary: Floats
    """μ, the long-run fraction of steps in each state. (S,)"""
    state_values: Floats
    """Differential values v with μ·v = 0; NaN for states that were not evaluated. (S,)"""
    action_values: Floats
    """q(s, a) = r(s, a) − r̄ + Σ p(s′ | s, a) v(s′); NaN for states that were not evaluated. (S, A)"""
    reward_distribution: Distribution
    """The limiting distribution of the reward per step, the paper's φ."""
    policy: Floats
    """The probability of each action in each state, including exploration. (S, A)"""
    outcomes: Outcomes = field(repr=False)
    """The world: what can follow each state and action."""

    @cached_property
    def asymptotic_variance(self) -> float:
        """σ², the variance of the sum of the next H rewards, divided by H, for large H.

        It is the mean of δ² with δ = R − r̄ + v(S′) − v(S) (Poisson equation), so it includes all correlations between steps.
        """
        means, variances = centred_rewards(self.outcomes, self.average_reward)
        values = np.nan_to_num(self.state_values)  # states that were not evaluated have the weight 0
        delta = means + values[self.outcomes.next_state] - values[:, None, None]  # (S, A, K)
        weight = (self.stationary[:, None] * self.policy)[:, :, None] * self.outcomes.probability
        return float((weight * (variances + delta**2)).sum())

    def forecast(
        self,
        num_steps: int,
        start: int | ArrayLike | None = None,
        action: int | None = None,
        *,
        num_paths: int = 0,
        seed: int = 0,
    ) -> Forecast:
        """What the next `num_steps` steps will earn in sum: the exact mean and variance, and normal quantiles.

        `start` is the present state or a distribution (S,) over states; without it, a state that the policy is in after a long
        time. `action` is the first action; without it, that of the policy. For few steps and rewards of few distinct values the
        sum is not normal: `num_paths` simulated paths then give its quantiles.
        """
        steps, paths = count("num_steps", num_steps, 1), count("num_paths", num_paths, 0)
        num_states, num_actions = self.policy.shape
        counted = ~np.isnan(self.state_values)
        first = self.stationary if start is None else _start_distribution(start, num_states)
        if (first[~counted] > 0.0).any():
            raise ValueError(
                f"start must be a state that was evaluated, got state {int(((first > 0.0) & ~counted).argmax())}, from which the "
                "policy was not. Give evaluate the same start."
            )
        if action is not None and (isinstance(action, bool) or action not in range(num_actions)):
            raise ValueError(f"action must be an integer from 0 to {num_actions - 1}, got {action!r}.")
        choice = self.policy if action is None else np.eye(num_actions)[[action] * num_states]
        moments = sum_moments(
            self.outcomes,
            self.policy,
            self.average_reward,
            self.asymptotic_variance,
            counted,
            first[:, None] * choice,
            steps,
        )
        if not paths:
            return Forecast(steps, *moments)
        world = make_world(self.outcomes, first)
        samples = simulated_sums(
            world, self.policy, -1 if action is None else action, steps, paths, make_generator(seed)
        )
        return Forecast(steps, *moments, samples=samples)


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """The exact optimum over all policies."""

    average_reward: float
    """r̄*, the optimal average reward per step."""
    policy: Integers
    """An optimal action in each state. Ties go to the lowest action, unless that gives the chain several closed classes. (S,)"""
    state_values: Floats
    """v(s) = max q(s, ·), with μ·v = 0 for the stationary distribution μ of `policy`; NaN where q is NaN. (S,)"""
    action_values: Floats
    """A solution of q(s, a) = r(s, a) − r̄* + Σ p(s′ | s, a) max q(s′, ·); NaN for states that were not solved. (S, A)"""


def policy_probabilities(policy: Policy, num_states: int, num_actions: int, epsilon: float = 0.0) -> Floats:
    """A policy as probabilities (S, A), mixed with the uniform policy: (1 − ε) π + ε/A. Greedy π gives the ε-greedy policy."""
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must be a probability from 0 to 1, got {epsilon}.")
    if callable(policy):
        choices = [np.asarray(policy(state)) for state in range(num_states)]
        if len({choice.shape for choice in choices}) > 1:
            raise ValueError(
                "A policy function must return an action for every state, or probabilities for every state; got both. "
                "Return one kind."
            )
        given = np.stack(choices)
    else:
        given = np.asarray(policy)
    if given.shape not in ((num_states,), (num_states, num_actions)):
        raise ValueError(
            f"A policy must be actions of shape ({num_states},), probabilities of shape ({num_states}, {num_actions}) or a "
            f"function of the state; got shape {given.shape}. Give one entry for each of the {num_states} states."
        )
    if given.dtype.kind not in "biuf":
        wrong = [entry for entry in given.ravel().tolist() if not isinstance(entry, Real)]
        if wrong:
            raise ValueError(
                f"A policy must consist of numbers, either actions or probabilities, got {wrong[0]!r}. "
                "If it is a function, check what it returns."
            )
        given = given.astype(np.float64)
    table = _one_hot(given, num_actions) if given.ndim == 1 else _normalised_policy(given.astype(np.float64))
    return (1.0 - epsilon) * table + epsilon / num_actions


def _one_hot(actions: NDArray[Any], num_actions: int) -> Floats:
    """Actions (S,) as probabilities. (S, A)"""
    wrong = ~((actions == np.floor(actions)) & (actions >= 0) & (actions < num_actions))
    if wrong.any():
        state = int(wrong.argmax())
        raise ValueError(
            f"The actions of a policy must be integers from 0 to {num_actions - 1}, got {actions[state]} at policy[{state}]. "
            "Number the actions from 0."
        )
    return np.eye(num_actions)[actions.astype(np.int64)]


def _normalised_policy(table: Floats) -> Floats:
    """Probabilities (S, A) with rows that sum to exactly 1. The sums of a float32 policy are off by about 1e-7."""
    total = table.sum(axis=1)
    wrong = ~((table >= 0.0).all(axis=1) & (np.abs(total - 1.0) <= 1e-6))
    if wrong.any():
        state = int(wrong.argmax())
        raise ValueError(
            f"Each row of a policy must hold probabilities, 0 or more, that sum to 1; got policy[{state}] = "
            f"{np.array2string(table[state], threshold=8)} with sum {total[state]:.9g}. Divide each row by its sum."
        )
    return np.asarray(table / total[:, None])


# Markov chains


def closed_classes(chain: csr_array) -> list[Integers]:
    """The closed communicating classes of a chain (S, S): it never leaves such a set, and visits all of it. Sorted."""
    from scipy.sparse.csgraph import connected_components

    number, label = connected_components(chain, directed=True, connection="strong")
    edges = chain.tocoo()
    closed = np.ones(number, dtype=np.bool_)
    closed[label[edges.row][label[edges.row] != label[edges.col]]] = False
    return _grouped(label, closed[label])


def reachable(graph: csr_array, start: Mask) -> Mask:
    """The states that a chain (S, S) can reach from the states in `start`, including these. (S,)"""
    seen, fresh = start.copy(), start
    backwards = graph.T.tocsr()
    while fresh.any():
        fresh = (backwards @ fresh.astype(np.float64) > 0.0) & ~seen
        seen |= fresh
    return seen


def stationary_gain_values(chain: csr_array, rewards: Floats, recurrent: Integers) -> tuple[Floats, float, Floats]:
    """μ, r̄ and v of a chain P (S, S) with rewards r (S,) and one closed class `recurrent`: r̄ + v = r + P v, μ·v = 0.

    One factorisation gives both μ and v: that of I − P without the row and the column of one recurrent state, the anchor.
    """
    num_states = chain.shape[0]
    anchor = _often_visited(chain, recurrent)
    others = np.flatnonzero(np.arange(num_states) != anchor)
    stationary, values = np.zeros(num_states), np.zeros(num_states)
    stationary[anchor] = 1.0
    solve = _factorised(chain[others][:, others])
    # The expected number of visits to each state between two visits to the anchor.
    visits = solve(chain[[anchor]][:, others].toarray()[0], True)
    stationary[others] = np.maximum(visits, 0.0)
    transient = np.ones(num_states, dtype=np.bool_)
    transient[recurrent] = False
    stationary[transient] = 0.0
    stationary /= stationary.sum()
    gain = float(stationary @ rewards)
    values[others] = solve(rewards[others] - gain, False)
    return stationary, gain, values - stationary @ values


def _often_visited(chain: csr_array, recurrent: Integers) -> int:
    """A state to which the chain returns often. With it as the anchor the linear systems are well conditioned."""
    share = np.zeros(chain.shape[0])
    share[recurrent] = 1.0 / recurrent.size
    backwards = chain.T.tocsr()
    for _ in range(64):
        share = 0.5 * (share + backwards @ share)  # averaged, so that periodic chains converge too
    return int(share.argmax())


def _factorised(chain: csr_array) -> Callable[[Floats, bool], Floats]:
    """A function (b, transposed) that solves (I − P) x = b, or x (I − P) = b if transposed."""
    size = chain.shape[0]
    if size == 0:
        return lambda b, transposed: b
    if size <= DENSE_UP_TO:
        from scipy.linalg import lu_factor, lu_solve

        dense = lu_factor(np.eye(size) - chain.toarray())
        return lambda b, transposed: np.asarray(lu_solve(dense, b, trans=1 if transposed else 0))
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    sparse = splu((eye_array(size) - chain).tocsc())
    return lambda b, transposed: np.asarray(sparse.solve(b, trans="T" if transposed else "N"))


# Prediction


def evaluate(
    outcomes: Outcomes, policy: Floats, initial: Floats, start: int | ArrayLike | None = None
) -> PolicyEvaluation:
    """Evaluate a policy (S, A). With `start`, a state or a distribution (S,), only the states reachable from it are evaluated.

    Without `start` all states are evaluated, unless the chain has several closed classes and only one of them is reachable
    from `initial`.
    """
    num_states, num_actions, _ = outcomes.probability.shape
    matrix, rewards = transition_matrix(outcomes), expected_rewards(outcomes)
    chain = _policy_chain(matrix, policy)
    first = None if start is None else _start_distribution(start, num_states) > 0.0
    counted = np.ones(num_states, dtype=np.bool_) if first is None else reachable(chain, first)
    classes = closed_classes(_restricted(chain, counted))
    if len(classes) > 1 and first is None:
        counted = reachable(chain, initial > 0.0)
        classes = closed_classes(_restricted(chain, counted))
    if len(classes) > 1:
        names = _class_names([np.flatnonzero(counted)[members] for members in classes])
        example = int(np.flatnonzero(counted)[classes[0][0]])
        raise NotUnichain(
            "The policy's Markov chain must have one closed class of states, got "
            f"{len(classes)} closed classes: {names}. The average reward depends on which of them is reached, and that depends on "
            + (
                f"the first state. Give start={example}, for example, to evaluate the policy from one state, "
                if first is None
                else "chance. Give a start inside one of them, "
            )
            + "or change the policy (epsilon > 0 often joins the classes)."
        )
    # From here on only the counted states matter, because the chain does not leave them.
    kept = np.flatnonzero(counted)
    mean = (policy * rewards).sum(axis=1)
    stationary, values = np.zeros(num_states), np.full(num_states, np.nan)
    stationary[kept], gain, values[kept] = stationary_gain_values(_restricted(chain, counted), mean[kept], classes[0])
    action_values = rewards - gain + (matrix @ values).reshape(num_states, num_actions)
    action_values[~counted] = np.nan
    return PolicyEvaluation(
        gain, stationary, values, action_values, limiting_rewards(outcomes, policy, stationary), policy, outcomes
    )


def limiting_rewards(outcomes: Outcomes, policy: Floats, stationary: Floats) -> Distribution:
    """φ, the limiting distribution of the reward per step: each outcome is weighted by its long-run frequency."""
    weight = stationary[:, None, None] * policy[:, :, None] * outcomes.probability  # (S, A, K)
    happens = weight > 0.0
    weights = weight[happens]
    return Distribution(weights / weights.sum(), outcomes.mean[happens], outcomes.sd[happens], outcomes.cap)


def _policy_chain(matrix: csr_array, policy: Floats) -> csr_array:
    """P(s′ | s) under a policy (S, A). (S, S)"""
    from scipy.sparse import csr_array

    num_states, num_actions = policy.shape
    state, action = np.nonzero(policy)
    choose = csr_array(
        (policy[state, action], (state, state * num_actions + action)), shape=(num_states, num_states * num_actions)
    )
    return choose @ matrix


def _restricted(chain: csr_array, counted: Mask) -> csr_array:
    return chain if counted.all() else chain[counted][:, counted]


def _start_distribution(start: int | ArrayLike, num_states: int) -> Floats:
    """A state or a distribution over states as a distribution. (S,)"""
    if np.ndim(start) == 1:
        return normalised_initial(start, num_states)
    if np.ndim(start) != 0 or start not in range(num_states):
        raise ValueError(
            f"start must be a state from 0 to {num_states - 1} or a distribution over the {num_states} states, got "
            f"{start!r}. Leave it out to evaluate every state."
        )
    return np.asarray(np.arange(num_states) == start, dtype=np.float64)


# Control


def end_components(matrix: csr_array, num_actions: int) -> list[Integers]:
    """The maximal end components of P (S·A, S): some policy never leaves such a set of states, and visits all of it."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    entries = matrix.tocoo()
    num_states = matrix.shape[1]
    pair, origin, target = entries.row, entries.row // num_actions, entries.col
    allowed = np.ones(matrix.shape[0], dtype=np.bool_)
    while True:
        edge = allowed[pair]
        ones = np.ones(int(edge.sum()))
        graph = csr_array((ones, (origin[edge], target[edge])), shape=(num_states, num_states))
        _, label = connected_components(graph, directed=True, connection="strong")
        leaves = np.zeros_like(allowed)
        leaves[pair[label[origin] != label[target]]] = True
        if not (allowed & leaves).any():
            break
        allowed &= ~leaves
    return _grouped(label, np.asarray(allowed.reshape(num_states, num_actions).any(axis=1)))


def solve(outcomes: Outcomes, initial: Floats) -> Solution:
    """The optimum over all policies; only for the states reachable from `initial` if parts of the MDP do not communicate."""
    num_states, num_actions, _ = outcomes.probability.shape
    matrix, rewards = transition_matrix(outcomes), expected_rewards(outcomes)
    counted = np.ones(num_states, dtype=np.bool_)
    parts = end_components(matrix, num_actions)
    if len(parts) > 1:
        counted = reachable(_any_action(matrix, num_actions), initial > 0.0)
        parts = end_components(*_submodel(matrix, num_actions, counted))
    if len(parts) > 1:
        names = _class_names([np.flatnonzero(counted)[members] for members in parts])
        raise NotCommunicating(
            "The MDP must communicate: from every state that a policy can return to, some policy must reach every other. Got "
            f"{len(parts)} parts that a policy can stay in and that do not communicate: {names}. The optimal average reward "
            "can then depend on the first state. Add transitions between the parts, or give FiniteMDP "
            "an initial distribution that leads to only one of them."
        )
    actions, gain, part_values = _policy_iteration(_submodel(matrix, num_actions, counted)[0], rewards[counted])
    values = np.full(num_states, np.nan)
    values[counted] = part_values
    action_values = rewards - gain + (matrix @ values).reshape(num_states, num_actions)
    action_values[~counted] = np.nan
    policy = np.zeros(num_states, dtype=np.int64)
    policy[counted] = actions
    return Solution(gain, _led_to(counted, policy, matrix), action_values.max(axis=1), action_values)


def optimality_gap(outcomes: Outcomes, action_values: ArrayLike) -> float:
    """sp(Tq − q) with Tq(s, a) = Σ p(s′, r | s, a)(r + max q(s′, ·)): the greedy policy earns at least r̄* minus this."""
    num_states, num_actions, _ = outcomes.probability.shape
    q = np.asarray(action_values, dtype=np.float64)
    if q.shape != (num_states, num_actions):
        raise ValueError(
            f"Action values must have a row for each state and a column for each action, shape {(num_states, num_actions)}, "
            f"got shape {q.shape}."
        )
    known = ~np.isnan(q).all(axis=1)  # `solve` gives NaN for states that are not reachable from `initial`
    difference = expected_rewards(outcomes) + (transition_matrix(outcomes) @ q.max(axis=1)).reshape(q.shape) - q
    if not known.any() or not np.isfinite(difference[known]).all():
        raise ValueError(
            "Action values must be finite to bound the optimality gap, got NaN or infinite values. "
            "If they were learned, use a smaller step size."
        )
    return float(np.ptp(difference[known]))


def _policy_iteration(matrix: csr_array, rewards: Floats) -> tuple[Integers, float, Floats]:
    """Optimal actions (S,), their gain, and values (S,), for an MDP with one end component.

    Haviv & Puterman (1991): if the chain of a policy has several closed classes, the policy is first changed so that every
    state leads to the best class. An action changes only if the advantage is larger than rounding errors. So each iteration
    raises the gain, or keeps the class and raises values outside it, and no policy occurs twice.
    """
    num_states, num_actions = rewards.shape
    states = np.arange(num_states)
    actions = _warm_start(matrix, rewards)
    seen: set[bytes] = set()
    while True:
        actions, recurrent = _one_class(actions, matrix, rewards)
        seen.add(actions.tobytes())
        stationary, gain, values = stationary_gain_values(
            matrix[states * num_actions + actions], rewards[states, actions], recurrent
        )
        q = rewards + (matrix @ values).reshape(num_states, num_actions)
        scale = 1.0 + np.abs(values).max() + np.abs(rewards).max()
        better = q.max(axis=1) > q[states, actions] + IMPROVEMENT * scale
        improved = np.where(better, q.argmax(axis=1), actions)
        if not better.any() or improved.tobytes() in seen:
            break
        actions = improved
    # r̄* is at most this much larger than the gain (Puterman 1994, Theorem 8.5.5).
    shortfall = float((q.max(axis=1) - values).max()) - gain
    tolerance = max(CERTIFICATE * (1.0 + np.abs(rewards).max()), ROUNDING * scale)
    if not shortfall <= tolerance:
        raise ArithmeticError(
            f"The average reward must be proven optimal within {CERTIFICATE:g}, got a proof within {shortfall:.1e} only, because "
            "the probabilities differ by too many orders of magnitude. Make the rarest transitions more likely."
        )
    # Every choice among equally good actions has the gain r̄*. Take the lowest, if the chain then has one closed class.
    lowest = (q >= q.max(axis=1, keepdims=True) - TIE * scale).argmax(axis=1)
    chain = matrix[states * num_actions + lowest]
    if len(classes := closed_classes(chain)) == 1:
        stationary, its_gain, _ = stationary_gain_values(chain, rewards[states, lowest], classes[0])
        if its_gain >= gain - tolerance:  # if the values are huge, actions within TIE may differ
            return lowest, its_gain, values - stationary @ values
    return actions, gain, values


def _warm_start(matrix: csr_array, rewards: Floats) -> Integers:
    values = np.zeros(rewards.shape[0])
    for _ in range(WARM_UP_SWEEPS):
        best = (rewards + (matrix @ values).reshape(rewards.shape)).max(axis=1)
        values = 0.5 * (values + best)  # averaged, so that periodic MDPs converge too
        values -= values[0]
    return np.asarray((rewards + (matrix @ values).reshape(rewards.shape)).argmax(axis=1))


def _one_class(actions: Integers, matrix: csr_array, rewards: Floats) -> tuple[Integers, Integers]:
    """The policy (S,), changed so that every state leads to its best closed class, and that class."""
    num_states, num_actions = rewards.shape
    states = np.arange(num_states)
    chain, mean = matrix[states * num_actions + actions], rewards[states, actions]
    classes = closed_classes(chain)
    if len(classes) == 1:
        return actions, classes[0]
    gains = [stationary_gain_values(chain[c][:, c], mean[c], np.arange(c.size))[1] for c in classes]
    best = classes[int(np.argmax(gains))]
    target = np.zeros(num_states, dtype=np.bool_)
    target[best] = True
    return _led_to(target, actions, matrix), best


def _led_to(target: Mask, actions: Integers, matrix: csr_array) -> Integers:
    """The policy (S,), changed outside `target` so that it reaches `target` from every state from which some policy does."""
    led, actions = target.copy(), actions.copy()
    num_states = target.size
    while True:
        comes = (matrix @ led.astype(np.float64) > 0.0).reshape(num_states, -1)  # (S, A)
        fresh = ~led & comes.any(axis=1)
        if not fresh.any():
            return actions
        keeps = comes[np.arange(num_states), actions]
        actions = np.where(fresh & ~keeps, comes.argmax(axis=1), actions)
        led |= fresh


def _any_action(matrix: csr_array, num_actions: int) -> csr_array:
    """The chain (S, S) of the uniformly random policy: its graph has an edge for every possible transition."""
    num_states = matrix.shape[1]
    return _policy_chain(matrix, np.full((num_states, num_actions), 1.0 / num_actions))


def _submodel(matrix: csr_array, num_actions: int, counted: Mask) -> tuple[csr_array, int]:
    """The MDP restricted to the `counted` states, which no action leaves."""
    return (matrix if counted.all() else matrix[np.repeat(counted, num_actions)][:, counted]), num_actions


# Grouping states, and naming the groups in messages


def _grouped(label: NDArray[Any], kept: Mask) -> list[Integers]:
    """The kept states grouped by label; groups are sorted by their first state."""
    states = np.flatnonzero(kept)
    order = states[np.argsort(label[states], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted((group for group in groups if group.size), key=lambda group: int(group[0]))


def _class_names(classes: Sequence[Integers]) -> str:
    """Text such as "{0, 1} and {4}". Long sets and long lists are shortened."""

    def name(members: Integers) -> str:
        if members.size <= 6:
            return "{" + ", ".join(map(str, members.tolist())) + "}"
        return "{" + ", ".join(map(str, members[:4].tolist())) + f", …, {members[-1]}}} ({members.size} states)"

    shown = [name(members) for members in classes[:4]]
    if len(classes) > 4:
        shown.append(f"{len(classes) - 4} more")
    return ", ".join(shown[:-1]) + " and " + shown[-1]
