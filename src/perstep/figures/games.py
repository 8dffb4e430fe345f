"""The paper's figures of its games (Fig. 4, C.8), and the late returns with intervals; on Atari or MinAtar, whichever was run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from perstep.environments.atari import AtariEnv
from perstep.figures import style
from perstep.studies.catalog import Study
from perstep.studies.comparison import label
from perstep.studies.games import RANDOM_PLAY, episode_returns, found_by_game, late_returns
from perstep.studies.results import MissingRuns, Results
from perstep.studies.statistics import (
    Estimate,
    Floats,
    bootstrap,
    interquartile_mean,
    mean_and_error,
    probability_of_improvement,
    rolling_mean_of_known,
)
from perstep.studies.tables import world_name

RULES = ("differential", "d2", "d3")
ROLLING = 20  # the rolling mean is over one in so many of the steps; the paper does not say over how many
PICTURED = ("Breakout", "breakout"), ("BeamRider", "beam_rider"), ("Freeway", "freeway")  # title, name
PICTURED_AFTER = 150  # steps at random, when something is to be seen in all three


def figure_4(results: Results) -> Figure:
    """Fig. 4: the rolling average of the total reward of an episode, mean and 95 % interval over runs, a panel a game.

    The paper, of Atari: "the D2 and D3 algorithms consistently outperform the non-distributional baseline, with the D3 algorithm
    showing better performance than the D2 algorithm". It says nothing of MinAtar.
    """
    games = found_by_game(results, episode_returns)
    figure, every = style.panels(len(games), 3.1)
    for letter, axes, found in zip("abc", every, games.values(), strict=False):
        for study, returns in found:
            _rolling_returns(axes, study, returns)
        if study.world in RANDOM_PLAY:
            axes.axhline(RANDOM_PLAY[study.world], color=style.BLACK, lw=0.9, ls=":", label="random play")
        axes.set_title(f"{letter}) {world_name(study)}, {len(returns)} run{'s' if len(returns) > 1 else ''}")
        style.steps_axis(axes, study.steps)
    every[0].set_ylabel(f"total reward of an episode\n(rolling mean over 1/{ROLLING} of the run)")
    title = "mean and 95 % interval over runs" if len(returns) > 1 else None
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(RULES) + 1, title=title)
    return figure


def figure_late_returns(results: Results) -> Figure:
    """The total reward of an episode in the last tenth of the runs: interquartile means with 95 % intervals, a panel a game; and
    how probable it is that a run of one rule beats a run of another, over all games.

    The paper shows no such numbers. The intervals are those of a stratified bootstrap (Agarwal et al. 2021): runs are drawn anew
    within each game.
    """
    games = {game: found for game, found in found_by_game(results, _several_late).items() if len(found) == len(RULES)}
    if not games:
        raise MissingRuns(f"There is no game in {results.folder} that all three rules were run in.")
    figure, (*every, beside) = style.panels(len(games) + 1, 2.1, ratios=(*[1] * len(games), 1.1))
    for axes, found in zip(every, games.values(), strict=True):
        for row, (study, late) in enumerate(found):
            _interval(axes, row, bootstrap(interquartile_mean, late), study.rule)
        axes.set_yticks(
            range(len(RULES)), [label(study) for study, _ in found] if axes is every[0] else [""] * len(RULES)
        )
        axes.set(title=world_name(study), xlabel="late return, IQM")
    for row, (ours, theirs) in enumerate(((1, 0), (2, 0), (2, 1))):
        scores = [_by_game([found[rule][1] for found in games.values()]) for rule in (ours, theirs)]
        _interval(beside, row, bootstrap(probability_of_improvement, *scores), RULES[ours])
    beside.axvline(0.5, color=style.BLACK, lw=0.9, ls=":")
    beside.set_yticks(range(len(RULES)), ["D2 > Differential", "D3 > Differential", "D3 > D2"])
    beside.set(xlim=(-0.03, 1.03), title="in all of them", xlabel="probability of it", xticks=(0, 0.5, 1))
    for axes in (*every, beside):
        axes.set_ylim(len(RULES) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
    return figure


def figure_c8(_: Results) -> Figure:
    """Fig. C.8: an illustration of a) Breakout, b) BeamRider and c) Freeway, each after 150 steps at random. The paper claims
    nothing of it.
    """
    figure, every = style.panels(len(PICTURED), 3.0)
    for place, (axes, (title, game)) in enumerate(zip(every, PICTURED, strict=True)):
        axes.imshow(_screen(game), aspect=210 / 160 * 3 / 4, interpolation="nearest")  # as wide as on a television
        axes.set_title(f"{'abc'[place]}) {title}")
        axes.set_axis_off()
    return figure


FIGURES: dict[str, Callable[[Results], Figure]] = {
    function.__name__: function for function in (figure_4, figure_late_returns, figure_c8)
}
"""File name → the function that draws it."""


def _rolling_returns(axes: Axes, study: Study, returns: Floats) -> None:
    """A line from where in every run an episode has ended."""
    size = max(1, returns.shape[1] // ROLLING)
    mean, error = mean_and_error(rolling_mean_of_known(returns, size))
    steps = study.window * np.arange(size, returns.shape[1] + 1)
    line = style.RULE_LINES[study.rule]
    axes.plot(steps, mean, label=f"{label(study)} Q-learning", **line)
    axes.fill_between(steps, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)


def _several_late(results: Results, study: Study) -> Floats:
    late = late_returns(results, study)
    if late.size < 2:
        raise MissingRuns(f"An interval takes two runs or more, and there is one of {study.name}.")
    return late


def _by_game(columns: list[Floats]) -> Floats:
    """Scores with a column a game, and as many runs as there are in all of them; (runs, games)."""
    runs = min(column.size for column in columns)
    return np.stack([column[:runs] for column in columns], axis=1)


def _interval(axes: Axes, row: int, estimate: Estimate, rule: str) -> None:
    colour = style.RULE_LINES[rule]["color"]
    axes.plot([estimate.low, estimate.high], [row, row], color=colour, lw=7, alpha=0.35, solid_capstyle="butt")
    axes.plot(estimate.value, row, marker="|", ms=13, mew=2, color=colour)


def _screen(game: str) -> NDArray[np.uint8]:
    """What the game shows, the same every time."""
    try:
        world, chance = AtariEnv(game, render_mode="rgb_array"), np.random.default_rng(0)
    except ImportError as error:  # figures of results that are there do without the games
        raise MissingRuns(str(error)) from error
    world.reset(seed=0)
    for _ in range(PICTURED_AFTER):
        world.step(int(chance.integers(world.action_space.n)))
    screen = world.render()
    world.close()
    return np.asarray(screen)
