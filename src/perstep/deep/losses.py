"""The three rules again, as losses of a batch, in the order of the listings (Alg. 6, 10, 13) and beside those of rules.py.

A rule sees, for each sample, two vectors: the estimate (n numbers for S and A) and the bootstrap (n numbers for S′). It moves
the reward estimate and returns the loss, whose slope on the estimate is minus the pull that rules.py writes, and δ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from perstep.quantiles import mean, track, track_share
from perstep.rules import RewardEstimate, Steps

Floats = NDArray[np.float64]

REWARD_TRACKING = ("per-sample", "batch-mean")


class Settings(NamedTuple):
    """What stays the same from batch to batch."""

    huber: float  # λ
    reward_tracking: str
    tau: torch.Tensor  # (n,)


class Loss(NamedTuple):
    """What an update needs to know of a batch."""

    value: torch.Tensor  # ()
    delta: torch.Tensor  # (B,) δ, without slope


def differential(
    rewards: RewardEstimate,
    reward: Floats,
    bootstrap: torch.Tensor,
    estimate: torch.Tensor,
    steps: Steps,
    settings: Settings,
) -> Loss:
    """Alg. 13: δ with the old R̄; the δ nearest zero moves R̄, for stability; smooth L1."""
    surplus = _surplus(rewards, reward, estimate)  # (B,)
    delta = surplus + bootstrap[:, 0] - estimate[:, 0]  # (B,)
    known = delta.detach()
    rewards.theta[0] += steps.theta * float(known[known.abs().argmin()])
    return Loss(smooth_l1(delta, settings.huber), known)


def d2(
    rewards: RewardEstimate,
    reward: Floats,
    bootstrap: torch.Tensor,
    estimate: torch.Tensor,
    steps: Steps,
    settings: Settings,
) -> Loss:
    """Alg. 6: θ, then R̄, then δ with the new R̄; smooth L1. The offset is ours (docs/decisions/0001-learned-offset.md)."""
    track_rewards(rewards, reward, steps.theta, settings.reward_tracking)
    surplus = _surplus(rewards, reward, estimate)  # (B,)
    delta = surplus + bootstrap[:, 0] - estimate[:, 0]  # (B,)
    known = delta.detach()
    if steps.offset:
        rewards.offset[0] += steps.offset * float(known.mean())
    return Loss(smooth_l1(delta, settings.huber), known)


def d3(
    rewards: RewardEstimate,
    reward: Floats,
    bootstrap: torch.Tensor,
    estimate: torch.Tensor,
    steps: Steps,
    settings: Settings,
) -> Loss:
    """Alg. 10: θ, then R̄, then the quantile Huber loss of every Ω_j against every Ω_k of S′."""
    track_rewards(rewards, reward, steps.theta, settings.reward_tracking)
    surplus = _surplus(rewards, reward, estimate)  # (B,)
    targets = surplus[:, None] + bootstrap  # (B, n)
    return Loss(
        quantile_huber(targets, estimate, settings.tau, settings.huber), targets.mean(1) - estimate.detach().mean(1)
    )


RULES = {"differential": differential, "d2": d2, "d3": d3}


def track_rewards(rewards: RewardEstimate, reward: Floats, step: float, reward_tracking: str) -> None:
    """θ by the mean reward of the batch, as the paper writes it (θ then holds quantiles of batch means), or by every reward."""
    if reward_tracking == "batch-mean":
        track(rewards.theta, rewards.tau, float(reward.mean()), step)
    else:
        track_share(rewards.theta, rewards.tau, reward, step)


def smooth_l1(delta: torch.Tensor, huber: float) -> torch.Tensor:
    """(1/B) Σ_b L^λ(δ_b): x²/2λ up to λ, |x| − λ/2 beyond."""
    return functional.smooth_l1_loss(delta, torch.zeros_like(delta), beta=huber)


def quantile_huber(targets: torch.Tensor, estimate: torch.Tensor, tau: torch.Tensor, huber: float) -> torch.Tensor:
    """(1/B) Σ_b Σ_j E_k[h^λ_{τ_j}(ψ)] with ψ = target_k − Ω_j: |τ_j − 1{ψ<0}| times x²/2 up to λ, λ(|x| − λ/2) beyond."""
    psi = targets[:, None, :] - estimate[:, :, None]  # (B, n: j, n: k)
    weight = (tau[:, None] - (psi.detach() < 0).to(tau.dtype)).abs()  # (B, n, n)
    size = psi.abs()
    within = size.clamp(max=huber)
    return (weight * within * (size - 0.5 * within)).mean(2).sum(1).mean()


def _surplus(rewards: RewardEstimate, reward: Floats, like: torch.Tensor) -> torch.Tensor:
    """R − R̄ with the R̄ of this moment, (B,)."""
    surplus = reward - (float(mean(rewards.theta)) + rewards.offset[0])
    return torch.from_numpy(surplus).to(like.device, like.dtype)
