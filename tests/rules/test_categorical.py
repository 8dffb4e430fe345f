"""The rule `categorical` (decision 0014): its masses against the exact distribution, its grid, its learners, its files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import perstep
from perstep.files.storage import BadFile, read, write
from perstep.numerics.quantiles import levels
from perstep.rules import masses
from perstep.worlds import red_pill_blue_pill, two_loop

RUNNING_MEAN = {"step_size": perstep.Decay(1.0, 0.8), "reward_step_size": perstep.Decay(1.0, 1.0)}


def grid_of(agent):
    return masses.atoms(agent._rewards.masses, agent._rewards.grid)


def exact_masses(distribution, atoms):
    """E of the hat function of every atom, from the exact mean of (R − x)⁺ = ∫ P(R > y) dy above x."""
    points = np.concatenate([[atoms[0] - (atoms[1] - atoms[0])], atoms, [atoms[-1] + (atoms[1] - atoms[0])]])
    fine = np.linspace(points[0], points[-1], 40 * (points.size - 1) + 1)
    above = 1.0 - distribution.cdf(fine)
    excess = np.append(np.cumsum((0.5 * (above[1:] + above[:-1]) * np.diff(fine))[::-1])[::-1], 0.0)[::40]
    return np.diff(excess, 2) / (atoms[1] - atoms[0])


@pytest.mark.parametrize("m", [20, 51])
def test_masses_go_to_those_of_the_exact_distribution(m):
    """A fixed policy; masses with steps 1/t are the mean of the projected rewards."""
    mdp, policy = red_pill_blue_pill(), np.array([[0.3, 0.7], [0.2, 0.8]])
    agent = perstep.TDLearning(mdp, policy, rule="categorical", num_quantiles=m, seed=1, **RUNNING_MEAN)
    agent.learn(300_000, progress=False)
    exact = mdp.evaluate(policy)
    np.testing.assert_allclose(
        agent._rewards.masses, exact_masses(exact.reward_distribution, grid_of(agent)), atol=0.004
    )
    assert agent.average_reward == pytest.approx(exact.average_reward, abs=0.003)
    learned, width = agent.learned_distribution, agent._rewards.grid[masses.WIDTH]
    assert learned.mean == pytest.approx(exact.average_reward, abs=0.003)
    p = np.array([0.1, 0.3, 0.7, 0.9])
    np.testing.assert_allclose(learned.quantile(p), exact.reward_distribution.quantile(p), atol=1.5 * width)
    assert learned.cvar(0.25) == pytest.approx(exact.reward_distribution.cvar(0.25), abs=width)
    assert (agent.reward_quantiles == learned.quantile(levels(m))).all()


def test_it_finds_the_best_policy_and_its_distribution_without_settings():
    mdp = red_pill_blue_pill()
    agent = perstep.QLearning(mdp, rule="categorical", seed=1).learn(200_000, progress=False)
    assert (agent.policy(deterministic=True).argmax(axis=1) == 1).all()
    assert agent.average_reward == pytest.approx(-0.6, abs=0.01)
    assert agent.reward_distribution.cvar(0.1) == pytest.approx(
        mdp.evaluate([1, 1]).reward_distribution.cvar(0.1), abs=0.02
    )
    assert agent.check() == []


@settings(max_examples=60)
@given(
    rewards=st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=30),
    m=st.integers(2, 12),
    share=st.floats(0.01, 1.0),
)
def test_masses_are_probabilities_and_keep_the_mean(rewards, m, share):
    p, grid = masses.new_masses(m, 0.0)
    average, theta = 0.0, np.zeros(m)
    for reward in rewards:
        masses.track_masses(p, grid, levels(m), reward, share, theta)
        average += share * (reward - average)
        assert (p >= 0).all()
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert masses.mean_of_masses(p, grid) == pytest.approx(average, abs=1e-9 * max(map(abs, rewards), default=1.0))
        atoms = masses.atoms(p, grid)
        assert grid[masses.WIDTH] == 0.0 or atoms[0] - 1e-6 <= reward <= atoms[-1] + 1e-6


def test_pairs_merge_as_by_projection():
    p = np.random.default_rng(1).dirichlet(np.ones(7))
    for top in (False, True):
        merged, atoms = p.copy(), np.arange(7.0)
        masses.merge_pairs(merged, top)
        wide = [2 * i - (6 if top else 0) for i in range(7)]
        np.testing.assert_allclose(merged, oracles.project(atoms, p, wide), atol=1e-15)


def growing_rewards(factor):
    """A world whose reward is multiplied at every step."""
    import gymnasium

    class Growing(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)
        reward = 1.0

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            self.reward *= factor
            return 0, self.reward, False, False, {}

    return Growing()


def test_rewards_without_bound_are_a_sentence():
    agent = perstep.QLearning(growing_rewards(3.0), rule="categorical", step_size=1e-30)
    with pytest.raises(
        ArithmeticError, match=r"no grid of 51 atoms can hold them\. Use rule='d2', or rewards with a bound"
    ):
        agent.learn(200, progress=False)


@pytest.mark.parametrize(
    ("agent", "given", "sentence"),
    [
        (perstep.QLearning, {"num_reward_quantiles": 1}, "needs at least 2 atoms, got num_reward_quantiles=1"),
        (perstep.DeepQ, {}, "Use reward_tracking='stream', got 'per-sample'"),
    ],
)
def test_what_it_cannot_be_is_a_sentence(agent, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        agent.Config(rule="categorical", **given)


def test_it_is_saved_and_goes_on_to_the_bit(tmp_path):
    agent = perstep.QLearning(two_loop(), rule="categorical", num_quantiles=7, seed=1).learn(500, progress=False)
    agent.save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors").learn(500, progress=False)
    agent.learn(500, progress=False)
    assert (again._rewards.masses == agent._rewards.masses).all()
    assert (again.all_action_values == agent.all_action_values).all()
    agent._rewards.masses[0] += 0.5
    with pytest.raises(ValueError, match="not probabilities on a grid"):  # what could not be loaded is not saved
        agent.save(tmp_path / "wrong.safetensors")
    arrays, metadata = read(tmp_path / "agent.safetensors")
    arrays["rewards.masses"][0] += 0.5
    write(tmp_path / "wrong.safetensors", arrays, metadata)
    with pytest.raises(BadFile, match="not probabilities on a grid"):
        perstep.load(tmp_path / "wrong.safetensors")


def test_networks_follow_the_stream_with_it():
    pytest.importorskip("torch")
    agent = perstep.DeepQ(red_pill_blue_pill(), rule="categorical", hidden=(8,), learning_starts=100, seed=1)
    agent.learn(1_000, progress=False)
    assert agent._rewards.masses.sum() == pytest.approx(1.0)
    assert agent.average_reward == pytest.approx(agent.reward_distribution.mean, abs=0.1)
    assert agent.learned_distribution.mean == pytest.approx(agent.reward_distribution.mean, abs=0.1)
