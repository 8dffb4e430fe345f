"""Exact answers about one policy: average reward, values, long-run distribution of the reward, and forecasts (Sec. 3.1, App. B)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from perstep.distributions.distribution import Distribution, Floats
from perstep.distributions.forecast import Forecast
from perstep.inputs.checks import LONGEST_HORIZON, count, number
from perstep.mdp.chains import (
    SeveralAnswers,
    class_names,
    closed_classes,
    policy_chain,
    reachable,
    restricted,
    stationary_gain_values,
)
from perstep.mdp.horizon_returns import pair_transitions, return_distribution, return_variances, state_transitions
from perstep.mdp.names import Names
from perstep.mdp.outcomes import Outcomes, expected_rewards, normalised_initial, transition_matrix
from perstep.mdp.reward_sums import centred_rewards, simulated_sums, sum_moments
from perstep.mdp.sampler import make_world
from perstep.numerics.randomness import make_generator
from perstep.system.budget import claim

LONGEST_SUM = 2**62  # steps of a forecast
SIMULATED_STEPS, SIMULATED_PATHS = 100, 100_000  # a forecast of so few steps is simulated: at most half a second
ROUNDING = 1e-14  # relative to the values; rounding error of their sums

Start: TypeAlias = Hashable | ArrayLike
"""A state, by its name or, without names, its number, or a distribution (S,) over states."""


class NotUnichain(SeveralAnswers):
    """The policy's Markov chain has several closed classes, so the average reward depends on the first state."""


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
        outside = (first > 0.0) & ~counted
        if outside.any():
            raise ValueError(
                f"start must be a state that was evaluated, got state {self.names.states[int(outside.argmax())]!r}, from which the "
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
    chain = policy_chain(matrix, policy)
    start = names.state(start)
    first = None if start is None else _start_distribution(start, num_states) > 0.0
    counted = np.ones(num_states, dtype=np.bool_) if first is None else reachable(chain, first)
    classes = closed_classes(restricted(chain, counted))
    if len(classes) > 1 and first is None:
        counted = reachable(chain, initial > 0.0)
        classes = closed_classes(restricted(chain, counted))
    if len(classes) > 1:
        members = [np.flatnonzero(counted)[each] for each in classes]
        listed, examples = class_names(members), [int(each[0]) for each in members[:4]]
        raise NotUnichain(
            "The policy's Markov chain must have one closed class of states, got "
            f"{len(classes)} closed classes: {listed}. The average reward depends on which of them is reached, and that depends on "
            + (
                f"the first state. Give start={names.states[examples[0]]!r}, for example, to evaluate the policy from one state, "
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
    stationary[kept], gain, values[kept] = stationary_gain_values(restricted(chain, counted), mean[kept], classes[0])
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
