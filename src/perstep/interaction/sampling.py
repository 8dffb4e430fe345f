"""Which rewards of an evaluation are kept, in a memory that does not grow with its steps."""

from __future__ import annotations

from typing import Any

from perstep.compiled import compiled
from perstep.randomness import uniform


@compiled
def keep(t: Any, num_steps: Any, reward: Any, kept: Any, picker: Any) -> None:
    """Keep one reward out of every group of consecutive ones, so that all groups fit. A random one of each group: a fixed one
    could fall in step with a period of the world."""
    every = (num_steps + kept.shape[0] - 1) // kept.shape[0]
    if every == 1 or t % every == 0 or uniform(picker) * (t % every + 1) < 1.0:
        kept[t // every] = reward
