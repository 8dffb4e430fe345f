"""Files and settings that mean harm: a sentence each, before memory is taken, time is lost or anything is run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import stat
import sys
import threading
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import polars as pl
import pytest

import perstep
from perstep.agent.files import checkpoint_before
from perstep.app import training
from perstep.files import storage
from perstep.files.folder_lock import Busy, locked
from perstep.numerics import compiled
from perstep.studies.engines import process_pool
from perstep.studies.engines import ray as ray_engine
from perstep.studies.execution import complete
from perstep.studies.results import Results, StudyStopped
from perstep.studies.runs import Unit, try_out
from perstep.studies.study_command import StudyOptions
from perstep.studies.study_file import read_study, studies_of
from perstep.studies.sweep import ranking_table, sweep
from perstep.system.budget import BUDGET, TooLarge, claim, limited
from perstep.system.memory import peak_memory
from perstep.system.signals import deferred_signals, raise_again
from perstep.tabular.settings import QLearningConfig
from perstep.tiles.coder import TileCoder

FOLDER = Path(__file__).parent
TWO_LOOP, RED_PILL = "perstep/TwoLoop-v0", "perstep/RedPillBluePill-v0"
MANY = 500_000_000  # bytes that no refusal may take; PyTorch itself takes half of them


@pytest.fixture(autouse=True)
def takes_no_memory():
    """A refusal comes before memory is taken."""
    before = peak_memory()
    yield
    assert before is None or (peak_memory() or 0) - before < MANY


# --- Agents


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """Whole files of small agents, as arrays and metadata."""
    folder = tmp_path_factory.mktemp("agents")
    made = {
        "table": perstep.QLearning(TWO_LOOP, num_quantiles=4),
        "lake": perstep.QLearning("FrozenLake-v1", num_quantiles=4),
        "tiles": perstep.ActorCritic("perstep/InvertedPendulum-v0", tilings=4, tiles=3, num_quantiles=4),
    }
    for name, agent in made.items():
        agent.record_every(5, rows=8, sketch=False).learn(20).save(folder / f"{name}.safetensors")
    return {name: storage.read(folder / f"{name}.safetensors") for name in made}


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("deep") / "agent.safetensors"
    settings = {"hidden": (4,), "replay_capacity": 20, "learning_starts": 10, "batch_size": 4, "num_quantiles": 4}
    perstep.DeepQ("CartPole-v1", **settings, device="cpu", threads=1).learn(5).save(path)
    return storage.read(path)


def changed(saved, way, value):
    arrays, metadata = dict(saved[0]), json.loads(json.dumps(saved[1]))
    inner = metadata
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return arrays, metadata


@pytest.mark.parametrize("case", json.loads((FOLDER / "agents.json").read_text()), ids=lambda case: case["name"])
def test_an_agent_that_means_harm_is_refused(case, agents, request, tmp_path):
    saved = request.getfixturevalue("deep") if case["agent"] == "deep" else agents[case["agent"]]
    storage.write(tmp_path / "a.safetensors", *changed(saved, case["path"], case["value"]))
    with pytest.raises(storage.BadFile) as caught:
        perstep.load(tmp_path / "a.safetensors")
    assert len(str(caught.value).split()) > 5


@pytest.mark.parametrize(
    ("agent", "world", "settings"),
    [
        ("lake", "FrozenLake-v1", {"desc": ["S" + "F" * 1499] + ["F" * 1500] * 1499}),
        ("table", "perstep/AccessControl-v0", {"num_servers": 2000}),
        ("table", "perstep/Atari-v0", {"game": "breakout", "screen_size": 30_000}),
    ],
)
def test_a_world_of_a_file_keeps_to_the_budget(agent, world, settings, agents, tmp_path):
    arrays, metadata = changed(agents[agent], ["world"], {"kind": "gymnasium", "name": world, "kwargs": settings})
    spaces = {"states": {"sizes": [9], "starts": [0], "kind": "Discrete"}}
    metadata["world"]["spaces"] = agents[agent][1]["world"].get("spaces") or {**spaces, "actions": spaces["states"]}
    if agent == "table":
        metadata["world"]["spaces"]["actions"] = {"sizes": [2], "starts": [0], "kind": "Discrete"}
    storage.write(tmp_path / "a.safetensors", arrays, metadata)
    with pytest.raises(storage.BadFile, match=r"of what this file may take are left.*perstep\.load\(path, budget=…\)"):
        perstep.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("world", "settings"),
    [
        (TWO_LOOP, {"world": "endless", "env": "evil_world:X-v0"}),
        (TWO_LOOP, {"world": "FollowPolicy", "env": "evil_world:X-v0", "policy": 1}),
        ("perstep/MountainCar-v0", {"name": "evil_world:X-v0"}),
    ],
)
def test_no_setting_of_a_world_imports_a_module(world, settings, agents, tmp_path, monkeypatch):
    """A registered world may make another one: only from what it is meant for."""
    (tmp_path / "evil_world.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    about = {**agents["lake"][1]["world"], "name": world, "kwargs": settings}
    storage.write(tmp_path / "a.safetensors", *changed(agents["lake"], ["world"], about))
    with pytest.raises(storage.BadFile, match=r"no finite world|must be one of CartPole-v1"):
        perstep.load(tmp_path / "a.safetensors")
    assert "evil_world" not in sys.modules


@pytest.mark.parametrize("world", ["perstep/CartPole-v0", "perstep/MountainCar-v0", "perstep/Acrobot-v0"])
def test_a_world_that_has_a_name_as_setting_is_made_again(world, tmp_path):
    perstep.TileQ(world, tilings=2, tiles=2).save(tmp_path / "a.safetensors")
    assert perstep.load(tmp_path / "a.safetensors").learn(0)._world_name.startswith(world)


def test_settings_that_gymnasium_uses_itself_may_be_registered(agents, tmp_path):
    def lake(id, name, max_episode_steps):
        return gymnasium.make("FrozenLake-v1").unwrapped

    gymnasium.register("Lake-v5", entry_point=lake, kwargs={"id": 1, "name": "x", "max_episode_steps": 5})
    try:
        perstep.QLearning("Lake-v5", num_quantiles=4).save(tmp_path / "a.safetensors")
        assert perstep.load(tmp_path / "a.safetensors").learn(5).steps == 5
    finally:
        del gymnasium.registry["Lake-v5"]


def test_a_history_larger_than_the_budget(agents, tmp_path):
    arrays, metadata = changed(agents["table"], ["config", "num_quantiles"], 60_000)
    many = {name: np.zeros(60_000) for name in ("rewards.theta", "rewards.tau", "record.reward_rate")}
    storage.write(tmp_path / "a.safetensors", {**arrays, **many}, metadata)
    with pytest.raises(storage.BadFile, match=r"history of 60,000 rows|reward quantiles"):
        perstep.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("generator", np.zeros(4, np.uint64)),
        ("prediction_generator", np.zeros(4, np.uint64)),
        ("record.cursor", np.array([2**62, 0, 2**62 - 1])),
    ],
)
def test_numbers_that_would_stop_or_overflow(name, array, agents, tmp_path):
    arrays, metadata = agents["table"]
    storage.write(tmp_path / "a.safetensors", {**arrays, name: array}, metadata)
    with pytest.raises(storage.BadFile):
        perstep.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize("high", [1e-320, 5e-324, 1e-310])
def test_a_file_with_intervals_too_narrow_for_their_tiles(high, agents, tmp_path):
    arrays, metadata = agents["tiles"]
    metadata = {**metadata, "config": {**metadata["config"], "low": [-3.15, 0.0], "high": [3.15, high]}}
    storage.write(tmp_path / "a.safetensors", arrays, metadata)
    with pytest.raises(storage.BadFile, match="far enough apart"):
        perstep.load(tmp_path / "a.safetensors")


def test_the_budget_is_raised_by_its_argument(agents, tmp_path):
    storage.write(tmp_path / "a.safetensors", *agents["table"])
    with pytest.raises(storage.BadFile, match="budget=…"):
        perstep.load(tmp_path / "a.safetensors", budget=0)
    assert perstep.load(tmp_path / "a.safetensors", budget=2 * BUDGET).steps == 20
    with pytest.raises(ValueError, match="budget must be"):
        perstep.load(tmp_path / "a.safetensors", budget=-1)


def test_a_compiler_and_a_window_are_not_started(agents, deep, tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    storage.write(path, *changed(deep, ["config", "compile"], True))
    monkeypatch.setattr("torch.compile", lambda network: pytest.fail("It compiles."))
    with pytest.warns(UserWarning, match="Loading a file starts no compiler"):
        agent = perstep.load(path)
    assert agent.config.compile
    storage.write(path, *changed(agents["lake"], ["world", "kwargs"], {"map_name": "4x4", "render_mode": "human"}))
    assert perstep.load(path)._world.env.render_mode is None


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    for path in (tmp_path / "pipe.safetensors", Path("/dev/zero")):
        with pytest.raises(storage.BadFile, match="Expected a regular file"):
            perstep.load(path)
        with pytest.raises(storage.BadFile, match="Expected a regular file"):
            storage.read_table(path)


def test_a_sparse_file_is_not_read(agents, tmp_path):
    size, about = 3 * 10**9, json.dumps(agents["table"][1])
    header = {"__metadata__": {"perstep": about}, "x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    with open(tmp_path / "a.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)
    with pytest.raises(storage.BadFile, match=r"content of the file needs 3\.00 GB"):
        perstep.load(tmp_path / "a.safetensors")


def test_every_flipped_bit_is_noticed(agents, tmp_path):
    path = tmp_path / "a.safetensors"
    storage.write(path, *agents["table"])
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for at in rng.integers(8, len(whole), 200):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(storage.BadFile):
            perstep.load(path)


def test_a_checksum_cannot_be_left_out(agents, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "CHECKSUM", "another entry")
    storage.write(tmp_path / "a.safetensors", *agents["table"])
    monkeypatch.undo()
    with pytest.raises(storage.BadFile, match="does not match its checksum"):
        perstep.load(tmp_path / "a.safetensors")


# --- Settings given in Python


class Endless(gymnasium.Env):
    """Discrete observations, as many as are asked for."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size=2):
        self.observation_space = gymnasium.spaces.Discrete(size)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, 1.0, False, False, {}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: perstep.QLearning(Endless(10**12)), "A table of 1,000,000,000,000 states.* needs"),
        (lambda: perstep.QLearning(TWO_LOOP, num_quantiles=10**15), "Choose a smaller num_quantiles"),
        (lambda: perstep.QLearning(TWO_LOOP).record_every(1, rows=10**14), "A history of 100,000,000,000,000 rows"),
        (lambda: perstep.ActorCritic("MountainCar-v0", tilings=10**12), "Choose fewer tilings"),
        (lambda: TileCoder(low=[0.0] * 40_000, high=[1.0] * 40_000, tilings=10**8), "Choose fewer tilings"),
        (lambda: perstep.worlds.access_control(num_servers=10**6), "Choose fewer servers"),
        (lambda: perstep.QLearning(TWO_LOOP).evaluate(2**62), "num_steps must be a whole number from 1 to 10,000,"),
        (lambda: perstep.QLearning(TWO_LOOP).learn(2**62), "num_steps must be a whole number from 0 to"),
    ],
)  # fmt: skip
def test_settings_larger_than_the_machine(make, words):
    with pytest.raises((TooLarge, ValueError), match=words):
        make()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed": 2**70}, "seed must be a whole number from 0 to 9,223"),
        ({"threads": 10**6}, "threads must be a whole number from 1 to 1,024"),
        ({"batch_size": 10**9}, "Choose a smaller batch_size"),
        ({"hidden": (10**7, 10**7)}, "Choose smaller layers in hidden"),
        ({"device": "meta"}, "networks can live on cpu"),
        ({"device": "hpu"}, "networks can live on cpu"),
    ],
)
def test_settings_of_networks(settings, words):
    pytest.importorskip("torch")
    with pytest.raises((TooLarge, ValueError), match=words):
        perstep.DeepQ("CartPole-v1", replay_capacity=100, **settings)


def test_many_dimensions_without_tiles_do_not_hang():
    coder = TileCoder(low=[0.0] * 20_000, high=[1.0] * 20_000, tilings=1, tiles=1)
    assert coder.active(np.zeros(20_000)).tolist() == [0]


def test_a_state_that_does_not_exist_is_no_index():
    agent = perstep.QLearning("FrozenLake-v1")
    with pytest.raises(IndexError, match="A state must be from 0 to 15"):
        agent._hooks.act(10**12)
    for wrong in ((10**6, 0, 0), (0, -1, 0), (0, 0, 10**12)):
        with pytest.raises(IndexError, match="A state must be from 0 to 15"):
            agent._hooks.learn_then_act(wrong[0], 0, 1.0, wrong[1], False, wrong[2])
    assert (agent.steps, hasattr(agent, "act"), hasattr(agent, "learn_then_act")) == (0, False, False)


def test_claims_add_up(monkeypatch):
    with limited(100):
        claim(60, "one")
        with pytest.raises(TooLarge, match=r"Another needs 0\.00 GB"):
            claim(60, "another")
    claim(60, "one")
    monkeypatch.setattr("perstep.system.budget.available_memory", lambda: None)
    with pytest.raises(TooLarge, match="Choose smaller settings"):
        claim(2**60, "it")


# --- Studies


@pytest.mark.parametrize("path", sorted((FOLDER / "studies").iterdir()), ids=lambda path: path.name)
def test_a_study_that_means_harm_is_refused(path):
    begin = time.process_time()
    with pytest.raises(ValueError, match=path.name):
        read_study(path)
    assert time.process_time() - begin < 10


def test_a_study_that_is_not_python(tmp_path):
    (tmp_path / "study.py").write_text("STUDY = {\n")
    with pytest.raises(ValueError, match="is not Python"):
        read_study(tmp_path / "study.py")


SMALL = {"algorithm": "d2-q", "world": TWO_LOOP, "grid": {"step_size": [0.1, 0.2]}, "steps": 50, "runs": 2}


def results_in(folder):
    return Results(folder, studies_of(SMALL, "s")[1])


def test_a_damaged_result_is_set_aside_and_made_again(tmp_path):
    results = results_in(tmp_path)
    complete(results, threads=1, progress=False)
    (path, other) = sorted(tmp_path.rglob("*.parquet"))
    whole, kept = path.read_bytes(), other.stat().st_mtime_ns
    for at in range(0, len(whole), len(whole) // 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert results.find(*next(results.configurations())) is None
    summary = complete(results, threads=1, progress=False)
    assert (summary.found, summary.made, [aside.name for aside in summary.damaged]) == (1, 1, [f"{path.name}.damaged"])
    assert path.read_bytes() == whole
    assert other.stat().st_mtime_ns == kept
    assert not complete(results, threads=1, progress=False).damaged


def test_a_panic_of_the_reader_is_damage(tmp_path, monkeypatch):
    results = results_in(tmp_path)
    complete(results, threads=1, progress=False)

    def panic(*args, **settings):
        raise pl.exceptions.PanicException("attempt to subtract with overflow")

    monkeypatch.setattr(pl, "read_parquet", panic)
    assert results.find(*next(results.configurations())) is None


def test_results_of_an_older_perstep_are_read(tmp_path):
    results = results_in(tmp_path)
    complete(results, threads=1, progress=False)
    for path in tmp_path.rglob("*.parquet"):
        frame = storage.read_table(path)
        frame.write_parquet(path.with_suffix(".old"), compression="zstd", compression_level=3)
        path.with_suffix(".old").replace(path)
        assert storage.MARK not in path.read_bytes()
    assert complete(results, threads=1, progress=False).found == 2


def test_a_table_with_a_checksum_is_plain_parquet(tmp_path):
    frame = pl.DataFrame({"a": [1.5, None], "b": [[1], []]})
    storage.write_table(tmp_path / "a.parquet", frame)
    assert pl.read_parquet(tmp_path / "a.parquet").equals(frame)
    content = (tmp_path / "a.parquet").read_bytes()
    at = content.rindex(storage.MARK) + len(storage.MARK)
    assert content[at : at + 8] == b"%08x" % zlib.crc32(content[:at] + b"0" * 8 + content[at + 8 :])


@pytest.mark.parametrize("name", ["res[1]", "a[", "{x}*", "a[b]c[/b]"])
def test_a_path_is_no_pattern(name, tmp_path, capsys):
    (tmp_path / "study.json").write_text(json.dumps({**SMALL, "name": "mine"}))
    for words in ("ran 2 configurations", "nothing had to run"):
        assert sweep(tmp_path / "study.json", tmp_path / name, StudyOptions()) == 0
        said = capsys.readouterr().out
        assert words in said
        assert f"{name}/mine" in said


@pytest.mark.usefixtures("undrawn")
def test_a_training_folder_is_no_markup(tmp_path, capsys):
    from perstep.app.cli import main

    out = tmp_path / "a[" / "b]"
    words = ["train", "d2-q", TWO_LOOP, "--steps", "50", "--quiet", "--out", str(out)]
    assert main(words) == 0
    assert str(out / "agent.safetensors") in capsys.readouterr().out


def test_results_removed_meanwhile_are_an_error(tmp_path):
    results = results_in(tmp_path)
    complete(results, threads=1, progress=False)
    next(tmp_path.rglob("*.parquet")).unlink()
    with pytest.raises(StudyStopped, match="is no longer there"):
        ranking_table(results)


# --- A run that hangs


HANGING = """
import time
import gymnasium
import numpy as np

class Hanging(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}
    def step(self, action):
        time.sleep(600)

gymnasium.register("Hanging-v0", Hanging)
STUDY = {"algorithm": "d2-q", "world": "Hanging-v0", "grid": {"step_size": [0.1]}, "steps": 50, "runs": 1}
"""


def test_a_world_that_hangs_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "study.py").write_text(HANGING)
    monkeypatch.setattr(process_pool, "PATIENCE", 0.2)
    study = read_study(tmp_path / "study.py")
    results = Results(tmp_path / "out", study.studies)
    (failure,) = complete(results, threads=1, progress=False, code=study.code, run_timeout=0.1).failures
    assert "TimeoutError: the run hung when its time limit of 0.1 seconds was over" in failure.error


def test_a_slow_run_is_stopped(tmp_path):
    study = studies_of({**SMALL, "steps": 10**12, "window": 10**12}, "s")[1][0]
    unit = Unit(index=0, study=study, setting=study.settings[0], seeds=(0,), timeout=0.2)
    (row,) = process_pool.run_unit(unit)
    assert row["error"].startswith("TimeoutError: the run had made ")


# --- Folders and files


def spec():
    config = QLearningConfig.of({"rule": "d2", "num_quantiles": 4})
    return training.RunSpec(algorithm="d2-q", world=RED_PILL, config=config)


@pytest.mark.usefixtures("undrawn")
def test_one_training_at_a_time_in_a_folder(tmp_path):
    with locked(tmp_path), pytest.raises(Busy, match=r"is in use: process \d+ .* works on it"):
        training.train(spec(), 100, tmp_path)
    training.train(spec(), 100, tmp_path)


@pytest.mark.usefixtures("undrawn")
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path):
    training.train(spec(), 300, tmp_path / "whole", checkpoint_every=100)
    training.train(spec(), 200, tmp_path / "a", checkpoint_every=100)
    agent = tmp_path / "a" / training.AGENT
    before = storage.read(checkpoint_before(agent))[1]["steps"]
    assert before == 100
    agent.write_bytes(agent.read_bytes()[:-100] + bytes(100))
    with pytest.warns(
        UserWarning, match=r"does not match its checksum.*resumes from the checkpoint before it, at step 100"
    ):
        training.train(spec(), 300, tmp_path / "a", checkpoint_every=100, resume=True)
    found, expected = (storage.read(tmp_path / name / training.AGENT) for name in ("a", "whole"))
    assert all(found[0][name].tobytes() == expected[0][name].tobytes() for name in expected[0])
    checkpoint_before(agent).write_bytes(b"")
    agent.write_bytes(b"")
    with pytest.raises(storage.BadFile, match=r"/agent\.safetensors is not a complete"):
        training.train(spec(), 400, tmp_path / "a", resume=True)


# --- A full disk


@pytest.fixture
def largest_file():
    """Lets no file grow beyond so many bytes, as on a full disk: `with largest_file(4096): …`."""
    resource = pytest.importorskip("resource")

    @contextlib.contextmanager
    def limit(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


@pytest.mark.usefixtures("undrawn")
def test_a_training_on_a_full_disk_says_so_and_goes_on_later(largest_file, tmp_path, capsys):
    pytest.importorskip("tensorboard")
    from perstep.app.cli import main

    words = ["train", "d2-q", "FrozenLake-v1", "--num-quantiles", "5", "--steps", "400", "--checkpoint-every", "200"]
    words += ["--evaluate-every", "200", "--evaluate-steps", "50", "--tensorboard", "--quiet", "--out"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    whole = storage.read(tmp_path / "whole" / training.AGENT)
    sizes = sorted({path.stat().st_size for path in (tmp_path / "whole").iterdir()})
    assert sizes[-1] > 10_000
    capsys.readouterr()
    named = set()
    for number, size in enumerate([0, 1, 50, 500, *(size - 1 for size in sizes), *range(2000, sizes[-1], 15_000)]):
        out = tmp_path / str(number)
        with largest_file(size):
            assert main([*words, str(out)]) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(r"perstep: \S.*File too large.*(Free some space, or c|C)hoose another folder.*\n", said)
        named |= {path.name for path in (tmp_path / "whole").iterdir() if str(out / path.name) in said}
        named |= {"events"} if "tfevents" in said else set()
        assert not list(out.glob(".perstep-*"))
        assert main([*words, str(out), "--resume"]) == 0
        found = storage.read(out / training.AGENT)
        assert all(found[0][name].tobytes() == whole[0][name].tobytes() for name in whole[0])
        capsys.readouterr()
    assert named >= {training.AGENT, training.RUN, training.EVALUATIONS, "events"}


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_a_figure_on_a_full_disk(suffix, largest_file, tmp_path):
    from matplotlib.figure import Figure

    from perstep.paper.figures.style import save

    figure = Figure()
    figure.subplots().plot([1, 2], [3, 4], label="β")
    (whole,) = save(figure, tmp_path / "a", suffix)
    for size in range(0, whole.stat().st_size, whole.stat().st_size // 25):
        with (
            largest_file(size),
            pytest.raises(storage.DiskFull, match=rf"b\.{suffix} could not be written: File too large"),
        ):
            save(figure, tmp_path / "b", suffix)
    assert [path.name for path in tmp_path.iterdir()] == [whole.name]


def test_an_error_that_is_no_full_disk_stays_what_it_is(tmp_path):
    with pytest.raises(KeyError, match="other"), storage.published(tmp_path / "a"):
        raise KeyError("other")
    with pytest.raises(FileNotFoundError), storage.published(tmp_path / "a"):
        pass


def test_the_name_of_a_published_file_is_on_the_disk(tmp_path, monkeypatch):
    synced, sync = [], os.fsync

    def fsync(number):
        synced.append(stat.S_ISDIR(os.fstat(number).st_mode))
        sync(number)

    monkeypatch.setattr(os, "fsync", fsync)
    with storage.published(tmp_path / "a") as draft:
        draft.write_text("whole")
    assert synced == [False, True]  # the content before its name


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "a.safetensors").symlink_to(tmp_path / "there" / "a.safetensors")
    for steps in (10, 20):
        perstep.QLearning(TWO_LOOP).learn(steps).save(tmp_path / "a.safetensors")
        assert (tmp_path / "a.safetensors").is_symlink()
        assert perstep.load(tmp_path / "there" / "a.safetensors").steps == steps


def test_leftovers_are_swept_by_our_own_names(tmp_path):
    ours = tmp_path / ".perstep-0123456789abcdef"
    ours.mkdir()
    (ours / "a.part").touch()
    theirs = [tmp_path / name for name in (".notes.part", ".tmpabcdef", ".perstep-notes", ".perstep-0123456789abcdeg")]
    for path in theirs:
        path.mkdir() if "perstep" in path.name else path.touch()
    storage.remove_leftovers(tmp_path)
    assert not ours.exists()
    assert all(path.exists() for path in theirs)


def test_an_interrupted_save_leaves_the_file_alone(tmp_path, monkeypatch):
    agent, write = perstep.QLearning(TWO_LOOP).learn(10), storage.write

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        write(*arguments)

    monkeypatch.setattr(storage, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.save(tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
    assert perstep.load(tmp_path / "a.safetensors").steps == 10


@pytest.mark.skipif(not hasattr(asyncio, "SelectorEventLoop"), reason="no handlers of signals in this loop")
def test_a_handler_of_asyncio_is_called_once():
    calls = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, calls.append, 1)
        with deferred_signals() as received:
            signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]
        raise_again(received)
        await asyncio.sleep(0.05)
        loop.remove_signal_handler(signal.SIGTERM)

    assert threading.current_thread() is threading.main_thread()
    asyncio.run(main())
    assert calls == [1]


def test_cached_code_that_was_cut_off_is_compiled_again(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    if compiled.config.DISABLE_JIT:
        pytest.skip("compilation is switched off")
    monkeypatch.setattr(compiled, "CACHE", tmp_path)

    def twice(x):
        return x + x

    assert compiled.compiled(twice)(3) == 6
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for suffix, length in ((".nbc", 50), (".nbi", 20), (".nbi", 0), (".nbc", 0)):
        for path in tmp_path.rglob(f"*{suffix}"):
            path.write_bytes(path.read_bytes()[:length])
        assert compiled.compiled(twice)(3) == 6
        assert compiled.compiled(twice)(3) == 6


# --- Ray


class Lost(Exception):
    """Stands for an error of Ray."""


def ray_with(alive, error=Lost, head=""):
    def get(reference):
        raise error("gone")

    exceptions = SimpleNamespace(
        RayError=Lost, LocalRayletDiedError=type("Died", (Lost,), {}), NodeDiedError=type("NodeDied", (Lost,), {})
    )
    return SimpleNamespace(
        nodes=lambda: [{"Alive": each} for each in alive],
        get=get,
        exceptions=exceptions,
        get_runtime_context=lambda: SimpleNamespace(gcs_address=head),
    )


def test_a_cluster_without_machines_is_an_error():
    ray_engine._refuse_without_nodes(ray_with([False, True]))
    with pytest.raises(ConnectionError, match="All machines of the Ray cluster have died"):
        ray_engine._refuse_without_nodes(ray_with([False, False]))
    with socket.socket() as nobody:  # bound and not listening: the head has died, and Ray does not know it yet
        nobody.bind(("127.0.0.1", 0))
        gone = ray_with([True], head=f"127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(ConnectionError, match="All machines of the Ray cluster have died"):
            ray_engine._refuse_without_nodes(gone)
    study = studies_of(SMALL, "s")[1][0]
    unit = Unit(index=0, study=study, setting=study.settings[0], seeds=(0,))
    assert ray_engine._rows(ray_with([True]), None, unit, again=True)[0]["error"] == "Lost: gone"
    died = ray_with([True])
    died.get = ray_with([True], died.exceptions.LocalRayletDiedError).get
    with pytest.raises(ConnectionError, match="repeat the same command"):
        ray_engine._rows(died, None, unit, again=True)


class Tape:
    """A Ray whose tasks end as `plan` says: seed → how each submission of its run ends, "lost" or the rows."""

    def __init__(self, plan):
        self.plan, self.submitted = plan, []
        nothing = lambda *given, **named: None  # noqa: E731
        self.exceptions = ray_with([]).exceptions
        self.is_initialized, self.cluster_resources, self.cancel = lambda: True, dict, nothing

    def remote(self, run):
        def submit(unit):
            self.submitted.append(unit.seeds[0])
            return len(self.submitted), self.plan[unit.seeds[0]].pop(0)

        return SimpleNamespace(options=lambda **needs: SimpleNamespace(remote=submit))

    def wait(self, references, num_returns, timeout):
        return [min(references)], []

    def get(self, reference):
        if reference[1] == "lost":
            raise self.exceptions.NodeDiedError("the node has died")
        return reference[1]


@pytest.mark.parametrize(
    ("plan", "submitted", "given_up"),
    [
        ({0: ["zero"], 1: ["lost", "one"], 2: ["two"]}, [0, 1, 2, 1], None),
        ({0: ["zero"], 1: ["lost", "lost"], 2: ["lost", "two"]}, [0, 1, 2, 1, 2], 1),  # nothing ends between its losses
        ({0: ["lost"], 1: ["one"], 2: ["two"]}, [0, 1, 2], 0),
    ],
)
def test_a_run_that_lost_its_machines_is_tried_again_while_others_end(plan, submitted, given_up, monkeypatch):
    study = studies_of({**SMALL, "world": "FrozenLake-v1", "runs": 3}, "s")[1][0]
    units = [Unit(index=0, study=study, setting=study.settings[0], seeds=(0, 1, 2))]
    tape = Tape(plan)
    monkeypatch.setattr(ray_engine, "_imported", lambda: tape)
    monkeypatch.setattr(ray_engine, "_require_token", lambda: None)
    ended = {unit.seeds[0]: rows for unit, rows in ray_engine.RayEngine().work(units)}
    assert tape.submitted == submitted
    if given_up is not None:
        assert "4 attempts, and no other run ended" in ended.pop(given_up)[0]["error"]
    assert ended == {seed: ["zero", "one", "two"][seed] for seed in {0, 1, 2} - {given_up}}


def test_a_ray_of_our_own_has_a_token(monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "ray", None)
    ray_engine._require_token()
    assert "RAY_AUTH_MODE" not in os.environ  # too late: Ray has read its settings
    monkeypatch.delitem(sys.modules, "ray")
    ray_engine._require_token()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


# --- Values that nobody means

ENORMOUS = 10**60  # also too large for a float


@pytest.fixture(scope="module")
def two_loop():
    from perstep.worlds import two_loop

    mdp = two_loop()
    return mdp, mdp.evaluate([0] * mdp.num_states)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_quantiles": ENORMOUS}, r"over 1,000,000,000 GB"),
        ({"discount": np.array([0.9, 0.8])}, "discount must be one value"),
        ({"reset_cost": np.array([1, 2])}, "reset_cost must be one value"),
        ({"scale_free": np.array([1, 2])}, "scale_free must be one value"),
        ({"rule": "d3", "horizon": 1e308}, r"horizon must be a finite number between 1 and 1e\+09"),
    ],
)
def test_settings_that_are_no_numbers_or_too_large(settings, words):
    with pytest.raises((ValueError, TooLarge), match=words):
        perstep.QLearning(TWO_LOOP, **settings)


def test_tiles_beyond_the_digits_of_a_coordinate():
    with pytest.raises(ValueError, match="tiles must be at most"):
        perstep.TileQ("perstep/InvertedPendulum-v0", tiles=2**63)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda mdp, found: found.forecast(ENORMOUS), "num_steps must be a whole number from 1 to"),
        (lambda mdp, found: found.forecast(5, num_paths=ENORMOUS), "a smaller num_paths"),
        (lambda mdp, found: found.forecast(5, num_paths=5, seed=-1), "seed must be a whole number"),
        (lambda mdp, found: found.forecast(5).interval("x"), "level must be a probability"),
        (lambda mdp, found: found.forecast(5).quantile("x"), "quantile expects a number"),
        (lambda mdp, found: found.forecast(5).cdf({}), "cdf expects a number"),
        (lambda mdp, found: found.return_distribution(1e300, 0), "horizon must be"),
        (lambda mdp, found: found.return_distribution(5, True), "state must be a state"),
        (lambda mdp, found: mdp.solve(tolerance=None), "tolerance must be a number of at least 0"),
        (lambda mdp, found: mdp.optimality_gap("x"), "Action values must be an array of numbers"),
        (lambda mdp, found: found.reward_distribution.sample(0.5), "sample expects a number of draws"),
        (lambda mdp, found: perstep.Distribution.from_quantiles({}), "expects a number"),
        (lambda mdp, found: perstep.check_world(None), "takes a Gymnasium environment"),
        (lambda mdp, found: perstep.check_world(mdp, num_steps=2**40), "num_steps must be a whole number from 1"),
        (lambda mdp, found: perstep.FiniteMDP.from_gymnasium(None), "needs a Gymnasium environment"),
        (lambda mdp, found: perstep.FiniteMDP.from_matrices(None, 1), "one matrix"),
        (lambda mdp, found: perstep.FiniteMDP.from_function({}, [0], print), "start must be a state"),
        (lambda mdp, found: perstep.FiniteMDP.from_function(0, [], print), "actions must be a list"),
        (lambda mdp, found: perstep.FiniteMDP.from_function(0, [0], print, max_states="x"), "max_states must be"),
        (lambda mdp, found: perstep.gym.endless("CartPole-v1", float("nan")), "reset_cost must be a finite"),
        (lambda mdp, found: perstep.make_agent(["d2-q"], mdp), "There is no algorithm"),
        (lambda mdp, found: perstep.Decay(0.1)("x"), "visits must be"),
        (lambda mdp, found: perstep.QLearning(mdp).record_every(2**63), "window must be a whole number"),
        (lambda mdp, found: perstep.QLearning(mdp).record_every(5, rows=None), "rows must be a whole number"),
        (lambda mdp, found: perstep.QLearning(mdp).learn(5, snapshot_at=3), "snapshot_at must be a list"),
    ],
)
def test_arguments_that_nobody_means_are_refused_with_a_sentence(ask, words, two_loop):
    with pytest.raises((ValueError, TypeError, TooLarge), match=words):
        ask(*two_loop)


def test_a_tail_thinner_than_any_run_is_a_warning():
    counted = perstep.Distribution.from_counts(np.array([0.0, 1.0]), np.array([50, 50]), 100.0)
    with pytest.warns(perstep.ThinTail, match="needs about"):
        counted.cvar(1e-320)


@pytest.mark.parametrize("reward", ["x", 10**400, None, float("nan")])
def test_a_reward_that_is_no_number_is_named(reward):
    class World(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 1, reward, False, False, {}

    assert "rewards" in [finding.name for finding in perstep.check_world(World(), num_steps=5)]
    with pytest.raises(ValueError, match="the reward must be one finite number"):
        perstep.QLearning(World()).learn(5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"algorithm": [{}]}, "algorithm must be a name, as text, got {}"),
        ({"world": {"a": {"b": {}}}}, "world must be a name, as text, got {'a'"),
        ({"world_settings": {"world": {}}}, "There is no finite world {}"),
    ],
)
def test_a_study_whose_names_are_no_text(given, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        try_out(studies_of({**SMALL, **given}, "s")[1][0])


def test_probabilities_of_the_smallest_number():
    """5e-324, the smallest number above 0: half of it is 0, and its inverse is infinite."""
    tiny = 5e-324
    chances = np.array([[[1.0, tiny], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]])
    mdp = perstep.FiniteMDP(chances, np.array([[0.0, 1.0], [1.0, 2.0]]))
    solution = mdp.solve()
    assert solution.average_reward == pytest.approx(4 / 3)
    assert solution.interval[1] - solution.interval[0] < 1e-9
    assert mdp.evaluate([0, 0]).stationary == pytest.approx([1.0, 0.0])
    assert np.isfinite(perstep.QLearning(mdp, seed=0).learn(1000, progress=False).average_reward)


@pytest.mark.parametrize("reward", [1e308, -1e308, 10**400])
def test_rewards_whose_sums_are_no_numbers(reward):
    with pytest.raises(ValueError, match=r"at most 1e\+100 in size|too large to convert"):
        perstep.FiniteMDP([[[1.0]]], [[reward]])


@pytest.mark.parametrize("name", ["Cooling-v0", "perstep/Cooling-v0"])
def test_a_world_that_is_similar_to_none_is_offered_none(name):
    with pytest.raises(ValueError, match="There is no world") as told:
        perstep.make_agent("auto", name)
    assert "Did you mean" not in str(told.value)
    assert "my_world.py registers is my_world:" in str(told.value)
