"""The running mean and spread of observations, by which a network reads vectors in numbers near 1, whatever their units."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled

LONGEST_MEMORY = 100_000  # observations
FARTHEST = 10.0  # spreads from the mean: what is farther is read as if it were here


@final
class InputScale:
    """How far the numbers of an observation are from 0, and from each other."""

    def __init__(self, size: int) -> None:
        self.seen = np.zeros(1)
        self.mean = np.zeros(size)
        self.square = np.zeros(size)  # of the distance from the mean

    def see(self, kept: NDArray[Any]) -> None:
        """Take note of one observation."""
        see(self.seen, self.mean, self.square, kept.reshape(-1))

    def standardized(self, kept: NDArray[Any]) -> NDArray[np.float32]:
        """A batch of observations in spreads from the mean, (B, numbers)."""
        mean, spread = self.mean_and_spread()
        away = (kept.reshape(len(kept), -1) - mean) / spread
        return np.clip(away, -FARTHEST, FARTHEST).astype(np.float32)

    def mean_and_spread(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the numbers are, and how far they spread; 1 for a number that never changed."""
        spread = np.sqrt(self.square)
        spread[spread <= 1e-9 * np.abs(self.mean)] = 1.0
        return self.mean, spread

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, for a file."""
        return {"seen": self.seen, "mean": self.mean, "square": self.square}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Become what was saved; KeyError or ValueError if it does not fit."""
        for name, mine in self.arrays().items():
            saved = arrays[name]
            if saved.shape != mine.shape or saved.dtype != mine.dtype:
                raise ValueError(f"inputs.{name} must be {mine.dtype} {mine.shape}, got {saved.dtype} {saved.shape}")
            if not np.isfinite(saved).all() or (name != "mean" and (saved < 0).any()):
                raise ValueError(f"inputs.{name} contains numbers that no observations have")
            mine[:] = saved


@compiled
def see(seen: Any, mean: Any, square: Any, point: Any) -> None:
    """Move the mean and the mean square towards one observation (Welford 1962), with a bounded memory."""
    seen[0] += 1.0
    rate = max(1.0 / seen[0], 1.0 / LONGEST_MEMORY)
    for i in range(point.shape[0]):
        away = point[i] - mean[i]
        mean[i] += rate * away
        square[i] += rate * (away * (point[i] - mean[i]) - square[i])
