"""The five MinAtar games (Young & Tian 2019): miniature Atari games on a 10 × 10 grid, for experiments on a CPU.

MinAtar's own Gymnasium environment does not use `np_random`, so it can be neither seeded nor saved. This one uses nothing else.
"""

from __future__ import annotations

import json
from typing import Any, Literal, final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from perstep.inputs.errors import unknown
from perstep.worlds.atari import check_probability

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
# Attributes of a game that do not change. All others are its state.
CONSTANT = ("random", "channels", "action_map", "ramping")
CELL = 16  # width of a cell of the grid in the picture, in pixels


@final
class MinAtarEnv(gymnasium.Env[Any, Any]):
    """One game. The observation (C, 10, 10) has one channel for each kind of object; a cell is true where such an object is.

    `sticky_actions`: probability that the previous action is repeated instead of the chosen one.
    `ramping`: whether the game gets harder over time.
    `minimal_actions`: offer only the actions that have an effect in this game, instead of all six.
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
        check_probability("sticky_actions", sticky_actions)
        try:
            from minatar import Environment
        except ModuleNotFoundError as error:
            raise ImportError("MinAtar is not installed. Run: pip install 'perstep[deep]'") from error
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
        """Start a new game."""
        super().reset(seed=seed)
        # The game uses NumPy's older RandomState. It can wrap our bit generator, and then has no state of its own.
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
        """A colour picture of the game if render_mode is "rgb_array", else None."""
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
        """The state of the game, as JSON text. Together with `np_random` this is all that changes."""
        changing = {name: _plain(value) for name, value in vars(self._play.env).items() if name not in CONSTANT}
        return json.dumps({"game": self.game, "last_action": int(self._play.last_action), "changing": changing})

    @state.setter
    def state(self, text: str) -> None:
        taken = json.loads(text)
        if taken["game"] != self.game:
            raise ValueError(
                f"Expected a state of the game {self.game}, got a state of {taken['game']}. Load it into that game."
            )
        self._play.last_action = taken["last_action"]
        for name, value in taken["changing"].items():
            if name in CONSTANT or name not in vars(self._play.env):
                raise ValueError(f"The state of the game {self.game} has no attribute {name!r}. The file is damaged.")
            setattr(self._play.env, name, _restored(value))

    def _observe(self) -> NDArray[np.bool_]:
        return np.ascontiguousarray(self._play.state().transpose(2, 0, 1))


def palette(count: int) -> NDArray[np.uint8]:
    """Distinct colours, (count, 3)."""
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
