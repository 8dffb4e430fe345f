"""SoftActorCritic: what it learns in a world with an exact optimum, that it goes on to the bit, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import perstep
from perstep.files import storage
from perstep.gym.spaces import bounded_actions
from same_runs import assert_same_file

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("one_thread")

RULES = ["differential", "rvi", "d2", "d3", "categorical"]
SHORT = {
    "replay_capacity": 150, "learning_starts": 32, "batch_size": 8, "num_quantiles": 5, "hidden": (8,), "threads": 1,
    "device": "cpu",
}  # fmt: skip
GO_ON = "import sys, perstep; perstep.load(sys.argv[1]).learn(int(sys.argv[2])).save(sys.argv[1])"


class Boxed(gymnasium.Env):
    """Any spaces; the reward is minus the squared distance of the action from what is shown."""

    def __init__(self, seen=None, actions=None, broken_at=None):
        self.observation_space = spaces.Box(-1.0, 1.0, (2,)) if seen is None else seen
        self.action_space = spaces.Box(-1.0, 1.0, (1,)) if actions is None else actions
        self.broken_at, self.steps = broken_at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        observation = self.observation_space.sample()
        if self.steps == self.broken_at:
            observation = np.full_like(observation, np.nan)
        return observation, -float(np.square(action).sum()), False, False, {}


# ------------------------------------------------------------------------------------------------------------- learning


class Follow(Boxed):
    """The reward is minus the squared distance of the action from the first number that was shown."""

    shown = 0.0

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.shown = observation[0]
        return observation, info

    def step(self, action):
        reward = -(float(action[0] - self.shown) ** 2)
        observation, _, *ends = super().step(action)
        self.shown = observation[0]
        return observation, reward, *ends


@pytest.mark.parametrize("rule", ["d2", "d3", "rvi"])
def test_continuous_actions_are_learnt(rule):
    settings = {"hidden": (32, 32), "batch_size": 64, "step_size": 2e-3, "num_quantiles": 11, "threads": 1}
    agent = perstep.SoftActorCritic(Follow(), rule=rule, seed=1, **settings).learn(700)
    seen = np.random.default_rng(0).uniform(-0.8, 0.8, (200, 2)).astype(np.float32)
    errors = agent.predict(seen)[0][:, 0] - seen[:, 0]
    assert np.square(errors).mean() < 0.03  # of uniformly random actions 0.55
    earned = agent.reward_distribution  # of recent steps, drawn from the policy
    assert -0.3 < earned.mean < 0.0
    assert agent.average_reward == pytest.approx(agent.history.lifetime_reward, abs=0.3)


def test_auto_chooses_it_for_boxes_of_actions(capsys):
    agent = perstep.make_agent("auto", "Pendulum-v1")
    assert type(agent) is perstep.SoftActorCritic
    assert agent.config.rule == "d2"
    assert "perstep: d2-sac: actions are vectors in Box" in capsys.readouterr().err


def test_named_corners_are_its_settings():
    sac, centered, quantiles = (
        perstep.make_agent(name, "Pendulum-v1").config for name in ("sac", "centered-sac", "quantile-sac")
    )
    assert (sac.discount, sac.centered, sac.termination, sac.rule) == (0.99, False, "mask", "differential")
    assert (centered.discount, centered.centered) == (0.99, True)
    assert (quantiles.rule, quantiles.value_size, quantiles.horizon) == ("d3", 51, None)
    usual = perstep.SoftActorCritic("Pendulum-v1", rule="d3").config
    assert (usual.discount, usual.centered, usual.horizon) == (1.0, True, 100.0)
    assert perstep.SoftActorCritic("Pendulum-v1", rule="d3", horizon=20).config.horizon == 20.0


# ------------------------------------------------------------------------------------------------------- actions and spaces


def test_actions_fill_the_box_and_no_more():
    box = spaces.Box(np.array([-2.0, 10.0], np.float32), np.array([1.0, 10.5], np.float32))
    known = bounded_actions(box, "An agent")
    corners = known.points(np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]))
    np.testing.assert_allclose(corners, [[-2.0, 10.0], [-0.5, 10.25], [1.0, 10.5]])
    assert corners.dtype == np.float32
    vectors = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2)).astype(np.float32)
    np.testing.assert_allclose([known.one(point) for point in known.points(vectors)], vectors, atol=1e-5)
    assert type(known).from_json(known.to_json()) == known
    agent = perstep.SoftActorCritic(Boxed(actions=box), **SHORT).learn(60)  # the world refuses what is outside
    actions = agent._replay.arrays()["action"]
    assert actions.shape == (60, 2)
    assert np.ptp(actions[:30], axis=0).min() > 1.5  # uniform before the first update
    assert box.contains(agent.predict(np.zeros(2))[0])
    batch = agent.predict(np.zeros((5, 2)), deterministic=False)[0]
    assert batch.shape == (5, 2)
    assert len({tuple(row) for row in batch}) == 5


def test_shapes_of_actions_are_kept():
    box = spaces.Box(-1.0, 1.0, (2, 3), np.float64)
    agent = perstep.SoftActorCritic(Boxed(actions=box), **SHORT).learn(40)
    action = agent.predict(np.zeros(2))[0]
    assert action.shape == (2, 3)
    assert action.dtype == np.float64
    assert isinstance(agent.action_value(np.zeros(2), action), float)


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (spaces.Discrete(3), r"chooses vectors from a box of actions, but this world has Discrete\(3\)\. .*DeepQ"),
        (spaces.Box(-np.inf, np.inf, (2,)), r"needs a box of actions of floating .* finite bounds.*TransformAction"),
        (spaces.Box(0.0, np.inf, (2,)), "finite bounds"),
        (spaces.Box(0, 255, (2,), np.uint8), "floating point numbers"),
        (spaces.Box(np.zeros(2, np.float32), np.array([0.0, 1.0], np.float32)), "each lower one below the upper one"),
    ],
)  # fmt: skip
def test_other_actions_are_refused_with_a_sentence(actions, sentence):
    with pytest.raises(TypeError, match=rf"SoftActorCritic .*{sentence}"):
        perstep.SoftActorCritic(Boxed(actions=actions))


def test_a_finite_world_is_refused_with_a_sentence():
    with pytest.raises(TypeError, match=r"this world has Discrete\(2\)"):
        perstep.SoftActorCritic("perstep/RedPillBluePill-v0")


@pytest.mark.parametrize("agent", [perstep.DeepQ, perstep.ActorCritic])
def test_learners_of_numbered_actions_name_it(agent):
    with pytest.raises(TypeError, match=r"Use perstep\.SoftActorCritic, or offer a few of them by number"):
        agent("Pendulum-v1")


@pytest.mark.parametrize("action", [[np.nan], [np.inf], [0.0, 0.0], "left", 0.5])
def test_actions_that_are_none_are_refused(action):
    agent = perstep.SoftActorCritic(Boxed(), **SHORT)
    with pytest.raises(ValueError, match=r"An action must be finite numbers of shape \(1,\)"):
        agent.action_value(np.zeros(2), action)


def test_observations_that_are_not_finite_are_refused():
    agent = perstep.SoftActorCritic(Boxed(broken_at=50), **SHORT)
    with pytest.raises(ValueError, match="finite numbers, got NaN or infinite ones"):
        agent.learn(80)
    assert agent.steps == 49
    with pytest.raises(ValueError, match="finite numbers"):
        agent.predict(np.array([np.nan, 0.0]))
    with pytest.raises(ValueError, match="One observation of shape"):
        agent.action_value(np.zeros((3, 2)), [0.0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"target_entropy": np.nan}, "target_entropy"),
        ({"initial_temperature": 0.0}, "initial_temperature"),
        ({"num_minibatches": 0}, "num_minibatches"),
        ({"normalization": "batch"}, "normalization"),
        ({"precision": "low"}, "precision"),
        ({"epsilon": 0.1}, "epsilon"),
        ({"offset_ratio": 0.1}, "follows the rewards and needs no offset"),
        ({"rule": "rvi", "discount": 0.9}, "needs centered=True and discount=1"),
        ({"rule": "rvi", "termination": "mask"}, "is all that is subtracted"),
        ({"rule": "rvi", "level_ratio": 0.0}, "Use a level_ratio above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        perstep.SoftActorCritic(Boxed(), **settings)


def test_dictionaries_and_images_are_read():
    seen = spaces.Dict(speed=spaces.Box(-1.0, 1.0, (2,)), gear=spaces.Discrete(3))
    agent = perstep.SoftActorCritic(Boxed(seen), **SHORT).learn(60)
    assert agent.predict(seen.sample())[0].shape == (1,)
    screen = spaces.Box(0, 255, (12, 12, 3), np.uint8)
    agent = perstep.SoftActorCritic(Boxed(screen), **SHORT).learn(45)
    names = [name for name, _ in agent.network.named_parameters()]
    assert "critics.body.conv1.weight" in names
    assert agent.updates == 14


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_vector_of_worlds(num_envs):
    env = gymnasium.make_vec("Pendulum-v1", num_envs=num_envs, vectorization_mode="sync")
    agent = perstep.SoftActorCritic(env, **SHORT).learn(60)
    assert agent.steps >= 60
    assert agent.predict(np.zeros((4, 3)))[0].shape == (4, 1)
    assert agent.evaluate(20).num_steps == 20


# ------------------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("rule", RULES)
def test_saved_loaded_and_gone_on_is_never_stopped(rule, tmp_path):
    settings = {**SHORT, "rule": rule, "num_minibatches": 2 if rule == "d2" else 1}
    perstep.SoftActorCritic("Pendulum-v1", **settings).learn(300).save(tmp_path / "whole")
    perstep.SoftActorCritic("Pendulum-v1", **settings).learn(140).save(tmp_path / "half")
    if rule == "d3":
        subprocess.run([sys.executable, "-c", GO_ON, str(tmp_path / "half"), "160"], check=True, capture_output=True)
    else:
        perstep.load(tmp_path / "half").learn(160).save(tmp_path / "half")
    assert_same_file(tmp_path / "whole", tmp_path / "half")


@pytest.mark.parametrize("world", ["Swimmer-v5", "Hopper-v5"])
def test_in_mujoco_it_goes_on_to_the_bit(world, tmp_path):
    pytest.importorskip("mujoco", reason="needs MuJoCo: pip install 'perstep[mujoco]'")
    perstep.SoftActorCritic(world, **SHORT).learn(200).save(tmp_path / "whole")
    perstep.SoftActorCritic(world, **SHORT).learn(90).save(tmp_path / "half")
    again = perstep.load(tmp_path / "half")
    assert again.ends == (0 if world.startswith("Swimmer") else again.ends)
    again.learn(110).save(tmp_path / "half")
    assert_same_file(tmp_path / "whole", tmp_path / "half")


def test_without_its_world_it_answers_and_damaged_files_are_refused(tmp_path):
    agent = perstep.SoftActorCritic(Boxed(), **SHORT).learn(60)
    agent.save(tmp_path / "agent")
    again = perstep.load(tmp_path / "agent")
    here = np.array([0.3, -0.2])
    np.testing.assert_array_equal(again.predict(here)[0], agent.predict(here)[0])
    assert again.action_value(here, [0.1]) == agent.action_value(here, [0.1])
    arrays, metadata = storage.read(tmp_path / "agent")
    for name, value in (("replay.action", 2.0), ("replay.action", np.nan), ("learner.online.log_temperature", np.inf)):
        broken = np.full_like(arrays[name], value)
        storage.write(tmp_path / "broken", {**arrays, name: broken}, metadata)
        with pytest.raises(storage.BadFile):
            perstep.load(tmp_path / "broken")


def test_exported_policy_answers_alike(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    box = spaces.Box(np.array([-2.0, 10.0], np.float32), np.array([1.0, 10.5], np.float32))
    agent = perstep.SoftActorCritic(Boxed(actions=box), **SHORT).learn(60)
    agent.export(tmp_path / "policy.onnx")
    session = runtime.InferenceSession(tmp_path / "policy.onnx")
    seen = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    (actions,) = session.run(["action"], {"observation": seen})
    np.testing.assert_allclose(actions, agent.predict(seen)[0], atol=1e-5)
