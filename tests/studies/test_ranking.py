"""One ranking of configurations: the best first, what failed last, ties in the order in which they were given."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from perstep.studies.ranking import paired_difference, rank, ranked_as
from perstep.studies.results import MissingRuns


def test_the_highest_mean_is_first_and_what_has_none_is_last():
    rows = rank([
        ("diverged", np.array([math.nan, 1.0])), ("low", np.array([1.0])), ("failed", np.zeros(0)),
        ("high", np.array([1.0, 3.0])), ("as low", np.array([1.0, 1.0])),
    ])  # fmt: skip
    assert [(row.rank, row.configuration, row.num_runs) for row in rows] == [
        (1, "high", 2), (2, "low", 1), (3, "as low", 2), (4, "diverged", 2), (5, "failed", 0),
    ]  # fmt: skip
    assert rows[0].mean == 2.0
    assert rows[0].half_interval == pytest.approx(1.96)  # deviation √2, over √2
    assert math.isnan(rows[1].half_interval)  # one run cannot tell
    assert math.isnan(rows[-1].mean)


def test_a_setting_that_was_not_run_has_no_rank():
    rows = rank([({"step_size": 1.0}, np.array([0.0])), ({"step_size": 2.0}, np.array([-1.0]))])
    assert ranked_as({"step_size": 2.0}, rows).rank == 2
    with pytest.raises(MissingRuns, match="α = 3 is not among the 2 settings"):
        ranked_as({"step_size": 3.0}, rows)


def test_runs_of_one_seed_are_compared():
    ours = pl.DataFrame({"seed": [0, 1, 2], "average_reward": [1.0, 2.0, 9.0]})
    theirs = pl.DataFrame({"seed": [1, 0], "average_reward": [1.0, 0.0]})
    assert paired_difference(ours, theirs) == (1.0, 0.0, 2)
    with pytest.raises(MissingRuns, match="no seed in common"):
        paired_difference(ours.filter(pl.col("seed") == 2), theirs)
