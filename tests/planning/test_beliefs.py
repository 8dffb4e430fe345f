"""What is believed of what was seen and of what was not: by hand, by integrals and by many draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from perstep.numerics.randomness import make_generator
from perstep.planning import beliefs
from perstep.planning.beliefs import (
    DIFFER,
    GAIN,
    MEAN,
    RECENT_NEW_STATES,
    VISITED,
    doubling,
    draw_model,
    enter,
    gamma,
    mean_with_risk,
    new_draw,
    new_experience,
    note_outcome,
    reward_error,
    share_with_unseen,
    unseen_chance,
)
from perstep.planning.counts import new_counts, take_note


@pytest.mark.parametrize(("visits", "k"), [(0, 0), (0.5, 0), (1, 1), (1.9, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4)])
def test_doublings_of_visits(visits, k):
    assert doubling(float(visits)) == k


# The chance of what a pair has not shown


def test_an_unseen_outcome_by_hand():
    # π = 1: 1/((n + 1)(n + 2)) / (1/(n + 1)) = 1/(n + 2), Laplace's rule. n = 0: 1/2; n = 8: 1/10.
    assert unseen_chance(1.0, 0.0) == pytest.approx(1 / 2)
    assert unseen_chance(1.0, 8.0) == pytest.approx(1 / 10)
    # π = 1/2, n = 1: (1/2)/(2·3) / (1/2 + (1/2)/2) = (1/12)/(3/4) = 1/9.
    assert unseen_chance(0.5, 1.0) == pytest.approx(1 / 9)
    assert unseen_chance(0.0, 5.0) == 0.0


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("visits", [0, 1, 10, 1000])
def test_an_unseen_outcome_is_bayes_rule(share, visits):
    """With chance π there is an outcome of chance p, uniform in [0, 1]: P(next shows it, n did not) / P(n did not)."""
    shown_next = share * quad(lambda p: p * (1 - p) ** visits, 0, 1, limit=500)[0]
    not_yet = 1 - share + share * quad(lambda p: (1 - p) ** visits, 0, 1, limit=500)[0]
    assert unseen_chance(share, float(visits)) == pytest.approx(shown_next / not_yet, rel=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_chances_of_unseen_outcomes_sum_to_their_share(share):
    """The first time is at one of the visits, or never: Π (1 − chance) goes to 1 − π."""
    never = np.prod([1.0 - unseen_chance(share, float(n)) for n in range(20_000)])
    assert never == pytest.approx(1 - share, abs=1e-4)


def test_share_of_surprises_by_hand():
    # π₁ = (1 + 1)/(3 + 1) = 1/2; π₂ = (0 + 1/2)/(1 + 1) = 1/4; π₃ = min(1, (9 + 1/4)/(1 + 1)) = 1; nothing is known of k = 4.
    experience = new_experience(1, 1)
    experience.expected[1:4] = 3.0, 1.0, 1.0
    experience.new_successors[1:4] = 1.0, 0.0, 9.0
    shares = [share_with_unseen(experience, experience.new_successors, k) for k in range(5)]
    assert shares == [1.0, 0.5, 0.25, 1.0, 1.0]


def test_tries_are_noted_at_their_doubling():
    # Tries of pairs that had n = 1, 2 and 3: expected 1/6 at k = 1, 1/12 + 1/20 = 2/15 at k = 2.
    experience = new_experience(1, 4)
    note_outcome(experience, 1.0, True, False)
    note_outcome(experience, 2.0, True, True)
    note_outcome(experience, 3.0, False, False)
    np.testing.assert_allclose(experience.expected[:3], [0, 1 / 6, 2 / 15])
    assert experience.new_successors[:3].tolist() == [0, 1, 1]
    assert experience.new_states[:3].tolist() == [0, 0, 1]


def test_news_of_late_are_those_of_the_later_half():
    rng, seen = np.random.default_rng(0), []
    experience = new_experience(1, 300)
    for _ in range(300):
        is_new = bool(rng.random() < 0.4)
        seen.append(is_new)
        note_outcome(experience, 0.0, True, is_new)
        assert experience.numbers[VISITED] == len(seen)
        assert experience.numbers[RECENT_NEW_STATES] == sum(seen[len(seen) // 2 :])
    note_outcome(experience, 0.5, True, True)  # counts that fade: a first visit again, for which there is no room
    assert experience.numbers[VISITED] == 300


def test_states_are_met_in_order():
    experience = new_experience(5, 10)
    assert [bool(enter(experience, state, clock)) for clock, state in enumerate([3, 1, 3, 0])] == [1, 1, 0, 1]
    assert experience.order[:3].tolist() == [3, 1, 0]
    assert experience.entered.tolist() == [1, 1, 0, 2, 0]
    assert experience.last.tolist() == [3, 1, 0, 2, 0]


# Draws


@pytest.mark.parametrize("shape", [0.1, 0.9, 1.0, 3.0, 500.0])
def test_gamma_draws_have_the_distribution(shape):
    generator = make_generator(1)
    drawn = np.array([gamma(shape, generator) for _ in range(20_000)])
    error = np.sqrt(shape / drawn.size)
    assert drawn.mean() == pytest.approx(shape, abs=4 * error)
    assert drawn.var() == pytest.approx(shape, rel=0.15)
    assert stats.kstest(drawn, "gamma", args=(shape,)).pvalue > 1e-3


def counted(seen, num_states, num_actions):
    """Counts and experience of (state, action, reward, next state), as a life takes note of them."""
    from perstep.planning.life import learn
    from perstep.planning.plan import new_plan

    pairs = num_states * num_actions
    learnt = (
        new_counts(pairs),
        new_experience(num_states, pairs),
        new_draw(pairs, 256),
        new_plan(num_states, pairs),
    )
    enter(learnt[1], seen[0][0], 0)
    for clock, (state, action, reward, following) in enumerate(seen):
        learn(learnt, state, action, reward, following, clock)
    return learnt


def test_a_model_of_very_many_tries_is_what_was_seen():
    learnt = counted([(0, 0, 1.0, 0), (0, 0, 3.0, 1), (1, 0, 0.0, 0), (0, 0, 2.0, 1), (1, 0, 0.0, 0)], 2, 1)
    counts, experience, draw, _ = learnt
    for name in ("visits", "seen", "weight", "spread"):
        getattr(counts, name)[:] *= 1e10
    experience.sums[beliefs.REWARD_SPREAD] = 0.0
    draw_model(counts, experience, draw, 1, 5.0, 5.0, 1.0, make_generator(0))
    chances = {int(draw.follower[i]): draw.chance[i] for i in range(draw.begin[0], draw.end[0])}
    assert chances == pytest.approx({0: 1 / 3, 1: 2 / 3}, abs=1e-4)
    assert draw.chance[draw.begin[1] : draw.end[1]].tolist() == [1.0]
    np.testing.assert_allclose(draw.reward, [2.0, 0.0], atol=1e-4)
    assert (draw.unseen < 1e-6).all()
    assert (draw.new <= draw.unseen).all()


def test_chances_are_drawn_from_the_dirichlet_posterior():
    # Seen 3 and 1 times: the chance of the first is Beta(3, 1), with mean 3/4 and variance 3/(16 · 5).
    counts, experience, draw, _ = counted([(0, 0, 0.0, 0)] * 3 + [(0, 0, 0.0, 1)], 2, 1)
    generator, drawn = make_generator(0), []
    for _ in range(4_000):
        draw_model(counts, experience, draw, 1, 4.0, 4.0, 1.0, generator)
        drawn.append(next(draw.chance[i] for i in range(draw.begin[0], draw.end[0]) if draw.follower[i] == 0))
    assert np.mean(drawn) == pytest.approx(3 / 4, abs=0.015)
    assert stats.kstest(drawn, "beta", args=(3, 1)).pvalue > 1e-3


def test_the_error_of_a_mean_reward_by_hand():
    # Rewards 1 and 3 of one pair: spread 2. Within pairs the sum of squares is also 2 with one degree of freedom, so one more
    # reward has the variance 2: √((2 + 2)/2/2) = 1. In a pair with one reward: √((0 + 2)/1/1) = √2.
    counts, experience, _, _ = counted([(0, 0, 1.0, 1), (1, 0, 5.0, 0), (0, 0, 3.0, 1)], 2, 1)
    assert reward_error(counts, experience, 0) == pytest.approx(1.0)
    assert reward_error(counts, experience, 1) == pytest.approx(np.sqrt(2.0))


def test_the_worth_of_a_new_state_by_hand():
    # Pairs with mean rewards 1 and 4: average 2.5, record 4. The plan before promised 3: worth 2 · 3 − 2.5 = 3.5 per step.
    # After a life of 10 steps with two states met: for 10/(2 + 1) steps.
    counts, experience, draw, _ = counted([(0, 0, 1.0, 1), (1, 0, 4.0, 0)], 2, 1)
    for promised, expected in ((3.0, 3.5), (100.0, 5.5), (-1.0, 2.5)):  # at most the record, at least the average
        experience.sums[GAIN] = promised
        experience.last[:] = 10
        draw_model(counts, experience, draw, 1, 10.0, 10.0, 1.0, make_generator(0))
        assert draw.worth.tolist() == pytest.approx([expected, 10 / 3])
    # Rewards of states that were last seen in the first half of the life set no record: it is 1, which is not above the average.
    experience.sums[GAIN], experience.last[1] = 100.0, 4
    draw_model(counts, experience, draw, 1, 10.0, 10.0, 1.0, make_generator(0))
    assert draw.worth[0] == pytest.approx(2.5)


def test_with_equal_rewards_a_new_state_is_worth_one_more():
    counts, experience, draw, _ = counted([(0, 0, 2.0, 1), (1, 0, 2.0, 0)], 2, 1)
    assert experience.sums[DIFFER] == 0.0
    draw_model(counts, experience, draw, 1, 2.0, 2.0, 1.0, make_generator(0))
    assert draw.worth[0] == 3.0


def test_first_tries_by_hand():
    # Three first visits: new, not, new. The later half is the last two, with one new state: (1 + 1)/(2 + 1) = 2/3.
    seen = [(0, 0, 1.0, 1), (1, 0, 0.0, 0), (0, 1, 0.0, 2)]
    counts, experience, draw, _ = counted(seen, 3, 2)
    draw_model(counts, experience, draw, 2, 3.0, 3.0, 1.0, make_generator(0))
    never = [3, 4, 5]  # pairs
    np.testing.assert_allclose(draw.new[never], 2 / 3)
    np.testing.assert_allclose(draw.unseen[never], 1.0)
    np.testing.assert_allclose(draw.reward[never], experience.sums[MEAN])
    assert (draw.begin[never] == draw.end[never]).all()


def test_rewards_are_felt_by_the_worst_share():
    # Rewards 0 (twice) and 6 of a pair, y = 2, τ = 1/4: y − (y − R)⁺/τ is −6, −6 and 2, with the mean −10/3.
    counts = new_counts(1)
    for reward in (0.0, 6.0, 0.0):
        take_note(counts, 0, reward, 0)
    assert mean_with_risk(counts, 0, 2.0, 0.25) == pytest.approx(-10 / 3)
    assert mean_with_risk(counts, 0, 2.0, 1.0) == pytest.approx(2.0)
