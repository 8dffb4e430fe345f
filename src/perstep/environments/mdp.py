"""A finite world given by its numbers (Sec. 3.1): exact answers from algebra, and steps inside compiled loops.

States and actions are numbered from 0. Rewards are fixed, normal, or mixtures of normals, optionally capped from above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.distribution import Floats
from perstep.environments import exact
from perstep.environments.exact import Policy, PolicyEvaluation, Solution
from perstep.environments.finite_world import FiniteWorld, make_world
from perstep.environments.outcomes import (
    PROBABILITY_TOLERANCE,
    Outcomes,
    checked_cap,
    expected_rewards,
    make_outcomes,
    normalised,
    normalised_initial,
    numbers,
    pack,
    transition_matrix,
)

if TYPE_CHECKING:
    import gymnasium

__all__ = ["FiniteMDP", "GaussianRewards"]


@final
@dataclass(frozen=True, eq=False)
class GaussianRewards:
    """Normal rewards for each state, action and next state: min(cap, N(mean, sd)), or a mixture of such."""

    means: ArrayLike
    """Broadcasts to (S, A, S); with `weights` to (S, A, S, C), the last axis being the components."""
    sds: ArrayLike
    """Standard deviations, 0 or more; broadcasts as `means`."""
    weights: ArrayLike | None = None
    """Probabilities of the components, summing to 1 over the last axis; broadcasts to (S, A, S, C)."""
    cap: float | None = None
    """The largest reward that can come; None for no limit."""


@final
class FiniteMDP:
    """A world with finitely many states and actions, that never ends.

    `transitions` (S, A, S) holds the probability of each next state; `rewards` is an array (S, A) or (S, A, S), or
    `GaussianRewards`; `initial` (S,) is the distribution of the first state, uniform by default.
    """

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike | GaussianRewards,
        *,
        initial: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        table = numbers(transitions, "transitions")
        if table.ndim != 3 or table.shape[0] != table.shape[2]:
            raise ValueError(
                "transitions has shape (states, actions, states), the last axis being the next state, but got shape "
                f"{table.shape}. A list of matrices, one for each action, needs np.moveaxis(transitions, 0, 1)."
            )
        table = normalised(table, "transitions", "next states")
        self._set(_outcomes_from_tables(table, rewards), initial, name)

    def _set(self, outcomes: Outcomes, initial: ArrayLike | None, name: str | None) -> None:
        self.outcomes = outcomes
        self.initial = normalised_initial(initial, outcomes.probability.shape[0])  # (S,)
        self.name = name

    @classmethod
    def from_outcomes(
        cls,
        probability: ArrayLike,
        next_state: ArrayLike,
        mean: ArrayLike,
        sd: ArrayLike = 0.0,
        cap: float | None = None,
        *,
        initial: ArrayLike | None = None,
        name: str | None = None,
    ) -> FiniteMDP:
        """A world from up to K outcomes for each pair: probabilities (S, A, K), the rest broadcasting to that shape.

        For worlds with many states and few successors: nothing of shape (S, A, S) is made. Pairs with fewer than K
        outcomes have some of probability 0.
        """
        mdp = cls.__new__(cls)
        mdp._set(make_outcomes(probability, next_state, mean, sd, checked_cap(cap)), initial, name)
        return mdp

    @classmethod
    def from_gymnasium(cls, env: gymnasium.Env[Any, Any] | str, reset_cost: float = 0.0) -> FiniteMDP:
        """The world behind a Gymnasium environment, or its id, with a table `P`: FrozenLake, CliffWalking, Taxi.

        An end becomes an ordinary step to a first state of the next episode, `reset_cost` taken from its reward. Time
        limits do not count.
        """
        if isinstance(env, str):
            import gymnasium

            made = gymnasium.make(env)
            try:
                return cls.from_gymnasium(made, reset_cost)
            finally:
                made.close()
        inner, name = env.unwrapped, getattr(env.spec, "id", None)
        if isinstance(own := getattr(inner, "mdp", None), cls):
            return own
        table, initial = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
        if table is None or initial is None:
            raise ValueError(
                "from_gymnasium expects an environment with a table of transitions `P` and an `initial_state_distrib`, "
                f"as FrozenLake, CliffWalking and Taxi have, but {name or type(inner).__name__} has none. "
                "Build FiniteMDP from arrays, or learn from the environment itself."
            )
        if getattr(inner, "fickle_passenger", False):
            raise ValueError(
                "Taxi with fickle_passenger=True does not follow its table `P`. Make it with fickle_passenger=False."
            )
        mdp = cls.__new__(cls)
        mdp._set(_outcomes_from_gymnasium(table, np.asarray(initial, dtype=np.float64), reset_cost), initial, name)
        return mdp

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything but the name as plain arrays, for storage; `from_arrays` brings it back to the bit."""
        return {
            "probability": self.outcomes.probability,
            "next_state": self.outcomes.next_state,
            "mean": self.outcomes.mean,
            "sd": self.outcomes.sd,
            "cap": np.array([self.outcomes.cap]),
            "initial": self.initial,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], name: str | None = None) -> FiniteMDP:
        """The world that `to_arrays` stored."""
        expected = ("probability", "next_state", "mean", "sd", "cap", "initial")
        if missing := [key for key in expected if key not in arrays]:
            raise ValueError(
                f"A stored FiniteMDP holds {', '.join(expected)}, but {', '.join(missing)} is missing. "
                "Store what to_arrays() gives."
            )
        probability, next_state, mean, sd = (arrays[key] for key in expected[:4])
        cap = float(np.asarray(arrays["cap"]).item())
        return cls.from_outcomes(probability, next_state, mean, sd, cap, initial=arrays["initial"], name=name)

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return int(self.outcomes.probability.shape[0])

    @property
    def num_actions(self) -> int:
        """How many actions there are, in every state."""
        return int(self.outcomes.probability.shape[1])

    @cached_property
    def transitions(self) -> Floats:
        """P(s′ | s, a). (S, A, S)"""
        return np.asarray(
            transition_matrix(self.outcomes).toarray().reshape(self.num_states, self.num_actions, self.num_states)
        )

    @cached_property
    def expected_rewards(self) -> Floats:
        """r(s, a), the cap counted in. (S, A)"""
        return expected_rewards(self.outcomes)

    @cached_property
    def world(self) -> FiniteWorld:
        """The arrays that compiled code steps through."""
        return make_world(self.outcomes, self.initial)

    def evaluate(
        self, policy: Policy, *, epsilon: float = 0.0, start: int | ArrayLike | None = None
    ) -> PolicyEvaluation:
        """What a policy earns in the long run, exactly; with `epsilon`, of the policy that acts at random that often.

        `policy` is actions (S,), probabilities (S, A) or a function of the state. Raises `NotUnichain` if the answer
        depends on the start. With `start`, a state or a distribution (S,), only the states it leads to count, and the
        values of all others are NaN; so it is, without `start`, where only `initial` can settle the question.
        """
        table = exact.policy_probabilities(policy, self.num_states, self.num_actions, epsilon)
        return exact.evaluate(self.outcomes, table, self.initial, start)

    def solve(self) -> Solution:
        """The best average reward, and a policy that earns it. Raises `NotCommunicating` if they depend on the start.

        Where the world falls into parts, only the states that `initial` leads to count; the others have NaN values and,
        where one exists, an action that leads to these.
        """
        return exact.solve(self.outcomes, self.initial)

    def optimality_gap(self, action_values: ArrayLike) -> float:
        """sp(Tq − q) of action values (S, A): the greedy policy earns at most this much below the best (Thm 4.4)."""
        return exact.optimality_gap(self.outcomes, action_values)

    def __repr__(self) -> str:
        kind = "fixed rewards" if not self.outcomes.sd.any() else "normal rewards"
        if self.outcomes.cap < math.inf:
            kind += f" capped at {self.outcomes.cap:g}"
        name = f"{self.name}: " if self.name else ""
        most = self.outcomes.probability.shape[2]
        return f"FiniteMDP({name}{self.num_states} states, {self.num_actions} actions, at most {most} outcomes, {kind})"


class RewardTables(NamedTuple):
    """Rewards of every triple: means, deviations and weights (S, A, S, C), and the cap."""

    means: Floats
    sds: Floats
    weights: Floats
    cap: float


def _outcomes_from_tables(transitions: Floats, rewards: ArrayLike | GaussianRewards) -> Outcomes:
    num_states, num_actions, _ = shape = transitions.shape
    tables = _normal_rewards(rewards, shape) if isinstance(rewards, GaussianRewards) else _fixed_rewards(rewards, shape)
    possible = np.nonzero(transitions)
    means, sds, shares = (table[possible] for table in tables[:3])  # (N, C) each
    _require("Rewards must be finite", np.isfinite(means), means, possible)
    _require("Standard deviations must be finite and 0 or more", np.isfinite(sds) & (sds >= 0.0), sds, possible)
    probability = (transitions[possible][:, None] * shares / shares.sum(axis=1, keepdims=True)).ravel()
    pair, successor = (np.repeat(i, shares.shape[1]) for i in (possible[0] * num_actions + possible[1], possible[2]))
    kept = probability > 0.0
    pair, successor, probability = pair[kept], successor[kept], probability[kept]
    return pack(
        num_states, num_actions, pair, successor, means.ravel()[kept], sds.ravel()[kept], probability, tables.cap
    )


def _fixed_rewards(rewards: ArrayLike, shape: tuple[int, ...]) -> RewardTables:
    fixed = numbers(rewards, "rewards")
    if fixed.shape == shape[:2]:
        fixed = fixed[:, :, None]
    elif fixed.shape != shape:
        raise ValueError(
            f"rewards has shape (states, actions) = {shape[:2]} or (states, actions, states) = {shape}, or is "
            f"GaussianRewards, but got shape {fixed.shape}. For rewards of the state alone give "
            f"np.repeat(rewards[:, None], {shape[1]}, axis=1)."
        )
    full = (*shape, 1)
    return RewardTables(
        np.broadcast_to(fixed[..., None], full), np.broadcast_to(0.0, full), np.broadcast_to(1.0, full), math.inf
    )


def _normal_rewards(rewards: GaussianRewards, shape: tuple[int, ...]) -> RewardTables:
    means, sds = numbers(rewards.means, "means"), numbers(rewards.sds, "sds")
    if rewards.weights is None:
        means, sds = _broadcast_rewards({"means": means, "sds": sds}, shape, "(S, A, S)")
        weights = np.broadcast_to(1.0, (*shape, 1))
        return RewardTables(means[..., None], sds[..., None], weights, checked_cap(rewards.cap))
    weights = numbers(rewards.weights, "weights")
    total = np.asarray(weights.sum(axis=-1))
    if not np.isfinite(weights).all() or (weights < 0.0).any() or np.abs(total - 1.0).max() > PROBABILITY_TOLERANCE:
        raise ValueError(
            "The weights of a mixture of rewards are probabilities, 0 or more, that sum to 1 over the last axis, but "
            f"the smallest is {weights.min():g} and the sums go from {total.min():.9g} to {total.max():.9g}. "
            "Divide them by their sum over the last axis."
        )
    arrays = {"means": means, "sds": sds, "weights": weights}
    full = (*shape, max((array.shape[-1] for array in arrays.values() if array.ndim), default=1))
    means, sds, weights = _broadcast_rewards(arrays, full, "(S, A, S, C)")
    return RewardTables(means, sds, weights, checked_cap(rewards.cap))


def _broadcast_rewards(arrays: dict[str, Floats], shape: tuple[int, ...], letters: str) -> list[Floats]:
    try:
        return [np.broadcast_to(array, shape) for array in arrays.values()]
    except ValueError:
        got = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"GaussianRewards has arrays that broadcast to {letters}, here with S = {shape[0]} and A = {shape[1]}, but "
            f"got {got}. Add axes of length 1 where an array is constant; with weights, and only then, the last axis "
            "is that of the mixture's C components."
        ) from None


def _require(need: str, good: NDArray[np.bool_], values: Floats, possible: tuple[NDArray[np.int64], ...]) -> None:
    """Every number (N, C) about the possible triples is good, or a sentence about the first that is not."""
    if not good.all():
        i, component = (int(index) for index in np.argwhere(~good)[0])
        s, a, to = (int(axis[i]) for axis in possible)
        raise ValueError(
            f"{need} wherever they can come, but from state {s} with action {a} to state {to} got "
            f"{values[i, component]}. Correct that entry."
        )


def _outcomes_from_gymnasium(table: Any, initial: Floats, reset_cost: float) -> Outcomes:
    """From P[state][action] = [(probability, next state, reward, ended), …]; an end spreads over the first states."""
    num_states, num_actions = len(table), len(table[0])
    first = np.flatnonzero(initial)
    pairs: list[int] = []
    successors: list[NDArray[np.int64]] = []
    rewards: list[float] = []
    shares: list[Floats] = []
    for pair in range(num_states * num_actions):
        for probability, successor, reward, ended in table[pair // num_actions][pair % num_actions]:
            pairs.append(pair)
            successors.append(first if ended else np.array([successor], dtype=np.int64))
            rewards.append(float(reward) - (reset_cost if ended else 0.0))
            shares.append(probability * initial[first] if ended else np.array([probability], dtype=np.float64))
    lengths = [share.size for share in shares]
    pair_of, mean, probability = (
        np.repeat(pairs, lengths),
        np.repeat(np.array(rewards), lengths),
        np.concatenate(shares),
    )
    total = np.bincount(pair_of, weights=probability, minlength=num_states * num_actions).astype(np.float64)
    normalised(total.reshape(num_states, num_actions, 1), "P", "outcomes")
    sd, probability = np.zeros_like(mean), probability / total[pair_of]
    return pack(num_states, num_actions, pair_of, np.concatenate(successors), mean, sd, probability, math.inf)
