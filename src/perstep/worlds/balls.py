"""Catch without an end: balls fall one after the other, and a paddle moves to catch them. The paper does not use it."""

from __future__ import annotations

import numpy as np

from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import claim_outcomes
from perstep.worlds.arguments import checked

LEFT, STAY, RIGHT = 0, 1, 2


@checked
def catch(rows: int = 10, columns: int = 5) -> FiniteMDP:
    """A ball falls by one row per step; state = (row of the ball, its column, column of the paddle) in mixed radix.

    It is here because the reward comes long after the action that earned it, as in many games, and ends do not help to find it. The
    paddle in the last row moves left (action 0), stays (1) or moves right (2). When the ball is in the last row, the reward is 1 if
    the paddle is there too and −1 otherwise, and the next ball starts in the first row, in any column. It starts with the paddle in
    the middle.
    """
    if rows < 2 or columns < 1:
        raise ValueError(f"Catch needs at least 2 rows and 1 column, got {rows} and {columns}.")
    claim_outcomes("Catch", rows * columns * columns, 3, columns)
    shape = (rows, columns, columns, 3)
    row, ball, paddle, action = (each.reshape(-1, 3) for each in np.indices(shape))
    moved = np.clip(paddle + action - 1, 0, columns - 1)
    last = row == rows - 1
    falls = ((row + 1) * columns + ball) * columns + moved
    again = np.arange(columns)[None, None, :] * columns + moved[:, :, None]  # (S, A, columns): the next ball
    probability = np.where(last[:, :, None], 1.0 / columns, np.eye(columns)[0])
    initial = np.zeros((rows, columns, columns))
    initial[0, :, columns // 2] = 1.0 / columns
    mdp = FiniteMDP.from_outcomes(
        probability,
        np.where(last[:, :, None], again, np.where(last, 0, falls)[:, :, None]),
        np.where(last, np.where(ball == paddle, 1.0, -1.0), 0.0)[:, :, None],
        initial=initial.ravel(),
        name=f"Catch({rows}, {columns})",
    )
    heuristics = {"follow the ball": 1 + np.sign(ball[:, 0] - paddle[:, 0])}
    return mdp.replace(heuristics=heuristics)
