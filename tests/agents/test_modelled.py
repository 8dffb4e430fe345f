"""The rewards of a policy in the model of a table: by hand, and against exact answers."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import perstep
from perstep import Distribution, model
from perstep.agents.modelled import modelled_rewards
from perstep.environments import garnet, tandem_queue
from test_model import witnessed

pytestmark = pytest.mark.defaults

ROUND = [(0, 0, 1.0, 1), (0, 0, 1.0, 0), (1, 0, 7.0, 0)] * 40  # half of the steps from 0 go to 1, and all from 1 to 0


def test_the_rewards_of_the_model_by_hand():
    # In the long run state 0 has 2/3 of the steps, which pay 1, and state 1 has 1/3, which pay 7.
    weights, rewards = modelled_rewards(witnessed(ROUND), np.zeros(3, np.int64))
    found = Distribution(weights, rewards)
    assert found.means.tolist() == [1.0, 7.0]
    assert found.weights == pytest.approx([2 / 3, 1 / 3], abs=1e-15)


def test_the_rewards_of_the_model_are_those_of_the_world_that_it_has_seen():
    mdp = garnet(20, 3, 3, seed=5)
    agent = perstep.QLearning(mdp, rule="d2", seed=1).learn(200_000, progress=False)
    found, seen, (S, A) = agent._run.model, agent.reward_distribution, (20, 3)
    size = int(found.size[0])
    sums, transitions = np.zeros((S * A, S)), np.zeros((S * A, S))
    places = found.pairs[:size], found.followers[:size]
    np.add.at(transitions, places, found.counts[:size])
    np.add.at(sums, places, found.counts[:size] * found.rewards[:size])
    rewards = (sums / np.maximum(transitions, 1)).reshape(S, A, S)
    world = perstep.FiniteMDP((transitions / found.numbers[:, None]).reshape(S, A, S), rewards)
    exact = world.evaluate(agent.policy()).reward_distribution
    np.testing.assert_allclose(seen.quantile(np.arange(1, 100) / 100), exact.quantile(np.arange(1, 100) / 100))
    assert seen.mean == pytest.approx(exact.mean, abs=1e-12)
    assert (seen.num_samples, seen.effective_samples) == (
        agent.earned_distribution.num_samples,
        agent.earned_distribution.effective_samples,
    )


@pytest.mark.parametrize(
    "more",
    [
        [(1, 0, 7.0, 2)],  # nothing was seen after state 2
        [(1, 0, 7.0, 2), (2, 0, 0.0, 2)],  # state 2 is never left
        [(1, 0, 7.0, model.NONE)],  # an end
        [(1, 0, float(reward), 0) for reward in range(40)],  # rewards that are not told apart
        [(1, 0, 7.0, 2), *[(2, 0, 0.0, 0)] * 5],  # too little was seen after state 2, for the many steps that it has
    ],
    ids=["unknown", "not left", "end", "rewards", "few"],
)
def test_where_the_model_does_not_know_the_earned_rewards_count(more):
    transitions = ROUND + more
    assert modelled_rewards(witnessed(transitions), np.zeros(3, np.int64)) is None


def test_what_is_far_away_and_known_little_does_not_matter():
    rare = [(0, 0, 1.0, 1)] * 5_000 + [(1, 0, 2.0, 0)] * 4_999 + [(1, 0, 2.0, 2), (2, 0, -9.0, 0)]
    weights, _ = modelled_rewards(witnessed(rare), np.zeros(3, np.int64))
    assert weights.min() == pytest.approx(1 / 10_001)


def test_the_distribution_is_that_of_the_policy_of_now():
    """The policy of the tandem queue moves between actions that are about as good, and earned rewards are of all of them."""
    mdp = tandem_queue(rejection_cost=60.0)
    agent = perstep.QLearning(mdp, rule="d2", seed=3).learn(1_000_000, progress=False)
    exact = mdp.evaluate(agent.policy()).reward_distribution
    levels = np.arange(1, 100) / 100.0
    unit = np.ptp(mdp.outcomes.mean)
    for near in (agent.reward_distribution.quantile(levels) >= exact.quantile(levels - 0.009) - 0.01 * unit,
                 agent.reward_distribution.quantile(levels) <= exact.quantile(levels + 0.009) + 0.01 * unit):  # fmt: skip
        assert near.all()


def test_in_a_world_of_gymnasium_the_earned_rewards_count():
    """Its observations may not be states."""
    agent = perstep.QLearning(gymnasium.make("FrozenLake-v1"), rule="d2", seed=0).learn(20_000, progress=False)
    assert agent.mdp is None
    assert agent.reward_distribution.weights.tolist() == agent.earned_distribution.weights.tolist()
