"""The distribution people read: numbers by hand, laws that hold for every mixture, a sentence for every bad input."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from perstep.agent.evaluation import distribution_in_order
from perstep.distributions.distribution import Distribution, ThinTail, capped_moments


def red_pill(share_of_red: float) -> Distribution:
    """The reward of red-pill blue-pill when this share of the steps is spent in the red world."""
    blue = (1.0 - share_of_red) / 2.0
    return Distribution([share_of_red, blue, blue], [-0.7, -1.0, -0.2], 0.05, cap=0.0)


EPSILON_BLUE, EPSILON_RED = red_pill(0.05), red_pill(0.95)

# ------------------------------------------------------------------------------------------------- numbers, by hand


def test_three_atoms() -> None:
    # 1 with ½, 2 with ¼, 5 with ¼: mean ½ + ½ + 1¼ = 2¼; E X² = ½ + 1 + 6¼ = 7¾, variance 7¾ − 5.0625 = 2.6875.
    d = Distribution([0.25, 0.5, 0.25], [5.0, 1.0, 2.0])
    assert d.mean == 2.25
    assert d.std == pytest.approx(math.sqrt(2.6875), abs=1e-15)
    assert d.quantile([0.0, 0.1, 0.5, 0.51, 0.75, 0.76, 1.0]).tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0]
    assert d.cdf([0.99, 1.0, 1.5, 2.0, 5.0, 9.0]).tolist() == [0.0, 0.5, 0.5, 0.75, 1.0, 1.0]
    # The worst ¾ are ½ of 1 and ¼ of 2: (½ + ½)/¾ = 4/3. The worst 0.6: (½ + 0.1 · 2)/0.6 = 7/6.
    assert d.cvar([0.3, 0.75, 0.6, 1.0]).tolist() == pytest.approx([1.0, 4 / 3, 7 / 6, 2.25], abs=1e-15)


def test_one_normal_is_the_normal() -> None:
    d = Distribution([1.0], [3.0], [2.0])
    p = np.linspace(0.001, 0.999, 99)
    assert d.quantile(p) == pytest.approx(norm.ppf(p, 3.0, 2.0), abs=1e-13)
    assert d.cdf(d.quantile(p)) == pytest.approx(p, abs=1e-14)
    assert (d.mean, d.std) == (3.0, 2.0)
    # The mean below the p-quantile of a normal is μ − σ φ(z)/p.
    assert d.cvar(p) == pytest.approx(3.0 - 2.0 * norm.pdf(norm.ppf(p)) / p, abs=1e-12)
    assert (d.quantile(0.0), d.quantile(1.0)) == (-math.inf, math.inf)


def test_cap_of_a_normal_against_integration() -> None:
    d = Distribution([1.0], [0.3], [1.5], cap=0.8)
    mean = quad(lambda x: min(x, 0.8) * norm.pdf(x, 0.3, 1.5), -15, 15, points=[0.8], epsabs=1e-13)[0]
    square = quad(lambda x: (min(x, 0.8) - mean) ** 2 * norm.pdf(x, 0.3, 1.5), -15, 15, points=[0.8], epsabs=1e-13)[0]
    assert d.mean == pytest.approx(mean, abs=1e-11)
    assert d.std == pytest.approx(math.sqrt(square), abs=1e-11)
    assert d.quantile([0.9, 1.0]).tolist() == [0.8, 0.8]
    assert d.cdf([0.8, 5.0]).tolist() == [1.0, 1.0]
    assert d.cdf(np.nextafter(0.8, 0.0)) == pytest.approx(norm.cdf(0.5 / 1.5), abs=1e-14)
    assert d.cvar(0.9) == pytest.approx(quad(d.quantile, 0, 0.9, epsabs=1e-10, limit=200)[0] / 0.9, abs=1e-7)


def test_cap_far_above_changes_nothing() -> None:
    means, variances = capped_moments(np.array([-1.0, 2.0]), np.array([0.5, 0.0]), 60.0)
    assert means.tolist() == [-1.0, 2.0]
    assert variances.tolist() == pytest.approx([0.25, 0.0])


def test_red_pill_quantiles() -> None:
    known = [-1.0626, -1.0241, -0.9968, -0.9683, -0.9190, -0.2810, -0.2317, -0.2033, -0.1761, -0.1374]
    levels, quantiles = EPSILON_BLUE.levels_and_quantiles(10)
    assert levels == pytest.approx(np.arange(0.05, 1.0, 0.1))
    assert quantiles == pytest.approx(known, abs=1.3e-4)
    # Below −0.95 only the lower blue half counts: 0.475 Φ((x + 1)/0.05) = p, but for a share of 0.05 Φ(−5) of red.
    assert quantiles[:4] == pytest.approx(-1.0 + 0.05 * norm.ppf(levels[:4] / 0.475), abs=2e-8)
    assert quantiles.mean() == pytest.approx(-0.600, abs=5e-4)
    assert EPSILON_BLUE.levels_and_quantiles(51)[1].mean() == pytest.approx(-0.6059, abs=5e-5)
    assert EPSILON_BLUE.mean == pytest.approx(-0.605, abs=1e-6)
    assert EPSILON_RED.mean == pytest.approx(-0.695, abs=1e-6)


def test_red_pill_cvar() -> None:
    assert EPSILON_RED.cvar(0.25) == pytest.approx(-0.789, abs=5e-4)
    assert EPSILON_BLUE.cvar(0.25) == pytest.approx(-1.038, abs=5e-4)
    mixed = brentq(lambda p: EPSILON_RED.cvar(p) - EPSILON_BLUE.cvar(p), 0.5, 0.95)
    pure = brentq(lambda p: red_pill(1.0).cvar(p) - red_pill(0.0).cvar(p), 0.5, 0.95)
    assert mixed == pytest.approx(0.787, abs=5e-4)
    assert pure == pytest.approx(0.791, abs=5e-4)


def test_atoms_between_normals() -> None:
    # ¼ N(−2, 1), ½ at 0, ¼ N(2, 1): symmetric about 0, and the atom holds every level from ¼ + … to ¾ − ….
    d = Distribution([0.25, 0.5, 0.25], [-2.0, 0.0, 2.0], [1.0, 0.0, 1.0])
    below = 0.25 * norm.cdf(2.0) + 0.25 * norm.cdf(-2.0)
    assert below == pytest.approx(0.25)
    assert d.quantile([0.2501, 0.5, 0.7499]).tolist() == [0.0, 0.0, 0.0]
    p = np.array([0.01, 0.1, 0.2499])
    assert d.quantile(p) == pytest.approx(-d.quantile(1.0 - p), abs=1e-9)
    assert d.cdf(d.quantile(p)) == pytest.approx(p, abs=1e-14)
    assert (d.quantile(0.0), d.quantile(1.0)) == (-math.inf, math.inf)


def test_level_on_a_step_is_that_step() -> None:
    for m in (3, 10, 49, 51, 200):
        d = Distribution.from_quantiles(np.arange(m))
        assert d.quantile(np.arange(1, m + 1) / m).tolist() == list(range(m))


def test_equal_samples_are_merged() -> None:
    d = Distribution.from_samples([2.0, 1.0, 2.0, 2.0])
    assert d.num_components == 2
    assert d.means.tolist() == [1.0, 2.0]
    assert d.weights.tolist() == [0.25, 0.75]
    assert Distribution([0.2, 0.3, 0.5], [1.0, 1.0, 1.0], [0.1, 0.1, 0.2]).num_components == 2
    assert Distribution([0.5, 0.5], [1.0, 9.0], cap=0.0).means.tolist() == [0.0]  # both atoms end at the cap


def test_one_number_gives_one_number() -> None:
    d = EPSILON_BLUE
    for answer in (d.mean, d.std, d.quantile(0.3), d.cdf(-0.5), d.cvar(0.1), d.quantile(np.float64(0.3))):
        assert type(answer) is float
    grid = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert d.quantile(grid).shape == d.cvar(grid).shape == d.cdf(grid).shape == (2, 2)
    assert d.quantile([]).shape == (0,)


def test_samples_follow_the_distribution() -> None:
    d = Distribution([0.3, 0.3, 0.4], [-1.0, 0.5, 0.2], [0.2, 0.0, 1.0], cap=0.7)
    drawn = d.sample(200_000, seed=1)
    assert drawn.max() == 0.7
    for x in (-1.0, 0.0, 0.49, 0.5, 0.69):
        assert (drawn <= x).mean() == pytest.approx(d.cdf(x), abs=4 * 0.5 / math.sqrt(200_000))
    assert drawn.mean() == pytest.approx(d.mean, abs=5 * d.std / math.sqrt(200_000))
    assert np.array_equal(drawn, d.sample(200_000, seed=1))
    assert not np.array_equal(drawn, d.sample(200_000, seed=2))
    assert d.sample(0, seed=0).shape == (0,)


def test_histogram_holds_all_the_mass() -> None:
    for d in (EPSILON_BLUE, Distribution.from_quantiles([1.0, 2.0, 2.0, 4.0]), Distribution.from_samples([3.0])):
        density, edges = d.histogram(40)
        assert edges.shape == (41,)
        assert (density * np.diff(edges)).sum() == pytest.approx(1.0, abs=1e-4)  # tails beyond four sds are left out
    density, edges = Distribution.from_samples([0.0, 1.0, 1.0, 2.0]).histogram([0.0, 1.0, 2.0])
    assert density.tolist() == [0.75, 0.25]  # a bin holds its right edge, the first one both


def test_hundred_thousand_components() -> None:
    random = np.random.default_rng(0)
    weights = random.random(100_000)
    d = Distribution(weights / weights.sum(), random.normal(size=100_000), 0.1 * random.random(100_000))
    p = np.array([0.05, 0.5, 0.95])
    assert d.cdf(d.quantile(p)) == pytest.approx(p, abs=1e-12)
    assert d.cvar(1.0) == d.mean


def test_repr_says_what_one_wants_to_know() -> None:
    assert repr(EPSILON_BLUE) == (
        "Distribution(mean -0.605, std 0.3937, "
        "quantiles 5%: -1.063, 25%: -0.9967, 50%: -0.7, 75%: -0.2033, 95%: -0.1374, "
        "mean of the worst 10%: -1.069, 1%: -1.12)"
    )


def test_it_is_frozen() -> None:
    d = Distribution.from_quantiles([1.0, 2.0])
    with pytest.raises(AttributeError):
        d.cap = 0.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        d.means[0] = 3.0


# ------------------------------------------------------------------------------------------------------------- laws

numbers = st.floats(-1e3, 1e3, allow_subnormal=False)


@st.composite
def mixtures(draw: st.DrawFn) -> Distribution:
    size = draw(st.integers(1, 6))
    weights = np.array(draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), dtype=float)
    means = draw(st.lists(numbers, min_size=size, max_size=size))
    sds = draw(st.lists(st.sampled_from([0.0, 0.0, 0.05, 1.0, 30.0]), min_size=size, max_size=size))
    cap = draw(st.sampled_from([math.inf, math.inf, 0.0, 5.0]))
    return Distribution(weights / weights.sum(), means, sds, cap)


probabilities = st.floats(0.001, 0.999)


@given(mixtures(), probabilities, st.floats(-1500.0, 1500.0))
def test_quantile_and_cdf_are_galois_connected(d: Distribution, p: float, x: float) -> None:
    """quantile(p) ≤ x exactly when p ≤ cdf(x), but for rounding."""
    room = 1e-9
    if p <= d.cdf(x) - 1e-12:
        assert d.quantile(p) <= x + room * (1.0 + abs(x))
    if d.quantile(p) <= x - room * (1.0 + abs(x)):
        assert p <= d.cdf(x) + 1e-12


@given(mixtures(), probabilities)
def test_cdf_reaches_the_level_at_its_quantile_and_not_before(d: Distribution, p: float) -> None:
    x = d.quantile(p)
    assert d.cdf(x) >= p - 1e-10
    assert d.cdf(x - 1e-6 * (1.0 + abs(x))) <= p + 1e-12


@given(mixtures(), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_quantiles_increase(d: Distribution, levels: list[float]) -> None:
    quantiles = d.quantile(sorted(levels))
    assert all(b >= a - 1e-9 * (1.0 + abs(a)) for a, b in pairwise(quantiles) if math.isfinite(a))


@given(mixtures(), probabilities, probabilities)
def test_cvar_increases_to_the_mean(d: Distribution, p: float, q: float) -> None:
    low, high = sorted((p, q))
    room = 1e-9 * (1.0 + abs(d.mean) + d.std)
    assert d.cvar(low) <= d.cvar(high) + room / low
    assert d.cvar(high) <= d.mean + room
    assert d.cvar(1.0) == d.mean
    assert d.cvar(low) <= d.quantile(low) + room


@given(mixtures())
def test_mean_is_the_mean_of_the_quantiles(d: Distribution) -> None:
    _, quantiles = d.levels_and_quantiles(2000)
    assert quantiles.mean() == pytest.approx(d.mean, abs=2e-3 * (1.0 + np.ptp(quantiles)))


@given(st.lists(numbers, min_size=1, max_size=60))
def test_learned_quantiles_keep_their_mean(theta: list[float]) -> None:
    d = Distribution.from_quantiles(theta)
    assert d.mean == pytest.approx(np.mean(theta), abs=1e-12 * (1.0 + np.abs(theta).max()))
    assert d.std == pytest.approx(np.std(theta), abs=1e-5)
    assert np.array_equal(np.sort(theta), d.levels_and_quantiles(len(theta))[1])


@pytest.mark.filterwarnings("ignore::perstep.ThinTail")
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=50), st.integers(1, 50))
def test_samples_agree_with_sorting_them(rewards: list[int], k: int) -> None:
    k = min(k, len(rewards))
    d, ordered = Distribution.from_samples(rewards), np.sort(rewards)
    assert d.quantile(k / len(rewards)) == ordered[k - 1]
    assert d.cvar(k / len(rewards)) == pytest.approx(ordered[:k].mean(), abs=1e-12)


# -------------------------------------------------------------------------------------------------- samples and their errors


def test_exact_distributions_have_no_error() -> None:
    d = Distribution([0.5, 0.5], [0.0, 1.0], 0.3)
    assert (d.num_samples, d.effective_samples) == (None, None)
    assert (d.mean_error, d.quantile_error(0.1), d.cdf_error(0.2), d.cvar_error(0.01)) == (0.0, 0.0, 0.0, 0.0)
    assert d.cvar(1e-9) < 0.0  # and no warning


def test_errors_by_hand() -> None:
    # 0 and 1 a hundred times each: sd ½. At p = ½, q = 0, and no shortfall below it; at p = 0.75, q = 1, (q − X)⁺ has sd ½.
    d = Distribution.from_counts([0.0, 1.0], [100, 100])
    assert (d.num_samples, d.effective_samples) == (200, 200.0)
    assert d.mean_error == pytest.approx(0.5 / math.sqrt(200))
    assert d.cdf_error(0.5) == pytest.approx(0.5 / math.sqrt(200))
    assert d.cvar_error(0.5) == 0.0
    assert d.cvar_error([0.75, 1.0]) == pytest.approx([0.5 / 0.75 / math.sqrt(200), 0.5 / math.sqrt(200)])
    assert d.quantile_error([0.2, 0.5]).tolist() == [0.0, 0.5]  # at ½ the quantile may as well be 1
    assert Distribution.from_counts([0.0, 1.0], [100, 100], 50.0).mean_error == pytest.approx(0.5 / math.sqrt(50))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.9])
def test_errors_are_the_spread_of_repeated_samples(p: float) -> None:
    random = np.random.default_rng(0)
    many = [Distribution.from_samples(random.normal(2.0, 3.0, 1000)) for _ in range(400)]
    for read, error in (
        (lambda d: d.mean, lambda d: d.mean_error),
        (lambda d: d.quantile(p), lambda d: d.quantile_error(p)),
        (lambda d: d.cvar(p), lambda d: d.cvar_error(p)),
        (lambda d: d.cdf(0.0), lambda d: d.cdf_error(0.0)),
    ):
        assert np.mean([error(d) for d in many]) == pytest.approx(np.std([read(d) for d in many]), rel=0.15)


def test_errors_of_normals_are_those_of_their_atoms() -> None:
    smooth = Distribution([0.3, 0.7], [0.0, 2.0], [1.0, 0.0], num_samples=100, effective_samples=80.0)
    draws = Distribution.from_counts(*np.unique(smooth.sample(1_000_000, seed=1), return_counts=True), 80.0)
    for p in (0.1, 0.29, 0.6):
        assert smooth.cvar_error(p) == pytest.approx(draws.cvar_error(p), rel=0.01)
    assert Distribution([1.0], [0.0], [2.0], num_samples=100).cvar_error(1.0) == pytest.approx(0.2)


def test_thin_tails_warn() -> None:
    d = Distribution.from_samples(np.arange(1000.0), effective_samples=500.0)
    with pytest.warns(
        ThinTail,
        match=r"cvar\(0.001\) rests on a tail of about 0.5 independent samples: these 1,000 steps are worth 500",
    ):
        d.cvar(0.001)
    with pytest.warns(ThinTail, match=r"quantile\(0.99\) .* It needs about 2,000 steps"):
        d.quantile(0.99)
    with pytest.warns(ThinTail, match=r"quantile\(0.001\)"):
        d.quantile([0.5, 0.001, 0.01])
    d.quantile([0.0, 0.02, 0.5, 0.98, 1.0])  # no warning, as for all below
    d.cvar([0.02, 1.0])
    assert "1,000 samples" in repr(d)
    repr(Distribution.from_samples([1.0, 2.0]))
    Distribution.from_quantiles([0.0, 1.0]).cvar(0.001)


# -------------------------------------------------------------------------------------------------------- bad input

TWO = Distribution.from_quantiles([0.0, 1.0])


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: TWO.quantile(1.5), r"quantile expects a probability p in \[0, 1\], got 1.5. Give a fraction"),
        (lambda: TWO.quantile(math.nan), "got nan"),
        (lambda: TWO.quantile([0.5, -0.1]), "got -0.1"),
        (lambda: TWO.cvar(0.0), r"cvar expects a probability p in \(0, 1\], got 0"),
        (lambda: TWO.cvar(5), "0.05, not 5"),
        (lambda: TWO.cdf(math.nan), "cdf expects numbers, got NaN"),
        (lambda: TWO.sample(-1), "0 or more, got -1"),
        (lambda: Distribution([1.0], [0.0], num_samples=0), "at least one sample, got 0"),
        (lambda: Distribution([1.0], [0.0], effective_samples=3.0), "num_samples beside effective_samples"),
        (
            lambda: Distribution([1.0], [0.0], num_samples=3, effective_samples=0.0),
            "effective_samples above 0, got 0.0",
        ),
        (lambda: TWO.histogram(0), "at least one bin, got 0"),
        (lambda: TWO.histogram([1.0, 0.0]), "increasing edges"),
        (lambda: TWO.levels_and_quantiles(0), "at least one level, got 0"),
        (lambda: Distribution.from_quantiles([]), r"quantiles as a vector of at least one number.* got shape \(0,\)"),
        (lambda: Distribution.from_samples([[1.0, 2.0]]), r"samples as a vector .* got shape \(1, 2\). Flatten"),
        (lambda: Distribution.from_quantiles([0.0, math.nan]), "finite quantiles, got nan at index 1.*smaller step"),
        (lambda: Distribution([0.5, 0.6], [0.0, 1.0]), "sum to 1, got weights that sum to 1.1. Divide them"),
        (lambda: Distribution([1.5, -0.5], [0.0, 1.0]), "0 or more, got -0.5 as weight 1"),
        (
            lambda: Distribution([1.0], [0.0, 1.0]),
            "1 weights, 2 means and 2 sds. Give three vectors of the same length",
        ),
        (lambda: Distribution([1.0], [0.0], [-1.0]), r"0 or more \(0 for an atom\), got -1"),
        (lambda: Distribution([1.0], [0.0], [math.inf]), "finite sds, got inf at index 0"),
        (lambda: Distribution([1.0], [0.0], cap=math.nan), "the largest value of a draw, got nan"),
    ],
)
def test_bad_input_gets_a_sentence(attempt: object, sentence: str) -> None:
    assert callable(attempt)
    with pytest.raises(ValueError, match=sentence):
        attempt()


def test_a_picture_over_another_one() -> None:
    (axes,) = (
        Distribution([0.5, 0.5], [0.0, 1.0]).plot(label="learnt", beside={"exact": Distribution([1.0], [1.0])}).axes
    )
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "learnt", "exact", "mean of exact 1", "mean 0.5", "mean of the worst 5 % 0"
    ]  # fmt: skip
    (axes,) = EPSILON_BLUE.plot(beside={"other": Distribution([1.0], [1.0])}).axes
    assert axes.get_ylabel() == "density"


def test_an_error_of_quantiles_where_many_rewards_are_equal_ignores_rare_losses() -> None:
    # -2 in 400 of 1,000 steps, more of them in some batches than in others, and one -100: the 5 % quantile stays -2, since
    # P(X < -2) is known to be about 0.001, however uncertain P(X <= -2) is.
    random = np.random.default_rng(0)
    shares = np.repeat(random.uniform(0.1, 0.7, 32), 320)
    values = np.where(random.random(shares.size) < shares, -2.0, 0.0)
    values[[100, 5000]] = -100.0
    found = distribution_in_order(values)
    assert found.quantile(0.05) == -2.0
    assert found.quantile_error(0.05) == 0.0


def test_a_plot_beside_something_else_says_what_it_expects() -> None:
    one = Distribution([0.5, 0.5], [0.0, 1.0], 0.0)
    for wrong in (one, {"x": 3}, [one]):
        with pytest.raises(TypeError, match="other distributions by name"):
            one.plot(beside=wrong)  # type: ignore[arg-type]
