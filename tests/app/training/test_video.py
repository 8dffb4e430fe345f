"""Videos of agents: GIFs always, MP4s where there is an encoder, and a video at the end of a run."""

from __future__ import annotations

import builtins
import stat
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TransformReward
from PIL import Image

import perstep
from perstep.app import training
from perstep.app.cli import main
from perstep.app.training.video import drawn_world, record_video

pytestmark = pytest.mark.usefixtures("undrawn")

PENDULUM = "perstep/InvertedPendulum-v0"

# Stands for ffmpeg: says what it was told, and how much it was given.
FAKE = f"""#!{sys.executable}
import sys
given = sys.stdin.buffer.read()
size = sys.argv[sys.argv.index("-video_size") + 1]
if size == "400x400":
    open(sys.argv[-1], "w").write(f"{{size}} {{sys.argv[sys.argv.index('-framerate') + 1]}} {{len(given)}}")
else:
    sys.exit(f"cannot encode {{size}}")
"""


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without ffmpeg, and a folder where it would be found."""
    imported = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "imageio_ffmpeg":
            raise ModuleNotFoundError(name=name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def put_encoder(folder: Path) -> None:
    path = folder / "ffmpeg"
    path.write_text(FAKE)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_mp4_by_an_encoder(no_encoder: Path, tmp_path: Path) -> None:
    agent = perstep.ActorCritic(PENDULUM).learn(10)
    put_encoder(no_encoder)
    record_video(agent, tmp_path / "a.mp4", 12)
    size, rate, given = (tmp_path / "a.mp4").read_text().split()
    assert (size, float(rate)) == ("400x400", 20.0)
    assert int(given) == 13 * 400 * 400 * 3  # the start and every step


def test_mp4_without_an_encoder(no_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    perstep.ActorCritic(PENDULUM).save(tmp_path / "agent")
    assert main(["evaluate", str(tmp_path / "agent"), "--steps", "5", "--video", str(tmp_path / "a.mp4")]) == 2
    assert "pip install imageio-ffmpeg, or give a .gif file instead" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "agent"), "--steps", "5", "--video", str(tmp_path / "a.avi")]) == 2
    assert "Expected a .gif or .mp4 file for the video" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["agent"]


def test_what_the_encoder_says_is_passed_on(no_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = perstep.ActorCritic(PENDULUM).learn(10)
    put_encoder(no_encoder)
    monkeypatch.setattr("perstep.app.training.video.MP4_SIDE", 301)
    with pytest.raises(RuntimeError, match=r"ffmpeg could not write .*a\.mp4: cannot encode 300x300"):
        record_video(agent, tmp_path / "a.mp4", 2)
    assert not list(tmp_path.glob("*.mp4"))
    assert not list(tmp_path.glob(".*"))


def test_mp4_for_real(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    record_video(perstep.ActorCritic(PENDULUM).learn(10), tmp_path / "a.mp4", 12)
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("world", ["perstep/MinAtar-Breakout-v0", "ALE/Breakout-v5"])
def test_games_are_recorded(world: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("minatar")
    pytest.importorskip("ale_py")
    agent = perstep.DeepQ(world, rule="d2", replay_capacity=50, learning_starts=50).learn(5)
    rewards = record_video(agent, tmp_path / "a.gif", 40, seed=3)
    assert rewards.mean() == agent.evaluate(40, seed=3).average_reward
    with Image.open(tmp_path / "a.gif") as opened:
        assert max(opened.size) in (210, 160, 240)
        assert getattr(opened, "n_frames", 1) > 5


def test_a_run_leaves_a_video_of_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-actor-critic", PENDULUM, "--out", str(tmp_path / "a"), "--quiet"]
    path = tmp_path / "a" / training.VIDEO
    assert main([*words, "--steps", "500"]) == 0
    assert not path.exists()
    assert main([*words, "--steps", "500", "--resume", "--film"]) == 0  # finished, but not yet recorded
    first = path.read_bytes()
    assert main([*words, "--steps", "500", "--resume", "--film"]) == 0
    assert path.read_bytes() == first
    assert main([*words, "--steps", "500", "--resume"]) == 0
    assert str(path) in capsys.readouterr().out
    assert main([*words, "--steps", "3000", "--resume"]) == 0
    assert path.read_bytes() == first
    assert str(path) not in capsys.readouterr().out, "It shows the agent as it was."
    assert main([*words, "--steps", "3000", "--resume", "--film"]) == 0
    assert path.read_bytes() != first
    assert str(path) in capsys.readouterr().out


def test_what_cannot_be_recorded_is_said_at_the_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-q", "perstep/AccessControl-v0", "--steps", "1e9", "--out", str(tmp_path / "a"), "--film"]
    assert main(words) == 2
    assert "which cannot draw itself" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_video_has_the_threads_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    agent = perstep.DeepQ("CartPole-v1", hidden=(8,), replay_capacity=50, learning_starts=50, threads=2, epsilon=0.0)
    seen, choose = set(), agent._choose

    def chosen(*given: Any) -> Any:
        seen.add(torch.get_num_threads())
        return choose(*given)

    monkeypatch.setattr(agent, "_choose", chosen)
    monkeypatch.setattr("perstep.app.training.video.drawn_world", lambda agent: Drawn("CartPole-v1"))
    before = torch.get_num_threads()
    record_video(agent, tmp_path / "a.gif", 4)
    assert seen == {2}
    assert torch.get_num_threads() == before


class Drawn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A world with an empty picture, for which no library is needed."""

    def __init__(self, name: str) -> None:
        super().__init__(gymnasium.make(name))

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


class Silent(TransformReward[Any, Any]):
    """Says that it is the plain world."""

    @property
    def spec(self) -> Any:
        return self.env.spec


def test_a_world_whose_wrappers_nobody_tells_is_not_recorded() -> None:
    agent = perstep.ActorCritic(Silent(gymnasium.make(PENDULUM), lambda reward: -float(reward)))
    with pytest.raises(ValueError, match=r"but the agent's world is .*Silent, .* does not list all its"):
        drawn_world(agent)


def test_videos_of_vector_environments_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    agent = perstep.DeepQ(env, hidden=(8,), replay_capacity=50, learning_starts=50, longest_repeat=1).learn(10)
    agent.save(tmp_path / "agent", replay=False)
    for one in (agent, perstep.load(tmp_path / "agent")):
        with pytest.raises(ValueError, match=r"A vector environment cannot be recorded.*single environment.*--world"):
            record_video(one, tmp_path / "a.gif", 4)
    with pytest.warns(UserWarning, match="fresh reset"):
        single = perstep.load(tmp_path / "agent", env=gymnasium.make("CartPole-v1"))
    drawn_world(single).close()  # as it was told


def test_a_library_for_pictures_that_is_missing_is_said_at_the_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)  # not installed
    out = tmp_path / "a"
    words = ["train", "d2-actor-critic", "MountainCar-v0", "--out", str(out), "--quiet"]
    assert main([*words, "--steps", "1e9", "--film"]) == 2
    said = capsys.readouterr().err
    assert "must draw itself, but it cannot: pygame is not installed, run `pip install" in said
    assert said.count("\n") == 1
    assert not out.exists()
    assert main([*words, "--steps", "100"]) == 0
    before = (out / training.RUN).read_bytes()
    assert main([*words, "--steps", "1e9", "--film", "--resume"]) == 2
    assert (out / training.RUN).read_bytes() == before
