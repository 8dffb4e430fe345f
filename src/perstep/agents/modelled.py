"""The rewards of a policy in the model of a table: what its actions earn in the long run, by all that was ever seen after them.

What an agent earned of late it earned with policies of late, which differ from that of now where actions are about as good. The
model knows better: its transitions under the actions of now are a Markov chain, and its stationary distribution says how often
each of them happens (PolicyEvaluation.reward_distribution is the same for a world that is known).
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.environments.exact import closed_classes, reachable, stationary_gain_values
from perstep.model import Model

Floats = NDArray[np.float64]

MOST_STATES = 20_000  # beyond, a look at the distribution would take long
FEWEST_TRANSITIONS = 30  # that must have been seen after an action …
NOTABLE = 1e-3  # … that is taken in this share of the steps or more
MOST_UNTOLD = 1e-3  # largest share of the steps whose rewards are not told apart
LARGEST_RESIDUAL = 1e-6  # of the stationary distribution: beyond, the linear system was nearly singular


class LongRun(NamedTuple):
    """What the actions earn in the long run, one entry for each kind of transition."""

    weights: Floats
    """How often it happens; they sum to 1."""
    rewards: Floats
    """What it pays; where rewards are not told apart, their mean."""
    deltas: Floats
    """R − r̄ + v(S′) − v(S): their squares are the variance of a long sum of rewards, per step (Poisson equation)."""
    untold: float
    """The share of the steps whose rewards are not told apart."""

    @property
    def knows_rewards(self) -> bool:
        """Whether the distribution of the rewards is known."""
        return self.untold <= MOST_UNTOLD

    def worth(self, variance: float) -> float:
        """How many independent rewards one step is worth, at most one; `variance`: that of the rewards, by counting."""
        apart = float(self.weights @ (self.rewards - self.weights @ self.rewards) ** 2)
        noise = 0.0 if self.knows_rewards else max(variance - apart, 0.0)  # around the means, from step to step
        long_run = float(self.weights @ self.deltas**2) + noise
        return 1.0 if long_run <= apart + noise else (apart + noise) / long_run


def long_run(model: Model, actions: NDArray[np.int64]) -> LongRun | None:
    """What these actions, (S,), earn in the long run. None if the model does not know all that follows from the best known state
    on, or if the chain does not return there."""
    from scipy.sparse import csr_array

    num_states, size = actions.size, int(model.size[0])
    if num_states > MOST_STATES:
        return None
    num_actions = model.numbers.size // num_states
    pairs = np.arange(num_states) * num_actions + actions
    numbers = model.numbers[pairs]
    chosen = np.flatnonzero(pairs[model.pairs[:size] // num_actions] == model.pairs[:size])
    state, follower = model.pairs[chosen] // num_actions, model.followers[chosen]
    if not chosen.size or (follower < 0).any():
        return None
    share = model.counts[chosen] / np.maximum(numbers[state], 1)
    chain = csr_array((share, (state, follower)), shape=(num_states, num_states))
    counted = reachable(chain, np.arange(num_states) == numbers.argmax())
    known = chain[counted][:, counted]
    classes = closed_classes(known)
    if len(classes) != 1 or classes[0].size < known.shape[0] or (numbers[counted] <= 0).any():
        return None
    mean = model.paid[pairs] / np.maximum(numbers, 1)
    stationary, values = np.zeros(num_states), np.zeros(num_states)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nearly singular systems: looked at below
            stationary[counted], gain, values[counted] = stationary_gain_values(known, mean[counted], classes[0])
    except (ValueError, RuntimeError, np.linalg.LinAlgError):
        return None
    residual = np.abs(chain.T @ stationary - stationary).sum()
    if not (residual <= LARGEST_RESIDUAL and np.isfinite(values).all()):
        return None
    if (numbers[stationary >= NOTABLE] < FEWEST_TRANSITIONS).any():
        return None
    weights, rewards = stationary[state] * share, model.rewards[chosen]
    untold = np.isnan(rewards)
    rewards = np.where(untold, mean[state], rewards)
    deltas = rewards - gain + values[follower] - values[state]
    happens = weights > 0.0
    weights = weights / weights[happens].sum()
    return LongRun(weights[happens], rewards[happens], deltas[happens], float(weights[untold].sum()))
