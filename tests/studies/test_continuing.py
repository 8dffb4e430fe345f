"""The study of the continuing worlds: what is measured, and that each baseline gets its best step size."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from perstep.environments import WORLDS as REGISTERED
from perstep.studies import continuing
from perstep.studies.theory.measuring import Effort


def test_every_registered_world_of_operations_is_in_it() -> None:
    names = {title.lower().replace(" ", "").replace("-", "") for title in continuing.WORLDS}
    finite = {
        name.removeprefix("perstep/").removesuffix("-v0").lower()
        for name, (_, settings) in REGISTERED.items()
        if "world" in settings
    }
    assert finite - names == {"redpillbluepill", "twoloop"}  # the paper's, and the one that learners have solved


@pytest.mark.defaults
def test_scores_are_between_random_and_optimal() -> None:
    rows = pl.DataFrame(
        continuing.measure_world("Recycling robot", Effort(steps=3000, runs=1)), infer_schema_length=None
    )
    best = rows.filter(pl.col("algorithm") == "d2-q")
    assert best["score"].to_list() == pytest.approx([1.0])
    assert rows.filter(pl.col("algorithm") == continuing.HEURISTIC)["score"].to_list() == pytest.approx([1.0])
    assert len(rows) == 1 + len(continuing.OURS) + len(continuing.BASELINES) * len(continuing.STEP_SIZES)
    assert rows["score"].max() <= 1.0 + 1e-12  # type: ignore[operator]


def test_a_baseline_gets_its_best_step_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_up(folder: Path, world: str) -> pl.DataFrame:
        ours = [(world, name, None, 0, 0.9, 0.0) for name in continuing.OURS]
        others = [(world, name, size, 0, size, 0.0) for name in continuing.BASELINES for size in continuing.STEP_SIZES]
        names = ["world", "algorithm", "step_size", "seed", "score", "quantile_error"]
        return pl.DataFrame([*ours, *others], schema=names, orient="row", infer_schema_length=None)

    monkeypatch.setattr(continuing, "table", made_up)
    total = continuing.summary(continuing.all_worlds(Path()))
    assert set(total.filter(pl.col("algorithm").is_in(continuing.BASELINES))["step_size"]) == {0.3}
    assert total["iqm"].to_list() == pytest.approx([0.9] * len(continuing.OURS) + [0.3] * len(continuing.BASELINES))
