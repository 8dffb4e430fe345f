"""How actions are chosen: greedily, ε-greedily (Alg. 4, 8, 11) and by a softmax of preferences (Alg. 5, 9, 12)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import Generator, uniform

Floats = NDArray[np.float64]

BOOTSTRAPS = ("greedy", "sampled", "expected")
"""The action at S′ whose value is the target: the best (Q-learning), the next one (Sarsa), all by their chance (Expected Sarsa)."""
GREEDY, SAMPLED, EXPECTED = 0, 1, 2


@compiled
def greedy(preferences: Floats) -> int:
    """The first of the best actions: a* of the listings, ties to the lowest index."""
    best = 0
    for action in range(1, preferences.shape[0]):
        if preferences[action] > preferences[best]:
            best = action
    return best


@compiled
def epsilon_greedy(preferences: Floats, epsilon: float, generator: Generator) -> int:
    """With probability ε a random action, otherwise one of the best, ties broken uniformly."""
    count = preferences.shape[0]
    draw = uniform(generator)
    if draw < epsilon:
        return min(int(draw / epsilon * count), count - 1)  # given draw < ε, draw/ε is uniform again
    best, ties = 0, 1
    for action in range(1, count):
        if preferences[action] > preferences[best]:
            best, ties = action, 1
        elif preferences[action] == preferences[best]:
            ties += 1
    if ties == 1:
        return best
    skip = int(uniform(generator) * ties)
    for action in range(best, count):
        if preferences[action] == preferences[best]:
            if skip == 0:
                return action
            skip -= 1
    return best


@compiled
def epsilon_greedy_mean(preferences: Floats, epsilon: float) -> float:
    """The mean of the preferences under the ε-greedy policy: ties share the greedy part, but all tied values are the same."""
    total, best = 0.0, preferences[0]
    for action in range(preferences.shape[0]):
        total += preferences[action]
        best = max(best, preferences[action])
    return epsilon * total / preferences.shape[0] + (1.0 - epsilon) * best


@compiled
def softmax(preferences: Floats) -> None:
    """Preferences to probabilities, in place; the largest is taken off first, so nothing overflows."""
    top = preferences[0]
    for a in range(1, preferences.shape[0]):
        top = max(top, preferences[a])
    total = 0.0
    for a in range(preferences.shape[0]):
        preferences[a] = math.exp(preferences[a] - top)
        total += preferences[a]
    for a in range(preferences.shape[0]):
        preferences[a] /= total
