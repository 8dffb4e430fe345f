"""A finite MDP as a Gymnasium environment without episodes, for use with agents of any library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from perstep.mdp.mdp import FiniteMDP


@final
class FiniteMDPEnv(gymnasium.Env[Any, Any]):
    """A `FiniteMDP` as an environment. It never terminates or truncates; `reset` draws the first state from `mdp.initial`."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, mdp: FiniteMDP, render_mode: Literal["ansi"] | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f'render_mode must be "ansi" (text) or None, got {render_mode!r}.')
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space: gymnasium.spaces.Discrete[Any] = gymnasium.spaces.Discrete(mdp.num_states)
        self.action_space: gymnasium.spaces.Discrete[Any] = gymnasium.spaces.Discrete(mdp.num_actions)
        self.state = 0
        """The current state. Together with `np_random` this is all that changes."""
        self.id = ""
        """The id under which it was registered, where a file says it; `spec` has it otherwise."""
        self._last: tuple[int, int, float] | None = None  # previous state, action, reward

    @property
    def heuristics(self) -> Mapping[str, NDArray[np.int64]]:
        """Policies that practitioners use in this world, by name: actions (S,)."""
        return self.mdp.heuristics

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Draw a first state."""
        super().reset(seed=seed)
        world = self.mdp.world
        self.state = self._draw(world.start_accept, world.start_alias)
        self._last = None
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """One step. It never ends an episode."""
        if not self.action_space.contains(action):
            raise ValueError(f"The action must be an integer from 0 to {self.mdp.num_actions - 1}, got {action!r}.")
        world, pair = self.mdp.world, (self.state, int(action))
        # As in compiled code, a single outcome needs no random number.
        outcome = (*pair, self._draw(world.accept[pair], world.alias[pair]) if world.accept.shape[2] > 1 else 0)
        reward, sd = float(world.mean[outcome]), float(world.sd[outcome])
        if sd > 0.0:
            reward += sd * float(self.np_random.standard_normal())
        reward = min(reward, world.cap)
        self._last = (*pair, reward)
        self.state = int(world.next_state[outcome])
        return self.state, reward, False, False, {}

    def render(self) -> str | None:
        """One line of text about the last step if render_mode is "ansi", else None."""
        if self.render_mode is None:
            return None
        title = self.mdp.name or "FiniteMDP"
        if self._last is None:
            return f"{title}: starts in state {self.state}\n"
        state, action, reward = self._last
        return f"{title}: state {state}, action {action} → reward {reward:.4g}, state {self.state}\n"

    def _draw(self, accept: NDArray[np.float64], alias: NDArray[np.int32]) -> int:
        place = self.np_random.random() * accept.size
        column = int(place)
        return column if place - column < accept[column] else int(alias[column])
