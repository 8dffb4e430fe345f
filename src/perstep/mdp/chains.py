"""Markov chains and the graph of an MDP: closed classes, what can be reached, stationary distributions and differential values.

A policy turns an MDP into a Markov chain P (S, S). If it has a single closed class of states (the unichain assumption), one
factorisation gives its stationary distribution and its values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.distribution import Floats
from perstep.mdp.sweeps import settle

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]

LAPACK_UP_TO = 250  # states; a sparse factorisation of a long and thin chain takes less time above
DENSE_UP_TO = 1000  # states; LAPACK up to here for other chains. Above, states usually have few successors
THIN_UP_TO = (
    2.5  # bandwidth / √states; a plane has 1. Above, a factorisation has very many entries, and GMRES is used first
)
GRID_UP_TO = (
    30.0  # the same; up to here an incomplete factorisation helps GMRES. Above, chains usually mix fast without
)
FACTOR_UP_TO = 3e9  # states · bandwidth; above, a sparse factorisation fills the memory
RARE = 1e-6  # relative to the most frequent state; with an anchor that is visited less often, digits are lost
PLACE_SWEEPS = 10  # of value iteration in place, up and down, after each linear system of a model that is not small
MOST_ROUNDS = 100  # of policy iteration for a model that is not small; it needs about five


class SeveralAnswers(ValueError):
    """The answer depends on the first state."""

    def __init__(self, sentence: str, examples: Sequence[int] = ()) -> None:
        super().__init__(sentence)
        self.examples = tuple(examples)  # one state of each part


RARELY_LEFT = (
    "Exact answers need states that are left with a probability that differs from 0 by more than rounding, about 1e-16, got "
    "states that a policy almost never leaves. Give the transition that leaves them the probability 0, or a larger one."
)


# Chains


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


def policy_chain(matrix: csr_array, policy: Floats) -> csr_array:
    """P(s′ | s) under a policy (S, A). (S, S)"""
    from scipy.sparse import csr_array

    num_states, num_actions = policy.shape
    state, action = np.nonzero(policy)
    choose = csr_array(
        (policy[state, action], (state, state * num_actions + action)), shape=(num_states, num_states * num_actions)
    )
    return choose @ matrix


def restricted(chain: csr_array, counted: Mask) -> csr_array:
    """The chain among the `counted` states, which it does not leave."""
    return chain if counted.all() else chain[counted][:, counted]


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
    bandwidth = _bandwidth(chain) if size > LAPACK_UP_TO else size
    thickness = bandwidth / size**0.5
    if size <= DENSE_UP_TO and (size <= LAPACK_UP_TO or thickness > THIN_UP_TO):
        from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            try:
                dense = lu_factor(np.eye(size) - chain.toarray())
            except LinAlgWarning as error:
                raise ValueError(RARELY_LEFT) from error
        return lambda b, transposed: np.asarray(lu_solve(dense, b, trans=1 if transposed else 0))
    from scipy.sparse import eye_array

    system = (eye_array(size) - chain).tocsc()
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
    try:
        factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise ValueError(RARELY_LEFT) from error
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


# The graph of an MDP, whose transitions are P (S·A, S) with row state · A + action


def any_action(matrix: csr_array, num_actions: int) -> csr_array:
    """The chain (S, S) of the uniformly random policy: its graph has an edge for every possible transition."""
    num_states = matrix.shape[1]
    return policy_chain(matrix, np.full((num_states, num_actions), 1.0 / num_actions))


def submodel(matrix: csr_array, num_actions: int, counted: Mask) -> tuple[csr_array, int]:
    """The MDP restricted to the `counted` states, which no action leaves."""
    return (matrix if counted.all() else matrix[np.repeat(counted, num_actions)][:, counted]), num_actions


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

    number, _ = connected_components(any_action(matrix, num_actions), directed=True, connection="strong")
    return int(number) == 1


def returns_under_every_policy(matrix: csr_array, num_actions: int, initial: Floats, targets: int = 20) -> int | None:
    """A state that every policy reaches from every state; then every policy has one closed class. None if none was found.

    It is looked for among the likely first states and those that random actions visit often.
    """
    num_states = matrix.shape[1]
    share = np.full(num_states, 1.0 / num_states)
    backwards = any_action(matrix, num_actions).T.tocsr()
    for _ in range(200):
        share = 0.5 * (share + backwards @ share)
    for target in dict.fromkeys([*np.argsort(-initial)[:targets].tolist(), *np.argsort(-share)[:targets].tolist()]):
        avoids = np.arange(num_states) != target  # states from which some policy never reaches it; shrinks to these
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
    actions = led_to(goal, np.zeros(num_states, dtype=np.int64), matrix)
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


def led_to(target: Mask, actions: Integers, matrix: csr_array) -> Integers:
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


# Grouping states, and naming the groups in messages


def _grouped(label: NDArray[Any], kept: Mask) -> list[Integers]:
    """The kept states grouped by label; groups are sorted by their first state."""
    states = np.flatnonzero(kept)
    order = states[np.argsort(label[states], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted((group for group in groups if group.size), key=lambda group: int(group[0]))


def class_names(classes: Sequence[Integers]) -> str:
    """Text such as "{0, 1} and {4}". Long sets and long lists are shortened."""

    def name(members: Integers) -> str:
        if members.size <= 6:
            return "{" + ", ".join(map(str, members.tolist())) + "}"
        return "{" + ", ".join(map(str, members[:4].tolist())) + f", …, {members[-1]}}} ({members.size} states)"

    shown = [name(members) for members in classes[:4]]
    if len(classes) > 4:
        shown.append(f"{len(classes) - 4} more")
    return ", ".join(shown[:-1]) + " and " + shown[-1]
