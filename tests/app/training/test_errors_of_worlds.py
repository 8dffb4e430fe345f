"""A world that raises or hangs in the middle of a run, and files of a run that are not its own."""

from __future__ import annotations

import os
import signal
import threading

import gymnasium
import polars as pl
import pytest

from perstep.agent.making import make_agent
from perstep.app.cli import main
from perstep.files import storage

SMALL = ["--checkpoint-every", "1000", "--num-quantiles", "3"]


class Pump(gymnasium.Env):
    """Two states; in step 3000 it raises an error or, with a `wait`, hangs for so many seconds."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, wait=0.0):
        self.wait, self.count, self.render_mode = wait, 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.count += 1
        if self.count == 3000:
            if not self.wait:
                raise RuntimeError("the pump is broken")
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(self.wait)
        return int(action), float(action), False, False, {}


@pytest.fixture(autouse=True)
def pump():
    gymnasium.register("Pump-v0", Pump)
    yield
    del gymnasium.registry["Pump-v0"]


def test_an_error_of_the_world_names_the_checkpoint(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "d2-q", "Pump-v0", "--steps", "5000", "--out", str(out), *SMALL]) == 2
    said = capsys.readouterr().err
    assert "by an error. --resume continues from the checkpoint" in said
    assert "perstep: the pump is broken" in said
    assert storage.read(out / "agent.safetensors")[1]["steps"] == 2000


def test_a_hanging_world_ends_with_the_second_interrupt(tmp_path):
    out, world = tmp_path / "run", ["--world-settings", "wait=60"]
    assert main(["train", "d2-q", "Pump-v0", "--steps", "5000", "--out", str(out), *SMALL, *world]) == 130
    assert storage.read(out / "agent.safetensors")[1]["steps"] == 2000


def test_what_was_learnt_before_a_world_hung_is_kept():
    agent = make_agent("d2-q", Pump(wait=60.0), num_quantiles=3)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(5000, progress=False)
    assert agent.steps == 2999
    assert agent.learn(5, progress=False).steps == 3004


def test_evaluations_that_are_not_those_of_a_run_are_refused(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", "d2-q", "perstep/TwoLoop-v0", "--out", str(out), *SMALL]
    assert main([*words, "--steps", "20", "--evaluate-every", "10", "--evaluate-steps", "10"]) == 0
    frame = storage.read_table(out / "evaluations.parquet")
    storage.write_table(out / "evaluations.parquet", frame.drop("step").with_columns(x=pl.lit(1)))
    assert main([*words, "--steps", "30", "--resume"]) == 2
    assert "Move the file away to continue" in capsys.readouterr().err
