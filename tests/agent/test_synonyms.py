"""What people bring from Stable-Baselines3: names that are known, steps as 1e4, callbacks, evaluation on the way."""

from __future__ import annotations

import pytest

import perstep
from perstep.worlds import two_loop


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


def test_a_setting_of_another_learner_is_told_so():
    with pytest.raises(ValueError, match="'batch_size': it is a setting of DeepQ"):
        perstep.QLearning(two_loop(), batch_size=32)
    with pytest.raises(ValueError, match="'buffer_size': replay_capacity is a setting of DeepQ"):
        perstep.ActorCritic("CartPole-v1", buffer_size=100)
    with pytest.raises(ValueError, match="'tilings': it is a setting of ActorCritic and of TileQ"):
        perstep.QLearning(two_loop(), tilings=8)


@pytest.mark.parametrize("name", ["ppo", "PPO", "a2c", "td3"])
def test_algorithms_of_other_libraries_are_known(name):
    with pytest.raises(ValueError, match=f"There is no algorithm '{name}'. Use perstep.(ActorCritic|SoftActorCritic)"):
        perstep.make_agent(name, "CartPole-v1")


def test_what_is_no_name_is_no_algorithm():
    for bad in (perstep.QLearning, None, 3):
        with pytest.raises(ValueError, match="There is no algorithm"):
            perstep.make_agent(bad, two_loop())


def test_arguments_of_evaluate_elsewhere_are_known():
    agent = perstep.QLearning(two_loop())
    with pytest.raises(TypeError, match="whose episode_returns are those that ended"):
        agent.evaluate(n_eval_episodes=10)
    with pytest.raises(TypeError, match="help"):
        agent.evaluate(10, anything=1)
    with pytest.raises(ValueError, match="num_steps must be a whole number of at least 1, got None"):
        agent.evaluate()


def test_what_is_no_callback_is_told_so():
    agent = perstep.QLearning(two_loop())
    with pytest.raises(TypeError, match=r"got the class EvalCallback. Make one: EvalCallback\("):
        agent.learn(10, callback=perstep.EvalCallback)
    with pytest.raises(TypeError, match=r"must be a function of the agent, .* got 3"):
        agent.learn(10, callback=3)
    with pytest.raises(ValueError, match="name of a project of Weights & Biases, got None"):
        perstep.WandbCallback()


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
    from perstep.app.cli import main

    assert main(["train", "d2-q", "FrozenLake-v1", "--learning-rate", "0.1"]) == 2
    assert "It is called --step-size here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: perstep.QLearning("MlpPolicy", two_loop()),
            r"takes no name of a policy.*perstep\.QLearning\(env\), got",
        ),
        (lambda: perstep.TDLearning("MlpPolicy", two_loop()), r"perstep\.TDLearning\(env, policy\), got 'MlpPolicy'"),
        (lambda: perstep.DeepQ("CnnPolicy"), r"DeepQ takes no name of a policy"),
        (lambda: perstep.make_agent("dqn", "MlpPolicy", two_loop()), r"DeepQ takes no name of a policy"),
        (
            lambda: perstep.QLearning(two_loop(), 0.1),
            r"env by position and settings by name: .*got 2 values by position",
        ),
        (lambda: perstep.EvalCallback(eval_env=None), "'eval_env'. The agent evaluates in a copy of its own world"),
        (lambda: perstep.EvalCallback(n_eval_episodes=5), "num_steps is the length of an evaluation"),
        (lambda: perstep.CheckpointCallback(5, "a", save_replay_buffer=True), "The replay is always saved"),
        (lambda: perstep.EvalCallback(evaluations=5), "unexpected keyword argument 'evaluations'"),
    ],
)
def test_calls_of_other_libraries_are_answered(make, sentence):
    with pytest.raises(TypeError, match=sentence):
        make()


def test_an_environment_by_position_and_more():
    import gymnasium

    with pytest.raises(TypeError, match="EvalCallback needs no environment"):
        perstep.EvalCallback(gymnasium.make("FrozenLake-v1"), eval_freq=100)


@pytest.mark.parametrize("given", ["best/", "best", "best.d/best_model.safetensors"])
def test_the_best_agent_in_a_folder(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    evaluating = perstep.EvalCallback(100, num_steps=100, best_model_save_path=given)
    perstep.QLearning(two_loop()).learn(300, callback=evaluating)
    (found,) = tmp_path.rglob("*.safetensors")
    assert found.name == "best_model.safetensors"
    assert perstep.load(found).steps == evaluating.best[0]


def test_a_world_that_does_not_fit_is_named(tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.QLearning("FrozenLake-v1").learn(10).save(path)
    there = r"a.safetensors was learnt in FrozenLake-v1 \{'map_name': '4x4'\} with 16 states and 4 actions, "
    with pytest.raises(ValueError, match=there + r"but the world that was given has 9 states and 2 actions\.$"):
        perstep.load(path, env=two_loop())
    with pytest.raises(TypeError, match=there + "and does not fit the world that was given: QLearning keeps a row"):
        perstep.load(path, env="CartPole-v1")
    perstep.QLearning(two_loop()).learn(10).save(path)
    with pytest.raises(ValueError, match=r"in TwoLoop with 9 states and 2 actions, but .* 16 states and 4 actions"):
        perstep.load(path, env="FrozenLake-v1")
    perstep.TileQ("CartPole-v1").learn(10).save(path)
    with pytest.raises(ValueError, match=r"in CartPole-v1 with observations of shape \(4,\) and 2 actions, (and|but)"):
        perstep.load(path, env="MountainCar-v0")


def test_agents_of_different_worlds_are_not_compared():
    import gymnasium

    first, other = perstep.QLearning(two_loop()), perstep.QLearning("FrozenLake-v1")
    with pytest.raises(ValueError, match=r"one world.*'a' in TwoLoop \(9 states, 2 actions\), 'b' in FrozenLake-v1"):
        perstep.compare({"a": first, "b": other})
    dry = perstep.QLearning(gymnasium.make("FrozenLake-v1", is_slippery=False))
    with pytest.raises(ValueError, match=r"'c' in FrozenLake-v1 \{.*'is_slippery': False\}"):
        perstep.compare({"b": other, "c": dry})
    named = perstep.QLearning("perstep/TwoLoop-v0")
    assert perstep.compare({"a": first, "b": named}, num_steps=10, seeds=2).scores.shape == (2, 2)


def test_tiles_say_what_can_be_exported():
    with pytest.raises(AttributeError, match=r"TileQ has no attribute 'export'\. Tables and networks can be exported"):
        perstep.TileQ("CartPole-v1").export("a.onnx")


def test_a_table_is_exported_with_the_names_of_its_world(tmp_path):
    def outcomes(light, action):
        other = {"red": "green", "green": "red"}[light]
        return [(1.0, other if action == "switch" else light, 1.0 if light == "green" else 0.0)]

    mdp = perstep.FiniteMDP.from_function("red", ["wait", "switch"], outcomes)
    agent = perstep.QLearning(mdp, preset="steady").learn(3000)
    agent.export(tmp_path / "a.csv")
    head, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert head == "state,name,visits,action,value_wait,value_switch"
    assert {row.split(",")[1]: row.split(",")[3] for row in rows} == {"red": "switch", "green": "wait"}
    solution = mdp.solve()
    assert mdp.policy_frame(solution).equals(mdp.policy_frame(solution.policy))
    assert mdp.evaluate(solution).average_reward == solution.cvar == solution.average_reward == 1.0


def test_a_forecast_without_spread_is_one_line():
    (axes,) = perstep.Forecast(10, 5.0, 0.0).plot().axes
    assert axes.get_ylabel() == "chance"
    assert axes.get_ylim() == (0.0, 1.1)
    assert axes.get_title(loc="left") == "the next 10 steps earn 5, without any spread"
