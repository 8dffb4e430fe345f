"""Forecasts of a known world: against all paths by enumeration, the sum of autocovariances, and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perstep.mdp import reward_sums as sums
from perstep.mdp.evaluation import PolicyEvaluation
from perstep.mdp.mdp import FiniteMDP, GaussianRewards
from perstep.worlds import garnet, red_pill_blue_pill, service_queue, two_loop


def moments_by_enumeration(evaluation: PolicyEvaluation, first: Any, num_steps: int) -> tuple[float, float]:
    """Mean and variance of the sum over all paths, from pairs with the distribution `first` (S, A). No cap on rewards."""
    outcomes, policy = evaluation.outcomes, evaluation.policy
    # (probability, state, action, sum of means, sum of variances) of every path so far
    paths = [(p, s, a, 0.0, 0.0) for (s, a), p in np.ndenumerate(first) if p > 0.0]
    for _ in range(num_steps):
        paths = [
            (p * chance * policy[to, b], to, b, total + mean, spread + sd**2)
            for p, s, a, total, spread in paths
            for chance, to, mean, sd in zip(*(table[s, a] for table in outcomes[:4]), strict=True)
            if chance > 0.0
            for b in range(policy.shape[1])
            if policy[to, b] > 0.0
        ]
    weight, _, _, total, spread = (np.array(column) for column in zip(*paths, strict=True))
    mean = weight @ total
    return float(mean), float(weight @ (spread + (total - mean) ** 2))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), num_steps=st.integers(1, 5), action=st.sampled_from([None, 0, 1]))
def test_moments_equal_all_paths_by_enumeration(seed: int, num_steps: int, action: int | None) -> None:
    mdp = garnet(3, 2, 2, seed, reward_sd=0.3)
    evaluation = mdp.evaluate(np.full((3, 2), 0.5))
    choice = evaluation.policy if action is None else np.eye(2)[[action] * 3]
    for start, first in (
        (None, evaluation.stationary),
        (1, np.eye(3)[1]),
        ([0.2, 0.3, 0.5], np.array([0.2, 0.3, 0.5])),
    ):
        forecast = evaluation.forecast(num_steps, start, action)
        expected = moments_by_enumeration(evaluation, first[:, None] * choice, num_steps)
        assert (forecast.mean, forecast.variance) == pytest.approx(expected, rel=1e-11, abs=1e-12)


def covariances(evaluation: PolicyEvaluation, lags: int) -> Any:
    """Covariance of the rewards of two steps at distance 0, 1, …, in the long run, from its definition and without the cap."""
    outcomes = evaluation.outcomes
    chance = evaluation.policy[:, :, None] * outcomes.probability
    chain, onward = np.zeros((2, len(chance), len(chance)))
    for (s, a, k), p in np.ndenumerate(chance):
        chain[s, outcomes.next_state[s, a, k]] += p
        onward[s, outcomes.next_state[s, a, k]] += p * (outcomes.mean[s, a, k] - evaluation.average_reward)
    square = (chance * (outcomes.sd**2 + (outcomes.mean - evaluation.average_reward) ** 2)).sum(axis=(1, 2))
    after, found = onward.sum(axis=1), [evaluation.stationary @ square]
    for _ in range(lags):
        found.append(evaluation.stationary @ onward @ after)
        after = chain @ after
    return np.array(found)


@pytest.mark.parametrize(
    ("mdp", "policy"),
    [(red_pill_blue_pill(), [1, 1]), (garnet(10, 3, 3, 1, reward_sd=0.3), np.zeros(10, int)), (service_queue(), None)],
)
def test_asymptotic_variance_is_the_sum_of_autocovariances(mdp: FiniteMDP, policy: Any) -> None:
    evaluation = mdp.evaluate(mdp.solve().policy if policy is None else policy)
    found = covariances(evaluation, 5000)
    assert evaluation.asymptotic_variance == pytest.approx(found[0] + 2.0 * found[1:].sum(), rel=2e-6)
    for num_steps in (2, 30, 3000):
        exact = num_steps * found[0] + 2.0 * sum((num_steps - lag) * found[lag] for lag in range(1, num_steps))
        assert evaluation.forecast(num_steps).variance == pytest.approx(exact, rel=2e-6)


def test_asymptotic_variance_of_red_pill_blue_pill() -> None:
    """Always blue: ½ · 0.4² on either side of −0.6, and 0.05² within, without correlations. The cap takes 2e-7 of it."""
    assert red_pill_blue_pill().evaluate([1, 1]).asymptotic_variance == pytest.approx(0.1625, abs=1e-6)


# A ring of three states, forward only: period 3, and the reward of a step alone is random.
RING = FiniteMDP(
    np.roll(np.eye(3), 1, axis=1)[:, None, :], GaussianRewards(np.array([[[0.0]], [[3.0]], [[9.0]]]), sds=1.0)
)
# Transient states before two loops of length 2 and 4: period 2.
LOOPS = np.zeros((6, 1, 6))
LOOPS[0, 0, 1] = LOOPS[2, 0, 1] = LOOPS[3, 0, 4] = LOOPS[4, 0, 5] = LOOPS[5, 0, 1] = 1.0
LOOPS[1, 0, [2, 3]] = 0.3, 0.7


@pytest.mark.parametrize(
    "mdp",
    [RING, FiniteMDP(LOOPS, np.arange(6.0)[:, None]), garnet(6, 1, 2, 3, reward_sd=0.2), garnet(40, 1, 1, 5)],
)
def test_step_by_step_equals_doubling(mdp: FiniteMDP) -> None:
    """A periodic chain never forgets the phase in which it began."""
    evaluation = mdp.evaluate(np.zeros(mdp.num_states, int))
    chain = sums.centred_chain(mdp.outcomes, evaluation.policy, evaluation.average_reward)
    sigma2 = evaluation.asymptotic_variance
    for num_steps in (1, 2, 7, 100, 1001, 123_456):
        anywhere = np.full(mdp.num_states, 1.0 / mdp.num_states)
        stepped = sums._by_steps(chain, num_steps, sigma2, evaluation.stationary, anywhere)
        doubled = sums._by_doubling(chain, num_steps)
        np.testing.assert_allclose(stepped[0], doubled[0], rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(stepped[1], doubled[1], rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize(("mdp", "period"), [(RING, 3), (FiniteMDP(LOOPS, np.zeros((6, 1))), 2), (two_loop(), 5)])
def test_period(mdp: FiniteMDP, period: int) -> None:
    evaluation = mdp.evaluate(np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions))
    assert sums._period(sums.centred_chain(mdp.outcomes, evaluation.policy, 0.0).chain) == period


def test_two_loops_by_hand() -> None:
    """Each loop takes 5 steps and earns 1 or 2 with equal probability, so 10 steps from state 0 earn 3 with variance 1/2."""
    evaluation = two_loop().evaluate(np.full((9, 2), 0.5))
    for loops in (1, 2, 200, 2 * 10**7):
        forecast = evaluation.forecast(5 * loops, start=0)
        assert forecast.mean == pytest.approx(1.5 * loops)
        assert forecast.variance == pytest.approx(0.25 * loops)
    assert evaluation.asymptotic_variance == pytest.approx(0.05)
    always_right = two_loop().evaluate(np.ones(9, int))
    assert always_right.forecast(1000, start=0).variance == 0.0
    assert str(always_right.forecast(1000, start=0)) == "the next 1,000 steps earn 400, without any spread"


def test_many_steps_without_a_loop_over_them() -> None:
    """In a large world too: after mixing each step adds r̄ and σ²."""
    mdp = garnet(600, 2, 3, 0, reward_sd=0.1)
    evaluation = mdp.evaluate(np.zeros(600, int))
    near, far = evaluation.forecast(10_000, start=7), evaluation.forecast(10**12, start=7)
    more = 10**12 - 10_000
    assert far.mean - near.mean == pytest.approx(more * evaluation.average_reward, rel=1e-12)
    assert far.variance - near.variance == pytest.approx(more * evaluation.asymptotic_variance, rel=1e-9)


def test_states_that_are_never_seen_do_not_count() -> None:
    """A queue that could hold 2000 customers, and one that could hold 60, earn the same; both are never so long."""
    forecasts = []
    for capacity in (60, 2000):
        queue = service_queue(capacity)
        evaluation = queue.evaluate(np.minimum(np.arange(capacity + 1), 2))
        forecasts.append(evaluation.forecast(10**9, start=3))
    small, large = forecasts
    assert large.mean == pytest.approx(small.mean, rel=1e-12)
    assert large.variance == pytest.approx(small.variance, rel=1e-9)


def test_the_band_covers_simulated_sums() -> None:
    """The full measurement, with 100,000 sums in six worlds, is benchmarks/forecasts.py."""
    capped = FiniteMDP([[[0.3, 0.7]], [[0.6, 0.4]]], GaussianRewards([[[0.0]], [[1.0]]], sds=1.0, cap=0.5))
    for mdp in (red_pill_blue_pill(), garnet(10, 3, 3, 1, reward_sd=0.3), capped):
        evaluation = mdp.evaluate(np.zeros(mdp.num_states, int), epsilon=0.5)
        for num_steps in (10, 300):
            forecast = evaluation.forecast(num_steps, num_paths=20_000, seed=1)
            assert forecast.samples is not None
            error = forecast.std / np.sqrt(20_000)
            assert forecast.samples.mean() == pytest.approx(forecast.mean, abs=4 * error)
            assert forecast.samples.var() == pytest.approx(forecast.variance, rel=0.05)
            low, high = evaluation.forecast(num_steps).interval(0.9)
            assert 0.88 < ((low <= forecast.samples) & (forecast.samples <= high)).mean() < 0.92
            assert forecast.interval(0.9) == pytest.approx((low, high), abs=0.2 * forecast.std)


def test_few_skewed_steps_are_simulated() -> None:
    """Ten steps of the queue are skewed, and their sum has few values: a normal band holds 91.9 %, one of quantiles 91.4 %."""
    queue = service_queue()
    evaluation = queue.evaluate(queue.solve().policy, epsilon=0.1)
    sums = evaluation.forecast(10, num_paths=100_000, seed=2).samples
    assert sums is not None
    held = []
    for forecast in (evaluation.forecast(10), evaluation.forecast(10, num_paths=0)):
        low, high = forecast.interval(0.9)
        held.append(((low <= sums) & (sums <= high)).mean())
    assert 0.89 < held[0] < 0.91 < held[1]
    assert evaluation.forecast(101).samples is None
    assert evaluation.forecast(10).mean == evaluation.forecast(10, num_paths=0).mean


def test_paths_begin_where_they_are_asked_to() -> None:
    evaluation = two_loop().evaluate(np.full((9, 2), 0.5))
    after = evaluation.forecast(5, start=0, action=1, num_paths=50)
    assert np.array_equal(after.samples, np.full(50, 2.0))  # type: ignore[arg-type]
    again = [evaluation.forecast(50, num_paths=20, seed=seed).samples for seed in (3, 3, 4)]
    assert np.array_equal(again[0], again[1])  # type: ignore[arg-type]
    assert not np.array_equal(again[0], again[2])  # type: ignore[arg-type]


def test_bad_questions_get_a_sentence() -> None:
    evaluation = two_loop().evaluate(np.ones(9, int), start=5)  # states 1 to 4 cannot be reached
    with pytest.raises(ValueError, match="num_steps must be a whole number of at least 1, got 0"):
        evaluation.forecast(0)
    with pytest.raises(ValueError, match="start must be a state that was evaluated, got state 3"):
        evaluation.forecast(10, start=3)
    with pytest.raises(ValueError, match="start must be a state from 0 to 8"):
        evaluation.forecast(10, start=9)
    with pytest.raises(ValueError, match="action must be an integer from 0 to 1, got 2"):
        evaluation.forecast(10, action=2)
