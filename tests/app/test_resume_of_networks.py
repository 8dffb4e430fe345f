"""Runs of networks on the command line, killed at any moment: what goes on is the run that was never killed, to the bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perstep.app import training
from perstep.app.cli import main
from perstep.files import storage
from same_runs import assert_same_run

pytest.importorskip("torch")
pytest.importorskip("ale_py")
pytest.importorskip("minatar")

pytestmark = pytest.mark.usefixtures("undrawn")

SMALL = "--replay-capacity 70 --learning-starts 20 --batch-size 4 --num-quantiles 5 --threads 1"
SMALL += " --device cpu --checkpoint-every 25 --quiet"
DEEP_Q = f"{SMALL} --epsilon-steps 60"
MINATAR = "perstep/MinAtar-Breakout-v0 --evaluate-every 40 --evaluate-steps 15"
WORLDS = {"MinAtar": MINATAR, "ALE": "ALE/Breakout-v5"}

# A process that has loaded the libraries, which takes seconds, and forks one for every command. One that is to die writing
# leaves half of its third agent and is gone.
NURSERY = """
import json, os, sys
import ale_py, minatar, perstep.app.cli, perstep.deep.q_learning, perstep.deep.continuous.learner
import perstep.app.training.flags, polars, rich.table, torch._dynamo
import safetensors.numpy as files

save, saved = files.save_file, []

def write_half(arrays, path, metadata):
    save(arrays, path, metadata)
    saved.append(path)
    if len(saved) == 3:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), 9)

for line in sys.stdin:
    words, dies_writing = json.loads(line)
    pid = os.fork()
    if pid == 0:
        files.save_file = write_half if dies_writing else save
        os._exit(perstep.app.cli.main(words))
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""

Begin = Callable[[list[str], bool], tuple[int, Callable[[], int]]]


@pytest.fixture(scope="module")
def begin() -> Iterator[Begin]:
    """Begins a command without an end; gives its process, and a function that waits for the exit code."""
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        reads, writes = process.stdout, process.stdin

        def begin(words: list[str], dies_writing: bool) -> tuple[int, Callable[[], int]]:
            print(json.dumps([[*words, "--steps", "1000000"], dies_writing]), file=writes, flush=True)
            return int(reads.readline()), lambda: int(reads.readline())

        yield begin


def steps_saved(folder: Path) -> int:
    return int(storage.read(folder / training.AGENT)[1]["steps"])


def go_on_and_compare(words: list[str], folder: Path) -> None:
    """Resume the killed run for some more steps, and make it anew without a break."""
    words = [*words, "--steps", str(steps_saved(folder / "killed") + 61)]
    assert main([*words, "--out", str(folder / "killed"), "--resume"]) == 0
    assert main([*words, "--out", str(folder / "whole")]) == 0
    assert_same_run(folder / "whole", folder / "killed")
    assert [path.name for path in (folder / "killed").glob(".*")] == [".lock"]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("rule", "delay"), [("differential", 0.0), ("d2", 0.011), ("d3", 0.053)])
def test_killed_run_goes_on_to_the_bit(rule: str, delay: float, world: str, begin: Begin, tmp_path: Path) -> None:
    kill_and_go_on(["train", f"{rule}-deep-q", *WORLDS[world].split(), *DEEP_Q.split()], delay, begin, tmp_path)


@pytest.mark.parametrize(
    ("rule", "world"),
    [(rule, "Pendulum-v1") for rule in ("differential", "rvi", "d2", "d3", "categorical")] + [("d2", "Swimmer-v5")],
)
def test_killed_run_with_continuous_actions_goes_on_to_the_bit(
    rule: str, world: str, begin: Begin, tmp_path: Path
) -> None:
    if world == "Swimmer-v5":
        pytest.importorskip("mujoco", reason="needs MuJoCo: pip install 'perstep[mujoco]'")
    kill_and_go_on(["train", f"{rule}-sac", world, *SMALL.split(), "--hidden", "8", "8"], 0.01, begin, tmp_path)


def kill_and_go_on(words: list[str], delay: float, begin: Begin, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    pid, exit_code = begin([*words, "--out", str(killed)], False)
    record = killed / training.RUN
    while not (record.exists() and json.loads(record.read_text())["steps"] >= 50):
        os.kill(pid, 0)  # raises if it is gone
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    assert exit_code() == -signal.SIGKILL
    go_on_and_compare(words, tmp_path)
    arrays, metadata = storage.read(tmp_path / "whole" / training.AGENT)
    assert {"replay.frames", "rewards.theta", "record.returns", "learner.updates"} <= arrays.keys()
    assert any(name.startswith("learner.adam.exp_avg_sq") for name in arrays)
    assert int(arrays["replay.cursor"][0]) == metadata["steps"] > 70  # the ring has been round


def test_killed_while_it_writes_a_checkpoint_the_one_before_loads(begin: Begin, tmp_path: Path) -> None:
    words = ["train", "d3-deep-q", *MINATAR.split(), *DEEP_Q.split()]
    _, exit_code = begin([*words, "--out", str(tmp_path / "killed")], True)
    assert exit_code() == -signal.SIGKILL
    assert len(list((tmp_path / "killed").glob(".perstep-*/agent.safetensors.part"))) == 1
    assert steps_saved(tmp_path / "killed") == 50
    go_on_and_compare(words, tmp_path)
