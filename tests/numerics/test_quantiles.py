"""Levels, pulls and tracking: by hand, against plain double loops, and against gradients of the losses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perstep.numerics.quantiles import (
    huber_pulls,
    levels,
    mean,
    quantile_pulls,
    sort_between_infinities,
    track,
    walk,
)


def quantile_by_listing(shift, targets, estimates, tau):
    """(1/n) Σ_k [τ_j − 1{shift + y_k − x_j < 0}], the inner loop of Alg. 7 and 8."""
    pulls = []
    for x, t in zip(estimates, tau, strict=True):
        pulls.append(sum(t - (1 if shift + y - x < 0 else 0) for y in targets) / len(targets))
    return pulls


def quantile_by_count(shift, targets, estimates, tau):
    """The same with y_k < x_j − shift: equal but for the rounding of one subtraction."""
    return [t - sum(y < x - shift for y in targets) / len(targets) for x, t in zip(estimates, tau, strict=True)]


def huber_by_listing(shift, targets, estimates, tau, huber):
    """(1/n) Σ_k |τ_j − 1{x<0}| clip(x, ±λ), the slope of h at x = shift + y_k − x_j."""
    pulls = []
    for x_j, t in zip(estimates, tau, strict=True):
        terms = []
        for y in targets:
            x = shift + y - x_j
            terms.append(abs(t - (1 if x < 0 else 0)) * max(-huber, min(huber, x)))
        pulls.append(math.fsum(terms) / len(targets))
    return pulls


def quantile_huber_loss(x, tau, huber):
    """h of the paper, case by case."""
    weight = abs(tau - (1 if x < 0 else 0))
    return weight * 0.5 * x * x if abs(x) <= huber else weight * huber * (abs(x) - 0.5 * huber)


def pulls_of(shift, targets, estimates, tau=None):
    targets, estimates = np.array(targets, float), np.array(estimates, float)
    tau = levels(len(estimates)) if tau is None else np.array(tau, float)
    pulls = np.full(len(estimates), np.nan)
    quantile_pulls(shift, 1.0, targets, estimates, tau, np.zeros(len(targets) + 2), pulls)
    return pulls


def huber_pulls_of(shift, targets, estimates, huber, tau=None):
    targets, estimates = np.array(targets, float), np.array(estimates, float)
    tau = levels(len(estimates)) if tau is None else np.array(tau, float)
    pulls, room = np.full(len(estimates), np.nan), np.zeros(len(targets) + 2)
    huber_pulls(shift, 1.0, targets, estimates, tau, huber, room, np.zeros(len(targets) + 1), pulls)
    return pulls


def lists(numbers, largest=30):
    return st.lists(numbers, min_size=1, max_size=largest)


# Quarters: sums and differences of a few are exact, so that ties are ties whichever way one computes them.
quarters = st.integers(-20, 20).map(lambda k: k / 4)
moderate = st.floats(-100, 100)
anything = st.floats(allow_nan=False, allow_infinity=False)


# --- Levels and means


def test_levels_are_midpoints():
    # m = 1: 1/2. m = 2: 1/4, 3/4. m = 5: 0.1, 0.3, 0.5, 0.7, 0.9. m = 10: 0.05, 0.15, … 0.95.
    assert levels(1).tolist() == [0.5]
    assert levels(2).tolist() == [0.25, 0.75]
    assert levels(5) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9], abs=1e-16)
    assert levels(10) == pytest.approx(np.arange(0.05, 1, 0.1), abs=1e-15)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 51, 200])
def test_levels_are_symmetric_evenly_spaced_and_inside(count):
    tau = levels(count)
    assert tau.shape == (count,)
    assert 0 < tau[0] <= tau[-1] < 1
    assert tau + tau[::-1] == pytest.approx(np.ones(count), abs=1e-15)
    assert np.diff(tau) == pytest.approx(np.full(count - 1, 1 / count), abs=1e-15)


@pytest.mark.parametrize("count", range(1, 61))
def test_mean_of_every_length(count):
    # Four lanes and a rest: every length modulo 4, with numbers whose sum cancels to a thousandth of its terms.
    rng = np.random.default_rng(count)
    x = np.concatenate([rng.normal(size=count // 2), rng.normal(scale=1000, size=count - count // 2)])
    exact = math.fsum(x) / count
    assert mean(x) == pytest.approx(exact, rel=0, abs=1e-12 * np.abs(x).max())


def test_mean_of_one_is_the_number_itself():
    assert mean(np.array([0.1])) == 0.1


# --- Tracking


def test_track_by_hand():
    # τ = 1/6, 3/6, 5/6; R = 1 is below θ₃ = 2 alone, not below θ₂ = 1, which it equals.
    # θ₁ = 0 + 0.6/6 = 0.1; θ₂ = 1 + 0.6/2 = 1.3; θ₃ = 2 + 0.6 (5/6 − 1) = 1.9.
    theta = np.array([0.0, 1.0, 2.0])
    track(theta, levels(3), 1.0, 0.6)
    assert theta == pytest.approx([0.1, 1.3, 1.9], abs=1e-15)


@given(lists(quarters), quarters, st.floats(0, 10))
def test_one_step_of_track_is_the_listing(theta, reward, step):
    tau = levels(len(theta))
    expected = [x + step * (t - (1 if reward < x else 0)) for x, t in zip(theta, tau, strict=True)]
    found = np.array(theta)
    track(found, tau, reward, step)
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


def test_theta_settles_at_the_quantiles_of_the_rewards():
    # Rewards uniform on [0, 1]: the τ-quantile is τ. Near it θ moves by −α (θ − τ) on average and by a noise of variance
    # α² τ(1−τ), so it settles with variance α τ(1−τ) / 2 ≤ 2.5e-4 at α = 2e-3: within 5 sd = 0.08 at any moment, and
    # much closer on average over the second half. From 5.0 the slowest gets there in 4.1 / (α/8) = 16,500 steps.
    rng = np.random.default_rng(1)
    theta, tau, total = np.full(4, 5.0), levels(4), np.zeros(4)
    for t, reward in enumerate(rng.random(60_000)):
        track(theta, tau, reward, 2e-3)
        if t >= 30_000:
            total += theta
    assert theta == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.08)
    assert total / 30_000 == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.01)


def test_theta_of_a_discrete_reward_settles_at_its_values():
    # R = 0 with probability 0.3, else 1. F⁻¹(1/4) = 0 and F⁻¹(3/4) = 1; at an atom θ moves by at most a step either way.
    rng = np.random.default_rng(2)
    theta, tau = np.array([0.5, 0.5]), levels(2)
    for reward in (rng.random(30_000) >= 0.3).astype(float):
        track(theta, tau, reward, 1e-3)
    assert theta == pytest.approx([0.0, 1.0], abs=0.02)


# --- Sorting


@given(lists(anything))
def test_sort_between_infinities_sorts_a_copy(x):
    given_x, out = np.array(x), np.zeros(len(x) + 2)
    sort_between_infinities(given_x, out)
    assert out.tolist() == [-math.inf, *sorted(x), math.inf]
    assert given_x.tolist() == x


def test_sort_between_infinities_takes_infinities_as_values():
    out = np.zeros(5)
    sort_between_infinities(np.array([math.inf, 0.0, -math.inf]), out)
    assert out.tolist() == [-math.inf, -math.inf, 0.0, math.inf, math.inf]


@given(lists(quarters), lists(quarters))
def test_walk_counts_from_anywhere(x, bars):
    ordered, place = np.array([-math.inf, *sorted(x), math.inf]), 0
    for bar in bars:
        place = walk(ordered, place, bar)
        assert place == sum(value < bar for value in x)


# --- Pulls of the quantile loss


def test_quantile_pulls_by_hand():
    # Targets 3, 0, 1 with shift 1 are 4, 1, 2. τ = ¼, ¾.
    # x = 2: one target (1) is below, 2 is not: ¼ − ⅓ = −1/12. x = 9: all below: ¾ − 1 = −¼.
    assert pulls_of(1.0, [3, 0, 1], [2, 9]) == pytest.approx([-1 / 12, -1 / 4], abs=1e-15)


@given(quarters, lists(quarters), lists(quarters))
@example(0.0, [1.0, 1.0, 1.0], [1.0, 1.0])  # all equal: nothing is below
@example(0.5, [3.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0])  # reversed
@example(-0.25, [0.0], [0.0, -0.25, 0.25])  # one target, and estimates on either side of it
def test_quantile_pulls_are_the_listing(shift, targets, estimates):
    found = pulls_of(shift, targets, estimates)
    assert found == pytest.approx(quantile_by_listing(shift, targets, estimates, levels(len(estimates))), abs=1e-12)


@given(anything, lists(anything), lists(anything))
@example(1.7e308, [0.0], [-1.7e308])  # the bar overflows to −∞, and nothing is below it
@example(-1.7e308, [0.0], [1.7e308])  # and to +∞, and all are
@example(0.0, [1e308, -1e308, 5e-324, 0.0, -0.0], [5e-324, -1e308, 0.0])
def test_quantile_pulls_of_any_numbers(shift, targets, estimates):
    found = pulls_of(shift, targets, estimates)
    with np.errstate(over="ignore"):
        assert found == pytest.approx(quantile_by_count(shift, targets, estimates, levels(len(estimates))), abs=1e-12)


@given(quarters, lists(quarters), lists(quarters), st.randoms(use_true_random=False))
def test_quantile_pulls_do_not_depend_on_the_order(shift, targets, estimates, random):
    tau = levels(len(estimates))
    shuffled = random.sample(targets, len(targets))
    order = random.sample(range(len(estimates)), len(estimates))
    straight = pulls_of(shift, targets, estimates, tau)
    crooked = pulls_of(shift, shuffled, [estimates[j] for j in order], tau[order])
    assert crooked.tolist() == straight[order].tolist()


def test_quantile_pulls_of_infinite_estimates():
    # Nothing is below −∞, everything below +∞: τ and τ − 1.
    assert pulls_of(0.0, [1, 2], [-math.inf, math.inf]) == pytest.approx([0.25, -0.25], abs=1e-15)


def test_quantile_pulls_vanish_at_the_quantiles():
    # Targets 1 … 8 and n = 4, τ = 1/8, 3/8, 5/8, 7/8: x between the k-th and the next target has k/8 below it.
    assert pulls_of(0.0, [8, 7, 6, 5, 4, 3, 2, 1], [1.5, 3.5, 5.5, 7.5]).tolist() == [0, 0, 0, 0]


# --- Pulls of the quantile Huber loss


def test_huber_pulls_by_hand():
    # λ = 1, one estimate x = 0, τ = ½, shift 0. Targets −3 (clipped to −1), −0.5, 0.25, 2 (clipped to 1):
    # ½ (−1 − 0.5 + 0.25 + 1) / 4 = −0.03125.
    assert huber_pulls_of(0.0, [2, -0.5, 0.25, -3], [0], 1.0) == pytest.approx([-0.03125], abs=1e-15)
    # τ = ¼ weighs what is above by ¼ and what is below by ¾: (¾ (−1.5) + ¼ (1.25)) / 4 = −0.203125.
    assert huber_pulls_of(0.0, [2, -0.5, 0.25, -3], [0], 1.0, [0.25]) == pytest.approx([-0.203125], abs=1e-15)


@given(moderate, lists(moderate), lists(moderate), st.floats(1e-3, 50))
@example(0.0, [1.0, 1.0, 1.0], [1.0, 1.0], 1.0)
@example(0.0, [0.0, 1.0, -1.0, 2.0], [0.0, 1.0], 1.0)  # targets exactly λ away
@example(0.5, [3.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0], 0.5)
def test_huber_pulls_are_the_listing(shift, targets, estimates, huber):
    found = huber_pulls_of(shift, targets, estimates, huber)
    expected = huber_by_listing(shift, targets, estimates, levels(len(estimates)), huber)
    # Running sums of up to 30 numbers of up to 100 round by some 1e-12, and so does the answer.
    assert found == pytest.approx(expected, rel=0, abs=1e-11)


@pytest.mark.parametrize("huber", [0.3, 1.0, 4.0])
def test_huber_pulls_are_minus_the_slope_of_the_loss(huber):
    # Loss of the paper's Alg. 9: Σ_j mean_k h(shift + y_k − x_j). Central differences of a piecewise quadratic function
    # are exact but for rounding (1e-16 / 1e-6) and where a kink falls between: none of these random numbers is that near.
    rng = np.random.default_rng(3)
    targets, estimates, shift, tau = rng.normal(size=9), rng.normal(size=7), 0.4, levels(7)

    def loss(x):
        pairs = zip(x, tau, strict=True)
        return math.fsum(quantile_huber_loss(shift + y - x_j, t, huber) / 9 for x_j, t in pairs for y in targets)

    slopes = []
    for j in range(len(estimates)):
        nudge = np.zeros(len(estimates))
        nudge[j] = 1e-5
        slopes.append((loss(estimates + nudge) - loss(estimates - nudge)) / 2e-5)
    assert huber_pulls_of(shift, targets, estimates, huber) == pytest.approx(-np.array(slopes), rel=0, abs=1e-9)


@pytest.mark.parametrize("huber", [0.3, 1.0, 4.0])
def test_pulls_are_minus_the_gradient_by_torch(huber):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    targets, estimates, shift, tau = rng.normal(size=11), rng.normal(size=6), -0.7, levels(6)
    x = torch.tensor(estimates, requires_grad=True)
    error = shift + torch.tensor(targets)[None, :] - x[:, None]  # (j, k)
    weight = (torch.tensor(tau)[:, None] - (error.detach() < 0).double()).abs()
    quadratic = torch.where(error.abs() <= huber, 0.5 * error**2, huber * (error.abs() - 0.5 * huber))
    (weight * quadratic).mean(dim=1).sum().backward()
    assert huber_pulls_of(shift, targets, estimates, huber) == pytest.approx(-x.grad.numpy(), rel=0, abs=1e-14)
    x.grad = None
    # The quantile loss itself, ρ_τ(e) = e (τ − 1{e < 0}), Eq. 6.
    error = shift + torch.tensor(targets)[None, :] - x[:, None]
    (error * (torch.tensor(tau)[:, None] - (error.detach() < 0).double())).mean(dim=1).sum().backward()
    assert pulls_of(shift, targets, estimates) == pytest.approx(-x.grad.numpy(), rel=0, abs=1e-14)


@given(quarters, lists(quarters), lists(quarters))
def test_huber_pulls_over_lambda_become_quantile_pulls(shift, targets, estimates):
    # With λ = 1/8 every quarter that is not a tie is beyond λ: |τ − 1{x<0}| sign(x) = τ − 1{x<0}. A tie has x = 0, whose
    # clip is 0, while the quantile pull takes τ: they differ by τ_j times the share of ties.
    tau = levels(len(estimates))
    ties = [sum(shift + y == x for y in targets) / len(targets) for x in estimates]
    found = huber_pulls_of(shift, targets, estimates, 0.125) / 0.125
    assert found == pytest.approx(pulls_of(shift, targets, estimates) - tau * ties, rel=0, abs=1e-12)


def test_huber_pulls_of_a_wide_lambda_are_expectile_pulls():
    # Nothing is clipped: |τ − 1{x<0}| x. Targets −1, 3 and x = 0, τ = ½: ½ (−1 + 3) / 2 = ½.
    assert huber_pulls_of(0.0, [3, -1], [0], 1e6) == pytest.approx([0.5], abs=1e-9)


@given(lists(moderate, 20), lists(moderate, 20), st.floats(0.01, 10))
def test_no_pull_exceeds_lambda(targets, estimates, huber):
    tau = levels(len(estimates))
    found = huber_pulls_of(0.0, targets, estimates, huber)
    assert (np.abs(found) <= np.maximum(tau, 1 - tau) * huber + 1e-10).all()


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.0])
def test_scaled_targets_are_targets_that_were_scaled(scale):
    """With γ: shift + γ y_k in place of the targets themselves, for both losses."""
    rng = np.random.default_rng(3)
    n, shift = 11, 0.3
    targets, estimates, tau = rng.normal(size=n), rng.normal(size=n), levels(n)
    scaled, plain = np.zeros(n), np.zeros(n)
    quantile_pulls(shift, scale, targets, estimates, tau, np.zeros(n + 2), scaled)
    quantile_pulls(shift, 1.0, scale * targets, estimates, tau, np.zeros(n + 2), plain)
    np.testing.assert_array_equal(scaled, plain)
    huber_pulls(shift, scale, targets, estimates, tau, 0.4, np.zeros(n + 2), np.zeros(n + 1), scaled)
    huber_pulls(shift, 1.0, scale * targets, estimates, tau, 0.4, np.zeros(n + 2), np.zeros(n + 1), plain)
    np.testing.assert_allclose(scaled, plain, rtol=0, atol=1e-15)
