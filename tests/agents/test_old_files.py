"""Files of formats 2 to 5 (made by make_old_files.py with an older perstep): they load, and learning goes on as then."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import perstep
from perstep.agents.agent import FORMAT
from perstep.curiosity import POSITION
from perstep.schedules import Decay
from perstep.storage import BadFile, read, write
from perstep.tiles import LARGEST_TABLE

STEPS = 500


AGENTS = Path(__file__).parent
FOLDER = AGENTS / "format_2"
EXPECTED = {
    kind: json.loads((AGENTS / kind / "expected.json").read_text())
    for kind in ("format_2", "format_3", "format_4", "format_5")
}
FILES = [(kind, name) for kind in EXPECTED for name in EXPECTED[kind]]
DEFAULTS = {
    "format_2": "paper",
    "format_3": "paper",
    "format_4": "steady",
    "format_5": "steady",
}  # preset of an agent without one

specification = importlib.util.spec_from_file_location("make_old_files", AGENTS / "make_old_files.py")
make = importlib.util.module_from_spec(specification)
specification.loader.exec_module(make)

TABLES = ["q", "td", "lake"]  # additions and multiplications only: the same bits on every machine
LOOPED = ["cart-pole", "mountain-car"]  # in plain loops with format 2, compiled since
CURIOUS = [(kind, name) for kind in ("format_4", "format_5") for name in ("q", "lake")]  # they explored otherwise then


@pytest.fixture
def plain_loops(monkeypatch):
    """No world of motion is compiled."""
    monkeypatch.setattr("perstep.agents.worlds.compiled_world", lambda env: None)


def load(name, kind="format_2"):
    if name == "deep-q":
        pytest.importorskip("torch")
    return perstep.load(FOLDER.parent / kind / f"{name}.safetensors")


def assert_as_then(name, when, agent, kind="format_2"):
    """sin, cos and exp, and the sums of PyTorch, may differ in the last bit on another machine."""
    found, expected = make.numbers(agent), EXPECTED[kind][name][when]
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if name in TABLES:
            assert found[key] == value, key
        else:
            assert found[key] == pytest.approx(value, rel=1e-5 if name == "deep-q" else 1e-9, abs=1e-12), key


@pytest.mark.parametrize(("kind", "number"), [("format_2", 2), ("format_3", 3), ("format_4", 4), ("format_5", 5)])
def test_they_have_their_format(kind, number):
    folder = FOLDER.parent / kind
    assert {path.stem for path in folder.glob("*.safetensors")} == set(EXPECTED[kind]) <= set(make.AGENTS)
    for name in EXPECTED[kind]:
        assert read(folder / f"{name}.safetensors")[1]["format"] == number


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_an_old_file_is_what_it_was(kind, name, monkeypatch):
    monkeypatch.setattr("perstep.presets.DEFAULT", DEFAULTS[kind])
    agent = load(name, kind)
    assert agent.steps == STEPS
    assert_as_then(name, "saved", agent, kind)
    then = make.AGENTS[name]().config.settings()  # settings that the file does not know have the value of then
    if "table_size" in then and kind == "format_2":
        then["table_size"] = LARGEST_TABLE  # always the full table
    if kind != "format_5":
        then["forecast"] = False  # there were none
        then |= {"grid_network_ratio": 1.0} if "grid_network_ratio" in then else {}
    then |= {"trace_decay": 0.0} if "trace_decay" in then else {}
    then |= {"model_capacity": 0} if "model_capacity" in then else {}
    if DEFAULTS[kind] == "steady":  # the steps on tiles of then
        steps = {"ActorCritic": Decay(0.8, 0.5, 20_000.0), "TileQ": Decay(0.6, 0.5, 50_000.0)}
        then |= {"step_size": steps[type(agent).__name__]} if type(agent).__name__ in steps else {}
        then |= {"policy_ratio": 0.3} if "policy_ratio" in then else {}
    then |= {"epsilon_delay": 1000.0} if then.get("epsilon_delay") else {}  # the default of then
    assert agent.config.settings() == then


@pytest.mark.parametrize(
    ("kind", "name"),
    [file for file in FILES if (file[0] != "format_2" or file[1] not in LOOPED) and file not in CURIOUS],
)
def test_an_old_file_goes_on_as_it_did(kind, name):
    assert_as_then(name, "gone on", load(name, kind).learn(STEPS), kind)


@pytest.mark.parametrize(("kind", "name"), CURIOUS)
def test_an_old_file_that_explored_otherwise_begins_its_first_cycle(kind, name):
    agent = load(name, kind)
    assert agent._run.table.mood[POSITION] == 0
    visits = agent.visits
    agent.learn(STEPS)
    assert 0 < agent._run.table.mood[POSITION] <= STEPS
    assert (agent.visits >= visits).all()


@pytest.mark.parametrize("name", LOOPED)
def test_an_old_file_goes_on_as_it_did_in_a_plain_loop(name, plain_loops):
    agent = load(name)
    assert agent.compiled_world is None
    assert_as_then(name, "gone on", agent.learn(STEPS))


@pytest.mark.parametrize("name", LOOPED)
def test_where_the_loop_is_compiled_now_the_world_starts_anew(name):
    agent, again = load(name), load(name)
    world, place = agent._motion
    assert place.counters.tolist() == [0, -1]
    assert place.episode_return.tolist() == [0.0]
    observation = place.observation.copy()
    assert ((np.array(agent.tiles.low) < observation) & (observation < np.array(agent.tiles.high))).all()
    if name == "mountain-car":
        assert -0.6 <= observation[0] <= -0.4
    else:
        assert np.abs(observation).max() <= 0.05
    # The agent stands there, and not where it was.
    assert agent._run.weights.active.tolist() == agent.tiles.active(observation).tolist()
    assert agent._run.weights.numbers.sum() == pytest.approx(agent.state_value(observation), abs=1e-12)
    assert agent._run.room.chances == pytest.approx(agent.policy(observation), abs=1e-12)
    assert agent.learn(STEPS).steps == 2 * STEPS
    assert make.numbers(again.learn(STEPS)) == make.numbers(agent)
    assert world.time_limit > 0
    assert make.numbers(agent)["episodes"] != EXPECTED["format_2"][name]["saved"]["episodes"]


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_saved_again_it_has_the_new_format_and_goes_on(kind, name, tmp_path):
    path = tmp_path / "a.safetensors"
    load(name, kind).save(path)
    assert read(path)[1]["format"] == FORMAT
    agent, again = load(name, kind).learn(STEPS), perstep.load(path).learn(STEPS)
    assert make.numbers(again) == make.numbers(agent)


def test_a_damaged_old_file_is_refused(tmp_path):
    for name in ("q", "td", "pendulum", "mountain-car"):
        arrays, metadata = read(FOLDER / f"{name}.safetensors")
        for key in arrays:
            write(tmp_path / "a.safetensors", {k: array for k, array in arrays.items() if k != key}, metadata)
            with pytest.raises(BadFile):
                perstep.load(tmp_path / "a.safetensors")
        for state in (np.full(arrays["state"].shape[0] + 1, math.pi), np.array([10**9]), np.array([-1])):
            write(tmp_path / "a.safetensors", {**arrays, "state": state}, metadata)
            with pytest.raises(BadFile):
                perstep.load(tmp_path / "a.safetensors")


def test_an_older_format_is_refused(tmp_path):
    shutil.copy(FOLDER / "q.safetensors", tmp_path / "a.safetensors")
    arrays, metadata = read(tmp_path / "a.safetensors")
    write(tmp_path / "a.safetensors", arrays, {**metadata, "format": 1})
    with pytest.raises(BadFile, match="has format 1, but this perstep reads the formats 2 to 5"):
        perstep.load(tmp_path / "a.safetensors")
