"""A run that was stopped anywhere resumes from its checkpoint, and ends as if nobody had stopped it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import gymnasium
import pytest
from safetensors import SafetensorError

import perstep
from perstep.studies import execution, run_checkpoints
from perstep.studies.engines import LocalEngine
from perstep.studies.results import Results
from perstep.studies.runs import Unit, run_unit
from perstep.studies.study import Study

LAKE = Study(  # neither the world nor its loop is compiled, and the state of the world can be saved
    part="lakes",
    algorithm="d2-q",
    world="FrozenLake-v1",
    grid={"step_size": (0.01,)},
    fixed={"num_quantiles": 5},
    steps=600,
    num_runs=2,
    window=50,
    tuned={"step_size": 0.01},
)
GAME = replace(
    LAKE,
    part="games",
    algorithm="d3-deep-q",
    world="perstep/MinAtar-Breakout-v0",
    fixed={"batch_size": 8, "replay_capacity": 300, "learning_starts": 50, "num_quantiles": 5},
)


class Stopped(BaseException):
    """What a test stops a run with: nothing in the library catches it."""


@pytest.fixture
def impatient(monkeypatch):
    """Save at every look, which is after every stretch of learning."""
    monkeypatch.setattr(run_checkpoints, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(run_checkpoints, "COST_FACTOR", 0)


def unit_of(study, folder=None):
    return Unit(
        index=0, study=study, setting=study.settings[0], seeds=(7,), folder=None if folder is None else str(folder)
    )


def saved(folder):
    """The newest checkpoint of each run."""
    return [path for path in (folder / run_checkpoints.FOLDER).glob("*.safetensors") if ".before" not in path.name]


def stop_after(monkeypatch, looks):
    """Stop a run at so many looks at it; returns the steps at which it was seen."""
    seen, save_if_due = [], run_checkpoints.RunCheckpoint.save_if_due

    def counted(checkpoint, agent):
        save_if_due(checkpoint, agent)
        seen.append(agent.steps)
        if len(seen) == looks:
            raise Stopped

    monkeypatch.setattr(run_checkpoints.RunCheckpoint, "save_if_due", counted)
    return seen


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("study", [LAKE, GAME], ids=["table", "network"])
def test_a_stopped_run_goes_on_and_ends_the_same(study, tmp_path, monkeypatch):
    if study is GAME:
        pytest.importorskip("torch")
    (whole,) = run_unit(unit_of(study))
    assert whole["error"] is None
    seen = stop_after(monkeypatch, 2)
    with pytest.raises(Stopped):
        run_unit(unit_of(study, tmp_path))
    assert 0 < seen[-1] < study.steps
    assert len(saved(tmp_path)) == 1
    seen.clear()
    monkeypatch.setattr("perstep.studies.runs.make_agent", lambda *_, **__: pytest.fail("It begins anew."))
    seen.extend([0] * 5)  # so that nobody stops it now
    told = []
    (resumed,) = run_unit(unit_of(study, tmp_path), told.append)
    assert same(resumed, whole)
    assert not list(tmp_path.rglob("*.before*"))  # of a run that has ended
    assert 0 < told[0] < told[-1] == study.steps
    seen.clear()
    seen.extend([0] * 5)
    (again,) = run_unit(unit_of(study, tmp_path))
    assert same(again, whole)
    assert seen == [0] * 5, "The checkpoint of a run that has ended is its end."


def same(one, other):
    """Rows to the bit; NaN, for windows without an end, is itself."""
    return repr(one) == repr(other)


CHILD = """
import sys
from perstep.studies import run_checkpoints
from test_run_checkpoints import GAME, replace, run_unit, unit_of
run_checkpoints.MAX_SECONDS, run_checkpoints.COST_FACTOR = 0.0, 0
run_unit(unit_of(replace(GAME, steps=4000), sys.argv[1]))
"""


def test_a_killed_process_loses_no_more_than_the_last_stretch(tmp_path):
    pytest.importorskip("torch")
    study = replace(GAME, steps=4000)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], env=paths)
    deadline = time.monotonic() + 120
    while not saved(tmp_path) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL, "It ended before it could be killed."
    checkpoint = unit_of(study, tmp_path).checkpoint(7)
    world = gymnasium.make(study.world)
    assert 0 < checkpoint.load(world, study.steps).steps < study.steps
    (resumed,), (whole,) = run_unit(unit_of(study, tmp_path)), run_unit(unit_of(study))
    assert same(resumed, whole)


@pytest.mark.usefixtures("impatient")
def test_nothing_is_left_when_all_is_published(tmp_path):
    results = Results(tmp_path, [LAKE])
    for seed in LAKE.seeds:
        run_unit(replace(unit_of(LAKE, tmp_path), seeds=(seed,)))
    (tmp_path / run_checkpoints.FOLDER / "of-another-study.safetensors").touch()
    assert len(saved(tmp_path)) == 3
    tally = execution.complete(results, engine=LocalEngine(1), progress=False)
    assert tally.made == 1
    assert not (tmp_path / run_checkpoints.FOLDER).exists()


def test_a_short_run_leaves_none(tmp_path):
    run_unit(unit_of(LAKE, tmp_path))
    assert not (tmp_path / run_checkpoints.FOLDER).exists()


@pytest.mark.usefixtures("impatient")
def test_a_damaged_checkpoint_is_none(tmp_path):
    (whole,) = run_unit(unit_of(LAKE, tmp_path))
    (path,) = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    assert same(run_unit(unit_of(LAKE, tmp_path))[0], whole)


@pytest.mark.usefixtures("impatient")
def test_another_setting_has_another_checkpoint(tmp_path):
    run_unit(unit_of(LAKE, tmp_path))
    other = replace(LAKE, fixed={**LAKE.fixed, "reset_cost": 1.0})
    assert same(run_unit(unit_of(other, tmp_path))[0], run_unit(unit_of(other))[0])
    assert len(saved(tmp_path)) == 2


@pytest.mark.usefixtures("impatient")
def test_a_world_that_cannot_be_found_again_has_a_checkpoint_at_the_end_only(tmp_path, monkeypatch):
    monkeypatch.setattr(run_checkpoints, "describe", lambda *_: ({}, {"resumes": run_checkpoints.FRESH}))
    seen = stop_after(monkeypatch, 2)
    with pytest.raises(Stopped):
        run_unit(unit_of(LAKE, tmp_path))
    assert not saved(tmp_path)
    (whole,) = run_unit(unit_of(LAKE, tmp_path))
    assert len(saved(tmp_path)) == 1
    looked = len(seen)
    assert same(run_unit(unit_of(LAKE, tmp_path))[0], whole)
    assert len(seen) == looked, "It had ended."


def test_the_end_of_a_long_run_is_kept_also_if_no_checkpoint_was(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(run_checkpoints.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(run_checkpoints, "describe", lambda *_: ({}, {"resumes": run_checkpoints.FRESH}))
    checkpoint, agent = unit_of(LAKE, tmp_path).checkpoint(7), perstep.QLearning("perstep/RedPillBluePill-v0")
    for _ in range(5):
        now[0] += run_checkpoints.MAX_SECONDS
        checkpoint.save_if_due(agent)
    checkpoint.save_end(agent)
    assert len(saved(tmp_path)) == 1


@pytest.mark.usefixtures("impatient")
def test_a_checkpoint_of_a_world_that_is_another_one_now_is_none(tmp_path, monkeypatch):
    (whole,) = run_unit(unit_of(LAKE))
    seen = stop_after(monkeypatch, 2)
    with pytest.raises(Stopped):
        run_unit(unit_of(LAKE, tmp_path))
    seen.extend([0] * 5)
    with monkeypatch.context() as patch:
        patch.setattr("perstep.gym.opening.restore", lambda *_: False)
        assert same(run_unit(unit_of(LAKE, tmp_path))[0], whole)


@pytest.mark.usefixtures("impatient")
def test_a_full_disk_stops_no_run(tmp_path, monkeypatch):
    def full(*_):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    assert run_unit(unit_of(LAKE, tmp_path))[0]["error"] is None
    assert not list((tmp_path / run_checkpoints.FOLDER).iterdir())
    with pytest.raises(OSError, match=r"could not be written: No space left on device\. Free some space"):
        perstep.QLearning("perstep/RedPillBluePill-v0").save(tmp_path / "a")


def test_tuned_only_leaves_the_checkpoints_of_the_grid(tmp_path):
    (tmp_path / run_checkpoints.FOLDER).mkdir()
    (tmp_path / run_checkpoints.FOLDER / "of-the-grid.safetensors").touch()
    execution.complete(
        Results(tmp_path, [replace(LAKE, steps=50)], tuned_only=True), engine=LocalEngine(1), progress=False
    )
    assert saved(tmp_path)


@pytest.mark.usefixtures("impatient")
def test_no_room_for_checkpoints_stops_no_run(tmp_path):
    (tmp_path / run_checkpoints.FOLDER).write_text("a file where the folder should be")
    assert run_unit(unit_of(LAKE, tmp_path))[0]["error"] is None


@pytest.mark.usefixtures("impatient")
def test_a_machine_without_the_folder_leaves_none(tmp_path):
    assert run_unit(unit_of(LAKE, tmp_path / "elsewhere"))[0]["error"] is None
    assert not (tmp_path / "elsewhere").exists()
