"""Figures of a training run: the convergence of the reward quantiles, the reward over the steps, and episode returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from perstep.display.progress import si
from perstep.numerics.quantiles import levels
from perstep.paper.figures.style import BLACK, BLUE, GREEN, ORANGE, level_colours, look, panels, save, steps_axis

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

SMOOTHED = 40  # the smoothed line averages over 1/40 of the run
FEW = 20  # up to this number of quantiles, each is a line; more are a fan
# The levels between which the fan is filled, and how dark; 0 and 1 are the outermost quantiles.
FAN = {(0.0, 1.0): 0.2, (0.05, 0.95): 0.4, (0.25, 0.75): 0.65}
EXACT = "exact"
LEGEND: Any = {"loc": "outside lower center", "ncols": 4, "columnspacing": 1.5, "handlelength": 1.8}


def quantile_convergence(
    path: str | os.PathLike[str], metrics: polars.DataFrame, exact: dict[str, Any] | None = None, title: str = ""
) -> None:
    """θ_i against steps, and their final values: lines, or a fan where there are many. Dotted: the exact quantiles of the final
    policy.

    `metrics` has the columns step, average_reward and theta_1 … theta_m, m > 1; `exact` has `quantiles` if they are known.
    """
    theta = metrics.select("^theta_.*$").to_numpy()  # (rows, m)
    steps, average = metrics["step"].to_numpy(), metrics["average_reward"].to_numpy()
    known = (exact or {}).get("quantiles")
    with look():
        figure, (left, right) = panels(2, ratios=(2.6, 1), sharey=True)
        (_convergence if theta.shape[1] <= FEW else _fan)(left, steps, theta, known)
        left.plot(steps, average, color=ORANGE, lw=1.3, label="learnt average reward")
        _final_quantiles(right, theta[-1], known)
        said = beyond(float(average[-1]), theta[-1])
        _finish(figure, left, "\n".join(filter(None, (title, said))), "reward per step", steps[-1])
        save(figure, path)


def beyond(average: float, theta: Floats) -> str:
    """What to say of an average that lies outside its quantiles; empty if it does not."""
    if not average < theta.min() and not average > theta.max():
        return ""
    side, end, kind = ("below", "lowest", "low") if average < theta.min() else ("above", "highest", "high")
    return f"average {side} the {end} quantile, since rarer {kind} rewards count"


def reward_rate(
    path: str | os.PathLike[str],
    metrics: polars.DataFrame,
    exact: dict[str, Any] | None = None,
    title: str = "",
    evaluations: polars.DataFrame | None = None,
) -> None:
    """The reward per step against steps, raw and smoothed, with the learned average reward and the exact values if known.

    `evaluations`: results of evaluations without learning, with the columns step and average_reward.
    """
    steps, window, rate = (metrics[name].to_numpy() for name in ("step", "window", "reward_rate"))
    average = metrics["average_reward"].to_numpy()
    known = exact or {}
    span = max(1, len(steps) // SMOOTHED)
    smooth = trailing_mean(rate, window, span)
    with look():
        figure, (axes,) = panels()
        axes.plot(steps, rate, color=BLUE, lw=0.5, alpha=0.3)
        axes.plot(steps, smooth, color=BLUE, lw=1.4, label=f"earned, over {si(float(span * window[0]))} steps")
        axes.plot(steps, average, color=ORANGE, lw=1.1, label="learnt average reward")
        if "average_reward" in known:
            axes.axhline(known["average_reward"], color=BLACK, ls=":", lw=1.1, label=EXACT)
        if "optimal_average_reward" in known:
            axes.axhline(known["optimal_average_reward"], color=GREEN, ls="--", lw=1.1, label="best possible")
        measured = _evaluated(axes, evaluations, "average_reward")
        _focus(axes, np.append(smooth, measured), average, known)
        _finish(figure, axes, title, "reward per step", steps[-1])
        save(figure, path)


def episode_return(
    path: str | os.PathLike[str],
    metrics: polars.DataFrame,
    title: str = "",
    evaluations: polars.DataFrame | None = None,
) -> None:
    """The mean return of the episodes that ended in each window, against steps, raw and smoothed.

    `metrics` has the columns step, episodes and episode_return; `evaluations` has step and episode_return.
    """
    ended = metrics.filter(metrics["episodes"] > 0)
    steps, count, returns = (ended[name].to_numpy() for name in ("step", "episodes", "episode_return"))
    with look():
        figure, (axes,) = panels()
        axes.plot(steps, returns, color=BLUE, lw=0.5, alpha=0.3)
        span = max(1, len(ended) // SMOOTHED)
        axes.plot(steps, trailing_mean(returns, count, span), color=BLUE, lw=1.4, label="while learning")
        _evaluated(axes, evaluations, "episode_return")
        _finish(figure, axes, title, "return of an episode", metrics["step"][-1])
        save(figure, path)


def _finish(figure: Figure, axes: Axes, title: str, label: str, last_step: int) -> None:
    axes.set_title(title)
    axes.set_ylabel(label)
    steps_axis(axes, max(int(last_step), 1))
    figure.legend(**LEGEND)


def _evaluated(axes: Axes, evaluations: polars.DataFrame | None, name: str) -> Floats:
    """Dots for evaluations without learning. Returns their values."""
    if evaluations is None or not len(evaluations):
        return np.zeros(0)
    heights = evaluations[name].to_numpy()
    axes.plot(evaluations["step"], heights, color=BLACK, ls="", marker="o", ms=3.5, label="evaluated")
    return np.asarray(heights)


def trailing_mean(rate: Floats, window: NDArray[np.int64], span: int) -> Floats:
    """Mean over the last `span` rows (fewer at the beginning), each weighted by its number of steps."""
    total = np.concatenate(([0.0], np.cumsum(rate * window)))
    count = np.concatenate(([0], np.cumsum(window)))
    end = np.arange(1, len(rate) + 1)
    begin = np.maximum(end - span, 0)
    mean: Floats = (total[end] - total[begin]) / (count[end] - count[begin])
    return mean


def _convergence(axes: Axes, steps: NDArray[np.int64], theta: Floats, exact: list[float] | None) -> None:
    """One line per quantile, from dark for the lowest level to light for the highest."""
    colours = level_colours(theta.shape[1])
    for i, colour in enumerate(colours):
        axes.plot(steps, theta[:, i], color=colour, lw=1.3)
    axes.plot([], [], color=colours[len(colours) // 3], label="learnt quantiles")
    if exact is not None:
        for level in sorted(set(exact)):
            axes.axhline(level, color=BLACK, ls=":", lw=0.8, zorder=3)
        axes.plot([], [], color=BLACK, ls=":", lw=0.8, label=EXACT)


def _fan(axes: Axes, steps: NDArray[np.int64], theta: Floats, exact: list[float] | None) -> None:
    """The median, and bands between quantiles whose levels lie as far from one half."""
    tau, ordered = np.asarray(levels(theta.shape[1])), np.sort(theta, axis=1)
    for (low, high), dark in FAN.items():
        ends = [int(np.abs(tau - level).argmin()) for level in (low, high)]
        name = "all quantiles" if low == 0.0 else f"{100 * low:g} to {100 * high:g} %"
        axes.fill_between(steps, *ordered[:, ends].T, color=mixed(BLUE, dark), lw=0, label=name)
        if exact is not None and low > 0.0:
            for end in ends:
                axes.axhline(exact[end], color=BLACK, ls=":", lw=0.8, zorder=3)
    middle = theta.shape[1] // 2
    axes.plot(steps, ordered[:, middle], color=BLUE, lw=1.3, label="median")
    if exact is not None:
        axes.axhline(exact[middle], color=BLACK, ls=":", lw=0.8, zorder=3, label=EXACT)


def mixed(colour: str, share: float) -> tuple[float, float, float]:
    """A colour in white."""
    red, green, blue = (1.0 - share * (1.0 - part) for part in to_rgb(colour))
    return red, green, blue


def _final_quantiles(axes: Axes, theta: Floats, exact: list[float] | None) -> None:
    """The final quantile function, sorted: level on the horizontal axis, reward on the vertical axis of the left panel."""
    theta = np.sort(theta)
    tau = np.asarray(levels(theta.size))
    if exact is not None:
        axes.plot(tau, exact, color=BLACK, lw=0.8, ls=":", drawstyle="steps-mid")
    axes.scatter(tau, theta, c=level_colours(theta.size), s=14 if theta.size <= FEW else 7, zorder=3)
    axes.set(title="at the end", xlabel="level τ", xlim=(0, 1))
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])


def _focus(axes: Axes, smooth: Floats, average: Floats, known: dict[str, Any]) -> None:
    """Limits from the smoothed lines without the first 1/40: noise and initial estimates would flatten the rest."""
    settled = slice(len(smooth) // 40, None)
    exact = [known[name] for name in ("average_reward", "optimal_average_reward") if name in known]
    shown = np.concatenate((smooth[settled], average[settled], exact))
    shown = shown[np.isfinite(shown)]
    if not shown.size:  # a run that diverged
        return
    low, high = float(shown.min()), float(shown.max())
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(low - room, high + room)
