"""The study of the continuing worlds: what is measured, and that each baseline gets its best step size."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from perstep.environments import WORLDS as REGISTERED
from perstep.studies import continuing, continuing_tiles, continuing_tuned
from perstep.studies.theory.measuring import Effort


def test_every_registered_world_of_operations_is_in_it() -> None:
    names = {title.lower().replace(" ", "").replace("-", "") for title in continuing.WORLDS}
    finite = {
        name.removeprefix("perstep/").removesuffix("-v0").lower()
        for name, (_, settings) in REGISTERED.items()
        if "world" in settings
    }
    # The paper's, one that all learners solve, and one that only exploration solves, as RiverSwim and the long chain.
    assert finite - names == {"redpillbluepill", "twoloop", "sixarms"}


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


# --- On tiles


def test_every_registered_world_of_motion_is_in_it() -> None:
    games = ("perstep/MinAtar-", "perstep/Atari-")
    numbers = {
        name for name, (_, settings) in REGISTERED.items() if "world" not in settings and not name.startswith(games)
    }
    assert {world.id for world in continuing_tiles.WORLDS.values()} == numbers


@pytest.mark.parametrize(
    ("title", "earned", "within"),
    [
        # From hanging, so a little below what the pages of the worlds say of standing.
        ("Inverted pendulum", -0.004, 0.001),
        ("Pendulum swing-up", -0.019, 0.002),
        ("CartPole", 1.0, 1e-9),  # the pole never falls
        ("MountainCar", -1.0 + 100.0 / 120.0, 0.02),  # the top after about 120 steps
        ("PuckWorld", -0.0686, 0.005),
        ("Autoscaling", -5.3, 0.1),
    ],
)
def test_rules_earn_what_is_known(title: str, earned: float, within: float) -> None:
    assert continuing_tiles.earned(continuing_tiles.WORLDS[title]) == pytest.approx(earned, abs=within)


def test_scores_on_tiles_are_0_for_random_actions_and_1_for_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuing_tiles, "RANDOM_STEPS", 200_000)
    monkeypatch.setattr(continuing_tiles, "EVALUATION", 2_000)
    rows = pl.DataFrame(
        continuing_tiles.measure_world("CartPole", Effort(steps=10_000, runs=1)), infer_schema_length=None
    )
    by_name = {name: rows.filter(pl.col("algorithm") == name) for name in rows["algorithm"].unique()}
    assert by_name[continuing_tiles.RANDOM]["score"].to_list() == [0.0]
    assert by_name[continuing_tiles.RANDOM]["average_reward"].to_list() == pytest.approx([1 - 10 / 22.2], abs=0.02)
    assert by_name[continuing.HEURISTIC]["score"].to_list() == [1.0]
    assert len(rows) == 2 + len(continuing_tiles.configurations())
    assert by_name["differential-actor-critic"]["score"][0] > 0.5  # 30,000 steps


# --- Tuned


def test_the_best_setting_is_reported_with_other_seeds() -> None:
    rows = pl.DataFrame(continuing_tuned.measure_world("Recycling robot", Effort(steps=2000, runs=2)))
    choosing, reported = (
        rows.filter(pl.col("seed") < continuing_tuned.REPORTED),
        rows.filter(pl.col("seed") >= 100),
    )
    algorithms = (*continuing.OURS, *continuing.BASELINES)
    assert len(choosing) == 2 * (6 * len(continuing.OURS) + 15 * len(continuing.BASELINES))
    assert len(reported) == 2 * len(algorithms)
    for name in algorithms:
        tried = choosing.filter(pl.col("algorithm") == name).group_by("setting").agg(pl.col("score").mean())
        (setting,) = set(reported.filter(pl.col("algorithm") == name)["setting"])
        assert tried.filter(pl.col("setting") == setting)["score"][0] == tried["score"].max()
