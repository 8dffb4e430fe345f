"""Several agents in the same worlds with the same seeds: how much better one is, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from perstep.display.progress import Bar
from perstep.inputs.checks import count
from perstep.numerics.statistics import Estimate

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perstep.agent.agent import Agent

LEVEL = 0.95
MOST_SEEDS = 100_000


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found. The first agent is the one that the others are compared with."""

    names: tuple[str, ...]
    scores: NDArray[np.float64]
    """The average reward of every agent with every seed, (agents, seeds)."""
    num_steps: int
    """The number of steps of each evaluation."""
    deterministic: bool = True
    """Whether the agents acted without exploration."""

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """The average reward of each agent, with its 95 % interval."""
        return {name: _interval(row) for name, row in zip(self.names, self.scores, strict=True)}

    @cached_property
    def differences(self) -> dict[str, Estimate]:
        """How much more each other agent earns than the first, with the 95 % interval of paired seeds."""
        return {self.names[i]: _interval(self.scores[i] - self.scores[0]) for i in range(1, len(self.names))}

    def frame(self) -> polars.DataFrame:
        """One row for each agent."""
        import polars

        rows: list[dict[str, Any]] = []
        for name, found in self.estimates.items():
            row = {"agent": name, "average_reward": found.value, "low": found.low, "high": found.high}
            other = self.differences.get(name)
            rows.append({**row, **{f"difference{end}": getattr(other, key, None) for key, end in ENDS.items()}})
        return polars.DataFrame(rows, infer_schema_length=None)

    def plot(self, ax: Axes | None = None) -> Figure:
        """A matplotlib figure, drawn into `ax` if given: every agent's average reward with its interval, and with every seed."""
        from perstep.display.drawing import drawn

        with drawn(ax) as (figure, axes):
            for row, name in enumerate(self.names):
                scores, estimate = self.scores[row], self.estimates[name]
                axes.plot(scores, np.full(scores.size, row), "|", color="C7", ms=9)
                axes.plot([estimate.low, estimate.high], [row, row], color="C0", lw=2.5)
                axes.plot(estimate.value, row, "o", color="C0")
            axes.set_yticks(range(len(self.names)), self.names)
            axes.set_ylim(len(self.names) - 0.5, -0.5)
            axes.set_xlabel("average reward per step")
        return figure

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = []
        for name, found in self.estimates.items():
            line = f"{name:{width}}  {found.value:.5g}  [{found.low:.5g}, {found.high:.5g}]"
            if (other := self.differences.get(name)) is not None:
                sure = "" if other.low <= 0.0 <= other.high else ", clear"
                line += f"  {other.value:+.4g} [{other.low:+.4g}, {other.high:+.4g}]{sure}"
            lines.append(line)
        seeds = self.scores.shape[1]
        how = "without exploration, " if self.deterministic else ""
        return "\n".join([f"average reward over {self.num_steps:,} steps, {how}{seeds} paired seeds, 95 %:", *lines])


ENDS = {"value": "", "low": "_low", "high": "_high"}


def compare(
    agents: Mapping[str, Agent], *, num_steps: int = 10_000, seeds: int = 10, deterministic: bool = True
) -> Comparison:
    """Follow the policy of each agent for `num_steps` steps with each of `seeds` seeds, the same ones for all, without learning.

    `agents` are named: compare({"d2": agent, "random": other}). Differences are those of pairs with the same seed.
    """
    if not isinstance(agents, Mapping) or len(agents) < 2:
        raise ValueError(
            "compare expects two or more agents by name, as in perstep.compare({'d2': first, 'd3': second}), "
            f"got {type(agents).__name__ if not isinstance(agents, Mapping) else f'{len(agents)} agent'}."
        )
    for name, agent in agents.items():
        if not callable(getattr(agent, "evaluate", None)):
            raise TypeError(f"compare expects agents, got {type(agent).__name__} as {name!r}.")
    _refuse_several_worlds(agents)
    number = count("seeds", seeds, 2, MOST_SEEDS)
    scores = np.zeros((len(agents), number))
    with Bar(number * len(agents), "compare") as bar:
        for row, agent in enumerate(agents.values()):
            for seed in range(number):
                scores[row, seed] = agent.evaluate(num_steps, deterministic=deterministic, seed=seed).average_reward
                bar.update(row * number + seed + 1, "")
    return Comparison(tuple(map(str, agents)), scores, int(num_steps), deterministic)


def _refuse_several_worlds(agents: Mapping[str, Agent]) -> None:
    worlds = {name: agent._world_name for name, agent in agents.items() if hasattr(agent, "_world_name")}
    if len(set(worlds.values())) > 1:
        named = ", ".join(f"{name!r} in {world}" for name, world in worlds.items())
        raise ValueError(
            f"compare expects agents of one world, because rewards of several worlds cannot be compared, got {named}. "
            "agent.evaluate(num_steps) measures each in its own world."
        )


def _interval(runs: NDArray[np.float64]) -> Estimate:
    """The mean of some runs with Student's interval."""
    from scipy.stats import t

    value = float(runs.mean())
    half = float(t.ppf((1 + LEVEL) / 2, runs.size - 1) * runs.std(ddof=1) / np.sqrt(runs.size))
    return Estimate(value, value - half, value + half)
