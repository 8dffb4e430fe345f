"""Linear-quadratic control with Gaussian noise: continuous states and actions, and an optimum known exactly (Bertsekas 2017, 5.5).

x′ = A x + B u + w with w ~ N(0, σ² I), and the reward −(xᵀx + ρ uᵀu). A turns the state a little in every pair of neighbouring
dimensions and shrinks it slightly, so no dimension can be controlled without the others. With bounds on u that the optimal policy
practically never reaches (six standard deviations), u = −K x is optimal, with K from the discrete algebraic Riccati equation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from perstep.inputs.checks import count, number

Floats = NDArray[np.float64]

TURN, SHRINK = 0.3, 0.98  # radians per step; the factor of lengths
PUSH = 0.5  # what an action adds to its dimension
MOST_DIMENSIONS = 100


class Solution(NamedTuple):
    """The optimal policy, and what it earns."""

    gain: Floats  # (d, d): K of u = −K x
    average_reward: float
    spread: Floats  # (d, d): the covariance of the states
    weights: Floats  # (d,): the reward is −Σ weights_i z_i² with independent standard normal z


@final
class LinearQuadraticEnv(gymnasium.Env[Floats, Floats]):
    """The regulator as a Gymnasium environment. It starts at rest, and never terminates or truncates."""

    metadata = {"render_modes": []}

    def __init__(
        self, dimensions: int = 2, noise: float = 0.15, action_cost: float = 0.5, render_mode: str | None = None
    ) -> None:
        """`dimensions`: of the state and of the action. `noise`: σ. `action_cost`: ρ."""
        self.dimensions = count("dimensions", dimensions, 1, MOST_DIMENSIONS)
        self.noise = number("noise", noise, 0.0, above=True)
        self.action_cost = number("action_cost", action_cost, 0.0, above=True)
        if render_mode is not None:
            raise ValueError(f"This world has no pictures: leave out render_mode={render_mode!r}.")
        self.render_mode = None
        self.transition = transition_of(self.dimensions)
        everywhere = np.full(self.dimensions, np.inf)
        self.observation_space = gymnasium.spaces.Box(-everywhere, everywhere, dtype=np.float64)
        limit = np.full(self.dimensions, self.noise / 0.15)
        self.action_space = gymnasium.spaces.Box(-limit, limit, dtype=np.float64)
        self.state: Floats | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start at 0."""
        super().reset(seed=seed)
        self.state = np.zeros(self.dimensions)
        return self.state.copy(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """One step under an action."""
        if self.state is None:
            raise ResetNeeded("There is no state before the first reset. Call reset() first.")
        push = np.asarray(action, np.float64)
        if not self.action_space.contains(push):
            raise ValueError(f"The action must be {self.dimensions} numbers of the action space, got {action}.")
        reward = -float(self.state @ self.state + self.action_cost * push @ push)
        self.state = (
            self.transition @ self.state + PUSH * push + self.noise * self.np_random.normal(size=self.dimensions)
        )
        return self.state.copy(), reward, False, False, {}

    def solve(self) -> Solution:
        """The optimal policy without bounds on actions, exactly."""
        from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

        here, unit = self.transition, np.eye(self.dimensions)
        costs = solve_discrete_are(here, PUSH * unit, unit, self.action_cost * unit)
        gain = np.linalg.solve(self.action_cost * unit + PUSH**2 * costs, PUSH * costs @ here)
        closed = here - PUSH * gain
        spread = solve_discrete_lyapunov(closed, self.noise**2 * unit)
        root = np.linalg.cholesky(spread)
        weights = np.asarray(np.linalg.eigvalsh(root.T @ (unit + self.action_cost * gain.T @ gain) @ root))
        return Solution(gain, -(self.noise**2) * float(np.trace(costs)), spread, weights)


def transition_of(dimensions: int) -> Floats:
    """A: one turn after the other in the planes of neighbouring dimensions, shrunk."""
    turned = np.eye(dimensions)
    for i in range(dimensions - 1):
        turn = np.eye(dimensions)
        turn[i : i + 2, i : i + 2] = [[math.cos(TURN), -math.sin(TURN)], [math.sin(TURN), math.cos(TURN)]]
        turned = turn @ turned
    return SHRINK * turned
