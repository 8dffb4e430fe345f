"""The optimal average reward by linear programming: an answer in which nothing is ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

from perstep.mdp.mdp import FiniteMDP


def optimum_by_linear_program(mdp: FiniteMDP, counted: np.ndarray[Any, Any] | None = None) -> float:
    """max Σ x r over x ≥ 0 with Σ_a x(s, a) = Σ x P(s | ·) and Σ x = 1: long-run shares of pairs, and nothing of ours."""
    transitions, rewards = mdp.transitions, mdp.expected_rewards
    if counted is not None:
        transitions, rewards = transitions[counted][:, :, counted], rewards[counted]
    num_states, num_actions = rewards.shape
    leave = np.repeat(np.eye(num_states), num_actions, axis=1)  # (S, S·A)
    balance = leave - transitions.reshape(-1, num_states).T
    answer = linprog(
        -rewards.ravel(),
        A_eq=np.vstack([balance, np.ones(num_states * num_actions)]),
        b_eq=np.append(np.zeros(num_states), 1.0),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0, answer.message
    return float(-answer.fun)
