"""Every engine gives the same bits, and what goes wrong in one run, process, disk or machine takes nothing else with it."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from perstep.app.cli import main
from perstep.display.progress import Bar
from perstep.files.folder_lock import LOCK, Busy, locked
from perstep.paper.catalog import REDPILL
from perstep.paper.figures import style
from perstep.studies.engines import LocalEngine, RayEngine, engine_named
from perstep.studies.execution import Shard, complete
from perstep.studies.results import Results, StudyStopped
from perstep.studies.runs import Unit, run
from perstep.studies.study import Study

GRID = {"step_size": (2e-4, 2e-2), "reward_ratio": (2.0,), "num_quantiles": (10, 51)}
COMPILED = dataclasses.replace(REDPILL[2], grid=GRID, num_runs=3, steps=1000)


def troubled(name: str, **changes) -> Study:
    """Two configurations of three runs in the plain loop; the seed of the second run is the one that finds trouble."""
    study = Study(
        part="troubled", algorithm="d2-q", world=f"troubled_worlds:{name}-v0", grid={"step_size": (0.01, 0.1)},
        fixed={"num_quantiles": 5}, steps=200, num_runs=3, window=50, tuned={},
    )  # fmt: skip
    return dataclasses.replace(study, **changes)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}


def processes_of_ray() -> list[str]:
    """Those among the children of this process."""
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == os.getpid() and name in ("raylet", "gcs_server"):
            names.append(name)
    return names


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an undisturbed study leaves: a compiled one and one in the plain loop."""
    folder = tmp_path_factory.mktemp("whole")
    tally = complete(Results(folder, [COMPILED, troubled("Calm")]), engine=LocalEngine(2), progress=False)
    assert (tally.made, tally.runs, tally.failures) == (6, 18, ())
    return folder


# The same bits -----------------------------------------------------------------------------------------------------------


def test_the_union_of_the_shards_is_the_study(tmp_path, whole):
    made = []
    for index in range(4):
        results = Results(tmp_path, [COMPILED, troubled("Calm")])
        tally = complete(results, shard=Shard(index, 4), progress=False)
        made.append(tally.made)
        assert tally.found == 0
        assert tally.elsewhere == 6 - sum(made)
    assert made == [2, 2, 1, 1]
    assert contents(tmp_path) == contents(whole)


@pytest.mark.skipif(sys.platform == "win32", reason="There is no SIGKILL.")
def test_ray_gives_the_same_bits_also_when_a_worker_is_killed(tmp_path, whole):
    pytest.importorskip("ray")
    marker = tmp_path / "killed"
    dying = troubled("DiesOnce", algorithm="differential-q", world_settings={"marker": str(marker)})
    results = Results(tmp_path / "ray", [COMPILED, troubled("Calm"), dying])
    tally = complete(results, engine=RayEngine(), progress=False)
    assert tally.failures == ()
    assert marker.exists()  # so a worker was killed
    ours = contents(tmp_path / "ray")
    assert {path: ours[path] for path in contents(whole)} == contents(whole)
    calm = Results(tmp_path / "calm", [dying])  # the marker is there, so nothing dies now
    complete(calm, progress=False)
    assert {path: ours[path] for path in contents(tmp_path / "calm")} == contents(tmp_path / "calm")
    assert processes_of_ray() == []


def test_without_ray_its_engine_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["reproduce", "redpill", "--scale", "smoke", "--out", str(tmp_path), "--engine", "ray"]) == 2
    assert "not installed: pip install 'perstep[ray]'" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path):
    pytest.importorskip("ray")
    with socket.socket() as nobody:  # bound and not listening: a port where nobody answers
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"Ray could not be reached at {address}: .*refused"):
            complete(Results(tmp_path, [COMPILED]), engine=RayEngine(address), progress=False)


def test_an_engine_or_a_shard_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"no engine 'rai'\. Did you mean 'ray'"):
        engine_named("rai")
    with pytest.raises(ValueError, match="--ray-address is for --engine ray"):
        engine_named("local", "auto")
    for text in ("4/4", "1", "-1/4", "a/b", "1/0", "", "1/2/3"):
        with pytest.raises(ValueError, match="A shard must be i/n"):
            Shard.of(text)
    assert Shard.of("3/4") == Shard(3, 4)


def test_a_network_learns_the_same_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("torch")
    fixed = {"num_quantiles": 5, "replay_capacity": 200, "hidden": 8, "device": "cpu"}
    study = troubled(
        "Calm", algorithm="d3-deep-q", world="CartPole-v1", fixed=fixed, num_runs=2, grid={"step_size": (1e-3,)}
    )
    results = Results(tmp_path, [study])
    complete(results, engine=LocalEngine(2), progress=False)
    (setting,) = study.settings
    here = [run(study.world, study, setting, seed) for seed in study.seeds]
    there = results.runs(study, setting)
    assert there["reward_quantiles"].to_list() == [row["reward_quantiles"] for row in here]
    assert there["estimated_average_reward"].to_list() == [row["estimated_average_reward"] for row in here]


def test_a_run_in_a_process_tells_how_far_it_is(tmp_path, monkeypatch):
    study = troubled("Calm", num_runs=1, steps=2000, grid={"step_size": (0.1,)})
    unit = Unit(index=0, study=study, setting=study.settings[0], seeds=(0,))
    *told, rows = [news for _, news in LocalEngine(1).work([unit])]
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] == study.steps
    assert len(told) > 1
    assert rows[0]["error"] is None
    seen = []
    monkeypatch.setattr(Bar, "update", lambda _, done, note, found: seen.append((done, note, found)))
    complete(Results(tmp_path, [study]), engine=LocalEngine(1), progress=False)
    assert seen[0][0] < seen[-1][0] == study.steps
    assert [note for _, note, _ in seen[-2:]] == ["0/1 runs", "1/1 runs"]


# Runs and processes that fail --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "error"),
    [
        ("Raises", "ArithmeticError: the world failed"),
        ("NaN", "BadReward: At step 29 the reward must be one finite number"),
        ("Dies", "ProcessDied: its process ended by SIGKILL, perhaps because memory ran out, each of 3 times."),
    ],
)
def test_trouble_in_one_run_is_recorded_and_the_others_go_on(tmp_path, whole, world, error):
    study = troubled(world, grid={"step_size": (0.01,)})
    results = Results(tmp_path, [study])
    tally = complete(results, engine=LocalEngine(2), progress=False)
    (failure,) = tally.failures
    assert failure.runs == "1 of 3"
    assert failure.error.startswith(error)
    frame = results.find(study, study.settings[0])
    assert frame["seed"].to_list() == [0, 1000, 2000]
    assert [text is None for text in frame["error"]] == [True, False, True]
    assert frame["error"][1].startswith(error)
    calm = Results(whole, [troubled("Calm")]).runs(troubled("Calm"), study.settings[0])
    columns = ["seed", "average_reward", "reward_quantiles", "reward_rate"]
    assert results.runs(study, study.settings[0]).select(columns).equals(calm.select(columns)[[0, 2]])
    assert complete(results, progress=False).made == 0  # a failure is a result, until somebody asks for another try


# Disks and folders -------------------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_study_and_loses_nothing(tmp_path, whole, monkeypatch):
    write, written = Path.write_bytes, []

    def until_full(path, data):
        written.append(path)
        if len(written) > 2:
            write(path, bytes(data)[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    results = Results(tmp_path, [COMPILED, troubled("Calm")])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", until_full)
        with pytest.raises(
            StudyStopped, match=r"No space left on device. The 2 configurations .* are safe. Free disk space"
        ):
            complete(results, progress=False)
    there = contents(tmp_path)
    assert len(there) == 2
    assert not list(tmp_path.rglob("*.part"))
    tally = complete(results, progress=False)
    assert (tally.found, tally.made) == (2, 4)
    assert contents(tmp_path) == contents(whole)


SMALL = "{algorithm: d2-q, world: perstep/RedPillBluePill-v0, grid: {step_size: [0.01, 0.1]}, steps: 200, runs: 2}"


@pytest.mark.parametrize("name", ["provenance.json", "ranking.csv"])
def test_a_disk_that_is_full_for_a_file_beside_the_runs_is_a_sentence_and_loses_nothing(
    tmp_path, monkeypatch, capsys, name
):
    (tmp_path / "mine.yaml").write_text(SMALL)
    words = ["sweep", str(tmp_path / "mine.yaml"), "--out", str(tmp_path)]
    write = Path.write_text

    def until_full(path, text, **options):
        if name in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", until_full)
        assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        f"perstep: {tmp_path / 'mine' / name} could not be written: No space left on device. All runs"
    )
    assert told.count("\n") == 1
    assert not list(tmp_path.rglob("*.part"))
    before = contents(tmp_path / "mine")
    assert len(before) == 2
    assert main(words) == 0
    assert "everything is there; nothing had to run" in capsys.readouterr().out
    assert contents(tmp_path / "mine") == before
    record = json.loads((tmp_path / "mine" / "provenance.json").read_text())
    assert (record["seconds"] is None) == (name == "provenance.json")  # when it was written first, nothing ran


def test_a_figure_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(style, "save", full)
    words = ["reproduce", "redpill", "--tuned-only", "--scale", "smoke", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "figures/figure_2 could not be written: No space left on device. All runs" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    assert main(["reproduce", "redpill", "--scale", "smoke", "--out", str(tmp_path / "file")]) == 2
    told = capsys.readouterr()
    assert "Nothing can be written in" in told.err
    assert "Choose another folder with --out" in told.err
    if os.geteuid() != 0:  # to whom everything is permitted
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(PermissionError, match="Nothing can be written in"), locked(tmp_path / "locked" / "in"):
            pass


def test_a_second_study_in_the_same_folder_is_refused(tmp_path, capsys):
    folder = tmp_path / "redpill" / "smoke"
    with locked(folder):
        assert main(["reproduce", "redpill", "--scale", "smoke", "--out", str(tmp_path)]) == 2
        told = capsys.readouterr().err
        assert f"{folder} is in use: process {os.getpid()} on" in told
        with pytest.raises(Busy), locked(folder, "0-of-2"):
            pass
    with locked(folder, "0-of-2"), locked(folder, "1-of-2"):  # shards work side by side
        with pytest.raises(Busy), locked(folder, "1-of-2"):
            pass
        with pytest.raises(Busy), locked(folder):
            pass


def test_a_lock_without_its_process_blocks_nobody(tmp_path):
    (tmp_path / LOCK).write_text("process 1 on elsewhere")
    (tmp_path / "d2-q").mkdir()
    draft = tmp_path / "d2-q" / ".perstep-0123456789abcdef" / "a.parquet.part"
    draft.parent.mkdir()
    draft.write_bytes(b"half a file")
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text().startswith(f" process {os.getpid()} on")
    assert not draft.parent.exists()


# Kills -------------------------------------------------------------------------------------------------------------------

STUDY = """
algorithm: [d2-q, d3-q]
world: perstep/RedPillBluePill-v0
grid: {step_size: [2e-4, 2e-3, 2e-2], num_quantiles: [10, 51], reward_ratio: [0.1, 1, 2, 10]}
steps: 20_000
runs: 4
"""


def count_results(folder):
    """The number of result files. Unlike rglob, os.walk goes on when a folder disappears under it: the drafts of a study do."""
    return sum(name.endswith(".parquet") for _, _, names in os.walk(folder) for name in names)


@pytest.mark.skipif(sys.platform == "win32", reason="There is no SIGKILL.")
def test_kills_at_random_moments_lose_and_repeat_nothing(tmp_path):
    (tmp_path / "kills.yaml").write_text(STUDY)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-m", "perstep.app.cli", "sweep", str(tmp_path / "kills.yaml"), "--out"]
    subprocess.run([*words, str(tmp_path / "whole")], env=environment, check=True, capture_output=True)
    chance, first_seen, kills = np.random.default_rng(5), {}, 0
    folder = tmp_path / "killed"
    for _ in range(6):
        goal = len(first_seen) + int(chance.integers(0, 5))
        with subprocess.Popen(
            [*words, str(folder)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None and count_results(folder) < goal:
                time.sleep(0.001)
            time.sleep(float(chance.uniform(0.0, 0.03)))
            kills += process.poll() is None
            process.send_signal(signal.SIGKILL)
        for path in folder.rglob("*.parquet"):
            first_seen.setdefault(path, path.stat().st_mtime_ns)
    done = subprocess.run([*words, str(folder)], env=environment, check=True, capture_output=True, text=True)
    assert kills >= 3
    assert 0 < len(first_seen) < 48  # so that there was something to keep, and something left
    assert f"ran {48 - len(first_seen)} configurations" in done.stdout
    assert all(path.stat().st_mtime_ns == made for path, made in first_seen.items())  # none was made again
    assert contents(folder / "kills") == contents(tmp_path / "whole" / "kills")
    assert not list(folder.rglob("*.part"))
