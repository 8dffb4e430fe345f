"""What the measurements of theorems share: their form, their efforts, and looks at agents while they learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perstep.agent.agent import Agent
from perstep.agent.together import learn_together
from perstep.paper.claims.claim import Claim
from perstep.studies.measurement import Effort, Measurement, Row

Floats = NDArray[np.float64]

LOOKS_PER_DECADE = 6  # observations per factor of ten in steps: evenly spaced on a logarithmic axis


EFFORTS = {
    "smoke": Effort(steps=20_000, runs=2),  # checks that everything runs
    "small": Effort(steps=300_000, runs=4),  # the same figures with more noise
    "paper": Effort(steps=4_000_000, runs=8),
}
"""Scale → effort. The paper measures none of this, so the numbers are ours: enough to show the limits within a minute."""


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """Something that the paper proves, or that contradicts it: its measurement, its figure, and its claims."""

    name: str
    """The name of the table."""
    figure: str
    measure: Callable[[Effort], list[Row]]
    claims: Callable[[pl.DataFrame], list[Claim]]
    """Judges the claims from the table."""

    @property
    def measurement(self) -> Measurement:
        """What an engine runs."""
        return Measurement(part="theory", name=self.name, measure=self.measure, efforts=EFFORTS)


def log_spaced_steps(first: int, last: int) -> list[int]:
    """Steps from `first` to `last`, evenly spaced on a logarithmic axis."""
    first = min(first, last)
    number = max(2, round(LOOKS_PER_DECADE * np.log10(last / first)) + 1)
    return sorted({round(step) for step in np.geomspace(first, last, number)})


def learn_in_stages(agents: Sequence[Agent], at: Sequence[int]) -> Iterator[int]:
    """Let all agents learn in parallel, and yield at each of these steps so that they can be observed."""
    done = 0
    for look in at:
        learn_together(agents, look - done, progress=False)
        done = look
        yield look


def slope(steps: Floats, errors: Floats, share: float = 0.5) -> float:
    """The power of t that the errors follow over the last `share` of the observations: the slope of a fit to the logarithms."""
    late = slice(min(len(steps) - 2, int((1 - share) * len(steps))), None)
    return float(np.polyfit(np.log(steps[late]), np.log(np.maximum(errors[late], 1e-300)), 1)[0])
