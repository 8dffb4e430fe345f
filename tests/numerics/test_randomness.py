"""The generator against big-integer arithmetic, and its numbers against the distributions they claim."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import draw, make_generator, next_word, normal, uniform

MANY = 1_000_000
WORD = 2**64 - 1


@compiled
def fill_words(generator, out):
    for i in range(out.shape[0]):
        out[i] = next_word(generator)


@compiled
def fill_uniform(generator, out):
    for i in range(out.shape[0]):
        out[i] = uniform(generator)


@compiled
def fill_normal(generator, out):
    for i in range(out.shape[0]):
        out[i] = normal(generator)


@compiled
def count_draws(chances, generator, counts, num_draws):
    for _ in range(num_draws):
        counts[draw(chances, generator)] += 1


def rotated(x, k):
    return ((x << k) | (x >> (64 - k))) & WORD


def xoshiro256plusplus(state, count):
    """Blackman & Vigna's reference (prng.di.unimi.it/xoshiro256plusplus.c), with Python's integers."""
    s, words = list(state), []
    for _ in range(count):
        words.append((rotated((s[0] + s[3]) & WORD, 23) + s[0]) & WORD)
        t = (s[1] << 17) & WORD
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)
    return words, s


def words_of(state, count):
    generator, out = np.array(state, np.uint64), np.zeros(count, np.uint64)
    fill_words(generator, out)
    return out.tolist(), generator.tolist()


def test_thousand_words_are_those_of_the_reference():
    state = make_generator(12345).tolist()
    assert words_of(state, 1000) == xoshiro256plusplus(state, 1000)


def test_first_word_by_hand():
    # State 1, 2, 3, 4: 1 + 4 = 5, rotated by 23 is 5 · 2²³ = 41943040, plus 1. Then s2 = 3 ^ 1 = 2, s3 = 4 ^ 2 = 6,
    # s1 = 2 ^ 2 = 0, s0 = 1 ^ 6 = 7, s2 = 2 ^ (2 · 2¹⁷) = 2 ^ 262144 = 262146, s3 = 6 · 2⁴⁵.
    assert words_of([1, 2, 3, 4], 1) == ([41943041], [7, 0, 262146, 6 << 45])


@given(st.lists(st.integers(0, WORD), min_size=4, max_size=4))
def test_words_from_any_state(state):
    assert words_of(state, 5) == xoshiro256plusplus(state, 5)


def test_a_generator_is_four_words_and_the_same_for_the_same_numbers():
    generator = make_generator(7, 2)
    assert (generator.shape, generator.dtype) == ((4,), np.uint64)
    assert generator.tolist() == make_generator(7, 2).tolist()


def test_every_tuple_has_a_generator_of_its_own():
    # Also tuples that differ by zeros at the end, and a number of 33 bits that looks like two of 32.
    few = [0, 1, 2, 5, 2**31, 2**32 - 1]
    tuples = [key for size in (1, 2, 3) for key in itertools.product(few, repeat=size)]
    tuples += [(2**32 + 5,), (2**32,), (2**64 + 1,), (5, 0, 0, 0), (5, 0, 0, 0, 0)]
    states = {tuple(make_generator(*key).tolist()) for key in tuples}
    assert len(states) == len(tuples)


def test_two_interleaved_generators_are_each_alone():
    alone = [np.zeros(100) for _ in range(2)]
    for out, seed in zip(alone, (1, 2), strict=True):
        fill_normal(make_generator(seed), out)
    first, second = make_generator(1), make_generator(2)
    together = np.array([(normal(first), normal(second)) for _ in range(100)])
    assert together.T.tolist() == [out.tolist() for out in alone]


def test_a_copied_generator_goes_on_alike():
    generator, out = make_generator(3), np.zeros(37)
    fill_normal(generator, out)
    twin, rest, same = generator.copy(), np.zeros(50), np.zeros(50)
    fill_normal(generator, rest)
    fill_normal(twin, same)
    assert rest.tolist() == same.tolist()


def test_uniform_numbers_are_the_upper_53_bits():
    # All bits set: (2⁵³ − 1) / 2⁵³, below 1. A generator whose next word is 0 gives 0.
    state = make_generator(4).tolist()
    (word,), _ = xoshiro256plusplus(state, 1)
    assert uniform(np.array(state, np.uint64)) == (word >> 11) / 2**53
    assert uniform(np.zeros(4, np.uint64)) == 0.0
    # s0 = 2⁶⁴ − 1 and s3 = 1: their sum is 0, so the word is s0, all ones.
    assert uniform(np.array([WORD, 0, 0, 1], np.uint64)) == 1.0 - 2.0**-53


def test_uniform_numbers_are_uniform():
    x = np.zeros(MANY)
    fill_uniform(make_generator(5), x)
    assert 0.0 <= x.min() < 1e-5 < 1 - 1e-5 < x.max() < 1.0
    # Mean ½, variance 1/12: sd of the means of a million are 2.9e-4 and 7.5e-5. Five of them are allowed.
    assert x.mean() == pytest.approx(0.5, abs=1.5e-3)
    assert x.var() == pytest.approx(1 / 12, abs=4e-4)
    assert np.corrcoef(x[:-1], x[1:])[0, 1] == pytest.approx(0.0, abs=5e-3)
    assert stats.kstest(x, "uniform").pvalue > 1e-4


def test_normal_numbers_are_normal():
    x = np.zeros(MANY)
    fill_normal(make_generator(6), x)
    # Sds of the first four moments of a million: 1e-3, √2 e-3, √15 e-3, √96 e-3. Five of them are allowed.
    assert x.mean() == pytest.approx(0.0, abs=5e-3)
    assert (x**2).mean() == pytest.approx(1.0, abs=7.1e-3)
    assert (x**3).mean() == pytest.approx(0.0, abs=1.95e-2)
    assert (x**4).mean() == pytest.approx(3.0, abs=4.9e-2)
    assert np.corrcoef(x[:-1], x[1:])[0, 1] == pytest.approx(0.0, abs=5e-3)
    assert stats.kstest(x, "norm").pvalue > 1e-4


@pytest.mark.parametrize("threshold", [1.0, 2.0, 3.0, 3.5, 3.6541528853610088, 3.8, 4.2])
def test_tails_of_normal_numbers(threshold, four_million):
    # A count with mean μ = N·P(X > t) is off by √μ; beyond 3.654 the numbers come from the algorithm's tail branch.
    chance = stats.norm.sf(threshold)
    for count in ((four_million > threshold).sum(), (four_million < -threshold).sum()):
        expected = len(four_million) * chance
        assert count == pytest.approx(expected, abs=5 * np.sqrt(expected) + 1)


def test_the_tail_has_the_shape_of_a_normal_tail(four_million):
    tail = np.abs(four_million[np.abs(four_million) > 3.6541528853610088])
    cut = stats.norm.sf(3.6541528853610088)
    assert len(tail) > 800
    assert stats.kstest(tail, lambda x: 1 - stats.norm.sf(x) / cut).pvalue > 1e-4


@pytest.fixture(scope="module")
def four_million():
    x = np.zeros(4 * MANY)
    fill_normal(make_generator(8), x)
    return x


@pytest.mark.parametrize("chances", [[1.0], [0.5, 0.5], [0.1, 0.0, 0.6, 0.3], [0.0, 1.0, 0.0], [1e-4, 1 - 1e-4]])
def test_draws_have_their_probabilities(chances):
    counts, num_draws = np.zeros(len(chances), np.int64), 400_000
    count_draws(np.array(chances), make_generator(9), counts, num_draws)
    for count, chance in zip(counts, chances, strict=True):
        assert count == pytest.approx(num_draws * chance, abs=5 * np.sqrt(num_draws * chance * (1 - chance)))


def test_a_draw_takes_one_uniform_number_and_ends_inside():
    # Rounding may leave the probabilities a little short of 1; the last index takes what is left.
    chances = np.array([0.25, 0.25, 0.5 - 1e-9])
    generator, twin = np.array([WORD, 0, 0, 1], np.uint64), np.array([WORD, 0, 0, 1], np.uint64)
    assert draw(chances, generator) == 2  # at 1 − 2⁻⁵³, beyond the sum
    uniform(twin)
    assert generator.tolist() == twin.tolist()
