"""Garnet worlds: random finite MDPs of any size in which every pair has few successors, for tests (Archibald et al. 1995)."""

from __future__ import annotations

import numpy as np

from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import claim_outcomes
from perstep.worlds.arguments import checked


@checked
def garnet(num_states: int, num_actions: int, branching: int, seed: int, *, reward_sd: float = 0.0) -> FiniteMDP:
    """A random MDP. Each state-action pair has `branching` successors, and a mean reward drawn from N(0, 1).

    In each state one action can follow a random cycle through all states, so every state is reachable from every other.
    `reward_sd` is the standard deviation of the normal rewards; 0 for fixed rewards. The first state is uniform.
    """
    if num_states < 1 or num_actions < 1 or not 1 <= branching <= num_states:
        raise ValueError(
            "A Garnet world needs at least one state, at least one action, and branching from 1 to num_states; got "
            f"num_states={num_states}, num_actions={num_actions}, branching={branching}."
        )
    claim_outcomes("a Garnet world", num_states, num_actions, branching)
    random = np.random.default_rng(seed)
    pairs = num_states * num_actions
    successors = np.empty((pairs, branching), dtype=np.int64)
    for pair in range(pairs):
        successors[pair] = random.choice(num_states, size=branching, replace=False)
    cuts = np.sort(random.random((pairs, branching - 1)), axis=1)
    # Gaps between sorted uniform numbers: uniform on the simplex.
    probability = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    tour = random.permutation(num_states)
    following = np.empty(num_states, dtype=np.int64)
    following[tour] = np.roll(tour, -1)
    # The pairs that follow the cycle, one for each state.
    guide = np.arange(num_states) * num_actions + random.integers(num_actions, size=num_states)
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
