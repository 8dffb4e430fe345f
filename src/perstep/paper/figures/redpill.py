"""The paper's figures of red-pill blue-pill (Fig. 2, 3, C.2, C.3, C.4), drawn from result files and the exact solution."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from perstep.distributions.distribution import Distribution
from perstep.numerics.quantiles import levels
from perstep.paper.figures import curves, style
from perstep.paper.figures.paper_figure import PaperFigure, by_name
from perstep.paper.reference import optimal_rewards
from perstep.studies.notation import label
from perstep.studies.ranking import ranking
from perstep.studies.results import Results

WORST, BEST = -0.70, -0.60  # always red and always blue: the ends of the colour scale of all heat maps


def rewards(results: Results) -> Figure:
    """Fig. 3."""
    figure, both = style.panels(2, 3.2, ratios=(1, 1.6), sharey=True)
    for study in results.studies.values():
        curves.rolling_rewards(both, results, study, f"{label(study)} Q-learning")
    for axes, last, title in zip(both, (study.steps // 10, study.steps), ("the first tenth", "the whole"), strict=True):
        exact = optimal_rewards(study.fixed["epsilon"]).mean
        axes.axhline(exact, color=style.BLACK, lw=0.9, label="optimal policy, exact")
        axes.set_title(f"{title} of {study.num_runs} runs")
        style.steps_axis(axes, last)
    both[0].set_ylabel(f"reward per step\n(rolling mean over {curves.rolling_steps(study):,} steps)")
    both[1].legend(loc="lower right", title="mean and 95 % interval", alignment="left")
    return figure


def return_convergence(results: Results) -> Figure:
    """Fig. C.4."""
    study = results.studies["d3-q"]
    figure, (axes,) = style.panels(1, 3.2, 5.6)
    steps, traces = curves.traces(results, study, "return_quantile_trace")
    curves.quantile_lines(axes, steps, traces)
    axes.set_ylabel("differential return\n(blue world, blue pill)")
    for text, place in (("highest", -1), ("lowest", 0)):
        level = levels(traces.shape[2])[place]
        axes.annotate(
            f"τ = {level:.2f}, the {text}", (steps[-1], traces[:, -1, place].mean()), (-6, 9 if place else -9),
            textcoords="offset points", ha="right", va="center", fontsize=8,
        )  # fmt: skip
    axes.margins(y=0.12)
    axes.legend(loc="upper left")
    return figure


def reward_convergence(results: Results, algorithm: str) -> Figure:
    """Fig. 2 and C.3. The three panels share the reward axis, so that a line in c) ends at the height of its dot in b)."""
    study = results.studies[algorithm]
    figure, (density, quantiles, lines) = style.panels(3, 3.0, ratios=(1, 1, 2.2), sharey=True)
    exact = optimal_rewards(study.fixed["epsilon"])
    steps, traces = curves.traces(results, study, "reward_quantile_trace")
    tau, values = exact.levels_and_quantiles(traces.shape[2])
    _density(density, exact)
    quantiles.scatter(tau, values, c=style.level_colours(tau.size), s=18, zorder=3)
    quantiles.set(xlim=(0, 1), xlabel="level τ", title="b) their quantiles")
    quantiles.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    for value, colour in zip(values, style.level_colours(tau.size), strict=True):
        lines.axhline(value, color=colour, lw=1.0, ls=":")
    curves.quantile_lines(lines, steps, traces)
    lines.plot([], [], color="black", lw=1.0, ls=":", label="exact quantile")
    lines.set_title(f"c) {label(study)}'s estimates θ")
    lines.set_ylim(values.min() - 0.12, 0.06)
    lines.legend(loc="center right", bbox_to_anchor=(1.0, 0.42))
    return figure


def _density(axes: Axes, exact: Distribution) -> None:
    """The exact density of the rewards in narrow bins: the histogram of an infinite run."""
    heights, edges = exact.histogram(120)
    axes.stairs(heights, edges, orientation="horizontal", fill=True, color=style.BLUE, alpha=0.75)
    axes.axhline(exact.mean, color="black", lw=0.9, ls="--")
    axes.annotate(
        f"mean {exact.mean:.3f}".replace("-", "−"), (heights.max(), exact.mean), (0, 3),
        textcoords="offset points", ha="right", va="bottom", fontsize=8,
    )  # fmt: skip
    axes.set(xlabel="density", ylabel="reward per step", title="a) optimal rewards")


def heat_maps(results: Results, algorithm: str) -> Figure:
    """Fig. C.2: one map per number of quantiles. A frame marks the paper's choice, a star our best configuration."""
    study = results.studies[algorithm]
    sizes = study.grid.get("num_quantiles", (None,))
    figure = Figure(figsize=(5.6, 0.5 + 2.2 * len(sizes)), layout="constrained")
    every = figure.subplots(len(sizes), 1, squeeze=False)[:, 0]
    rows = ranking(results, study)
    step_sizes, ratios = study.grid["step_size"], study.grid["reward_ratio"]
    for axes, size in zip(every, sizes, strict=True):
        heat = np.full((len(step_sizes), len(ratios)), np.nan)
        for row in rows:
            setting = row.configuration
            if setting.get("num_quantiles") == size:
                y, x = step_sizes.index(setting["step_size"]), ratios.index(setting["reward_ratio"])
                heat[y, x] = row.mean
                _cell(axes, x, y, row.mean, best=row.rank == 1, tuned=setting == study.tuned)
        picture = axes.imshow(heat, style.SEQUENCE, vmin=WORST, vmax=BEST, origin="lower", aspect="auto")
        axes.set_xticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios])
        axes.set_yticks(range(len(step_sizes)), [f"{step_size:.0e}".replace("e-0", "e−") for step_size in step_sizes])
        axes.set(ylabel="step size α")
        axes.grid(visible=False)
        axes.set_title(f"{label(study)} Q-learning" + (f", {size} quantiles" if size else ""))
    every[-1].set_xlabel(
        "ratio η of the reward estimate's step size to α\n(framed: the paper's choice; *: the best of these)"
    )
    figure.colorbar(picture, ax=list(every), label="average reward over all steps", extend="min", pad=0.02)
    return figure


def _cell(axes: Axes, x: int, y: int, mean: float, *, best: bool, tuned: bool) -> None:
    """The number in a cell, black or white depending on the colour behind it."""
    ink = "black" if mean > (WORST + BEST) / 2 else "white"
    axes.text(
        x, y, f"{mean:.4f}".replace("-", "−") + ("*" if best else ""), color=ink, fontsize=7, ha="center", va="center"
    )
    if tuned:
        axes.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, fill=False, edgecolor="black", lw=1.6))


FIGURES = by_name(
    PaperFigure(
        name="figure_2",
        caption=(
            "a) the reward per step of the ε-greedy optimal policy, b) their quantiles, c) D2's estimates of them.",
            "The paper: \"the agent's quantile estimates converge to the quantiles of the limiting per-step reward distribution "
            'induced by the optimal policy".',
        ),
        draw=partial(reward_convergence, algorithm="d2-q"),
        shows={"d2-q": "traced"},
    ),
    PaperFigure(
        name="figure_3",
        caption=(
            "the rolling average reward of the three tuned algorithms, mean and 95 % interval over runs.",
            'The paper: "the D2 and D3 algorithms yield competitive performance when compared to their non-distributional '
            'counterpart".',
        ),
        draw=rewards,
        shows={"differential-q": "tuned", "d2-q": "tuned", "d3-q": "tuned"},
    ),
    PaperFigure(
        name="figure_c2",
        caption=(
            "average reward over all steps for every step size of Differential Q-learning.",
            'The paper: "a value function step size of 2e-3 and an average-reward η of 2.0 resulted in the highest '
            'average-reward".',
        ),
        draw=partial(heat_maps, algorithm="differential-q"),
        shows={"differential-q": "grid"},
    ),
    PaperFigure(
        name="figure_c2_d2",
        caption=(
            "The same for D2, which the paper tells and does not show: α = 2e-3, η = 2 and 51 quantiles "
            '"yielded the best results".',
        ),
        draw=partial(heat_maps, algorithm="d2-q"),
        shows={"d2-q": "grid"},
    ),
    PaperFigure(
        name="figure_c2_d3",
        caption=(
            "The same for D3, which the paper tells and does not show: α = 2e-2, η = 2 and 51 quantiles "
            '"yielded the best results".',
        ),
        draw=partial(heat_maps, algorithm="d3-q"),
        shows={"d3-q": "grid"},
    ),
    PaperFigure(
        name="figure_c3",
        caption=("as Fig. 2, with D3's estimates. The paper claims the same convergence of them.",),
        draw=partial(reward_convergence, algorithm="d3-q"),
        shows={"d3-q": "traced"},
    ),
    PaperFigure(
        name="figure_c4",
        caption=(
            "D3's quantiles of the differential return from the blue world with the blue pill.",
            'The paper: "the agent\'s differential return quantile estimates converge".',
        ),
        draw=return_convergence,
        shows={"d3-q": "traced"},
    ),
    curves.FIGURE_BEST,
)
"""Name → figure, in the order of the report."""
