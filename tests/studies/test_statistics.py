from __future__ import annotations

import numpy as np
import pytest

from perstep.studies.statistics import mean_and_error, rolling_mean


def test_rolling_mean_by_hand():
    # (1 + 2)/2, (2 + 6)/2, (6 + 0)/2
    np.testing.assert_allclose(rolling_mean([[1.0, 2.0, 6.0, 0.0]], 2), [[1.5, 4.0, 3.0]])
    np.testing.assert_allclose(rolling_mean([1.0, 2.0, 6.0], 3), [3.0])
    np.testing.assert_allclose(rolling_mean([1.0, 2.0, 6.0], 1), [1.0, 2.0, 6.0])


@pytest.mark.parametrize("size", [0, 4])
def test_rolling_mean_over_what_is_not_there_is_refused(size):
    with pytest.raises(ValueError, match="over 1 to 3 of them"):
        rolling_mean([1.0, 2.0, 6.0], size)


def test_interval_by_hand():
    # Runs 1 and 3: mean 2, sd with ddof 1 is √2, so 1.96 · √2 / √2 = 1.96.
    mean, error = mean_and_error([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_allclose(mean, [2.0, 5.0])
    np.testing.assert_allclose(error, [1.96, 0.0])


def test_one_run_has_no_interval():
    mean, error = mean_and_error([[1.0, 5.0]])
    np.testing.assert_allclose(mean, [1.0, 5.0])
    assert np.isnan(error).all()
