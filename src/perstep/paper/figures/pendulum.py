"""The paper's figures of the inverted pendulum (Fig. C.5, C.6, C.7), and the effect of each setting, drawn from result files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from perstep.numerics.quantiles import levels
from perstep.numerics.statistics import sensitivity
from perstep.paper.claims.pendulum import TOLERANCE
from perstep.paper.figures import curves, style
from perstep.paper.figures.illustrations import FIGURE_C1
from perstep.paper.figures.paper_figure import PaperFigure, by_name
from perstep.paper.reference import balanced_rewards
from perstep.studies.notation import label, letter, mathtext
from perstep.studies.ranking import Ranked, ranking
from perstep.studies.results import Results
from perstep.studies.study import Setting, Study

AT_RANDOM = -6.0  # about the reward of random actions: the dark end of the colour scale of all heat maps
FINE = 1e4  # rewards of a balanced rod are shown in units of 1/10000


def rewards(results: Results) -> Figure:
    """Fig. C.7."""
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


def heat_maps(results: Results) -> Figure:
    """One map per algorithm and number of quantiles."""
    studies = list(results.studies.values())
    figure = Figure(figsize=(style.WIDTH, 4.3), layout="constrained")
    grid = figure.subplots(2, len(studies), squeeze=False)
    rankings = [ranking(results, study) for study in studies]
    ends = AT_RANDOM, max(rows[0].mean for rows in rankings)
    for column, (study, rows) in enumerate(zip(studies, rankings, strict=True)):
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


def effects(results: Results) -> Figure:
    """The effect of each setting."""
    names = ("step_size", "reward_ratio", "policy_ratio")
    figure, every = style.panels(len(names), 3.0, sharey=True)
    for study in results.studies.values():
        line = study.rule.line
        rows = [(row.configuration, row.mean) for row in ranking(results, study)]
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
            axes.set_xlabel(f"{name.replace('_', ' ')} {mathtext(letter(name))}")
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


def reward_convergence(results: Results, algorithm: str) -> Figure:
    """Fig. C.5 and C.6. a) and b) have their own scale: on the scale of c), all exact quantiles lie on the line at 0."""
    study = results.studies[algorithm]
    figure, (density, quantiles, lines) = style.panels(3, 3.0, ratios=(1, 1, 2.2))
    steps, traces = curves.traces(results, study, "reward_quantile_trace")
    m, balanced = traces.shape[2], balanced_rewards()
    counts, edges = np.histogram(FINE * balanced, bins=25)
    density.stairs(counts / len(balanced), edges, orientation="horizontal", fill=True, color=style.BLUE, alpha=0.75)
    density.set(xlabel="share of the steps", ylabel="reward per step × 10⁴", title="a) balanced rod")
    quantiles.sharey(density)
    quantiles.scatter(levels(m), FINE * np.quantile(balanced, levels(m)), c=style.level_colours(m), s=18, zorder=3)
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
    axes: Axes, study: Study, rows: Sequence[Ranked[Setting]], size: float | None, ends: tuple[float, float]
) -> AxesImage:
    """α × η for one number of quantiles: the reward with the best η_π, and that η_π.

    A frame marks the paper's α and η, a star the best configuration.
    """
    step_sizes, ratios = study.grid["step_size"], study.grid["reward_ratio"]
    heat = np.full((len(step_sizes), len(ratios)), np.nan)
    for row in rows:  # the first row of a cell is its best
        setting, mean = row.configuration, row.mean
        y, x = step_sizes.index(setting["step_size"]), ratios.index(setting["reward_ratio"])
        if setting.get("num_quantiles") != size or not np.isnan(heat[y, x]):
            continue
        heat[y, x] = mean
        star = "*" if row.rank == 1 else ""
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
    """The explanation of the cells, in a panel that has no map."""
    axes.set_axis_off()
    lines = ("In a cell: the average reward", "with the best policy ratio $η_π$,", "and below it that ratio.", "",
             "Framed: the paper's α and η.", "*: the best of its column.")  # fmt: skip
    text = "\n".join(lines)
    axes.text(0.0, 0.75, text, transform=axes.transAxes, va="top", fontsize=7.5)


ALL = ("differential-actor-critic", "d2-actor-critic", "d3-actor-critic")

FIGURES = by_name(
    FIGURE_C1,
    PaperFigure(
        name="figure_c5",
        caption=(
            "a) the reward per step of a balanced rod, b) their quantiles, c) D2's estimates of them.",
            "The paper: \"the agent's quantile estimates converge to the quantiles of the limiting per-step reward distribution "
            'induced by the optimal policy (i.e., the policy that balances the pendulum …)", which is about 0.',
        ),
        draw=partial(reward_convergence, algorithm="d2-actor-critic"),
        shows={"d2-actor-critic": "tuned"},
    ),
    PaperFigure(
        name="figure_c6",
        caption=("as Fig. C.5, with D3's estimates. The paper claims the same convergence of them.",),
        draw=partial(reward_convergence, algorithm="d3-actor-critic"),
        shows={"d3-actor-critic": "tuned"},
    ),
    PaperFigure(
        name="figure_c7",
        caption=(
            "the rolling average reward of the three tuned algorithms, mean and 95 % interval over runs.",
            'The paper: "the D2 and D3 algorithms yield competitive performance when compared to their non-distributional '
            'counterpart".',
        ),
        draw=rewards,
        shows=dict.fromkeys(ALL, "tuned"),
    ),
    PaperFigure(
        name="figure_sensitivity",
        caption=(
            "Average reward for every α and η with the best η_π for them, which the paper tells of its tuned settings only.",
            "The paper: for Differential α = 2e-2, η = 1e-2, η_π = 0.1, for D2 2e-2, 0.1, 0.1 and 10 quantiles, for D3 2e-1, "
            '1e-3, 0.1 and 10 quantiles "yielded the best results".',
        ),
        draw=heat_maps,
        shows=dict.fromkeys(ALL, "grid"),
    ),
    PaperFigure(
        name="figure_settings",
        caption=(
            "How much each setting matters: the average reward with the best of all others, and the median over them.",
            'The paper shows this of no world; it says that "every combination" was tested.',
        ),
        draw=effects,
        shows=dict.fromkeys(ALL, "grid"),
    ),
    curves.FIGURE_BEST,
)
"""Name → figure, in the order of the report."""
