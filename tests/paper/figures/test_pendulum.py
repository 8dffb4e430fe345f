"""The figures of the pendulum show the numbers that are in the results."""

from __future__ import annotations

import numpy as np
import pytest

from perstep.paper.catalog import PENDULUM, SCALES
from perstep.paper.claims.pendulum import claims
from perstep.paper.confirmation import confirmation
from perstep.paper.figures import pendulum, style
from perstep.paper.reference import balanced_rewards
from perstep.studies.execution import complete
from perstep.studies.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    found = Results(tmp_path_factory.mktemp("pendulum"), [study.at(SCALES["smoke"]) for study in PENDULUM])
    summary = complete(found, progress=False)
    assert (summary.made, summary.failures) == (600, ())  # every entry of the catalog, those that diverge too
    return found


@pytest.mark.parametrize("name", pendulum.FIGURES)
def test_axes_are_labelled_and_the_caption_says_what_the_paper_claims(results, name, tmp_path):
    with style.look():
        figure = pendulum.FIGURES[name].draw(results)
        png, _ = style.save(figure, tmp_path / name)
    assert 10_000 < png.stat().st_size < 300_000
    assert "the paper" in " ".join(pendulum.FIGURES[name].caption).lower()
    if name != "figure_c1":  # a drawing has no axes
        assert any(axes.get_xlabel() for axes in figure.axes)
        assert any(axes.get_ylabel() for axes in figure.axes)


@pytest.mark.parametrize(("name", "algorithm"), [("figure_c5", "d2-actor-critic"), ("figure_c6", "d3-actor-critic")])
def test_convergence_ends_at_the_runs_mean(results, name, algorithm):
    study = results.studies[algorithm]
    density, dots, lines = pendulum.FIGURES[name].draw(results).axes
    shown = dots.collections[0].get_offsets()
    np.testing.assert_allclose(shown[:, 0], np.arange(0.05, 1.0, 0.1))
    np.testing.assert_allclose(shown[:, 1], 1e4 * np.quantile(balanced_rewards(), shown[:, 0]))
    shares = density.patches[0].get_data().values
    assert shares.sum() == pytest.approx(1.0)
    final = np.array(results.runs(study, study.traced)["reward_quantiles"].to_list())
    drawn = [
        line.get_ydata()[-1] for line in lines.get_lines()[2:21:2]
    ]  # after the line at 0: one run, mean, one run, …
    np.testing.assert_allclose(drawn, final.mean(axis=0), rtol=1e-6)


def test_figure_c7_is_the_rolling_mean(results):
    # 200 steps make two windows, so the rolling mean is over both: one point a line, the average reward.
    for axes in pendulum.FIGURES["figure_c7"].draw(results).axes:
        for line, study in zip(axes.get_lines()[:3], results.studies.values(), strict=True):
            earned = results.runs(study, study.tuned)["average_reward"].mean()
            np.testing.assert_allclose(line.get_ydata(), [earned], rtol=1e-6)


def test_heat_maps_show_the_best_over_the_policy_s_step(results):
    panels = [axes for axes in pendulum.FIGURES["figure_sensitivity"].draw(results).axes if axes.get_images()]
    assert [axes.get_title() for axes in panels] == [
        "Differential", "D2, 10 quantiles", "D3, 10 quantiles", "D2, 51 quantiles", "D3, 51 quantiles",
    ]  # fmt: skip
    assert [len(axes.patches) for axes in panels] == [1, 1, 1, 0, 0]  # the paper chose ten quantiles
    assert sum("*" in text.get_text() for axes in panels for text in axes.texts) == 3
    study = results.studies["d2-actor-critic"]
    heat = panels[3].get_images()[0].get_array()
    assert heat.shape == (4, 5)
    assert heat.count() == 20
    cell = [
        results.runs(study, setting)["average_reward"].to_numpy().mean()
        for setting in study.settings
        if (setting["step_size"], setting["reward_ratio"], setting["num_quantiles"]) == (2e-3, 1.0, 51)
    ]
    assert len(cell) == 6
    assert heat[1, 3] == max(cell)


def test_settings_marks_the_paper_s_choice(results):
    every = pendulum.FIGURES["figure_settings"].draw(results).axes
    differential = results.studies["differential-actor-critic"]
    best, median, ring = every[0].get_lines()[:3]
    means = {value: [] for value in differential.grid["step_size"]}
    for setting in differential.settings:
        means[setting["step_size"]].append(results.runs(differential, setting)["average_reward"].to_numpy().mean())
    np.testing.assert_allclose(best.get_ydata(), [max(group) for group in means.values()])
    np.testing.assert_allclose(median.get_ydata(), [np.median(group) for group in means.values()])
    assert ring.get_xdata()[0] == differential.grid["step_size"].index(2e-2)


def test_every_claim_is_judged(results):
    complete(confirmation(results), progress=False)
    told = claims(results)
    assert {claim.verdict for claim in told} <= {"holds", "does not hold"}
    assert {claim.figure or claim.where for claim in told} == {"Fig. C.5", "Fig. C.6", "Fig. C.7", "figure_sensitivity"}
