"""Red-pill blue-pill, the paper's first experiment (App. C): two states, one with narrow and one with bimodal rewards."""

from __future__ import annotations

import numpy as np

from perstep.mdp.mdp import FiniteMDP, GaussianRewards

RED, BLUE = 0, 1  # the two states (worlds), and the two actions (pills)


def red_pill_blue_pill() -> FiniteMDP:
    """State 0 is the red world, state 1 the blue world. Action 0 leads to the red world, action 1 to the blue world.

    The reward depends on the state that is left, not on the action: N(−0.7, 0.05) in the red world, and N(−1.0, 0.05) or
    N(−0.2, 0.05) with equal probability in the blue world, capped at 0. The first state is uniform.
    """
    transitions = np.broadcast_to(np.eye(2), (2, 2, 2))  # the action is the next state
    means = np.array([[-0.7, -0.7], [-1.0, -0.2]])[:, None, None, :]  # (S, 1, 1, C)
    rewards = GaussianRewards(means, sds=0.05, weights=[0.5, 0.5], cap=0.0)
    return FiniteMDP(transitions, rewards, name="RedPillBluePill")
