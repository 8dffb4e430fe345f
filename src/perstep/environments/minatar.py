"""MinAtar's five games (Young & Tian 2019): Atari in miniature, ten by ten cells, for experiments on a processor.

MinAtar's own Gymnasium environment ignores `np_random`, and so is neither seeded nor saved; this one draws from nothing else.
"""

from __future__ import annotations

import json
from typing import Any, Literal, final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from perstep.environments.atari import check_chance
from perstep.errors import unknown

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
CONSTANT = ("random", "channels", "action_map", "ramping")  # of a game: all else changes as it goes on
CELL = 16  # pixels of a picture


@final
class MinAtarEnv(gymnasium.Env[Any, Any]):
    """One game. An observation has a plane for each kind of thing in it, (C, 10, 10), true where the thing is.

    `sticky_actions`: how often the last action is repeated instead. `ramping`: whether the game gets harder. `minimal_actions`:
    only those that do something in this game, instead of all six.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(
        self,
        game: str,
        sticky_actions: float = 0.1,
        ramping: bool = True,
        minimal_actions: bool = True,
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        if game not in GAMES:
            raise unknown("game of MinAtar", game, GAMES)
        check_chance("sticky_actions", sticky_actions)
        try:
            from minatar import Environment
        except ModuleNotFoundError as error:
            raise ImportError("MinAtar's games are not here: pip install 'perstep[deep]'") from error
        self.game = game
        self.render_mode = render_mode
        self._play = Environment(game, sticky_action_prob=sticky_actions, difficulty_ramping=ramping)
        self._actions: list[int] = self._play.minimal_action_set() if minimal_actions else list(range(6))
        height, width, channels = self._play.state_shape()
        self.observation_space = gymnasium.spaces.Box(0, 1, (channels, height, width), np.bool_)
        self.action_space: gymnasium.spaces.Discrete[Any] = gymnasium.spaces.Discrete(len(self._actions))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.bool_], dict[str, Any]]:
        """The first observation of a game."""
        super().reset(seed=seed)
        # The game asks a generator of an older kind, which may sit on top of ours and then has no state of its own.
        generator = type(self._play.random)(self.np_random.bit_generator)
        self._play.random = self._play.env.random = generator
        self._play.last_action = 0
        self._play.reset()
        return self._observe(), {}

    def step(self, action: int) -> tuple[NDArray[np.bool_], float, bool, bool, dict[str, Any]]:
        """One step of the game."""
        reward, over = self._play.act(self._actions[action])
        return self._observe(), float(reward), bool(over), False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """The game as a picture in colours, with render_mode="rgb_array"."""
        if self.render_mode is None:
            return None
        planes = self._observe()  # (C, 10, 10)
        colours = palette(len(planes))  # (C, 3)
        picture = np.zeros((*planes.shape[1:], 3), np.uint8)
        for plane, colour in zip(planes, colours, strict=True):
            picture[plane] = colour
        return picture.repeat(CELL, axis=0).repeat(CELL, axis=1)

    @property
    def state(self) -> str:
        """All that changes, as text; with `np_random` the whole state of the world."""
        changing = {name: _plain(value) for name, value in vars(self._play.env).items() if name not in CONSTANT}
        return json.dumps({"game": self.game, "last_action": int(self._play.last_action), "changing": changing})

    @state.setter
    def state(self, text: str) -> None:
        taken = json.loads(text)
        if taken["game"] != self.game:
            raise ValueError(f"This is a game of {self.game}, but a state of {taken['game']} came.")
        self._play.last_action = taken["last_action"]
        for name, value in taken["changing"].items():
            if name in CONSTANT or name not in vars(self._play.env):
                raise ValueError(f"A game of {self.game} has no changing {name!r}.")
            setattr(self._play.env, name, _restored(value))

    def _observe(self) -> NDArray[np.bool_]:
        return np.ascontiguousarray(self._play.state().transpose(2, 0, 1))


def palette(count: int) -> NDArray[np.uint8]:
    """Colours that can be told apart, (count, 3)."""
    turns = np.arange(count)[:, None] / count + np.array([0.0, 1 / 3, 2 / 3])
    return np.asarray(155 + 100 * np.cos(2 * np.pi * turns), np.uint8)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return np.array(value["array"], np.dtype(value["dtype"]))
    return [_restored(item) for item in value] if isinstance(value, list) else value
