"""Algorithms 6, 10 and 13 between the sample and the step: by hand, by the listings, and against the pulls of the tables."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from perstep.numerics.quantiles import huber_pulls, track, track_share
from perstep.rules import transition as rules

torch = pytest.importorskip("torch")
from perstep.deep import losses  # noqa: E402

B, A, M, N = 6, 3, 7, 5
ALPHA, ALPHA_THETA = 0.05, 0.085


def estimate_of(theta, offset=0.0):
    theta = np.array(theta, float)
    return rules.reward_estimate(len(theta), 0.0)._replace(theta=theta, offset=np.array([offset]))


def settings(rule, n=1, huber=1.0, tracking="batch-mean", dtype=torch.float64):
    return losses.Settings(rule, huber, tracking, torch.tensor(rules.levels(n), dtype=dtype))


def steps():
    return rules.Steps(ALPHA, ALPHA_THETA, 0.0)


def look(bootstrap, estimate):
    return losses.Look(tensor(estimate), tensor(bootstrap))


def tensor(values, grad=False, dtype=torch.float64):
    return torch.tensor(np.array(values, float), dtype=dtype, requires_grad=grad)


# ------------------------------------------------------------------------------------------------------------- by hand


def test_differential_by_hand():
    # R̄ = 1. δ = (2 − 1 + 3 − 3.5, 0 − 1 + 1 + 2) = (0.5, 2). Smallest |δ| is 0.5: R̄ ← 1 + 0.085 · 0.5 = 1.0425.
    # λ = 1: L(0.5) = 0.125, L(2) = 1.5, mean 0.8125.
    rewards = estimate_of([1.0])
    loss = losses.loss(
        rewards, np.array([2.0, 0.0]), look([[3], [1]], [[3.5], [-2]]), steps(), settings(rules.DIFFERENTIAL)
    )
    assert float(loss.value) == pytest.approx(0.8125, abs=1e-12)
    assert loss.delta.tolist() == [0.5, 2.0]
    assert rewards.theta[0] == pytest.approx(1.0425, abs=1e-12)


def test_d2_by_hand():
    # θ = (0, 1), τ = (¼, ¾), batch mean ½: θ ← (0 + .085·¼, 1 + .085·(¾ − 1)) = (.02125, .97875), R̄ = ½.
    # δ = (1 − ½ + 2 − 1, 0 − ½ + 0 − 0) = (1.5, −.5); λ = 2: L = 1.5²/4 = .5625 and .25/4 = .0625, mean .3125.
    rewards = estimate_of([0.0, 1.0])
    loss = losses.loss(
        rewards, np.array([1.0, 0.0]), look([[2], [0]], [[1], [0]]), steps(), settings(rules.D2, huber=2.0)
    )
    np.testing.assert_allclose(rewards.theta, [0.02125, 0.97875], atol=1e-12)
    assert float(loss.value) == pytest.approx(0.3125, abs=1e-12)
    assert loss.delta.tolist() == pytest.approx([1.5, -0.5], abs=1e-12)


def test_d2_per_sample_by_hand():
    # Rewards (1, 0, 0, 0) against θ = (0, 1), of which none and three in four are below:
    # θ ← (0 + .085·¼, 1 + .085·(¾ − ¾)) = (.02125, 1).
    rewards = estimate_of([0.0, 1.0])
    four = np.zeros((4, 1))
    losses.loss(rewards, np.array([1.0, 0, 0, 0]), look(four, four), steps(), settings(rules.D2, tracking="per-sample"))
    np.testing.assert_allclose(rewards.theta, [0.02125, 1.0], atol=1e-12)


def test_offset_by_hand():
    rewards = estimate_of([0.0], offset=0.5)
    # R = 0 is not below θ = 0: θ ← .0425, R̄ = .5425, δ = 0 − .5425 + 1 − 0 = .4575 with the target network's value of S′.
    # With that of the online network, 3, it is 2.4575: b ← ½ + .1 · 2.4575.
    fresh = look([[1.0]], [[0.0]])._replace(fresh=tensor([[3.0]]))
    loss = losses.loss(rewards, np.array([0.0]), fresh, steps()._replace(offset=0.1), settings(rules.D2))
    assert loss.delta.tolist() == pytest.approx([0.4575], abs=1e-12)
    assert rewards.offset[0] == pytest.approx(0.74575, abs=1e-12)


def test_d3_by_hand():
    # θ = (0,), R = 0: θ ← .085 · ½ = .0425 = R̄. Targets −.0425 + (0.0425, 3.0425) = (0, 3), Ω = (1, 0), τ = (¼, ¾), λ = 1.
    # ψ for j = 1: (−1, 2): ¾ · ½ and ¼ · 1.5, mean .375; for j = 2: (0, 3): 0 and ¾ · 2.5, mean .9375. Sum 1.3125.
    rewards = estimate_of([0.0])
    loss = losses.loss(
        rewards, np.array([0.0]), look([[0.0425, 3.0425]], [[1.0, 0.0]]), steps(), settings(rules.D3_HUBER, 2)
    )
    assert float(loss.value) == pytest.approx(1.3125, abs=1e-12)
    assert loss.delta.tolist() == pytest.approx([1.0], abs=1e-12)


# ------------------------------------------------------------------------------------------------------- by the listing


def random_batch(seed):
    rng = np.random.default_rng(seed)
    R, action = rng.normal(size=B), rng.integers(A, size=B)
    omega, omega_next, omega_T_next = rng.normal(scale=1.5, size=(3, B, A, N))
    return R, action, omega, omega_next, omega_T_next


PRECISIONS = [(torch.float64, 1e-12), (torch.float32, 1e-6)]


@pytest.mark.parametrize(("dtype", "close"), PRECISIONS)
@pytest.mark.parametrize("huber", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_differential_is_algorithm_13(seed, huber, dtype, close):
    R, action, omega, _, omega_T_next = random_batch(seed)
    q, q_T_next = omega[..., 0], omega_T_next[..., 0]
    R_bar, rewards = [0.3], estimate_of([0.3])
    ell = oracles.differential_deep_q(R_bar, ALPHA, ALPHA_THETA / ALPHA, action, R, q, q_T_next, huber)
    bootstrap, own = tensor(q_T_next.max(1)[:, None], dtype=dtype), tensor(q[range(B), action][:, None], dtype=dtype)
    loss = losses.loss(
        rewards, R, losses.Look(own, bootstrap), steps(), settings(rules.DIFFERENTIAL, huber=huber, dtype=dtype)
    )
    assert float(loss.value) == pytest.approx(-ell, abs=close)
    assert rewards.theta[0] == pytest.approx(R_bar[0], abs=close)


@pytest.mark.parametrize(("dtype", "close"), PRECISIONS)
@pytest.mark.parametrize("tracking", ["per-sample", "batch-mean"])
@pytest.mark.parametrize("seed", range(3))
def test_d2_is_algorithm_6(seed, tracking, dtype, close):
    R, action, omega, _, omega_T_next = random_batch(seed)
    q, q_T_next = omega[..., 0], omega_T_next[..., 0]
    theta = list(np.linspace(-1, 1, M))
    rewards = estimate_of(theta)
    ell = oracles.d2_deep_q(theta, ALPHA_THETA, action, R, q, q_T_next, 0.7, per_sample=tracking == "per-sample")
    bootstrap, own = tensor(q_T_next.max(1)[:, None], dtype=dtype), tensor(q[range(B), action][:, None], dtype=dtype)
    loss = losses.loss(
        rewards, R, losses.Look(own, bootstrap), steps(), settings(rules.D2, huber=0.7, tracking=tracking, dtype=dtype)
    )
    assert float(loss.value) == pytest.approx(-ell, abs=close)
    np.testing.assert_allclose(rewards.theta, theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "close"), PRECISIONS)
@pytest.mark.parametrize("tracking", ["per-sample", "batch-mean"])
@pytest.mark.parametrize("seed", range(3))
def test_d3_is_algorithm_10(seed, tracking, dtype, close):
    R, action, omega, omega_next, omega_T_next = random_batch(seed)
    theta = list(np.linspace(-1, 1, M))
    rewards = estimate_of(theta)
    ell = oracles.d3_deep_q(
        theta, ALPHA_THETA, action, R, omega, omega_next, omega_T_next, 0.7, per_sample=tracking == "per-sample"
    )
    best = omega_next.mean(2).argmax(1)
    bootstrap, own = tensor(omega_T_next[range(B), best], dtype=dtype), tensor(omega[range(B), action], dtype=dtype)
    loss = losses.loss(
        rewards, R, losses.Look(own, bootstrap), steps(), settings(rules.D3_HUBER, N, 0.7, tracking, dtype)
    )
    assert float(loss.value) == pytest.approx(-ell, abs=10 * close)  # a sum over n quantiles of n terms
    np.testing.assert_allclose(rewards.theta, theta, rtol=0, atol=1e-12)


# ---------------------------------------------------------------------------------------------------- by the tables' pulls


@pytest.mark.parametrize("huber", [0.4, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_slope_of_d3_is_the_compiled_pull(seed, huber):
    rng = np.random.default_rng(seed)
    theta, own, bootstrap, R = rng.normal(size=M), rng.normal(size=N), rng.normal(size=N), rng.normal()
    rewards, tabular = estimate_of(theta), estimate_of(theta)
    estimate = tensor([own], grad=True)
    loss = losses.loss(
        rewards,
        np.array([R]),
        losses.Look(estimate, tensor([bootstrap])),
        steps(),
        settings(rules.D3_HUBER, N, huber, "per-sample"),
    )
    loss.value.backward()
    work = rules.workspace(N, huber)
    delta = rules.any_rule(rules.D3_HUBER, tabular, R, bootstrap, own, steps(), work)
    np.testing.assert_allclose(-estimate.grad[0].numpy(), work.pull, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rewards.theta, tabular.theta, rtol=0, atol=0)
    assert float(loss.delta[0]) == pytest.approx(delta, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_slope_of_d3_with_a_horizon_is_the_compiled_pull_of_a_small_step(seed):
    """Decision 0013. The pull on the spread is divided by the larger of the spread and the root of its target."""
    rng = np.random.default_rng(seed)
    theta, own, bootstrap, R, g = rng.normal(size=M), rng.normal(size=N), rng.normal(size=N), rng.normal(), 0.9
    rewards, tabular = estimate_of(theta), estimate_of(theta)
    estimate = tensor([own], grad=True)
    with_horizon = settings(rules.D3_WITH_HORIZON, N, 1e6, "per-sample")._replace(horizon_factor=g)
    loss = losses.loss(rewards, np.array([R]), losses.Look(estimate, tensor([bootstrap])), steps(), with_horizon)
    loss.value.backward()
    work = rules.workspace(N, horizon=10)
    delta = rules.any_rule(rules.D3_WITH_HORIZON, tabular, R, bootstrap, own, steps()._replace(value=1e-7), work)
    v, target = own.var(), delta**2 + g**2 * bootstrap.var()
    shape, slope = (own - own.mean()) / v**0.5, N * -estimate.grad[0].numpy()
    slope += shape * (target - v) / 2 * (v**-0.5 - max(v, target) ** -0.5)
    np.testing.assert_allclose(slope - slope.mean(), work.pull - delta, rtol=0, atol=1e-5)
    assert slope.mean() * 1e6 == pytest.approx(delta, rel=1e-6)  # smooth L1 divides by λ
    assert float(loss.delta[0]) == pytest.approx(delta, abs=1e-12)


@pytest.mark.parametrize("rule", ["differential", "d2"])
@pytest.mark.parametrize("seed", range(6))
def test_slope_of_the_scalar_rules_is_the_clipped_pull(rule, seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=1 if rule == "differential" else M)
    own, bootstrap, R, huber = rng.normal(size=1), 2 * rng.normal(size=1), rng.normal(), 0.8
    rewards, tabular = estimate_of(theta), estimate_of(theta)
    estimate = tensor([own], grad=True)
    loss = losses.loss(
        rewards,
        np.array([R]),
        losses.Look(estimate, tensor([bootstrap])),
        steps(),
        settings(rules.RULES[rule].number, huber=huber),
    )
    loss.value.backward()
    work = rules.workspace(1)
    rules.any_rule(rules.RULES[rule].number, tabular, R, bootstrap, own, steps(), work)
    assert -float(estimate.grad) == pytest.approx(np.clip(work.pull[0] / huber, -1, 1), abs=1e-12)
    np.testing.assert_allclose(rewards.theta, tabular.theta, rtol=0, atol=0)


@pytest.mark.parametrize(("dtype", "close"), PRECISIONS)
@pytest.mark.parametrize("huber", [0.3, 1.0, 20.0])
def test_compiled_loss_is_the_plain_one(huber, dtype, close):
    rng = np.random.default_rng(4)
    targets, own = tensor(rng.normal(size=(B, N)), dtype=dtype), rng.normal(scale=2, size=(B, N))
    own[0, 0] = float(targets[0, 1])  # where two meet
    tau, results = tensor(rules.levels(N), dtype=dtype), []
    for loss in (losses.plain_quantile_huber, losses.quantile_huber):
        estimate = tensor(own, grad=True, dtype=dtype)
        value = loss(targets, estimate, tau, huber)
        (3 * value).backward()
        results.append((float(value.detach()), estimate.grad.numpy()))
    assert results[0][0] == pytest.approx(results[1][0], rel=close)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=0, atol=close)


@pytest.mark.parametrize(("dtype", "close"), PRECISIONS)
def test_compiled_pulls_of_a_horizon_are_the_plain_ones(dtype, close):
    rng = np.random.default_rng(4)
    own, bootstrap = rng.normal(scale=2, size=(B, N)), rng.normal(size=(B, N))
    own[0] = 1.5  # without a spread
    look = losses.Look(tensor(own, dtype=dtype), tensor(bootstrap, dtype=dtype))
    delta = tensor(rng.normal(size=B), dtype=dtype)
    about = settings(rules.D3_WITH_HORIZON, N)._replace(horizon_factor=0.9, tau=tensor(rules.levels(N), dtype=dtype))
    plain, compiled = losses.plain_horizon_pulls(delta, look, about), losses.horizon_pulls(delta, look, about)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=20 * close)


def test_slope_where_two_quantiles_meet_is_zero():
    estimate = tensor([[0.0]], grad=True)
    losses.quantile_huber(tensor([[0.0]]), estimate, tensor([0.5]), 1.0).backward()
    pull = np.zeros(1)
    huber_pulls(0.0, 1.0, np.zeros(1), np.zeros(1), np.array([0.5]), 1.0, np.zeros(3), np.zeros(2), pull)
    assert float(estimate.grad) == pull[0] == 0.0


# ------------------------------------------------------------------------------------------------------------ θ by a batch


def test_track_share_of_one_reward_is_track():
    rng = np.random.default_rng(0)
    one, many, tau = np.zeros(M), np.zeros(M), rules.levels(M)
    for reward in rng.normal(size=200):
        track(one, tau, reward, 0.03)
        track_share(many, tau, np.array([reward]), 0.03)
    np.testing.assert_array_equal(one, many)


def test_track_share_is_the_mean_over_the_batch():
    rng = np.random.default_rng(1)
    theta, tau, rewards = rng.normal(size=M), rules.levels(M), rng.normal(size=B)
    expected = theta + 0.1 * (tau - (rewards[:, None] < theta).mean(0))
    track_share(theta, tau, rewards, 0.1)
    np.testing.assert_allclose(theta, expected, rtol=0, atol=1e-15)
