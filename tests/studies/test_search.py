"""Optuna over the grid of a study: finds what the whole grid would, resumes from the result files, runs nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import polars as pl
import pytest

from perstep.app.cli import main
from perstep.paper.report import report
from perstep.studies import search
from perstep.studies.study_file import Range, read_study

RED_PILL = {
    "algorithm": "d2-q",
    "world": "perstep/RedPillBluePill-v0",
    "grid": {"step_size": [2e-1, 2e-2, 2e-3, 2e-4], "epsilon": [0.05, 0.1, 0.4, 0.8], "termination": ["continue"]},
    "fixed": {"preset": "paper", "num_quantiles": 5},
    "steps": 20_000,
    "runs": 2,
}


@pytest.fixture
def study(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(RED_PILL))
    return tmp_path / "mine.json"


def searched(study, out, *words):
    return main(["sweep", str(study), "--out", str(out), "--search", "optuna", *words])


def stamps(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


def test_the_best_of_the_grid_is_found_with_fewer_runs_and_the_report_reads_it(tmp_path, study, capsys):
    assert main(["sweep", str(study), "--out", str(tmp_path / "all")]) == 0
    whole = pl.read_csv(tmp_path / "all" / "mine" / "ranking.csv")
    capsys.readouterr()
    assert searched(study, tmp_path / "some", "--trials", "10") == 0
    told = capsys.readouterr().out
    assert "Optuna runs 10 of 16 configurations with 2 runs each" in told
    some = pl.read_csv(tmp_path / "some" / "mine" / "ranking.csv")
    assert some.height == 10
    assert some["configuration"][0] == whole["configuration"][0]
    same = some.join(whole, on="configuration")
    assert (same["average_reward"] == same["average_reward_right"]).all()  # the same runs as those of the sweep
    assert "Best of 10" in report(tmp_path / "some").read_text(encoding="utf-8")
    before = stamps(tmp_path / "some")
    assert main(["sweep", str(study), "--out", str(tmp_path / "some")]) == 0  # the rest of the grid, and no more
    assert "ran 6 configurations" in capsys.readouterr().out
    assert before.items() <= stamps(tmp_path / "some").items()


def test_a_search_goes_on_from_the_files_and_ends_when_all_was_tried(tmp_path, study, capsys):
    assert searched(study, tmp_path / "twice", "--trials", "5") == 0
    before = stamps(tmp_path / "twice")
    assert len(before) == 5
    capsys.readouterr()
    assert searched(study, tmp_path / "twice", "--trials", "9") == 0
    told = capsys.readouterr().out
    assert told.count("(its results were there already)") == 5
    assert "9 trials with 8 new runs" in told
    assert before.items() <= stamps(tmp_path / "twice").items()
    assert searched(study, tmp_path / "once", "--trials", "9") == 0
    names = [{path.name for path in stamps(tmp_path / folder)} for folder in ("once", "twice")]
    assert names[0] == names[1]
    capsys.readouterr()
    assert searched(study, tmp_path / "twice", "--trials", "100") == 0
    assert "all configurations were run: 16" in capsys.readouterr().out


def test_killed_at_any_moment_it_loses_no_trial_and_runs_none_twice(tmp_path, study):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-m", "perstep.app.cli", "sweep", str(study), "--out", str(tmp_path / "killed")]
    words += ["--search", "optuna", "--trials", "8"]
    seen = {}
    for kept in (1, 3):
        with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as process:
            while len(stamps(tmp_path / "killed")) < kept and process.poll() is None:
                time.sleep(0.01)
            process.kill()
        assert seen.items() <= stamps(tmp_path / "killed").items()
        seen = stamps(tmp_path / "killed")
    assert searched(study, tmp_path / "killed", "--trials", "8") == 0
    assert seen.items() <= stamps(tmp_path / "killed").items()
    assert searched(study, tmp_path / "calm", "--trials", "8") == 0
    files = [sorted((path.name, path.read_bytes()) for path in stamps(tmp_path / name)) for name in ("killed", "calm")]
    assert files[0] == files[1]


def test_ranges_and_several_algorithms(tmp_path, capsys):
    grid = {"step_size": {"low": 1e-4, "high": 1e-1, "log": True}, "num_quantiles": {"low": 3, "high": 6}}
    given = RED_PILL | {"grid": grid, "fixed": {"preset": "paper"}, "algorithm": ["d2-q", "d3-q"]}
    path = tmp_path / "wide.json"
    path.write_text(json.dumps(given))
    assert read_study(path).ranges == {
        "step_size": Range(low=1e-4, high=1e-1, log=True),
        "num_quantiles": Range(low=3, high=6),
    }
    assert searched(path, tmp_path, "--trials", "6") == 0
    runs = pl.scan_parquet(tmp_path / "wide" / "**/*.parquet").collect()
    settings = [json.loads(text)["settings"] for text in runs["description"]]
    assert len(settings) == 12
    assert all(1e-4 <= each["step_size"] <= 1e-1 and each["num_quantiles"] in (3, 4, 5, 6) for each in settings)
    assert all(float(f"{each['step_size']:.4g}") == each["step_size"] for each in settings)
    assert {json.loads(text)["algorithm"] for text in runs["description"]} == {"d2-q", "d3-q"}
    assert pl.read_csv(tmp_path / "wide" / "ranking.csv").height == 6
    capsys.readouterr()
    assert main(["sweep", str(path), "--out", str(tmp_path)]) == 2
    assert "step_size is a range, which has no end of values. Give --search optuna" in capsys.readouterr().err


def test_a_range_of_few_whole_numbers_ends(tmp_path, capsys):
    given = RED_PILL | {"grid": {"num_quantiles": {"low": 2, "high": 4}}, "fixed": {}, "steps": 100}
    (tmp_path / "few.json").write_text(json.dumps(given))
    assert searched(tmp_path / "few.json", tmp_path) == 0
    assert "Optuna proposes no new configuration any more: 3" in capsys.readouterr().out


def test_failed_trials_are_told_and_the_others_go_on(tmp_path, capsys):
    given = RED_PILL | {"world": "troubled_worlds:Raises-v0", "steps": 100, "runs": 2}
    given |= {"grid": {"step_size": [0.1, 0.2]}, "fixed": {}}
    (tmp_path / "mine.json").write_text(json.dumps(given))
    assert searched(tmp_path / "mine.json", tmp_path) == 1
    told = capsys.readouterr().out
    assert "1 of 2 runs: ArithmeticError: the world failed" in told
    assert "all configurations were run: 2" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--trials", "5"], "--trials is the length of a search. Give --search optuna as well."),
        (["--search", "optuna", "--shard", "0/2"], "it cannot be split. Give --search or --shard."),
        (["--search", "optuna", "--trials", "0"], "--trials must be a whole number of at least 1, got 0."),
        (["--search", "hyperopt"], "optuna"),
    ],
)
def test_flags_that_do_not_belong_together(tmp_path, study, capsys, words, sentence):
    assert main(["sweep", str(study), "--out", str(tmp_path / "results"), *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"low": 0.1}, "A range must have the form {low: 1e-4, high: 1e-1, log: true}, got step_size"),
        ({"low": 0.1, "high": 0.2, "logg": True}, "A range must have the form"),
        ({"low": 0.2, "high": 0.1}, "step_size: low of a range must be below high, got low 0.2 and high 0.1."),
        ({"low": "a", "high": 0.1}, "must be finite numbers, got 'a' and 0.1."),
        ({"low": 0, "high": 0.1, "log": True}, "A range with log: true must begin above 0, got low 0."),
        ({"low": 0.1, "high": 0.2, "log": 1}, "log of a range must be true or false, got 1."),
        ({"low": -1.0, "high": 0.1}, "step_size must be a finite number above 0, got -1.0."),
    ],
)
def test_a_wrong_range_is_a_sentence(tmp_path, capsys, given, sentence):
    (tmp_path / "mine.json").write_text(json.dumps(RED_PILL | {"grid": {"step_size": given}}))
    assert searched(tmp_path / "mine.json", tmp_path / "results") == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_without_optuna_the_extra_is_named(tmp_path, study):
    block = "import sys; sys.modules['optuna'] = None; from perstep.app.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", block, "sweep", str(study), "--out", str(tmp_path / "results"), "--search", "optuna"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "perstep: This needs optuna, which is not installed: pip install 'perstep[search]'\n"


def test_numbers_are_neighbours_and_words_are_not():
    assert search.Axis.of((0.2, 0.02, 0.1), None).values == (0.02, 0.1, 0.2)
    assert search.Axis.of(("mask", "continue"), None).values == ("mask", "continue")
    assert search.Axis.of((), Range(low=0.1, high=0.2)).value(0.123456789) == 0.1235
    assert search.Axis.of((), Range(low=0.10001, high=0.2)).value(0.10001) == 0.10001
