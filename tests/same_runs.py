"""Two runs in folders, compared to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars

from perstep.app import training
from perstep.files import storage


class Crash(Exception):
    """Stands for a process that is gone: nothing is saved any more."""


def content(folder: Path) -> tuple[dict[str, Any], dict[str, Any], polars.DataFrame]:
    arrays, metadata = storage.read(folder / training.AGENT)
    return arrays, metadata, polars.read_parquet(folder / training.METRICS)


def assert_same_run(one: Path, other: Path) -> None:
    arrays, metadata, metrics = content(one)
    other_arrays, other_metadata, other_metrics = content(other)
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name, strict=True)
    assert metadata == other_metadata
    assert metrics.equals(other_metrics)
    assert evaluations(one).equals(evaluations(other))


def evaluations(folder: Path) -> polars.DataFrame:
    path = folder / training.EVALUATIONS
    return polars.read_parquet(path) if path.exists() else polars.DataFrame()
