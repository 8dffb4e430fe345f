"""Return distributions with a horizon: against distributions that are known, and against simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from perstep.mdp.evaluation import PolicyEvaluation
from perstep.mdp.mdp import FiniteMDP, GaussianRewards
from perstep.worlds import garnet, two_loop

LEVELS = np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])


def test_a_coin_with_horizon_two_is_uniform() -> None:
    """Σ ±2^−t is uniform between −2 and 2."""
    coin = FiniteMDP.from_outcomes(np.full((1, 1, 2), 0.5), np.zeros((1, 1, 2), int), np.array([[[9.0, 11.0]]]))
    evaluation = coin.evaluate([0])
    assert evaluation.return_variance(2).tolist() == [[pytest.approx(4 / 3)]]
    for error in (0.02, 0.005):
        found = evaluation.return_distribution(2, 0, 0, error=error)
        assert found.quantile(LEVELS) == pytest.approx(4.0 * LEVELS - 2.0, abs=2.0 * error)
        assert found.std == pytest.approx(math.sqrt(4 / 3), rel=error**2)


def test_normal_rewards_give_a_normal_return() -> None:
    mdp = FiniteMDP(np.ones((1, 1, 1)), GaussianRewards([[[5.0]]], sds=2.0))
    found = mdp.evaluate([0]).return_distribution(10, 0, 0)
    sd = 2.0 / math.sqrt(1.0 - 0.9**2)
    assert found.quantile(LEVELS) == pytest.approx(sd * ndtri(LEVELS), abs=0.01 * sd)


def test_horizon_one_is_a_single_step_with_the_cap_counted() -> None:
    mdp = FiniteMDP(np.ones((1, 1, 1)), GaussianRewards([[[0.0]]], sds=1.0, cap=0.5))
    evaluation = mdp.evaluate([0])
    rewards, found = evaluation.reward_distribution, evaluation.return_distribution(1, 0, 0)
    assert found.std == pytest.approx(rewards.std, rel=1e-4)
    # At 0.9 and 0.99 the reward is at the cap.
    assert found.quantile(LEVELS) == pytest.approx(rewards.quantile(LEVELS) - rewards.mean, abs=0.03)


def simulated_returns(evaluation: PolicyEvaluation, state: int, action: int, discount: float, paths: int) -> Any:
    """q(s, a) + Σ g^t δ_t of many paths at once, by the definition."""
    random, outcomes, policy = np.random.default_rng(0), evaluation.outcomes, evaluation.policy
    s, a = np.full(paths, state), np.full(paths, action)
    total = np.full(paths, evaluation.action_values[state, action])
    for step in range(200):
        k = (random.random(paths)[:, None] > np.cumsum(outcomes.probability[s, a], axis=1)).sum(axis=1)
        k = np.minimum(k, outcomes.probability.shape[2] - 1)
        reward = outcomes.mean[s, a, k] + outcomes.sd[s, a, k] * random.standard_normal(paths)
        to = outcomes.next_state[s, a, k]
        then = (random.random(paths)[:, None] > np.cumsum(policy[to], axis=1)).sum(axis=1)
        value = evaluation.action_values
        total += discount**step * (reward - evaluation.average_reward + value[to, then] - value[s, a])
        s, a = to, then
    return total


def test_a_random_world_against_simulation() -> None:
    mdp = garnet(6, 2, 3, 4, reward_sd=0.3)
    evaluation = mdp.evaluate(mdp.solve().policy, epsilon=0.2)
    found = evaluation.return_distribution(10, 3, 1)
    assert found.mean == pytest.approx(evaluation.action_values[3, 1], abs=1e-6)
    assert found.std**2 == pytest.approx(evaluation.return_variance(10)[3, 1], rel=1e-3)
    paths = simulated_returns(evaluation, 3, 1, 0.9, 20_000)
    assert found.quantile(LEVELS) == pytest.approx(np.quantile(paths, LEVELS), abs=0.06 * found.std)


def test_for_a_deterministic_policy_a_state_is_its_pair() -> None:
    mdp = garnet(5, 2, 2, 0)
    actions = mdp.solve().policy
    evaluation = mdp.evaluate(actions)
    state, pair = (evaluation.return_distribution(5, 2, action) for action in (None, int(actions[2])))
    assert state.quantile(LEVELS) == pytest.approx(pair.quantile(LEVELS), abs=1e-9)


def test_a_state_counts_the_choice_of_its_action() -> None:
    """With horizon 1 the return of a state is R − r̄ + v(S′), over actions and next states."""
    evaluation = garnet(5, 2, 2, 0).evaluate(np.full((5, 2), 0.5))
    outcomes, value = evaluation.outcomes, evaluation.state_values
    gained = outcomes.mean[2] - evaluation.average_reward + value[outcomes.next_state[2]]  # (A, K)
    spread = math.sqrt((0.5 * outcomes.probability[2] * (gained - value[2]) ** 2).sum())
    found = evaluation.return_distribution(1, 2)
    assert (found.mean, found.std) == pytest.approx((value[2], spread), rel=1e-4)


def test_a_world_without_chance_has_a_sure_return() -> None:
    evaluation = two_loop().evaluate(np.ones(9, int))
    assert evaluation.return_variance(20) == pytest.approx(np.zeros((9, 2)), abs=1e-20)
    found = evaluation.return_distribution(20, 0, 1)
    assert (found.num_components, found.mean) == (1, evaluation.action_values[0, 1])


def test_bad_questions_get_a_sentence() -> None:
    evaluation = two_loop().evaluate(np.ones(9, int), start=5)
    with pytest.raises(ValueError, match=r"horizon must be a finite number between 1 and 1e\+09, got 0\.5"):
        evaluation.return_variance(0.5)
    with pytest.raises(ValueError, match="state must be a state from 0 to 8 that was evaluated, got 3"):
        evaluation.return_distribution(10, 3)
    with pytest.raises(ValueError, match="action must be an integer from 0 to 1, got 7"):
        evaluation.return_distribution(10, 0, 7)
    with pytest.raises(ValueError, match="error must be a finite number above 0 and at most 1, got 0"):
        evaluation.return_distribution(10, 0, error=0)
