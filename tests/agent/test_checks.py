"""What `agent.check()` finds: planted faults, and nothing on runs that are right."""

from __future__ import annotations

import numpy as np
import pytest

import perstep
from perstep.paper.catalog import PENDULUM, REDPILL
from perstep.worlds import access_control, two_loop


def names(agent):
    return [finding.name for finding in agent.check()]


def large_rewards():
    mdp = access_control()
    outcomes = mdp.outcomes
    return perstep.FiniteMDP.from_outcomes(
        outcomes.probability, outcomes.next_state, 100 * outcomes.mean, initial=mdp.initial
    )


def test_quantiles_that_have_not_arrived():
    with pytest.warns(perstep.FindingWarning, match=r"average reward is .* but the agent earned .* preset='steady'"):
        agent = perstep.QLearning(large_rewards(), rule="d2", preset="paper", seed=1).learn(50_000)
    assert names(agent)[:2] == ["average", "quantiles"]
    sentence = str(agent.check()[1])
    assert "more steps" in sentence
    assert "reward_step_size" in sentence
    assert "findings: average, quantiles" in repr(agent)


def test_rare_rewards_that_quantiles_miss():
    """One step in a hundred costs 1000. The lowest of 51 quantiles, at 0.98 %, is about to see it, and the average is far off."""
    mdp = perstep.FiniteMDP(
        np.ones((1, 1, 1)), perstep.GaussianRewards([[[[0.0, -1000.0]]]], 1.0, [[[[0.993, 0.007]]]])
    )
    agent = perstep.QLearning(mdp, rule="d2", preset="paper", step_size=0.01, seed=1).learn(300_000)
    assert "average" in names(agent)
    right = perstep.QLearning(mdp, rule="d2", seed=1).learn(300_000)
    assert right.check() == []
    assert right.reward_distribution.cvar(0.01) == pytest.approx(-700.0, abs=60.0)


def test_equal_rewards_in_a_world_that_ends():
    agent = perstep.ActorCritic("CartPole-v1", rule="d2", preset="paper", step_size=0.01, seed=1)
    with pytest.warns(perstep.FindingWarning, match=r"Every step paid 1 and .* episodes ended.*reset_cost"):
        agent.learn(20_000)
    assert names(agent)[0] == "equal rewards"


def test_bounds_that_are_too_narrow():
    agent = perstep.TileQ("MountainCar-v0", low=(-0.6, -0.001), high=(-0.4, 0.001), seed=1)
    with pytest.warns(UserWarning, match="outside the bounds"):
        agent.learn(5_000)
    assert "bounds" in names(agent)
    wide = perstep.TileQ("MountainCar-v0", seed=1).learn(5_000)
    assert "bounds" not in names(wide)


def test_a_return_without_an_end():
    """A time limit is no end: the values of −1 a step fall for ever."""
    episodic = {"rule": "differential", "objective": "return per episode", "seed": 1}
    agent = perstep.TileQ("MountainCar-v0", **episodic, low=(-1.2, -0.07), high=(0.6, 0.07))
    agent.learn(150)
    assert agent.check() == []  # too early to say
    with pytest.warns(perstep.FindingWarning, match=r"In 1,000 steps no episode has ended \(5 were cut off"):
        agent.learn(850)
    assert names(agent)[0] == "no end"
    lake = perstep.QLearning("FrozenLake-v1", **episodic).learn(2_000)
    assert lake.ends > 50
    assert "no end" not in names(lake)


def test_values_that_drift():
    """Printed D2 with one quantile: its average is the median, far from the mean of these rewards."""
    mdp = perstep.FiniteMDP(np.ones((1, 1, 1)), perstep.GaussianRewards([[[[0.0, 10.0]]]], 0.1, [[[[0.8, 0.2]]]]))
    agent = perstep.QLearning(mdp, rule="d2", preset="paper", num_quantiles=1, step_size=0.05, seed=1)
    for _ in range(40):
        agent.learn(5_000)
    assert "drift" in names(agent)


def test_actions_that_were_never_tried():
    agent = perstep.QLearning(two_loop(), rule="differential", preset="paper", epsilon=0.0, initial_value=-5.0, seed=1)
    agent._run.table.scores[:, 0] = 5.0
    agent.learn(20_000)
    assert "unvisited" in names(agent)


def late_reward(length=60):
    """Action 0 stays and pays 1; action 1 enters a loop that pays 3 a step, all of it at its end."""

    def outcomes(place, action):
        if not place and action == 0:
            return [(1.0, 0, 1.0)]
        after = (place + 1) % length
        return [(1.0, after, 0.0 if after else 3.0 * length)]

    return perstep.FiniteMDP.from_function(0, [0, 1], outcomes)


def test_rewards_that_come_later_than_a_discount_looks():
    blind = perstep.QLearning(late_reward(), discount=0.9, seed=1).learn(50_000)
    (found,) = [str(finding) for finding in blind.check() if finding.name == "look"]
    assert found.startswith("Rewards of about 180, which make up")
    assert "look only 10 steps ahead" in found
    assert "Use a larger discount (it is 0.9); discount=1" in found
    for settings in ({}, {"discount": 0.99}):  # 60 steps are within 100
        assert "look" not in names(perstep.QLearning(late_reward(), seed=1, **settings).learn(50_000))


def test_rewards_that_come_later_than_a_network_has_looked():
    pytest.importorskip("torch")
    settings = {"hidden": (4,), "learning_starts": 100, "threads": 1, "seed": 1}
    short = perstep.DeepQ(late_reward(), target_lag=50_000.0, **settings).learn(2_000)
    assert short.look == pytest.approx(3 * 4 / 50_000 * short.updates)
    assert any("Learn longer, or use a larger return_steps" in str(finding) for finding in short.check())
    long = perstep.DeepQ(late_reward(), **settings).learn(2_000)
    assert long.look == pytest.approx(0.15 * long.updates)
    assert "look" not in names(long)
    assert perstep.DeepQ(late_reward(), discount=0.5, **settings).learn(2_000).look == 2.0


def lamp(steps):
    """A lamp that pays 1 while it has oil, and is filled for so many steps by action 1, for 2."""

    def outcomes(oil, action):
        return [(1.0, steps if action else max(oil - 1, 0), float(oil > 0) - 2.0 * action)]

    return perstep.FiniteMDP.from_function(steps, [0, 1], outcomes)


def test_random_actions_that_do_what_the_policy_leaves_out():
    """One step in ten fills it by chance, so that it is never empty; the policy itself never fills it."""
    agent = perstep.QLearning(lamp(200), rule="d2", epsilon=0.2, seed=1).learn(20_000)
    agent._values()[0][:, 1] = -1000.0
    assert "greedy" not in names(agent)  # not known yet
    found = agent.evaluate(20_000, deterministic=True)
    (told,) = [str(finding) for finding in agent.check() if finding.name == "greedy"]
    assert f"Without exploration the policy earned {found.average_reward:.4g} per step in 20,000 steps" in told
    assert f"the agent earned {agent.reward_distribution.mean:.4g} recently: its random actions do" in told
    assert f"; while learning it earned {-found._gain_over_learning(2.0):.2g} more per step" in str(found)
    agent.evaluate(20_000)
    assert "greedy" in names(agent)  # an evaluation with exploration says nothing new
    assert "greedy" not in names(agent.learn(1))  # another policy


def test_a_policy_that_needs_no_exploration_is_no_finding():
    agent = perstep.QLearning(two_loop(), rule="d2", seed=1).learn(20_000)
    assert agent.evaluate(5_000, deterministic=True)._gain_over_learning(2.0) >= 0.0
    assert agent.check() == []


def test_a_replay_that_holds_no_whole_episode():
    pytest.importorskip("torch")
    agent = perstep.DeepQ(
        "MountainCar-v0", preset="paper", replay_capacity=100, learning_starts=10, update_every=100, hidden=(4,), seed=1
    ).learn(2_000)
    assert "replay" in names(agent)


def test_too_early_to_say():
    assert perstep.QLearning(large_rewards(), rule="d2", preset="paper").learn(500).check() == []


@pytest.mark.parametrize("rule", ["differential", "d2", "d3"])
def test_no_false_alarm_with_defaults(rule):
    for mdp in (two_loop(), large_rewards(), perstep.FiniteMDP.from_gymnasium("FrozenLake-v1")):
        assert perstep.QLearning(mdp, rule=rule, seed=3).learn(200_000).check() == []


@pytest.mark.parametrize("study", [*REDPILL, *PENDULUM], ids=lambda study: study.name)
def test_no_false_alarm_on_the_tuned_runs_of_the_paper(study):
    for seed in range(3):
        settings = {"preset": "paper", **study.fixed, **study.tuned, "seed": seed}
        agent = perstep.make_agent(study.algorithm, study.world, **settings)
        for _ in range(10):
            agent.learn(study.steps // 10)
        assert agent.check() == []


@pytest.mark.parametrize(
    ("agent_type", "world", "settings"),
    [
        (perstep.TileQ, "perstep/InvertedPendulum-v0", {"step_size": 4.0}),
        (perstep.QLearning, two_loop(), {"step_size": 1.0, "reward_ratio": 1.2}),
    ],
)
def test_values_that_diverge(agent_type, world, settings):
    """Steps above 2, and an average that moves further than the value: errors grow, and stay finite for long."""
    agent = agent_type(world, preset="paper", rule="differential", seed=1, **settings)
    with pytest.warns(perstep.FindingWarning, match=r"values have grown to .* smaller step_size \(it is [14]"):
        agent.learn(1_200)
    assert names(agent)[0] == "divergence"


@pytest.mark.parametrize(
    ("agent_type", "world", "settings"),
    [
        (perstep.QLearning, access_control(), {"preset": "paper", "step_size": 1e-6}),
        (perstep.ActorCritic, "perstep/InvertedPendulum-v0", {"step_size": 1e-5}),
        (perstep.TileQ, "perstep/PendulumSwingUp-v0", {"rule": "d3", "step_size": 1e-7}),
    ],
)
def test_steps_that_are_far_too_small(agent_type, world, settings):
    agent = agent_type(world, seed=1, **settings).learn(20_000)
    (found,) = [str(finding) for finding in agent.check() if finding.name == "small steps"]
    assert "of the spread of the rewards: nothing is learnt" in found
    assert f"it is {settings['step_size']:g}" in found
    assert "small steps" not in names(agent_type(world, seed=1, **{**settings, "step_size": 0.1}).learn(20_000))


def test_steps_of_a_network_that_are_far_too_small():
    pytest.importorskip("torch")
    settings = {"hidden": (4,), "seed": 1, "update_every": 4, "learning_starts": 100, "reset_cost": 10.0}
    agent = perstep.DeepQ("CartPole-v1", step_size=1e-8, **settings).learn(2_000)
    assert "small steps" in names(agent)
    assert "small steps" not in names(perstep.DeepQ("CartPole-v1", **settings).learn(2_000))
