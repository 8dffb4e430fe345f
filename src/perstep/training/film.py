"""An evaluation as a film: what an agent does, drawn by its world, as a GIF small enough for a page or as an MP4."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any, final

import gymnasium
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from perstep.agents.agent import Agent
from perstep.config import count
from perstep.environments.world_state import kinds
from perstep.interaction.gymnasium_worlds import GymnasiumWorld
from perstep.randomness import make_generator
from perstep.storage import published

EVERY = {".gif": 2, ".mp4": 1}  # steps from one picture to the next, by the kind of file
SIDE = 480  # pixels of the longer side of an MP4
LOOKS = ((240, 32), (160, 16), (96, 8))  # pixels of the longer side, and colours: the first that is small enough
LARGEST = 600_000  # bytes of a GIF
SHORTEST = 20  # milliseconds of a picture: browsers slow down what is faster
SAMPLED = 16  # pictures from which the colours are chosen


def film(
    agent: Agent,
    path: str | os.PathLike[str],
    num_steps: int = 200,
    *,
    deterministic: bool = False,
    seed: int | None = None,
) -> NDArray[np.float64]:
    """Publish the first `num_steps` steps of `agent.evaluate(…, deterministic, seed)` as a .gif or .mp4; returns their rewards.

    Needs a world with render_mode="rgb_array". The agent neither learns nor moves in its own world.
    """
    kind = kind_of(path)
    count("video_steps", num_steps, 1)
    seed = agent.config.seed if seed is None else count("seed", seed, 0)
    stage = Filmed(drawn_world(agent), EVERY[kind], LOOKS[0][0] if kind == ".gif" else SIDE)
    learner = getattr(agent, "_network", None)
    learning = getattr(learner, "learning", nullcontext)  # a deep agent evaluates with threads of its own
    try:
        choose = agent._chooser(make_generator(seed, 2), deterministic)  # the generator of Agent.evaluate
        with learning():
            rewards, _ = GymnasiumWorld(stage, agent._ends, seed).follow(choose, num_steps, seed)
    finally:
        stage.close()
    rate = float(stage.metadata.get("render_fps") or 20) / EVERY[kind]
    write = write_gif if kind == ".gif" else write_mp4
    write(path, stage.pictures, rate)
    return rewards


def kind_of(path: str | os.PathLike[str]) -> str:
    """What kind of film a file is to be, if it can be written here."""
    kind = Path(path).suffix.lower()
    if kind not in EVERY:
        raise ValueError(f"A film is a {' or a '.join(EVERY)} file, but {os.fspath(path)!r} was named.")
    if kind == ".mp4":
        encoder()
    return kind


def drawn_world(agent: Agent) -> Any:
    """The world of an agent, made once more so that it draws itself."""
    env, absent = agent._opened.env, agent._opened.absent
    if absent is not None and absent.name.startswith("a vector environment"):
        raise ValueError(
            "Films of vector environments cannot be made. Save the agent with replay=False, and film it in a single environment: "
            "perstep evaluate … --world NAME --video FILE, or perstep.load(path, env=env)."
        )
    if absent is not None:
        raise absent.error()
    if env is None:
        name = f"{agent.mdp.name} " if agent.mdp is not None and agent.mdp.name else ""
        raise ValueError(
            f"The world {name}is a finite MDP, numbers without a picture, so there is nothing to film. "
            "Leave the film out, or film a world that has render_mode='rgb_array', such as perstep/InvertedPendulum-v0."
        )
    if "rgb_array" not in (modes := env.metadata.get("render_modes") or []):
        known = ", ".join(map(repr, modes)) or "nothing"
        raise ValueError(
            f"To be filmed, a world must offer render_mode='rgb_array', but {env.spec.id if env.spec else env} offers {known}. "
            "Leave the film out."
        )
    if env.spec is None:
        raise ValueError(f"{env} is not registered with Gymnasium, so it cannot be made once more to be filmed.")
    made = gymnasium.make(env.spec, render_mode="rgb_array")
    for again in (made, made.unwrapped):
        if kinds(again) == kinds(env):
            return again
    made.close()
    raise ValueError(
        f"The film would show {', '.join(kinds(made))}, but the agent's world is {', '.join(kinds(env))}: its spec does not tell "
        "all its wrappers, so it cannot be made once more. Register the wrapped world with Gymnasium, or leave the film out."
    )


@final
class Filmed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes a picture at the start and after every so many steps, with its longer side of `side` pixels at most."""

    spec = None  # no recipe: a copy would take the pictures instead

    def __init__(self, env: Any, every: int, side: int) -> None:
        super().__init__(env)
        self.pictures: list[Image.Image] = []
        self._every, self._side = every, side
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The world's own, and the first picture."""
        first = super().reset(seed=seed, options=options)
        if not self.pictures:
            self._look()
        return first

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """The world's own, and a picture now and then."""
        outcome = super().step(action)
        self._steps += 1
        if self._steps % self._every == 0:
            self._look()
        return outcome

    def _look(self) -> None:
        self.pictures.append(scaled(Image.fromarray(np.asarray(self.render(), np.uint8)), self._side))


def scaled(picture: Image.Image, side: int) -> Image.Image:
    """With its longer side at most `side` pixels; a small picture grows by a whole number, so that its pixels stay square."""
    factor = side / max(picture.size)
    if factor >= 1:
        width, height = (int(factor) * length for length in picture.size)
        return picture.resize((width, height), Image.Resampling.NEAREST)
    width, height = (max(1, round(factor * length)) for length in picture.size)
    return picture.resize((width, height), Image.Resampling.LANCZOS)


def write_gif(path: str | os.PathLike[str], pictures: list[Image.Image], rate: float) -> None:
    """Publish pictures as a GIF that repeats: in the first of the LOOKS that is small enough, or in the last."""
    with published(path) as draft:
        for side, colours in LOOKS:
            _save(draft, [scaled(picture, side) for picture in pictures], colours, max(1000 / rate, SHORTEST))
            if draft.stat().st_size <= LARGEST:
                return


def write_mp4(path: str | os.PathLike[str], pictures: list[Image.Image], rate: float) -> None:
    """Publish pictures as an MP4 that every browser plays, which wants even sides."""
    width, height = (length - length % 2 for length in pictures[0].size)
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", f"{width}x{height}", "-framerate", f"{rate:g}"]
    cooked = ["-vcodec", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    frames = b"".join(picture.crop((0, 0, width, height)).convert("RGB").tobytes() for picture in pictures)
    with published(path) as draft:
        words = [encoder(), "-y", "-loglevel", "error", *raw, "-i", "-", *cooked, str(draft)]
        done = subprocess.run(words, input=frames, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace').strip()}")


def encoder() -> str:
    """The program ffmpeg, from its small package for Python or from the machine."""
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        if (found := shutil.which("ffmpeg")) is None:
            raise ImportError(
                "An MP4 needs ffmpeg, which is not here: pip install imageio-ffmpeg, or name a .gif file instead."
            ) from None
        return found
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def _save(path: Path, pictures: list[Image.Image], colours: int, milliseconds: float) -> None:
    """With one palette for all pictures, so that what does not move is not written again."""
    width, height = pictures[0].size
    sample = pictures[:: max(1, len(pictures) // SAMPLED)]
    strip = Image.new("RGB", (width, height * len(sample)))
    for row, picture in enumerate(sample):
        strip.paste(picture, (0, height * row))
    palette = strip.quantize(colours, Image.Quantize.MAXCOVERAGE)  # small things keep their colour
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(path, format="GIF", save_all=True, append_images=rest, duration=round(milliseconds), loop=0)
