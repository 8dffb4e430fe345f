"""Every space that people arrive with: composed observations and actions, worlds of older interfaces, worlds that others move."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import perstep
from perstep.files import storage

SMALL = {"num_quantiles": 3, "seed": 1}
DEEP = {"hidden": (8,), "replay_capacity": 100, "learning_starts": 20, "batch_size": 8, "threads": 1, "device": "cpu"}


class Guess(gymnasium.Env):
    """Guess the number that is shown: 1 for the right action, 0 otherwise."""

    def __init__(self, observations, actions, shown):
        self.observation_space, self.action_space, self.shown = observations, actions, shown

    def _see(self):
        self.number = int(self.np_random.integers(4))
        return self.shown(self.number)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        digits = [action["x"], action["y"]] if isinstance(action, dict) else np.ravel(action)
        reward = float(2 * digits[0] + digits[-1] == self.number if len(digits) > 1 else digits[0] == self.number)
        return self._see(), reward, False, False, {}


BITS = {
    "multi-discrete": spaces.MultiDiscrete([2, 2]),
    "multi-binary": spaces.MultiBinary(2),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
    "dict": spaces.Dict(x=spaces.Discrete(2), y=spaces.Discrete(2)),
}
NUMBERS = spaces.Dict(half=spaces.Discrete(2), rest=spaces.Box(0.0, 1.0, (1,)))


def halves(number):
    return {"half": number // 2, "rest": np.array([number % 2], np.float32)}


@pytest.mark.parametrize("kind", BITS)
def test_composed_actions_are_learnt(kind):
    world = Guess(spaces.Discrete(4), BITS[kind], lambda number: number)
    agent = perstep.QLearning(world, rule="d2", epsilon=0.3, **SMALL).learn(2000)
    assert agent._num_actions == 4
    for number in range(4):
        action = agent.predict(number)[0]
        assert world.action_space.contains(action)
        assert agent._actions.one(action) == number
    assert agent.evaluate(200, deterministic=True).average_reward == 1.0


def test_a_dict_of_numbers_is_a_table():
    seen = spaces.Dict(half=spaces.Discrete(2), rest=spaces.Discrete(2, start=5))
    world = Guess(seen, spaces.Discrete(4), lambda number: {"half": number // 2, "rest": 5 + number % 2})
    agent = perstep.QLearning(world, rule="d2", epsilon=0.3, **SMALL).learn(2000)
    assert agent._num_states == 4
    assert [agent.predict({"half": n // 2, "rest": 5 + n % 2})[0] for n in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("form", ["dict", "tuple"])
def test_composed_observations_are_flattened_for_tiles_and_networks(form, tmp_path):
    pytest.importorskip("torch")
    seen = NUMBERS if form == "dict" else spaces.Tuple(list(NUMBERS.spaces.values()))
    shown = halves if form == "dict" else lambda number: tuple(halves(number).values())
    world = Guess(seen, spaces.Discrete(4), shown)
    for agent in (
        perstep.TileQ(world, rule="differential", preset="paper", tilings=2, tiles=2, epsilon=0.3, **SMALL).learn(3000),
        perstep.DeepQ(world, rule="d2", step_size=0.01, epsilon_steps=500, **DEEP, **SMALL).learn(4000),
    ):
        assert [agent.predict(shown(number))[0] for number in range(4)] == [0, 1, 2, 3]
        assert agent.predict(spaces.flatten(seen, shown(2)))[0] == 2  # one that is flat already
        with pytest.raises(ValueError, match="must be a point of"):
            agent.predict({"other": 1})
        agent.save(tmp_path / "agent.safetensors")
        with pytest.warns(UserWarning, match="fresh reset"):
            again = perstep.load(tmp_path / "agent.safetensors", env=world)
        assert again.predict(shown(3))[0] == 3


def test_multi_discrete_observations_and_actions_of_a_vector():
    pytest.importorskip("torch")
    seen = spaces.MultiDiscrete([2, 2])

    def make():
        return Guess(seen, spaces.MultiDiscrete([2, 2]), lambda number: np.array([number // 2, number % 2]))

    vector = gymnasium.vector.SyncVectorEnv([make, make])
    agent = perstep.DeepQ(vector, rule="d2", step_size=0.01, epsilon_steps=500, **DEEP, **SMALL).learn(4000)
    points = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], np.float32)  # one-hot: (0, 0) and (1, 1)
    assert agent.predict(points)[0].tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (spaces.Box(-1.0, 1.0, (2,)), r"gymnasium.wrappers.DiscretizeAction\(env, bins=5\)"),
        (spaces.MultiDiscrete([100, 100]), "10,000 actions; at most 4,096"),
        (spaces.MultiBinary(40), "1,099,511,627,776 actions"),
        (spaces.Text(3), "with a gymnasium.ActionWrapper"),
    ],
)
def test_actions_that_cannot_be_numbered_are_refused_with_a_way_out(actions, sentence):
    with pytest.raises(TypeError, match=sentence):
        perstep.QLearning(Guess(spaces.Discrete(4), actions, int))


def test_the_way_out_for_boxes_of_actions_works():
    world = gymnasium.wrappers.DiscretizeAction(gymnasium.make("MountainCarContinuous-v0"), bins=3)
    assert perstep.TileQ(world, **SMALL).learn(20).steps == 20


def test_observations_without_a_fixed_length_are_refused():
    with pytest.raises(TypeError, match="fixed number of numbers"):
        perstep.TileQ(Guess(spaces.Dict(a=spaces.Sequence(spaces.Discrete(2))), spaces.Discrete(4), int))


class OldStep(Guess):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class OldReset(Guess):
    def reset(self):
        return super().reset()


class BareReset(Guess):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (OldStep, "got 4 values. The four values of old gym have one `done`"),
        (OldReset, "must take a seed"),
        (BareReset, r"must return \(observation, info\)"),
    ],
)
def test_habits_of_old_gym_are_named(kind, sentence):
    agent = perstep.QLearning(kind(spaces.Discrete(4), spaces.Discrete(4), int), **SMALL)
    with pytest.raises(TypeError, match=sentence):
        agent.learn(10)
    with pytest.raises(TypeError, match=sentence):  # also where a wrapper of Gymnasium flattens observations
        perstep.TileQ(kind(NUMBERS, spaces.Discrete(4), halves), **SMALL).learn(10)


def test_a_world_that_is_no_gymnasium_environment_is_told_what_to_inherit():
    class Old:
        step = reset = print

    with pytest.raises(TypeError, match=r"inherit from gymnasium.Env; for a world of the old gym package use shimmy"):
        perstep.QLearning(Old())
    with pytest.raises(TypeError, match=r"Give an object of the class: Guess\(\)"):
        perstep.QLearning(Guess)


# --- A world that somebody else moves


def test_two_agents_in_one_world_are_noticed():
    world = gymnasium.make("FrozenLake-v1")
    first, second = (perstep.QLearning(world, seed=seed) for seed in (1, 2))
    first.learn(100)
    second.learn(100)
    with pytest.warns(UserWarning, match="The world has moved since this agent's last step"):
        first.learn(100)
    assert first.steps == 200


@pytest.mark.parametrize("mischief", [lambda env: env.reset(seed=5), lambda env: env.step(1)], ids=["reset", "step"])
def test_a_world_moved_between_two_calls_of_learn_is_noticed(mischief):
    world = gymnasium.make("FrozenLake-v1")
    agent = perstep.QLearning(world, seed=1).learn(3)
    mischief(world)
    with pytest.warns(UserWarning, match="fresh reset"):
        agent.learn(3)
    agent.learn(3)  # once


def test_looking_at_the_world_and_evaluating_are_no_moves():
    world = gymnasium.make("FrozenLake-v1", render_mode="ansi")
    agent = perstep.QLearning(world, seed=1).learn(300)
    world.render()
    agent.evaluate(100)
    agent.check()
    assert agent.learn(300).steps == 600


def test_a_vector_that_was_moved_is_noticed():
    pytest.importorskip("torch")
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    agent = perstep.DeepQ(vector, **DEEP, **SMALL).learn(10)
    vector.reset(seed=7)
    with pytest.warns(UserWarning, match="The world has moved"):
        agent.learn(10)


@pytest.mark.parametrize("composed", [spaces.Dict, spaces.Tuple])
def test_the_part_without_bounds_is_named(composed):
    parts = [spaces.Discrete(3), spaces.Box(-np.inf, np.inf, (2,))]
    seen = composed(parts) if composed is spaces.Tuple else composed(hour=parts[0], load=parts[1])
    part = 1 if composed is spaces.Tuple else "'load'"
    with pytest.raises(ValueError, match=f"dimension 0 of {part} spans -inf to inf"):
        perstep.ActorCritic(Guess(seen, spaces.Discrete(4), int))


ODD = spaces.Dict(
    [  # an order that is not alphabetical
        ("wind", spaces.Box(0.0, 1.0, (2,))),
        ("lamps", spaces.MultiBinary(2)),
        ("where", spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 3], start=[0, 1])])),
        ("bytes", spaces.Box(0, 255, (2, 1), np.uint8)),
    ]
)


@pytest.mark.parametrize("kind", [perstep.TileQ, perstep.DeepQ])
@pytest.mark.parametrize("seen", [NUMBERS, ODD], ids=["numbers", "odd"])
def test_an_agent_without_its_world_reads_a_dict(kind, seen, tmp_path):
    deep = kind is perstep.DeepQ
    if deep:
        pytest.importorskip("torch")
    seen.seed(0)
    world = Guess(seen, spaces.Discrete(4), lambda hidden: seen.sample())
    agent = kind(world, **({} if deep else {"tilings": 2}), **(DEEP if deep else {}), **SMALL).learn(20)
    agent.save(tmp_path / "a.safetensors")
    perstep.load(tmp_path / "a.safetensors").save(tmp_path / "b.safetensors")  # and saved again without its world
    for path in (tmp_path / "a.safetensors", tmp_path / "b.safetensors"):
        loaded = perstep.load(path)
        for _ in range(10):
            point = seen.sample()
            assert loaded.predict(point) == agent.predict(point)
            np.testing.assert_array_equal(loaded.action_values(point), agent.action_values(point))
    with pytest.raises(ValueError, match=r"must be a point of Dict.*got \{'wind': 3\}"):
        loaded.predict({"wind": 3})


@pytest.mark.parametrize(
    "said",
    [
        {"Dict": [["a", {"Discrete": [10**12, 0]}]]},
        {"Dict": [["a", {"Box": [[10**5, 10**5], "float64"]}]]},
        {"Box": [[2], "object"]},
        {"Box": [[2.5], "float64"]},
        {"Graph": []},
        {"Tuple": [{"MultiBinary": [-1]}]},
        {},
        [1],
        "Box",
    ],
)
def test_a_file_cannot_describe_any_space(said, tmp_path):
    world = Guess(NUMBERS, spaces.Discrete(4), halves)
    perstep.TileQ(world, tilings=2, **SMALL).learn(20).save(tmp_path / "a.safetensors")
    arrays, metadata = storage.read(tmp_path / "a.safetensors", lambda *_: False)
    metadata["world"]["spaces"]["composed"] = said
    storage.write(tmp_path / "a.safetensors", arrays, metadata)
    with pytest.raises(storage.BadFile):
        perstep.load(tmp_path / "a.safetensors")


def test_a_file_of_before_needs_the_world_that_reads_a_dict(tmp_path):
    world = Guess(NUMBERS, spaces.Discrete(4), halves)
    perstep.TileQ(world, tilings=2, **SMALL).learn(20).save(tmp_path / "a.safetensors")
    arrays, metadata = storage.read(tmp_path / "a.safetensors", lambda *_: False)
    del metadata["world"]["spaces"]["composed"]
    storage.write(tmp_path / "a.safetensors", arrays, metadata)
    with pytest.raises(ValueError, match=r"loaded without its world.*env=env"):
        perstep.load(tmp_path / "a.safetensors").predict(halves(3))
    with pytest.warns(UserWarning, match="fresh reset"):
        loaded = perstep.load(tmp_path / "a.safetensors", env=Guess(NUMBERS, spaces.Discrete(4), halves))
    assert world.action_space.contains(loaded.predict(halves(3))[0])


def test_a_vector_reads_one_dict():
    pytest.importorskip("torch")
    vector = gymnasium.vector.SyncVectorEnv([lambda: Guess(NUMBERS, spaces.Discrete(4), halves)] * 2)
    agent = perstep.DeepQ(vector, **DEEP, **SMALL).learn(20)
    assert agent.predict(halves(3))[0] in range(4)


def test_a_text_is_no_reward():
    class Shop(Guess):
        def step(self, action):
            seen, reward, *rest = super().step(action)
            return seen, str(reward), *rest

    with pytest.raises(ValueError, match=r"must be one finite number, got '[01]\.0'"):
        perstep.QLearning(Shop(spaces.Discrete(4), spaces.Discrete(4), int), **SMALL).learn(10)


def test_a_vector_is_for_networks():
    with pytest.raises(TypeError, match=r"Vector environments are for perstep\.DeepQ"):
        perstep.TileQ(gymnasium.make_vec("CartPole-v1", num_envs=2))
    with pytest.raises(ValueError, match=r"num_envs'.*gymnasium\.make_vec"):
        perstep.DeepQ("CartPole-v1", num_envs=2)
