"""Exact solutions of a known finite MDP: what the paper's algorithms estimate (Sec. 3.1 and 4, App. B).

A policy turns the MDP into a Markov chain. If the chain has a single closed class of states (the unichain assumption), its
stationary distribution gives the average reward and the limiting distribution of the reward per step, and one linear system
gives the differential values. Control needs a communicating MDP; policy iteration then finds the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias, Union, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.budget import claim
from perstep.config import count, number
from perstep.config.checks import LONGEST_HORIZON
from perstep.distribution import Distribution, Floats
from perstep.environments.finite_world import make_world
from perstep.environments.horizon_returns import (
    pair_transitions,
    return_distribution,
    return_variances,
    state_transitions,
)
from perstep.environments.names import Names
from perstep.environments.outcomes import Outcomes, expected_rewards, normalised_initial, numbers, transition_matrix
from perstep.environments.reward_sums import centred_rewards, simulated_sums, sum_moments
from perstep.environments.sweeps import backup, relax, settle
from perstep.forecast import Forecast
from perstep.progress import Bar
from perstep.randomness import make_generator
from perstep.schedules import is_finite

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
Policy = Union[ArrayLike, Callable[[Any], Any], Mapping[Hashable, Any], "Solution"]
"""Actions (S,), probabilities (S, A), a function from a state to an action or to probabilities (A,), the same as a dictionary, or a
solution. Where states and actions have names, these."""

DENSE_UP_TO = 1000  # states; LAPACK up to here, a sparse factorisation above, where states usually have few successors
THIN_UP_TO = (
    2.5  # bandwidth / √states; a plane has 1. Above, a factorisation has very many entries, and GMRES is tried first
)
GRID_UP_TO = (
    30.0  # the same; up to here an incomplete factorisation helps GMRES. Above, chains usually mix fast without
)
FACTOR_UP_TO = 3e9  # states · bandwidth; above, a sparse factorisation fills the memory
RARE = 1e-6  # relative to the most frequent state; with an anchor that is visited less often, digits are lost
WARM_UP_SWEEPS = 100  # of value iteration before the first linear system; they save most rounds of policy iteration
MOST_WARM_UP = 3000  # sweeps, where value iteration alone is about to reach the tolerance
LONG_WARM_UP = (
    20_000  # sweeps, where policy iteration has not proven its answer within POOR, relative to the rewards ...
)
WARM_UP_WORK = 2e10  # ... but not more than this number of transitions
POOR = 1e-6
PLACE_SWEEPS = 10  # of value iteration in place, up and down, after each linear system of a model that is not small
CLOSE = 0.001  # share of states whose action still changes; below, the optimum may be proven already
MOST_ROUNDS = 100  # of policy iteration for a model that is not small; it needs about five
IMPROVEMENT = 1e-13  # relative to the values; a smaller advantage is a rounding error
TIE = 1e-10  # relative to the values; actions that differ by less are equally good
ROUNDING = 1e-14  # relative to the values; rounding error of their sums
LONGEST_SUM = 2**62  # steps of a forecast
TOLERANCE = 1e-8  # width of the interval within which the optimum should be proven to lie
EPSILON = float(np.finfo(np.float64).eps)
SIMULATED_STEPS, SIMULATED_PATHS = 100, 100_000  # a forecast of so few steps is simulated: at most half a second
TILTS = 10.0 ** np.arange(-13, -5)  # see `_interval`


Optimum = tuple[Integers, float, Floats, tuple[float, float]]
"""Actions (S,), their gain, values (S,), and the interval within which the optimal gain is proven to lie."""


class _SeveralAnswers(ValueError):
    """The answer depends on the first state."""

    def __init__(self, sentence: str, examples: Sequence[int] = ()) -> None:
        super().__init__(sentence)
        self.examples = tuple(examples)  # one state of each part


class NotUnichain(_SeveralAnswers):
    """The policy's Markov chain has several closed classes, so the average reward depends on the first state."""


class NotCommunicating(_SeveralAnswers):
    """The MDP has parts that a policy can stay in and that do not communicate, so the optimum can depend on the first state."""


Start: TypeAlias = Hashable | ArrayLike
"""A state, by its number or its name, or a distribution (S,) over states."""


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
    names: Names = field(repr=False)
    """The names of its states and actions."""

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
        start: Start | None = None,
        action: Hashable = None,
        *,
        num_paths: int | None = None,
        seed: int = 0,
    ) -> Forecast:
        """What the next `num_steps` steps will earn in sum: the exact mean and variance, and quantiles.

        `start` is the present state or a distribution (S,) over states; without it, a state that the policy is in after a long
        time. `action` is the first action; without it, that of the policy. The quantiles are those of `num_paths` simulated paths,
        or with 0 those of a normal distribution. Without it, up to 100 steps are simulated, since their sum may be far from normal.
        """
        steps = count("num_steps", num_steps, 1, LONGEST_SUM)
        if num_paths is None:
            num_paths = SIMULATED_PATHS if steps <= SIMULATED_STEPS else 0
        paths = count("num_paths", num_paths, 0)
        claim(8 * paths, f"a forecast with {paths:,} simulated paths", "Choose a smaller num_paths.")
        seed = count("seed", seed, 0)
        num_states, num_actions = self.policy.shape
        counted = ~np.isnan(self.state_values)
        first = self.stationary if start is None else _start_distribution(self.names.state(start), num_states)
        if (first[~counted] > 0.0).any():
            raise ValueError(
                f"start must be a state that was evaluated, got state {int(((first > 0.0) & ~counted).argmax())}, from which the "
                "policy was not. Give evaluate the same start."
            )
        number = None if action is None else self._action_number(action)
        choice = self.policy if number is None else np.eye(num_actions)[[number] * num_states]
        moments = sum_moments(
            self.outcomes,
            self.policy,
            self.average_reward,
            self.asymptotic_variance,
            self.stationary,
            counted,
            first[:, None] * choice,
            steps,
        )
        if not paths:
            return Forecast(steps, *moments)
        world = make_world(self.outcomes, first)
        samples = simulated_sums(
            world, self.policy, -1 if number is None else number, steps, paths, make_generator(seed)
        )
        return Forecast(steps, *moments, samples=samples)

    def return_variance(self, horizon: float) -> Floats:
        """The variance of the differential return with a horizon, for each state and action; NaN where not evaluated. (S, A)

        It is that of Z = Σ g^t δ_t with g = 1 − 1/horizon and δ = R − r̄ + q(S′, A′) − q(S, A).
        """
        discount = _horizon_discount(horizon)
        nodes = ~np.isnan(self.action_values)
        steps = pair_transitions(self.outcomes, self.policy, self.average_reward, self.action_values, nodes)
        answer = np.full(nodes.shape, np.nan)
        answer[nodes] = return_variances(steps, discount)
        return answer

    def return_distribution(
        self, horizon: float, state: Hashable, action: Hashable = None, *, error: float = 0.01
    ) -> Distribution:
        """The distribution of the differential return with a horizon: q(s, a) + Σ g^t δ_t, g = 1 − 1/horizon.

        Without `action`, that of a state: v(s) + Σ g^t δ_t with δ = R − r̄ + v(S′) − v(S). The answer is a grid; its quantiles
        differ from the exact ones by at most `error` standard deviations in the mean of squares (2-Wasserstein distance).
        """
        discount, error = _horizon_discount(horizon), number("error", error, 0.0, 1.0, above=True)
        counted = ~np.isnan(self.state_values)
        s = self.names.state(state)
        if isinstance(s, bool | np.bool_) or np.ndim(s) or s not in range(counted.size) or not counted[s]:
            raise ValueError(f"state must be a state from 0 to {counted.size - 1} that was evaluated, got {state!r}.")
        if action is None:
            value, nodes = self.state_values[s], counted
            steps = state_transitions(self.outcomes, self.policy, self.average_reward, self.state_values, nodes)
            node = int(np.count_nonzero(nodes[:s]))
        else:
            a = self._action_number(action)
            value, nodes = self.action_values[s, a], counted[:, None] & (self.policy > 0.0)
            nodes[s, a] = True
            steps = pair_transitions(self.outcomes, self.policy, self.average_reward, self.action_values, nodes)
            node = int(np.count_nonzero(nodes.ravel()[: s * nodes.shape[1] + a]))
        variances = return_variances(steps, discount)
        if variances[node] <= ROUNDING * (1.0 + np.abs(steps.shift).max()) ** 2:
            return Distribution([1.0], [value])
        weights, places = return_distribution(steps, discount, node, variances, error)
        return Distribution(weights, value + places)

    def _action_number(self, action: Hashable) -> int:
        found, num_actions = self.names.action(action), self.policy.shape[1]
        if isinstance(found, bool) or found not in range(num_actions):
            raise ValueError(f"action must be an integer from 0 to {num_actions - 1}, got {action!r}.")
        return int(found)


@final
@dataclass(frozen=True, eq=False, repr=False)
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
    interval: tuple[float, float]
    """(low, high): proven, with rounding errors counted, that `policy` attains at least `low` and no policy more than `high`."""
    tolerance: float
    """The width of the interval that was asked for."""
    risk_level: float = field(default=1.0, kw_only=True)
    """τ: what is maximised is CVaR, the mean reward of the worst fraction τ of the steps; 1 is the average reward."""
    cvar: float = field(default=math.nan, kw_only=True)
    """The CVaR of `policy` at the risk level; at 1 the average reward. `interval` holds the largest CVaR."""
    threshold: float = field(default=math.inf, kw_only=True)
    """y, the reward below which a step counts among the worst. Values are those of the reward y − (y − R)⁺ / τ."""

    def __post_init__(self) -> None:
        if self.risk_level == 1.0:
            object.__setattr__(self, "cvar", self.average_reward)

    @property
    def proven(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        return self.interval[1] - self.interval[0] <= self.tolerance

    def __repr__(self) -> str:
        low, high = self.interval
        risk = "" if self.risk_level == 1.0 else f"risk_level {self.risk_level:g}, cvar {self.cvar:.10g}, "
        text = f"Solution({risk}average_reward {self.average_reward:.10g}, optimum proven within {high - low:.1e}"
        if not self.proven:
            text += f", not within the {self.tolerance:g} that was asked for"
        return f"{text}, {self.policy.size} states)"


def policy_probabilities(policy: Policy, num_states: int, num_actions: int, epsilon: float = 0.0) -> Floats:
    """A policy as probabilities (S, A), mixed with the uniform policy: (1 − ε) π + ε/A. Greedy π gives the ε-greedy policy."""
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must be a probability from 0 to 1, got {epsilon}.")
    if isinstance(policy, Solution):
        policy = policy.policy
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
        if callable(getattr(policy, "policy", None)):
            raise TypeError(
                f"A policy must be actions, probabilities or a function, got {policy!r}. Give agent.policy()."
            )
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


def stationary_gain_values(
    chain: csr_array, rewards: Floats, recurrent: Integers, anchor: int | None = None
) -> tuple[Floats, float, Floats]:
    """μ, r̄ and v of a chain P (S, S) with rewards r (S,) and one closed class `recurrent`: r̄ + v = r + P v, μ·v = 0.

    One factorisation gives both μ and v: that of I − P without the row and the column of one recurrent state, the anchor. It should
    be visited often; a similar chain may tell which state is.
    """
    num_states = chain.shape[0]
    if anchor is None or anchor not in recurrent:
        anchor = _often_visited(chain, recurrent)
    transient = np.ones(num_states, dtype=np.bool_)
    transient[recurrent] = False
    for _ in range(3):
        others = np.flatnonzero(np.arange(num_states) != anchor)
        stationary, values = np.zeros(num_states), np.zeros(num_states)
        stationary[anchor] = 1.0
        solve = _factorised(chain[others][:, others])
        # The expected number of visits to each state between two visits to the anchor.
        visits = solve(chain[[anchor]][:, others].toarray()[0], True)
        stationary[others] = np.maximum(visits, 0.0)
        stationary[transient] = 0.0
        stationary /= stationary.sum()
        if stationary[anchor] >= RARE * stationary.max():
            break
        anchor = int(stationary.argmax())
    gain = float(stationary @ rewards)
    values[others] = solve(rewards[others] - gain, False)
    return stationary, gain, values - stationary @ values


def _often_visited(chain: csr_array, recurrent: Integers) -> int:
    """A state to which the chain returns often. With it as the anchor the linear systems are well conditioned."""
    share = np.zeros(chain.shape[0])
    share[recurrent] = 1.0 / recurrent.size
    if share.size > DENSE_UP_TO:
        settle(chain, share, 4 * PLACE_SWEEPS)
        share[~np.isin(np.arange(share.size), recurrent)] = 0.0
        return int(share.argmax())
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

    system = (eye_array(size) - chain).tocsc()
    bandwidth = _bandwidth(chain)
    thickness = bandwidth / size**0.5
    if thickness <= THIN_UP_TO:
        return _direct(system)
    roughly = _rough_inverse(system) if thickness <= GRID_UP_TO else None

    def solve(b: Floats, transposed: bool) -> Floats:
        x, converged = _krylov(system, b, transposed, roughly)
        return x if converged or size * bandwidth > FACTOR_UP_TO else _direct(system)(b, transposed)

    return solve


def _direct(system: Any) -> Callable[[Floats, bool], Floats]:
    from scipy.sparse.linalg import splu

    # I − P needs no pivoting, since it is an M-matrix. So the order of elimination can be chosen for the fewest new entries.
    factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda b, transposed: np.asarray(factors.solve(b, trans="T" if transposed else "N"))


def _bandwidth(chain: csr_array) -> int:
    """The largest distance of two neighbours in a good order of the states: small if the graph is long and thin."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = reverse_cuthill_mckee((chain + chain.T).tocsr(), symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    edges = chain.tocoo()
    return int(np.abs(place[edges.row] - place[edges.col]).max(initial=0))


def _rough_inverse(system: Any) -> Callable[[Floats, bool], Floats]:
    """An approximate inverse by an incomplete factorisation."""
    from scipy.sparse.linalg import spilu

    factors = spilu(system, drop_tol=1e-2, fill_factor=5, permc_spec="NATURAL", diag_pivot_thresh=0.0)
    return lambda b, transposed: np.asarray(factors.solve(b, trans="T" if transposed else "N"))


def _krylov(
    system: Any, b: Floats, transposed: bool, roughly: Callable[[Floats, bool], Floats] | None
) -> tuple[Floats, bool]:
    """The solution by GMRES, with an approximate inverse if there is one, and whether it converged."""
    from scipy.sparse.linalg import LinearOperator, gmres

    matrix = system.T if transposed else system
    inverse = None
    if roughly is not None:
        inverse = LinearOperator(matrix.shape, matvec=lambda x: roughly(x, transposed), dtype=np.float64)
    x, _ = gmres(matrix, b, rtol=1e-13, restart=60, maxiter=10, M=inverse)
    return np.asarray(x), bool(np.linalg.norm(matrix @ x - b) <= 1e-11 * np.linalg.norm(b))


# Prediction


def evaluate(
    outcomes: Outcomes, policy: Floats, initial: Floats, start: Start | None = None, names: Names | None = None
) -> PolicyEvaluation:
    """Evaluate a policy (S, A). With `start`, a state or a distribution (S,), only the states reachable from it are evaluated.

    Without `start` all states are evaluated, unless the chain has several closed classes and only one of them is reachable
    from `initial`.
    """
    num_states, num_actions, _ = outcomes.probability.shape
    names = Names(range(num_states), range(num_actions)) if names is None else names
    matrix, rewards = transition_matrix(outcomes), expected_rewards(outcomes)
    chain = _policy_chain(matrix, policy)
    start = names.state(start)
    first = None if start is None else _start_distribution(start, num_states) > 0.0
    counted = np.ones(num_states, dtype=np.bool_) if first is None else reachable(chain, first)
    classes = closed_classes(_restricted(chain, counted))
    if len(classes) > 1 and first is None:
        counted = reachable(chain, initial > 0.0)
        classes = closed_classes(_restricted(chain, counted))
    if len(classes) > 1:
        members = [np.flatnonzero(counted)[each] for each in classes]
        listed, examples = _class_names(members), [int(each[0]) for each in members[:4]]
        raise NotUnichain(
            "The policy's Markov chain must have one closed class of states, got "
            f"{len(classes)} closed classes: {listed}. The average reward depends on which of them is reached, and that depends on "
            + (
                f"the first state. Give start={examples[0]}, for example, to evaluate the policy from one state, "
                if first is None
                else "chance. Give a start inside one of them, "
            )
            + "or change the policy (epsilon > 0 often joins the classes). A policy that was learnt may be wrong in states that "
            "were hardly ever seen: learn longer.",
            examples,
        )
    # From here on only the counted states matter, because the chain does not leave them.
    kept = np.flatnonzero(counted)
    mean = (policy * rewards).sum(axis=1)
    stationary, values = np.zeros(num_states), np.full(num_states, np.nan)
    stationary[kept], gain, values[kept] = stationary_gain_values(_restricted(chain, counted), mean[kept], classes[0])
    action_values = rewards - gain + (matrix @ values).reshape(num_states, num_actions)
    action_values[~counted] = np.nan
    return PolicyEvaluation(
        gain, stationary, values, action_values, limiting_rewards(outcomes, policy, stationary), policy, outcomes, names
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


def _horizon_discount(horizon: float) -> float:
    """g = 1 − 1/horizon."""
    return 1.0 - 1.0 / number("horizon", horizon, 1.0, LONGEST_HORIZON)


def _start_distribution(start: Any, num_states: int) -> Floats:
    """A state or a distribution over states as a distribution. (S,)"""
    if np.shape(start) == (num_states,):
        return normalised_initial(start, num_states)
    if np.ndim(start) != 0 or start not in range(num_states):
        raise ValueError(
            f"start must be a state from 0 to {num_states - 1} or its name, or a distribution over the {num_states} "
            f"states, got {start!r}. Leave it out to evaluate every state."
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


def strongly_connected(matrix: csr_array, num_actions: int) -> bool:
    """Whether from every state some policy reaches every other: the MDP P (S·A, S) communicates."""
    from scipy.sparse.csgraph import connected_components

    number, _ = connected_components(_any_action(matrix, num_actions), directed=True, connection="strong")
    return int(number) == 1


def returns_under_every_policy(matrix: csr_array, num_actions: int, initial: Floats, tries: int = 20) -> int | None:
    """A state that every policy reaches from every state; then every policy has one closed class. None if none was found.

    It is looked for among the likely first states and those that random actions visit often.
    """
    num_states = matrix.shape[1]
    share = np.full(num_states, 1.0 / num_states)
    backwards = _any_action(matrix, num_actions).T.tocsr()
    for _ in range(200):
        share = 0.5 * (share + backwards @ share)
    for target in dict.fromkeys([*np.argsort(-initial)[:tries].tolist(), *np.argsort(-share)[:tries].tolist()]):
        avoids = (
            np.arange(num_states) != target
        )  # the states from which some policy stays away for ever; too many at first
        while True:
            stays = (matrix @ (~avoids).astype(np.float64) == 0.0).reshape(num_states, num_actions).any(axis=1)
            fewer = avoids & stays
            if (fewer == avoids).all():
                break
            avoids = fewer
        if not avoids.any():
            return int(target)
    return None


def fewest_steps(matrix: csr_array, num_actions: int, target: int) -> Floats:
    """The expected number of steps to `target` under the policy that gets there soonest, by policy iteration. (S,)"""
    num_states = matrix.shape[1]
    states = np.arange(num_states)
    goal = states == target
    actions = _led_to(goal, np.zeros(num_states, dtype=np.int64), matrix)
    steps = np.zeros(num_states)
    others = np.flatnonzero(~goal)
    for _ in range(MOST_ROUNDS):
        chain = matrix[states * num_actions + actions]
        steps[others] = _factorised(chain[others][:, others])(np.ones(others.size), False)
        after = (matrix @ steps).reshape(num_states, num_actions)
        better = after.min(axis=1) < after[states, actions] - 1e-9 * (1.0 + steps.max())
        if not better.any():
            break
        actions = np.where(better, after.argmin(axis=1), actions)
    return steps


def solve(outcomes: Outcomes, initial: Floats, tolerance: float = TOLERANCE) -> Solution:
    """The optimum over all policies; only for the states reachable from `initial` if parts of the MDP do not communicate."""
    return solve_model(transition_matrix(outcomes), expected_rewards(outcomes), initial, tolerance)


def solve_model(matrix: csr_array, rewards: Floats, initial: Floats, tolerance: float = TOLERANCE) -> Solution:
    """The optimum for transition probabilities P (S·A, S), rewards (S, A) and the distribution of the first state (S,)."""
    if not is_finite(tolerance) or tolerance < 0.0:
        raise ValueError(
            f"tolerance must be a number of at least 0, the width of the proven interval, got {tolerance!r}."
        )
    num_states, num_actions = rewards.shape
    counted = np.ones(num_states, dtype=np.bool_)
    parts = end_components(matrix, num_actions)
    if len(parts) > 1:
        counted = reachable(_any_action(matrix, num_actions), initial > 0.0)
        parts = end_components(*_submodel(matrix, num_actions, counted))
    if len(parts) > 1:
        members = [np.flatnonzero(counted)[each] for each in parts]
        names = _class_names(members)
        raise NotCommunicating(
            "The MDP must communicate: from every state that a policy can return to, some policy must reach every other. Got "
            f"{len(parts)} parts that a policy can stay in and that do not communicate: {names}. The optimal average reward "
            "can then depend on the first state. Add transitions between the parts, or give FiniteMDP "
            "an initial distribution that leads to only one of them.",
            [int(each[0]) for each in members[:4]],
        )
    actions, gain, part_values, interval = _optimum(
        _submodel(matrix, num_actions, counted)[0], rewards[counted], tolerance
    )
    values = np.full(num_states, np.nan)
    values[counted] = part_values
    action_values = rewards - gain + (matrix @ values).reshape(num_states, num_actions)
    action_values[~counted] = np.nan
    policy = np.zeros(num_states, dtype=np.int64)
    policy[counted] = actions
    return Solution(
        gain, _led_to(counted, policy, matrix), action_values.max(axis=1), action_values, interval, tolerance
    )


def optimality_gap(outcomes: Outcomes, action_values: ArrayLike) -> float:
    """sp(Tq − q) with Tq(s, a) = Σ p(s′, r | s, a)(r + max q(s′, ·)): the greedy policy earns at least r̄* minus this."""
    num_states, num_actions, _ = outcomes.probability.shape
    q = numbers(action_values, "Action values")
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


def _optimum(matrix: csr_array, rewards: Floats, tolerance: float) -> Optimum:
    """By policy iteration; if that does not prove much, because a policy almost never leaves some states, after more sweeps."""
    found = _policy_iteration(matrix, rewards, _warm_start(matrix, rewards, tolerance), tolerance)
    if _width(found) > max(tolerance, POOR * (1.0 + np.abs(rewards).max())):
        sweeps = min(LONG_WARM_UP, int(WARM_UP_WORK / matrix.nnz))
        again = _policy_iteration(matrix, rewards, _warm_start(matrix, rewards, tolerance, sweeps), tolerance)
        found = min(found, again, key=_width)
    return found


def _width(found: Optimum) -> float:
    low, high = found[3]
    return high - low


def _policy_iteration(matrix: csr_array, rewards: Floats, actions: Integers, tolerance: float) -> Optimum:
    """Optimal actions (S,), their gain, values (S,) and the proven interval, for an MDP with one end component.

    Haviv & Puterman (1991): if the chain of a policy has several closed classes, the policy is first changed so that every
    state leads to the best class. An action changes only if the advantage is larger than rounding errors. So each iteration
    raises the gain, or keeps the class and raises values outside it, and no policy occurs twice. A model that is not small also
    gets some sweeps of value iteration in each round, and then needs about five rounds, whatever its size.
    """
    num_states, num_actions = rewards.shape
    small = num_states <= DENSE_UP_TO
    states = np.arange(num_states)
    seen: set[int] = set()
    anchor = None
    with Bar(0, f"solving {num_states} states", unit="rounds") as bar:
        while True:
            bar.update(len(seen))
            actions, recurrent = _one_class(actions, matrix, rewards)
            seen.add(hash(actions.tobytes()))
            stationary, gain, values = stationary_gain_values(
                matrix[states * num_actions + actions], rewards[states, actions], recurrent, anchor
            )
            if not small:
                anchor = int(stationary.argmax())
                values -= values[anchor]
                relax(matrix, rewards, gain, values, anchor, PLACE_SWEEPS)
            residual, error = _residuals(matrix, rewards, values)
            kept, best = residual[states, actions], _largest(residual)
            scale = 1.0 + np.abs(values).max() + np.abs(rewards).max()
            noise = IMPROVEMENT * scale if small else 2.0 * _largest(error)
            better = best > kept + noise
            improved = np.where(better, residual.argmax(axis=1), actions)
            repeats = not better.any() or hash(improved.tobytes()) in seen or len(seen) >= MOST_ROUNDS
            close = repeats or better.sum() < CLOSE * num_states
            low, high = (
                _interval(matrix, rewards, values, actions, recurrent, tolerance) if close else (-np.inf, np.inf)
            )
            if repeats or (not small and high - low <= tolerance):
                break
            actions = improved
    if (
        small
    ):  # Every choice among equally good actions is optimal. Take the lowest, if the chain then has one closed class.
        lowest = (residual >= best[:, None] - TIE * scale).argmax(axis=1)
        chain = matrix[states * num_actions + lowest]
        if len(classes := closed_classes(chain)) == 1:
            its_stationary, its_gain, _ = stationary_gain_values(chain, rewards[states, lowest], classes[0])
            bounds = _interval(matrix, rewards, values, lowest, classes[0], tolerance)
            # If the values are huge, actions within TIE may differ.
            if its_gain >= gain - max(1e-10 * (1.0 + np.abs(rewards).max()), ROUNDING * scale):
                return lowest, its_gain, values - its_stationary @ values, _around(its_gain, bounds)
    return actions, gain, values - stationary @ values, _around(gain, (low, high))


def _around(gain: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """The bounds, widened where the rounded gain lies outside."""
    return min(bounds[0], gain), max(bounds[1], gain)


def _residuals(matrix: csr_array, rewards: Floats, values: Floats) -> tuple[Floats, Floats]:
    """r + Σ p (v(s′) − v(s)) for each state and action, and bounds of its rounding errors. (S, A) each

    Differences of values are almost exact, so values of 1e9 do not cost nine digits.
    """
    num_actions = rewards.shape[1]
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    change = matrix.data * (values[matrix.indices] - values[row // num_actions])
    length = np.diff(matrix.indptr).reshape(rewards.shape)

    def total(parts: Floats) -> Floats:
        return np.asarray(np.add.reduceat(parts, matrix.indptr[:-1])).reshape(rewards.shape)

    error = (length + 4) * EPSILON * (total(np.abs(change)) + np.abs(rewards))
    return rewards + total(change), error


def _interval(
    matrix: csr_array, rewards: Floats, values: Floats, actions: Integers, recurrent: Integers, tolerance: float
) -> tuple[float, float]:
    """A lower bound of the gain of `actions`, whose closed class is `recurrent`, and an upper bound of every gain.

    For any v, a policy earns at least the smallest of its residuals in its closed class, and no policy earns more than the
    largest residual of all (Puterman 1994, Theorem 8.5.5). Rare states with large costs have large values, whose rounding errors
    spoil the bounds. But (1 − t) v has the residuals (1 − t) · residual + t · reward. They are lower where rewards are low, and
    those of (1 + t) v are higher there. So a small tilt t removes these errors at the price of t times the other rewards.
    """

    def low(tilt: float) -> float:
        residual, error = _residuals(matrix, rewards, (1.0 + tilt) * values)
        return float((residual - error)[recurrent, actions[recurrent]].min())

    def high(tilt: float) -> float:
        residual, error = _residuals(matrix, rewards, (1.0 - tilt) * values)
        return float((residual + error).max())

    bounds = low(0.0), high(0.0)
    for tilt in TILTS if bounds[1] - bounds[0] > tolerance else ():
        bounds = max(bounds[0], low(tilt)), min(bounds[1], high(tilt))
    return bounds


def _warm_start(matrix: csr_array, rewards: Floats, tolerance: float, least: int = WARM_UP_SWEEPS) -> Integers:
    """The greedy actions after some sweeps of value iteration; after more, if that alone is about to reach the tolerance."""
    small = rewards.shape[0] <= DENSE_UP_TO
    values, before = np.zeros(rewards.shape[0]), np.inf
    most = max(MOST_WARM_UP, least + 1)
    sweep_once = None if small else backup(matrix, rewards)  # compiled code pays only where there is much to do
    for sweep in range(most):
        if sweep_once is not None:
            residual = sweep_once(values)
        else:
            residual = _largest(rewards + (matrix @ values).reshape(rewards.shape)) - values
        if sweep >= least and sweep % WARM_UP_SWEEPS == 0:
            width = float(np.ptp(residual))
            needed = np.log(max(width, 1e-300) / max(tolerance, 1e-300))
            rate = np.log(before / max(width, 1e-300)) / WARM_UP_SWEEPS
            if small or not 0.0 < needed < rate * (most - sweep):
                break
            before = width
        values += 0.5 * residual  # averaged, so that periodic MDPs converge too
        values -= values[0]
    return np.asarray((rewards + (matrix @ values).reshape(rewards.shape)).argmax(axis=1))


def _largest(table: Floats) -> Floats:
    """max over the actions (S,) of a table (S, A); NumPy's own takes ten times as long where A is small."""
    return reduce(np.maximum, table.T)


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
