"""Garnet worlds: random finite MDPs of any size with few successors, to test on (Archibald et al. 1995)."""

from __future__ import annotations

import numpy as np

from perstep.environments.mdp import FiniteMDP


def garnet(num_states: int, num_actions: int, branching: int, seed: int, *, reward_sd: float = 0.0) -> FiniteMDP:
    """A random world: each pair has `branching` successors with random probabilities and a mean reward from N(0, 1).

    In each state one action may also follow a random tour of all states, so every state can be reached from every
    other. With `reward_sd` the rewards are normal around their means. Starts anywhere.
    """
    if num_states < 1 or num_actions < 1 or not 1 <= branching <= num_states:
        raise ValueError(
            "A Garnet world has at least one state and one action, and from 1 to num_states successors, but got "
            f"num_states={num_states}, num_actions={num_actions}, branching={branching}."
        )
    random = np.random.default_rng(seed)
    pairs = num_states * num_actions
    successors = np.empty((pairs, branching), dtype=np.int64)
    for pair in range(pairs):
        successors[pair] = random.choice(num_states, size=branching, replace=False)
    cuts = np.sort(random.random((pairs, branching - 1)), axis=1)
    probability = np.diff(cuts, axis=1, prepend=0.0, append=1.0)  # lengths between random cuts of [0, 1]
    tour = random.permutation(num_states)
    following = np.empty(num_states, dtype=np.int64)
    following[tour] = np.roll(tour, -1)
    guide = np.arange(num_states) * num_actions + random.integers(
        num_actions, size=num_states
    )  # the pair that follows the tour
    absent = ~(successors[guide] == following[:, None]).any(axis=1)
    successors[guide[absent], 0] = following[absent]
    shape = (num_states, num_actions, branching)
    return FiniteMDP.from_outcomes(
        probability.reshape(shape),
        successors.reshape(shape),
        random.standard_normal((num_states, num_actions, 1)),
        reward_sd,
        name=f"Garnet({num_states}, {num_actions}, {branching}, seed {seed})",
    )
