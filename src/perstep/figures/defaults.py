"""The figure of the defaults: what agents with no setting but the rule reach in each world."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perstep.figures import style
from perstep.figures.paper_figure import PaperFigure, by_name
from perstep.studies.defaults import AGENTS, GROUPS, LEAST, PLANNER, WORLDS, all_worlds
from perstep.studies.results import Results

LEFT_END = -0.1  # lower scores are drawn as an arrow here
GAP = 1.4  # rows between groups of worlds
MARK: dict[str, Any] = {"color": style.BLUE, "marker": "o", "mew": 0.0, "alpha": 0.75}


def defaults_figure(results: Results) -> Figure:
    """Scores of greedy policies, one dot per run."""
    frame = all_worlds(results.folder)
    places = _places(frame)
    figure, panels = style.panels(len(AGENTS), 7.8, sharey=True)
    for axes, letter, agent in zip(panels, "abcd", AGENTS, strict=True):
        _panel(axes, frame.filter(pl.col("agent") == agent), places)
        if agent == PLANNER:
            axes.axvline(LEAST, color=style.BLACK, lw=0.8, ls=":", zorder=0)
        axes.set(title=f"{letter}) {agent}", xlim=(LEFT_END - 0.05, 1.06), xlabel="score")
        axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    first = panels[0]
    first.set_yticks(list(places.values()), list(places))
    _name_groups(panels, frame, places)
    return figure


def _places(frame: pl.DataFrame) -> dict[str, float]:
    """World → its row, with gaps between the groups."""
    worlds = frame.unique(["world", "group"], maintain_order=True).select("world", "group").iter_rows()
    return {str(world): number + GAP * GROUPS.index(group) for number, (world, group) in enumerate(worlds)}


def _panel(axes: Axes, frame: pl.DataFrame, places: dict[str, float]) -> None:
    rows = np.array([places[world] for world in frame["world"]])
    score = frame["score"].to_numpy()
    inside = score >= LEFT_END
    # Not clipped, so that a dot at the optimum is whole; the layout cannot place a line without points that is not clipped.
    axes.plot(score[inside], rows[inside], ls="", ms=4, clip_on=not inside.any(), **MARK)
    axes.plot(np.full((~inside).sum(), LEFT_END), rows[~inside], ls="", ms=4.5, **{**MARK, "marker": "<"})


def _name_groups(panels: list[Axes], frame: pl.DataFrame, places: dict[str, float]) -> None:
    """A heading above each group of worlds, inside the first panel."""
    for (group,), some in frame.partition_by("group", as_dict=True).items():
        top = min(places[name] for name in some["world"])
        panels[0].text(LEFT_END, top - 0.75, group, fontsize=8, style="italic", va="center")
    for axes in panels:
        axes.set_ylim(max(places.values()) + 0.7, min(places.values()) - 1.25)
        axes.tick_params(axis="y", length=0)


FIGURES = by_name(
    PaperFigure(
        name="defaults",
        caption=(
            f"The Planner and QLearning with no setting but the rule in {len(WORLDS)} finite worlds: the score of the best "
            "policy after learning, one dot per run; an arrow stands for a score below the axis. 0 is the uniformly random "
            "policy and 1 the optimum. Dotted is what we claim of the Planner.",
        ),
        draw=defaults_figure,
    )
)
"""Name → figure."""
