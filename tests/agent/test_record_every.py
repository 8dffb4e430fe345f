"""A history with windows of a chosen length."""

from __future__ import annotations

import numpy as np
import pytest

import perstep


def agent(rule="d2"):
    return perstep.QLearning("perstep/RedPillBluePill-v0", rule=rule, num_quantiles=3, seed=5)


def test_windows_have_the_length_asked_for():
    single = agent().record_every(1, rows=1002).learn(1000)
    windows = agent().record_every(100, rows=12).learn(1000)
    assert windows.history.steps.tolist() == list(range(100, 1001, 100))
    np.testing.assert_allclose(windows.history.reward_rate, single.history.reward_rate.reshape(10, 100).mean(axis=1))
    np.testing.assert_array_equal(windows.history.reward_quantiles, single.history.reward_quantiles[99::100])


def test_full_rows_are_merged():
    assert agent().record_every(100, rows=4).learn(1000).history.steps.tolist() == [400, 800]


def test_it_is_saved_and_goes_on(tmp_path):
    whole = agent().record_every(100, rows=30).learn(2000)
    agent().record_every(100, rows=30).learn(950).save(tmp_path / "a.safetensors")
    resumed = perstep.load(tmp_path / "a.safetensors").learn(1050)
    np.testing.assert_array_equal(resumed.history.reward_rate, whole.history.reward_rate)
    assert resumed.history.window == 100


def test_a_history_that_has_begun_is_not_begun_again():
    with pytest.raises(ValueError, match="began 10 steps ago"):
        agent().learn(10).record_every(100)


@pytest.mark.parametrize(("window", "rows"), [(0, 10), (10, 0), (10, 3)])
def test_impossible_windows_are_refused(window, rows):
    with pytest.raises(ValueError, match="must be"):
        agent().record_every(window, rows)
