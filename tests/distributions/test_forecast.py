"""The forecast that people read: its band, its sentence and its plot, for a normal and for simulated sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from perstep import Forecast


def test_a_normal_forecast() -> None:
    forecast = Forecast(1000, 656.5, 27.0**2)
    assert forecast.std == 27.0
    assert forecast.interval(0.9) == pytest.approx((656.5 - 1.6448536 * 27, 656.5 + 1.6448536 * 27))
    assert forecast.cdf(forecast.quantile(0.3)) == pytest.approx(0.3)
    assert str(forecast) == "the next 1,000 steps earn 612 to 701 with 90 %"
    assert repr(forecast) == "Forecast(the next 1,000 steps earn 612 to 701 with 90 %; mean 656.5, std 27)"


def test_the_error_of_the_mean_widens_the_band() -> None:
    assert Forecast(10, 0.0, 9.0, mean_error=4.0).std == 5.0
    sampled = Forecast(10, 0.0, 9.0, mean_error=4.0, samples=np.array([-3.0, 3.0]))
    assert sampled.distribution.std == pytest.approx(5.0)


def test_quantiles_of_samples() -> None:
    forecast = Forecast(10, 4.5, 8.25, samples=np.arange(10.0))
    assert forecast.interval(0.8) == (1.0, 8.0)
    assert forecast.quantile([0.1, 1.0]).tolist() == [0.0, 9.0]
    assert "10 paths" in repr(forecast)


@pytest.mark.parametrize(
    ("shares", "level", "band"),
    [
        ([0.03, 0.02, 0.9, 0.05], 0.9, (2, 2)),
        # 0.028 of the sums have one value, near the upper end: a band with or without it, and the other end makes up for it.
        ([0.047, 0.012, 0.874, 0.028, 0.039], 0.9, (2, 3)),
        ([0.5, 0.5], 0.9, (0, 1)),
        ([1.0], 0.9, (0, 0)),
    ],
)
def test_a_band_of_few_values_is_fair(shares, level, band) -> None:
    """From quantile to quantile it would hold 0.92, 0.914, 1 and 1."""
    samples = np.repeat(np.arange(len(shares), dtype=float), np.round(np.array(shares) * 1000).astype(int))
    low, high = Forecast(10, 0.0, 1.0, samples=samples).interval(level)
    assert (low, high) == band
    held = ((low <= samples) & (samples <= high)).mean()
    every = [sum(shares[i : j + 1]) for i in range(len(shares)) for j in range(i, len(shares))]
    assert abs(held - level) <= min(abs(share - level) for share in every) + 1e-9


@pytest.mark.parametrize(
    ("forecast", "sentence"),
    [
        (Forecast(1, -0.7, 0.0025), "the next step earns -0.78 to -0.62 with 90 %"),
        (Forecast(20, 8.0, 0.0), "the next 20 steps earn 8, without any spread"),
        (Forecast(20, 8.0, 4.0), "the next 20 steps earn 4.7 to 11.3 with 90 %"),
        (Forecast(10**6, 2e6, 1e8), "the next 1,000,000 steps earn 1,983,551 to 2,016,449 with 90 %"),
        (Forecast(10, 1.6449, 1.0), "the next 10 steps earn 0.0 to 3.3 with 90 %"),
    ],
)
def test_sentence(forecast: Forecast, sentence: str) -> None:
    assert str(forecast) == sentence


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, math.nan])
def test_a_level_is_a_probability(level: float) -> None:
    with pytest.raises(ValueError, match="level must be a probability above 0 and below 1"):
        Forecast(10, 0.0, 1.0).interval(level)


@pytest.mark.parametrize("samples", [None, np.random.default_rng(0).normal(5.0, 2.0, 1000)])
def test_plot(samples: np.ndarray | None) -> None:
    forecast = Forecast(10, 5.0, 4.0, samples=samples)
    figure = forecast.plot()
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert axes.get_title(loc="left").startswith("the next 10 steps earn")
    assert forecast.plot(axes) is figure
