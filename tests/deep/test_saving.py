"""Files of deep agents: to resume from one, in another process, is to never have stopped, to the last bit."""

from __future__ import annotations

import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.files import storage
from perstep.worlds import red_pill_blue_pill
from same_runs import assert_same_file

torch = pytest.importorskip("torch")

RULES = ["differential", "d2", "d3"]
SHORT = {
    "replay_capacity": 150,
    "learning_starts": 32,
    "batch_size": 8,
    "num_quantiles": 5,
    "epsilon_steps": 100,
    "threads": 1,
}
SHORT |= {"device": "cpu", "hidden": (16,), "reset_cost": 10.0}

GO_ON = """
import sys, torch, perstep
torch.set_num_threads(1)
perstep.load(sys.argv[1]).learn(int(sys.argv[2])).save(sys.argv[1])
"""


def go_on_elsewhere(path, num_steps):
    subprocess.run([sys.executable, "-c", GO_ON, str(path), str(num_steps)], check=True, capture_output=True)


pytestmark = pytest.mark.usefixtures("one_thread")


WORLDS = {
    "mdp": red_pill_blue_pill,
    "CartPole-v1": lambda: gymnasium.make("CartPole-v1"),
    "perstep/MinAtar-Breakout-v0": lambda: gymnasium.make("perstep/MinAtar-Breakout-v0"),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
def test_saved_loaded_and_gone_on_is_never_stopped(rule, world, tmp_path):
    settings = {**SHORT, **({"offset_ratio": 0.1, "discount": 1.0} if rule == "d2" else {})}
    whole = perstep.DeepQ(WORLDS[world](), rule=rule, **settings).learn(400)
    whole.save(tmp_path / "whole")
    half = perstep.DeepQ(WORLDS[world](), rule=rule, **settings).learn(190)
    half.save(tmp_path / "half")
    if rule == "d3" and world.startswith("perstep"):
        go_on_elsewhere(tmp_path / "half", 210)
    else:
        perstep.load(tmp_path / "half").learn(210).save(tmp_path / "half")
    assert_same_file(tmp_path / "whole", tmp_path / "half")


@pytest.mark.parametrize("game", ["Asterix", "Freeway", "Seaquest", "SpaceInvaders"])
def test_every_game_of_minatar_goes_on(game, tmp_path):
    def new():
        return perstep.DeepQ(f"perstep/MinAtar-{game}-v0", rule="d2", **{**SHORT, "learning_starts": 140})

    new().learn(300).save(tmp_path / "whole")
    new().learn(170).save(tmp_path / "half")
    perstep.load(tmp_path / "half").learn(130).save(tmp_path / "half")
    assert_same_file(tmp_path / "whole", tmp_path / "half")


@pytest.mark.parametrize("rule", RULES)
def test_atari_goes_on(rule, tmp_path):
    pytest.importorskip("ale_py")
    settings = {**SHORT, "update_every": 20, "learning_starts": 20, "batch_size": 4, "network": "atari"}
    whole = perstep.DeepQ("ALE/Breakout-v5", rule=rule, **settings).learn(160)
    assert whole.updates >= 4  # the first begins when rewards differ
    whole.save(tmp_path / "whole")
    perstep.DeepQ("ALE/Breakout-v5", rule=rule, **settings).learn(90).save(tmp_path / "half")
    if rule == "d3":
        go_on_elsewhere(tmp_path / "half", 70)
    else:
        perstep.load(tmp_path / "half").learn(70).save(tmp_path / "half")
    assert_same_file(tmp_path / "whole", tmp_path / "half")


def test_a_saved_agent_answers_without_its_world(tmp_path):
    env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    agent = perstep.DeepQ(env, **SHORT).learn(100)
    agent.save(tmp_path / "agent")
    loaded = perstep.load(tmp_path / "agent")
    point = np.zeros(4, np.float32)
    np.testing.assert_array_equal(loaded.action_values(point), agent.action_values(point))
    assert loaded.steps == agent.steps
    with pytest.raises(
        RuntimeError, match=r"saved in a vector environment of CartPole-v1, .*perstep.load\(path, env=env\)"
    ):
        loaded.learn(1)
    with pytest.warns(
        UserWarning, match="vector environment of CartPole-v1 could not be saved, .* fresh reset"
    ) as told:
        again = perstep.load(tmp_path / "agent", env=env)
    assert told[0].filename == __file__
    assert len(again._replay) == len(agent._replay)
    again.learn(50)  # from a fresh reset: the state of a vector environment is not known


def test_a_file_says_that_the_world_will_be_reset(tmp_path):
    env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    perstep.DeepQ(env, **SHORT).learn(10).save(tmp_path / "agent")
    world = storage.read(tmp_path / "agent")[1]["world"]
    assert "state" not in world
    assert world["resumes"] == "from a fresh reset"
    perstep.DeepQ("CartPole-v1", **SHORT).learn(10).save(tmp_path / "agent")
    world = storage.read(tmp_path / "agent")[1]["world"]
    assert "state" in world
    assert world["resumes"] == "from the same state"


def test_another_number_of_environments_is_refused(tmp_path):
    env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    perstep.DeepQ(env, longest_repeat=1, **SHORT).learn(10).save(tmp_path / "a")
    with pytest.raises(storage.BadFile, match="replay's here"):
        perstep.load(tmp_path / "a", env=gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"))


def test_another_game_is_blamed_on_the_world_that_was_given(tmp_path):
    perstep.DeepQ("ALE/Breakout-v5", replay_capacity=100).learn(5).save(tmp_path / "a")
    with pytest.raises(
        storage.BadFile,
        match=r"a was learnt in perstep/Atari-v0 \{.*'breakout'.* and 4 actions, but the world that was given has .* and 3 actions",
    ):
        perstep.load(tmp_path / "a", env="ALE/Freeway-v5")


def test_a_file_of_another_network_is_refused(tmp_path):
    path = tmp_path / "agent"
    perstep.DeepQ("CartPole-v1", **{**SHORT, "hidden": (8,)}).learn(50).save(path)
    arrays, metadata = storage.read(path)
    storage.write(path, arrays, {**metadata, "config": {**metadata["config"], "hidden": [9]}})
    with pytest.raises(
        storage.BadFile, match=r"hold learner\.online\.body\.fc1\.weight of shape \(9, 4\), but it holds \(8, 4\)"
    ):
        perstep.load(path)
    storage.write(path, {name: array for name, array in arrays.items() if "exp_avg" not in name}, metadata)
    with pytest.raises(storage.BadFile, match="lacks something"):
        perstep.load(path)


def test_a_damaged_replay_is_refused(tmp_path):
    path = tmp_path / "agent"
    perstep.DeepQ("CartPole-v1", **SHORT).learn(50).save(path)
    arrays, metadata = storage.read(path)
    for name, damage in (("before", 10**6), ("cursor", 10**9), ("action", 7), ("here", -1)):
        changed = arrays[f"replay.{name}"].copy()
        changed.flat[0] = damage
        storage.write(path, {**arrays, f"replay.{name}": changed}, metadata)
        with pytest.raises(storage.BadFile):
            perstep.load(path)


def test_without_the_replay_a_file_is_small_and_learning_fills_it_again(tmp_path):
    agent = perstep.DeepQ("CartPole-v1", **SHORT).learn(100)
    agent.save(tmp_path / "whole")
    agent.save(tmp_path / "light", replay=False)
    loaded = perstep.load(tmp_path / "light")
    assert len(loaded._replay) == 0
    before = loaded.updates
    assert loaded.learn(31).updates == before
    assert loaded.learn(9).updates > before
    point = np.zeros(4, np.float32)
    assert agent.action_values(point).shape == (2,)
    assert (tmp_path / "light").stat().st_size < (tmp_path / "whole").stat().st_size
    assert json.dumps(storage.read(tmp_path / "light")[1])


HUGE = 10**12
HOSTILE = {
    "hidden": (("config", "hidden"), [HUGE]),
    "layers": (("config", "hidden"), [HUGE, HUGE, HUGE]),
    "return quantiles": (("config", "num_return_quantiles"), HUGE),
    "states": (("world", "spaces", "observations", "count"), HUGE),
    "no states": (("world", "spaces", "observations", "count"), 0),
    "actions": (("world", "spaces", "actions", "sizes"), [HUGE]),
    "environments": (("world", "spaces", "num_envs"), HUGE),
    "layout": (("world", "spaces", "observations", "layout"), "plane"),
    "objects": (("world", "spaces", "observations", "dtype"), "O"),
    "wide": (("world", "spaces", "observations", "dtype"), "float64"),
    "shape": (("world", "spaces", "observations", "shape"), [-1]),
    "half a shape": (("world", "spaces", "observations", "shape"), [1.5]),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    path = tmp_path_factory.mktemp("lake") / "agent"
    perstep.DeepQ("FrozenLake-v1", **{**SHORT, "hidden": (8,)}).learn(50).save(path)
    return storage.read(path)


@pytest.mark.parametrize("named", [True, False], ids=["world", "no world"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_file_that_claims_to_be_larger_takes_no_memory(hostile, named, lake, tmp_path, monkeypatch):
    arrays, metadata = lake
    metadata = json.loads(json.dumps(metadata))
    keys, value = HOSTILE[hostile]
    place = metadata
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    if not named:
        del metadata["world"]["kwargs"]
    storage.write(tmp_path / "agent", arrays, metadata)

    def made(*args, **settings):
        raise AssertionError("It should be refused before the agent is made.")

    monkeypatch.setattr("perstep.deep.agent.DeepQ.__init__", made)
    with pytest.raises(storage.BadFile):
        perstep.load(tmp_path / "agent")


def test_a_world_of_other_sizes_than_the_file_says_is_refused(lake, tmp_path):
    arrays, metadata = lake
    metadata = json.loads(json.dumps(metadata))
    metadata["world"]["kwargs"]["map_name"] = "8x8"
    storage.write(tmp_path / "agent", arrays, metadata)
    with pytest.raises(storage.BadFile, match=r"world should have observations and actions like .*count=16.*count=64"):
        perstep.load(tmp_path / "agent")


BAD_NUMBERS = {
    "online.head.weight": np.nan,
    "target.head.bias": np.inf,
    "adam.exp_avg.head.bias": -np.inf,
    "adam.exp_avg_sq.head.bias": -1.0,
}


@pytest.mark.parametrize("name", BAD_NUMBERS)
def test_weights_that_are_no_numbers_are_refused(name, lake, tmp_path):
    arrays, metadata = lake
    damaged = arrays[f"learner.{name}"].copy()
    damaged.flat[0] = BAD_NUMBERS[name]
    storage.write(tmp_path / "agent", {**arrays, f"learner.{name}": damaged}, metadata)
    with pytest.raises(storage.BadFile, match=f"{name} contains NaN or"):
        perstep.load(tmp_path / "agent")
    storage.write(tmp_path / "agent", {**arrays, f"learner.{name}": np.ones(damaged.shape, np.int32)}, metadata)
    with pytest.raises(storage.BadFile, match=f"{name} must hold floating point numbers, got int32"):
        perstep.load(tmp_path / "agent")


@pytest.mark.parametrize("updates", [np.array([-1]), np.array([1.5]), np.array([1, 2])])
def test_impossible_updates(updates, lake, tmp_path):
    arrays, metadata = lake
    storage.write(tmp_path / "agent", {**arrays, "learner.updates": updates}, metadata)
    with pytest.raises(storage.BadFile, match="updates must be one whole number of at least 0"):
        perstep.load(tmp_path / "agent")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_an_agent_from_a_gpu_goes_on_without_one(lake, tmp_path):
    arrays, metadata = lake
    path = tmp_path / "agent"
    storage.write(path, arrays, {**metadata, "config": {**metadata["config"], "device": "cuda"}})
    with pytest.warns(
        UserWarning, match="saved with device='cuda', which this machine lacks, so it continues with the CPU"
    ) as told:
        agent = perstep.load(path)
    assert told[0].filename == __file__
    assert agent.learn(10).steps == 60
    agent.save(path)
    assert storage.read(path)[1]["config"]["device"] == "cuda"  # for a machine that has one
    storage.write(path, arrays, {**metadata, "config": {**metadata["config"], "device": "abacus"}})
    with pytest.raises(storage.BadFile, match="no device 'abacus'"):
        perstep.load(path)


class Seeds(gymnasium.vector.VectorWrapper):
    """Remembers the seeds of its resets."""

    def __init__(self, env):
        super().__init__(env)
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


def test_a_vector_environment_goes_on_with_another_opening(tmp_path):
    seeds = []
    for begin in range(3):
        env = Seeds(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
        if begin:
            with pytest.warns(UserWarning, match="fresh reset"):
                agent = perstep.load(tmp_path / "agent", env=env)
        else:
            agent = perstep.DeepQ(env, **SHORT)
        agent.learn(20).save(tmp_path / "agent")
        seeds.append(env.seeds[0])
    assert seeds[0] == 0
    assert len(set(seeds)) == 3
