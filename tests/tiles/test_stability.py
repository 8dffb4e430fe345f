"""R̄ and values together, as an expected linear system: they settle for every λ where R̄ follows what the bootstrap is about.

A world with one feature per pair of state and action, and a policy that is ε-greedy for a fixed choice of greedy actions. A row
vector over pairs is μ, with D = diag(μ); P goes from pair to pair as the agent acts, G from pair to pair greedily. With λ the
expected move of Q is D (I − λP)⁻¹ δ, on-policy with δ = r − R̄ + (P − I) Q. docs/theory.md has the words.
"""

from __future__ import annotations

import numpy as np
import pytest

import perstep

LAMBDAS = (0.0, 0.5, 0.7, 0.9, 0.95)
STEP = 1e-5  # of R̄, relative to that of Q


class Pairs:
    """A random world of so many states and actions, by pairs."""

    def __init__(self, num_states, num_actions, epsilon, seed=0, one_way=False):
        rng = np.random.default_rng(seed)
        self.greedy_chance = 1 - epsilon + epsilon / num_actions
        to = rng.dirichlet(np.full(num_states, 0.3), (num_states, num_actions))
        if one_way:  # all actions lead on alike
            to[:] = to[:, :1]
        to = to.reshape(num_states * num_actions, num_states)
        greedy = np.zeros((num_states, num_actions))
        greedy[np.arange(num_states), rng.integers(num_actions, size=num_states)] = 1.0
        acted = (1 - epsilon) * greedy + epsilon / num_actions
        self.greedy = greedy.ravel()
        self.P = (to[:, :, None] * acted).reshape(len(to), -1)
        self.G = (to[:, :, None] * greedy).reshape(len(to), -1)
        values, vectors = np.linalg.eig(self.P.T)
        mu = vectors[:, np.argmin(abs(values - 1))].real
        self.mu = mu / mu.sum()


def moves(mu, looks_back, ahead, R_bar_row):
    """The matrix of the expected moves of (Q, R̄): Q by D (I − looks_back)⁻¹ δ with δ = r − R̄ + (ahead − I) Q, and R̄ by a row."""
    one = np.eye(len(mu))
    back = np.diag(mu) @ np.linalg.inv(one - looks_back)
    delta = np.hstack([ahead - one, -np.ones((len(mu), 1))])
    return np.vstack([back @ delta, STEP * R_bar_row(delta)])


def on_policy_by_rewards(world, decay):
    return moves(world.mu, decay * world.P, world.P, lambda delta: np.eye(1, len(world.mu) + 1, len(world.mu)) * -1.0)


def on_policy_by_greedy_errors(world, decay):
    return moves(world.mu, decay * world.P, world.P, lambda delta: (world.mu * world.greedy)[None] @ delta)


def off_policy_by_greedy_errors(world, decay):
    """Watkins: a step that is not greedy forgets the steps before it, and the bootstrap is that of the greedy action."""
    looks_back = decay * world.P * world.greedy
    return moves(world.mu, looks_back, world.G, lambda delta: (world.mu * world.greedy)[None] @ delta)


def largest_growth(matrix):
    """The largest real part of the eigenvalues, but for the 0 of the level: a constant added to all values changes nothing."""
    values = np.linalg.eigvals(matrix)
    level = np.argmin(abs(values))
    assert abs(values[level]) < 1e-12
    return np.delete(values, level).real.max()


WORLDS = [(2, 2, 0.1), (6, 2, 0.1), (5, 3, 0.05), (12, 4, 0.3)]


@pytest.mark.parametrize("decay", LAMBDAS)
@pytest.mark.parametrize("size", WORLDS)
@pytest.mark.parametrize("system", [on_policy_by_rewards, off_policy_by_greedy_errors])
def test_what_we_do_settles(system, size, decay):
    for seed in range(5):
        assert largest_growth(system(Pairs(*size, seed), decay)) < 0


@pytest.mark.parametrize("decay", LAMBDAS)
@pytest.mark.parametrize(("num_actions", "epsilon"), [(2, 0.1), (3, 0.05), (4, 0.3)])
def test_on_policy_errors_of_greedy_steps_drive_the_average_away(num_actions, epsilon, decay):
    """E[δ; greedy] = (r̄ − R̄)(1/A − (1 − ε)λ)/(1 − λ), with 1 − ε the chance of the greedy action: exactly so where all actions
    lead on alike. R̄ follows it, so it runs away for λ > 1/(A(1 − ε)): .53 for two actions and ε = .1."""
    world = Pairs(6, num_actions, epsilon, one_way=True)
    wanted = -STEP * (1 / num_actions - world.greedy_chance * decay) / (1 - decay)
    values = np.linalg.eigvals(on_policy_by_greedy_errors(world, decay))
    slow = values[np.argsort(abs(values))[1]]  # after the level
    assert slow == pytest.approx(wanted, rel=0.05, abs=0.02 * STEP)
    assert (largest_growth(on_policy_by_greedy_errors(world, decay)) > 0) == (
        decay > 1 / (num_actions * world.greedy_chance)
    )


@pytest.mark.parametrize("decay", LAMBDAS)
def test_on_average_the_errors_of_all_steps_are_the_rewards(decay):
    """μ P = μ, so values cancel in the mean of δ: R̄ by rewards is the same system, and no noise of values enters R̄."""
    world = Pairs(6, 2, 0.1)
    everywhere = moves(world.mu, decay * world.P, world.P, lambda delta: world.mu[None] @ delta)
    np.testing.assert_allclose(everywhere, on_policy_by_rewards(world, decay), atol=1e-12)


def with_level(world, decay, share):
    """On-policy, with κ times the sum of Q subtracted together with R̄."""
    size = len(world.mu)
    matrix = on_policy_by_rewards(world, decay)
    back = np.diag(world.mu) @ np.linalg.inv(np.eye(size) - decay * world.P)
    matrix[:size, :size] -= share * np.outer(back @ np.ones(size), np.ones(size))
    return matrix


@pytest.mark.parametrize("decay", LAMBDAS)
@pytest.mark.parametrize("share", [0.001, 0.1, 10.0])
def test_the_level_is_held_and_nothing_else_moves(decay, share):
    """The sum of Q moves by (r̄ − R̄)/(1 − λ) and by nothing else: 1ᵀ D (I − λP)⁻¹ (P − I) = μᵀ(P − I)/(1 − λ) = 0. So 1ᵀ is a left
    eigenvector, and (Brauer 1952) the share κ moves its eigenvalue from 0 to −κ/(1 − λ) and leaves all others."""
    for seed in range(5):
        world = Pairs(6, 3, 0.1, seed)
        size = len(world.mu)
        before, after = on_policy_by_rewards(world, decay), with_level(world, decay, share)
        np.testing.assert_allclose(before[:size, :size].sum(0), 0.0, atol=1e-12)
        np.testing.assert_allclose(before[:size, size].sum(), -1.0 / (1.0 - decay))
        wanted = np.linalg.eigvals(before)
        wanted[np.argmin(abs(wanted))] = -share / (1.0 - decay)
        found = np.linalg.eigvals(after)
        for value in wanted:
            assert abs(found - value).min() < 1e-6 * max(1.0, abs(value))
        assert found.real.max() < 0


@pytest.mark.parametrize("agent", [perstep.TileQ, perstep.ActorCritic])
@pytest.mark.parametrize("rule", ["differential", "d2", "d3", "categorical"])
@pytest.mark.parametrize("decay", [0.0, 0.7])
def test_the_level_is_the_mean_over_the_box(agent, rule, decay):
    learner = agent("CartPole-v1", rule=rule, trace_decay=decay, level_ratio=1.0, seed=0).learn(2_000, progress=False)
    mean = learner.config.tilings * learner._run.weights.critic.mean()
    assert abs(mean) > 1e-3
    assert learner._run.level.mean[0] == pytest.approx(mean, rel=1e-9)


def test_the_level_is_held_where_it_is_free():
    share = lambda **settings: perstep.ActorCritic("CartPole-v1", **settings).config.level_share  # noqa: E731
    assert share() == 1.0
    assert share(preset="paper") == share(discount=0.9) == share(termination="mask") == share(level_ratio=0) == 0.0
    assert share(objective="return per episode") == 0.0
    share = lambda **settings: perstep.TileQ("CartPole-v1", **settings).config.level_share  # noqa: E731
    assert (share(), share(level_ratio=0.5), share(level_ratio=0.5, bootstrap="greedy")) == (0.0, 0.5, 0.0)


@pytest.mark.parametrize("rule", ["differential", "d2", "d3"])
@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_the_average_stays_where_it_should(rule, decay):
    """A world with ends, which cost 10."""
    agent = perstep.TileQ("CartPole-v1", rule=rule, trace_decay=decay, reset_cost=10.0, seed=0).learn(
        10_000, progress=False
    )
    assert agent.average_reward == pytest.approx(agent.reward_distribution.mean, abs=0.05)
    assert np.abs(agent._run.weights.critic).max() < 100


def test_who_learns_on_policy_follows_the_rewards():
    for bootstrap, by_rewards in (("sampled", True), ("expected", True), ("greedy", False)):
        config = perstep.TileQ("CartPole-v1", bootstrap=bootstrap).config
        steps = config.average_steps
        assert (config.on_policy, steps.reward_scale > 0, steps.delta_scale > 0) == (
            by_rewards,
            by_rewards,
            not by_rewards,
        )
    assert perstep.ActorCritic("CartPole-v1").config.average_steps.delta_scale == 0
