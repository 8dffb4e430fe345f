"""The actor-critic on tiles against the listings, against the table, and on the pendulum."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
import perstep
import plain_tiles
from perstep.distributions.history import new_record
from perstep.gym.behaviour import Behaviour
from perstep.numerics import policies
from perstep.numerics.randomness import make_generator
from perstep.rules import transition as rules
from perstep.tiles import kernel as linear
from perstep.worlds import red_pill_blue_pill
from plain_tiles import CODER, features
from states_in_a_box import States

ACTIONS, M, N = 3, 7, 5
ALPHA, ETA, ETA_PI, LAMBDA = 0.02, 1.3, 0.7, 0.4
PAPER = {
    "differential": {"step_size": 2e-2, "reward_ratio": 1e-2, "policy_ratio": 0.1},
    "d2": {"step_size": 2e-2, "reward_ratio": 0.1, "policy_ratio": 0.1, "num_quantiles": 10},
    "d3": {"step_size": 0.2, "reward_ratio": 1e-3, "policy_ratio": 0.1, "num_quantiles": 10},
}


def new_run(rule, *, eta_b=0.0, n=N, horizon=None):
    rng = np.random.default_rng(5)
    m, n = (1 if rule == "differential" else M), (n if rule == "d3" else 1)
    weights = linear.weights(CODER.num_features, CODER.tilings, ACTIONS, n, 0.0)
    weights.critic[:] = rng.normal(size=weights.critic.shape)
    weights.actor[:] = rng.normal(size=weights.actor.shape)
    rewards = rules.reward_estimate(m, 0.0)._replace(theta=rng.normal(size=m))
    schedule = rules.Schedule(ALPHA, 0.0, ETA * ALPHA, 0.0, eta_b)
    room = linear.room(CODER.tilings, ACTIONS, n)
    work = rules.workspace(n, LAMBDA, horizon=horizon, num_active=CODER.tilings)
    return linear.LearnerState(weights, rewards, work, schedule, ETA_PI, CODER.arrays, room)


def recorded(count=500):
    """A path of points close together, so that S and S′ share tiles, with a jump now and then and a tenth that stay."""
    rng = np.random.default_rng(9)
    point = rng.uniform(-1, 1, 2)
    for _ in range(count):
        kind = rng.random()
        if kind < 0.1:
            following = point
        elif kind < 0.2:
            following = rng.uniform(-1, 1, 2)
        else:
            following = np.clip(point + rng.normal(scale=0.1, size=2), -1, 1)
        yield point, rng.integers(ACTIONS), rng.normal(), following
        point = following


def advance(rule, run, action, reward, following):
    """One step of the plain loop of Gymnasium worlds; the action it then draws is not used here."""
    record, generator = new_record(run.rewards.theta.size), make_generator(0)
    behaviour = Behaviour(0.0, policies.GREEDY, np.zeros((0, 0)))
    number = rules.RULES[rule].number_with("quantiles", run.work.horizon_factor or None, LAMBDA)
    plain_tiles.learn_then_act(
        linear.ACTOR_CRITIC, number, behaviour, run, record, generator, 0, action, reward, following, False,
        False, following,
    )  # fmt: skip


def check(run, theta, w, u):
    np.testing.assert_allclose(run.rewards.theta, theta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.weights.critic[0], w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.weights.actor, u, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "eta_b", "horizon"),
    [("differential", 0.0, None), ("d2", 0.0, None), ("d2", 0.3, None), ("d3", 0.0, None), ("d3", 0.0, 10)],
)
def test_each_rule_is_its_listing(rule, eta_b, horizon):
    """Alg. 12, 5 and 9, and decision 0013, on 500 recorded transitions."""
    run = new_run(rule, eta_b=eta_b, horizon=horizon)
    w, u, theta, b = run.weights.critic[0].copy(), run.weights.actor.copy(), list(run.rewards.theta), [0.0]
    steps = recorded()
    first = next(steps)
    behaviour = Behaviour(0.0, policies.GREEDY, np.zeros((0, 0)))
    plain_tiles.enter_then_act(linear.ACTOR_CRITIC, behaviour, run, make_generator(0), first[0])
    for point, action, reward, following in [first, *steps]:
        x, x_next = features(point), features(following)
        advance(rule, run, action, reward, following)
        if rule == "differential":
            oracles.differential_actor_critic(w[:, 0], u, theta, ALPHA, ETA, ETA_PI, x, action, reward, x_next)
        elif rule == "d2":
            alphas = ALPHA, ETA * ALPHA, ETA_PI * ALPHA
            oracles.d2_actor_critic(w[:, 0], u, theta, *alphas, x, action, reward, x_next, b, eta_b)
        elif horizon is not None:
            alphas = ALPHA, ETA * ALPHA, ETA_PI * ALPHA
            oracles.d3_horizon_actor_critic(w, u, theta, *alphas, 1 - 1 / horizon, x, action, reward, x_next)
        else:
            alphas = ALPHA, ETA * ALPHA, ETA_PI * ALPHA
            oracles.d3_actor_critic(w, u, theta, *alphas, LAMBDA, x, action, reward, x_next)
        check(run, theta, w, u)
        np.testing.assert_allclose(
            run.weights.numbers[0], features(following) @ run.weights.critic[0], rtol=0, atol=1e-12
        )


def test_softmax_survives_large_preferences():
    preferences = np.array([1e308, 0.0, -1e308])
    policies.softmax(preferences)
    assert preferences.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("differential", {"reward_ratio": 0.5}),
        ("d2", {"reward_ratio": 0.5, "offset_ratio": 0.5}),
        ("d3", {"reward_ratio": 1.0, "huber": 1.0}),
    ],
)
def test_one_hot_tiles_find_the_values_of_the_table(rule, settings):
    """With the policy held still (η_π = 0: uniform), values and average are those of FiniteMDP.evaluate."""
    mdp = red_pill_blue_pill()
    exact = mdp.evaluate(np.full((2, 2), 0.5))
    shape = {"tilings": 1, "tiles": 2, "policy_ratio": 0.0, "step_size": perstep.Decay(0.5, 0.7)}
    agent = perstep.ActorCritic(States(mdp), rule=rule, **shape, **settings, preset="paper").learn(
        60_000, progress=False
    )
    assert agent.tiles.num_features == 2
    assert agent.average_reward == pytest.approx(exact.average_reward, abs=0.02)
    values = np.array([agent.state_value([0.5]), agent.state_value([1.5])])
    values -= exact.stationary @ values
    np.testing.assert_allclose(values, exact.state_values, atol=0.02)


def test_one_hot_tiles_find_the_policy_of_the_table():
    mdp = red_pill_blue_pill()
    settings = {"rule": "d2", "tilings": 1, "tiles": 2, "policy_ratio": 1.0, "step_size": 0.02, "offset_ratio": 0.5}
    agent = perstep.ActorCritic(States(mdp), **settings, preset="paper").learn(60_000, progress=False)
    assert mdp.solve().policy.tolist() == [agent.predict([0.5])[0], agent.predict([1.5])[0]]


@pytest.fixture(scope="module")
def pendulum():
    """Ten agents a rule at the paper's tuned settings, 10,000 steps, in windows of 1000."""
    runs = {}
    for rule, settings in PAPER.items():
        agents = [
            perstep.ActorCritic("perstep/InvertedPendulum-v0", rule=rule, seed=seed, preset="paper", **settings)
            for seed in range(10)
        ]
        for agent in agents:
            agent.record_every(1000, 12)
        runs[rule] = perstep.learn_together(agents, 10_000)
    return runs


@pytest.mark.parametrize("rule", list(PAPER))
def test_pendulum_is_balanced(pendulum, rule):
    last = [agent.history.reward_rate[-1] for agent in pendulum[rule]]
    assert np.mean(last) > -0.1


@pytest.mark.parametrize("rule", ["d2", "d3"])
def test_pendulum_quantiles_are_near_zero_but_for_the_lowest(pendulum, rule):
    learnt = np.median([agent.reward_quantiles for agent in pendulum[rule]], axis=0)
    assert np.abs(learnt[1:]).max() < 0.05
    assert learnt[0] < -0.1


def test_cart_pole_is_kept_up():
    """A fall costs 100, so the best reward rate is 1; a policy at random falls every 22 steps and earns −3.5 a step."""
    agent = perstep.ActorCritic(
        "CartPole-v1",
        rule="d2",
        low=(-2.4, -3.0, -0.21, -3.0),
        high=(2.4, 3.0, 0.21, 3.0),
        tilings=16,
        tiles=4,
        reset_cost=100.0,
        step_size=0.01,
        policy_ratio=0.5,
        preset="paper",
    )
    with pytest.warns(UserWarning, match="outside the bounds"):
        agent.learn(150_000, progress=False)
    assert agent.history.reward_rate[-agent.history.steps.size // 4 :].mean() > 0.9
    assert agent.evaluate(5000, seed=1).episode_returns.mean() > 400
