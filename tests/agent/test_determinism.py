"""Same seed, same bits: twice, in threads, in another process, in pieces, and after a night in a file."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TransformReward
from hypothesis import given, settings
from hypothesis import strategies as st

import perstep
from perstep.files.storage import BadFile, read, write
from perstep.worlds import garnet
from same_runs import assert_same_file

TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-"))
SMALL = {"tilings": 4, "tiles": 3, "num_quantiles": 5}
BOUNDS = {"low": [-5.0, -9.0, -0.5, -9.0], "high": [5.0, 9.0, 0.5, 9.0]}

# Agents as plain data, so that another process can make them: class, arguments, settings, steps. Those that name no
# preset have the defaults that people get, with all their memory: units, counts, bonuses, replay.
CASES: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "td": ("TDLearning", ["perstep/RedPillBluePill-v0", [[0.5, 0.5], [0.2, 0.8]]], {"num_quantiles": 5}, 700),
    "q": ("QLearning", ["perstep/AccessControl-v0"], {"num_quantiles": 5, "epsilon": 0.2, "preset": "paper"}, 700),
    "q-lake": ("QLearning", ["FrozenLake-v1"], {"num_quantiles": 5, "step_size": 0.1}, 257),
    "q-taxi": ("QLearning", [TAXI], {"num_quantiles": 5, "reset_cost": 0.5}, 257),
    "pendulum": ("ActorCritic", ["perstep/InvertedPendulum-v0"], {**SMALL, "preset": "paper"}, 700),
    "cart-pole": ("ActorCritic", ["CartPole-v1"], {**SMALL, **BOUNDS}, 257),
    "mountain-car": ("ActorCritic", ["MountainCar-v0"], SMALL, 257),
    "tile-q": ("TileQ", ["MountainCar-v0"], {**SMALL, "epsilon": 0.3}, 257),
    "tile-sarsa": ("TileQ", ["Acrobot-v1"], {**SMALL, "bootstrap": "sampled", "table_size": 128}, 600),
    "sarsa-lake": ("QLearning", ["FrozenLake-v1"], {"num_quantiles": 5, "bootstrap": "sampled", "step_size": 0.1}, 257),
    "sarsa": ("QLearning", ["perstep/AccessControl-v0"], {"num_quantiles": 5, "bootstrap": "sampled"}, 700),
}
RULES = ["differential", "d2", "d3"]
ALL = [(name, rule) for name in CASES for rule in RULES]


def make(name, rule, **changes):
    kind, arguments, given_settings, _ = CASES[name]
    return getattr(perstep, kind)(*arguments, rule=rule, **{"seed": 3, "preset": "steady", **given_settings, **changes})


def digest(agent, path):
    """A hash of everything that a saved agent consists of."""
    agent.save(path)
    arrays, metadata = read(path)
    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for key in sorted(arrays):
        found.update(key.encode() + arrays[key].tobytes())
    return found.hexdigest()


@pytest.fixture
def bits(tmp_path):
    return lambda agent: digest(agent, tmp_path / "a.safetensors")


# --- Another process


SCRIPT = """
import json, sys
import perstep
folder, cases, rules = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
for name, (kind, arguments, settings, steps) in cases.items():
    for rule in rules:
        perstep.load(f"{folder}/half-{name}-{rule}.safetensors").learn(steps).save(f"{folder}/resumed-{name}-{rule}.safetensors")
        agent = getattr(perstep, kind)(*arguments, rule=rule, **{"seed": 3, "preset": "steady", **settings})
        agent.learn(2 * steps).save(f"{folder}/elsewhere-{name}-{rule}.safetensors")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """2N steps at once; N steps, saved, loaded in another process and N more; 2N steps at once in that process."""
    place = tmp_path_factory.mktemp("runs")
    for name, rule in ALL:
        steps = CASES[name][3]
        make(name, rule).learn(2 * steps).save(place / f"whole-{name}-{rule}.safetensors")
        make(name, rule).learn(steps).save(place / f"half-{name}-{rule}.safetensors")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p), PYTHONHASHSEED="17")
    command = [sys.executable, "-c", SCRIPT, str(place), json.dumps(CASES), json.dumps(RULES)]
    subprocess.run(command, env=environment, check=True)
    return place


@pytest.mark.parametrize(("name", "rule"), ALL)
def test_resumed_in_another_process_is_uninterrupted(folder, name, rule):
    assert_same_file(folder / f"whole-{name}-{rule}.safetensors", folder / f"resumed-{name}-{rule}.safetensors")


@pytest.mark.parametrize(("name", "rule"), ALL)
def test_another_process_is_the_same(folder, name, rule):
    assert_same_file(folder / f"whole-{name}-{rule}.safetensors", folder / f"elsewhere-{name}-{rule}.safetensors")


# --- The same process


@pytest.mark.parametrize(("name", "rule"), ALL)
def test_same_seed_same_bits_other_seed_other_life(tmp_path, bits, name, rule):
    assert bits(make(name, rule).learn(200)) == bits(make(name, rule).learn(200))
    lives = []
    for seed in (3, 4):
        make(name, rule, seed=seed).learn(200).save(tmp_path / "a.safetensors")
        arrays, _ = read(tmp_path / "a.safetensors")
        learnt = {"TileQ": "optimism.unseen", "ActorCritic": "weights.actor"}
        lives.append(arrays[learnt.get(CASES[name][0], "table.visits")].tolist())
    assert lives[0] != lives[1]


@pytest.mark.parametrize("name", CASES)
@given(st.lists(st.integers(0, 40), max_size=6))
@settings(max_examples=8)
def test_learning_in_pieces_is_learning_at_once(name, pieces):
    whole, parts = make(name, "d3").learn(sum(pieces)), make(name, "d3")
    for piece in pieces:
        parts.learn(piece)
    assert parts.steps == whole.steps
    for agent in (parts, whole):
        agent.learn(20)  # with the same random numbers
    assert parts.reward_quantiles.tolist() == whole.reward_quantiles.tolist()
    found, expected = (agent.learn(0, snapshot_at=[agent.steps]).snapshots[0].values for agent in (parts, whole))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("steps", [0, 1, 37])
def test_a_file_at_any_moment_goes_on(tmp_path, bits, name, steps):
    # Before the first step, after one, in the middle of an episode.
    make(name, "d2").learn(steps).save(tmp_path / "half.safetensors")
    assert bits(perstep.load(tmp_path / "half.safetensors").learn(150)) == bits(make(name, "d2").learn(steps + 150))


@pytest.mark.parametrize("name", ["pendulum", "cart-pole", "mountain-car", "tile-q", "tile-sarsa"])
@pytest.mark.parametrize("steps", [0, 1, 37, 250])
def test_a_file_of_tiles_in_a_plain_loop_goes_on(tmp_path, bits, monkeypatch, name, steps):
    monkeypatch.setattr("perstep.gym.opening.compiled_world", lambda env: None)
    whole = make(name, "d2").learn(steps + 150)
    assert whole.compiled_world is None
    make(name, "d2").learn(steps).save(tmp_path / "half.safetensors")
    assert bits(perstep.load(tmp_path / "half.safetensors").learn(150)) == bits(whole)


@pytest.mark.parametrize("name", CASES)
def test_saving_changes_nothing(tmp_path, bits, name):
    agent, twin = make(name, "d3").learn(100), make(name, "d3").learn(100)
    agent.save(tmp_path / "b.safetensors")
    perstep.load(tmp_path / "b.safetensors").learn(50)
    assert bits(agent.learn(100)) == bits(twin.learn(100))


def test_interleaved_agents_are_each_alone(bits):
    for names in (("td", "q"), ("q-lake", "q-taxi"), ("pendulum", "cart-pole"), ("q-lake", "mountain-car")):
        alone = [bits(make(name, "d3").learn(90)) for name in names]
        together = [make(name, "d3") for name in names]
        for _ in range(9):
            for agent in together:
                agent.learn(10)
        assert [bits(agent) for agent in together] == alone


@pytest.mark.parametrize("name", ["td", "q", "pendulum", "q-lake", "tile-sarsa"])
def test_threads_change_nothing(bits, name):
    def crowd():
        return [make(name, rule, seed=seed) for seed in range(3) for rule in RULES]

    one, two, four = (perstep.learn_together(crowd(), 400, threads=threads) for threads in (1, 2, 4))
    alone = [agent.learn(400) for agent in crowd()]
    assert [bits(agent) for agent in one] == [bits(agent) for agent in alone]
    assert [bits(agent) for agent in two] == [bits(agent) for agent in alone]
    assert [bits(agent) for agent in four] == [bits(agent) for agent in alone]


def test_agents_may_share_an_mdp(bits):
    mdp = garnet(10, 3, 2, seed=1)
    together = perstep.learn_together(
        [perstep.QLearning(mdp, rule="d3", seed=seed) for seed in range(4)], 3000, threads=2
    )
    alone = [perstep.QLearning(garnet(10, 3, 2, seed=1), rule="d3", seed=seed).learn(3000) for seed in range(4)]
    assert [bits(agent) for agent in together] == [bits(agent) for agent in alone]


@pytest.mark.parametrize("name", CASES)
def test_global_randomness_is_neither_read_nor_moved(bits, name):
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = random.getstate(), np.random.get_state()  # noqa: NPY002
        agent = make(name, "d3").learn(120)
        agent.evaluate(50)
        agent.predict(np.zeros(agent.tiles.dimensions) if hasattr(agent, "tiles") else 0)
        found.append(bits(agent))
        after = random.getstate(), np.random.get_state()  # noqa: NPY002
        assert before[0] == after[0]
        assert before[1][0] == after[1][0]
        assert before[1][1].tolist() == after[1][1].tolist()
        assert before[1][2:] == after[1][2:]
    assert found[0] == found[1]


# --- Worlds as they were made


@pytest.mark.parametrize(
    "settings",
    [
        {"is_slippery": False},
        {"desc": ["SFF", "FHF", "FFG"]},
        {"map_name": "8x8"},
        {"max_episode_steps": 7},
        {"max_episode_steps": -1},
        {"disable_env_checker": True},
        {"is_slippery": False, "max_episode_steps": -1, "disable_env_checker": True},
    ],
)
def test_a_world_is_made_again_as_it_was(tmp_path, bits, settings):
    def agent():
        return perstep.QLearning(gymnasium.make("FrozenLake-v1", **settings), seed=2)

    agent().learn(45).save(tmp_path / "half.safetensors")
    assert bits(perstep.load(tmp_path / "half.safetensors").learn(200)) == bits(agent().learn(245))


def test_a_bare_world_is_made_again_without_a_limit(tmp_path, bits):
    def agent():
        return perstep.QLearning(gymnasium.make(TAXI).unwrapped, seed=2)

    agent().learn(150).save(tmp_path / "half.safetensors")
    assert bits(perstep.load(tmp_path / "half.safetensors").learn(300)) == bits(agent().learn(450))


def test_a_bare_world_is_evaluated_without_a_limit():
    # Nobody reaches the top by chance; the registered world cuts it short after 200 steps, the bare one never.
    for env, episodes in ((gymnasium.make("MountainCar-v0"), 2), (gymnasium.make("MountainCar-v0").unwrapped, 0)):
        assert len(perstep.ActorCritic(env, tilings=2).evaluate(450).episode_returns) == episodes
        plain = perstep.ActorCritic(TransformReward(env, lambda reward: reward), tilings=2)
        assert len(plain.evaluate(450).episode_returns) == episodes


def test_a_finite_mdp_comes_back_whole(tmp_path, bits):
    mdp = garnet(6, 2, 3, seed=4)
    perstep.QLearning(mdp, rule="d3").learn(100).save(tmp_path / "half.safetensors")
    resumed = perstep.load(tmp_path / "half.safetensors")
    assert resumed.mdp.transitions.tolist() == mdp.transitions.tolist()
    assert bits(resumed.learn(100)) == bits(perstep.QLearning(mdp, rule="d3").learn(200))


def test_the_names_of_states_and_actions_come_back(tmp_path):
    mdp = perstep.FiniteMDP.from_function(
        (0, "up"),
        ["stay", "go"],
        lambda state, action: [(1.0, state if action == "stay" else (1 - state[0], "up"), float(state[0]))],
    )
    perstep.QLearning(mdp, seed=0).learn(100).save(tmp_path / "a.safetensors")
    again = perstep.load(tmp_path / "a.safetensors")
    assert list(again.mdp.states) == list(mdp.states) == [(0, "up"), (1, "up")]
    assert list(again.mdp.actions) == ["stay", "go"]
    assert "stay" in str(again.mdp.policy_frame([0, 1]))
    unwritable = mdp.replace(states=[float("inf"), "\ud800"])  # names that no file can hold are left out
    perstep.QLearning(unwritable, seed=0).learn(100).save(tmp_path / "c.safetensors")
    assert list(perstep.load(tmp_path / "c.safetensors").mdp.states) == [0, 1]
    arrays, metadata = read(tmp_path / "a.safetensors")
    for wrong in (["a"], 7, [{}, {}], [[{}], "b"]):
        metadata["world"]["states"] = wrong
        write(tmp_path / "b.safetensors", arrays, metadata)
        with pytest.raises(BadFile, match="MDP is damaged"):
            perstep.load(tmp_path / "b.safetensors")


def test_a_world_may_be_given_again(tmp_path, bits):
    make("q-lake", "d2").learn(100).save(tmp_path / "half.safetensors")
    for env in ("FrozenLake-v1", gymnasium.make("FrozenLake-v1")):
        resumed = perstep.load(tmp_path / "half.safetensors", env=env)
        assert bits(resumed.learn(100)) == bits(make("q-lake", "d2").learn(200))


def test_another_world_begins_with_a_reset(tmp_path):
    # The estimates are those of the file; the place in the world is not, since it is another world.
    make("q-lake", "d2").learn(100).save(tmp_path / "half.safetensors")
    for env in (
        TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: reward),
        gymnasium.make("FrozenLake-v1").unwrapped,
    ):
        resumed = perstep.load(tmp_path / "half.safetensors", env=env)
        assert resumed.all_action_values.tolist() == make("q-lake", "d2").learn(100).all_action_values.tolist()
        assert resumed.learn(100).steps == 200


# --- Worlds whose state nobody can save


class Walk(gymnasium.Env[Any, Any]):
    """A walk over five states, with noise; counts its resets."""

    def __init__(self, box=False):
        self.observation_space = spaces.Box(0.0, 4.0, (1,), np.float64) if box else spaces.Discrete(5)
        self.action_space = spaces.Discrete(2)
        self.resets = 0

    def _shown(self):
        return self.state if isinstance(self.observation_space, spaces.Discrete) else np.array([float(self.state)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        self.state = 2
        return self._shown(), {}

    def step(self, action):
        self.state = int(np.clip(self.state + 2 * action - 1 + self.np_random.integers(-1, 2), 0, 4))
        return self._shown(), float(self.state), False, False, {}


@pytest.mark.parametrize("box", [False, True])
def test_an_own_world_goes_on_from_a_reset_if_given(tmp_path, box):
    kind = perstep.ActorCritic if box else perstep.QLearning
    where = np.array([1.0]) if box else 1
    agent = kind(Walk(box), rule="d3", num_quantiles=4, seed=1).learn(300)
    agent.save(tmp_path / "a.safetensors")
    env = Walk(box)
    with pytest.warns(UserWarning, match="continues from a fresh reset of the world") as told:
        resumed, again = (perstep.load(tmp_path / "a.safetensors", env=world) for world in (env, Walk(box)))
    assert told[0].filename == __file__
    assert resumed.steps == 300
    assert resumed.reward_quantiles.tolist() == agent.reward_quantiles.tolist()
    assert resumed.learn(200).steps == 500
    assert env.resets == 1
    assert again.learn(200).reward_quantiles.tolist() == resumed.reward_quantiles.tolist()
    assert again.predict(where)[0] == resumed.predict(where)[0]


@pytest.mark.parametrize("box", [False, True])
def test_an_own_world_that_is_not_given_can_be_asked_about_only(tmp_path, box):
    kind = perstep.ActorCritic if box else perstep.QLearning
    where = np.array([1.0]) if box else 1
    agent = kind(Walk(box), rule="d3", num_quantiles=4, seed=1).learn(300)
    agent.save(tmp_path / "a.safetensors")
    alone = perstep.load(tmp_path / "a.safetensors")
    assert alone.predict(where) == agent.predict(where)
    assert alone.reward_quantiles.tolist() == agent.reward_quantiles.tolist()
    assert alone.history.steps.tolist() == agent.history.steps.tolist()
    if box:
        assert alone.return_quantiles(where).tolist() == agent.return_quantiles(where).tolist()
    else:
        assert alone.return_quantiles(where, 0).tolist() == agent.return_quantiles(where, 0).tolist()
    for verb in (alone.learn, alone.evaluate):
        with pytest.raises(RuntimeError, match=r"saved in .*Walk.*cannot be made from the file alone.*env=env"):
            verb(10)
    alone.save(tmp_path / "b.safetensors")  # and kept for one who has the world
    with pytest.warns(UserWarning, match="continues from a fresh reset of the world"):
        assert perstep.load(tmp_path / "b.safetensors", env=Walk(box)).learn(10).steps == 310


def test_a_wrapped_world_is_not_made_from_the_file(tmp_path):
    env = TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: reward + 1)
    perstep.QLearning(env).learn(50).save(tmp_path / "a.safetensors")
    alone = perstep.load(tmp_path / "a.safetensors")
    assert alone.predict(0)[0] in range(4)
    with pytest.raises(RuntimeError, match="cannot be made from the file alone"):
        alone.learn(1)
    with pytest.warns(UserWarning, match="continues from a fresh reset of the world"):
        resumed = perstep.load(tmp_path / "a.safetensors", env=env)
    assert resumed.learn(50).steps == 100


class Seeded(Walk):
    """Remembers the seeds of its resets."""

    def reset(self, *, seed=None, options=None):
        vars(self).setdefault("seeds", []).append(seed)
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("box", [False, True])
def test_no_opening_comes_twice_and_every_load_tells_of_the_reset(tmp_path, box):
    kind, path, seeds = perstep.ActorCritic if box else perstep.QLearning, tmp_path / "a.safetensors", []
    kind(Seeded(box), seed=1).save(path)
    assert read(path)[1]["world"]["resumes"] == "from the same state"  # that before the first reset
    for begin in range(3):
        env = Seeded(box)
        if begin:
            with pytest.warns(UserWarning, match="fresh reset"):
                perstep.load(path, env=env).save(path)  # which changes nothing
            assert read(path)[1]["world"]["resumes"] == "from a fresh reset"
            with pytest.warns(UserWarning, match="fresh reset"):
                agent = perstep.load(path, env=env)
        else:
            agent = perstep.load(path, env=env)
        agent.learn(50).save(path)
        seeds.append(env.seeds[0])
    assert seeds[0] == 1
    assert len(set(seeds)) == 3


def test_a_compiled_world_goes_on_from_the_same_state_after_a_load(tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.ActorCritic("perstep/InvertedPendulum-v0").learn(50).save(path)
    perstep.load(path).save(path)
    assert read(path)[1]["world"]["resumes"] == "from the same state"
