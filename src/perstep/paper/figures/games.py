"""The paper's figure of its games (Fig. 4), and the late returns with intervals, for Atari or MinAtar."""

from __future__ import annotations

from collections import Counter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perstep.numerics.statistics import (
    Estimate,
    Floats,
    bootstrap,
    interquartile_mean,
    mean_and_error,
    probability_of_improvement,
    rolling_mean_of_known,
)
from perstep.paper.figures import style
from perstep.paper.figures.illustrations import FIGURE_C8
from perstep.paper.figures.paper_figure import PaperFigure, Shown, by_name
from perstep.paper.game_returns import episode_returns, found_by_game, late_returns
from perstep.paper.reference import RANDOM_PLAY
from perstep.studies.notation import label, world_name
from perstep.studies.results import MissingRuns, Results
from perstep.studies.study import Study

ROLLING = 20  # the rolling mean covers 1/20 of the steps; the paper does not give its window


def returns(results: Results) -> Figure:
    """Fig. 4."""
    games = found_by_game(results, episode_returns)
    figure, every = style.panels(len(games), 3.1)
    for letter, axes, found in zip("abc", every, games.values(), strict=False):
        for study, curves in found:
            _rolling_returns(axes, study, curves)
        if study.world in RANDOM_PLAY:
            axes.axhline(RANDOM_PLAY[study.world], color=style.BLACK, lw=0.9, ls=":", label="random play")
        axes.set_title(f"{letter}) {world_name(study)}, {len(curves)} run{'s' if len(curves) > 1 else ''}")
        style.steps_axis(axes, study.steps)
    every[0].set_ylabel(f"total reward of an episode\n(rolling mean over 1/{ROLLING} of the run)")
    title = "mean and 95 % interval over runs" if len(curves) > 1 else None
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), title=title)
    return figure


def late_return_intervals(results: Results) -> Figure:
    """Interquartile means of the late returns, and probabilities of improvement."""
    studied = Counter(study.game for study in results.studies.values())
    every_game = found_by_game(results, _several_late)
    games = {game: found for game, found in every_game.items() if len(found) == studied[game]}
    if not games:
        raise MissingRuns(f"No game in {results.folder} has runs of all its algorithms.")
    figure, (*every, beside) = style.panels(len(games) + 1, 2.1, ratios=(*[1] * len(games), 1.1))
    for axes, found in zip(every, games.values(), strict=True):
        for row, (study, late) in enumerate(found):
            _interval(axes, row, bootstrap(interquartile_mean, late), study)
        labels = [label(study) if axes is every[0] else "" for study, _ in found]
        axes.set_yticks(range(len(labels)), labels)
        axes.set(title=world_name(study), xlabel="late return, IQM")
    names = []
    pairs = [(ours, theirs) for ours in range(len(found)) for theirs in range(ours)]
    for row, (ours, theirs) in enumerate(pairs):
        scores = [_by_game([found[place][1] for found in games.values()]) for place in (ours, theirs)]
        _interval(beside, row, bootstrap(probability_of_improvement, *scores), found[ours][0])
        names.append(f"{label(found[ours][0])} > {label(found[theirs][0])}")
    beside.axvline(0.5, color=style.BLACK, lw=0.9, ls=":")
    beside.set_yticks(range(len(names)), names)
    beside.set(xlim=(-0.03, 1.03), title="in all of them", xlabel="probability of it", xticks=(0, 0.5, 1))
    for axes in (*every, beside):
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
    return figure


def _rolling_returns(axes: Axes, study: Study, returns: Floats) -> None:
    """A line that begins when an episode has ended in every run."""
    size = max(1, returns.shape[1] // ROLLING)
    mean, error = mean_and_error(rolling_mean_of_known(returns, size))
    steps = study.window * np.arange(size, returns.shape[1] + 1)
    line = study.rule.line
    axes.plot(steps, mean, label=f"{label(study)} Q-learning", **line)
    axes.fill_between(steps, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)


def _several_late(results: Results, study: Study) -> Floats:
    late = late_returns(results, study)
    if late.size < 2:
        raise MissingRuns(f"An interval needs at least two runs, but {study.name} has one.")
    return late


def _by_game(columns: list[Floats]) -> Floats:
    """Scores with one column per game and as many rows as every game has runs. (runs, games)"""
    runs = min(column.size for column in columns)
    return np.stack([column[:runs] for column in columns], axis=1)


def _interval(axes: Axes, row: int, estimate: Estimate, study: Study) -> None:
    colour = study.rule.line["color"]
    axes.plot([estimate.low, estimate.high], [row, row], color=colour, lw=7, alpha=0.35, solid_capstyle="butt")
    axes.plot(estimate.value, row, marker="|", ms=13, mew=2, color=colour)


SHOWS: dict[str, Shown] = {"differential-deep-q": "tuned", "d2-deep-q": "tuned", "d3-deep-q": "tuned"}

FIGURES = by_name(
    PaperFigure(
        name="figure_4",
        caption=(
            "the rolling average of the total reward of an episode, mean and 95 % interval over runs, a panel a game.",
            'The paper, of Atari: "the D2 and D3 algorithms consistently outperform the non-distributional baseline, with the D3 '
            'algorithm showing better performance than the D2 algorithm". It says nothing of MinAtar.',
        ),
        draw=returns,
        shows=SHOWS,
    ),
    PaperFigure(
        name="figure_late_returns",
        caption=(
            "The total reward of an episode in the last tenth of the runs: interquartile means with 95 % intervals, a panel a "
            "game; and how probable it is that a run of one rule beats a run of another, over all games.",
            "The paper shows no such numbers. The intervals are those of a stratified bootstrap (Agarwal et al. 2021): runs are "
            "drawn anew within each game.",
        ),
        draw=late_return_intervals,
        shows=SHOWS,
    ),
    FIGURE_C8,
)
"""Name → figure, in the order of the report."""
