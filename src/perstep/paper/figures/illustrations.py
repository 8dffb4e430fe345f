"""Illustrations of the paper's worlds: red-pill blue-pill, the inverted pendulum (Fig. C.1), three Atari games (Fig. C.8)."""

from __future__ import annotations

import math
from importlib import resources

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Circle, FancyArrowPatch
from numpy.typing import NDArray
from PIL import Image

from perstep.paper.figures import style
from perstep.paper.figures.paper_figure import PaperFigure
from perstep.paper.reference import BLUE, INVERTED_PENDULUM, RED, staying_rewards
from perstep.studies.results import Results

LEANING = 0.55  # rad, angle of the rod in the picture
WORLDS = ((RED, 2.6, style.ORANGE, "red"), (BLUE, 7.4, style.BLUE, "blue"))  # state, horizontal position, colour, name
LIFT, SIZE = 3.7, 0.95  # height and radius of the circles
GAMES = ("Breakout", "breakout"), ("BeamRider", "beam_rider"), ("Freeway", "freeway")  # title, file name in screens/


def worlds(_: Results) -> Figure:
    """Fig. C.1."""
    figure, (pills, rod) = style.panels(2, 3.0, ratios=(1.45, 1))
    for axes in (pills, rod):
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_anchor("N")  # so that both titles have the same height
    pills.set(xlim=(0, 10), ylim=(-0.35, 5.9), title="a) red-pill blue-pill")
    rod.set(xlim=(-2.4, 2.6), ylim=(-1.85, 2.05), title="b) inverted pendulum")
    _draw_pills(pills)
    _draw_rod(rod)
    return figure


def _draw_pills(axes: Axes) -> None:
    """Two worlds, four transitions, and under each world the distribution of its reward."""
    for state, x, colour, name in WORLDS:
        axes.add_patch(Circle((x, LIFT), SIZE, color=colour))
        axes.text(x, LIFT, f"{name}\nworld", color="white", ha="center", va="center", weight="bold")
        _density(axes, state, x, colour)
        side = -1 if state == RED else 1
        _arrow(axes, (x + 0.5 * side, LIFT + 0.83), (x + 0.5 * side, LIFT - 0.83), colour, -1.9 * side)
        axes.text(x + 2.05 * side, LIFT + 1.05, f"{name}\npill", color=colour, ha="center", va="center", fontsize=8)
    (_, left, orange, _), (_, right, blue, _) = WORLDS
    _arrow(axes, (left + 0.75, LIFT + 0.65), (right - 0.75, LIFT + 0.65), blue, -0.3)
    _arrow(axes, (right - 0.75, LIFT - 0.65), (left + 0.75, LIFT - 0.65), orange, -0.3)
    axes.text(5, LIFT + 1.55, "blue pill", color=blue, ha="center", va="bottom", fontsize=8)
    axes.text(5, LIFT - 1.55, "red pill", color=orange, ha="center", va="top", fontsize=8)


def _density(axes: Axes, state: int, x: float, colour: str) -> None:
    """The exact distribution of the reward in one world, under its circle."""
    density, edges = staying_rewards(state).histogram(np.linspace(-1.25, 0.0, 126))
    places = x - 1.6 + 3.2 * (edges + 1.25) / 1.25  # the same scale in both worlds
    axes.stairs(0.5 + 1.3 * density / 8.0, places, baseline=0.5, fill=True, color=colour, alpha=0.8)
    axes.plot([x - 1.6, x + 1.6], [0.5, 0.5], color=style.BLACK, lw=0.7)
    for reward in (-1.0, -0.5, 0.0):
        place = x - 1.6 + 3.2 * (reward + 1.25) / 1.25
        axes.plot([place, place], [0.42, 0.5], color=style.BLACK, lw=0.7)
        axes.text(place, 0.33, f"{reward:g}".replace("-", "−"), ha="center", va="top", fontsize=7)
    axes.text(x, -0.35, "reward", ha="center", va="bottom", fontsize=7)


def _arrow(
    axes: Axes, begin: tuple[float, float], end: tuple[float, float], colour: str, bend: float, lw: float = 1.4
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            begin, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=11, color=colour, lw=lw
        )
    )


def _draw_rod(axes: Axes) -> None:
    """A rod on a motor: its start, its goal, its angle, and the torque."""
    length = INVERTED_PENDULUM.length
    tip = (-length * math.sin(LEANING), length * math.cos(LEANING))  # angles grow counter-clockwise
    axes.plot([0, 0], [0, length + 0.25], color=style.GREEN, lw=1.2, ls="--")
    axes.text(0.1, length + 0.2, "upright, θ = 0", color=style.GREEN, va="center", fontsize=8)
    axes.plot([0, 0], [0, -length], color="#cccccc", lw=7, solid_capstyle="round")
    axes.text(0.2, -length + 0.1, "start: hanging", color=style.GREY, va="center", fontsize=8)
    axes.plot([0, tip[0]], [0, tip[1]], color=style.BLUE, lw=7, solid_capstyle="round")
    axes.add_patch(Circle((0, 0), 0.17, color=style.BLUE, zorder=3))
    axes.add_patch(Circle((0, 0), 0.06, color="white", zorder=4))
    axes.add_patch(Arc((0, 0), 2.0, 2.0, theta1=90, theta2=90 + math.degrees(LEANING), color=style.BLACK, lw=0.9))
    axes.text(-0.3, 1.17, "θ", ha="center", va="center")
    _arrow(axes, (0.1, 0.45), (0.38, -0.3), style.ORANGE, -0.55)
    torque = f"{INVERTED_PENDULUM.torque:g}"
    axes.text(0.62, 0.22, f"torque −{torque}, 0 or {torque}", color=style.ORANGE, va="center", fontsize=8)
    axes.text(0.62, -0.35, "reward −θ²", va="center", fontsize=8)


def games(_: Results) -> Figure:
    """Fig. C.8."""
    figure, every = style.panels(len(GAMES), 3.0)
    for place, (axes, (title, name)) in enumerate(zip(every, GAMES, strict=True)):
        axes.imshow(screen(name), aspect=210 / 160 * 3 / 4, interpolation="nearest")  # the proportions of a television
        axes.set_title(f"{'abc'[place]}) {title}")
        axes.set_axis_off()
    return figure


def screen(name: str) -> NDArray[np.uint8]:
    """The picture of a game in screens/, where a README says how it was made. (210, 160, 3)"""
    with resources.files("perstep.paper.figures").joinpath("screens", f"{name}.png").open("rb") as file:
        return np.asarray(Image.open(file).convert("RGB"))


FIGURE_C1 = PaperFigure(
    name="figure_c1",
    caption=("an illustration of a) red-pill blue-pill and b) the inverted pendulum. The paper claims nothing of it.",),
    draw=worlds,
)
FIGURE_C8 = PaperFigure(
    name="figure_c8",
    caption=(
        "an illustration of a) Breakout, b) BeamRider and c) Freeway, each after 150 steps at random. The paper claims "
        "nothing of it.",
    ),
    draw=games,
)
