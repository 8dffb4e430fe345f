"""The defaults part: its measures right where they are exact, verdicts that name the worlds, and a table per world."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from perstep import reproduction
from perstep.distribution import Distribution
from perstep.environments import FiniteMDP, two_loop
from perstep.figures import defaults as figures
from perstep.figures import style
from perstep.studies import defaults
from perstep.studies.catalog import SCALES
from perstep.studies.results import Results

SMOKE = SCALES["smoke"]
FEW = ("two-loop", "recycling_robot", "riverswim_12")


@pytest.fixture
def few(monkeypatch):
    """Three worlds of two groups instead of all."""
    chosen = tuple(each for each in defaults.MEASUREMENTS if each.name in FEW)
    assert len(chosen) == len(FEW)
    monkeypatch.setattr(defaults, "MEASUREMENTS", chosen)


def test_there_are_enough_worlds_and_enough_took_no_part_in_choosing():
    apart = [world for world in defaults.WORLDS.values() if world.group == defaults.NEW]
    assert len(defaults.WORLDS) >= 12
    assert len(apart) >= 5


@pytest.mark.parametrize("name", defaults.WORLDS)
def test_every_world_has_a_score(name):
    mdp = defaults.WORLDS[name].make()
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    assert mdp.solve().average_reward > defaults.exactly(mdp, uniform).average_reward
    assert defaults.reward_range(mdp) > 0.0


def test_rewards_are_scaled_and_shifted_with_their_cap():
    plain, other = two_loop(), defaults.scaled(two_loop, 10.0, 1.0)
    assert other.solve().average_reward == pytest.approx(10.0 * plain.solve().average_reward + 1.0)
    assert defaults.reward_range(other) == pytest.approx(10.0 * defaults.reward_range(plain))


def test_a_quantile_counts_within_a_hundredth_of_its_level():
    exact = Distribution([0.5, 0.5], [0.0, 1.0])
    near, far = Distribution([0.505, 0.495], [0.0, 1.0]), Distribution([0.53, 0.47], [0.0, 1.0])
    assert defaults.quantile_errors(near, exact).max() == 0.0
    assert defaults.quantile_errors(far, exact).max() == 1.0
    modes = Distribution([0.5, 0.5], [0.0, 1.0], [0.01, 0.01])
    assert defaults.quantile_errors(near, modes).max() < 0.03
    assert defaults.quantile_errors(far, modes).max() > 0.9
    assert defaults.quantile_errors(modes, modes).max() == 0.0


def test_a_policy_with_several_closed_classes_is_evaluated():
    mdp = FiniteMDP(
        np.array([np.eye(2), np.eye(2)]), np.array([[0.0, 0.0], [1.0, 1.0]])
    )  # the action is the next state
    assert defaults.exactly(mdp, np.eye(2)).average_reward == pytest.approx(0.5)


def made_up(**changes):
    """Perfect results of two worlds, with changes in the first."""
    row = {
        "group": defaults.NEW, "seed": 0, "score": 1.0, "life": 1.0, "average_error": 0.0, "quantile_error": 0.0,
        "mean_quantile_error": 0.0, "largest_quantile_error_at_level": 0.0, "cvar_error": 0.0,
    }  # fmt: skip
    return pl.DataFrame(
        [
            {"world": world, "agent": agent, **row, **(changes if world == "first" else {})}
            for world in ("first", "second")
            for agent in defaults.AGENTS
        ]
    )


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, []),
        ({"score": 0.94}, [0, 1]),
        ({"average_error": 0.011}, [2]),
        ({"quantile_error": 0.031, "cvar_error": 0.031}, [3, 4]),
    ],
)
def test_a_claim_that_does_not_hold_says_so_and_names_the_world(monkeypatch, tmp_path, changes, broken):
    monkeypatch.setattr(defaults, "all_worlds", lambda _: made_up(**changes))
    claims = defaults.claims(Results(tmp_path, []))
    assert [number for number, claim in enumerate(claims) if not claim.holds] == broken
    for number in broken:
        assert "first" in claims[number].measured or number == 1
    assert tuple(claim.says for claim in claims) == defaults.STATEMENTS


def test_the_part_runs_from_the_one_command(few, tmp_path, capsys):
    assert reproduction.reproduce(["defaults"], "smoke", tmp_path) == 0
    folder = tmp_path / "defaults" / "smoke"
    assert "made 3 tables" in capsys.readouterr().out
    frame = defaults.all_worlds(folder)
    assert len(frame) == len(FEW) * len(defaults.AGENTS) * defaults.EFFORTS["smoke"].runs
    assert frame["score"].max() <= 1.0 + 1e-9
    assert frame.null_count().sum_horizontal().item() == 0
    claims = json.loads((folder / "claims.json").read_text())
    assert all(claim["figure"] == "defaults" and claim["measured"] for claim in claims)
    assert (folder / "figures" / "defaults.png").stat().st_size > 2000
    again = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.parquet")}
    assert reproduction.reproduce(["defaults"], "smoke", tmp_path) == 0
    assert {file.name: file.stat().st_mtime_ns for file in folder.glob("*.parquet")} == again


def test_the_figure_has_a_panel_per_agent_and_a_row_per_world(few, tmp_path):
    assert defaults.measure(tmp_path, dataclasses.replace(SMOKE)) == (0, len(FEW))
    with style.look():
        figure = figures.FIGURES["defaults"].draw(Results(tmp_path, []))
    assert len(figure.axes) == len(defaults.AGENTS)
    assert len(figure.axes[0].get_yticklabels()) == len(FEW)
    assert all(axes.get_xlabel() for axes in figure.axes)
