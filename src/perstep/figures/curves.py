"""Lines over the steps of a run that figures of several worlds share: quantiles as they converge (Fig. 2, C.3 to C.6), and the
reward as it grows (Fig. 3, C.7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perstep.figures import style
from perstep.studies.catalog import Study
from perstep.studies.comparison import coarse_rewards, label, symbols, tuning
from perstep.studies.results import Results
from perstep.studies.statistics import Floats, mean_and_error, rolling_mean

ROLLING = 1000  # steps of the rolling mean, as the authors plot it


def traces(results: Results, study: Study, column: str) -> tuple[Floats, Floats]:
    """When the quantiles were looked at (T,), and what they were. (runs, T, m)"""
    assert study.traced is not None
    runs = results.runs(study, study.traced)
    return np.array(runs["trace_steps"][0].to_list()), np.array(runs[column].to_list())


def quantile_lines(axes: Axes, steps: Floats, traces: Floats) -> None:
    """A line for each quantile: the mean over runs, and behind it the first run, which wanders as any single run does."""
    for i, colour in enumerate(style.level_colours(traces.shape[2])):
        axes.plot(steps, traces[0, :, i], color=colour, lw=0.6, alpha=0.45)
        axes.plot(steps, traces[:, :, i].mean(axis=0), color=colour, lw=1.3)
    axes.plot([], [], color="black", lw=1.3, label=f"mean of {len(traces)} runs")
    axes.plot([], [], color="black", lw=0.6, alpha=0.45, label="one run")
    style.steps_axis(axes, int(steps[-1]))


def rolling_rewards(every: Sequence[Axes], results: Results, study: Study, label: str) -> None:
    """The rolling mean of the reward of a tuned setting, mean and 95 % interval over runs, in each of some panels."""
    rates = np.array(results.runs(study, study.tuned)["reward_rate"].to_list())  # (runs, windows)
    size = rolling_steps(study) // study.window
    mean, error = mean_and_error(rolling_mean(rates, size))
    steps = study.window * np.arange(size, rates.shape[1] + 1)
    line = style.RULE_LINES[study.rule]
    for axes in every:
        axes.plot(steps, mean, label=label, **line)
        axes.fill_between(steps, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)


def figure_best(results: Results) -> Figure:
    """What the best setting of each grid earns beside the paper's choice, in each hundredth of a run: mean and 95 % interval.

    The paper says that its choice "yielded the best results", and shows no other.
    """
    studies = list(results.studies.values())
    figure, every = style.panels(len(studies), 2.9, sharey=True)
    for axes, study in zip(every, studies, strict=True):
        best, _ = tuning(results, study)[0]
        looks = (
            (study.tuned, "the paper's", style.RULE_LINES[study.rule]),
            (best, "best", {"color": style.BLACK, "lw": 0.9}),
        )
        for setting, name, line in looks[: 1 if best == study.tuned else 2]:
            mean, error = mean_and_error(coarse_rewards(results, study, setting))
            steps = study.steps * (np.arange(mean.size) + 0.5) / mean.size
            axes.plot(steps, mean, label=f"{name}: {symbols(setting)}".replace("η_π", "$η_π$"), **line)
            axes.fill_between(steps, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)
        axes.set_title(label(study) + (": the best is the paper's" if best == study.tuned else ""))
        style.steps_axis(axes, study.steps)
        axes.legend(loc="upper center", bbox_to_anchor=(0.46, -0.22), fontsize=6, handlelength=1.2)
    every[0].set_ylabel("reward per step")
    return figure


def rolling_steps(study: Study) -> int:
    """Steps of the rolling mean: a thousand, or all there are in whole windows."""
    return study.window * min(ROLLING // study.window, study.steps // study.window)
