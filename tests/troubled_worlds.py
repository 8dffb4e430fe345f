"""Worlds in which something goes wrong, for processes that import them by name: `troubled_worlds:Raises-v0`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

BAD_SEED = 1000  # the second run of every configuration
BAD_STEP = 30


class TroubledWorld(gymnasium.Env[int, int]):
    """Two states that follow each other; the reward is the action, and trouble comes in one of many runs."""

    observation_space = Discrete(2)
    action_space = Discrete(2)

    def __init__(self, trouble: str, marker: str = "") -> None:
        self.trouble, self.marker = trouble, Path(marker)
        self.state = self.steps = 0
        self.bad = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.bad = seed == BAD_SEED
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.state = 1 - self.state
        reward = float(action) + float(self.np_random.normal(0.0, 0.1))
        if self.bad and self.steps == BAD_STEP:
            reward = self.go_wrong(reward)
        return self.state, reward, False, False, {}

    def go_wrong(self, reward: float) -> float:
        if self.trouble == "raises":
            raise ArithmeticError("the world failed")
        if self.trouble == "nan":
            return float("nan")
        if self.trouble == "dies" or (self.trouble == "dies once" and not self.marker.exists()):
            if self.trouble == "dies once":
                self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return reward


for name, trouble in (
    ("Raises", "raises"),
    ("NaN", "nan"),
    ("Dies", "dies"),
    ("DiesOnce", "dies once"),
    ("Calm", "none"),
):
    if f"{name}-v0" not in gymnasium.registry:
        gymnasium.register(f"{name}-v0", "troubled_worlds:TroubledWorld", kwargs={"trouble": trouble})


class HugeWorld(gymnasium.Env[Any, int]):
    """Ones at first, and then numbers whose sum a network cannot hold."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.full(3, 3e38 if self.steps > 2 * BAD_STEP else 1.0, np.float32), float(action), False, False, {}


if "Huge-v0" not in gymnasium.registry:
    gymnasium.register("Huge-v0", "troubled_worlds:HugeWorld")
