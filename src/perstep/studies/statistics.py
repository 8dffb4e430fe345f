"""How runs become lines and intervals: rolling means, and mean ± 1.96 standard errors, as in the paper's figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

NORMAL_95 = 1.96  # standard errors to either side of a mean that hold 95 % of a normal


def rolling_mean(values: ArrayLike, size: int) -> Floats:
    """The mean of each `size` neighbours along the last axis, (…, T) → (…, T − size + 1)."""
    array = np.asarray(values, dtype=np.float64)
    if not 1 <= size <= array.shape[-1]:
        raise ValueError(
            f"A rolling mean of {array.shape[-1]} values is over 1 to {array.shape[-1]} of them, not over {size}."
        )
    sums = np.cumsum(array, axis=-1)
    sums[..., size:] -= sums[..., :-size].copy()
    return sums[..., size - 1 :] / size


def mean_and_error(runs: ArrayLike) -> tuple[Floats, Floats]:
    """Mean over runs, the first axis, and half the width of its 95 % interval; NaN where one run cannot tell."""
    array = np.asarray(runs, dtype=np.float64)
    count = array.shape[0]
    spread = array.std(axis=0, ddof=1) if count > 1 else np.full(array.shape[1:], np.nan)
    return array.mean(axis=0), NORMAL_95 * spread / np.sqrt(count)
