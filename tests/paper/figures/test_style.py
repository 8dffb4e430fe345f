"""The common look, and files that depend on what is drawn only."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np

from perstep.paper.figures import style


def test_the_look_stays_inside():
    before = dict(mpl.rcParams)
    with style.look():
        assert not mpl.rcParams["axes.spines.top"]
    assert dict(mpl.rcParams) == before


def test_the_same_drawing_is_the_same_files(tmp_path):
    def draw(name, *suffixes):
        with style.look():
            figure, (axes,) = style.panels(1)
            axes.plot([0, 500, 1000], [0.0, 1.0, 0.5], label="a line")
            axes.fill_between([0, 1000], [0.0, 0.5], [0.5, 1.0], hatch="/")  # which needs names inside a file
            axes.legend()
            style.steps_axis(axes, 1000)
            return style.save(figure, tmp_path / name, *suffixes)

    one, other = draw("one", "png", "pdf", "svg"), draw("other", "png", "pdf", "svg")
    assert [path.name for path in one] == ["one.png", "one.pdf", "one.svg"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    assert [path.name for path in draw("two")] == ["two.png", "two.pdf"]


def test_time_is_read_in_thousands():
    figure, (axes,) = style.panels(1)
    style.steps_axis(axes, 100_000)
    figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "20k", "40k", "60k", "80k", "100k"]


def test_quantiles_get_lighter_with_their_level():
    red, green, blue, _ = style.level_colours(10).T
    lightness = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert (np.diff(lightness) > 0).all()
    assert lightness[-1] < 0.8  # still seen on white
