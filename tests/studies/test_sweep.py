"""A study of one's own: a file, one command, a table; and a sentence for every mistake before anything runs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import polars as pl
import pytest

from perstep.app.cli import main
from perstep.studies.results import Results
from perstep.studies.runs import load_code
from perstep.studies.study_file import read_study, studies_of
from perstep.studies.sweep import ranking_table

PLAIN = {
    "algorithm": "d2-q",
    "world": "perstep/RedPillBluePill-v0",
    "grid": {"step_size": [0.002, 0.02], "num_quantiles": [5]},
    "steps": 1000,
    "runs": 3,
}


def written(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_yaml_reads_numbers_as_people_write_them(tmp_path):
    path = written(
        tmp_path,
        """
        algorithm: d3-q          # or a list of them
        world: perstep/AccessControl-v0
        world_settings: {order: accept-first}
        grid:
          step_size: [2e-3, 1.5E-2, .5, {scale: 0.5, power: 0.8}]
          termination: [continue, mask]
        fixed: {epsilon: 1e-1, num_quantiles: 7}
        steps: 1e6
        seeds: [3, 1, 2]
        window: 1_000
        """,
    )
    (study,) = read_study(path).studies
    assert study.grid["step_size"] == (0.002, 0.015, 0.5, {"scale": 0.5, "power": 0.8})
    assert study.grid["termination"] == ("continue", "mask")
    assert (study.steps, study.window, study.num_runs, study.seeds) == (1_000_000, 1000, 3, [3, 1, 2])
    assert study.fixed == {"preset": "steady", "epsilon": 0.1, "num_quantiles": 7}
    assert study.world_settings == {"order": "accept-first"}
    assert len(study.settings) == 8
    assert json.loads(study.description(study.settings[-1]))["world_settings"] == {"order": "accept-first"}


def test_json_and_yaml_are_the_same_study(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(PLAIN))
    import yaml

    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(PLAIN))
    assert read_study(tmp_path / "mine.json") == read_study(tmp_path / "mine.yaml")


def test_the_example_of_the_documentation_is_a_study(tmp_path):
    page = (Path(__file__).parents[2] / "docs/how-to/sweeps.md").read_text(encoding="utf-8")
    studies = read_study(written(tmp_path, page.partition("```yaml")[2].partition("```")[0])).studies
    assert [(study.algorithm, len(study.settings)) for study in studies] == [("d2-q", 6), ("d3-q", 6)]


def test_what_is_not_said_has_a_default():
    _, (study,) = studies_of({name: PLAIN[name] for name in ("algorithm", "world", "grid", "steps")}, "mine")
    assert (study.num_runs, study.window, study.seeds[:2]) == (10, 10, [0, 1000])


def test_a_sweep_ends_with_a_table_the_best_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(PLAIN | {"algorithm": ["d2-q", "differential-q"], "runs": 5}))
    assert main(["sweep", str(path), "--out", str(tmp_path / "results")]) == 0
    told = capsys.readouterr().out
    assert "mine: 4 configurations, 20 runs, 20k steps" in told
    folder = tmp_path / "results" / "mine"
    table = pl.read_csv(folder / "ranking.csv")
    assert table["average_reward"].is_sorted(descending=True)
    assert table["runs"].to_list() == [5] * 4
    first = next(line for line in told.splitlines() if " best " in line)
    assert table["configuration"][0] in first
    assert f"{table['average_reward'][0]:.6g} ± {table['half_interval'][0]:.2g}" in first
    assert f"the best: {table['path'][0]}" in told
    every = pl.scan_parquet(folder / "**/*.parquet").collect()
    assert every.height == 20
    assert every["reward_rate"].list.len().to_list() == [100] * 20  # nobody knows the best yet, so all keep their curve
    mean = pl.read_parquet(table["path"][0])["average_reward"].mean()
    assert table["average_reward"][0] == pytest.approx(mean, abs=1e-12)
    assert main(["sweep", str(path), "--out", str(tmp_path / "results")]) == 0
    assert "everything is there" in capsys.readouterr().out


def test_shards_end_with_the_table_when_all_are_there(tmp_path, capsys):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(PLAIN))
    words = ["sweep", str(path), "--out", str(tmp_path), "--shard"]
    assert main([*words, "1/2"]) == 0
    assert "1 configurations of other shards are missing" in capsys.readouterr().out
    assert not (tmp_path / "mine" / "ranking.csv").exists()
    assert main([*words, "0/2"]) == 0
    assert "average reward over all steps" in capsys.readouterr().out
    record = json.loads((tmp_path / "mine" / "provenance.json").read_text())
    assert (record["runs"], record["sessions"]) == (6, 2)


def test_prediction_and_windows_that_do_not_divide(tmp_path):
    given = PLAIN | {"algorithm": "d2-td", "fixed": {"policy": [1, 1]}, "steps": 1050, "window": 100}
    (tmp_path / "always_blue.json").write_text(json.dumps(given))
    assert main(["sweep", str(tmp_path / "always_blue.json"), "--out", str(tmp_path)]) == 0
    study = read_study(tmp_path / "always_blue.json")
    ranked = ranking_table(Results(tmp_path / "always_blue", study.studies))
    assert ranked["average_reward"].is_between(-0.65, -0.55).all()  # the blue world pays −0.6
    assert ranked["average_reward"].n_unique() == 1  # the policy is given, so the step size changes nothing of it


CODE = """
    import gymnasium
    import numpy as np

    class Coin(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(1)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, float(action) + self.np_random.normal(), False, False, {}

    if "Coin-v0" not in gymnasium.registry:
        gymnasium.register("Coin-v0", Coin)

    STUDY = {"algorithm": "d2-q", "world": "Coin-v0", "grid": {"step_size": [0.1, 0.01]}, "steps": 200, "runs": 2}
"""


def test_a_python_file_may_bring_its_own_world(tmp_path, capsys):
    path = written(tmp_path, CODE, "coin.py")
    assert main(["sweep", str(path), "--out", str(tmp_path)]) == 0  # in processes that load the file as well
    assert "coin: 2 configurations, 4 runs" in capsys.readouterr().out
    runs = pl.scan_parquet(tmp_path / "coin" / "**/*.parquet").collect()
    assert runs["error"].null_count() == 4
    load_code.cache_clear()


MISTAKES = {
    "unknown key": ({"grids": {}}, "no key of a study 'grids'. Did you mean 'grid'?"),
    "unknown algorithm": ({"algorithm": "d2q"}, "no algorithm 'd2q'. Did you mean 'd2-q'?"),
    "unknown setting": ({"grid": {"step_sise": [0.1]}}, "'step_sise'. Did you mean 'step_size'?"),
    "unknown fixed setting": ({"fixed": {"epsilom": 0.1}}, "Did you mean 'epsilon'?"),
    "unknown world": ({"world": "perstep/RedPill-v0"}, "Did you mean 'perstep/RedPillBluePill-v0'?"),
    "world for others": ({"world": "CartPole-v1"}, "needs discrete observations"),
    "world settings": ({"world_settings": {"colour": 1}}, "colour"),
    "empty grid": ({"grid": {}}, "The grid is empty."),
    "no values": ({"grid": {"step_size": []}}, "no values for step_size"),
    "refused value": ({"grid": {"step_size": [0.1, -1]}}, "step_size must be a finite number above 0, got -1."),
    "both": ({"fixed": {"step_size": 0.1}}, "step_size is both in grid and in fixed"),
    "twice": ({"grid": {"step_size": [0.1, 0.1]}}, "step_size=0.1 occurs twice"),
    "algorithm twice": ({"algorithm": ["d2-q", "d2-q"]}, "d2-q is given twice"),
    "no algorithm": ({"algorithm": []}, "algorithm is empty"),
    "decay": ({"grid": {"step_size": [{"scale": 0.1, "pover": 1}]}}, "{scale: 0.5, power: 0.8}"),
    "seed": ({"fixed": {"seed": 3}}, "Give seeds, or runs"),
    "rule": ({"fixed": {"rule": "d3"}}, "rule is not a setting of a study"),
    "seeds": ({"seeds": 3}, "seeds must be a list of integers"),
    "seed twice": ({"seeds": [1, 1, 2]}, "A seed is given twice"),
    "seeds and runs": ({"seeds": [1, 2]}, "runs is 3, but there are 2 seeds"),
    "runs": ({"runs": 0}, "runs must be a whole number of at least 1, got 0."),
    "steps": ({"steps": 1.5}, "steps must be a whole number of at least 1, got 1.5."),
    "window": ({"window": 2000}, "window must be at most the number of steps, 1000, got 2000"),
    "fixed": ({"fixed": [1]}, "fixed must be a mapping"),
    "name": ({"name": "../up"}, "name of a study is the name of its folder"),
    "policy": ({"algorithm": "d2-td", "fixed": {"policy": "unifrm"}}, "policy must be 'uniform' or a list"),
}


@pytest.mark.parametrize(("change", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_sentence_before_anything_runs(tmp_path, capsys, change, words):
    (tmp_path / "mine.json").write_text(json.dumps(PLAIN | change))
    assert main(["sweep", str(tmp_path / "mine.json"), "--out", str(tmp_path / "results")]) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert told.out == ""
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "algorithm: [d2-q", "is not YAML"),
        ("a.yaml", "steps: 1\nsteps: 2", "The key 'steps' is given twice"),
        ("a.yaml", "- d2-q", "with keys such as algorithm"),
        ("a.yaml", "steps: !!python/object/apply:os.system ['touch /tmp/never']", "is not YAML"),
        ("a.yaml", "algorithm: d2-q", "A study needs world and grid and steps."),
        ("a.json", "{", "is not JSON"),
        ("a.json", '{"steps": 1, "steps": 2}', "The key 'steps' is given twice"),
        ("a.py", "STUDI = {}", "does not define STUDY"),
        ("a.toml", "", "A study must be a .yaml, .json or .py file"),
    ],
)
def test_a_file_that_is_no_study_is_refused(tmp_path, capsys, name, text, words):
    (tmp_path / name).write_text(text)
    assert main(["sweep", str(tmp_path / name), "--out", str(tmp_path / "results")]) == 2
    assert words in capsys.readouterr().err
    assert main(["sweep", str(tmp_path / "absent.yaml")]) == 2
    assert "There is no study file" in capsys.readouterr().err


def test_failed_runs_are_told_and_the_command_says_so(tmp_path, capsys):
    given = PLAIN | {"world": "troubled_worlds:Raises-v0", "steps": 100, "runs": 2, "grid": {"step_size": [0.1]}}
    (tmp_path / "mine.json").write_text(json.dumps(given))
    assert main(["sweep", str(tmp_path / "mine.json"), "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "1 of 2 runs: ArithmeticError: the world failed" in told
    assert "--retry-failed" in told
    assert "1, 1 failed" in told


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="Children are read from /proc.")
def test_the_processes_of_a_killed_study_end_with_it(tmp_path):
    given = PLAIN | {"world": "troubled_worlds:Calm-v0", "steps": 100_000_000, "window": 1_000_000}
    (tmp_path / "long.json").write_text(json.dumps(given))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-m", "perstep.app.cli", "sweep", str(tmp_path / "long.json"), "--out", str(tmp_path)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (workers := busy_children(process.pid)):
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    while any(os.path.exists(f"/proc/{worker}") for worker in workers):  # else a hang, which pytest shows
        time.sleep(0.02)


def busy_children(parent: int) -> list[str]:
    """Those that have worked for a second, and so are past their imports."""
    busy = []
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(OSError):
            user_ticks = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11])
            busy += [child] if user_ticks > os.sysconf("SC_CLK_TCK") else []
    return busy
