"""Pictures of what agents answer: a distribution of the reward per step, and a comparison of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perstep.figures.style import BLUE, GREY, ORANGE, look, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perstep.comparison import Comparison
    from perstep.distribution import Distribution

FEW_ATOMS = 40  # up to this number of distinct rewards, each has a line of its own
WORST = 0.05  # the share of the steps that is drawn as the bad ones


def distribution(found: Distribution, axes: Axes | None = None, label: str | None = None) -> Axes:
    """Chances of single rewards as lines, or a density; the mean, and the mean of the worst 5 % of the steps."""
    with look():
        if axes is None:
            _, (axes,) = panels(1, 2.6, 4.2)
        if found.num_components <= FEW_ATOMS and not found.sds.any():
            values, place = np.unique(found.means, return_inverse=True)
            axes.vlines(values, 0.0, np.bincount(place, found.weights), color=BLUE, lw=3.0, label=label or "")
            axes.set_ylabel("chance")
            axes.set_ylim(bottom=0.0)
        else:
            density, edges = found.histogram(60)
            axes.stairs(density, edges, color=BLUE, fill=True, alpha=0.35)
            axes.stairs(density, edges, color=BLUE, label=label)
            axes.set_ylabel("density")
        worst = float(found._cvars(np.array([WORST]))[0])
        axes.axvline(found.mean, color=ORANGE, label=f"mean {found.mean:.4g}")
        axes.axvline(worst, color=GREY, ls="--", label=f"mean of the worst 5 % {worst:.4g}")
        axes.set_xlabel("reward per step")
        axes.legend()
    return axes


def comparison(found: Comparison, axes: Axes | None = None) -> Axes:
    """The average reward of each agent with its interval, and its value with every seed."""
    with look():
        if axes is None:
            _, (axes,) = panels(1, 1.0 + 0.4 * len(found.names), 5.0)
        for row, name in enumerate(found.names):
            scores, estimate = found.scores[row], found.estimates[name]
            axes.plot(scores, np.full(scores.size, row), "|", color=GREY, ms=9)
            axes.plot([estimate.low, estimate.high], [row, row], color=BLUE, lw=2.5)
            axes.plot(estimate.value, row, "o", color=BLUE)
        axes.set_yticks(range(len(found.names)), found.names)
        axes.set_ylim(len(found.names) - 0.5, -0.5)
        axes.set_xlabel("average reward per step")
    return axes
