"""Weights & Biases for real, offline: what its own files hold afterwards, under which id, and that nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perstep
from perstep.agent.tracking import TensorBoardLog, Tracker, WandbLog
from perstep.app import training
from perstep.app.cli import main
from perstep.app.training import EvaluationPlan
from perstep.app.training.run_spec import RunSpec
from perstep.tabular.settings import QLearningConfig
from same_runs import Crash

pytest.importorskip("wandb")

pytestmark = pytest.mark.usefixtures("undrawn", "offline")

FROZEN = RunSpec(algorithm="d2-q", world="FrozenLake-v1", config=QLearningConfig(rule="d2", num_quantiles=5))


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def records(path: Path) -> list[Any]:
    """All that a run has written. W&B may still write a moment after it says that it has ended: the end is the last record."""
    while True:
        found = written(path)
        if any(record.HasField("exit") for record in found):
            return found
        time.sleep(0.02)


def written(path: Path) -> list[Any]:
    """What an offline run has written so far: protobuf messages in the format of LevelDB's log, in blocks of 32 kB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, parts, found = path.read_bytes(), 7, b"", []  # after the seven bytes of W&B's own header
    while position + 7 <= len(data):
        if 32768 - position % 32768 < 7:  # the rest of a block is too short for a header
            position += 32768 - position % 32768
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            found.append(Record.FromString(parts))
            parts = b""
    return found


def runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("wandb/offline-run-*/*.wandb"))


def history(paths: list[Path]) -> dict[str, dict[int, Any]]:
    """name → step → value."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for path in paths:
        for record in records(path):
            for item in record.history.item:
                name = item.key or "/".join(item.nested_key)
                found[name][record.history.step.num] = json.loads(item.value_json)
    return found


def ids(folder: Path) -> set[str]:
    return {record.run.run_id for path in runs(folder) for record in records(path) if record.HasField("run")}


def test_a_callback_writes_what_tensorboard_gets(tmp_path: Path) -> None:
    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4)
    plain = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4).learn(2000)
    board = perstep.TensorBoardCallback(tmp_path / "board", 500)
    with perstep.WandbCallback("mine", 500, dir=tmp_path, tags=["test"]) as logged, board:
        agent.learn(2000, callback=[logged, board])
    np.testing.assert_array_equal(agent.all_action_values, plain.all_action_values)
    found = history(runs(tmp_path))
    assert list(found["average_reward"]) == [500, 1000, 1500, 2000]
    assert found["average_reward"][2000] == pytest.approx(agent.average_reward)
    assert list(found["reward_rate"]) == [500, 1000, 1500, 2000]
    assert np.mean(list(found["reward_rate"].values())) == pytest.approx(agent.history.reward_rate.mean())
    assert sum(found["reward_quantiles/values"][2000]) == 4
    assert ids(tmp_path) == {logged.id}

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    names = {name for name in found if not name.startswith(("_", "reward_quantiles"))}
    assert set(events.Tags()["scalars"]) == names
    assert [event.step for event in events.Scalars("reward_rate")] == [500, 1000, 1500, 2000]


def test_a_callback_goes_on_under_the_same_id(tmp_path: Path) -> None:
    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4)
    with perstep.WandbCallback("mine", 500, dir=tmp_path) as first:
        agent.learn(1000, callback=first)
    with perstep.WandbCallback("mine", 500, id=first.id, dir=tmp_path) as second:
        agent.learn(1000, callback=second)
    assert ids(tmp_path) == {first.id}
    assert list(history(runs(tmp_path))["average_reward"]) == [500, 1000, 1500, 2000]


def test_a_killed_run_resumes_under_the_same_id_with_the_same_numbers(tmp_path: Path) -> None:
    def crash(agent: perstep.Agent) -> None:
        if agent.steps > 700:
            raise Crash

    plan = EvaluationPlan(every=200, num_steps=50)
    folder = tmp_path / "a"
    with pytest.raises(Crash):
        training.train(FROZEN, 1000, folder, wandb="mine", evaluate=plan, checkpoint_every=400, watch=crash)
    kept = training.read_record(folder)["wandb"]
    assert kept["project"] == "mine"
    said: list[str] = []
    training.train(FROZEN, 1000, folder, wandb="mine", evaluate=plan, resume=True, say=said.append)
    assert any(f"wandb sync {folder}" in text for text in said)
    assert training.read_record(folder)["wandb"] == kept
    assert ids(folder) == {kept["id"]}
    before, after = (history([path]) for path in runs(folder))
    assert min(after["average_reward"]) > 400  # it continues from the checkpoint
    both = set(before["average_reward"]) & set(after["average_reward"])
    assert all(before["average_reward"][step] == after["average_reward"][step] for step in both)
    assert sorted({*before["evaluation/average_reward"], *after["evaluation/average_reward"]}) == [
        200,
        400,
        600,
        800,
        1000,
    ]
    config = {item.key: json.loads(item.value_json) for r in records(runs(folder)[0]) for item in r.run.config.update}
    assert config["algorithm"] == "d2-q"
    assert config["settings"]["num_quantiles"] == 5


def test_the_flag_and_both_tools_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-q", "FrozenLake-v1", "--steps", "300", "--out", str(tmp_path / "b"), "--quiet"]
    assert main([*words, "--wandb", "mine", "--tensorboard"]) == 0
    assert f"tensorboard --logdir {tmp_path / 'b'}" in capsys.readouterr().out
    assert max(history(runs(tmp_path / "b"))["average_reward"]) == 300


def test_a_tracker_closes_what_failed_as_failed(tmp_path: Path) -> None:
    with pytest.raises(Crash), Tracker([WandbLog("mine", dir=tmp_path), TensorBoardLog(tmp_path)]):
        raise Crash
    (path,) = runs(tmp_path)
    assert [record.exit.exit_code for record in records(path) if record.HasField("exit")] == [1]


def test_without_the_extra_it_is_named_before_anything_runs(tmp_path: Path) -> None:
    block = "import sys; sys.modules['wandb'] = None; from perstep.app.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = ["train", "d2-q", "FrozenLake-v1", "--steps", "300", "--out", str(tmp_path / "c"), "--wandb", "mine"]
    done = subprocess.run([sys.executable, "-c", block, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "perstep: Weights & Biases is not installed. Install it: pip install 'perstep[wandb]'\n"
    assert not (tmp_path / "c").exists()


def test_without_an_account_it_says_what_to_do(tmp_path: Path) -> None:
    script = f"from perstep.agent.tracking import WandbLog; WandbLog('mine', dir={str(tmp_path)!r})"
    own = {"WANDB_MODE": "online", "WANDB_API_KEY": "", "NETRC": str(tmp_path / "netrc"), "HOME": str(tmp_path)}
    environment = os.environ | own | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    told = done.stderr.splitlines()[-1]
    assert told.startswith("RuntimeError: Weights & Biases could not start a run: ")
    assert "`wandb login`, or set WANDB_MODE=offline" in told
