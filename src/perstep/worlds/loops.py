"""Two loops that share one state: a small reward now or a larger one later. All exact values can be derived by hand."""

from __future__ import annotations

import numpy as np

from perstep.mdp.mdp import FiniteMDP

LEFT, RIGHT = 0, 1


def two_loop() -> FiniteMDP:
    """From state 0, left leads through 1, 2, 3, 4 and right through 5, 6, 7, 8, both back to state 0.

    Going left earns +1 on the first step, going right +2 on the last step. In the other states both actions move on along the
    loop. Always left earns 0.2 per step, always right 0.4. The first state is 0.
    """
    next_state = np.array([[1, 5], [2, 2], [3, 3], [4, 4], [0, 0], [6, 6], [7, 7], [8, 8], [0, 0]])  # (S, A)
    rewards = np.zeros((9, 2))
    rewards[0, LEFT], rewards[8, :] = 1.0, 2.0
    return FiniteMDP.from_outcomes(
        np.ones((9, 2, 1)), next_state[:, :, None], rewards[:, :, None], initial=np.eye(9)[0], name="TwoLoop"
    )
