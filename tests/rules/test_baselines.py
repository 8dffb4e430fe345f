"""The field's baselines as corners of the lattice: each against its publication, on recorded transitions."""

from __future__ import annotations

import re

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
from perstep.rules.lattice import ALGORITHMS, CORNERS
from perstep.tabular import kernel as tabular
from perstep.tiles import kernel as linear
from perstep.tiles.coder import TileCoder
from perstep.worlds import access_control, two_loop
from plain_tiles import CODER, features

STATES, ACTIONS, M, N = 4, 3, 7, 5
ALPHA, ETA, GAMMA, EPSILON = 0.05, 1.7, 0.9, 0.2
NO_POLICY = np.zeros((0, 0))


def recorded(count=500, seed=1):
    rng = np.random.default_rng(seed)
    ends = rng.random(count) < 0.1
    columns = rng.integers(STATES, size=count), rng.integers(ACTIONS, size=count), rng.normal(size=count)
    return zip(*columns, rng.integers(STATES, size=count), ends, strict=True)


def new_run(rule, *, discount=1.0, reference=None, n=N):
    rng = np.random.default_rng(3)
    row = rules.RULES[rule]
    n = row.value_size(n)
    values = rng.normal(size=(STATES, ACTIONS, n))
    table = tabular.table(STATES, ACTIONS, n, 0.0)._replace(values=values, scores=values.mean(-1))
    theta = rng.normal(size=row.theta_size(M))
    rewards = rules.reward_estimate(len(theta), 0.0)._replace(theta=theta)
    schedule = rules.Schedule(ALPHA, 0.0, ETA * ALPHA, 0.0, 0.0)
    work = rules.workspace(n, discount=discount)
    return tabular.LearnerState(table, rewards, work, schedule, None, reference and np.array(reference))


def advance(rule, run, s, a, r, s_next, masked=False, kind=policies.GREEDY, following=0, centered=True):
    number = rules.RULES[rule].number_with(centered=centered)
    known = rules.FUNCTIONS[number], number, *run[:6], 0
    return tabular.any_q_learning(*known, s, a, r, s_next, masked, kind, following, EPSILON)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------------ tables


def test_q_is_watkins():
    run = new_run("differential", discount=GAMMA)
    Q, R_bar = run.table.values[..., 0].copy(), [run.rewards.theta[0]]
    for s, a, r, s_next, done in recorded():
        advance("differential", run, s, a, r, s_next, bool(done), centered=False)
        oracles.q_learning(Q, ALPHA, GAMMA, s, a, r, s_next, done)
        oracles.running_mean(R_bar, ETA * ALPHA, r)
        close(run.table.values[..., 0], Q)
        close(run.rewards.theta, R_bar)


@pytest.mark.parametrize("gamma", [0.3, GAMMA])
def test_quantile_q_is_dabney_et_al(gamma):
    run = new_run("d3", discount=gamma)
    Omega = run.table.values.copy()
    for s, a, r, s_next, done in recorded():
        advance("d3", run, s, a, r, s_next, bool(done), centered=False)
        oracles.quantile_q_learning(Omega, ALPHA, gamma, s, a, r, s_next, done)
        close(run.table.values, Omega)


def test_centered_q_is_naik_et_al():
    run = new_run("differential", discount=GAMMA)
    Q, R_bar = run.table.values[..., 0].copy(), [run.rewards.theta[0]]
    for s, a, r, s_next, _ in recorded():
        advance("differential", run, s, a, r, s_next)
        oracles.centered_q_learning(Q, R_bar, ALPHA, ETA, GAMMA, s, a, r, s_next)
        close(run.table.values[..., 0], Q)
        close(run.rewards.theta, R_bar)


def test_d2_without_centering_is_q_with_a_distribution_beside_it():
    run, plain = new_run("d2", discount=GAMMA), new_run("differential", discount=GAMMA)
    plain.table.values[:] = run.table.values
    plain.table.scores[:] = run.table.scores
    for s, a, r, s_next, _ in recorded():
        advance("d2", run, s, a, r, s_next, centered=False)
        advance("differential", plain, s, a, r, s_next, centered=False)
    np.testing.assert_array_equal(run.table.values, plain.table.values)


REFERENCE_FUNCTIONS = {
    rules.PAIR: lambda Q: Q[2, 1],
    rules.MEAN: lambda Q: Q.mean(),
    rules.MAX: lambda Q: Q.max(),
}


@pytest.mark.parametrize("kind", REFERENCE_FUNCTIONS)
def test_rvi_is_abounadi_et_al(kind):
    f = REFERENCE_FUNCTIONS[kind]
    run = new_run("rvi", reference=(kind, 2, 1))
    Q = run.table.values[..., 0].copy()
    run.rewards.theta[0] = f(Q)
    for s, a, r, s_next, _ in recorded(3000):
        advance("rvi", run, s, a, r, s_next)
        oracles.rvi_q_learning(Q, f, ALPHA, s, a, r, s_next)
        close(run.table.values[..., 0], Q)
        close(run.rewards.theta[0], f(Q))


def test_sarsa_is_sutton_and_barto():
    run = new_run("differential")
    Q, R_bar = run.table.values[..., 0].copy(), [run.rewards.theta[0]]
    rng = np.random.default_rng(8)
    for s, a, r, s_next, _ in recorded():
        following = int(rng.integers(ACTIONS))
        advance("differential", run, s, a, r, s_next, False, policies.SAMPLED, following)
        oracles.differential_sarsa(Q, R_bar, ALPHA, ETA * ALPHA, s, a, r, s_next, following)
        close(run.table.values[..., 0], Q)
        close(run.rewards.theta, R_bar)


def test_expected_sarsa():
    run = new_run("differential")
    Q, R_bar = run.table.values[..., 0].copy(), [run.rewards.theta[0]]
    for s, a, r, s_next, _ in recorded():
        advance("differential", run, s, a, r, s_next, False, policies.EXPECTED)
        oracles.differential_expected_sarsa(Q, R_bar, ALPHA, ETA * ALPHA, EPSILON, s, a, r, s_next)
        close(run.table.values[..., 0], Q)


def test_the_loop_of_sarsa_takes_the_action_that_it_learnt_from():
    """A tape of the compiled loop: with one step at a time, the action in `place` is the one of the next transition."""
    mdp = two_loop()
    agent = perstep.QLearning(mdp, rule="differential", bootstrap="sampled", epsilon=0.5, seed=4)
    for _ in range(200):
        state, promised = agent._place.copy()
        before = agent.visits
        agent.learn(1)
        (s,), (a,) = np.nonzero(agent.visits - before)
        assert s == state
        assert promised in (-1, a)
        assert agent._place[1] >= 0


def test_an_unknown_rule_is_noticed():
    run, steps = new_run("differential"), rules.Steps(0.1, 0.1, 0.0)
    assert np.isnan(
        rules.any_rule(99, run.rewards, 1.0, run.table.values[0, 0], run.table.values[1, 0], steps, run.work)
    )
    assert np.isnan(run.work.pull[0])


# ------------------------------------------------------------------------------------------------------------------- tiles


def new_tiles(rule="differential", reference=None):
    rng = np.random.default_rng(5)
    weights = linear.weights(CODER.num_features, CODER.tilings, ACTIONS, 1, 0.0, linear.TILE_Q)
    weights.critic[:] = rng.normal(size=weights.critic.shape)
    rewards = rules.reward_estimate(1, 0.0)._replace(theta=rng.normal(size=1))
    schedule = rules.Schedule(0.02, 0.0, ETA * 0.02, 0.0, 0.0)
    room = linear.room(CODER.tilings, ACTIONS, 1, linear.TILE_Q)
    state = weights, rewards, rules.workspace(1), schedule, 0.0, CODER.arrays, room
    return linear.LearnerState(*state, reference=reference)


def walk_on_tiles(run, kind, check, rule="differential", count=300):
    """The plain loop on a path of near points: the action it returns is the next one."""
    rng, record, generator = np.random.default_rng(9), new_record(1), make_generator(0)
    behaviour, number = Behaviour(EPSILON, kind, NO_POLICY), rules.RULES[rule].number
    point = rng.uniform(-1, 1, 2)
    action = plain_tiles.enter_then_act(linear.TILE_Q, behaviour, run, generator, point)
    for _ in range(count):
        following = np.clip(point + rng.normal(scale=0.1, size=2), -1, 1)
        reward = float(rng.normal())
        chosen = plain_tiles.learn_then_act(
            linear.TILE_Q, number, behaviour, run, record, generator, 0, action, reward, following, False, False, following
        )  # fmt: skip
        check(features(point), action, reward, features(following), chosen)
        point, action = following, chosen


def test_tile_q_is_linear_q_learning():
    run = new_tiles()
    w, R_bar = run.weights.critic[..., 0].copy(), [run.rewards.theta[0]]

    def check(x, action, reward, x_next, _):
        oracles.linear_q_learning(w, R_bar, 0.02, ETA * 0.02, x, action, reward, x_next)
        close(run.weights.critic[..., 0], w)
        close(run.rewards.theta, R_bar)
        close(run.weights.numbers[:, 0], w @ x_next)
        close(run.weights.scores, w @ x_next)

    walk_on_tiles(run, policies.GREEDY, check)


def test_tile_sarsa_is_sutton_and_barto():
    run = new_tiles()
    w, R_bar = run.weights.critic[..., 0].copy(), [run.rewards.theta[0]]

    def check(x, action, reward, x_next, chosen):
        oracles.differential_linear_sarsa(w, R_bar, 0.02, ETA * 0.02, x, action, reward, x_next, chosen)
        close(run.weights.critic[..., 0], w)
        close(run.rewards.theta, R_bar)

    walk_on_tiles(run, policies.SAMPLED, check)


@pytest.mark.parametrize("kind", [rules.PAIR, rules.MEAN])
def test_rvi_on_tiles_reads_its_average_from_the_values(kind):
    reference = linear.Reference(np.array([kind, 1]), CODER.active((0.3, -0.2)))
    run = new_tiles("rvi", reference)

    def f(w):
        pair = w[1] @ features((0.3, -0.2))
        return pair if kind == rules.PAIR else w.sum() * CODER.tilings / (CODER.num_features * ACTIONS)

    run.rewards.theta[0] = f(run.weights.critic[..., 0])
    walk_on_tiles(run, policies.GREEDY, lambda *_: close(run.rewards.theta[0], f(run.weights.critic[..., 0])), "rvi")


def test_tiles_of_one_tiling_are_the_table():
    """TileQ and QLearning are one learner: the same transitions, the same values."""
    coder = TileCoder(low=(0.0,), high=(float(STATES),), tilings=1, tiles=STATES)
    weights = linear.weights(STATES, 1, ACTIONS, N, 0.0, linear.TILE_Q)
    on_table = new_run("d3", discount=GAMMA)
    weights.critic[:] = on_table.table.values.transpose(1, 0, 2)
    rewards = on_table.rewards._replace(theta=on_table.rewards.theta.copy(), offset=np.zeros(1))
    work, room = rules.workspace(N, discount=GAMMA), linear.room(1, ACTIONS, N, linear.TILE_Q)
    run = linear.LearnerState(weights, rewards, work, on_table.schedule, 0.0, coder.arrays, room)
    generator, number, state = make_generator(0), rules.RULES["d3"].number, 0
    behaviour, record = Behaviour(EPSILON, policies.GREEDY, NO_POLICY), new_record(M)
    plain_tiles.enter_then_act(linear.TILE_Q, behaviour, run, generator, np.array([0.5]))
    for _, a, r, s_next, _ in recorded():
        point = np.array([s_next + 0.5])
        plain_tiles.learn_then_act(
            linear.TILE_Q, number, behaviour, run, record, generator, 0, a, r, point, False, False, point
        )
        advance("d3", on_table, state, a, r, s_next)
        state = s_next
    close(run.weights.critic.transpose(1, 0, 2), on_table.table.values)


# ------------------------------------------------------------------------------------------------- in worlds with an answer


def test_named_corners_differ_from_their_cell_in_their_settings_alone():
    for corner in CORNERS:
        cell = ALGORITHMS[f"{corner.rule}-{corner.learner.name}"]
        assert (cell.rule, cell.learner) == (corner.rule, corner.learner)
        extra = {name for name, value in corner.settings.items() if cell.settings.get(name) != value}
        assert extra <= {"preset", "discount", "centered", "termination"}


def test_rvi_finds_the_optimum_of_two_loop():
    mdp = two_loop()
    for reference in ("mean", "max", (0, 1)):
        agent = perstep.QLearning(mdp, rule="rvi", reference=reference, step_size=perstep.Decay(1.0, 0.6), seed=2)
        agent.learn(200_000)
        assert agent.average_reward == pytest.approx(0.4, abs=0.01)
        assert mdp.evaluate(agent.policy(deterministic=True)).average_reward == pytest.approx(0.4)


def test_expected_sarsa_learns_the_average_of_the_policy_it_follows():
    """On-policy: R̄ is the average of the ε-greedy policy, not of the greedy one."""
    mdp = access_control()
    agent = perstep.make_agent(
        "differential-expected-sarsa", mdp, step_size=perstep.Decay(0.5, 0.6), reward_ratio=0.05, epsilon=0.1, seed=1
    )
    agent.learn(2_000_000)
    followed = mdp.evaluate(agent.policy()).average_reward
    assert followed == pytest.approx(2.64, abs=0.03)  # the best ε-soft policy earns 2.6426
    assert agent.average_reward == pytest.approx(followed, abs=0.03)


@pytest.mark.parametrize("settings", [{"step_size": perstep.Decay(1.0, 1.0)}, {"step_size": perstep.Decay(0.5, 0.8)}])
def test_the_average_without_centering_is_that_of_the_rewards(settings):
    """Two states, visited nine times to one, that pay 0 and 1. By the visits of pairs the two would weigh the same."""
    mdp = perstep.FiniteMDP(np.array([[[0.9, 0.1]], [[0.9, 0.1]]]), np.array([[0.0], [1.0]]))
    agent = perstep.make_agent("q", mdp, reward_ratio=1.0, seed=1, **settings).learn(300_000)
    assert agent.average_reward == pytest.approx(0.1, abs=0.01)


def test_discounted_q_solves_the_discounted_problem():
    """Two-loop with γ = .6: now beats later, so the left loop is best, with the values of the Bellman equation."""
    mdp, gamma = two_loop(), 0.6
    agent = perstep.make_agent("q", mdp, discount=gamma, step_size=perstep.Decay(1.0, 0.6), epsilon=0.3, seed=3)
    agent.learn(500_000)
    values = np.zeros((9, 2))
    transitions, rewards = mdp.transitions, mdp.expected_rewards
    for _ in range(200):
        values = rewards + gamma * transitions @ values.max(axis=1)
    np.testing.assert_allclose(agent.all_action_values, values, atol=0.02)


def test_tile_q_balances_the_pendulum_with_defaults():
    rates = [
        perstep.TileQ("perstep/InvertedPendulum-v0", seed=seed).learn(100_000).history.reward_rate[-1]
        for seed in range(3)
    ]
    assert min(rates) > -2.0  # acting at random earns −5.97


# ---------------------------------------------------------------------------------------------------------------- mistakes


def test_an_algorithm_is_what_its_name_says():
    with pytest.raises(ValueError, match="sarsa has bootstrap='sampled', got 'greedy'"):
        perstep.make_agent("sarsa", "perstep/TwoLoop-v0", bootstrap="greedy")
    with pytest.raises(ValueError, match="d2-q has rule='d2', got 'd3'"):
        perstep.make_agent("d2-q", "perstep/TwoLoop-v0", rule="d3")
    with pytest.raises(TypeError, match="d2-td predicts the values of a policy"):
        perstep.make_agent("d2-td", "perstep/TwoLoop-v0")
    assert perstep.make_agent("q", "perstep/TwoLoop-v0", discount=0.5).config.discount == 0.5


@pytest.mark.parametrize(
    ("agent", "settings", "words"),
    [
        ("QLearning", {"discount": 1.5}, "discount must be a finite number above 0 and at most 1, got 1.5"),
        ("QLearning", {"discount": float("nan")}, "discount must be a finite number above 0 and at most 1"),
        ("QLearning", {"gamma": 0.9}, "There is no QLearning setting 'gamma': it is called 'discount' here."),
        ("QLearning", {"centered": 0}, "centered must be True or False, got 0"),
        (
            "QLearning",
            {"rule": "d2", "centered": False, "discount": 0.9, "offset_ratio": 0.1},
            "Use it with centered=True",
        ),
        ("QLearning", {"rule": "d2", "discount": 0.9, "offset_ratio": 0.1}, "Use it with centered=True and discount=1"),
        ("QLearning", {"rule": "rvi", "discount": 0.9}, "The rule 'rvi' needs centered=True and discount=1"),
        ("QLearning", {"centered": False}, "the values of a continuing task grow without bound"),
        ("QLearning", {"rule": "d3", "bootstrap": "expected"}, "Use bootstrap='sampled' or another rule"),
        ("QLearning", {"bootstrap": "sarsa"}, "There is no bootstrap 'sarsa'"),
        ("QLearning", {"rule": "rvi", "reference": "median"}, "There is no reference 'median'"),
        ("QLearning", {"rule": "rvi", "reference": (1, 2, 3)}, "reference must be 'mean', 'max' or a pair"),
        ("QLearning", {"rule": "rvi", "reference": (0, 7)}, "reference: Expected a point of the Discrete space"),
        ("QLearning", {"rule": "rvi", "reference": (99, 0)}, "reference: Expected a point of the Discrete space"),
        ("DeepQ", {"rule": "rvi"}, "The rule 'rvi' is not written for networks"),
        ("ActorCritic", {"rule": "rvi"}, "reads the average reward from action values"),
        ("TileQ", {"rule": "rvi", "reference": "max"}, "Use reference='mean' or a pair"),
    ],
)
def test_impossible_settings(agent, settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        getattr(perstep, agent)("perstep/TwoLoop-v0", **settings)
