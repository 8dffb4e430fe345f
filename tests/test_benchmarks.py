"""The studies of benchmarks/: their scores and worlds, and that one command makes what is missing and nothing twice."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import numpy as np
import polars as pl
import pytest

from perstep.distributions.distribution import Distribution
from perstep.mdp.mdp import FiniteMDP
from perstep.studies.measurement import Effort
from perstep.worlds import WORLDS as REGISTERED
from perstep.worlds import two_loop

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
import continuing
import continuing_tiles
import continuing_tuned
import defaults
from scores import ends, exactly, quantile_errors, reward_range

FEW = ("two-loop", "recycling_robot", "riverswim_12")


@pytest.mark.parametrize("name", defaults.WORLDS)
def test_every_world_has_a_score(name: str) -> None:
    mdp = defaults.WORLDS[name].make()
    lowest, best = ends(mdp)
    assert best > lowest
    assert reward_range(mdp) > 0.0


def test_rewards_are_scaled_and_shifted_with_their_cap() -> None:
    plain, other = two_loop(), defaults.scaled(two_loop, 10.0, 1.0)
    assert other.solve().average_reward == pytest.approx(10.0 * plain.solve().average_reward + 1.0)
    assert reward_range(other) == pytest.approx(10.0 * reward_range(plain))


def test_a_quantile_counts_within_a_hundredth_of_its_level() -> None:
    exact = Distribution([0.5, 0.5], [0.0, 1.0])
    near, far = Distribution([0.505, 0.495], [0.0, 1.0]), Distribution([0.53, 0.47], [0.0, 1.0])
    assert quantile_errors(near, exact).max() == 0.0
    assert quantile_errors(far, exact).max() == 1.0
    modes = Distribution([0.5, 0.5], [0.0, 1.0], [0.01, 0.01])
    assert quantile_errors(near, modes).max() < 0.03
    assert quantile_errors(far, modes).max() > 0.9
    assert quantile_errors(modes, modes).max() == 0.0


def test_a_policy_with_several_closed_classes_is_evaluated() -> None:
    mdp = FiniteMDP(
        np.array([np.eye(2), np.eye(2)]), np.array([[0.0, 0.0], [1.0, 1.0]])
    )  # the action is the next state
    assert exactly(mdp, np.eye(2)).average_reward == pytest.approx(0.5)


def test_one_command_measures_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tuple(each for each in defaults.MEASUREMENTS if each.name in FEW)
    monkeypatch.setattr(defaults, "MEASUREMENTS", few)
    monkeypatch.setattr(sys, "argv", ["defaults.py", "--scale", "smoke", "--out", str(tmp_path)])
    assert defaults.run("defaults", few, defaults.draw, defaults.say, "") == 0
    frame = defaults.all_worlds(tmp_path)
    assert len(frame) == len(FEW) * len(defaults.AGENTS) * defaults.EFFORTS["smoke"].runs
    assert frame["score"].max() <= 1.0 + 1e-9  # type: ignore[operator]
    assert "of 3 worlds" in capsys.readouterr().out
    assert (tmp_path / "figures" / "defaults.png").stat().st_size > 2000
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("*.parquet")}
    assert defaults.run("defaults", few, defaults.draw, defaults.say, "") == 0
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("*.parquet")} == before


def test_every_registered_world_of_operations_is_in_it() -> None:
    names = {title.lower().replace(" ", "").replace("-", "") for title in continuing.WORLDS}
    finite = {
        name.removeprefix("perstep/").removesuffix("-v0").lower()
        for name, world in REGISTERED.items()
        if "world" in world.settings
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
    def made_up(folder: Path, every: object) -> pl.DataFrame:
        world = "a world"
        ours = [(world, name, None, 0, 0.9, 0.0) for name in continuing.OURS]
        others = [(world, name, size, 0, size, 0.0) for name in continuing.BASELINES for size in continuing.STEP_SIZES]
        names = ["world", "algorithm", "step_size", "seed", "score", "quantile_error"]
        return pl.DataFrame([*ours, *others], schema=names, orient="row", infer_schema_length=None)

    monkeypatch.setattr(continuing, "tables", made_up)
    total = continuing.summary(continuing.all_worlds(Path()))
    assert set(total.filter(pl.col("algorithm").is_in(continuing.BASELINES))["step_size"]) == {0.3}
    assert total["iqm"].to_list() == pytest.approx([0.9] * len(continuing.OURS) + [0.3] * len(continuing.BASELINES))


# --- On tiles


def test_every_registered_world_of_motion_is_in_it() -> None:
    games = ("perstep/MinAtar-", "perstep/Atari-")
    numbers = {
        name
        for name, world in REGISTERED.items()
        if "world" not in world.settings
        and not name.startswith(games)
        and isinstance(gymnasium.make(name).action_space, gymnasium.spaces.Discrete)
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
