"""The steps of an evaluation, in stretches between which it can be interrupted, and a sample of its rewards of a fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perstep.display.progress import Bar
from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import uniform

STRETCH = 1_000_000  # steps between two moments at which an evaluation in compiled code can be interrupted


def stretches(num_steps: int) -> Iterator[tuple[int, int]]:
    """The steps of an evaluation, (begin, end) by (begin, end), with a progress bar if it takes long."""
    with Bar(num_steps, "evaluate") as bar:
        for begin in range(0, num_steps, STRETCH):
            end = min(begin + STRETCH, num_steps)
            yield begin, end
            bar.update(end)


@compiled
def keep(t: Any, num_steps: Any, reward: Any, kept: Any, picker: Any) -> None:
    """Keep one reward out of every group of consecutive ones, so that all groups fit. A random one of each group: a fixed one
    could fall in step with a period of the world."""
    every = (num_steps + kept.shape[0] - 1) // kept.shape[0]
    if every == 1 or t % every == 0 or uniform(picker) * (t % every + 1) < 1.0:
        kept[t // every] = reward
