"""Lines and intervals by hand, and against scipy and rliable."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from perstep.numerics import statistics
from perstep.numerics.statistics import (
    Estimate,
    Spread,
    bootstrap,
    coarser,
    curve_distance,
    interquartile_mean,
    mean_and_error,
    mean_difference,
    probability_of_improvement,
    rolling_mean,
    rolling_mean_of_known,
    sensitivity,
)


def test_rolling_mean_by_hand():
    # (1 + 2)/2, (2 + 6)/2, (6 + 0)/2
    np.testing.assert_allclose(rolling_mean([[1.0, 2.0, 6.0, 0.0]], 2), [[1.5, 4.0, 3.0]])
    np.testing.assert_allclose(rolling_mean([1.0, 2.0, 6.0], 3), [3.0])
    np.testing.assert_allclose(rolling_mean([1.0, 2.0, 6.0], 1), [1.0, 2.0, 6.0])


@pytest.mark.parametrize("size", [0, 4])
def test_rolling_mean_over_what_is_not_there_is_refused(size):
    with pytest.raises(ValueError, match="from 1 to the number of values, 3"):
        rolling_mean([1.0, 2.0, 6.0], size)


def test_interval_by_hand():
    # Runs 1 and 3: mean 2, sd with ddof 1 is √2, so 1.96 · √2 / √2 = 1.96.
    mean, error = mean_and_error([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_allclose(mean, [2.0, 5.0])
    np.testing.assert_allclose(error, [1.96, 0.0])


def test_one_run_has_no_interval():
    mean, error = mean_and_error([[1.0, 5.0]])
    np.testing.assert_allclose(mean, [1.0, 5.0])
    assert np.isnan(error).all()


SCORES = np.random.default_rng(7).normal(size=(12, 3)) * [1.0, 2.0, 5.0] + [0.0, 1.0, -3.0]  # 12 runs of 3 tasks
BETTER = np.random.default_rng(8).normal(size=(9, 3)) * [1.0, 2.0, 5.0] + [0.5, 1.0, -2.0]


def test_interquartile_mean_by_hand():
    # Of 1 … 8 a quarter goes at either end: (3 + 4 + 5 + 6)/4. Of five, one goes (⌊5/4⌋): (2 + 3 + 4)/3.
    assert interquartile_mean([8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0]) == 4.5
    assert interquartile_mean([1.0, 2.0, 3.0, 4.0, 1000.0]) == 3.0
    assert interquartile_mean([3.0]) == 3.0


@pytest.mark.parametrize("runs", range(1, 13))
def test_interquartile_mean_is_scipy_s_trimmed_mean(runs):
    assert interquartile_mean(SCORES[:runs]) == pytest.approx(scipy.stats.trim_mean(SCORES[:runs], 0.25, axis=None))


def test_probability_of_improvement_by_hand():
    # First task: 2 beats 1 and ties with 2, 0 loses twice: 1.5 of 4. Second: 9 and 8 beat both: 4 of 4.
    assert probability_of_improvement([[2.0, 9.0], [0.0, 8.0]], [[1.0, 5.0], [2.0, 6.0]]) == (1.5 / 4 + 1) / 2
    assert probability_of_improvement([1.0, 2.0], [1.0, 2.0]) == 0.5


def test_probability_of_improvement_is_the_u_of_mann_and_whitney():
    u = [scipy.stats.mannwhitneyu(x, y).statistic for x, y in zip(BETTER.T, SCORES.T, strict=True)]
    assert probability_of_improvement(BETTER, SCORES) == pytest.approx(np.mean(u) / (12 * 9))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_one_task_s_interval_is_scipy_s_percentile_interval(level):
    ours = bootstrap(interquartile_mean, SCORES[:, 2], resamples=20_000, level=level)
    theirs = scipy.stats.bootstrap(
        (SCORES[:, 2],), lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis), n_resamples=20_000, method="percentile",
        confidence_level=level, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert ours.value == scipy.stats.trim_mean(SCORES[:, 2], 0.25)
    # The interval is about 4 wide; the ends of two sets of 20,000 resamples differ by some hundredths.
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.1)


def test_runs_are_drawn_within_their_task():
    # Each task has one score only, so that nothing can change unless tasks are mixed.
    constant = np.tile([1.0, 5.0, 9.0], (4, 1))
    assert bootstrap(interquartile_mean, constant) == Estimate(5.0, 5.0, 5.0)


def test_an_interval_is_a_function_of_scores_and_seed():
    assert bootstrap(interquartile_mean, SCORES, seed=1) == bootstrap(interquartile_mean, SCORES, seed=1)
    assert bootstrap(interquartile_mean, SCORES, seed=1) != bootstrap(interquartile_mean, SCORES, seed=2)


def test_blocks_change_nothing(monkeypatch):
    whole = bootstrap(probability_of_improvement, BETTER, SCORES, resamples=400)
    monkeypatch.setattr(statistics, "BLOCK", 100)  # two resamples at a time
    assert bootstrap(probability_of_improvement, BETTER, SCORES, resamples=400) == whole


@pytest.mark.parametrize(("resamples", "level"), [(0, 0.95), (10, 0.0), (10, 1.0)])
def test_an_interval_of_nothing_is_refused(resamples, level):
    with pytest.raises(ValueError, match="at least one resample"):
        bootstrap(interquartile_mean, SCORES, resamples=resamples, level=level)


def test_scores_that_are_none_are_refused():
    with pytest.raises(ValueError, match="one row per run and one column per task"):
        interquartile_mean([])
    with pytest.raises(ValueError, match="the same tasks"):
        probability_of_improvement(np.zeros((2, 2)), np.zeros((2, 3)))


def test_the_difference_of_means_has_welch_s_interval():
    ours, theirs = SCORES[:, 0], BETTER[:5, 1]
    found = mean_difference(ours, theirs)
    expected = scipy.stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.value == pytest.approx(ours.mean() - theirs.mean())
    assert mean_difference([2.0, 2.0], [1.0, 1.0]) == Estimate(1.0, 1.0, 1.0)  # without spread nothing is unsure
    with pytest.raises(ValueError, match="at least two runs of each, got 1 and 2"):
        mean_difference([1.0], [1.0, 2.0])


def test_a_rolling_mean_of_what_is_known():
    found = rolling_mean_of_known([[1.0, np.nan, 3.0, np.nan, np.nan, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], 2)
    np.testing.assert_array_equal(found[0], [1.0, 3.0, 3.0, np.nan, 5.0])
    np.testing.assert_allclose(found[1], rolling_mean([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2))


def test_a_coarser_curve_by_hand():
    np.testing.assert_allclose(coarser([[1.0, 3.0, 5.0, 7.0]], 2), [[2.0, 6.0]])
    np.testing.assert_allclose(coarser([1.0, 2.0, 3.0, 4.0, 5.0], 2), [1.5, 4.0])  # the first two, the last three
    np.testing.assert_array_equal(coarser([1.0, 2.0], 3), [1.0, 2.0])


def test_the_distance_of_curves_by_hand_and_by_chance():
    # Differences of two pairs: means 1 and −2, so 1.5 apart; spreads √2 and 0, so errors of the mean 1 and 0, and √(2/π)/2.
    found = curve_distance([[0.0, -2.0], [2.0, -2.0]])
    assert (found.value, found.by_chance) == pytest.approx((1.5, np.sqrt(2 / np.pi) / 2))
    alike = curve_distance(np.random.default_rng(0).normal(size=(50, 2000)))
    assert alike.value == pytest.approx(alike.by_chance, rel=0.05)


WITHOUT_RLIABLE = "rliable needs arch 7, which has no wheel for Python 3.14 and does not work with pandas 3"


def test_point_estimates_are_rliable_s():
    metrics = pytest.importorskip("rliable.metrics", reason=WITHOUT_RLIABLE)
    assert interquartile_mean(SCORES) == pytest.approx(metrics.aggregate_iqm(SCORES))
    assert probability_of_improvement(BETTER, SCORES) == pytest.approx(
        metrics.probability_of_improvement(BETTER, SCORES)
    )


def test_intervals_are_rliable_s():
    try:
        from rliable import library, metrics
    except (ImportError, TypeError) as error:  # a TypeError comes from arch
        pytest.skip(f"{WITHOUT_RLIABLE}: {error}")
    _, single = library.get_interval_estimates(
        {"ours": SCORES}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=2000
    )
    _, pair = library.get_interval_estimates({"pair": (BETTER, SCORES)}, metrics.probability_of_improvement, reps=1000)
    ours = bootstrap(interquartile_mean, SCORES, resamples=2000)
    assert (ours.low, ours.high) == pytest.approx(single["ours"].ravel().tolist(), abs=0.1)  # of a width of about 1.5
    better = bootstrap(probability_of_improvement, BETTER, SCORES, resamples=2000)
    assert (better.low, better.high) == pytest.approx(np.ravel(pair["pair"]).tolist(), abs=0.03)


def test_sensitivity_by_hand():
    grid = [(1.0, 0.1, 5.0), (1.0, 0.2, 7.0), (1.0, 0.3, 0.0), (2.0, 0.1, 4.0), (2.0, 0.2, 3.0), (2.0, 0.3, 9.0)]
    rows = [({"reward_ratio": ratio, "step_size": step_size}, score) for ratio, step_size, score in grid]
    assert sensitivity(rows, "reward_ratio") == [Spread(1.0, 7.0, 5.0, 0.0), Spread(2.0, 9.0, 4.0, 3.0)]
    assert [spread.best for spread in sensitivity(rows, "step_size")] == [5.0, 7.0, 9.0]
    with pytest.raises(ValueError, match="'policy_ratio'"):
        sensitivity(rows, "policy_ratio")
