"""Two stores with continuous actions and known optima: energy that is bought and sold at prices, and a reservoir of water.

The store of energy has a threshold policy in closed form. The reservoir is solved on a grid of levels, as a `FiniteMDP`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from perstep.inputs.checks import count, number
from perstep.mdp import FiniteMDP

Floats = NDArray[np.float64]


class Thresholds(NamedTuple):
    """The optimal policy of a store of energy: fill it below one price, empty it above another."""

    buy_below: float
    sell_above: float
    average_reward: float


class _Store(gymnasium.Env[Floats, Floats], ABC):
    """A state that is observed as it is, and an action of one number; it never terminates or truncates."""

    metadata = {"render_modes": []}
    state: Floats | None = None

    def _open(self, low: list[float], high: list[float], least: float, render_mode: str | None) -> None:
        if render_mode is not None:
            raise ValueError(f"This world has no pictures: leave out render_mode={render_mode!r}.")
        self.render_mode = None
        self.observation_space = gymnasium.spaces.Box(np.array(low), np.array(high), dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(least, 1.0, (1,), np.float64)

    @abstractmethod
    def _start(self) -> Floats:
        """The first state."""

    @abstractmethod
    def _after(self, state: Floats, action: float) -> tuple[Floats, float]:
        """The next state, and the reward."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start in the first state."""
        super().reset(seed=seed)
        self.state = self._start()
        return self.state.copy(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """One step under an action."""
        if self.state is None:
            raise ResetNeeded("There is no state before the first reset. Call reset() first.")
        chosen = np.asarray(action, np.float64)
        if not self.action_space.contains(chosen):
            raise ValueError(f"The action must be one number of {self.action_space}, got {action}.")
        self.state, reward = self._after(self.state, float(chosen[0]))
        return self.state.copy(), reward, False, False, {}


@final
class EnergyStorageEnv(_Store):
    """Buy energy when it is cheap, and sell it when it is expensive. A new price from 0 to 1 is drawn at every step, uniformly.

    The observation is (level from 0 to 1, price). The action is the share of the store that is filled, above 0, or emptied, below
    0, as far as there is room or energy. To store one unit takes 1/efficiency units of bought energy.
    """

    def __init__(self, efficiency: float = 0.8, render_mode: str | None = None) -> None:
        """`efficiency`: the share of the bought energy that reaches the store."""
        self.efficiency = number("efficiency", efficiency, 0.0, 1.0, above=True)
        self._open([0.0, 0.0], [1.0, 1.0], -1.0, render_mode)

    def _start(self) -> Floats:
        return np.array([0.0, self.np_random.uniform()])

    def _after(self, state: Floats, action: float) -> tuple[Floats, float]:
        level, price = state
        stored = min(max(action, -level), 1.0 - level)
        reward = -price * (stored / self.efficiency if stored > 0.0 else stored)
        return np.array([min(max(level + stored, 0.0), 1.0), self.np_random.uniform()]), float(reward)

    def solve(self) -> Thresholds:
        """The optimal policy, exactly. A unit in the store is worth h: h = E max(p, h) − E max(0, h − p/e), which for uniform
        prices is (1 − e) h²/2 − h + 1/2 = 0, so h = 1/(1 + √e)."""
        worth = 1.0 / (1.0 + math.sqrt(self.efficiency))
        return Thresholds(self.efficiency * worth, worth, 0.5 * self.efficiency * worth**2)


INFLOWS, CHANCES = (0.0, 0.1, 0.4), (0.5, 0.3, 0.2)  # of the capacity; their mean is 0.11
MOST_RELEASED = 0.5


@final
class ReservoirEnv(_Store):
    """Release water from a reservoir with random inflow: the reward is the square root of what is released, so an even flow is
    best, and what flows over costs.

    The observation is the level, from 0 to 1. The action from 0 to 1 is a share of the largest release, half of the capacity, as
    far as there is water.
    """

    def __init__(self, flood_cost: float = 2.0, render_mode: str | None = None) -> None:
        """`flood_cost`: for a whole reservoir of water that flows over."""
        self.flood_cost = number("flood_cost", flood_cost, 0.0)
        self._open([0.0], [1.0], 0.0, render_mode)

    def _start(self) -> Floats:
        return np.array([0.5])

    def _after(self, state: Floats, action: float) -> tuple[Floats, float]:
        released = min(MOST_RELEASED * action, float(state[0]))
        inflow = INFLOWS[int(np.searchsorted(np.cumsum(CHANCES)[:-1], self.np_random.uniform(), side="right"))]
        level = float(state[0]) - released + inflow
        return np.array([min(level, 1.0)]), math.sqrt(released) - self.flood_cost * max(level - 1.0, 0.0)

    def on_a_grid(self, steps: int = 100) -> FiniteMDP:
        """The reservoir with levels and releases in multiples of 1/steps: its optimum is a lower bound of that of the reservoir,
        and rises to it with the number of steps, a multiple of 10."""
        if count("steps", steps, 10) % 10:
            raise ValueError(f"steps must be a multiple of 10, so that every inflow is a whole number of them, got {steps}.")
        levels, releases = np.arange(steps + 1), np.arange(steps // 2 + 1)
        released = np.minimum(releases[None, :], levels[:, None])[..., None]  # (levels, releases, 1)
        level = levels[:, None, None] - released + np.rint(np.array(INFLOWS) * steps).astype(int)
        after = np.minimum(level, steps)
        reward = np.sqrt(released / steps) - self.flood_cost * (level - after) / steps
        chances = np.broadcast_to(CHANCES, level.shape)
        transitions, rewards = np.zeros((2, steps + 1, len(releases), steps + 1))
        for i in range(len(INFLOWS)):
            place = (levels[:, None], releases[None, :], after[..., i])
            rewards[place] += chances[..., i] * reward[..., i]
            transitions[place] += chances[..., i]
        return FiniteMDP(transitions, np.divide(rewards, transitions, where=transitions > 0, out=rewards), name="Reservoir")
