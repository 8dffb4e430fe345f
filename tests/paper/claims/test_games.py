"""The claims of Fig. 4 say what the returns say, in both directions, and nothing where they cannot."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars
import pytest

import perstep
from games_samples import level, results_of, write_returns
from perstep.paper.catalog import ATARI, MINATAR, MINATAR_TUNING
from perstep.paper.claims.games import claims, tuning_claims
from perstep.paper.game_returns import found_by_game, late_returns, late_scores
from perstep.paper.reference import RANDOM_PLAY
from perstep.studies.results import MissingRuns, Results

NAN = math.nan


def write_game(results, game, differential, d2, d3):
    """Runs that have the same return throughout."""
    for rule, values in (("differential", differential), ("d2", d2), ("d3", d3)):
        write_returns(results, f"{game}/{rule}-deep-q", [level(value) for value in values])


def test_a_rule_outperforms_if_the_interval_is_above_0(tmp_path):
    results = results_of(tmp_path)
    # Means 2, 5 and 5.5. Spreads 1, 1 and 3, of three runs each: D2 is 3 ahead, and with t = 2.776 for 4 degrees of freedom the
    # half interval is 2.776 √(1/3 + 1/3) = 2.27; between D3 and D2 the difference is 0.5, and the interval holds 0.
    write_game(results, "Breakout", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [2.5, 5.5, 8.5])
    write_game(results, "Freeway", [5.0, 5.0, 5.0], [4.0, 4.0, 4.0], [5.0, 5.0, 5.0])
    told = {claim.says: claim for claim in claims(results)}
    assert list(told) == [
        f"{one} outperforms {other} in MinAtar-{game}"
        for game in ("Breakout", "Freeway")
        for one, other in (("D2", "Differential"), ("D3", "Differential"), ("D3", "D2"))
    ]
    ahead = told["D2 outperforms Differential in MinAtar-Breakout"]
    assert ahead.holds
    assert ahead.measured == "over the last 100 steps 5 an episode against 2: +3 (0.733 to 5.27), ahead"
    undecided = told["D3 outperforms D2 in MinAtar-Breakout"]
    assert undecided.holds is False
    assert undecided.measured.endswith("undecided")
    behind = told["D2 outperforms Differential in MinAtar-Freeway"]
    assert behind.holds is False
    assert behind.measured.endswith("-1 (-1 to -1), behind")
    assert told["D3 outperforms Differential in MinAtar-Freeway"].holds is False  # as good is not better
    assert all(claim.to_json({"figure_4"})["figure"] == "figure_4" for claim in told.values())


def test_what_was_not_run_is_not_judged(tmp_path):
    results = results_of(tmp_path)
    write_game(results, "Breakout", [1.0], [2.0], [3.0])
    write_returns(results, "Freeway/d2-deep-q", [level(1.0), None])
    told = {claim.says: claim for claim in claims(results)}
    assert {claim.verdict for claim in told.values()} == {"not run"}
    alone = told["D2 outperforms Differential in MinAtar-Breakout"].measured
    assert alone == "over the last 100 steps 2 an episode against 1, but one run cannot tell"
    assert "No episode ended in a run of" in told["D2 outperforms Differential in MinAtar-Freeway"].measured
    assert "There are no results of minatar/Freeway/d3" in told["D3 outperforms D2 in MinAtar-Freeway"].measured


def test_the_late_return_is_that_of_the_last_tenth(tmp_path):
    results = results_of(tmp_path)
    write_returns(results, "Breakout/d2-deep-q", [[9.0] * 18 + [1.0, 3.0], [9.0] * 18 + [NAN, 5.0]])
    write_returns(results, "Breakout/d3-deep-q", [[9.0] * 18 + [NAN, NAN]])
    np.testing.assert_array_equal(late_returns(results, results.studies["Breakout/d2-deep-q"]), [2.0, 5.0])
    with pytest.raises(MissingRuns, match="No episode ended late in a run of minatar/Breakout/d3-deep-q"):
        late_returns(results, results.studies["Breakout/d3-deep-q"])


def test_scores_in_points_stand_beside_clipped_returns(tmp_path):
    """Of the last tenth of the games: of 20 games the last two."""
    results = results_of(tmp_path)
    write_returns(results, "Breakout/differential-deep-q", [level(1.0)] * 2, scores=[4.0] * 18 + [10.0, 20.0])
    write_returns(results, "Breakout/d2-deep-q", [level(2.0)] * 2, scores=[40.0])
    told = claims(results)[0].measured
    assert "2 an episode against 1 (in points of the game, without clipping: 40 against 15): +1" in told


def test_files_from_before_scores_were_kept_are_read(tmp_path):
    results = results_of(tmp_path)
    write_returns(results, "Breakout/d2-deep-q", [level(2.0)])
    study = results.studies["Breakout/d2-deep-q"]
    path = results.path(study, study.tuned)
    polars.read_parquet(path).drop("final_scores").write_parquet(path)
    assert late_returns(results, study).tolist() == [2.0]
    assert late_scores(results, study) is None


def test_the_settings_of_the_tables_are_judged_in_every_game(tmp_path):
    told = tuning_claims(Results(tmp_path, ATARI))
    assert len(told) == 9 + 9
    assert {claim.verdict for claim in told} == {"not run"}
    assert told[9].says.startswith("in Breakout α = 2e-05, η = 10")


def test_a_short_run_says_how_much_of_it_is_late(tmp_path):
    for steps, window, words in ((200, 200, "over all 200 steps"), (1000, 300, "over the last 300 steps")):
        studies = [replace(study, steps=steps, window=window) for study in MINATAR]
        results = results_of(tmp_path / str(steps), studies)
        for rule in ("differential", "d2", "d3"):
            write_returns(results, f"Breakout/{rule}-deep-q", [level(1.0, steps // window)] * 2)
        assert claims(results)[0].measured.startswith(words)


def test_games_without_runs_are_left_out(tmp_path):
    results = results_of(tmp_path)
    with pytest.raises(MissingRuns, match="There are no results of minatar/Breakout/differential-deep-q"):
        found_by_game(results, late_returns)
    write_returns(results, "Freeway/d3-deep-q", [level(2.0)])
    ((game, found),) = found_by_game(results, late_returns).items()
    assert (game, [study.key for study, _ in found]) == ("Freeway", ["Freeway/d3-deep-q"])


@pytest.mark.parametrize("studies", [ATARI, MINATAR, MINATAR_TUNING], ids=["atari", "minatar", "minatar-tuning"])
def test_every_configuration_of_a_part_has_a_file_of_its_own(tmp_path, studies):
    results = Results(tmp_path, studies)
    paths = [results.path(study, setting) for study, setting in results.configurations()]
    assert len(set(paths)) == len(paths) == sum(len(study.settings) for study in studies)
    assert paths[0].relative_to(tmp_path).parts[:2] == ("Breakout", "differential-deep-q")


def test_random_play_is_known_of_every_game_that_is_studied():
    assert {study.world for study in (*ATARI, *MINATAR)} == set(RANDOM_PLAY)


def test_a_fresh_agent_plays_at_random():
    pytest.importorskip("torch")
    returns = perstep.DeepQ("perstep/MinAtar-Breakout-v0", replay_capacity=100).evaluate(10_000, seed=1).episode_returns
    error = returns.std() / math.sqrt(len(returns))
    assert abs(returns.mean() - RANDOM_PLAY["perstep/MinAtar-Breakout-v0"]) < 4 * error < 0.1
