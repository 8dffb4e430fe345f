"""The rewards of a policy in the model of a table: by hand, and against exact answers."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import perstep
from perstep import Distribution, model
from perstep.agents.modelled import long_run
from perstep.environments import garnet, service_queue, tandem_queue
from test_model import witnessed

pytestmark = pytest.mark.defaults

ROUND = [(0, 0, 1.0, 1), (0, 0, 1.0, 0), (1, 0, 7.0, 0)] * 40  # half of the steps from 0 go to 1, and all from 1 to 0


def test_the_rewards_of_the_model_by_hand():
    # In the long run state 0 has 2/3 of the steps, which pay 1, and state 1 has 1/3, which pay 7.
    seen = long_run(witnessed(ROUND), np.zeros(3, np.int64))
    found = Distribution(seen.weights, seen.rewards)
    assert found.means.tolist() == [1.0, 7.0]
    assert found.weights == pytest.approx([2 / 3, 1 / 3], abs=1e-15)
    # v(1) − v(0) = 7 − 3 by state 1, so δ from 0 is 1 − 3 + 4 or 1 − 3, and 0 from 1: the variance is 4 · 2/3 per step of a long
    # sum, and 8 of a single reward.
    assert seen.weights @ seen.deltas**2 == pytest.approx(8 / 3)
    assert seen.worth(8.0) == 1.0


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
    assert seen.num_samples == agent.earned_distribution.num_samples
    worth = (
        world.evaluate(agent.policy()).reward_distribution.std ** 2 / world.evaluate(agent.policy()).asymptotic_variance
    )
    assert seen.effective_samples == pytest.approx(seen.num_samples * min(worth, 1.0), rel=1e-9)


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
    found = long_run(witnessed(transitions), np.zeros(3, np.int64))
    assert found is None or not found.knows_rewards


def test_what_is_far_away_and_known_little_does_not_matter():
    rare = [(0, 0, 1.0, 1)] * 5_000 + [(1, 0, 2.0, 0)] * 4_999 + [(1, 0, 2.0, 2), (2, 0, -9.0, 0)]
    found = long_run(witnessed(rare), np.zeros(3, np.int64))
    assert found.weights.min() == pytest.approx(1 / 10_001)


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


def test_a_chain_that_is_nearly_never_left_is_no_error():
    """As a file may have it: no linear system can tell how long it stays."""
    seen = witnessed([*ROUND, (1, 0, 7.0, 1)])
    for entry in range(int(seen.size[0])):
        if seen.followers[entry] == seen.pairs[entry]:
            seen.counts[entry] += 2**60
            seen.numbers[seen.pairs[entry]] += 2**60
    found = long_run(seen, np.zeros(3, np.int64))
    assert found is None or np.isfinite(found.weights).all()


def test_standard_errors_are_those_of_the_chain():
    """A queue whose costs are correlated for hundreds of steps: one step is worth a tenth of an independent reward, or less."""
    mdp = service_queue()
    agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(300_000, progress=False)
    exact, found = mdp.evaluate(agent.policy()), agent.reward_distribution
    worth = exact.reward_distribution.std**2 / exact.asymptotic_variance
    assert found.effective_samples / found.num_samples == pytest.approx(worth, rel=0.2)


def test_rewards_with_noise_count_with_the_correlation_of_the_chain():
    mdp = garnet(20, 3, 3, seed=5, reward_sd=1.0)
    agent = perstep.QLearning(mdp, rule="d2", seed=1).learn(100_000, progress=False)
    exact, found = mdp.evaluate(agent.policy()), agent.reward_distribution
    assert found.weights.tolist() == agent.earned_distribution.weights.tolist()
    worth = min(1.0, exact.reward_distribution.std**2 / exact.asymptotic_variance)
    assert found.effective_samples / found.num_samples == pytest.approx(worth, rel=0.1)


def test_the_distribution_is_computed_once_for_every_step():
    agent = perstep.QLearning("perstep/TwoLoop-v0", rule="d2").learn(5_000, progress=False)
    assert agent.reward_distribution is agent.reward_distribution
    before = agent.reward_distribution
    assert agent.learn(10).reward_distribution is not before
