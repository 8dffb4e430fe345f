"""One truth on every screen: where two numbers seem to contradict each other, a sentence says why."""

from __future__ import annotations

import numpy as np

import perstep
from perstep.agent.earned import learnt_columns, mean_sentences, sentences
from perstep.app.run_view import evaluation_numbers


def test_a_planner_says_that_its_average_is_that_of_its_model():
    planner = perstep.Planner("perstep/RiverSwim-v0", seed=0).learn(500, progress=False)
    assert abs(planner.average_reward - planner.reward_distribution.mean) > 0.01
    (said,) = [each for each in sentences(planner) if "R̄" in each]
    assert "best policy in the world as learnt" in said
    assert learnt_columns(planner) == "of the best policy in the world as learnt"


def test_learnt_quantiles_that_lag_behind_the_rewards_are_said_to():
    agent = perstep.QLearning("perstep/TwoLoop-v0", rule="d2", num_quantiles=5, seed=0).learn(5000, progress=False)
    assert learnt_columns(agent) == "R̄ and θ"
    assert not [each for each in sentences(agent) if "still hold earlier rewards" in each]
    agent._rewards.theta[0] = -50.0
    (said,) = [each for each in sentences(agent) if "still hold earlier rewards" in each]
    assert "5 % quantile is -50" in said
    few = perstep.QLearning("perstep/TwoLoop-v0", rule="d2", seed=0).learn(8, progress=False)
    sentences(few)  # too few steps for an interval: no warning, and nothing to compare


def test_a_mean_outside_the_middle_half_is_explained_in_evaluations_too():
    rewards = perstep.Distribution.from_counts(np.array([-100.0, 0.0, 1.0]), np.array([100, 4000, 5900]), 5000.0)
    (said,) = mean_sentences(rewards)
    assert said.startswith(
        "The mean lies below the middle half of the rewards, since the worst 1 % of the steps earn -100 each"
    )
    assert evaluation_numbers(rewards.mean, rewards, np.array([]))["sentences"] == [said]
    even = perstep.Distribution.from_counts(np.array([-1.0, 1.0]), np.array([500, 500]), 1000.0)
    assert "sentences" not in evaluation_numbers(even.mean, even, np.array([]))
