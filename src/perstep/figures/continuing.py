"""The figures of the continuing worlds: what every algorithm reaches in each of them, and over all of them."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from perstep.figures import style
from perstep.figures.paper_figure import PaperFigure, by_name
from perstep.studies import continuing, continuing_tiles, continuing_tuned
from perstep.studies.continuing import HEURISTIC
from perstep.studies.results import Results


def continuing_figure(results: Results) -> Figure:
    """On tables, with our defaults and the baselines' best step size."""
    frame = continuing.all_worlds(results.folder)
    return scores_and_means(frame, continuing.summary(frame), "score (0 random, 1 optimal)")


def tiles_figure(results: Results) -> Figure:
    """On tiles, with our defaults and the baselines' best step size."""
    frame = continuing_tiles.all_worlds(results.folder)
    total = continuing.summary(frame, continuing_tiles.ALGORITHMS)
    return scores_and_means(frame, total, "score (0 random, 1 rule of practice)")


def tuned_figure(results: Results) -> Figure:
    """On tables, with the best setting of a grid for each world."""
    frame = continuing_tuned.all_worlds(results.folder)
    return scores_and_means(frame, continuing.summary(frame), "score (0 random, 1 optimal)")


def scores_and_means(frame: pl.DataFrame, total: pl.DataFrame, unit: str) -> Figure:
    """Mean scores per world and algorithm as a table of colours, and the interquartile mean of each algorithm."""
    names = total["algorithm"].to_list()
    columns = [*names, HEURISTIC] if HEURISTIC in frame["algorithm"] else names
    titles = frame["world"].unique(maintain_order=True).to_list()
    means = {
        (row[0], row[1]): row[2] for row in frame.group_by("world", "algorithm").agg(pl.col("score").mean()).rows()
    }
    scores = np.array([[means.get((world, name), np.nan) for name in columns] for world in titles])
    figure, (left, right) = style.panels(2, 1.8 + 0.2 * len(titles), width=10.5, ratios=[2.3, 1.0])
    left.imshow(np.clip(scores, 0.0, 1.0), cmap=style.SEQUENCE, vmin=0.0, vmax=1.0, aspect="auto")
    for i, row in enumerate(scores):
        for j, score in enumerate(row):
            colour = style.BLACK if score > 0.6 else "white"
            shown = "–" if np.isnan(score) else f"{score:.2f}"
            left.text(
                j, i, shown, ha="center", va="center", fontsize=6.5, color=style.BLACK if np.isnan(score) else colour
            )
    left.set_xticks(range(len(columns)), columns, rotation=50, ha="right")
    left.set_yticks(range(len(titles)), titles)
    left.set_title("a) mean score of the greedy policy")
    left.grid(False)
    rows = np.arange(len(names))
    colours = [style.BLUE if name in AVERAGE_REWARD else style.ORANGE for name in names]
    iqm, low, high = (total[key].to_numpy() for key in ("iqm", "low", "high"))
    right.barh(rows, iqm, color=colours, height=0.6)
    right.errorbar(iqm, rows, xerr=[iqm - low, high - iqm], fmt="none", ecolor=style.BLACK, elinewidth=1.0)
    right.set_yticks(rows, names)
    right.invert_yaxis()
    right.set(title="b) interquartile mean", xlabel=unit, xlim=(min(0.0, low.min()), max(1.05, high.max())))
    return figure


AVERAGE_REWARD = {*continuing.OURS, *continuing_tiles.OURS}
"""Algorithms that are blue."""

FIGURES = by_name(
    PaperFigure(
        name="continuing",
        caption=(
            "Algorithms on tables in 14 continuing worlds: the exact score of the greedy policy, where 0 is the uniformly random "
            "policy and 1 the optimum. Blue: average-reward rules with our defaults. Orange: the field's baselines with a discount "
            "of 0.99 and the best of four step sizes. Bars: 95 % intervals. Last column: the best rule of practice.",
        ),
        draw=continuing_figure,
    ),
    PaperFigure(
        name="continuing_tiles",
        caption=(
            "Algorithms on tiles in 7 continuing worlds: the score of the greedy policy, where 0 is the uniformly random policy "
            "and 1 a rule of practice written by hand. Blue: average-reward rules with our defaults. Orange: the field's baselines "
            "with a discount of 0.99 and the best of four step sizes. Bars: 95 % intervals.",
        ),
        draw=tiles_figure,
    ),
    PaperFigure(
        name="continuing_tuned",
        caption=(
            "Algorithms on tables in 14 continuing worlds, each with the best setting of its grid for each world, in runs with "
            "other seeds than those that chose it: the exact score of the greedy policy. Blue: average-reward rules, 6 settings. "
            "Orange: the field's baselines, 15 settings. Bars: 95 % intervals.",
        ),
        draw=tuned_figure,
    ),
)
"""Name → figure."""
