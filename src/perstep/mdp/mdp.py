"""A finite MDP given by its arrays (Sec. 3.1): exact solutions by linear algebra, and steps inside compiled loops.

States and actions are numbered from 0. Rewards are fixed, normal, or mixtures of normals, with an optional upper cap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.distributions.distribution import Floats
from perstep.inputs.checks import number
from perstep.mdp import building, evaluation, risk, solving
from perstep.mdp.evaluation import NotUnichain, PolicyEvaluation, Start
from perstep.mdp.names import Names, state_columns
from perstep.mdp.outcomes import (
    PROBABILITY_TOLERANCE,
    Outcomes,
    checked_cap,
    constant,
    expected_rewards,
    make_outcomes,
    normalised,
    normalised_initial,
    numbers,
    pack,
    transition_matrix,
)
from perstep.mdp.policy_tables import Policy, policy_probabilities
from perstep.mdp.risk import Frontier
from perstep.mdp.sampler import FiniteWorld, make_world
from perstep.mdp.solving import TOLERANCE, NotCommunicating, Solution
from perstep.numerics.schedules import is_finite

if TYPE_CHECKING:
    import gymnasium
    import polars

__all__ = ["FiniteMDP", "GaussianRewards"]


@final
@dataclass(frozen=True, eq=False)
class GaussianRewards:
    """Normal rewards for each state, action and next state: min(cap, N(mean, sd)), or a mixture of normals with a cap."""

    means: ArrayLike
    """Means; broadcast to (S, A, S), or with `weights` to (S, A, S, C), where C is the number of mixture components."""
    sds: ArrayLike
    """Standard deviations, 0 or more; broadcast like `means`."""
    weights: ArrayLike | None = None
    """Probabilities of the mixture components; they sum to 1 over the last axis and broadcast to (S, A, S, C)."""
    cap: float | None = None
    """The largest possible reward; None for no cap."""


@final
class FiniteMDP:
    """A Markov decision process with finitely many states and actions, as a continuing task.

    `transitions` (S, A, S) holds the probability of each next state. `rewards` is an array (S, A) or (S, A, S), or
    `GaussianRewards`. `initial` (S,) is the distribution of the first state, uniform by default. `states` and `actions` are
    names, which policies and agents then use instead of numbers.

    A world is a value: nothing in it can be changed. `replace` makes another one.
    """

    outcomes: Outcomes
    """What can follow each state and action."""
    initial: Floats
    """The distribution of the first state. (S,)"""
    name: str | None
    """What the world is called."""
    states: Sequence[Hashable]
    """The name of each state; its number, if none was given."""
    actions: Sequence[Hashable]
    """The name of each action; its number, if none was given."""
    allowed: NDArray[np.bool_] | None
    """(S, A), the actions that a state has; None if all have all. Any other action does what the first allowed one does."""
    heuristics: Mapping[str, NDArray[np.int64]]
    """Policies that practitioners use in this world, by name: numbers of actions (S,)."""

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike | GaussianRewards,
        *,
        initial: ArrayLike | None = None,
        name: str | None = None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
    ) -> None:
        table = numbers(transitions, "transitions")
        if table.ndim != 3 or table.shape[0] != table.shape[2]:
            raise ValueError(
                "transitions must have shape (states, actions, states), with the next state on the last axis, got shape "
                f"{table.shape}. If it holds one matrix for each action, use FiniteMDP.from_matrices."
            )
        table = normalised(table, "transitions", "next states")
        self._set(_outcomes_from_tables(table, rewards), initial, name, states, actions)

    def _set(
        self,
        outcomes: Outcomes,
        initial: ArrayLike | None,
        name: str | None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        allowed: NDArray[np.bool_] | None = None,
        heuristics: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Fill the world, once."""
        num_states, num_actions, _ = outcomes.probability.shape
        vars(self).update(
            outcomes=Outcomes(
                constant(outcomes.probability),
                constant(outcomes.next_state),
                constant(outcomes.mean),
                constant(outcomes.sd),
                outcomes.cap,
            ),
            initial=normalised_initial(initial, num_states),
            name=name,
            states=_names("states", states, num_states),
            actions=_names("actions", actions, num_actions),
            allowed=None if allowed is None else constant(np.array(allowed)),
        )
        rules = {rule: _rule(rule, chosen, num_states, num_actions) for rule, chosen in (heuristics or {}).items()}
        vars(self)["heuristics"] = MappingProxyType({rule: self.names.marked(each) for rule, each in rules.items()})

    def env(self, render_mode: Literal["ansi"] | None = None) -> gymnasium.Env[Any, Any]:
        """This world as a Gymnasium environment without episodes, for agents of any library."""
        made: gymnasium.Env[Any, Any] = import_module("perstep.mdp.env").FiniteMDPEnv(self, render_mode)
        return made

    def __setattr__(self, name: str, value: Any) -> Never:
        """A world is a value."""
        raise AttributeError(
            f"A FiniteMDP cannot be changed, so mdp.{name} cannot be set. Make another one: mdp.replace({name}=…)."
            if name in REPLACED
            else f"A FiniteMDP cannot be changed, so mdp.{name} cannot be set. Build another one."
        )

    def __delattr__(self, name: str) -> Never:
        """A world is a value."""
        raise AttributeError(f"A FiniteMDP cannot be changed, so mdp.{name} cannot be deleted. Build another one.")

    def __deepcopy__(self, memo: dict[int, Any]) -> FiniteMDP:
        """A world is a value: its copy is itself."""
        return self

    def __reduce__(self) -> Any:
        parts = (self.outcomes, self.initial, self.name, self.states, self.actions, self.allowed)
        return _world_of, (*parts, {rule: np.array(chosen) for rule, chosen in self.heuristics.items()})

    def replace(
        self,
        *,
        initial: ArrayLike | None = None,
        name: str | None = None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        heuristics: Mapping[str, ArrayLike] | None = None,
    ) -> FiniteMDP:
        """The same world with another distribution of the first state, another name, other names of states or actions, or other
        rules of practitioners."""
        return _world_of(
            self.outcomes,
            self.initial if initial is None else initial,
            self.name if name is None else name,
            self.states if states is None else states,
            self.actions if actions is None else actions,
            self.allowed,
            self.heuristics if heuristics is None else heuristics,
        )

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
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
    ) -> FiniteMDP:
        """An MDP from up to K outcomes for each state-action pair.

        `probability` has shape (S, A, K), and the other arrays broadcast to that shape. Give a pair with fewer than K outcomes
        further outcomes of probability 0. Use this for many states with few successors: no array (S, A, S) is allocated.
        """
        outcomes = make_outcomes(probability, next_state, mean, sd, checked_cap(cap))
        return _world_of(outcomes, initial, name, states, actions)

    @classmethod
    def from_gymnasium(cls, env: gymnasium.Env[Any, Any] | str, reset_cost: float = 0.0) -> FiniteMDP:
        """The MDP of a Gymnasium environment (or its id) that has a table `P`: FrozenLake, CliffWalking, Taxi.

        A terminal transition becomes a transition to a first state of the next episode, and `reset_cost` is subtracted from
        its reward. Time limits are ignored.
        """
        if isinstance(env, str):
            import gymnasium

            made = gymnasium.make(env)
            try:
                return cls.from_gymnasium(made, reset_cost)
            finally:
                made.close()
        if not hasattr(env, "unwrapped"):
            raise TypeError(
                f"from_gymnasium needs a Gymnasium environment or its id, such as 'FrozenLake-v1', got {type(env).__name__}."
            )
        reset_cost = number("reset_cost", reset_cost, -math.inf, above=True)
        inner, name = env.unwrapped, getattr(env.spec, "id", None)
        if isinstance(own := getattr(inner, "mdp", None), cls):
            return own
        table, initial = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
        if table is None or initial is None:
            raise ValueError(
                "from_gymnasium needs an environment with a transition table `P` and an `initial_state_distrib`, such as "
                f"FrozenLake, CliffWalking or Taxi; {name or type(inner).__name__} has none. "
                "Build a FiniteMDP from arrays, or learn from the environment itself."
            )
        if getattr(inner, "fickle_passenger", False):
            raise ValueError(
                "Taxi with fickle_passenger=True does not follow its table `P`. Create it with fickle_passenger=False."
            )
        return _world_of(_outcomes_from_gymnasium(table, np.asarray(initial, np.float64), reset_cost), initial, name)

    @classmethod
    def _from_model(cls, model: building.Model, initial: ArrayLike | None, name: str | None) -> FiniteMDP:
        first = model.initial if initial is None else initial
        allowed = None if model.allowed.all() else model.allowed
        return _world_of(model.outcomes, first, name, model.states, model.actions, allowed)

    @classmethod
    def from_matrices(
        cls,
        transitions: Any,
        rewards: Any,
        *,
        initial: ArrayLike | None = None,
        name: str | None = None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
    ) -> FiniteMDP:
        """An MDP from one matrix (S, S) for each action: a list of SciPy sparse matrices, or an array (A, S, S).

        `rewards` has shape (S,) or (S, A), or is given like the transitions. This is also the layout of pymdptoolbox. A row of
        zeros says that the state does not have the action.
        """
        model = building.from_matrices(transitions, rewards)
        return cls._from_model(model._replace(states=states, actions=actions), initial, name)

    @classmethod
    def from_function(
        cls,
        start: Hashable | Mapping[Any, float],
        actions: building.Actions,
        outcomes: building.OutcomesOf,
        *,
        max_states: int = building.MOST_STATES,
        name: str | None = None,
        progress: bool | None = None,
    ) -> FiniteMDP:
        """An MDP from a Python model, with the states that can be reached from `start`, a state or {state: probability}.

        A state is anything that can be the key of a dict, such as a tuple. `actions` is a list, or a function from a state to its
        list. `outcomes(state, action)` returns a list of (probability, next state, reward). The names stay in `states` and
        `actions`.
        """
        return cls._from_model(building.from_function(start, actions, outcomes, max_states, progress), None, name)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything except the name as plain arrays, for storage. `from_arrays` restores the MDP bit for bit."""
        return {
            "probability": self.outcomes.probability,
            "next_state": self.outcomes.next_state,
            "mean": self.outcomes.mean,
            "sd": self.outcomes.sd,
            "cap": np.array([self.outcomes.cap]),
            "initial": self.initial,
            **({} if self.allowed is None else {"allowed": self.allowed}),
        }

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, NDArray[Any]],
        name: str | None = None,
        *,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
    ) -> FiniteMDP:
        """The MDP that `to_arrays` stored."""
        expected = ("probability", "next_state", "mean", "sd", "cap", "initial")
        if missing := [key for key in expected if key not in arrays]:
            raise ValueError(
                f"A stored FiniteMDP must hold the arrays {', '.join(expected)}; missing: {', '.join(missing)}. "
                "Store what to_arrays() returns."
            )
        probability, next_state, mean, sd = (arrays[key] for key in expected[:4])
        cap = float(np.asarray(arrays["cap"]).item())
        outcomes = make_outcomes(probability, next_state, mean, sd, cap)
        pairs, allowed = outcomes.probability.shape[:2], arrays.get("allowed")
        if allowed is not None and (
            allowed.dtype != np.bool_ or allowed.shape != pairs or not allowed.any(axis=1).all()
        ):
            raise ValueError(
                f"allowed must be truth values of shape {pairs}, with an action in each state; "
                f"got {allowed.dtype} of shape {allowed.shape}. Store what to_arrays() returns."
            )
        return _world_of(outcomes, arrays["initial"], name, states, actions, allowed)

    @property
    def num_states(self) -> int:
        """S, the number of states."""
        return int(self.outcomes.probability.shape[0])

    @property
    def num_actions(self) -> int:
        """A, the number of actions in each state."""
        return int(self.outcomes.probability.shape[1])

    @cached_property
    def transitions(self) -> Floats:
        """P(s′ | s, a). (S, A, S)"""
        table = transition_matrix(self.outcomes).toarray()
        return constant(table.reshape(self.num_states, self.num_actions, self.num_states))

    @cached_property
    def expected_rewards(self) -> Floats:
        """r(s, a), with the cap taken into account. (S, A)"""
        return constant(expected_rewards(self.outcomes))

    @cached_property
    def world(self) -> FiniteWorld:
        """The MDP as arrays for compiled code."""
        return make_world(self.outcomes, self.initial)

    @cached_property
    def names(self) -> Names:
        """What states and actions are called."""
        return Names(self.states, self.actions, self.allowed)

    def evaluate(self, policy: Policy, *, epsilon: float = 0.0, start: Start | None = None) -> PolicyEvaluation:
        """The exact long-run average reward, values and reward distribution of a policy.

        `policy` is actions (S,), probabilities (S, A), a function of the state, a dictionary from it, a table of `policy_frame`, or
        a solution. Where states and actions have names, these are meant; where no name is a number, numbers will also do. With
        probability `epsilon` a random action replaces that of the policy.

        With `start`, a state or a distribution (S,), only the states reachable from it are evaluated; all others have the value
        NaN. Without `start` all states are evaluated. If the result would then depend on the first state, only the states
        reachable from `initial` are. If it still does, raises `NotUnichain`.
        """
        table = policy_probabilities(self.names.policy(policy), self.num_states, self.num_actions, epsilon)
        with self._naming_states():
            return evaluation.evaluate(self.outcomes, table, self.initial, start, self.names)

    def solve(
        self, tolerance: float = TOLERANCE, *, risk_level: float = 1.0, time_limit: float | None = None
    ) -> Solution:
        """The exact optimal average reward, a policy that attains it, and the interval within which that is proven.

        `tolerance` is the width of the interval to aim at, in the unit of the rewards. What could be proven is in
        `interval`, and `proven` says whether that is enough; most models are proven within 1e-12, and only a large one stops early.

        With a `risk_level` τ below 1, the policy whose bad steps are least bad: the largest CVaR, the mean reward of the worst
        fraction τ of its steps, with an interval that provably holds the optimum.

        After `time_limit` seconds the search ends with the best policy so far and the interval that is proven for it. A linear
        system that has begun is solved first, so a large model takes somewhat longer.

        If parts of the MDP do not communicate, the optimum can depend on the first state. Then only the states reachable from
        `initial` are solved. The other states have the value NaN and, if possible, an action that leads to the solved states.
        Raises `NotCommunicating` if several such parts are reachable from `initial`.
        """
        risk_level = number("risk_level", risk_level, 0.0, 1.0, above=True)
        if not is_finite(tolerance) or tolerance < 0.0:
            raise ValueError(
                f"tolerance must be a number of at least 0, the width of the proven interval, got {tolerance!r}."
            )
        deadline = _deadline(time_limit)
        with self._naming_states():
            if risk_level == 1.0:
                return self._in_this_world(solving.solve(self.outcomes, self.initial, tolerance, deadline))
            return self._in_this_world(risk.solve(self.outcomes, self.initial, risk_level, tolerance, (), deadline))

    def frontier(
        self, risk_levels: Sequence[float] | Floats = risk.LEVELS, *, time_limit: float | None = None
    ) -> Frontier:
        """The best policy at each risk level, from the few worst steps to the mean, with its CVaR and its average reward.

        After `time_limit` seconds the levels that are left get the best policy found so far, with its interval.
        """
        levels = [number("risk_levels", level, 0.0, 1.0, above=True) for level in np.atleast_1d(risk_levels).tolist()]
        if not levels:
            raise ValueError("A frontier needs at least one risk level, such as [0.1, 0.5, 1.0], got none.")
        with self._naming_states():
            frontier = risk.frontier(self.outcomes, self.initial, levels, _deadline(time_limit))
        return changed(frontier, solutions=tuple(map(self._in_this_world, frontier.solutions)))

    def _in_this_world(self, solution: Solution) -> Solution:
        """The solution with a policy of allowed actions. An action that is not allowed does what the first allowed one does."""
        actions = solution.policy
        if self.allowed is not None:
            actions = self.only_allowed(np.eye(self.num_actions)[actions]).argmax(axis=1)
        return changed(solution, policy=self.names.marked(actions))

    def only_allowed(self, chances: Floats, states: Any = slice(None)) -> Floats:
        """Probabilities of allowed actions (…, A) in some states: the probability of all others is added to the first allowed one,
        which does the same."""
        if self.allowed is None:
            return chances
        has = self.allowed[states]
        kept = np.where(has, chances, 0.0)
        kept[np.arange(len(kept)), has.argmax(axis=1)] += np.where(has, 0.0, chances).sum(axis=1)
        return kept

    def policy_frame(self, policy: Policy) -> polars.DataFrame:
        """A deterministic policy as a table with names, to print or to write as CSV or Parquet. `evaluate` takes it back.

        It has one row per state. A state that is a tuple has one column for each entry, named if it is a named tuple.
        """
        table = policy_probabilities(self.names.policy(policy), self.num_states, self.num_actions)
        chosen = table.argmax(axis=1)
        if not (table[np.arange(self.num_states), chosen] == 1.0).all():
            raise ValueError(
                "policy_frame shows a policy with one action in each state, got probabilities between 0 and 1."
            )
        import polars

        return polars.DataFrame({**state_columns(self.states), "action": self.names.of_actions.column(chosen)})

    @contextmanager
    def _naming_states(self) -> Iterator[None]:
        """Let an error about classes of states name some of them."""
        try:
            yield
        except (NotUnichain, NotCommunicating) as error:
            if isinstance(self.states, range):
                raise
            names = ", ".join(f"{state} is {self.states[state]!r}" for state in error.examples)
            raise type(error)(f"{error} (Names of states: {names}.)", error.examples) from None

    def optimality_gap(self, action_values: ArrayLike) -> float:
        """sp(Tq − q) for action values (S, A). The greedy policy earns at most this much less than the optimum (Thm 4.4)."""
        return solving.optimality_gap(self.outcomes, action_values)

    def __repr__(self) -> str:
        kind = "fixed rewards" if not self.outcomes.sd.any() else "normal rewards"
        if self.outcomes.cap < math.inf:
            kind += f" capped at {self.outcomes.cap:g}"
        name = f"{self.name}: " if self.name else ""
        most = self.outcomes.probability.shape[2]
        return f"FiniteMDP({name}{self.num_states} states, {self.num_actions} actions, at most {most} outcomes, {kind})"


def _deadline(time_limit: float | None) -> float:
    """The time of the monotonic clock at which a search ends."""
    return math.inf if time_limit is None else time.monotonic() + number("time_limit", time_limit, 0.0)


REPLACED = ("initial", "name", "states", "actions", "heuristics")


def _world_of(outcomes: Outcomes, *given: Any) -> FiniteMDP:
    mdp = FiniteMDP.__new__(FiniteMDP)
    mdp._set(outcomes, *given)
    return mdp


def _names(which: str, given: Sequence[Hashable] | None, size: int) -> Sequence[Hashable]:
    """The names of states or actions; a range if there are none."""
    if given is None or (isinstance(given, range) and given == range(size)):
        return range(size)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{which} must be a list of {size} names, got {given!r}.")
    names = tuple(given)
    if len(names) != size:
        raise ValueError(f"{which} must have a name for each of the {size} {which}, got {len(names)} names.")
    try:
        number = {name: i for i, name in enumerate(names)}
    except TypeError as error:
        raise TypeError(
            f"{which} must have names that can be keys of a dict, such as texts or tuples: {error}."
        ) from error
    if len(number) < size:
        twice = next(name for i, name in enumerate(names) if number[name] != i)
        raise ValueError(f"{which} must have different names, got {twice!r} more than once.")
    return names


def _rule(name: str, given: ArrayLike, num_states: int, num_actions: int) -> NDArray[np.int64]:
    """Numbers of actions (S,), checked."""
    actions = np.array(given)
    if (
        actions.shape != (num_states,)
        or actions.dtype.kind not in "iu"
        or not ((actions >= 0) & (actions < num_actions)).all()
    ):
        raise ValueError(
            f"The heuristic {name!r} must be numbers of actions from 0 to {num_actions - 1}, one for each of the {num_states} "
            "states."
        )
    return constant(actions)


class RewardTables(NamedTuple):
    """Rewards for each state, action and next state: means, standard deviations and weights (S, A, S, C), and the cap."""

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
            f"rewards must have shape (states, actions) = {shape[:2]} or (states, actions, states) = {shape}, or be "
            f"GaussianRewards; got shape {fixed.shape}. For rewards that depend on the state only, give "
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
            "The weights of GaussianRewards must be probabilities, 0 or more, that sum to 1 over the last axis; got "
            f"{weights.min():g} as the smallest weight, and sums from {total.min():.9g} to {total.max():.9g}. "
            "Divide the weights by their sum over the last axis."
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
            f"The arrays of GaussianRewards must broadcast to {letters}, here with S = {shape[0]} and A = {shape[1]}; "
            f"got {got}. Add axes of length 1 where an array is constant. The axis C of the mixture components is there if, "
            "and only if, weights are given."
        ) from None


def _require(need: str, good: NDArray[np.bool_], values: Floats, possible: tuple[NDArray[np.int64], ...]) -> None:
    """Raise a ValueError about the first of the numbers (N, C) that is not good, if there is one."""
    if not good.all():
        i, component = (int(index) for index in np.argwhere(~good)[0])
        s, a, to = (int(axis[i]) for axis in possible)
        raise ValueError(
            f"{need} for every possible transition; from state {s} with action {a} to state {to}, got "
            f"{values[i, component]}. Correct that entry."
        )


def _outcomes_from_gymnasium(table: Any, initial: Floats, reset_cost: float) -> Outcomes:
    """From P[state][action] = [(probability, next state, reward, terminated), …]; after an end comes a first state."""
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
