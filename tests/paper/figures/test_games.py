"""The figures of the games show the returns that are in the results, of the games that were run."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from games_samples import STUDIES, level, results_of, write_returns
from perstep.numerics.statistics import bootstrap, interquartile_mean
from perstep.paper.figures import games, illustrations, style
from perstep.paper.game_returns import late_returns
from perstep.paper.reference import RANDOM_PLAY
from perstep.rules.transition import RULES
from perstep.studies.results import MissingRuns

NAN = math.nan
figure_4, figure_late_returns, figure_c8 = (figure.draw for figure in games.FIGURES.values())


@pytest.fixture
def results(tmp_path):
    found, chance = results_of(tmp_path), np.random.default_rng(0)
    for study in STUDIES:
        write_returns(found, study.key, [chance.normal(5.0, 1.0, 20).tolist() for _ in range(4)])
    return found


@pytest.mark.parametrize("name", ["figure_4", "figure_late_returns"])
def test_axes_are_labelled_and_the_caption_says_what_the_paper_claims(results, name, tmp_path):
    with style.look():
        figure = games.FIGURES[name].draw(results)
        png, *_ = style.save(figure, tmp_path / name)
    assert 10_000 < png.stat().st_size < 300_000
    assert all(axes.get_xlabel() for axes in figure.axes)
    assert "The paper" in " ".join(games.FIGURES[name].caption)


def test_figure_4_is_the_rolling_mean_of_the_episodes_that_ended(tmp_path):
    results = results_of(tmp_path, STUDIES[:1])
    # A twentieth of 40 windows is two. First run: (1+3)/2, 3 alone, nothing, 7 alone, then 7. Second run: 5 throughout.
    write_returns(results, STUDIES[0].key, [[1.0, 3.0, NAN, NAN, 7.0] + [7.0] * 35, level(5.0, 40)])
    (axes,) = figure_4(results).axes
    line, random = axes.get_lines()
    assert random.get_ydata()[0] == RANDOM_PLAY["perstep/MinAtar-Breakout-v0"]
    np.testing.assert_array_equal(line.get_xdata()[:4], [100, 150, 200, 250])
    np.testing.assert_allclose(line.get_ydata()[:5], [3.5, 4.0, NAN, 6.0, 6.0])
    assert axes.get_title() == "a) MinAtar-Breakout, 2 runs"


def test_figure_4_shows_what_was_run(results, tmp_path):
    assert [axes.get_title() for axes in figure_4(results).axes] == [
        "a) MinAtar-Breakout, 4 runs",
        "b) MinAtar-Freeway, 4 runs",
    ]
    colours = [line.get_color() for line in figure_4(results).axes[0].get_lines()]
    assert colours == [*(RULES[rule].line["color"] for rule in ("differential", "d2", "d3")), style.BLACK]
    part = results_of(tmp_path / "part")
    with pytest.raises(MissingRuns, match="There are no results of minatar/Breakout"):
        figure_4(part)
    write_returns(part, "Freeway/d2-deep-q", [level(1.0)])
    (axes,) = figure_4(part).axes
    assert axes.get_title() == "a) MinAtar-Freeway, 1 run"


def test_late_returns_have_the_intervals_of_the_bootstrap(results, tmp_path):
    breakout, _, beside = figure_late_returns(results).axes
    study = results.studies["Breakout/d2-deep-q"]
    expected = bootstrap(interquartile_mean, late_returns(results, study))
    bar, mark = breakout.get_lines()[2:4]
    np.testing.assert_allclose(bar.get_xdata(), [expected.low, expected.high])
    assert mark.get_xdata()[0] == expected.value
    assert [text.get_text() for text in breakout.get_yticklabels()] == ["Differential", "D2", "D3"]
    assert all(0 <= line.get_xdata()[0] <= 1 for line in beside.get_lines())
    alone = results_of(tmp_path / "alone", STUDIES[:3])
    for each in STUDIES[:3]:
        write_returns(alone, each.key, [level(1.0)])
    with pytest.raises(MissingRuns, match="needs at least two runs"):
        figure_late_returns(alone)


def test_figure_c8_has_a_screen_of_each_game(tmp_path):
    figure = figure_c8(results_of(tmp_path))
    assert [axes.get_title() for axes in figure.axes] == ["a) Breakout", "b) BeamRider", "c) Freeway"]
    for axes in figure.axes:
        screen = axes.get_images()[0].get_array()
        assert screen.shape == (210, 160, 3)
        assert len(np.unique(screen.reshape(-1, 3), axis=0)) >= 5  # something is to be seen


def test_the_screens_are_those_that_their_program_makes(tmp_path, monkeypatch):
    pytest.importorskip("ale_py", reason="The [deep] extra is not installed.")
    readme = Path(illustrations.__file__).parent / "screens" / "README.md"
    (program,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    made = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert made == {path.name: path.read_bytes() for path in readme.parent.glob("*.png")}
