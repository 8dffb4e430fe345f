"""Step sizes: constant, or falling as c / (1 + ν/d)^p with the visits ν; and the paper's assumptions on them as checks (App. B)."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from perstep.numerics.compiled import merged


@dataclass(frozen=True)
class Decay:
    """The step size scale / (1 + ν/delay)^power after ν earlier visits; power 0 is a constant."""

    scale: float
    """c, the first step."""
    power: float = 1.0
    """p, how fast it falls."""
    delay: float = 1.0
    """d, the number of visits after which it begins to fall."""

    def __post_init__(self) -> None:
        if not (is_finite(self.scale) and self.scale > 0):
            raise ValueError(f"A step size must be a finite number above 0, got {self.scale!r}. Try 0.01.")
        if not (is_finite(self.power) and self.power >= 0):
            raise ValueError(f"The power of a decaying step size must be 0 or more, got {self.power!r}. Try 1.0.")
        if not (is_finite(self.delay) and self.delay > 0):
            raise ValueError(
                f"The delay of a decaying step size must be a number above 0, got {self.delay!r}. Try 1.0."
            )
        for name in ("scale", "power", "delay"):  # kernels would be compiled anew for an int
            object.__setattr__(self, name, float(getattr(self, name)))

    def __call__(self, visits: int) -> float:
        """The step after this many visits."""
        if not (is_finite(visits) and visits >= 0):
            raise ValueError(f"The number of visits must be 0 or more, got {visits!r}.")
        return float(step_size(self.scale, self.power, self.delay, float(visits)))


def is_finite(value: object) -> bool:
    """Whether it is a finite real number, of Python or NumPy; True and False do not count."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def as_decay(step: float | Decay) -> Decay:
    """A plain number is a constant schedule."""
    return step if isinstance(step, Decay) else Decay(step, 0.0)


@merged
def step_size(scale: float, power: float, delay: float, visits: float) -> float:
    """scale / (1 + ν/delay)^power."""
    if power == 0.0:
        return scale
    return scale / (1.0 + visits / delay) ** power


def assumptions(value: float | Decay, reward: float | Decay) -> dict[str, bool]:
    """Which of Appendix B's step-size assumptions a pair (α for the values, α_θ for the reward quantiles) meets.

    For c / (1 + n)^p each assumption has a closed answer. Not all of them can hold in this family: the conditions on the sums
    require p = 1 for both schedules, and a vanishing ratio requires two different powers (docs/decisions/0003-schedules.md).
    """
    alpha, alpha_theta = as_decay(value).power, as_decay(reward).power
    return {
        "α = o(1/log n)": alpha > 0,
        "α_θ = o(1/log n)": alpha_theta > 0,
        "Σα = ∞": alpha <= 1,
        "Σα_θ = ∞": alpha_theta <= 1,
        "Σα² < ∞": alpha > 0.5,
        "Σα_θ² < ∞": alpha_theta > 0.5,
        "α/α_θ → 0": alpha > alpha_theta,
        "Σ_{j≤yi} α_j / Σ_{j≤i} α_j → 1": alpha >= 1 and alpha_theta >= 1,
    }
