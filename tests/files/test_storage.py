"""Files: written whole or not at all, read to the bit, and anything that is not ours refused without running it."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import zipfile
from unittest import mock

import gymnasium
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import perstep
from perstep.files.storage import BadFile, published, read, write
from perstep.inputs.errors import UnknownName

ARRAYS = {
    "float64": np.array([[0.1, -0.0, np.nan], [np.inf, -np.inf, 5e-324]]),
    "float32": np.array([1.1, 3.4e38], np.float32),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "int32": np.array([[[7]]], np.int32),
    "uint64": np.array([2**64 - 1, 0], np.uint64),
    "uint8": np.arange(256, dtype=np.uint8),
    "bool": np.array([True, False]),
    "empty": np.zeros((0, 3)),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "sliced": np.arange(10.0)[::3],
}
METADATA = {"text": "θ ≤ 1", "number": 0.1, "large": 2**80, "none": None, "list": [1, [2, {"a": True}]]}


def bits(array):
    return array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes()


# --- What is written is what is read


def test_round_trip_is_to_the_bit(tmp_path):
    write(tmp_path / "a.safetensors", ARRAYS, METADATA)
    arrays, metadata = read(tmp_path / "a.safetensors")
    assert {name: bits(array) for name, array in arrays.items()} == {name: bits(a) for name, a in ARRAYS.items()}
    assert metadata == METADATA


@given(st.dictionaries(st.text(min_size=1), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=10,
), max_size=5))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_any_metadata_comes_back(tmp_path, metadata):
    write(tmp_path / "a.safetensors", {}, metadata)
    assert read(tmp_path / "a.safetensors") == ({}, metadata)


def test_paths_may_be_text_and_folders_are_made(tmp_path):
    write(str(tmp_path / "new" / "folder" / "a.safetensors"), {"x": np.zeros(2)}, {})
    assert read(tmp_path / "new" / "folder" / "a.safetensors")[0]["x"].tolist() == [0, 0]


def test_metadata_that_json_has_not_is_refused_before_anything_is_written(tmp_path):
    for metadata in ({"x": float("nan")}, {"x": float("inf")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            write(tmp_path / "a.safetensors", {}, metadata)
    assert list(tmp_path.iterdir()) == []


# --- Published by rename


def test_an_error_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail_midway():
        with published(path) as draft:
            draft.write_text("half of the new")
            assert path.read_text() == "old"
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        fail_midway()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_appears_at_the_end_and_whole(tmp_path):
    path = tmp_path / "a.txt"
    with published(path) as draft:
        draft.write_text("new")
        assert not path.exists()
        assert draft.parent.parent == path.parent  # a rename is one operation within a file system only
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_it_as_the_umask_says(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "a.safetensors", {}, {})
    finally:
        os.umask(before)
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == 0o640


def test_a_killed_process_leaves_the_previous_file(tmp_path):
    path = tmp_path / "agent.safetensors"
    agent = perstep.QLearning("perstep/TwoLoop-v0", num_quantiles=3).learn(100)
    agent.save(path)
    script = (
        "import sys, time\nfrom perstep.files.storage import published\n"
        "with published(sys.argv[1]) as draft:\n"
        "    draft.write_bytes(b'half')\n    print('midway', flush=True)\n    time.sleep(600)\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "midway\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert perstep.load(path).average_reward == agent.average_reward
    agent.learn(10).save(path)  # and what the dead one left does not stand in the way
    assert perstep.load(path).steps == 110


# --- Files that are not ours


def raw_safetensors(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


OURS = {"__metadata__": {"perstep": "{}"}}
TENSOR = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"\x00", "no safetensors header"),
        (b"step,reward\n1,2\n", "no safetensors header"),
        (bytes(range(256)) * 4, "no safetensors header"),
        (pickle.dumps({"a": 1}), "looks like a pickle, which perstep never loads"),
        (b"PK\x03\x04 and so on", "looks like a zip archive"),
        (raw_safetensors(OURS, length=2**63), "no safetensors header"),
        (raw_safetensors(OURS, length=90_000_000), "truncated or damaged"),
        (raw_safetensors(OURS)[:-3], "truncated or damaged"),
        (raw_safetensors(OURS, b"more than the header says"), "truncated or damaged"),
        (raw_safetensors({**OURS, "x": {**TENSOR, "data_offsets": [0, 8 * 10**9]}}, bytes(8)), "truncated or damaged"),
        (raw_safetensors({**OURS, "x": {**TENSOR, "shape": [2**62, 8]}}, bytes(8)), "truncated or damaged"),
        (raw_safetensors({**OURS, "x": {**TENSOR, "shape": [-1]}}, bytes(8)), "truncated or damaged"),
        (raw_safetensors({**OURS, "x": {**TENSOR, "dtype": "BF16"}}, bytes(8)), "truncated or damaged"),
        (
            raw_safetensors({**OURS, "x": {**TENSOR, "dtype": "F8_E4M3", "shape": [8]}}, bytes(8)),
            "not a complete|format None",
        ),
        (raw_safetensors({"__metadata__": {"perstep": "{"}}), "is not a complete perstep file"),
        (raw_safetensors({"__metadata__": {"perstep": "[" * 100_000}}), "is not a complete perstep file"),
        (raw_safetensors({"__metadata__": {"perstep": "9" * 5000}}), "is not a complete perstep file"),
        (raw_safetensors({"__metadata__": {"perstep": 5}}), "is not a complete perstep file"),
        (raw_safetensors({"__metadata__": {"perstep": "[1, 2]"}}), "perstep did not write it"),
        (raw_safetensors({"__metadata__": {"perstep": ""}}), "perstep did not write it"),
        (raw_safetensors({"__metadata__": {"format": "pt"}}), "perstep did not write it"),
        (raw_safetensors(b"{}"), "perstep did not write it"),
    ],
)
def test_other_files_are_refused_with_a_sentence(tmp_path, content, words):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    for reader in (read, perstep.load):
        with pytest.raises(BadFile, match=words) as caught:
            reader(path)
        assert str(path) in str(caught.value)


def test_other_peoples_safetensors(tmp_path):
    save_file({"weight": np.zeros((2, 2))}, tmp_path / "a.safetensors", {"format": "pt"})
    with pytest.raises(BadFile, match="perstep did not write it"):
        perstep.load(tmp_path / "a.safetensors")


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        perstep.load(tmp_path / "nothing.safetensors")
    with pytest.raises(BadFile, match="got the folder"):
        perstep.load(tmp_path)
    with pytest.raises(
        IsADirectoryError, match=r"Expected the name of a file to write, got the folder .*\. Give the name"
    ):
        perstep.QLearning("perstep/RedPillBluePill-v0").save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_truncated_at_every_length(tmp_path):
    write(tmp_path / "whole.safetensors", {"x": np.arange(4.0), "y": np.arange(3)}, {"a": "some text"})
    whole = (tmp_path / "whole.safetensors").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "cut.safetensors").write_bytes(whole[:length])
        with pytest.raises(BadFile):
            read(tmp_path / "cut.safetensors")


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(BadFile):
        perstep.load(tmp_path / "a.safetensors")


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_a_damaged_byte_is_refused_or_harmless(tmp_path, data):
    write(tmp_path / "a.safetensors", {"x": np.arange(4.0)}, {"a": "some text", "b": [1, 2.5]})
    content = bytearray((tmp_path / "a.safetensors").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.safetensors").write_bytes(content)
    try:
        arrays, metadata = read(tmp_path / "a.safetensors")
    except BadFile:
        return
    assert isinstance(metadata, dict)
    assert all(isinstance(array, np.ndarray) for array in arrays.values())


class Evil:
    """Unpickling it makes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (self.marker, "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_never_run(tmp_path, protocol):
    marker, path = tmp_path / "executed", tmp_path / "a.safetensors"
    path.write_bytes(pickle.dumps(Evil(str(marker)), protocol))
    with pytest.raises(BadFile):
        perstep.load(path)
    assert not marker.exists()
    pickle.loads(path.read_bytes()).close()  # it would have been
    assert marker.exists()


def test_an_archive_with_a_pickle_is_never_run(tmp_path):
    marker, path = tmp_path / "executed", tmp_path / "a.safetensors"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil(str(marker))))
    with pytest.raises(BadFile, match="zip archive, perhaps of PyTorch or Stable-Baselines3"):
        perstep.load(path)
    assert not marker.exists()


# --- Files that look like ours and are not: an agent's file, changed by somebody who means harm


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Files of small agents, as arrays and metadata."""
    agents = {
        "q": perstep.QLearning("perstep/RedPillBluePill-v0", rule="d3", num_quantiles=4),
        "td": perstep.TDLearning("perstep/RedPillBluePill-v0", [0, 1], num_quantiles=3),
        "lake": perstep.QLearning("FrozenLake-v1", num_quantiles=3),
        "lake td": perstep.TDLearning("FrozenLake-v1", np.zeros(16, int), num_quantiles=3),
        "pendulum": perstep.ActorCritic("perstep/InvertedPendulum-v0", tilings=4, tiles=2, num_quantiles=3),
        "car": perstep.ActorCritic("MountainCar-v0", tilings=4, tiles=2, num_quantiles=3),
        "car q": perstep.TileQ("MountainCar-v0", rule="d3", tilings=4, tiles=2, num_quantiles=3, bootstrap="sampled"),
    }
    with plain_loop("plain car"):
        agents["plain car"] = perstep.ActorCritic("MountainCar-v0", tilings=4, tiles=2, num_quantiles=3)
    folder, files = tmp_path_factory.mktemp("agents"), {}
    for name, agent in agents.items():
        agent.record_every(1, rows=8).learn(50).save(folder / "a.safetensors")
        files[name] = read(folder / "a.safetensors")
    return files


NAMES = ["q", "td", "lake", "pendulum", "car", "car q", "plain car"]


def plain_loop(name):
    """The world of the file "plain car" is not compiled."""
    if name == "plain car":
        return mock.patch("perstep.gym.opening.compiled_world", return_value=None)
    return contextlib.nullcontext()


def changed(saved, name, path=(), value=None, arrays=None):
    """The file with the metadata at `path` (a tuple of keys) and some arrays replaced; `...` deletes."""
    old_arrays, old_metadata = saved[name]
    new_arrays, metadata = dict(old_arrays), copy.deepcopy(old_metadata)
    if path:
        place = metadata
        for key in path[:-1]:
            place = place[key]
        if value is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = value
    for key, array in (arrays or {}).items():
        if array is ...:
            del new_arrays[key]
        else:
            new_arrays[key] = array
    return new_arrays, metadata


def load_changed(tmp_path, saved, name, *args, **kwargs):
    write(tmp_path / "a.safetensors", *changed(saved, name, *args, **kwargs))
    with plain_loop(name):
        return perstep.load(tmp_path / "a.safetensors")


def test_unchanged_they_load(tmp_path, saved):
    for name in saved:
        agent = load_changed(tmp_path, saved, name)
        assert agent.steps == 50
        assert (agent.compiled_world == "MountainCar") == name.startswith("car")
        assert ("state" in saved[name][1]["world"]) == (name in ("lake", "lake td", "plain car"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["format", "agent", "config", "steps", "world"])
@pytest.mark.parametrize("value", [..., None, [1], "x", -1, 1.5, {}, {"x": 1}, False], ids=repr)
def test_top_level_entries(tmp_path, saved, name, key, value):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, name, (key,), value)


@pytest.mark.parametrize("agent", ["os:system", "perstep.agent:QLearning", "Agent", "DeepR", "__class__", ""])
def test_unknown_agent(tmp_path, saved, agent):
    with pytest.raises(BadFile, match="There is no agent"):
        load_changed(tmp_path, saved, "q", ("agent",), agent)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("q", "TDLearning"), ("q", "ActorCritic"), ("q", "TileQ"), ("car", "TileQ"), ("car q", "ActorCritic")],
)
def test_another_agents_file(tmp_path, saved, name, kind):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, name, ("agent",), kind)


def test_newer_format(tmp_path, saved):
    with pytest.raises(BadFile, match=r"has format 99, but this perstep reads the format \d+\. Load it with"):
        load_changed(tmp_path, saved, "q", ("format",), 99)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("evil", 1),
        ("__class__", "os.system"),
        ("rule", "d4"),
        ("rule", ["d2"]),
        ("rule", {"scale": 1}),
        ("step_size", -1),
        ("step_size", None),
        ("step_size", {}),
        ("step_size", {"scale": "a"}),
        ("step_size", {"scale": 1, "evil": 2}),
        ("reward_ratio", {"scale": 1}),
        ("num_quantiles", "x"),
        ("num_quantiles", 0),
        ("num_quantiles", 5),
        ("num_quantiles", 10**9),
        ("num_return_quantiles", 10**12),
        ("num_reward_quantiles", 10**30),
        ("seed", -1),
        ("epsilon", 2),
        ("termination", "stop"),
    ],
)
def test_impossible_settings(tmp_path, saved, key, value):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, "q", ("config", key), value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tilings", 10**9),
        ("tilings", 8),
        ("tiles", 3),
        ("tiles", 5000),
        ("tiles", 10**9),
        ("tiles", [[1], 2]),
        ("wrap", [7]),
        ("low", ["a", "b"]),
        ("low", [0.0]),
        ("low", [0.0] * 1000),
        ("table_size", 10**9),
        ("table_size", 8),
        ("divide_by_tilings", "yes"),
        ("huber", None),
    ],
)
@pytest.mark.parametrize("name", ["car", "car q", "plain car"])
def test_impossible_tiles(tmp_path, saved, name, key, value):
    if (key, value) == ("table_size", 10**9):
        assert load_changed(tmp_path, saved, name, ("config", key), value).tiles.num_features == 4 * 3 * 3
        return  # larger than the full table, so it changes nothing
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, name, ("config", key), value)


@pytest.mark.parametrize("name", NAMES)
def test_every_array_is_needed_in_its_shape(tmp_path, saved, name):
    for key, array in saved[name][0].items():
        longer = np.concatenate([array, array, np.zeros((1, *array.shape[1:]), array.dtype)])
        cases = [..., longer]
        if array.shape != (0,):
            cases.append(np.zeros((0,), array.dtype))
        if not key.startswith(("mdp.", "policy")):  # these are read as they are given: numbers of any kind
            cases.append(array.astype(np.float32))
        for case in cases:
            with pytest.raises(BadFile):
                load_changed(tmp_path, saved, name, arrays={key: case})


@pytest.mark.parametrize("number", [-1, 10**9, -(2**63), 2**63 - 1])
def test_places_outside_the_arrays(tmp_path, saved, number):
    # Compiled code does not look before it writes. A chosen action of −1 is none, and allowed.
    tiles, beyond = ("pendulum", "car", "car q", "plain car"), -2 if number == -1 else number
    for name, arrays in (
        ("q", {"place": np.array([number, 0])}),
        ("td", {"place": np.array([number, 0])}),
        ("q", {"place": np.array([0, beyond])}),
        ("td", {"place": np.array([0, beyond])}),
        ("q", {"record.cursor": np.array([1, number, 0])}),
        ("q", {"record.cursor": np.array([number, 1, number])}),
        ("q", {"record.cursor": np.array([1, 0, number])}),
        *((name, {"weights.active": np.full(4, number)}) for name in tiles),
        ("pendulum", {"place.counters": np.array([0, beyond])}),
        ("car", {"place.counters": np.array([0, beyond])}),
        ("car q", {"place.counters": np.array([0, beyond])}),
    ):
        with pytest.raises(BadFile):
            load_changed(tmp_path, saved, name, arrays=arrays)
    for name in ("lake", "lake td", "plain car"):
        for key in ("point", "action"):
            with pytest.raises(BadFile):
                load_changed(tmp_path, saved, name, ("world", key), number)


def test_next_states_outside_the_world(tmp_path, saved):
    for state in (-1, 2, 10**9):
        shape = saved["q"][0]["mdp.next_state"].shape
        with pytest.raises(BadFile, match="MDP is damaged"):
            load_changed(tmp_path, saved, "q", arrays={"mdp.next_state": np.full(shape, state, np.int32)})


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_estimates_that_are_no_numbers_harm_nobody(tmp_path, saved, number):
    # They may be what somebody's agent has come to: it says so when it learns, and learns on if told to.
    places = ("q", "table.values"), ("pendulum", "weights.critic"), ("car q", "weights.critic")
    for name, key in places:
        array = saved[name][0][key]
        agent = load_changed(tmp_path, saved, name, arrays={key: np.full(array.shape, number)})
        with pytest.raises(ArithmeticError, match="the estimates are NaN or infinite"):
            agent.learn(50)
        agent.may_diverge = True
        assert agent.learn(50).steps > 100


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_reward_quantiles_that_are_no_numbers(tmp_path, number):
    # The paper's θ moves from where it is. That of the defaults is read from the recorded rewards, so it is right again.
    path = tmp_path / "agent.safetensors"
    for preset in ("paper", "steady"):
        perstep.QLearning("perstep/RedPillBluePill-v0", rule="d3", num_quantiles=3, preset=preset).learn(60).save(path)
        arrays, metadata = read(path)
        write(path, {**arrays, "rewards.theta": np.full(3, number)}, metadata)
        agent = perstep.load(path)
        if preset == "paper":
            with pytest.raises(ArithmeticError, match="the estimates are NaN or infinite"):
                agent.learn(50)
        else:
            assert np.isfinite(agent.learn(50).reward_quantiles).all()


@pytest.mark.parametrize("steps", [2**62, 10**400, "5", [5], 2.0])
def test_impossible_steps(tmp_path, saved, steps):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, "q", ("steps",), steps)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("kwargs",), {"nosuch": 1}),
        (("kwargs",), {"desc": ["AB", "C"]}),
        (("kwargs",), {"desc": 5}),
        (("kwargs",), {"map_name": "huge"}),
        (("kwargs",), {"max_episode_steps": 3}),
        (("kwargs",), [1]),
        (("kwargs",), {"map_name": "8x8"}),
        (("time_limit",), "x"),
        (("spaces",), "x"),
        (("spaces",), {}),
        (("spaces", "states", "sizes"), [10**12]),
        (("spaces", "states", "sizes"), ["16"]),
        (("spaces", "states", "starts"), [0, 0]),
        (("spaces", "actions", "sizes"), [10**12]),
        (("spaces", "actions", "kind"), "os:system"),
        (("state",), "x"),
        (("state", "layers"), 3),
        (("state", "layers", 0, "kind"), ...),
        (("state", "layers", 1, "values"), 3),
        (("state", "layers", 1, "values", "s"), {"evil": 1}),
        (("state", "layers", 1, "values", "s"), {"array": [1], "dtype": "object"}),
        (("state", "layers", 1, "values", "s"), {"array": [1], "dtype": "nonsense"}),
        (("state", "generator"), {}),
        (("state", "generator", "bit_generator"), "MT19937"),
        (("state", "generator", "state", "state"), -1),
        (("point",), "x"),
        (("point",), [0]),
        (("action",), None),
        (("action",), [1]),
    ],
)
@pytest.mark.parametrize("name", ["lake", "lake td"])
def test_impossible_worlds(tmp_path, saved, name, path, value):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, name, ("world", *path), value)


def test_a_world_of_the_wrong_kind(tmp_path, saved):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, "lake", ("world", "name"), "CartPole-v1")
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, "car", ("world", "name"), "FrozenLake-v1")


@pytest.fixture
def evil_module(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported, and a registered world that it would make."""
    marker = tmp_path / "imported"
    (tmp_path / "evil_world.py").write_text(f"open({str(marker)!r}, 'w').close()\ndef make(**settings): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    gymnasium.register("evil/World-v0", entry_point="evil_world:make")
    yield marker
    del gymnasium.registry["evil/World-v0"]
    assert "evil_world" not in sys.modules


@pytest.mark.parametrize("world", ["evil_world:FrozenLake-v1", "evil_world:World-v0", "evil/World-v0", "os:system"])
def test_no_module_that_a_file_names_is_imported(tmp_path, saved, evil_module, world):
    agent = load_changed(tmp_path, saved, "lake", ("world", "name"), world)
    assert agent.predict(0)[0] in range(4)  # it can still answer
    with pytest.raises(RuntimeError, match="cannot be made from the file alone"):
        agent.learn(1)
    assert not evil_module.exists()


@pytest.mark.parametrize("setting", ["entry_point", "vector_entry_point", "additional_wrappers", "id"])
def test_no_entry_point_of_a_file_is_called(tmp_path, saved, evil_module, setting):
    with pytest.raises(BadFile):
        load_changed(tmp_path, saved, "lake", ("world", "kwargs"), {setting: "evil_world:make"})
    assert not evil_module.exists()


def test_no_class_of_a_file_is_looked_up(tmp_path, saved, evil_module):
    load_changed(tmp_path, saved, "lake", ("world", "state", "layers", 0, "kind"), "evil_world:make").learn(5)
    for kind in ("evil_world:make", "evil_world"):
        with pytest.raises(BadFile):
            load_changed(tmp_path, saved, "lake", ("agent",), kind)
    assert not evil_module.exists()


def places(value, path=()):
    """The paths of everything in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


JSON = st.sampled_from([None, True, -1, 0, 1, 3, 10**20, 0.5, "", "d3", "x", [], [1], {}, {"scale": 1}])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_any_entry_replaced_is_an_agent_or_a_sentence(tmp_path, saved, name, data):
    path = data.draw(st.sampled_from([path for path in places(saved[name][1]) if path]))
    with contextlib.suppress(BadFile):
        assert isinstance(load_changed(tmp_path, saved, name, path, data.draw(JSON)), perstep.Agent)


# --- What is wrong with the world that was given is not blamed on the file


def test_a_world_that_does_not_fit(tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.QLearning("FrozenLake-v1", num_quantiles=3).learn(10).save(path)
    with pytest.raises(TypeError, match="A world must be a Gymnasium environment"):
        perstep.load(path, env=3)
    with pytest.raises(TypeError, match="discrete observations"):
        perstep.load(path, env="CartPole-v1")
    with pytest.raises(UnknownName, match="Did you mean 'FrozenLake-v1'"):
        perstep.load(path, env="FrozenLak-v1")
    with pytest.raises(BadFile, match=r"16 states and 4 actions, but the world that was given has 500 states and 6"):
        perstep.load(path, env="Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="is a device, a pipe or a socket"), published(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(ValueError, match="holds a NUL character"), published(f"{tmp_path}/a\0b"):
        pass
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read(f"{tmp_path}/a\0b")
