"""Worlds in which what is done now pays hundreds of steps later: an agent that looks less far than that prefers the wrong action.

Each is a plain Gymnasium world with a box of observations, as tiles and networks read them, with its optimal average reward.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

import perstep


class TwoLoops(gymnasium.Env[Any, Any]):
    """Two loops from one junction: action 0 stays there and pays 1 a step; action 1 enters a loop of `length` steps that pays 3 a
    step, all of it at its end. Inside the loop actions do nothing. The optimum is 3 a step."""

    optimum = 3.0

    def __init__(self, length: int) -> None:
        self.length = length
        self.observation_space = Box(0.0, 1.0, (2,), np.float64)
        self.action_space = Discrete(2)
        self.place = 0

    def observation(self) -> Any:
        return np.array([float(self.place > 0), self.place / self.length])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        reward = 0.0
        if self.place or action == 1:
            self.place += 1
            if self.place == self.length:
                self.place, reward = 0, 3.0 * self.length
        else:
            reward = 1.0
        return self.observation(), reward, False, False, {}


class LateStock(gymnasium.Env[Any, Any]):
    """A stock whose orders arrive `lead` steps later.

    In three of ten steps a customer buys one unit for 1; a lost sale pays nothing. Action 1 orders `batch` units for 10, if no
    order is on its way. Who never orders loses nothing now and earns nothing later.
    """

    def __init__(self, lead: int = 200, batch: int = 120, capacity: int = 240, demand: float = 0.3) -> None:
        self.lead, self.batch, self.capacity, self.demand = lead, batch, capacity, demand
        self.observation_space = Box(0.0, 1.0, (2,), np.float64)
        self.action_space = Discrete(2)
        self.stock, self.wait = batch, 0

    def observation(self) -> Any:
        return np.array([self.stock / self.capacity, self.wait / self.lead])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.stock, self.wait = self.batch, 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        reward = 0.0
        if self.wait:
            self.wait -= 1
            if self.wait == 0:
                self.stock = min(self.stock + self.batch, self.capacity)
        elif action == 1:
            reward, self.wait = -10.0, self.lead
        if self.stock and self.np_random.random() < self.demand:
            self.stock, reward = self.stock - 1, reward + 1.0
        return self.observation(), reward, False, False, {}

    def as_mdp(self) -> perstep.FiniteMDP:
        """The same world as a finite one, for exact answers."""

        def outcomes(state: tuple[int, int], action: int) -> Any:
            stock, wait = state
            paid = 0.0
            if wait:
                wait -= 1
                stock = min(stock + self.batch, self.capacity) if wait == 0 else stock
            elif action == 1:
                paid, wait = -10.0, self.lead
            if not stock:
                return [(1.0, (stock, wait), paid)]
            return [(self.demand, (stock - 1, wait), paid + 1.0), (1.0 - self.demand, (stock, wait), paid)]

        return perstep.FiniteMDP.from_function((self.batch, 0), [0, 1], outcomes)


class WearingMachine(gymnasium.Env[Any, Any]):
    """A machine that pays 1 a step and breaks after `life` steps without maintenance, which then costs 4 · `life`. Action 1
    maintains it for 5. The optimum maintains in the last step before it breaks."""

    def __init__(self, life: int = 500) -> None:
        self.life = life
        self.optimum = (life - 1 - 5.0) / life
        self.observation_space = Box(0.0, 1.0, (1,), np.float64)
        self.action_space = Discrete(2)
        self.age = 0

    def observation(self) -> Any:
        return np.array([self.age / self.life])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age = 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        if action == 1:
            self.age = 0
            return self.observation(), -5.0, False, False, {}
        self.age += 1
        if self.age < self.life:
            return self.observation(), 1.0, False, False, {}
        self.age = 0
        return self.observation(), -4.0 * self.life, False, False, {}
