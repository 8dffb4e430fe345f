"""The figures show the numbers that are in the results."""

from __future__ import annotations

import numpy as np
import pytest

from perstep.paper.catalog import REDPILL, SCALES
from perstep.paper.figures import redpill, style
from perstep.paper.reference import optimal_rewards
from perstep.studies.execution import complete
from perstep.studies.ranking import ranking
from perstep.studies.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    found = Results(tmp_path_factory.mktemp("figures"), [study.at(SCALES["smoke"]) for study in REDPILL])
    complete(found, progress=False)
    return found


@pytest.mark.parametrize("name", redpill.FIGURES)
def test_axes_are_labelled_and_the_caption_says_what_the_paper_claims(results, name):
    with style.look():
        figure = redpill.FIGURES[name].draw(results)
    for axes in figure.axes:
        shared = axes.get_shared_y_axes().joined(figure.axes[0], axes) and axes is not figure.axes[0]
        assert axes.get_ylabel() or shared
    assert any(axes.get_xlabel() for axes in figure.axes)
    assert "the paper" in " ".join(redpill.FIGURES[name].caption).lower()


@pytest.mark.parametrize(("name", "algorithm"), [("figure_2", "d2-q"), ("figure_c3", "d3-q")])
def test_convergence_ends_at_the_runs_mean_beside_the_exact_quantiles(results, name, algorithm):
    study = results.studies[algorithm]
    _, dots, lines = redpill.FIGURES[name].draw(results).axes
    _, exact = optimal_rewards(0.1).levels_and_quantiles(10)
    np.testing.assert_allclose(dots.collections[0].get_offsets()[:, 1], exact)
    drawn = [line.get_ydata() for line in lines.get_lines()]
    np.testing.assert_allclose([y[0] for y in drawn[:10]], exact)
    final = np.array(results.runs(study, study.traced)["reward_quantiles"].to_list())
    np.testing.assert_allclose([y[-1] for y in drawn[11:30:2]], final.mean(axis=0), rtol=1e-6)


def test_figure_3_is_the_rolling_mean(results):
    # 200 steps make two windows, so the rolling mean is over both: one point a line, the average reward.
    axes = redpill.FIGURES["figure_3"].draw(results).axes[1]
    for line, study in zip(axes.get_lines()[:3], results.studies.values(), strict=True):
        earned = results.runs(study, study.tuned)["average_reward"].mean()
        np.testing.assert_allclose(line.get_ydata(), [earned], rtol=1e-6)
        np.testing.assert_array_equal(line.get_xdata(), [200])


def test_the_best_is_beside_the_paper_s(results):
    every = redpill.FIGURES["figure_best"].draw(results).axes
    for axes, study in zip(every, results.studies.values(), strict=True):
        best = ranking(results, study)[0]
        tuned, *other = axes.get_lines()
        earned = results.runs(study, study.tuned)["average_reward"].mean()
        assert tuned.get_ydata().mean() == pytest.approx(earned, rel=1e-6)
        assert len(other) == (best.configuration != study.tuned)
        for line in other:
            assert line.get_ydata().mean() == pytest.approx(best.mean, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["differential-q", "d2-q", "d3-q"])
def test_a_heat_map_has_every_setting_and_frames_the_paper_s(results, algorithm):
    study = results.studies[algorithm]
    name = {"differential-q": "figure_c2", "d2-q": "figure_c2_d2", "d3-q": "figure_c2_d3"}[algorithm]
    maps = redpill.FIGURES[name].draw(results).axes[:-1]  # the last is the colour bar
    assert sum(axes.get_images()[0].get_array().count() for axes in maps) == len(study.settings)
    assert sum(len(axes.patches) for axes in maps) == 1
    assert sum(text.get_text().endswith("*") for axes in maps for text in axes.texts) == 1
    (frame,) = maps[-1].patches  # the paper chose 51 quantiles
    x, y = round(frame.get_x() + 0.47), round(frame.get_y() + 0.45)
    assert study.grid["reward_ratio"][x] == study.tuned["reward_ratio"]
    assert study.grid["step_size"][y] == study.tuned["step_size"]
    shown = maps[-1].get_images()[0].get_array()[y, x]
    assert shown == pytest.approx(results.runs(study, study.tuned)["average_reward"].mean())
