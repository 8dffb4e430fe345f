"""Films of agents: GIFs without further ado, MP4s where there is an encoder, and a film at the end of a run."""

from __future__ import annotations

import builtins
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import perstep
from perstep import training
from perstep.cli import main
from perstep.training.film import film

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
    film(agent, tmp_path / "a.mp4", 12)
    size, rate, given = (tmp_path / "a.mp4").read_text().split()
    assert (size, float(rate)) == ("400x400", 20.0)
    assert int(given) == 13 * 400 * 400 * 3  # the start and every step


def test_mp4_without_an_encoder(no_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    perstep.ActorCritic(PENDULUM).save(tmp_path / "agent")
    assert main(["evaluate", str(tmp_path / "agent"), "--steps", "5", "--video", str(tmp_path / "a.mp4")]) == 2
    assert "pip install imageio-ffmpeg, or name a .gif file instead" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "agent"), "--steps", "5", "--video", str(tmp_path / "a.avi")]) == 2
    assert "A film is a .gif or a .mp4 file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["agent"]


def test_what_the_encoder_says_is_passed_on(no_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = perstep.ActorCritic(PENDULUM).learn(10)
    put_encoder(no_encoder)
    monkeypatch.setattr("perstep.training.film.SIDE", 301)
    with pytest.raises(RuntimeError, match=r"ffmpeg could not write .*a\.mp4: cannot encode 300x300"):
        film(agent, tmp_path / "a.mp4", 2)
    assert not list(tmp_path.glob("*.mp4"))
    assert not list(tmp_path.glob(".*"))


def test_mp4_for_real(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    film(perstep.ActorCritic(PENDULUM).learn(10), tmp_path / "a.mp4", 12)
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("world", ["perstep/MinAtar-Breakout-v0", "ALE/Breakout-v5"])
def test_games_are_filmed(world: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("minatar")
    pytest.importorskip("ale_py")
    agent = perstep.DeepQ(world, rule="d2", replay_capacity=50, learning_starts=50).learn(5)
    rewards = film(agent, tmp_path / "a.gif", 40, seed=3)
    assert rewards.mean() == agent.evaluate(40, seed=3).average_reward
    with Image.open(tmp_path / "a.gif") as opened:
        assert max(opened.size) in (210, 160, 240)
        assert getattr(opened, "n_frames", 1) > 5


def test_a_run_leaves_a_film_of_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-actor-critic", PENDULUM, "--out", str(tmp_path / "a"), "--quiet"]
    path = tmp_path / "a" / training.FILM
    assert main([*words, "--steps", "500"]) == 0
    assert not path.exists()
    assert main([*words, "--steps", "500", "--resume", "--film"]) == 0  # finished, but not yet filmed
    first = path.read_bytes()
    assert main([*words, "--steps", "500", "--resume", "--film"]) == 0
    assert path.read_bytes() == first
    assert main([*words, "--steps", "3000", "--resume", "--film"]) == 0
    assert path.read_bytes() != first
    assert str(path) in capsys.readouterr().out


def test_what_cannot_be_filmed_is_said_at_the_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-q", "perstep/AccessControl-v0", "--steps", "1e9", "--out", str(tmp_path / "a"), "--film"]
    assert main(words) == 2
    assert "numbers without a picture" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
