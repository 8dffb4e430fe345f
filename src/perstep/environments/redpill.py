"""Red-pill blue-pill, the paper's first experiment (App. C): one world is calm, the other better but split in two."""

from __future__ import annotations

import numpy as np

from perstep.environments.mdp import FiniteMDP, GaussianRewards

RED, BLUE = 0, 1  # as states the worlds, as actions the pills


def red_pill_blue_pill() -> FiniteMDP:
    """State 0 is the red world and 1 the blue one; action 0 is the red pill and 1 the blue one, and leads to its world.

    The reward comes from the world being left, whatever the pill: red N(−0.7, 0.05), blue half N(−1.0, 0.05) and half
    N(−0.2, 0.05), never above 0. Starts in either.
    """
    transitions = np.broadcast_to(np.eye(2), (2, 2, 2))  # the action is the next state
    means = np.array([[-0.7, -0.7], [-1.0, -0.2]])[:, None, None, :]  # (S, 1, 1, C)
    rewards = GaussianRewards(means, sds=0.05, weights=[0.5, 0.5], cap=0.0)
    return FiniteMDP(transitions, rewards, name="RedPillBluePill")
