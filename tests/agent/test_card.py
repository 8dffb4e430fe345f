"""The card of an agent says what is true of it."""

from __future__ import annotations

import pytest

import perstep
from perstep.agent.card import algorithm_of
from perstep.app.cli import main
from perstep.worlds import two_loop


def test_a_card_beside_the_file(tmp_path, capsys):
    agent = perstep.QLearning("perstep/RedPillBluePill-v0", rule="d2", preset="steady", num_quantiles=7, seed=3)
    agent.learn(50_000).save(tmp_path / "a.safetensors", card=True)
    text = (tmp_path / "a.safetensors.md").read_text(encoding="utf-8")
    assert text.startswith("# d2-q in RedPillBluePill (2 states, 2 actions)\n")
    assert "the rule `d2` (Alg. 1, 4), after 50,000 steps" in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == ["| `seed` | `3` |", "| `num_quantiles` | `7` |"]
    earned = agent.reward_distribution
    assert "World: `perstep/RedPillBluePill-v0`, RedPillBluePill (2 states, 2 actions)." in text
    mean = f"{earned.mean:.5g} ± {1.96 * earned.mean_error:.2g}"
    assert (
        f"In its last {earned.num_samples:,} steps it earned {mean} (95 %) per step; over its whole life of 50,000"
        in text
    )
    assert f"| mean | {mean} |" in text
    assert all(f"{100 * p:g} % quantile | {earned.quantile(p):.5g} ± " in text for p in (0.05, 0.25, 0.5, 0.75, 0.95))
    assert f"| mean of the worst 1 % | {earned.cvar(0.01):.5g} ± " in text
    assert "`agent.check()` found nothing." in text
    assert "agent = perstep.load('a.safetensors')" in text
    assert f"perstep {perstep.__version__}" in text
    assert "@" in text.partition("```bibtex")[2]
    assert main(["card", str(tmp_path / "a.safetensors")]) == 0
    told = capsys.readouterr().out
    assert told.replace(str(tmp_path / "a.safetensors"), "a.safetensors") == text  # a loaded agent says the same
    assert main(["card"]) == 2
    assert "perstep card takes one file" in capsys.readouterr().err


def test_findings_and_a_new_agent():
    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4, preset="paper")
    assert "it has not learnt" in agent.card()
    agent.learn(2000)
    assert agent.check()
    assert f"- {agent.check()[0]}" in agent.card()


def test_where_episodes_end_the_card_says_what_is_maximised():
    settings = {"rule": "differential", "seed": 1}
    assert "Objective" not in perstep.QLearning(two_loop(), **settings).learn(500).card()  # nothing ends
    step = perstep.QLearning("FrozenLake-v1", **settings).learn(500)
    assert "Objective: the reward per step; an end is a step to the next start like any other." in step.card()
    episode = perstep.QLearning("FrozenLake-v1", **settings, objective="return per episode").learn(500)
    assert "Objective: the return per episode; no rewards follow an end." in episode.card()
    assert repr(episode).startswith("QLearning(rule='differential', objective='return per episode', earned ")
    tiles = {"rule": "differential", "discount": 1.0, "termination": "continue", "reset_cost": "auto"}
    pole = perstep.TileQ("CartPole-v1", **tiles).learn(500)
    assert pole.ends == pole.history.record.episodes.sum() + pole.history.record.pending[2] > 0
    assert f"like any other, at a cost of {pole.reset_cost:g}." in pole.card()


@pytest.mark.parametrize(
    "name", ["d2-q", "q", "centered-q", "differential-sarsa", "sarsa", "d3-actor-critic", "rvi-tile-q"]
)
def test_an_agent_knows_its_algorithm(name):
    world = "CartPole-v1" if "tile" in name or "actor" in name else two_loop()
    assert algorithm_of(perstep.make_agent(name, world, preset="paper")).name == name


def test_networks_too(tmp_path):
    pytest.importorskip("torch")
    agent = perstep.DeepQ("CartPole-v1", hidden=(8,), replay_capacity=200).learn(50)
    agent.save(tmp_path / "a.safetensors", card=True, replay=False)
    assert "`hidden` | `(8,)`" in (tmp_path / "a.safetensors.md").read_text(encoding="utf-8")


def test_the_card_says_when_a_world_must_be_given():
    followed = perstep.FollowPolicy("MountainCar-v0", lambda observation: 2)
    assert "env=your_world" in perstep.ActorCritic(followed, seed=0).learn(100).card()
    assert "env=your_world" not in perstep.ActorCritic("MountainCar-v0", seed=0).learn(100).card()
    assert "env=your_world" not in perstep.QLearning("perstep/TwoLoop-v0", seed=0).learn(100).card()


def test_a_name_of_the_user_is_text_and_nothing_more():
    name = "<script>x()</script> | [a](javascript:y) `\n# Head\n![i](http://z)"
    world = perstep.FiniteMDP([[[1.0]]], [[1.0]], name=name)
    text = perstep.QLearning(world, rule="d2", num_quantiles=4).card()
    title = text.splitlines()[0]
    assert title.startswith(
        r"# d2-q in &lt;script&gt;x()&lt;/script&gt; \| \[a\](javascript:y) \` \# Head \!\[i\](http://z) (1 state"
    )
    assert not any(mark in text for mark in ("<script", "\n# Head", "![i]"))
