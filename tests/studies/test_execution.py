"""A study runs everything, once, whatever happens in between, and leaves whole files."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from perstep.agent.making import make_agent
from perstep.paper.catalog import REDPILL, SCALES
from perstep.studies.execution import complete
from perstep.studies.results import SCHEMA, MissingRuns, Results
from perstep.studies.runs import TRACE_POINTS, run

SMOKE = [study.at(SCALES["smoke"]) for study in REDPILL]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    results = Results(tmp_path_factory.mktemp("smoke"), SMOKE)
    tally = complete(results, progress=False)
    assert (tally.found, tally.made, tally.failures) == (0, 175, ())
    return results


def few(rule: int = 2, **changes):
    """A study of four configurations, one of them tuned and one traced."""
    study = SMOKE[rule]
    grid = {"step_size": (2e-4, 2e-2), "reward_ratio": (2.0,), "num_quantiles": (10, 51)}
    return dataclasses.replace(study, grid=grid, **changes)


def contents(results):
    return {path.relative_to(results.folder): pl.read_parquet(path) for path in results.folder.rglob("*.parquet")}


def assert_same(one, other):
    one, other = contents(one), contents(other)
    assert one.keys() == other.keys()
    for name, frame in one.items():
        assert frame.equals(other[name]), name


def test_every_entry_of_the_catalog_leaves_a_whole_file(smoke):
    assert len(list(smoke.folder.rglob("*.parquet"))) == 175
    for study in SMOKE:
        for setting in study.settings:
            frame = smoke.runs(study, setting)
            assert dict(frame.schema) == SCHEMA
            assert frame["seed"].to_list() == [0, 1000]
            assert frame["average_reward"].is_between(-1.3, 0.0).all()
            kept = frame.null_count().row(0, named=True)
            assert kept["reward_rate"] == 0
            assert kept["episode_return"] == frame.height  # nothing ends here
            assert (kept["reward_quantile_trace"] == 0) == (setting == study.traced)
            assert (kept["return_quantile_trace"] == 0) == (setting == study.traced and study.rule.has_return_quantiles)
    assert sum(path.stat().st_size for path in smoke.folder.rglob("*.parquet")) < 2_000_000


def test_a_row_says_what_the_agent_did():
    study = few(window=10, steps=400)
    setting = study.traced
    row = run(study.world, study, setting, seed=1000)
    agent = make_agent("d3-q", study.world, epsilon=0.1, seed=1000, **setting, preset="paper").record_every(10)
    agent.learn(200).learn(200)
    assert row["average_reward"] == pytest.approx(agent.history.reward_rate.mean(), abs=1e-15)
    assert row["reward_quantiles"] == agent.reward_quantiles.tolist()
    assert row["reward_quantile_trace"][-1] == agent.reward_quantiles.tolist()
    assert row["return_quantile_trace"][-1] == agent.return_quantiles(1, 1).tolist()
    assert row["trace_steps"] == list(range(0, 401, 400 // TRACE_POINTS))
    assert row["greedy_actions"] == [agent.predict(0)[0], agent.predict(1)[0]]
    tuned = run(study.world, study, study.tuned, seed=0)
    assert len(tuned["reward_rate"]) == 40
    assert np.mean(tuned["reward_rate"]) == tuned["average_reward"]


def test_settings_that_are_not_tuned_keep_a_coarse_curve():
    study = few(window=1, steps=1000)
    fine = run(study.world, dataclasses.replace(study, tuned=study.traced), study.traced, seed=0)["reward_rate"]
    coarse = run(study.world, study, study.traced, seed=0)["reward_rate"]
    assert (len(fine), len(coarse)) == (1000, 100)
    np.testing.assert_allclose(coarse, np.reshape(fine, (100, 10)).mean(axis=1))


def test_what_is_there_is_not_run_again(smoke):
    before = {path: path.stat().st_mtime_ns for path in smoke.folder.rglob("*.parquet")}
    tally = complete(smoke, progress=False)
    assert (tally.found, tally.made, tally.steps) == (175, 0, 0)
    assert before == {path: path.stat().st_mtime_ns for path in smoke.folder.rglob("*.parquet")}


def test_threads_change_nothing(tmp_path):
    one, two = Results(tmp_path / "1", [few()]), Results(tmp_path / "2", [few()])
    complete(one, threads=1)
    complete(two, threads=2)
    assert_same(one, two)


def test_damage_and_leftovers_are_done_again(tmp_path):
    whole, harmed = Results(tmp_path / "whole", [few()]), Results(tmp_path / "harmed", [few()])
    complete(whole)
    complete(harmed)
    study = few()
    first, second, third, fourth = (harmed.path(study, setting) for setting in study.settings)
    first.write_bytes(first.read_bytes()[:-100])  # cut off
    second.write_bytes(b"")
    pl.DataFrame({"seed": [0, 1000]}).write_parquet(third)  # another schema
    fourth.with_name(f".{fourth.name}.abc.part").write_bytes(b"half a file")
    tally = complete(harmed)
    assert (tally.found, tally.made) == (1, 3)
    assert_same(whole, harmed)


@pytest.mark.parametrize("change", [{"steps": 300}, {"num_runs": 3}, {"fixed": {"epsilon": 0.2}}])
def test_results_of_another_study_are_not_taken_for_ours(tmp_path, change):
    complete(Results(tmp_path, [few()]))
    assert complete(Results(tmp_path, [few(**change)])).made == 4


def test_a_failure_is_recorded_and_the_rest_goes_on(tmp_path):
    study = dataclasses.replace(SMOKE[0], grid={"step_size": (2e-3, -1.0, 2e-2), "reward_ratio": (2.0,)})
    results = Results(tmp_path, [study])
    tally = complete(results)
    (failure,) = tally.failures
    bad = {"step_size": -1.0, "reward_ratio": 2.0}
    assert failure.path == results.path(study, bad)
    assert failure.error == "ValueError: step_size must be a finite number above 0, got -1.0."
    assert results.find(study, bad)["error"].null_count() == 0
    assert results.runs(study, study.tuned).height == 2
    with pytest.raises(
        MissingRuns, match=r"All runs of redpill/differential-q with step_size=-1,reward_ratio=2 failed"
    ):
        results.runs(study, bad)

    again = complete(results)
    assert (again.found, again.made, again.failures) == (3, 0, tally.failures)
    retried = complete(results, retry_failed=True)
    assert (retried.found, retried.made, retried.failures) == (2, 1, tally.failures)


def test_runs_that_are_not_there_are_named(tmp_path):
    with pytest.raises(MissingRuns, match=r"no results of redpill/d3-q with step_size=0\.0002"):
        Results(tmp_path, [few()]).runs(few(), few().traced)


KILLED = """
import dataclasses, sys
from perstep.paper.catalog import REDPILL
from perstep.studies.execution import complete
from perstep.studies.results import Results
grid = {"step_size": (2e-4, 2e-3, 2e-2), "reward_ratio": (1.0, 2.0, 10.0), "num_quantiles": (10, 51)}
study = dataclasses.replace(REDPILL[2], grid=grid, num_runs=4, steps=int(sys.argv[2]))
complete(Results(sys.argv[1], [study]), threads=1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="There is no SIGKILL.")
def test_after_a_kill_the_same_command_goes_on(tmp_path):
    grid = {"step_size": (2e-4, 2e-3, 2e-2), "reward_ratio": (1.0, 2.0, 10.0), "num_quantiles": (10, 51)}
    study = dataclasses.replace(REDPILL[2], grid=grid, num_runs=4, steps=40_000)
    killed, whole = Results(tmp_path / "killed", [study]), Results(tmp_path / "whole", [study])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", KILLED, str(killed.folder), str(study.steps)]
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(published(killed.folder)) < 3:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    done = len(published(killed.folder))
    assert 3 <= done < 18  # so that there was something to lose
    tally = complete(killed)
    assert (tally.found, tally.made) == (done, 18 - done)
    complete(whole)
    assert_same(killed, whole)


def published(folder: Path) -> list[Path]:
    return list(folder.rglob("*.parquet"))
