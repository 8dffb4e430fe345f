"""A scan with a network: K heads, one for each target of a risk level (ours; docs/decisions/0012-risk.md).

Head k learns the discounted values of the reward y − (y − R)⁺/τ with its own target y, off-policy from one replay, and the agent
acts by the head with the largest gain. Values are what is added to the mean of these rewards in the replay. So a gain is that
mean and (1 − γ) times the mean value of the states in the replay: what the policy of the head would earn per step from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from perstep.deep.losses import Look, smooth_l1
from perstep.deep.scan import (
    BEST_THERE,
    DELAY,
    LAID,
    LEVEL,
    MEAN_SHARE,
    OLD_TARGETS,
    RECENT,
    RELAY,
    WINNER,
    Scan,
    new_scan,
    see_and_review,
)

Floats = NDArray[np.float64]


@final
class RiskHeads:
    """The targets and gains of the heads; their values are those of the network."""

    def __init__(self, count: int, level: float, discount: float) -> None:
        self.scan: Scan = new_scan(count, level)
        self.centres: Floats = np.zeros(count)
        """What the values of a head are counted from: the mean of its rewards in the replay when the targets were laid. (K,)"""
        self.discount = discount

    @property
    def winner(self) -> int:
        """The head that the agent acts by."""
        return int(self.scan.cursor[WINNER])

    @property
    def ready(self) -> bool:
        """Whether there are targets."""
        return bool(self.scan.cursor[LAID])

    def see(self, reward: float) -> NDArray[np.int64] | None:
        """Take note of a reward as it is earned. Where the targets are laid anew, returns the head that each one takes over."""
        laid, relay = self.ready, int(self.scan.cursor[RELAY])
        see_and_review(self.scan, reward)
        if int(self.scan.cursor[RELAY]) == relay:
            return None
        return self.scan.room[BEST_THERE].astype(np.int64) if laid else np.arange(self.centres.size)

    def felt(self, reward: Floats, targets: Floats) -> Floats:
        """What the heads learn from instead of the rewards, (B, K)."""
        short = np.maximum(targets - reward[:, None], 0.0)
        return np.asarray(targets + MEAN_SHARE * reward[:, None] - short / self.scan.span[LEVEL])

    def take_over(
        self, sources: NDArray[np.int64], rewards: Floats, networks: Iterable[torch.nn.Linear],
        moments: Iterable[torch.Tensor], unit: float,
    ) -> None:  # fmt: skip
        """Let every head continue from that of a nearby target, and count its values from the current mean reward."""
        before = self.felt(rewards, self.scan.room[OLD_TARGETS]).mean(0)
        shift = (self.centres - before) / (1.0 - self.discount) / unit if unit and self.centres.any() else 0.0 * before
        self.centres[:] = self.felt(rewards, self.scan.targets).mean(0)
        from_heads, count = torch.from_numpy(sources), sources.size
        with torch.no_grad():
            for head in networks:
                for weight in (head.weight, head.bias):
                    rows = weight.view(-1, count, *weight.shape[1:])  # (A, K, …)
                    rows.copy_(rows[:, from_heads.to(weight.device)].clone())
                added = torch.from_numpy(shift[sources]).to(head.bias.device, head.bias.dtype)
                head.bias.view(-1, count).add_(added)
            for moment in moments:
                rows = moment.view(-1, count, *moment.shape[1:])
                rows.copy_(rows[:, from_heads.to(moment.device)].clone())

    def loss(self, reward: Floats, look: Look, unit: float, huber: float) -> torch.Tensor:
        """The mean loss of the heads; their gains move along."""
        scan, like = self.scan, look.estimate
        surplus = (self.felt(reward, scan.targets) - self.centres) / unit  # (B, K)
        delta = torch.from_numpy(surplus).to(like.device, like.dtype) + self.discount * look.bootstrap - like
        ahead = look.bootstrap.mean(0).to("cpu", torch.float64).numpy()  # (K,)
        scan.counts[:] += 1.0
        rates = RECENT / (scan.counts + DELAY)
        scan.gains[:] += rates * (self.centres + (1.0 - self.discount) * unit * ahead - scan.gains)
        return smooth_l1(delta, huber)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What goes into a file."""
        scan = self.scan
        return {"targets": scan.targets, "gains": scan.gains, "counts": scan.counts, "span": scan.span, "cursor": scan.cursor,
                "centres": self.centres}  # fmt: skip

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Become the heads whose arrays these are; ValueError if they do not fit."""
        for name, array in self.arrays().items():
            found = arrays[name]
            if found.shape != array.shape or found.dtype != array.dtype:
                raise ValueError(f"heads.{name} must be {array.dtype} {array.shape}, got {found.dtype} {found.shape}")
            if name != "span" and not np.isfinite(found).all():
                raise ValueError(f"heads.{name} contains NaN or infinite numbers")
            array[...] = found
        if not (0 <= self.winner < self.centres.size and (self.scan.cursor >= 0).all()):
            raise ValueError(f"the cursor of the heads is impossible: {self.scan.cursor.tolist()}")
