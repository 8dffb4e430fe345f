"""Autoscaling, a continuing task from operations: how many servers a web service should run when the demand is uncertain.

It is not a task of the paper. Its rewards have a wide range: about −5 per step when well run, −500 when overloaded.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from perstep.inputs.checks import shown
from perstep.numerics.schedules import is_finite
from perstep.system.budget import claim

SWITCH_OFF, KEEP, START = 0, 1, 2  # the actions

State = tuple[int, int, tuple[int, ...], float, float, float]
"""Clock, servers on, clock at which each starting server is ready, waiting requests, last demand, drift of the demand."""


@final
class AutoscalingEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Servers with a start-up delay, a demand with a daily wave, and a queue. It never terminates or truncates.

    In each step the action switches a server off (0), keeps all (1) or starts one (2). A server that starts costs as much as
    one that is on, and serves requests only after `startup_steps` steps. The last server that is on stays on. Then new
    requests arrive. The servers that are on serve what they can, and the remaining requests wait. The reward is minus the cost
    of the servers and of the waiting requests.

    The observation (6,) is: servers on and servers starting, as fractions of `max_servers`; log(1 + waiting requests), as a
    fraction of its maximum; requests that arrived in the last step, as a fraction of `max_demand`; sine and cosine of the time
    of day.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        max_servers: int = 12,
        requests_per_server: float = 10.0,
        startup_steps: int = 5,
        day_steps: int = 288,
        mean_demand: float = 35.0,
        daily_wave: float = 25.0,
        drift_memory: float = 0.95,
        drift_noise: float = 1.5,
        noise: float = 3.0,
        max_waiting: float = 1000.0,
        server_cost: float = 1.0,
        waiting_cost: float = 0.5,
        min_reward: float = -500.0,
    ) -> None:
        """Create the world. All amounts are per step; a step is five minutes if a day has 288 steps.

        Args:
            max_servers: largest number of servers, those that start included.
            requests_per_server: requests that a server can serve.
            startup_steps: steps between the start of a server and the first requests that it serves.
            day_steps: number of steps of a day.
            mean_demand: mean number of requests that arrive.
            daily_wave: amplitude of the daily sine wave of the demand.
            drift_memory: factor by which the slow random part of the demand decays, at least 0 and below 1.
            drift_noise: standard deviation of the change of the slow random part.
            noise: standard deviation of the part of the demand that is independent in each step.
            max_waiting: length of the queue; further requests are turned away.
            server_cost: cost of a server that is on or starts.
            waiting_cost: cost of a waiting request.
            min_reward: the reward is clipped to this from below.
        """
        _check(locals())
        self.max_servers, self.requests_per_server, self.startup_steps = max_servers, requests_per_server, startup_steps
        self.day_steps, self.mean_demand, self.daily_wave = day_steps, mean_demand, daily_wave
        self.drift_memory, self.drift_noise, self.noise = drift_memory, drift_noise, noise
        self.max_waiting, self.server_cost, self.waiting_cost = max_waiting, server_cost, waiting_cost
        self.min_reward = min_reward
        drift_deviation = drift_noise / math.sqrt(1.0 - drift_memory**2)
        # An observation needs bounds, so the demand is clipped at four standard deviations above its highest mean.
        self.max_demand = mean_demand + daily_wave + 4.0 * math.hypot(drift_deviation, noise)
        claim(128 * day_steps, f"A day of {day_steps:,} steps", "Choose fewer day_steps.")
        # Lists of floats, since reading one element of an array takes longer.
        angles = [2.0 * math.pi * time / day_steps for time in range(day_steps)]
        self._sines, self._cosines = [math.sin(angle) for angle in angles], [math.cos(angle) for angle in angles]
        self._log_max_waiting = math.log1p(max_waiting)
        low, high = np.array([0, 0, 0, 0, -1, -1], np.float32), np.ones(6, np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.state: State | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start at a random time of day, with enough servers for its mean demand and with an empty queue."""
        super().reset(seed=seed)
        clock = int(self.np_random.integers(self.day_steps))
        demand = min(max(self.mean_demand + self.daily_wave * self._sines[clock], 0.0), self.max_demand)
        servers = max(math.ceil(min(demand / self.requests_per_server, self.max_servers)), 1)
        self.state = (clock, servers, (), 0.0, demand, 0.0)
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Carry out the action, let requests arrive, and serve."""
        if self.state is None:
            raise ResetNeeded("The servers have no state before the first reset. Call reset() first.")
        clock, servers, ready_at, waiting, demand, drift = self.state
        if action == START:
            if servers + len(ready_at) < self.max_servers:
                ready_at = (*ready_at, clock + self.startup_steps)
        elif action == SWITCH_OFF:
            servers = max(servers - 1, 1)
        elif action != KEEP:
            raise ValueError(f"The action must be 0 (switch a server off), 1 (keep) or 2 (start one), got {action}.")
        if ready_at and ready_at[0] <= clock:
            servers, ready_at = servers + 1, ready_at[1:]

        normal = self.np_random.standard_normal
        drift = self.drift_memory * drift + self.drift_noise * normal()
        expected = self.mean_demand + self.daily_wave * self._sines[clock % self.day_steps]
        demand = min(max(expected + drift + self.noise * normal(), 0.0), self.max_demand)
        waiting = min(max(waiting + demand - servers * self.requests_per_server, 0.0), self.max_waiting)
        cost = self.server_cost * (servers + len(ready_at)) + self.waiting_cost * waiting
        self.state = (clock + 1, servers, ready_at, waiting, demand, drift)
        return self._observe(), max(-cost, self.min_reward), False, False, {}

    @property
    def heuristics(self) -> dict[str, Callable[[NDArray[np.float32]], int]]:
        """Policies that practitioners use in this world, by name: functions of the observation."""
        return {"threshold": self.heuristic}

    def heuristic(self, observation: NDArray[np.float32]) -> int:
        """The action of a threshold rule: run enough servers for 1.2 times the last demand and for the queue.

        It starts a server when there are fewer than that, and switches one off when there are at least two more.
        """
        on, starting, queue, demand = (float(value) for value in observation[:4])
        waiting = math.expm1(queue * self._log_max_waiting)
        # The queue should be empty again within about as many steps as a new server takes to start.
        load = 1.2 * demand * self.max_demand + waiting / self.startup_steps
        missing = load / self.requests_per_server - round((on + starting) * self.max_servers)
        return START if missing > 0.0 else SWITCH_OFF if missing < -2.0 else KEEP

    def _observe(self) -> NDArray[np.float32]:
        assert self.state is not None
        clock, servers, ready_at, waiting, demand, _ = self.state
        time = clock % self.day_steps
        return np.array(
            (
                servers / self.max_servers,
                len(ready_at) / self.max_servers,
                math.log1p(waiting) / self._log_max_waiting,
                demand / self.max_demand,
                self._sines[time],
                self._cosines[time],
            ),
            np.float32,
        )


def _check(settings: dict[str, Any]) -> None:
    for name in ("max_servers", "startup_steps", "day_steps"):
        if not (isinstance(value := settings[name], int) and value >= 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {shown(value)}.")
    for name in ("requests_per_server", "mean_demand", "max_waiting"):
        if not (is_finite(value := settings[name]) and value > 0):
            raise ValueError(f"{name} must be a positive number, got {shown(value)}.")
    for name in ("daily_wave", "drift_noise", "noise", "server_cost", "waiting_cost"):
        if not (is_finite(value := settings[name]) and value >= 0):
            raise ValueError(f"{name} must be a number of at least 0, got {shown(value)}.")
    if not (is_finite(value := settings["drift_memory"]) and 0 <= value < 1):
        raise ValueError(f"drift_memory must be at least 0 and below 1, got {shown(value)}.")
    if not (isinstance(value := settings["min_reward"], numbers.Real) and value < 0):  # −∞: nothing is clipped
        raise ValueError(f"min_reward must be below 0, got {shown(value)}.")
