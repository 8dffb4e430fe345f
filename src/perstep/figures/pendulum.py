"""The paper's figures of the inverted pendulum (Fig. C.5, C.6, C.7), and how its settings matter, drawn from result files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from perstep.figures import curves, style
from perstep.figures.worlds import figure_c1
from perstep.quantiles import levels
from perstep.studies.catalog import Setting, Study
from perstep.studies.comparison import SYMBOLS, label, tuning
from perstep.studies.pendulum import TOLERANCE, balanced_rewards
from perstep.studies.results import Results
from perstep.studies.statistics import sensitivity

AT_RANDOM = -6.0  # about what a policy earns that learns nothing: the dark end of every heat map
FINE = 1e4  # rewards of a balanced rod are shown in ten-thousandths


def figure_c5(results: Results) -> Figure:
    """Fig. C.5: a) the reward per step of a balanced rod, b) their quantiles, c) D2's estimates of them.

    The paper: "the agent's quantile estimates converge to the quantiles of the limiting per-step reward distribution
    induced by the optimal policy (i.e., the policy that balances the pendulum …)", which is about 0.
    """
    return _convergence(results, results.studies["d2-actor-critic"])


def figure_c6(results: Results) -> Figure:
    """Fig. C.6: as Fig. C.5, with D3's estimates. The paper claims the same convergence of them."""
    return _convergence(results, results.studies["d3-actor-critic"])


def figure_c7(results: Results) -> Figure:
    """Fig. C.7: the rolling average reward of the three tuned algorithms, mean and 95 % interval over runs.

    The paper: "the D2 and D3 algorithms yield competitive performance when compared to their non-distributional counterpart".
    """
    figure, (whole, close) = style.panels(2, 3.1)
    for study in results.studies.values():
        curves.rolling_rewards((whole, close), results, study, f"{label(study)} Actor-Critic")
    for axes, title in ((whole, f"{study.num_runs} runs"), (close, "the same, close to 0")):
        axes.axhline(balanced_rewards().mean(), color=style.BLACK, lw=0.9, ls=":", label="rod balanced by rule")
        axes.set_title(title)
        style.steps_axis(axes, study.steps)
    close.set_ylim(-5 * TOLERANCE, 0.25 * TOLERANCE)
    whole.set_ylabel(f"reward per step\n(rolling mean over {curves.rolling_steps(study):,} steps)")
    close.set_ylabel("reward per step")
    whole.legend(loc="lower right", title="mean and 95 % interval", alignment="left")
    return figure


def figure_sensitivity(results: Results) -> Figure:
    """Average reward for every α and η with the best η_π for them, which the paper tells of its tuned settings only.

    The paper: for Differential α = 2e-2, η = 1e-2, η_π = 0.1, for D2 2e-2, 0.1, 0.1 and 10 quantiles, for D3 2e-1, 1e-3, 0.1
    and 10 quantiles "yielded the best results".
    """
    studies = list(results.studies.values())
    figure = Figure(figsize=(style.WIDTH, 4.3), layout="constrained")
    grid = figure.subplots(2, len(studies), squeeze=False)
    tuned = [tuning(results, study) for study in studies]  # the best first
    ends = AT_RANDOM, max(rows[0][1] for rows in tuned)
    for column, (study, rows) in enumerate(zip(studies, tuned, strict=True)):
        sizes = study.grid.get("num_quantiles", (None,))
        for row, axes in enumerate(grid[:, column]):
            if row < len(sizes):
                picture = _heat_map(axes, study, rows, sizes[row], ends)
                axes.set_ylabel("step size α" if column == 0 else "")
                axes.set_xlabel("ratio η" if row + 1 == len(sizes) else "")
            else:
                _explain(axes)
    figure.colorbar(picture, ax=grid.ravel().tolist(), label="average reward over all steps", extend="min", pad=0.02)
    return figure


def figure_settings(results: Results) -> Figure:
    """How much each setting matters: the average reward with the best of all others, and the median over them.

    The paper shows this of no world; it says that "every combination" was tested.
    """
    names = ("step_size", "reward_ratio", "policy_ratio")
    figure, every = style.panels(len(names), 3.0, sharey=True)
    for study in results.studies.values():
        rows, line = tuning(results, study), style.RULE_LINES[study.rule]
        for axes, name in zip(every, names, strict=True):
            spreads = sensitivity(rows, name)
            values = [spread.value for spread in spreads]
            axes.plot(
                range(len(values)), [spread.best for spread in spreads], marker="o", ms=3, label=label(study), **line
            )
            axes.plot(range(len(values)), [spread.median for spread in spreads], lw=0.8, alpha=0.6, **line)
            chosen = values.index(study.tuned[name])
            axes.plot(chosen, spreads[chosen].best, marker="o", ms=8, mfc="none", mec=line["color"], ls="none")
            axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
            axes.set_xlabel(f"{name.replace('_', ' ')} {_math(name)}")
            axes.margins(x=0.09)
    every[0].set_ylabel("average reward over all steps")
    looks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("the best over all other settings", {"lw": 1.3, "marker": "o", "ms": 3}),
        ("the median over them", {"lw": 0.8, "alpha": 0.6}),
        ("the paper's choice", {"ls": "none", "marker": "o", "ms": 8, "mfc": "none"}),
    )
    for text, look in looks:
        every[2].plot([], [], color=style.BLACK, label=text, **look)
    handles, texts = every[2].get_legend_handles_labels()
    order = (0, 3, 1, 4, 2, 5)  # down the columns, so that the algorithms are the first row
    figure.legend([handles[i] for i in order], [texts[i] for i in order], loc="outside upper left", ncols=3)
    return figure


FIGURES: dict[str, Callable[[Results], Figure]] = {
    function.__name__: function
    for function in (
        figure_c1,
        figure_c5,
        figure_c6,
        figure_c7,
        figure_sensitivity,
        figure_settings,
        curves.figure_best,
    )
}
"""File name → the function that draws it."""


def _math(name: str) -> str:
    return {"η_π": "$η_π$"}.get(SYMBOLS[name], SYMBOLS[name])


def _convergence(results: Results, study: Study) -> Figure:
    """What is learnt beside what should be; a) and b) have a scale of their own, since in c) all of them lie on the line at 0."""
    figure, (density, quantiles, lines) = style.panels(3, 3.0, ratios=(1, 1, 2.2))
    steps, traces = curves.traces(results, study, "reward_quantile_trace")
    m, rewards = traces.shape[2], balanced_rewards()
    counts, edges = np.histogram(FINE * rewards, bins=25)
    density.stairs(counts / len(rewards), edges, orientation="horizontal", fill=True, color=style.BLUE, alpha=0.75)
    density.set(xlabel="share of the steps", ylabel="reward per step × 10⁴", title="a) balanced rod")
    quantiles.sharey(density)
    quantiles.scatter(levels(m), FINE * np.quantile(rewards, levels(m)), c=style.level_colours(m), s=18, zorder=3)
    quantiles.set(xlim=(0, 1), xlabel="level τ", title="b) their quantiles")
    quantiles.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    quantiles.tick_params(labelleft=False)
    lines.axhline(0.0, color="black", lw=1.0, ls=":")
    curves.quantile_lines(lines, steps, traces)
    lines.plot([], [], color="black", lw=1.0, ls=":", label="all of a) and b)")
    lines.set(ylabel="reward per step", title=f"c) {label(study)}'s estimates θ")
    lines.annotate(
        f"the lowest, τ = {levels(m)[0]:.2f}", (steps[-1], traces[:, -1, 0].mean()), (-4, 6),
        textcoords="offset points", ha="right", va="bottom", fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
    )  # fmt: skip
    lines.legend(loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
    return figure


def _heat_map(
    axes: Axes, study: Study, rows: list[tuple[Setting, float]], size: float | None, ends: tuple[float, float]
) -> AxesImage:
    """α × η for one number of quantiles: the best over η_π, and which that is; framed the paper's α and η, starred the best."""
    step_sizes, ratios = study.grid["step_size"], study.grid["reward_ratio"]
    heat = np.full((len(step_sizes), len(ratios)), np.nan)
    for rank, (setting, mean) in enumerate(rows):  # the first of a cell is its best
        y, x = step_sizes.index(setting["step_size"]), ratios.index(setting["reward_ratio"])
        if setting.get("num_quantiles") != size or not np.isnan(heat[y, x]):
            continue
        heat[y, x] = mean
        star = "*" if rank == 0 else ""
        axes.text(
            x, y, f"{mean:.2f}{star}\n{setting['policy_ratio']:g}".replace("-", "−"), fontsize=6, ha="center", va="center",
            color="black" if mean > sum(ends) / 2 else "white", linespacing=1.1,
        )  # fmt: skip
    if study.tuned.get("num_quantiles") == size:
        x, y = ratios.index(study.tuned["reward_ratio"]), step_sizes.index(study.tuned["step_size"])
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=style.ORANGE, lw=1.8))
    picture = axes.imshow(heat, style.SEQUENCE, vmin=ends[0], vmax=ends[1], origin="lower", aspect="auto")
    axes.set_xticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios], fontsize=7)
    axes.set_yticks(range(len(step_sizes)), [f"{each:.0e}".replace("e-0", "e−") for each in step_sizes], fontsize=7)
    axes.grid(visible=False)
    axes.set_title(label(study) + (f", {size:g} quantiles" if size else ""))
    return picture


def _explain(axes: Axes) -> None:
    """What the cells say, where a column has a panel to spare."""
    axes.set_axis_off()
    lines = ("In a cell: the average reward", "with the best policy ratio $η_π$,", "and below it that ratio.", "",
             "Framed: the paper's α and η.", "*: the best of its column.")  # fmt: skip
    text = "\n".join(lines)
    axes.text(0.0, 0.75, text, transform=axes.transAxes, va="top", fontsize=7.5)
