"""A video of an evaluation, drawn by the world: a GIF that is small enough for a web page, or an MP4."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, final

import gymnasium
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from perstep.agent.agent import Agent
from perstep.files.storage import published
from perstep.gym.loop import GymnasiumWorld
from perstep.gym.world_state import kinds
from perstep.inputs.checks import count
from perstep.numerics.randomness import make_generator

FRAME_EVERY = {".gif": 2, ".mp4": 1}  # steps between two frames, by the suffix of the file
MP4_SIDE = 480  # pixels of the longer side
GIF_QUALITIES = ((240, 32), (160, 16), (96, 8))  # (pixels of the longer side, colours): the first that is small enough
MAX_GIF_BYTES = 600_000
MIN_FRAME_MS = 20  # duration of a frame in a GIF: browsers play shorter ones more slowly
PALETTE_FRAMES = 16  # frames from which the colours are chosen


def record_video(
    agent: Agent,
    path: str | os.PathLike[str],
    num_steps: int = 200,
    *,
    deterministic: bool = False,
    seed: int | None = None,
) -> NDArray[np.float64]:
    """Publish the first `num_steps` steps of `agent.evaluate(…, deterministic, seed)` as a .gif or .mp4; returns their rewards.

    The world must support render_mode="rgb_array". The agent does not learn, and does not act in its own world.
    """
    suffix = video_suffix(path)
    count("video_steps", num_steps, 1)
    seed = agent.config.seed if seed is None else count("seed", seed, 0)
    side = GIF_QUALITIES[0][0] if suffix == ".gif" else MP4_SIDE
    recorder = FrameRecorder(drawn_world(agent), FRAME_EVERY[suffix], side)
    try:
        choose = agent._chooser(make_generator(seed, 2), deterministic)  # the generator of Agent.evaluate
        with agent._acting():
            rewards, _ = GymnasiumWorld(recorder, agent._ends, seed).follow(choose, num_steps, seed, in_copy=False)
    finally:
        recorder.close()
    rate = float(recorder.metadata.get("render_fps") or 20) / FRAME_EVERY[suffix]
    write = write_gif if suffix == ".gif" else write_mp4
    write(path, recorder.frames, rate)
    return rewards


def check_recordable(agent: Agent) -> None:
    """Refuse a world that cannot be recorded, at the beginning of a run and not at its end.

    One frame is recorded, because some worlds need their drawing library only then.
    """
    recorder = FrameRecorder(drawn_world(agent), every=1, side=GIF_QUALITIES[0][0])
    try:
        recorder.reset(seed=agent.config.seed)
    except Exception as error:  # whatever error the world raises
        raise ValueError(
            f"To record a video, the world must draw itself, but it cannot: {str(error).rstrip('.')}. "
            "Install what it needs, or leave out --film."
        ) from error
    finally:
        recorder.close()


def video_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix of a video file; an error if such a file cannot be written."""
    suffix = Path(path).suffix.lower()
    if suffix not in FRAME_EVERY:
        raise ValueError(f"Expected a {' or '.join(FRAME_EVERY)} file for the video, got {os.fspath(path)!r}.")
    if suffix == ".mp4":
        encoder()
    return suffix


def drawn_world(agent: Agent) -> Any:
    """A second copy of the agent's world, which draws itself."""
    env, absent = agent._opened.env, agent._opened.absent
    if absent is not None and absent.name.startswith("a vector environment"):
        raise ValueError(
            "A vector environment cannot be recorded. Save the agent with replay=False, and record it in a single environment: "
            "perstep evaluate … --world NAME --video FILE, or perstep.load(path, env=env)."
        )
    if absent is not None:
        raise absent.error()
    if env is None:
        name = f"{agent.mdp.name} " if agent.mdp is not None and agent.mdp.name else ""
        raise ValueError(
            f"The world {name}is a finite MDP, which cannot draw itself, so there is nothing to record. "
            "Leave the video out, or use a world with render_mode='rgb_array', such as perstep/InvertedPendulum-v0."
        )
    if "rgb_array" not in (modes := env.metadata.get("render_modes") or []):
        known = ", ".join(map(repr, modes)) or "nothing"
        raise ValueError(
            f"To be recorded, a world must support render_mode='rgb_array'; {env.spec.id if env.spec else env} supports {known}. "
            "Leave the video out."
        )
    if env.spec is None:
        raise ValueError(
            f"{env} is not registered with Gymnasium, so a second copy of it cannot be made for the video. Register it."
        )
    made = gymnasium.make(env.spec, render_mode="rgb_array")
    for again in (made, made.unwrapped):
        if kinds(again) == kinds(env):
            return again
    made.close()
    raise ValueError(
        f"The video would show {', '.join(kinds(made))}, but the agent's world is {', '.join(kinds(env))}: its spec does not list "
        "all its wrappers, so it cannot be made again. Register the wrapped world with Gymnasium, or leave the video out."
    )


@final
class FrameRecorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps a frame at the start and after every `every` steps, whose longer side has at most `side` pixels."""

    def __init__(self, env: Any, every: int, side: int) -> None:
        super().__init__(env)
        self.frames: list[Image.Image] = []
        self._every, self._side = every, side
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the world, and keep the first frame."""
        first = super().reset(seed=seed, options=options)
        if not self.frames:
            self._keep_frame()
        return first

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the world, and keep a frame if it is time for one."""
        outcome = super().step(action)
        self._steps += 1
        if self._steps % self._every == 0:
            self._keep_frame()
        return outcome

    def _keep_frame(self) -> None:
        self.frames.append(scaled(Image.fromarray(np.asarray(self.render(), np.uint8)), self._side))


def scaled(frame: Image.Image, side: int) -> Image.Image:
    """The frame with at most `side` pixels on its longer side. A small one grows by a whole factor: its pixels stay square."""
    factor = side / max(frame.size)
    if factor >= 1:
        width, height = (int(factor) * length for length in frame.size)
        return frame.resize((width, height), Image.Resampling.NEAREST)
    width, height = (max(1, round(factor * length)) for length in frame.size)
    return frame.resize((width, height), Image.Resampling.LANCZOS)


def write_gif(path: str | os.PathLike[str], frames: list[Image.Image], rate: float) -> None:
    """Publish frames as a GIF that repeats, in the first of the GIF_QUALITIES that is small enough, or in the last."""
    with published(path) as draft:
        for side, colours in GIF_QUALITIES:
            _save(draft, [scaled(frame, side) for frame in frames], colours, max(1000 / rate, MIN_FRAME_MS))
            if draft.stat().st_size <= MAX_GIF_BYTES:
                return


def write_mp4(path: str | os.PathLike[str], frames: list[Image.Image], rate: float) -> None:
    """Publish frames as an MP4 that every browser plays. The sides of such a video must be even."""
    width, height = (length - length % 2 for length in frames[0].size)
    input_format = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-video_size",
        f"{width}x{height}",
        "-framerate",
        f"{rate:g}",
    ]
    output_format = ["-vcodec", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    pixels = b"".join(frame.crop((0, 0, width, height)).convert("RGB").tobytes() for frame in frames)
    with published(path) as draft:
        words = [encoder(), "-y", "-loglevel", "error", *input_format, "-i", "-", *output_format, str(draft)]
        done = subprocess.run(words, input=pixels, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace').strip()}")


def encoder() -> str:
    """The path of ffmpeg: from the package imageio-ffmpeg, or installed on the machine."""
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        if (found := shutil.which("ffmpeg")) is None:
            raise ImportError(
                "An MP4 needs ffmpeg, which is not installed: pip install imageio-ffmpeg, or give a .gif file instead."
            ) from None
        return found
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def _save(path: Path, frames: list[Image.Image], colours: int, milliseconds: float) -> None:
    """Save with one palette for all frames, so that parts that do not change are not stored again."""
    width, height = frames[0].size
    sample = frames[:: max(1, len(frames) // PALETTE_FRAMES)]
    strip = Image.new("RGB", (width, height * len(sample)))
    for row, frame in enumerate(sample):
        strip.paste(frame, (0, height * row))
    palette = strip.quantize(colours, Image.Quantize.MAXCOVERAGE)  # small objects keep their colour
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first.save(path, format="GIF", save_all=True, append_images=rest, duration=round(milliseconds), loop=0)
