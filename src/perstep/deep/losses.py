"""The loss of a minibatch, for every rule of rules/transition.py, in the order of the listings (Alg. 6, 10, 13).

It sees, for each sample, two vectors: the estimate (n numbers for S and A) and the bootstrap (n numbers for S′). The rule moves
the reward estimate. The slope of the loss on the estimate is minus the pull that rules/transition.py writes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from perstep.numerics.compiled import compiled
from perstep.numerics.quantiles import SHAPE_STEP, huber_pulls, mean, mean_square, smooth_pulls
from perstep.rules.transition import (
    SCALAR,
    UNCENTERED,
    VALUE,
    WITH_HORIZON,
    RewardEstimate,
    Steps,
    average_reward,
    follow,
    mean_of_last_axis,
    move_theta_by_batch,
)

Floats = NDArray[np.float64]

TINY = float(np.finfo(np.float64).tiny)


class Settings(NamedTuple):
    """What is the same for all minibatches."""

    rule: int
    huber: float  # λ
    reward_tracking: str
    tau: torch.Tensor  # (n,)
    discount: float = 1.0  # γ
    horizon_factor: float = 0.0  # g of return quantiles with a horizon
    end_divisor: float = (
        math.inf
    )  # the value after a masked end is −R̄ divided by it: 1 − γ where rewards stop there, else ∞
    level_share: float = 0.0  # κ: the share of the mean value that is subtracted with R̄


class Look(NamedTuple):
    """What the networks say about a minibatch."""

    estimate: torch.Tensor  # (B, n) the value of S and A, with slope
    bootstrap: torch.Tensor  # (B, n) the value of S′
    fresh: torch.Tensor | None = None  # (B, n) the value of S′ by the online network, for a learned offset
    length: NDArray[np.int64] | None = None  # (B,) steps from S to S′; None for one step each


class Loss(NamedTuple):
    """What an update needs to know about a minibatch."""

    value: torch.Tensor  # ()
    delta: torch.Tensor  # (B,) δ, without slope


def loss(rewards: RewardEstimate, reward: Floats, look: Look, steps: Steps, settings: Settings) -> Loss:
    """Alg. 6, 10 and 13, and every other rule: θ, which gives R̄; δ with this R̄; what R̄ follows; the loss of the values.

    θ and R̄ are moved by the functions that tables and tiles use. The rule says which loss the distance from estimate to target has.
    """
    rule = settings.rule
    if rule not in SCALAR:
        batch = np.array([reward.mean()]) if settings.reward_tracking == "batch-mean" else reward
        move_theta_by_batch(rewards, batch, steps.theta * steps.reward_unit)
    average = average_reward(rule, rewards)
    targets, delta = compared(average, reward, look, steps, settings)
    follow(
        rule, rewards, average, float(reward.mean()), steps.value_unit * error(delta.detach(), look, settings), steps
    )
    if rule in WITH_HORIZON:
        return Loss(smooth_l1(delta, settings.huber) + around_the_mean(delta.detach(), look, settings), delta.detach())
    if rule in SCALAR or rule in VALUE:
        return Loss(smooth_l1(delta, settings.huber), delta.detach())
    return Loss(quantile_huber(targets, look.estimate, settings.tau, settings.huber), delta.detach())


def compared(
    average: float, reward: Floats, look: Look, steps: Steps, settings: Settings
) -> tuple[torch.Tensor, torch.Tensor]:
    """The targets (B, n), and δ (B,): how far the means of the estimates are from theirs."""
    ahead = discounted(look.bootstrap, look, settings)
    targets = surplus(average, reward, look, steps, settings)[:, None] + ahead
    return targets, mean_of_last_axis(targets) - mean_of_last_axis(look.estimate)


def error(delta: torch.Tensor, look: Look, settings: Settings) -> float:
    """The δ of a batch that R̄ follows: of `differential` the one nearest zero, for stability (Alg. 13). Of the other rules, whose
    offset is ours (docs/decisions/0001-learned-offset.md), the mean, with the value of S′ by the online network.

    A target network follows a drift of Q at a distance that compensates for a wrong R̄, so that its δ is zero while Q goes on
    drifting (docs/learners/deep-q.md).
    """
    if settings.rule in SCALAR:
        return float(delta[delta.abs().argmin()])
    if look.fresh is None:
        return 0.0
    return float((delta + discounted(look.fresh - look.bootstrap, look, settings).mean(1)).mean())


def around_the_mean(delta: torch.Tensor, look: Look, settings: Settings) -> torch.Tensor:
    """With a horizon: half of the squared pulls on what is around the mean of Ω, which moves by δ as the value of d2 does."""
    pulls = horizon_pulls(delta, look, settings)
    return 0.5 * (look.estimate - look.estimate.detach() - pulls).square().mean()


def discounted(bootstrap: torch.Tensor, look: Look, settings: Settings) -> torch.Tensor:
    """γ times the bootstrap, or γ^k where S′ is k steps ahead."""
    if settings.discount == 1.0:
        return bootstrap
    if look.length is None:
        return settings.discount * bootstrap
    factor = torch.from_numpy(settings.discount**look.length).to(bootstrap.device, bootstrap.dtype)
    return factor[:, None] * bootstrap


def smooth_l1(delta: torch.Tensor, huber: float) -> torch.Tensor:
    """(1/B) Σ_b L^λ(δ_b): x²/2λ up to λ, |x| − λ/2 beyond."""
    return functional.smooth_l1_loss(delta, torch.zeros_like(delta), beta=huber)


def quantile_huber(targets: torch.Tensor, estimate: torch.Tensor, tau: torch.Tensor, huber: float) -> torch.Tensor:
    """(1/B) Σ_b Σ_j E_k[h^λ_{τ_j}(ψ)] with ψ = target_k − Ω_j: |τ_j − 1{ψ<0}| times x²/2 up to λ, λ(|x| − λ/2) beyond."""
    if targets.device.type == "cpu" and not torch.compiler.is_compiling():
        return cast(torch.Tensor, CompiledQuantileHuber.apply(targets, estimate, tau, huber))  # type: ignore[no-untyped-call]
    return plain_quantile_huber(targets, estimate, tau, huber)


def plain_quantile_huber(
    targets: torch.Tensor, estimate: torch.Tensor, tau: torch.Tensor, huber: float
) -> torch.Tensor:
    """The loss as it is written, for any device."""
    psi = targets[:, None, :] - estimate[:, :, None]  # (B, n: j, n: k)
    weight = (tau[:, None] - (psi.detach() < 0).to(tau.dtype)).abs()  # (B, n, n)
    size = psi.abs()
    within = size.clamp(max=huber)
    return (weight * within * (size - 0.5 * within)).mean(2).sum(1).mean()


def horizon_pulls(delta: torch.Tensor, look: Look, settings: Settings) -> torch.Tensor:
    """The pulls of quantiles.horizon_pulls on Z, Ω around its mean, for small steps: the variance moves towards δ² + g² v′, the
    shape by quantile regression towards δ + g Z′. (B, n), of mean 0.

    The pull on the spread is (δ² + g² v′ − v)/2√v. Where the spread is still much too small, the root mean target of the batch
    takes the place of √v: a factor that is the same for all targets changes the pace and not where it ends.
    """
    if delta.device.type == "cpu" and not torch.compiler.is_compiling():
        return compiled_horizon_pulls(delta, look, settings)
    return plain_horizon_pulls(delta, look, settings)


def compiled_horizon_pulls(delta: torch.Tensor, look: Look, settings: Settings) -> torch.Tensor:
    """The pulls, sample by sample, as a compiled loop."""
    tensors = (delta, look.estimate.detach(), look.bootstrap, settings.tau)
    error, estimate, bootstrap, tau = (tensor.to(torch.float64).contiguous().numpy() for tensor in tensors)
    pulls, ordered = np.empty_like(estimate), np.empty(estimate.shape[1] + 2)
    horizon_pulls_batch(error, settings.horizon_factor, bootstrap, estimate, tau, ordered, pulls)
    return torch.from_numpy(pulls).to(look.estimate.dtype)


def plain_horizon_pulls(delta: torch.Tensor, look: Look, settings: Settings) -> torch.Tensor:
    """The pulls as they are written, for any device."""
    around = look.estimate.detach() - look.estimate.detach().mean(1, keepdim=True)
    ahead = look.bootstrap - look.bootstrap.mean(1, keepdim=True)
    g = settings.horizon_factor
    variance = around.square().mean(1, keepdim=True)  # (B, 1)
    target = delta[:, None] ** 2 + g**2 * ahead.square().mean(1, keepdim=True)
    spread = variance.sqrt().clamp(min=torch.finfo(around.dtype).tiny)
    shape = around / spread
    regression = settings.tau - level_below((around - delta[:, None]) / g, ahead)
    regression = regression - regression.mean(1, keepdim=True)
    regression = regression - shape * (shape * regression).mean(1, keepdim=True)
    pace = torch.maximum(spread, target.mean().sqrt())
    return shape * (target - variance) / (2.0 * pace) + SHAPE_STEP * spread * regression


def level_below(bars: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """P(Y < bar) for targets that stand for a distribution without atoms, as in quantiles.smooth_pulls. (B, n)"""
    ordered, count = targets.sort(1).values, targets.shape[1]
    below = torch.searchsorted(ordered, bars.contiguous())
    place = (below - 1).clamp(0, count - 2)
    left, right = ordered.gather(1, place), ordered.gather(1, place + 1)
    width = (right - left).clamp(min=torch.finfo(bars.dtype).tiny)
    low = torch.exp(2.0 * ((bars - left) / width).clamp(max=0.0)) / (2 * count)
    high = 1.0 - torch.exp(-2.0 * ((bars - right) / width).clamp(min=0.0)) / (2 * count)
    between = (below - 0.5 + (bars - left) / width) / count
    return torch.where(below == 0, low, torch.where(below == count, high, between))


@compiled
def horizon_pulls_batch(
    delta: Any, factor: Any, bootstrap: Any, estimate: Any, tau: Any, ordered: Any, pulls: Any
) -> None:
    """`plain_horizon_pulls`, row by row, with the level of `quantiles.smooth_pulls`."""
    total, count = 0.0, estimate.shape[1]
    for b in range(estimate.shape[0]):
        ahead = mean_square(bootstrap[b], mean(bootstrap[b]))
        total += delta[b] * delta[b] + factor * factor * ahead
    typical = math.sqrt(total / estimate.shape[0])
    for b in range(estimate.shape[0]):
        here, there = mean(estimate[b]), mean(bootstrap[b])
        variance, ahead = mean_square(estimate[b], here), mean_square(bootstrap[b], there)
        spread, target = math.sqrt(variance), delta[b] * delta[b] + factor * factor * ahead
        smooth_pulls(here + delta[b] - factor * there, factor, bootstrap[b], estimate[b], tau, ordered, pulls[b])
        middle, along = mean(pulls[b]), 0.0
        for j in range(count):
            pulls[b, j] -= middle
            if spread > 0.0:
                along += pulls[b, j] * (estimate[b, j] - here) / spread / count
        for j in range(count):
            shape = (estimate[b, j] - here) / spread if spread > 0.0 else 0.0
            moved = SHAPE_STEP * spread * (pulls[b, j] - shape * along)
            pulls[b, j] = shape * (target - variance) / (2.0 * max(spread, typical, TINY)) + moved


@final
class CompiledQuantileHuber(torch.autograd.Function):
    """The same loss, whose slope is minus the pull that tables and tiles use: twenty times faster on a processor."""

    @staticmethod
    def forward(
        ctx: Any, targets: torch.Tensor, estimate: torch.Tensor, tau: torch.Tensor, huber: float
    ) -> torch.Tensor:
        """The loss; its slope is computed together with it and kept."""
        wide = [tensor.detach().to(torch.float64).contiguous().numpy() for tensor in (targets, estimate, tau)]
        pulls = np.empty_like(wide[1])  # (B, n)
        n = pulls.shape[1]
        y, x, levels = wide
        value = quantile_huber_batch(y, x, levels, huber, np.empty(n + 2), np.empty(n + 1), np.empty(n), pulls)
        ctx.save_for_backward(torch.from_numpy(pulls).to(estimate.dtype))
        return torch.tensor(value, dtype=estimate.dtype)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        """The slope on the estimate alone: targets are constants."""
        (pulls,) = ctx.saved_tensors
        return None, pulls * (slopes[0] / -len(pulls)), None, None


@compiled
def quantile_huber_batch(
    targets: Any, estimate: Any, tau: Any, huber: Any, ordered: Any, sums: Any, totals: Any, pulls: Any
) -> Any:
    """The loss of a batch, and the pull on every estimate of every sample. Each target has its own sum, so that no addition
    waits for the one before it."""
    for k in range(totals.shape[0]):
        totals[k] = 0.0
    for b in range(targets.shape[0]):
        huber_pulls(0.0, 1.0, targets[b], estimate[b], tau, huber, ordered, sums, pulls[b])
        for j in range(estimate.shape[1]):
            for k in range(targets.shape[1]):
                psi = targets[b, k] - estimate[b, j]
                within = min(max(psi, -huber), huber)
                weight = tau[j] if psi >= 0.0 else 1.0 - tau[j]
                totals[k] += weight * within * (psi - 0.5 * within)
    return mean(totals) / targets.shape[0]


def surplus(average: float, reward: Floats, look: Look, steps: Steps, settings: Settings) -> torch.Tensor:
    """R − R̄, in the unit of values, (B,); R itself where rewards are not centered. Over k steps R is Σ γ^i R_i, and Σ γ^i R̄ is
    subtracted.

    R̄ of the stream is what the agent earns as it behaves; the values are those of the greedy policy, which earns r̄ − R̄ more.
    Undiscounted, all values drift by this at every step that they look further. With the share κ of their level subtracted, they
    come to rest at the level (r̄ − R̄)/κ, and R̄ + κ · level is r̄: RVI Q-learning with f(Q) = R̄ + κ ⟨μ, Q⟩, which is differential
    Q-learning summed over time (docs/decisions/0020-level.md).
    """
    times: Any = 1.0
    if settings.level_share:
        average += settings.level_share * level(look) * steps.value_unit
    if look.length is not None:
        gamma = settings.discount
        times = look.length if gamma == 1.0 else (1.0 - gamma**look.length) / (1.0 - gamma)
    like, subtracted = look.estimate, 0.0 if settings.rule in UNCENTERED else average
    return torch.from_numpy((reward - times * subtracted) / steps.value_unit).to(like.device, like.dtype)


def level(look: Look) -> float:
    """The mean value where a minibatch leads, in the unit of values."""
    return float(look.bootstrap.mean())


def value_after_end(rewards: RewardEstimate, steps: Steps, settings: Settings) -> float:
    """The bootstrap of a masked end: 0, or Σ γ^k (0 − R̄) where rewards stop there, in the unit of values."""
    return -average_reward(settings.rule, rewards) / settings.end_divisor / steps.value_unit
