"""Plans in models that are known: as good as the exact solver, from every state."""

from __future__ import annotations

import numpy as np
import pytest

from perstep.numerics.randomness import make_generator
from perstep.planning.beliefs import DIFFER, KNOWN, MEAN, draw_model, enter, new_draw, new_experience
from perstep.planning.counts import new_counts, take_note
from perstep.planning.plan import FRESH, improve, new_plan
from perstep.worlds import access_control, garnet, maintenance, river_swim, two_loop

LIFE = 1e7  # steps: the plan looks so far ahead
MANY = 1e9  # visits of each pair
WORLDS = {
    "access control": access_control,
    "garnet": lambda: garnet(30, 3, 3, seed=1),
    "river swim": lambda: river_swim(8),
    "two-loop": two_loop,  # periodic
    "maintenance": maintenance,
}


def mind_of(mdp):
    """Counts of very many visits, with the frequencies of the world, and everything that a plan needs."""
    num_states, num_actions = mdp.num_states, mdp.num_actions
    pairs = num_states * num_actions
    shape = mdp.outcomes.probability.shape
    counts, experience = new_counts(pairs, pairs * shape[2], pairs * shape[2]), new_experience(num_states, pairs)
    for state, action, k in np.argwhere(mdp.outcomes.probability > 0.0):
        pair, chance = state * num_actions + action, mdp.outcomes.probability[state, action, k]
        reward, follower = float(mdp.outcomes.mean[state, action, k]), int(mdp.outcomes.next_state[state, action, k])
        take_note(counts, pair, reward, follower)
        entry = counts.newest[pair]
        while counts.follower[entry] != follower:
            entry = counts.older[entry]
        counts.seen[entry] += MANY * chance - 1.0
    rewards = (mdp.outcomes.probability * mdp.outcomes.mean).sum(axis=2)
    counts.paid[:], counts.visits[:], counts.spread[:] = rewards.ravel(), MANY, 0.0
    for state in range(num_states):
        enter(experience, state, LIFE)
    experience.expected[1:] = 1e6  # no visit showed anything unseen
    experience.sums[MEAN], experience.sums[DIFFER] = rewards.min(), 1.0
    return counts, experience, new_draw(pairs, counts.follower.size), new_plan(num_states, pairs)


@pytest.mark.parametrize("name", WORLDS)
def test_a_plan_in_a_known_model_is_optimal_from_every_state(name):
    mdp = WORLDS[name]()
    best = mdp.solve().average_reward
    scale = max(abs(best), 1.0)
    for anchor in range(0, mdp.num_states, 1 + mdp.num_states // 10):
        counts, experience, draw, plan = mind_of(mdp)
        draw_model(counts, experience, draw, mdp.num_actions, LIFE, LIFE, 1.0, make_generator(0))
        improve(experience, draw, plan, anchor, LIFE, 20_000, 1e-5)
        gain = mdp.evaluate(plan.actions.astype(np.int64), start=anchor).average_reward
        assert gain == pytest.approx(best, abs=1e-3 * scale)
        assert plan.values[anchor] == plan.times[anchor] == 0.0


def test_states_that_were_not_met_have_no_plan():
    mdp = two_loop()
    counts, experience, draw, plan = mind_of(mdp)
    experience.numbers[KNOWN] = 5
    counts.visits[5 * mdp.num_actions :] = 0.0
    draw_model(counts, experience, draw, mdp.num_actions, LIFE, LIFE, 1.0, make_generator(0))
    improve(experience, draw, plan, 0, LIFE, 200, 1e-3)
    assert (plan.actions[5:] == FRESH).all()
    assert (plan.actions[:5] >= 0).all()


def test_a_plan_is_worth_more_with_a_pair_that_may_show_a_new_state():
    """One state with two actions that pay 1 and 0. The second was taken once, and new states are worth 10 per step for 100 steps:
    with the chance of one third for the first of them (π = 1, n = 1) the plan takes it."""
    counts, experience, draw, plan = new_counts(6), new_experience(3, 6), new_draw(6, 256), new_plan(3, 6)
    enter(experience, 0, 0)
    for _ in range(1000):
        take_note(counts, 0, 1.0, 0)
    take_note(counts, 1, 0.0, 0)
    for new, action in ((1 / 3, 1), (0.0, 0)):
        draw_model(counts, experience, draw, 2, 1000.0, 1000.0, 1.0, make_generator(0))
        draw.unseen[:2] = draw.new[:2] = 0.0, new
        draw.reward[:2] = 1.0, 0.0
        draw.worth[:] = 10.0, 100.0
        improve(experience, draw, plan, 0, 1000.0, 200, 1e-6)
        assert plan.actions[0] == action
