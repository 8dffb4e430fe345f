"""Figures of the theorems (Sec. 4, App. B): measurements, predictions, and where both disagree with the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perstep.paper.figures import style
from perstep.paper.figures.paper_figure import PaperFigure, by_name
from perstep.paper.theory import control, prediction, quantile_tracking, returns
from perstep.studies.results import Results, table

COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.BLACK, style.GREY)
PREDICTED: dict[str, Any] = {"color": style.BLACK, "lw": 0.9, "ls": ":"}
ALGORITHM_LINES: dict[str, dict[str, Any]] = {
    "Differential": {"color": style.GREY, "ls": (0, (4, 1.5))},
    "D2 with offset": {"color": style.BLUE, "ls": "-"},
    "D2 as printed": {"color": style.ORANGE, "ls": "-"},
}


def quantile_tracking_figure(results: Results) -> Figure:
    """The figure of Theorem B.12 and Lemma B.11: the error of θ and the Lyapunov function."""
    figure, (error, lyapunov) = style.panels(2, 3.2)
    curves = quantile_tracking.tracking_curves(table(results.folder, "tracking"), "world", "m", "power")
    for colour, ((world, m, power), curve) in zip(COLOURS, curves.items(), strict=True):
        for axes, column in ((error, "error"), (lyapunov, "lyapunov")):
            label = f"{world}, m = {m}, p = {power:g}"
            axes.loglog(curve["step"], curve[column], color=colour, label=label)
            if world == "red-pill":
                axes.loglog(curve["step"], curve[f"predicted_{column}"], color=colour, lw=0.9, ls=":")
    error.loglog([], [], **PREDICTED, label="predicted")
    error.set(xlabel="steps t", ylabel="distance of θ from the quantiles (RMS)", title="a) θ → q, with α_θ = 1/t^p")
    lyapunov.set(xlabel="steps t", ylabel="L(θ)", title="b) the Lyapunov function")
    error.legend(loc="lower left", fontsize=7)
    return figure


def quantile_mean_figure(results: Results) -> Figure:
    """The figure of Lemma 4.2: the mean of m exact quantiles against the average reward."""
    figure, both = style.panels(2, 3.0, sharey=True)
    frame = table(results.folder, "quantile_mean")
    for axes, discrete, title in zip(
        both, (False, True), ("a) rewards with a density", "b) rewards on a few numbers"), strict=True
    ):
        kept = frame.filter(pl.col("discrete") == discrete)
        for colour, ((world,), curve) in zip(COLOURS, kept.partition_by("world", as_dict=True).items(), strict=False):
            axes.loglog(curve["m"], np.maximum(curve["error"], 1e-6), ".", ms=3, color=colour, label=world)
            if discrete:
                axes.loglog(curve["m"], curve["bound"], color=colour, lw=0.9, ls=":", label="its bound (b − a)/2m")
        axes.set(xlabel="number of quantiles m", title=title, ylim=(5e-7, 10))
        axes.legend(loc="lower left", fontsize=7)
    both[0].set_ylabel("|mean of the m quantiles − r̄|")
    return figure


def two_timescales(results: Results) -> Figure:
    """Theorem B.18: the error and the level of V."""
    figure, (error, level, biased) = style.panels(3, 3.0)
    curves = prediction.value_curves(table(results.folder, "values"))
    for colour, timescale in zip(COLOURS, prediction.TIMESCALES, strict=False):
        some = curves.filter(pl.col("timescale") == timescale)
        right, wrong = (some.filter(pl.col("world") == world) for world in ("two-loop", "red-pill"))
        error.loglog(right["step"], right["error"], color=colour, label=timescale)
        for axes, curve in ((level, right), (biased, wrong)):
            axes.semilogx(curve["step"], curve["level"], color=colour)
    error.set(xlabel="steps", ylabel="error of V, without level (RMS)", title="a) two-loop, m = 10")
    level.set(xlabel="steps", ylabel="level of V (mean over runs)", title="b) two-loop, m = 10")
    biased.set(xlabel="steps", ylabel="level of V (mean over runs)", title="c) red-pill, m = 3")
    error.legend(loc="lower left", fontsize=7)
    return figure


def finite_m(results: Results) -> Figure:
    """The drift of V that a finite m causes."""
    figure, (axes,) = style.panels(1, 3.0, 5.0)
    frame = table(results.folder, "bias")
    scale = 1.0 / frame["alpha"][0]
    for algorithm, marker in (("D2 as printed", "o"), ("D2 with offset", "s")):
        some = frame.filter(pl.col("algorithm") == algorithm)
        colour = ALGORITHM_LINES[algorithm]["color"]
        axes.plot(some["m"], scale * some["drift"], marker, ms=4, mfc="none", color=colour, label=algorithm)
    exact = frame.filter(pl.col("algorithm") == "D2 as printed").unique("m", maintain_order=True)
    axes.plot(exact["m"], scale * exact["predicted"], **PREDICTED, marker="_", ms=12, label="predicted")
    axes.set_xscale("log")
    axes.set_xticks(exact["m"].to_list(), [str(m) for m in exact["m"]])
    axes.minorticks_off()
    axes.set(xlabel="number of quantiles m", ylabel="drift of V a step, over α")
    axes.legend()
    return figure


def optimality_gap(results: Results) -> Figure:
    """Theorem 4.4: the gap sp(TQ − Q) and the shortfall of the greedy policy."""
    figure, every = style.panels(4, 3.3, 9.0)
    frame = table(results.folder, "optimality_gap")
    curves = control.gaps(frame)
    for axes, world in zip(every, frame["world"].unique(maintain_order=True), strict=True):
        some = curves.filter(pl.col("world") == world)
        for (algorithm, power), curve in some.partition_by("algorithm", "power", as_dict=True).items():
            line = dict(ALGORITHM_LINES[str(algorithm)])
            label = str(algorithm)
            if algorithm == "D2 as printed":
                line["ls"] = "-" if power == 0.8 else (0, (1, 0.8))
                label += f", α = ν^−{power:g}"
            axes.loglog(curve["step"], curve["gap"], label=label, **line)
            axes.loglog(curve["step"], np.maximum(curve["shortfall"], 1e-9), ".", ms=3, color=line["color"])
            rest = curve["predicted_gap"].drop_nulls()
            if len(rest) and power == 0.8 and world in control.SETTLING:
                axes.axhline(rest[-1], **PREDICTED)
        lowest = float(some["gap"].to_numpy().min())
        axes.set(xlabel="steps", title=world, ylim=(lowest / 30, 2 * float(some["gap"].to_numpy().max())))
    every[0].set_ylabel("sp(TQ − Q); dots: r̄* − r̄_π")
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def drift(results: Results) -> Figure:
    """The drift of Q while D2 explores."""
    figure, (one, two, beside) = style.panels(3, 3.2, ratios=(1, 1, 1.15))
    frame = table(results.folder, "drift")
    for axes, world, m in ((one, "red-pill", 51), (two, "access control", 51)):
        kept = frame.filter((pl.col("world") == world) & (pl.col("m") == m) & (pl.col("epsilon") == 0.1))
        for (algorithm,), runs in kept.partition_by("algorithm", as_dict=True).items():
            for steps, values in zip(runs["steps"], runs["mean_values"], strict=True):
                axes.plot(steps, values, **ALGORITHM_LINES[str(algorithm)], lw=1.0, label=str(algorithm))
        style.steps_axis(axes, int(kept["steps"][0][-1]))
        axes.set(title=f"{'a' if axes is one else 'b'}) {world}, m = {m}", ylabel="mean of Q")
    handles, labels = one.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    one.legend(unique.values(), unique.keys(), loc="upper left", fontsize=7)
    _predicted_and_measured(beside, frame.filter(pl.col("algorithm") == "D2 as printed"))
    return figure


def _predicted_and_measured(axes: Axes, printed: pl.DataFrame) -> None:
    """Measured against predicted drift, one mark per run."""
    known = printed.filter(pl.col("predicted").is_not_null())
    for colour, marker, ((world,), runs) in zip(
        COLOURS, "os^d", known.partition_by("world", as_dict=True).items(), strict=False
    ):
        x, y = (runs[name] / runs["alpha"] for name in ("predicted", "drift"))
        axes.plot(x, y, marker, ms=4, mfc="none", color=colour, label=str(world))
    ends = np.array([0.0, float((printed["drift"] / printed["alpha"]).to_numpy().max())])
    axes.plot(ends, ends, **PREDICTED)
    axes.set(xlabel="predicted k", ylabel="measured drift over α", title="c) one mark a run")
    if len(known):
        axes.legend(loc="upper left", fontsize=7)


def return_quantiles(results: Results) -> Figure:
    """The spread and the mean of D3's Ω, and the spread of sampled returns."""
    figure, (spread, mean, sampled) = style.panels(3, 3.0)
    curves = returns.spreads(table(results.folder, "returns"))
    for colour, ((n,), curve) in zip(COLOURS, curves.partition_by("n", as_dict=True).items(), strict=False):
        for axes, column in ((spread, "spread"), (mean, "mean")):
            axes.plot(curve["step"], curve[column], color=colour, label=f"n = {n}")
            axes.plot(curve["step"], curve[f"predicted_{column}"], color=colour, lw=0.9, ls=":")
    for axes, what in ((spread, "standard deviation"), (mean, "mean")):
        axes.set_xscale("log")
        axes.axvline(100_000, color=style.GREY, lw=0.7)
        axes.set(xlabel="steps", ylabel=f"{what} of Ω(blue, blue)")
    spread.set_title("a) spread (grey: end of Fig. C.4)")
    mean.set_title("b) mean")
    spread.plot([], [], **PREDICTED, label="predicted")
    spread.legend(loc="upper left", fontsize=7)
    frame = table(results.folder, "sampled_returns")
    sampled.loglog(frame["horizon"], frame["spread"], "o", ms=3, color=style.BLUE, label="2,000 sampled")
    sampled.loglog(frame["horizon"], frame["predicted_spread"], **PREDICTED, label="sd of a reward · √H")
    sampled.set(xlabel="horizon H", ylabel="standard deviation of Σ (R − r̄)", title="c) sampled returns")
    sampled.legend(loc="upper left", fontsize=7)
    return figure


FIGURES = by_name(
    PaperFigure(
        name="quantile_tracking",
        caption=(
            "Theorem B.12 and Lemma B.11: a) the error of θ against steps, b) the Lyapunov function L(θ), mean over runs.",
            "The paper proves that θ converges and that L falls along its mean path. Dotted is what stochastic "
            "approximation predicts of rewards with a density: an error of √(α_θ τ(1 − τ) / 2f(q)), and L = α_θ (m/24 + "
            "1/48m).",
        ),
        draw=quantile_tracking_figure,
    ),
    PaperFigure(
        name="quantile_mean",
        caption=(
            "Lemma 4.2: the mean of m exact quantiles beside the average reward, against m; no learning.",
            "The paper proves that the difference goes to 0. For rewards in [a, b] it is at most (b − a) / 2m (lines), "
            "and not monotone.",
        ),
        draw=quantile_mean_figure,
    ),
    PaperFigure(
        name="two_timescales",
        caption=(
            "Theorem B.18: a) the error of V without its level, b) the level where the mean of q is r̄, c) and where it "
            "is not.",
            "The paper proves that V converges if α/α_θ → 0. The ratio matters little, since θ does not depend on V; that "
            "the mean of the m quantiles is r̄ matters: in c) no ratio gives the level a limit.",
        ),
        draw=two_timescales,
    ),
    PaperFigure(
        name="finite_m",
        caption=(
            "What a finite m does to prediction: the drift of V a step, beside α (r̄ − mean of q) / S; red-pill, uniform "
            "policy.",
            "The paper takes the mean of the quantiles for r̄, which is true as m → ∞ only (Lemma 4.2). The learned "
            "offset ends the drift.",
        ),
        draw=finite_m,
    ),
    PaperFigure(
        name="optimality_gap",
        caption=(
            "Theorem 4.4: sp(TQ − Q) (lines), which bounds what the greedy policy falls short of r̄* by (dots), against "
            "steps.",
            "The paper proves the bound, which held at every look, and that the gap goes to 0 if Q converges. D2 as "
            "printed with the usual steps ν^−0.8 keeps a gap, which is predicted (dotted); with 1/ν the gap goes to 0 "
            "though Q itself does not converge.",
        ),
        draw=optimality_gap,
    ),
    PaperFigure(
        name="drift",
        caption=(
            "How D2's Q drifts while it explores: a), b) the mean of Q against steps; c) the drift of each run beside the "
            "prediction.",
            "The paper proves Q bounded (Lemma B.28). R̄ goes to the average reward of the ε-greedy policy, and Q needs "
            "that of the greedy one, so all of Q rises by α k a step, k being the root of gain*(r − k/w) = R̄ with w the "
            "share of visits of each pair.",
        ),
        draw=drift,
    ),
    PaperFigure(
        name="return_quantiles",
        caption=(
            "D3's Ω(blue, blue): a) its spread and b) its mean against steps and n; c) the spread of sampled differential "
            "returns.",
            "The paper's Fig. C.4 shows Ω over 100,000 steps and says that it converges. The variance of Σ (R − r̄) grows "
            "linearly with the horizon, so there is no distribution to converge to: the spread of Ω grows until it is in "
            "proportion to n (dotted: predicted).",
        ),
        draw=return_quantiles,
    ),
)
"""Name → figure, in the order of the report."""
