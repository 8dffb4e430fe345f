"""Step sizes by hand, and the table of the paper's assumptions against sums of many of them."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perstep
from perstep.numerics.schedules import Decay, as_decay, assumptions, step_size

POWERS = [0.0, 0.3, 0.5, 0.6, 0.8, 1.0, 1.2]


def test_decay_by_hand():
    # 0.8 / √(1 + ν): 0.8, then 0.8/√2, 0.4 at ν = 3, 0.2 at ν = 15.
    decay = Decay(0.8, 0.5)
    assert [decay(0), decay(1), decay(3), decay(15)] == pytest.approx([0.8, 0.8 / math.sqrt(2), 0.4, 0.2], abs=1e-15)
    # 1 / (1 + ν) is the usual one, and the default power.
    assert [Decay(1.0)(ν) for ν in (0, 1, 2, 9)] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 10], abs=1e-15)


def test_power_zero_is_constant():
    assert {Decay(0.3, 0.0)(ν) for ν in (0, 1, 10, 10**12)} == {0.3}
    assert as_decay(0.3) == Decay(0.3, 0.0)
    assert as_decay(Decay(0.3, 0.7)) == Decay(0.3, 0.7)


@given(st.floats(1e-6, 10), st.floats(0, 3), st.integers(0, 10**9))
def test_compiled_step_is_the_formula(scale, power, visits):
    assert step_size(scale, power, 1.0, visits) == pytest.approx(scale * (1 + visits) ** -power, rel=1e-12)
    assert step_size(scale, power, 4.0, visits) == pytest.approx(scale * (1 + visits / 4) ** -power, rel=1e-12)
    assert Decay(scale, power)(visits) == step_size(scale, power, 1.0, visits)


def test_whole_numbers_and_those_of_numpy_are_kept_as_floats():
    # Compiled code would be compiled anew for an integer.
    for decay in (Decay(1, 2), Decay(np.float32(1), np.int64(2))):
        assert [type(decay.scale), type(decay.power)] == [float, float]
        assert decay == Decay(1.0, 2.0)


@pytest.mark.parametrize("scale", [0, 0.0, -1.0, math.nan, math.inf, -math.inf, "0.1", None, True, [0.1], 10**400])
def test_impossible_scale(scale):
    with pytest.raises(ValueError, match=r"A step size must be a finite number above 0, got .*\. Try 0\.01\."):
        Decay(scale)


@pytest.mark.parametrize("power", [-0.1, math.nan, math.inf, "1", None, True, 10**400])
def test_impossible_power(power):
    with pytest.raises(ValueError, match=r"The power of a decaying step size must be 0 or more, got .*\."):
        Decay(0.1, power)


def test_a_decay_is_frozen():
    with pytest.raises(AttributeError):
        Decay(0.1).scale = 0.2


# --- The assumptions. For c/(1 + n)^p: o(1/log n) iff p > 0; the sum diverges iff p ≤ 1, that of squares iff p ≤ ½;
# the ratio of two falls to 0 iff the powers differ the right way; the share of the first half tends to 1 iff p ≥ 1.


def test_truth_table_by_hand():
    # α = c/n (p = 1), α_θ = c/n^0.6: the two timescales of the theorem. All but the evenly spread sums.
    found = assumptions(Decay(0.5, 1.0), Decay(0.7, 0.6))
    assert found == {
        "α = o(1/log n)": True,
        "α_θ = o(1/log n)": True,
        "Σα = ∞": True,
        "Σα_θ = ∞": True,
        "Σα² < ∞": True,
        "Σα_θ² < ∞": True,
        "α/α_θ → 0": True,
        "Σ_{j≤yi} α_j / Σ_{j≤i} α_j → 1": False,
    }
    # Constants: the sums diverge, and nothing else holds.
    assert [name for name, met in assumptions(0.1, 0.2).items() if met] == ["Σα = ∞", "Σα_θ = ∞"]
    # Both 1/n: one timescale, evenly spread.
    even = assumptions(Decay(1.0), Decay(2.0))
    assert (even["α/α_θ → 0"], even["Σ_{j≤yi} α_j / Σ_{j≤i} α_j → 1"]) == (False, True)


@functools.cache
def sums(power, squared=False):
    """Partial sums of 1/n^p (or its square) up to 10², 10⁴ and 10⁶."""
    terms = np.arange(1.0, 10**6 + 1) ** (-power * (2 if squared else 1))
    total = np.cumsum(terms)
    return total[[10**2 - 1, 10**4 - 1, 10**6 - 1]]


def converges(partial):
    """Whether the second stretch of two decades adds less than 0.45 of the first: for exponent s it adds 100^(1 − s) of it,
    which is 1 at the border s = 1, and 0.40 at 1.2, the nearest convergent one here."""
    return partial[2] - partial[1] < 0.45 * (partial[1] - partial[0])


@pytest.mark.parametrize("alpha", POWERS)
@pytest.mark.parametrize("theta", POWERS)
def test_truth_table_against_partial_sums(alpha, theta):
    found = assumptions(Decay(0.3, alpha), Decay(0.2, theta))
    n = 1e100  # what is o(1/log n) is far below 1/log n there
    assert found["α = o(1/log n)"] == (n**-alpha * math.log(n) < 1e-3)
    assert found["α_θ = o(1/log n)"] == (n**-theta * math.log(n) < 1e-3)
    assert found["Σα = ∞"] == (not converges(sums(alpha)))
    assert found["Σα_θ = ∞"] == (not converges(sums(theta)))
    assert found["Σα² < ∞"] == converges(sums(alpha, squared=True))
    assert found["Σα_θ² < ∞"] == converges(sums(theta, squared=True))
    assert found["α/α_θ → 0"] == (n ** (theta - alpha) < 1e-3)
    assert found["Σ_{j≤yi} α_j / Σ_{j≤i} α_j → 1"] == all(share_of_first_half(p) > 0.94 for p in (alpha, theta))


@functools.cache
def share_of_first_half(power):
    """Of the sum of 1/n^p up to 10⁶."""
    terms = np.arange(1.0, 10**6 + 1) ** -power
    return terms[: 10**6 // 2].sum() / terms.sum()


def test_the_share_of_the_first_half():
    # ln(i/2) / ln(i) = 1 − 0.693/13.8 = 0.95 at i = 10⁶ for p = 1, and so on to 1; but 2^(p−1) for ever for p < 1, which
    # is 0.87 for 0.8, 0.76 for 0.6 and ½ for constants. For p > 1 the sum is finite, and the share tends to 1.
    shares = [share_of_first_half(power) for power in (1.0, 0.8, 0.6, 0.0)]
    assert shares == pytest.approx([0.95, 2**-0.2, 2**-0.4, 0.5], abs=0.02)
    assert share_of_first_half(1.2) > 0.98


def test_no_pair_of_this_family_meets_all():
    for alpha in POWERS:
        for theta in POWERS:
            found = assumptions(Decay(1.0, alpha), Decay(1.0, theta))
            assert not all(found.values())


def test_they_are_public():
    assert perstep.assumptions is assumptions
    assert perstep.Decay is Decay
