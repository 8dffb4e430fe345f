"""The discounted corners of the lattice beside Stable-Baselines3: the same loss and the same slope on the same minibatch."""

from __future__ import annotations

import numpy as np
import pytest

from perstep.rules import transition as rules

torch = pytest.importorskip("torch")
from perstep.deep import losses  # noqa: E402

B, N, GAMMA = 16, 51, 0.99


def minibatch(n, seed=0):
    rng = np.random.default_rng(seed)
    reward, done = rng.normal(size=B), rng.random(B) < 0.3
    estimate = torch.tensor(rng.normal(scale=2.0, size=(B, n)), dtype=torch.float32, requires_grad=True)
    bootstrap = torch.tensor(rng.normal(scale=2.0, size=(B, n)), dtype=torch.float32)
    masked = bootstrap.masked_fill(torch.from_numpy(done)[:, None], 0.0)
    return reward, torch.from_numpy(done), estimate, bootstrap, masked


def settings(n):
    tau = torch.tensor(rules.levels(n), dtype=torch.float32)
    return losses.Settings(rules.Q_LEARNING if n == 1 else rules.QR_HUBER, 1.0, "per-sample", tau, GAMMA)


def targets_of(reward, done, bootstrap):
    """As their `train` computes them: rewards + (1 − dones) · γ · next values."""
    return torch.tensor(reward, dtype=torch.float32)[:, None] + (~done)[:, None] * GAMMA * bootstrap


@pytest.mark.parametrize("seed", range(3))
def test_discounted_quantile_loss_is_that_of_sb3_contrib(seed):
    utils = pytest.importorskip("sb3_contrib.common.utils")
    reward, done, estimate, bootstrap, masked = minibatch(N, seed)
    theirs = utils.quantile_huber_loss(estimate, targets_of(reward, done, bootstrap), sum_over_quantiles=True)
    (slope,) = torch.autograd.grad(theirs, estimate)
    steps, look = rules.Steps(0.1, 0.1, 0.0), losses.Look(estimate, masked)
    ours = losses.loss(rules.reward_estimate(5, 3.0), reward, look, steps, settings(N)).value
    (own,) = torch.autograd.grad(ours, estimate)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    torch.testing.assert_close(own, slope, rtol=1e-4, atol=1e-6)


def test_discounted_loss_is_that_of_dqn():
    """Stable-Baselines3's DQN: smooth L1 of q(S, A) against rewards + (1 − dones) · γ · max q_T(S′, ·)."""
    reward, done, estimate, bootstrap, masked = minibatch(1)
    theirs = torch.nn.functional.smooth_l1_loss(estimate, targets_of(reward, done, bootstrap))
    rewards = rules.reward_estimate(1, 3.0)
    look = losses.Look(estimate, masked)
    ours = losses.loss(rewards, reward, look, rules.Steps(0.1, 0.5, 0.0), settings(1)).value
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert rewards.theta[0] == pytest.approx(3.0 + 0.5 * (reward.mean() - 3.0))  # R̄ follows the rewards themselves
