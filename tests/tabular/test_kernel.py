"""The compiled learners against the listings, and the order of things within a step."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import oracles
import perstep
from perstep.numerics import policies
from perstep.numerics.randomness import make_generator
from perstep.numerics.scale import new_units
from perstep.rules import transition as rules
from perstep.rules.masses import atoms
from perstep.tabular import kernel as tabular

STATES, ACTIONS, M, N = 4, 3, 7, 5
ALPHA, ETA = 0.05, 1.7
SHORT, LONG = 1e-12, 600


def recorded(seed, count=LONG):
    """Transitions (S, A, R, S′) from nowhere in particular; three in ten stay where they are."""
    rng = np.random.default_rng(seed)
    states = rng.integers(STATES, size=count)
    stay = rng.random(count) < 0.3
    next_states = np.where(stay, states, rng.integers(STATES, size=count))
    return zip(states, rng.integers(ACTIONS, size=count), rng.normal(size=count), next_states, strict=True)


def new_run(rule, learner, *, eta_b=0.0, m=M, n=N, seed=1, horizon=None):
    """Estimates at random places: ties between values, which rounding would break one way or the other, do not occur."""
    rng = np.random.default_rng(seed)
    m, n = (1 if rule == "differential" else m), (n if rule == "d3" else 1)
    columns = ACTIONS if learner == tabular.Q else 1
    values = rng.normal(size=(STATES, columns, n))
    table = tabular.table(STATES, columns, n, 0.0)._replace(values=values, scores=values.mean(-1))
    rewards = rules.reward_estimate(m, 0.0, has_masses=rule == "categorical")
    if rule != "categorical":  # its θ is read from masses
        rewards = rewards._replace(theta=rng.normal(size=m))
    schedule = rules.Schedule(ALPHA, 0.0, ETA * ALPHA, 0.0, eta_b)
    return tabular.LearnerState(table, rewards, rules.workspace(n, horizon=horizon), schedule)


def advance(rule, learner, run, transition, clock=0):
    s, a, r, s_next = transition
    horizon = run.work.horizon_factor or None
    number = rules.RULES[rule].number_with("quantiles", horizon)
    known = rules.FUNCTIONS[number], number, *run[:5], clock
    if learner == tabular.TD:
        return tabular.td_learning(*known, s, r, s_next, False)
    return tabular.q_learning(*known, s, a, r, s_next, False)


def check(run, theta, values, b=None):
    np.testing.assert_allclose(run.rewards.theta, theta, rtol=0, atol=SHORT)
    np.testing.assert_allclose(run.table.values.ravel(), np.ravel(values), rtol=0, atol=SHORT)
    np.testing.assert_allclose(run.table.scores, run.table.values.mean(-1), rtol=0, atol=SHORT)
    if b is not None:
        np.testing.assert_allclose(run.rewards.offset, b, rtol=0, atol=SHORT)


@pytest.mark.parametrize("seed", [0, 1])
def test_differential_td_is_wan_et_al(seed):
    run = new_run("differential", tabular.TD)
    V, R_bar = run.table.values[:, 0, 0].copy(), [run.rewards.theta[0]]
    for s, a, r, s_next in recorded(seed):
        advance("differential", tabular.TD, run, (s, a, r, s_next))
        oracles.differential_td(V, R_bar, ALPHA, ETA, s, r, s_next)
        check(run, R_bar, V)


@pytest.mark.parametrize("seed", [0, 1])
def test_differential_q_is_algorithm_11(seed):
    run = new_run("differential", tabular.Q)
    Q, R_bar = run.table.values[..., 0].copy(), [run.rewards.theta[0]]
    for s, a, r, s_next in recorded(seed):
        advance("differential", tabular.Q, run, (s, a, r, s_next))
        oracles.differential_q(Q, R_bar, ALPHA, ETA, s, a, r, s_next)
        check(run, R_bar, Q)


@pytest.mark.parametrize("eta_b", [0.0, 0.3])
def test_d2_td_is_algorithm_3(eta_b):
    run = new_run("d2", tabular.TD, eta_b=eta_b)
    V, theta, b = run.table.values[:, 0, 0].copy(), list(run.rewards.theta), [0.0]
    for s, a, r, s_next in recorded(2):
        advance("d2", tabular.TD, run, (s, a, r, s_next))
        oracles.d2_td(V, theta, ALPHA, ETA * ALPHA, s, r, s_next, b, eta_b)
        check(run, theta, V, b)


@pytest.mark.parametrize("eta_b", [0.0, 0.3])
def test_d2_q_is_algorithm_4(eta_b):
    run = new_run("d2", tabular.Q, eta_b=eta_b)
    Q, theta, b = run.table.values[..., 0].copy(), list(run.rewards.theta), [0.0]
    for s, a, r, s_next in recorded(3):
        advance("d2", tabular.Q, run, (s, a, r, s_next))
        oracles.d2_q(Q, theta, ALPHA, ETA * ALPHA, s, a, r, s_next, b, eta_b)
        check(run, theta, Q, b)


@pytest.mark.parametrize("learner", [tabular.TD, tabular.Q])
def test_offset_is_the_sum_of_the_values(learner):
    """b = η_b Σ (Q − Q₀) at every step: both move by the same α δ (docs/theory.md)."""
    run = new_run("d2", learner, eta_b=0.3)
    first = run.table.values.sum()
    for transition in recorded(3):
        advance("d2", learner, run, transition)
        assert run.rewards.offset[0] == pytest.approx(0.3 * (run.table.values.sum() - first), rel=0, abs=SHORT)


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_d3_td_is_algorithm_7(n):
    run = new_run("d3", tabular.TD, n=n)
    Omega, theta = run.table.values[:, 0].copy(), list(run.rewards.theta)
    for s, a, r, s_next in recorded(4):
        advance("d3", tabular.TD, run, (s, a, r, s_next))
        oracles.d3_td(Omega, theta, ALPHA, ETA * ALPHA, s, r, s_next)
        check(run, theta, Omega)


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_d3_q_is_algorithm_8(n):
    run = new_run("d3", tabular.Q, n=n)
    Omega, theta = run.table.values.copy(), list(run.rewards.theta)
    for s, a, r, s_next in recorded(5):
        advance("d3", tabular.Q, run, (s, a, r, s_next))
        oracles.d3_q(Omega, theta, ALPHA, ETA * ALPHA, s, a, r, s_next)
        check(run, theta, Omega)


@pytest.mark.parametrize(("learner", "n", "horizon"), [(tabular.TD, 5, 10), (tabular.Q, 2, 3), (tabular.Q, 13, 20)])
def test_d3_with_a_horizon_is_its_algorithm(learner, n, horizon):
    """Decision 0013, also from values without any spread, whose first step makes one."""
    run = new_run("d3", learner, n=n, eta_b=0.3, horizon=horizon)
    run.table.values[0] = run.table.scores[0][:, None]
    Omega, theta, b = run.table.values.copy(), list(run.rewards.theta), [0.0]
    for s, a, r, s_next in recorded(6, 300):
        column = a if learner == tabular.Q else 0
        advance("d3", learner, run, (s, a, r, s_next))
        oracles.d3_horizon_q(Omega, theta, ALPHA, ETA * ALPHA, 1 - 1 / horizon, s, column, r, s_next, b, 0.3)
        check(run, theta, Omega, b)


@pytest.mark.parametrize(("m", "eta_b", "far"), [(2, 0.0, 1.0), (5, 0.3, 1.0), (8, 0.0, 1000.0), (51, 0.3, 1000.0)])
def test_categorical_is_its_algorithm(m, eta_b, far):
    """Decision 0014. A tenth of the rewards come from `far` away, and the first one is the first guess itself."""
    run = new_run("categorical", tabular.Q, m=m, eta_b=eta_b)
    Q, masses, grid, b = run.table.values[..., 0].copy(), [1.0] + [0.0] * (m - 1), [0.0] * m, [0.0]
    rng = np.random.default_rng(8)
    for t, (s, a, r, s_next) in enumerate(recorded(7, 300)):
        reward = r * (far if rng.random() < 0.1 else 1.0) if t else 0.0
        advance("categorical", tabular.Q, run, (s, a, reward, s_next))
        oracles.categorical_q(Q, masses, grid, ALPHA, ETA * ALPHA, s, a, reward, s_next, b, eta_b)
        np.testing.assert_allclose(run.rewards.masses, masses, rtol=0, atol=SHORT)
        np.testing.assert_allclose(atoms(run.rewards.masses, run.rewards.grid), grid, rtol=SHORT, atol=SHORT)
        expected = sum(p * x for p, x in zip(masses, grid, strict=True)) + b[0]
        assert rules.average_reward(rules.CATEGORICAL, run.rewards) == pytest.approx(expected, rel=0, abs=SHORT * far)
        np.testing.assert_allclose(run.table.values[..., 0], Q, rtol=0, atol=SHORT * far)
        level = np.cumsum(masses)
        for tau, theta in zip(run.rewards.tau, run.rewards.theta, strict=True):
            at = int(np.abs(np.array(grid) - theta).argmin())
            assert level[at] >= tau - SHORT
            assert at == 0 or level[at - 1] <= tau + SHORT


def test_uncompiled_is_the_same():
    """All of the above once more, with the same functions run by the interpreter."""
    if os.environ.get("NUMBA_DISABLE_JIT"):
        pytest.skip("this is the inner run")
    environment = dict(os.environ, NUMBA_DISABLE_JIT="1")
    chosen = ["-k", "algorithm or wan", "-p", "no:cacheprovider", "-o", "addopts=", __file__]
    inner = subprocess.run([sys.executable, "-m", "pytest", *chosen], env=environment, capture_output=True, text=True)
    assert inner.returncode == 0, inner.stdout + inner.stderr
    assert "23 passed" in inner.stdout


def test_differential_takes_the_old_average():
    # δ = 1 − 0.5 + 3 − 2 = 1.5 with the old R̄ = 0.5; then R̄ = 0.5 + 0.2·1.5 = 0.8 and V(0) = 2 + 0.1·1.5 = 2.15.
    run = new_run("differential", tabular.TD)._replace(schedule=rules.Schedule(0.1, 0.0, 0.2, 0.0, 0.0))
    run.rewards.theta[0] = 0.5
    run.table.values[:2, 0, 0] = 2.0, 3.0
    delta = advance("differential", tabular.TD, run, (0, 0, 1.0, 1))
    assert (delta, run.rewards.theta[0], run.table.values[0, 0, 0]) == pytest.approx((1.5, 0.8, 2.15))


def test_d2_takes_the_new_average():
    # τ = ¼, ¾ and θ = (0, 2): R = 1 lifts θ₁ by 0.4·¼ = 0.1 and lowers θ₂ by 0.4·¼ = 0.1, so R̄ stays 1 here;
    # R = 3 lifts both: θ = (0.1 + 0.1, 1.9 + 0.3), R̄ = 1.2, δ = 3 − 1.2 + 3 − 2 = 2.8 (with the old R̄ it were 3).
    run = new_run("d2", tabular.TD, m=2)._replace(schedule=rules.Schedule(0.1, 0.0, 0.4, 0.0, 0.0))
    run.rewards.theta[:] = 0.0, 2.0
    run.table.values[:2, 0, 0] = 2.0, 3.0
    advance("d2", tabular.TD, run, (2, 0, 1.0, 2))
    assert run.rewards.theta == pytest.approx([0.1, 1.9])
    assert advance("d2", tabular.TD, run, (0, 0, 3.0, 1)) == pytest.approx(2.8)


def test_d3_moves_all_quantiles_from_the_old_ones_when_it_stays_and_repeats():
    # One action, S′ = S, so estimate and bootstrap are the same Ω = (0, 1); θ = R̄ = 0 stays (α_θ = 0) and R = 0.5.
    # j = 1: targets 0.5, 1.5 against 0: none below, pull ¼. j = 2: 0.5 < 1 counts once: ¾ − ½ = ¼. In sequence, Ω₁
    # would first have moved to ¼·4 = 1 and lifted its target to 1.5, and j = 2 would have seen none below: pull ¾.
    run = new_run("d3", tabular.TD, m=1, n=2)._replace(schedule=rules.Schedule(4.0, 0.0, 0.0, 0.0, 0.0))
    run.rewards.theta[0] = 0.0
    run.table.values[0, 0] = 0.0, 1.0
    advance("d3", tabular.TD, run, (0, 0, 0.5, 0))
    assert run.table.values[0, 0] == pytest.approx([1.0, 2.0])


def test_d3_target_equal_to_the_estimate_is_not_below_it():
    # Ω = (0, 0), surplus 0: no target is below, so the pulls are τ = ¼ and ¾ themselves.
    run = new_run("d3", tabular.TD, m=1, n=2)._replace(schedule=rules.Schedule(1.0, 0.0, 0.0, 0.0, 0.0))
    run.rewards.theta[0] = 0.0
    run.table.values[0, 0] = 0.0
    advance("d3", tabular.TD, run, (0, 0, 0.0, 0))
    assert run.table.values[0, 0].tolist() == [0.25, 0.75]


def test_masked_end_has_no_bootstrap():
    run = new_run("d2", tabular.TD)
    twin = new_run("d2", tabular.TD)
    twin.table.values[1, 0, 0] = 0.0
    tabular.td_learning(rules.d2, rules.D2, *run[:5], 0, 0, 1.0, 1, True)
    tabular.td_learning(rules.d2, rules.D2, *twin[:5], 0, 0, 1.0, 1, False)
    assert run.table.values[0] == twin.table.values[0]


def test_steps_fall_with_the_visits_of_the_entry_and_those_of_theta_with_the_clock():
    schedule = rules.Schedule(0.5, 1.0, 0.8, 0.5, 0.1)
    units = new_units()
    steps = rules.steps_now(rules.D2, None, schedule, units, 4, 15)
    assert tuple(steps) == pytest.approx((0.1, 0.2, 0.01, 1.0, 1.0, 0.0))
    # `differential` moves its average with its value, so by the visits as well: 0.8 / √(1 + 3) = 0.4
    steps = rules.steps_now(rules.DIFFERENTIAL, None, schedule, units, 3, 15)
    assert tuple(steps) == pytest.approx((0.125, 0.4, 0.0125, 1.0, 1.0, 0.0))


def test_epsilon_greedy_shares_ties_and_explores_uniformly():
    generator = make_generator(3)
    preferences = np.array([1.0, 2.0, 0.0, 2.0])
    draws = [policies.epsilon_greedy(preferences, 0.2, generator) for _ in range(40_000)]
    shares = np.bincount(draws, minlength=4) / len(draws)
    np.testing.assert_allclose(shares, [0.05, 0.45, 0.05, 0.45], atol=0.01)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.0, {1}), (1.0, {0, 1, 2})])
def test_epsilon_at_its_ends(epsilon, expected):
    generator = make_generator(4)
    preferences = np.array([0.0, 5.0, 1.0])
    assert {policies.epsilon_greedy(preferences, epsilon, generator) for _ in range(300)} == expected


def test_a_star_is_the_first_of_the_best():
    assert policies.greedy(np.array([1.0, 3.0, 3.0])) == 1


@pytest.mark.parametrize("rule", ["differential", "d2"])
def test_the_defaults_are_their_transcription(rule):
    """θ feeds R̄ and Q of d2, and nothing else moves them: the literal update of the defaults, on recorded transitions."""
    world = perstep.FiniteMDP(np.full((STATES, ACTIONS, STATES), 1 / STATES), rewards=np.zeros((STATES, ACTIONS)))
    agent = perstep.QLearning(world, rule=rule, num_quantiles=M, seed=1)
    state = {"Q": np.zeros((STATES, ACTIONS)), "theta": [0.0] * len(agent.reward_quantiles), "b": [0.0],
             "visits": np.zeros((STATES, ACTIONS)), "t": 0}  # fmt: skip
    for t, (s, a, r, s_next) in enumerate(recorded(9)):
        number = agent.config.kernel
        tabular.q_learning(rules.FUNCTIONS[number], number, *agent._run[:5], t, s, a, r, s_next, False)
        oracles.default_q(state, rule, s, a, r, s_next)
        np.testing.assert_allclose(agent.reward_quantiles, state["theta"], rtol=0, atol=SHORT)
        np.testing.assert_allclose(agent.all_action_values, state["Q"], rtol=0, atol=SHORT)
        assert agent.average_reward == pytest.approx(np.mean(state["theta"]) + state["b"][0], abs=SHORT)
