"""What can go wrong with deep agents, on the command line and in Python: a sentence that says what to do, and exit code 2."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.app import training
from perstep.app.cli import main
from perstep.files import storage
from troubled_worlds import BAD_SEED, BAD_STEP, HugeWorld

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("undrawn")

SMALL = ["--replay-capacity", "100", "--learning-starts", "20", "--threads", "1", "--quiet"]
BREAKOUT = "ALE/Breakout-v5"


MISTAKES = {
    "Pendulum-v1": "DeepQ chooses among numbered actions, but this world has Box(-2.0, 2.0, (1,), float32)",
    "ALE/Breakot-v5": "no game of the Arcade Learning Environment 'breakot'. Did you mean 'breakout'?",
    "BreakoutNoFrameskip-v4": "Use 'ALE/Breakout-v5' instead of 'BreakoutNoFrameskip-v4': frame skip",
    "perstep/MinAtar-Brekout-v0": "Did you mean 'perstep/MinAtar-Breakout-v0'?",
    f"{BREAKOUT} --replay-capacity 1e9": "A replay of 1,000,000,000 transitions needs 7",
    f"{BREAKOUT} --world-settings fire=always": "There is no fire 'always'. Known: life, never, start",
    f"{BREAKOUT} --world-settings sticky_action=0": "no setting of ALE/Breakout-v5 'sticky_action'. Did you mean 'sticky_actions'?",
    "CartPole-v1 --learning-starts 200000": "learning_starts=200,000 transitions do not fit in a replay of 100,000",
    "CartPole-v1 --device abacus": "There is no device 'abacus' here",
    "CartPole-v1 --batch-size 0": "batch_size must be a whole number of at least 1",
}


@pytest.mark.parametrize(("line", "sentence"), MISTAKES.items(), ids=MISTAKES)
def test_mistakes(line: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["train", "d2-deep-q", *line.split(), "--steps", "5", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("perstep: ")
    assert said.count("\n") == 1
    assert sentence in said
    assert not out.exists(), "A mistake leaves nothing behind."


def test_a_world_of_ones_own_may_have_the_name_of_a_game() -> None:
    gymnasium.register("Tetris-v0", entry_point=lambda: gymnasium.make("CartPole-v1").unwrapped)
    try:
        assert perstep.DeepQ("Tetris-v0", replay_capacity=100).learn(5).steps == 5
    finally:
        del gymnasium.registry["Tetris-v0"]


def test_a_setting_of_the_world_is_sent_there() -> None:
    with pytest.raises(ValueError, match=r"DeepQ setting 'sticky_actions'\. If it is the world's, give it to"):
        perstep.DeepQ(BREAKOUT, sticky_actions=0.0)


@pytest.mark.parametrize("wrong", [np.full((4, 84, 84), 0.5), np.full((4, 84, 84), 256), np.full((4, 84, 84), np.nan)])
def test_pixels_that_are_no_bytes_are_refused(wrong: Any) -> None:
    agent = perstep.DeepQ(BREAKOUT, replay_capacity=100)
    agent.predict(np.full((4, 84, 84), 7, np.int64))  # fits
    with pytest.raises(
        ValueError, match=r"numbers of type uint8, got \w+ numbers that do not fit.* as bytes from 0 to 255"
    ):
        agent.predict(wrong)


def test_a_replay_is_announced_with_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ale_py")
    words = ["--steps", "4", "--out", str(tmp_path / "a"), "--replay-capacity", "20000", "--quiet"]
    assert main(["train", "d2-deep-q", BREAKOUT, *words]) == 0
    assert "perstep: a replay of 20,000 transitions takes 0.15 GB of " in capsys.readouterr().err
    with pytest.raises(MemoryError, match=r"needs 7\S+ GB of memory, but \S+ GB are available\. Choose a smaller"):
        perstep.DeepQ(BREAKOUT, replay_capacity=10**9)


WITHOUT = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "ale_py", "minatar", "tensorboard"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())

import perstep.app.cli
for words in WORDS:
    print(perstep.app.cli.main(words), file=sys.stderr)
"""


def test_missing_extras_are_named(tmp_path: Path) -> None:
    lines = {
        "d2-deep-q CartPole-v1": "perstep.DeepQ needs PyTorch",
        f"d2-q {BREAKOUT}": "The Arcade Learning Environment is not installed",
        "d2-q perstep/MinAtar-Breakout-v0": "MinAtar is not installed",
        "d2-q FrozenLake-v1 --tensorboard": "TensorBoard is not installed",
    }
    words = [["train", *line.split(), "--steps", "5", "--out", str(tmp_path / "out")] for line in lines]
    script = WITHOUT.replace("WORDS", repr(words))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *said, last = done.stderr.splitlines()
    assert [*said[1::2], last] == ["2"] * 4, done.stderr
    for sentence, heard in zip(lines.values(), said[::2], strict=True):
        assert heard.startswith(f"perstep: {sentence}")
        assert "pip install 'perstep[deep]'" in heard
    assert not (tmp_path / "out").exists()


def test_another_algorithm_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["CartPole-v1", *SMALL, "--steps", "40", "--out", str(tmp_path / "a")]
    assert main(["train", "d2-deep-q", *words]) == 0
    before = (tmp_path / "a" / training.AGENT).read_bytes()
    assert main(["train", "d3-deep-q", *words, "--resume"]) == 2
    assert 'algorithm was "d2-deep-q" and is now "d3-deep-q"' in capsys.readouterr().err

    perstep.QLearning("FrozenLake-v1").learn(5).save(tmp_path / "a" / training.AGENT)
    assert main(["train", "d2-deep-q", *words, "--resume"]) == 2
    assert "got a QLearning" in capsys.readouterr().err

    perstep.DeepQ("CartPole-v1", rule="d3").save(tmp_path / "a" / training.AGENT)
    assert main(["train", "d2-deep-q", *words, "--resume"]) == 2
    assert "Expected an agent with rule 'd2'" in capsys.readouterr().err

    (tmp_path / "a" / training.AGENT).write_bytes(before[: len(before) // 2])
    assert main(["train", "d2-deep-q", *words, "--resume"]) == 2
    assert "it looks truncated or damaged" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["differential", "d2", "d3"])
def test_a_loss_that_is_no_number_stops_and_saves(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", f"{rule}-deep-q", "troubled_worlds:Huge-v0", "--preset", "paper", *SMALL]
    assert main([*words, "--steps", "1000", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    found = re.match(
        r"perstep: Stopped at step (\d+)\. At update (\d+) the loss is (nan|inf)\. The batch had rewards ", said
    )
    assert found is not None
    assert re.search(r"observations from \d to 3e\+38", said)
    assert f"The checkpoint is {tmp_path / training.AGENT}" in said
    # As it was before that batch: without that update, and nothing but numbers.
    steps, updates = int(found[1]), int(found[2]) - 1
    assert updates == (steps - 20) // 4
    arrays, metadata = storage.read(tmp_path / training.AGENT)
    assert (metadata["steps"], int(arrays["learner.updates"][0])) == (steps, updates)
    assert metadata["world"]["resumes"] == "from a fresh reset"
    kept = {
        name: array for name, array in arrays.items() if not name.startswith("replay") and name != "ends"
    }  # no end: NaN
    assert all(np.isfinite(array).all() for array in kept.values())
    record = json.loads((tmp_path / training.RUN).read_text())
    assert (record["steps"], record["finished"]) == (steps, False)
    with pytest.warns(UserWarning, match="fresh reset"):
        agent = perstep.load(tmp_path / training.AGENT, gymnasium.make("troubled_worlds:Huge-v0"))
    assert np.cumsum(training.metrics_frame(agent)["window"])[-1] == steps


@pytest.mark.parametrize("algorithm", ["d2-q", "d2-deep-q"])
def test_a_reward_that_is_no_number_stops_and_saves(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = SMALL if algorithm == "d2-deep-q" else ["--quiet"]
    words = ["train", algorithm, "troubled_worlds:NaN-v0", *small, "--seed", str(BAD_SEED), "--steps", "1000"]
    assert main([*words, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        f"perstep: Stopped at step {BAD_STEP - 1}. At step {BAD_STEP - 1} the reward must be one finite number, got nan"
    )
    assert said.endswith(f"The checkpoint is {tmp_path / training.AGENT}\n")
    assert storage.read(tmp_path / training.AGENT)[1]["steps"] == BAD_STEP - 1
    assert json.loads((tmp_path / training.RUN).read_text())["finished"] is False


def test_an_observation_that_is_no_number_stops_and_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = HugeWorld.step

    def bad_step(self: HugeWorld, action: int) -> Any:
        observation, *rest = step(self, action)
        return observation * (np.nan if self.steps == BAD_STEP else 1.0), *rest

    monkeypatch.setattr(HugeWorld, "step", bad_step)
    words = ["train", "d2-deep-q", "troubled_worlds:Huge-v0", *SMALL, "--steps", "1000", "--out", str(tmp_path)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"perstep: Stopped at step {BAD_STEP - 1}. An observation must hold finite numbers")
    assert said.endswith(f"The checkpoint is {tmp_path / training.AGENT}\n")
    assert storage.read(tmp_path / training.AGENT)[1]["steps"] == BAD_STEP - 1


def test_estimates_that_run_away_leave_the_last_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "train",
        "differential-q",
        "perstep/AccessControl-v0",
        "--preset",
        "paper",
        "--step-size",
        "3",
        "--checkpoint-every",
        "100",
    ]
    assert main([*words, "--steps", "1000000", "--out", str(tmp_path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "the estimates are NaN or infinite" in said
    assert f"The last checkpoint before that is {tmp_path / training.AGENT}" in said
    assert np.isfinite(perstep.load(tmp_path / training.AGENT).average_reward)


@pytest.mark.parametrize(
    ("space", "observation", "sentence"),
    [
        (
            gymnasium.spaces.Box(-1, 1, (3,)),
            np.zeros(4),
            r"must have shape \(3,\), and a batch one more axis in front, got \(4,\)",
        ),
        (gymnasium.spaces.Discrete(3, start=1), 0, "An observation must be a number from 1 to 3, got 0"),
    ],
)
def test_a_world_that_is_not_what_it_says(space: gymnasium.Space, observation: object, sentence: str) -> None:
    class Liar(gymnasium.Env[object, int]):
        observation_space = space
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: object = None) -> tuple[object, dict[str, object]]:
            return observation, {}

    with pytest.raises(ValueError, match=sentence):
        perstep.DeepQ(Liar(), replay_capacity=200).learn(5)


def test_actions_must_be_discrete() -> None:
    with pytest.raises(TypeError, match="chooses among numbered actions, but this world has Box"):
        perstep.DeepQ("Pendulum-v1")
