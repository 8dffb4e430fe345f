"""Curves over the steps of a run, shared by the figures of several worlds: converging quantiles (Fig. 2, C.3 to C.6) and rewards
(Fig. 3, C.7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perstep.numerics.statistics import Floats, coarser, mean_and_error, rolling_mean
from perstep.paper.figures import style
from perstep.paper.figures.paper_figure import PaperFigure
from perstep.studies.notation import label, mathtext, symbols
from perstep.studies.ranking import ranking
from perstep.studies.results import COARSE_POINTS, MissingRuns, Results
from perstep.studies.study import Setting, Study

ROLLING = 1000  # steps of the rolling mean, as in the authors' plots


def traces(results: Results, study: Study, column: str) -> tuple[Floats, Floats]:
    """The steps at which quantiles were recorded (T,), and the quantiles (runs, T, m)."""
    runs = results.traced_runs(study)
    return np.array(runs["trace_steps"][0].to_list()), np.array(runs[column].to_list())


def quantile_lines(axes: Axes, steps: Floats, traces: Floats) -> None:
    """A line for each quantile: the mean over runs, and behind it the first run, which shows the noise of a single run."""
    for i, colour in enumerate(style.level_colours(traces.shape[2])):
        axes.plot(steps, traces[0, :, i], color=colour, lw=0.6, alpha=0.45)
        axes.plot(steps, traces[:, :, i].mean(axis=0), color=colour, lw=1.3)
    axes.plot([], [], color="black", lw=1.3, label=f"mean of {len(traces)} runs")
    axes.plot([], [], color="black", lw=0.6, alpha=0.45, label="one run")
    style.steps_axis(axes, int(steps[-1]))


def rolling_rewards(every: Sequence[Axes], results: Results, study: Study, label: str) -> None:
    """The rolling mean of the reward with the tuned settings, mean and 95 % interval over runs, in each of the given panels."""
    rates = np.array(results.runs(study, study.tuned)["reward_rate"].to_list())  # (runs, windows)
    size = rolling_steps(study) // study.window
    mean, error = mean_and_error(rolling_mean(rates, size))
    steps = study.window * np.arange(size, rates.shape[1] + 1)
    line = study.rule.line
    for axes in every:
        axes.plot(steps, mean, label=label, **line)
        axes.fill_between(steps, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)


def best_settings(results: Results) -> Figure:
    """The best configuration of each grid and the paper's choice."""
    studies = list(results.studies.values())
    figure, every = style.panels(len(studies), 2.9, sharey=True)
    for axes, study in zip(every, studies, strict=True):
        best = ranking(results, study)[0].configuration
        looks = (
            (study.tuned, "the paper's", study.rule.line),
            (best, "best", {"color": style.BLACK, "lw": 0.9}),
        )
        for setting, name, line in looks[: 1 if best == study.tuned else 2]:
            mean, error = mean_and_error(coarse_rewards(results, study, setting))
            steps = study.steps * (np.arange(mean.size) + 0.5) / mean.size
            axes.plot(steps, mean, label=mathtext(f"{name}: {symbols(setting)}"), **line)
            axes.fill_between(steps, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)
        axes.set_title(label(study) + (": the best is the paper's" if best == study.tuned else ""))
        style.steps_axis(axes, study.steps)
        axes.legend(loc="upper center", bbox_to_anchor=(0.46, -0.22), fontsize=6, handlelength=1.2)
    every[0].set_ylabel("reward per step")
    return figure


def coarse_rewards(results: Results, study: Study, setting: Setting) -> Floats:
    """The reward per step in equal parts of a run, with the resolution that is kept of every configuration. (runs, T)"""
    curves = results.runs(study, setting)["reward_rate"]
    if curves.null_count():
        raise MissingRuns(f"The runs of {study.name} with {symbols(setting)} in {results.folder} keep no curve.")
    return coarser(curves.to_list(), COARSE_POINTS)


def rolling_steps(study: Study) -> int:
    """Steps of the rolling mean: 1000, or the whole run if it is shorter, in whole windows."""
    return study.window * min(ROLLING // study.window, study.steps // study.window)


FIGURE_BEST = PaperFigure(
    name="figure_best",
    caption=(
        "What the best setting of each grid earns beside the paper's choice, in each hundredth of a run: mean and 95 % interval.",
        'The paper says that its choice "yielded the best results", and shows no other.',
    ),
    draw=best_settings,
)
