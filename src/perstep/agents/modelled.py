"""The rewards of a policy in the model of a table: what its actions earn in the long run, by all that was ever seen after them.

What an agent earned of late it earned with policies of late, which differ from that of now where actions are about as good. The
model knows better: its transitions under the actions of now are a Markov chain, and its stationary distribution says how often
each of them happens (PolicyEvaluation.reward_distribution is the same for a world that is known).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perstep.environments.exact import closed_classes, reachable, stationary_gain_values
from perstep.model import Model

Floats = NDArray[np.float64]

MOST_STATES = 20_000  # beyond, a look at the distribution would take long
FEWEST_TRANSITIONS = 30  # that must have been seen after an action …
NOTABLE = 1e-3  # … that is taken in this share of the steps or more


def modelled_rewards(model: Model, actions: NDArray[np.int64]) -> tuple[Floats, Floats] | None:
    """Probabilities and rewards of all transitions under these actions, (S,), in the long run. None if the model does not know all
    that follows from the best known state on, if the chain does not return there, or if it does not know the rewards."""
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
    stationary = np.zeros(num_states)
    stationary[counted] = stationary_gain_values(known, np.zeros(known.shape[0]), classes[0])[0]
    if (numbers[stationary >= NOTABLE] < FEWEST_TRANSITIONS).any():
        return None
    weights, rewards = stationary[state] * share, model.rewards[chosen]
    happens = weights > 0.0
    if np.isnan(rewards[happens]).any():
        return None
    return weights[happens] / weights[happens].sum(), rewards[happens]
