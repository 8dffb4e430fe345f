"""What people bring from Stable-Baselines3: names that are known, steps as 1e4, callbacks, evaluation on the way."""

from __future__ import annotations

import pytest

import perstep
from perstep.environments import two_loop


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": 0.1}, "it is called 'step_size' here"),
        ({"gamma": 0.9}, "it is called 'discount' here"),
        ({"verbose": 1}, "progress=True"),
        ({"policy": "MlpPolicy"}, "the network is chosen by the observations"),
        ({"total_timesteps": 5}, "argument of learn"),
    ],
)
def test_settings_of_other_libraries_are_known(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        perstep.QLearning(two_loop(), **settings)


@pytest.mark.parametrize("name", ["set_env", "get_parameters", "num_timesteps", "fit"])
def test_methods_of_other_libraries_are_known(name):
    agent = perstep.QLearning(two_loop())
    with pytest.raises(AttributeError, match=rf"QLearning has no attribute '{name}'\. \w+"):
        getattr(agent, name)
    assert not hasattr(agent, "anything_else")


def test_arguments_of_learn_elsewhere_are_known():
    agent = perstep.QLearning(two_loop())
    with pytest.raises(TypeError, match="It is called num_steps"):
        agent.learn(total_timesteps=10)
    with pytest.raises(ValueError, match="num_steps must be a whole number of at least 0, got None"):
        agent.learn()
    assert agent.learn(1e3).steps == 1000
    assert agent.evaluate(1e2).num_steps == 100
    with pytest.raises(ValueError, match=r"whole number of at least 0, got 0\.5"):
        agent.learn(0.5)


def test_load_of_a_class_reads_its_own_agents(tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.QLearning(two_loop(), seed=2).learn(100).save(path)
    assert perstep.QLearning.load(path).steps == perstep.Agent.load(path).steps == 100
    with pytest.raises(TypeError, match="holds a QLearning, not a TDLearning"):
        perstep.TDLearning.load(path)


def test_callbacks_are_called_at_their_steps_and_change_nothing(tmp_path):
    calls = []

    class Look(perstep.EveryCallback):
        def __call__(self, agent):
            calls.append(agent.steps)

    checks = perstep.CheckpointCallback(400, tmp_path / "kept", keep=1)
    agent = perstep.QLearning(two_loop(), seed=2)
    agent.learn(1000, callback=[Look(300), Look(500), checks]).learn(250, callback=Look(300))
    assert calls == [300, 500, 600, 900, 1000, 1200]
    assert [path.name for path in sorted((tmp_path / "kept").iterdir())] == ["agent_800_steps.safetensors"]
    assert perstep.load(checks.saved[0]).steps == 800
    assert (agent.reward_quantiles == perstep.QLearning(two_loop(), seed=2).learn(1250).reward_quantiles).all()


def test_the_best_agent_is_kept(tmp_path):
    evaluating = perstep.EvalCallback(500, num_steps=900, best_model_save_path=tmp_path / "best.safetensors")
    agent = perstep.QLearning(two_loop(), preset="steady", seed=2).learn(5000, callback=evaluating)
    assert [steps for steps, _ in evaluating.evaluations] == list(range(500, 5001, 500))
    steps, best = evaluating.best
    assert best.average_reward == pytest.approx(0.4)  # the optimum
    assert perstep.load(tmp_path / "best.safetensors").steps == steps < agent.steps


def test_learning_stops_when_a_callback_says_so():
    class Enough(perstep.EveryCallback):
        def __call__(self, agent):
            return agent.steps < 600

    agent = perstep.QLearning(two_loop()).learn(10_000, callback=[Enough(200), lambda agent: None])
    assert agent.steps == 600


def test_what_is_no_callback_is_refused():
    with pytest.raises(TypeError, match="must be a function of the agent"):
        perstep.QLearning(two_loop()).learn(10, callback=[3])
    with pytest.raises(ValueError, match="every must be a whole number of at least 1"):
        perstep.EvalCallback(0)


def test_a_callback_needs_no_environment():
    import gymnasium

    with pytest.raises(TypeError, match="EvalCallback needs no environment"):
        perstep.EvalCallback(gymnasium.make("FrozenLake-v1"))


def test_the_flags_of_the_command_line_know_them_too(capsys):
    from perstep.cli import main

    assert main(["train", "d2-q", "FrozenLake-v1", "--learning-rate", "0.1"]) == 2
    assert "It is called --step-size here" in capsys.readouterr().err
