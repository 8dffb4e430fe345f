"""Two agents in files, or two runs in folders, compared to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars

from perstep.app import training
from perstep.files import storage


class Crash(Exception):
    """Stands for a process that is gone: nothing is saved any more."""


def assert_same_file(one: Path, other: Path) -> None:
    (arrays, metadata), (other_arrays, other_metadata) = storage.read(one), storage.read(other)
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name, strict=True)
        assert array.tobytes() == other_arrays[name].tobytes(), name
    assert metadata == other_metadata


def assert_same_learning(one: Path, other: Path) -> None:
    assert_same_file(one / training.AGENT, other / training.AGENT)
    assert polars.read_parquet(one / training.METRICS).equals(polars.read_parquet(other / training.METRICS))


def assert_same_run(one: Path, other: Path) -> None:
    assert_same_learning(one, other)
    assert evaluations(one).equals(evaluations(other))


def evaluations(folder: Path) -> polars.DataFrame:
    path = folder / training.EVALUATIONS
    return polars.read_parquet(path) if path.exists() else polars.DataFrame()
