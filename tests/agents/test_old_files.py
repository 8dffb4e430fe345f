"""Files of format 2 (made by format_2/make.py with an older perstep): they load, and learning goes on as it did then."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import perstep
from perstep.storage import BadFile, read, write
from perstep.tiles import LARGEST_TABLE

FOLDER = Path(__file__).parent / "format_2"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
STEPS = 500

specification = importlib.util.spec_from_file_location("format_2", FOLDER / "make.py")
make = importlib.util.module_from_spec(specification)
specification.loader.exec_module(make)

TABLES = ["q", "td", "lake"]  # additions and multiplications only: the same bits on every machine
LOOPED = ["cart-pole", "mountain-car"]  # in plain loops then, compiled now


@pytest.fixture
def plain_loops(monkeypatch):
    """No world of motion is compiled."""
    monkeypatch.setattr("perstep.agents.worlds.compiled_world", lambda env: None)


def load(name):
    if name == "deep-q":
        pytest.importorskip("torch")
    return perstep.load(FOLDER / f"{name}.safetensors")


def assert_as_then(name, when, agent):
    """sin, cos and exp, and the sums of PyTorch, may differ in the last bit on another machine."""
    found, expected = make.numbers(agent), EXPECTED[name][when]
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if name in TABLES:
            assert found[key] == value, key
        else:
            assert found[key] == pytest.approx(value, rel=1e-5 if name == "deep-q" else 1e-9, abs=1e-12), key


def test_they_have_format_2():
    assert {path.stem for path in FOLDER.glob("*.safetensors")} == set(EXPECTED) == set(make.AGENTS)
    for name in EXPECTED:
        assert read(FOLDER / f"{name}.safetensors")[1]["format"] == 2


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_file_is_what_it_was(name):
    agent = load(name)
    assert agent.steps == STEPS
    assert_as_then(name, "saved", agent)
    then = make.AGENTS[name]().config.settings()  # settings that the file does not know have the value of then
    if "table_size" in then:
        then["table_size"] = LARGEST_TABLE  # always the full table
    assert agent.config.settings() == then


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in LOOPED])
def test_an_old_file_goes_on_as_it_did(name):
    assert_as_then(name, "gone on", load(name).learn(STEPS))


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
    assert make.numbers(agent)["episodes"] != EXPECTED[name]["saved"]["episodes"]


@pytest.mark.parametrize("name", EXPECTED)
def test_saved_again_it_has_the_new_format_and_goes_on(name, tmp_path):
    path = tmp_path / "a.safetensors"
    load(name).save(path)
    assert read(path)[1]["format"] == 3
    agent, again = load(name).learn(STEPS), perstep.load(path).learn(STEPS)
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
    with pytest.raises(BadFile, match="has format 1, but this perstep reads the formats 2 and 3"):
        perstep.load(tmp_path / "a.safetensors")
