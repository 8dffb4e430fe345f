"""Games of the Arcade Learning Environment (the paper's App. C), with every preprocessing choice as a named setting.

The paper does not describe its preprocessing. docs/learners/deep-q.md lists what public projects do, and the defaults here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from perstep.inputs.errors import unknown
from perstep.numerics.compiled import compiled
from perstep.system.budget import claim

Bytes = NDArray[np.uint8]

CLIPS: dict[str, Callable[[float], float]] = {
    "sign": lambda reward: float(np.sign(reward)),
    "unit": lambda reward: min(max(reward, -1.0), 1.0),
    "none": float,
}
LIFE_LOSSES = ("nothing", "cost", "end")
FIRES = ("never", "start", "life")


@final
class AtariEnv(gymnasium.Env[Any, Any]):
    """One game. The observation (stack, size, size) holds the last grayscale frames, the newest frame last.

    `game`: the name in snake case, for example "space_invaders".
    `frame_skip`: number of frames for which an action is repeated; the observation is the pixelwise maximum of the last two.
    `sticky_actions`: probability, at each frame, that the previous action is repeated instead of the chosen one (Machado et
    al. 2018). It is implemented here because the state that the emulator can save does not contain its previous action.
    `max_frames`: number of frames after which a game is truncated.
    `screen_size`: width and height of the downscaled screen, in pixels.
    `stack`: number of frames in an observation; after a reset all of them are the first frame.
    `noop_max`: a game starts with 1 to `noop_max` frames without an action; 0 for none.
    `fire`: when the environment presses the fire button itself: "never", at the "start" of a game, or at the start and after
    each lost "life".
    `life_loss`: what the loss of a life means: "nothing", a "cost" of 1 in the reward, or the "end" of the episode (the game
    continues at the next reset).
    `reward_clip`: the reward is the "sign" of the score gained, the score gained clipped to the "unit" interval [−1, 1], or the
    score gained itself ("none").
    `full_action_space`: all 18 actions of the console instead of those that have an effect in the game.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
    stacks_frames = True

    def __init__(
        self,
        game: str,
        frame_skip: int = 4,
        sticky_actions: float = 0.25,
        max_frames: int = 108_000,
        screen_size: int = 84,
        stack: int = 4,
        noop_max: int = 30,
        fire: Literal["never", "start", "life"] = "life",
        life_loss: Literal["nothing", "cost", "end"] = "nothing",
        reward_clip: Literal["sign", "unit", "none"] = "sign",
        full_action_space: bool = False,
        mode: int | None = None,
        difficulty: int | None = None,
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        for name, value, known in (
            ("fire", fire, FIRES),
            ("life_loss", life_loss, LIFE_LOSSES),
            ("reward_clip", reward_clip, CLIPS),
        ):
            if value not in known:
                raise unknown(name, value, known)
        for name, number, least in (("frame_skip", frame_skip, 1), ("screen_size", screen_size, 1), ("stack", stack, 1),
                                    ("noop_max", noop_max, 0), ("max_frames", max_frames, 1)):  # fmt: skip
            if number < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {number!r}.")
        claim(
            8 * stack * screen_size**2, f"a screen of {screen_size:,} × {screen_size:,} pixels", "Choose a smaller one."
        )
        self.game, self.render_mode = game, render_mode
        self.frame_skip, self.noop_max, self.fire, self.life_loss = frame_skip, noop_max, fire, life_loss
        self._clip = CLIPS[reward_clip]
        check_probability("sticky_actions", sticky_actions)
        self.sticky_actions = float(sticky_actions)
        self._console, self._rom = open_console(game, max_frames)
        self._set_up = (mode, difficulty)
        self._load()
        actions = self._console.getLegalActionSet() if full_action_space else self._console.getMinimalActionSet()
        self._actions = list(actions)
        self._fire = next((number for number, action in enumerate(self._actions) if action.name == "FIRE"), None)
        height, width = self._console.getScreenDims()
        self._screens = np.zeros((2, height, width), np.uint8)
        self._shrink = shrinking(height, width, screen_size)
        self._seen = np.zeros((stack, screen_size, screen_size), np.uint8)
        self._last = 0  # index of the action of the last frame; 0 is no action
        self._lives = 0
        self._life_lost = False  # with life_loss="end": the episode has ended, but the game has not
        self._score = 0.0
        self.final_scores: list[float] = []
        """The scores of all games that ended so far, in points of the game, whatever `reward_clip` makes of them."""
        self.observation_space = gymnasium.spaces.Box(0, 255, self._seen.shape, np.uint8)
        self.action_space: gymnasium.spaces.Discrete[Any] = gymnasium.spaces.Discrete(len(self._actions))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Bytes, dict[str, Any]]:
        """Start a new game; with life_loss="end" continue the game if lives are left."""
        super().reset(seed=seed)
        if seed is not None:
            self._load()
        if seed is not None or not self._life_lost:
            self._start()
        elif self.fire == "life":
            self._press_fire()
        self._life_lost = False
        self._lives = self._console.lives()
        self._console.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        self._seen = np.repeat(self._picture()[None], len(self._seen), axis=0)
        return self._seen, self._info()

    def step(self, action: int) -> tuple[Bytes, float, bool, bool, dict[str, Any]]:
        """Repeat an action for `frame_skip` frames."""
        points = self._hold(action)
        self._score += points
        reward = self._clip(points)
        over, truncated = self._console.game_over(with_truncation=False), self._console.game_truncated()
        if over or truncated:
            self.final_scores.append(self._score)
        lives = self._console.lives()
        if lives < self._lives and not over:
            if self.life_loss == "cost":
                reward -= 1.0
            elif self.life_loss == "end":
                self._life_lost = over = True
            if self.fire == "life" and self.life_loss != "end":
                self._press_fire()
        self._lives = lives
        self._seen = np.concatenate([self._seen[1:], self._picture()[None]])
        return self._seen, reward, bool(over), bool(truncated and not over), self._info()

    def render(self) -> Bytes | None:
        """The screen in colour if render_mode is "rgb_array", else None."""
        return None if self.render_mode is None else np.asarray(self._console.getScreenRGB())

    @property
    def state(self) -> str:
        """The state of the game, as JSON text. Together with `np_random` this is all that changes."""
        console = base64.b64encode(self._console.cloneSystemState().serialize()).decode()
        seen = base64.b64encode(self._seen.tobytes()).decode()
        return json.dumps(
            {
                "game": self.game,
                "console": console,
                "seen": seen,
                "last": self._last,
                "lives": self._lives,
                "life_lost": self._life_lost,
                "score": self._score,
                "final_scores": self.final_scores,
            }
        )

    @state.setter
    def state(self, text: str) -> None:
        from ale_py import ALEState

        taken = json.loads(text)
        if taken["game"] != self.game:
            raise ValueError(
                f"Expected a state of the game {self.game}, got a state of {taken['game']}. Load it into that game."
            )
        last = int(taken["last"])
        if not 0 <= last < len(self._actions):
            raise ValueError(
                f"The last action of {self.game} must be from 0 to {len(self._actions) - 1}, got {last}. The file is damaged, or "
                "full_action_space differs."
            )
        try:
            self._console.restoreSystemState(ALEState(base64.b64decode(taken["console"])))
        except (SystemError, RuntimeError) as error:  # raised by the emulator for bytes that are not one of its states
            raise ValueError(f"The saved state of the emulator is damaged: {error}") from error
        self._last = last
        self._seen = np.frombuffer(base64.b64decode(taken["seen"]), np.uint8).reshape(self._seen.shape).copy()
        self._lives, self._life_lost, self._score = int(taken["lives"]), bool(taken["life_lost"]), float(taken["score"])
        self.final_scores = [float(score) for score in taken.get("final_scores", ())]  # older files have none

    def _load(self) -> None:
        """Load the ROM. The emulator's random seed is drawn from our generator."""
        self._console.setInt("random_seed", int(self.np_random.integers(2**31)))
        self._console.loadROM(self._rom)
        mode, difficulty = self._set_up
        if mode is not None:
            self._console.setMode(mode)
        if difficulty is not None:
            self._console.setDifficulty(difficulty)

    def _start(self) -> None:
        from ale_py import Action

        self._console.reset_game()
        self._score, self._last = 0.0, 0
        for _ in range(int(self.np_random.integers(1, self.noop_max + 1)) if self.noop_max else 0):
            self._console.act(Action.NOOP)
            if self._console.game_over():
                self._console.reset_game()
        if self.fire != "never":
            self._press_fire()

    def _press_fire(self) -> None:
        if self._fire is not None:
            self._score += self._console.act(self._actions[self._fire])
            self._last = self._fire

    def _hold(self, action: int) -> float:
        """Repeat an action for `frame_skip` frames; returns the score gained, and keeps the last two frames."""
        points = 0.0
        self._screens[:] = 0
        sticks = self.np_random.random(self.frame_skip) < self.sticky_actions
        for left in range(self.frame_skip, 0, -1):
            if not sticks[left - 1]:
                self._last = action
            points += self._console.act(self._actions[self._last])
            over = self._console.game_over()
            if left <= 2 or over:
                self._console.getScreenGrayscale(self._screens[left % 2])
            if over:
                break
        return points

    def _picture(self) -> Bytes:
        picture = np.empty(self._seen.shape[1:], np.uint8)
        average_down(self._screens, *self._shrink, picture)
        return picture

    def _info(self) -> dict[str, Any]:
        return {"lives": self._lives, "score": self._score}


def check_probability(name: str, value: Any) -> None:
    """Raise a ValueError unless `value` is a number in [0, 1)."""
    if not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must be a probability, at least 0 and below 1, got {value!r}.")


class Shrink(NamedTuple):
    """The pixels that are averaged into each pixel of the downscaled picture, and their weights, one axis at a time."""

    first_row: NDArray[np.int64]  # (size,)
    row_weights: NDArray[np.float32]  # (size, most rows)
    first_column: NDArray[np.int64]  # (size,)
    column_weights: NDArray[np.float32]  # (size, most columns)
    tall: NDArray[np.float32]  # (width,), workspace: one row after downscaling the height only


def shrinking(height: int, width: int, size: int) -> Shrink:
    """The weights that average a screen (height, width) by area down to (size, size)."""
    rows, columns = area_weights(height, size), area_weights(width, size)
    return Shrink(*rows, *columns, np.zeros(width, np.float32))


def area_weights(length: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Divide `length` pixels into `size` equal parts. For each part: its first pixel (size,), and the weights of its pixels."""
    edges = np.arange(size + 1) * (length / size)
    first = np.floor(edges[:-1]).astype(np.int64)
    most = int((np.ceil(edges[1:] - 1e-9).astype(np.int64) - first).max())
    first = np.minimum(first, length - most)  # so that no weight refers to a pixel beyond the last one
    pixels = first[:, None] + np.arange(most)
    overlap = np.minimum(pixels + 1, edges[1:, None]) - np.maximum(pixels, edges[:-1, None])
    return first, np.asarray(np.clip(overlap, 0, None) * (size / length), np.float32)


@compiled
def average_down(
    screens: Any, first_row: Any, row_weights: Any, first_column: Any, column_weights: Any, tall: Any, picture: Any
) -> None:
    """Write the pixelwise maximum of two screens to `picture`, averaged by area and rounded."""
    for y in range(picture.shape[0]):
        for x in range(tall.shape[0]):
            tall[x] = np.float32(0.0)
        for k in range(row_weights.shape[1]):
            weight, row = row_weights[y, k], first_row[y] + k
            for x in range(tall.shape[0]):
                tall[x] += weight * np.float32(max(screens[0, row, x], screens[1, row, x]))
        for x in range(picture.shape[1]):
            total = np.float32(0.5)
            for k in range(column_weights.shape[1]):
                total += column_weights[x, k] * tall[first_column[x] + k]
            picture[y, x] = np.uint8(total)


def games() -> list[str]:
    """The names of all games, in snake case."""
    try:
        from ale_py import roms
    except ModuleNotFoundError as error:
        raise ImportError(
            "The Arcade Learning Environment is not installed. Run: pip install 'perstep[deep]'"
        ) from error
    return list(roms.get_all_rom_ids())


def open_console(game: str, max_frames: int) -> tuple[Any, Any]:
    """An emulator without a game, and the path of the ROM of `game`."""
    if game not in (known := games()):
        raise unknown("game of the Arcade Learning Environment", game, known)
    import ale_py

    path = ale_py.roms.get_rom_path(game)
    if path is None:
        raise FileNotFoundError(
            f"ale-py lists the game {game!r} but has no ROM for it. Reinstall ale-py 0.12 or later."
        )
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # before the first emulator, which would print a banner
    console = ale_py.ALEInterface()
    console.setFloat("repeat_action_probability", 0.0)  # sticky actions are done in AtariEnv
    console.setInt("max_num_frames_per_episode", max_frames)
    return console, path


def game_of(name: str) -> str | None:
    """The game of an id such as "ALE/SpaceInvaders-v5", in snake case; None for an id of another form."""
    found = re.fullmatch(r"ALE/(\w+)-v5", name)
    if found is None:
        return None
    squeezed = found[1].lower()
    return next((game for game in games() if game.replace("_", "") == squeezed), squeezed)
