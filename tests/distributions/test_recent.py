"""The window of rewards that tell how an agent behaves now, and errors from batches, on streams whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import mannwhitneyu

from perstep.distributions import sketch
from perstep.distributions.distribution import Batches, Distribution
from perstep.distributions.recent import chance_of_equal_halves, has_changed, recent_distribution
from perstep.numerics.compiled import compiled


@compiled
def take_all(tables, rewards):
    for i in range(rewards.shape[0]):
        sketch.take(tables, rewards[i])


def recent(rewards):
    tables = sketch.new_sketch()
    take_all(tables, np.asarray(rewards, np.float64))
    return recent_distribution(tables)


def batches(*rows):
    """One batch for each row of rewards."""
    sizes = [len(row) for row in rows]
    return Batches(
        np.concatenate(rows).astype(float), np.ones(sum(sizes), np.int64), np.repeat(np.arange(len(rows)), sizes)
    )


def test_errors_by_hand():
    # Batch means 1, 3, 2, 4 of five rewards each: variance of the mean 4/3 · Σ (m − 2.5)²/16 = 5/12. The halves, 2 and 3, differ
    # by 1, less than the √(4 · 5/12) that this explains.
    steady = batches([1] * 5, [3] * 5, [2] * 5, [4] * 5)
    assert steady.error(steady.values) == pytest.approx(math.sqrt(5 / 12))
    # 0, 0, 4, 4: variance 4/3; the halves differ by 4, whose square is more than 4 · 4/3 by 32/3.
    moved = batches([0] * 5, [0] * 5, [4] * 5, [4] * 5)
    assert moved.error(moved.values) == pytest.approx(math.sqrt(4 / 3 + 32 / 3))
    assert Distribution.from_batches(moved).mean_error == pytest.approx(math.sqrt(12))
    # Equal batches: the error is that of 20 independent rewards of variance 1.
    equal = batches(*[[-1, 1, -1, 1, -1, 1]] * 4)
    assert equal.error(equal.values) == pytest.approx(1 / math.sqrt(24))
    assert Distribution.from_batches(equal).effective_samples == 24
    # Three batches do not tell.
    few = Distribution.from_batches(batches([1.0], [2.0], [3.0]))
    assert math.isnan(few.mean_error)
    assert math.isnan(few.cvar_error(0.5))
    assert math.isnan(few.quantile_error(0.5))
    assert few.effective_samples == 3


def test_errors_of_other_numbers_follow_their_own_batches():
    # Whether a reward is below 0 changes from batch to batch; the upper half does not.
    rows = [[-1.0] * 8 + [1.0] * 8, [0.0] * 8 + [1.0] * 8] * 4
    found = Distribution.from_batches(batches(*rows))
    assert found.cdf_error(-0.5) == pytest.approx(math.sqrt(8 / 7 * 8 * 0.25**2 / 64))
    assert found.cdf_error(0.5) == pytest.approx(0.5 / math.sqrt(128))
    # cvar(¼): q = −1, no shortfall beyond the smallest reward
    assert found.cvar_error(0.25) == 0.0
    # cvar(½): q = 0, shortfalls ½, 0, ½, 0, …
    assert found.cvar_error(0.5) == pytest.approx(math.sqrt(8 / 7 * 8 * 0.25**2 / 64) / 0.5)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_standard_errors_tell_the_truth(memory):
    random, off = np.random.default_rng(3), []
    for _ in range(60):
        noise = random.normal(size=20_000)
        rewards = lfilter([1.0], [1.0, -memory], noise) * math.sqrt(1.0 - memory**2)  # normal with variance 1
        found = recent(rewards)
        off.append([
            found.mean / found.mean_error,
            (found.cdf(-1.0) - 0.158655) / found.cdf_error(-1.0),
            (found.cvar(0.1) + 1.754983) / found.cvar_error(0.1),
            found.quantile(0.5) / found.quantile_error(0.5),
        ])  # fmt: skip
    rms = np.sqrt(np.mean(np.square(off), axis=0))
    assert (0.6 < rms).all(), rms
    assert (rms < 1.4).all(), rms


def test_a_policy_that_stays_keeps_the_last_half():
    random = np.random.default_rng(5)
    kept = [recent(random.standard_cauchy(10_000)).num_samples for _ in range(50)]
    assert np.mean(np.array(kept) >= 5_000) > 0.85


@pytest.mark.parametrize("changed_at", [0.6, 0.75, 0.85])
def test_what_was_before_a_change_is_left_out(changed_at):
    random = np.random.default_rng(7)
    rewards = random.normal(size=50_000)
    rewards[: int(changed_at * 50_000)] += 1.0
    found = recent(rewards)
    assert found.num_samples <= (1.0 - changed_at) * 50_000 * 1.5
    assert abs(found.mean) < max(0.05, 3.0 * found.mean_error)


def test_rare_losses_that_ceased_are_left_out_and_others_are_not():
    random = np.random.default_rng(2)
    rewards = np.where(random.random(60_000) < 4e-3, -100.0, random.normal(size=60_000))
    assert recent(rewards).num_samples >= 30_000
    assert recent(rewards).cvar(0.002) == pytest.approx(-100.0, abs=1.0)
    rewards[45_000:] = random.normal(size=15_000)
    assert recent(rewards).num_samples < 20_000


def test_ranks_against_scipy():
    random = np.random.default_rng(1)
    for _ in range(20):
        series = random.integers(0, 6, 16) / 3.0
        expected = mannwhitneyu(series[:8], series[8:], method="asymptotic", use_continuity=False).pvalue
        assert chance_of_equal_halves(series) == pytest.approx(expected)
    assert chance_of_equal_halves(np.full(8, 0.1) + 1e-16 * np.arange(8)) == 1.0
    assert chance_of_equal_halves(np.zeros(8)) == 1.0


def test_equal_rewards_have_no_error_and_a_jump_is_seen():
    found = recent(np.ones(1_000))
    assert (found.mean, found.mean_error, found.num_samples) == (1.0, 0.0, 504)
    assert has_changed(batches(*[[1.0] * 4] * 8, *[[2.0] * 4] * 8))
    assert recent(np.r_[np.ones(700), np.zeros(300)]).mean == 0.0
    undecided = recent(np.r_[np.ones(800), np.zeros(200)])
    assert 0.0 < undecided.mean < 2.0 * undecided.mean_error
    assert recent([]) is None
