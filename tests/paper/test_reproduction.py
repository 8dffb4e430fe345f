"""One command: runs, figures, claims, and a sentence for what cannot be asked for."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from perstep.app import command_flags
from perstep.inputs.errors import UnknownName
from perstep.paper import catalog, reproduction
from perstep.paper import parts as paper
from perstep.paper.parts import PARTS, belongs, studies_in
from perstep.studies.results import MissingRuns, Results
from perstep.studies.runs import run_unit
from perstep.studies.study_command import StudyOptions

FIGURES = {"figure_2", "figure_3", "figure_c2", "figure_c2_d2", "figure_c2_d3", "figure_c3", "figure_c4", "figure_best"}


def test_a_whole_part_and_once_more(tmp_path, capsys, monkeypatch):
    assert reproduction.reproduce(["redpill"], "smoke", tmp_path) == 0
    told = capsys.readouterr().out
    folder = tmp_path / "redpill" / "smoke"
    assert "175 configurations, 350 runs, 70k steps" in told
    assert "ran 175 configurations" in told
    assert told.count("does not hold") >= 1  # 200 steps are not enough to learn
    for name in FIGURES:
        for suffix in ("png", "pdf", "svg"):
            path = folder / "figures" / f"{name}.{suffix}"
            assert path.stat().st_size > 2000
        assert f"{folder / 'figures' / name}.png (pdf, svg)" in told
    picture = (folder / "figures" / "figure_2.png").read_bytes()
    claims = json.loads((folder / "claims.json").read_text())
    assert {claim["verdict"] for claim in claims} <= {"holds", "does not hold"}
    assert [claim["figure"] for claim in claims if claim["where"] in ("Fig. 2c", "Fig. C.4")] == [
        "figure_2",
        "figure_c4",
    ]
    provenance = json.loads((folder / "provenance.json").read_text())
    assert (provenance["runs"], provenance["sessions"], provenance["engine"]) == (350, 1, "local")
    assert {"python", "numpy", "numba", "perstep"} <= provenance["versions"].keys()
    every = pl.scan_parquet(folder / "**/*.parquet").collect()  # the line of the documentation
    assert every.height == 350

    one = dataclasses.replace(PARTS["redpill"], figures={"figure_2": PARTS["redpill"].figures["figure_2"]})
    monkeypatch.setitem(paper.PARTS, "redpill", one)  # to draw all once more would only take time
    monkeypatch.setattr(paper, "BY_DEFAULT", ("redpill",))
    assert reproduction.reproduce([], "smoke", tmp_path) == 0
    assert "everything is there; nothing had to run" in capsys.readouterr().out
    assert json.loads((folder / "provenance.json").read_text()) == provenance  # nothing ran, so it tells of what did
    assert picture == (folder / "figures" / "figure_2.png").read_bytes()


def test_a_failure_is_told_and_all_else_is_drawn(tmp_path, capsys, monkeypatch):
    differential, *others = catalog.REDPILL
    broken = dataclasses.replace(differential, fixed={"epsilon": 2.0})
    few = [
        dataclasses.replace(other, grid={name: values[-2:] for name, values in other.grid.items()}) for other in others
    ]
    figures = {name: PARTS["redpill"].figures[name] for name in ("figure_3", "figure_c2_d2")}
    part = dataclasses.replace(PARTS["redpill"], studies=[broken, *few], figures=figures)
    monkeypatch.setitem(paper.PARTS, "redpill", part)
    assert reproduction.reproduce(["redpill"], "smoke", tmp_path) == 1
    told = capsys.readouterr().out
    assert "epsilon must be a finite number between 0 and 1, got 2.0." in told
    assert "--retry-failed" in told
    assert "figure_3 is not drawn. All runs of redpill/differential-q" in told
    verdicts = [claim["verdict"] for claim in json.loads((tmp_path / "redpill/smoke/claims.json").read_text())]
    assert verdicts.count("not run") >= 6  # all that have to do with differential, and what `few` leaves out
    assert told.count("not run") == verdicts.count("not run")
    assert (tmp_path / "redpill/smoke/figures/figure_c2_d2.png").exists()


def test_none_named_are_those_that_take_minutes(monkeypatch, tmp_path):
    assert set(paper.BY_DEFAULT) == {"redpill", "pendulum", "theory"}
    ran = []
    monkeypatch.setattr(reproduction, "_reproduce_part", lambda name, *_: bool(ran.append(name)))
    monkeypatch.setattr(reproduction, "report", lambda out: out)
    assert reproduction.reproduce([], "smoke", tmp_path) == 0
    assert ran == ["redpill", "pendulum", "theory"]


def test_the_help_names_every_part():
    source = inspect.getsource(command_flags.ReproduceFlags)
    assert all(re.search(rf"\b{name}\b", source) for name in PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_a_figure_says_what_it_shows_of_studies_that_exist(name):
    known = {study.algorithm for study in PARTS[name].studies}
    for figure in PARTS[name].figures.values():
        assert all(figure.caption)
        assert set(figure.shows) <= known


def test_tuned_only_runs_what_the_figures_show(tmp_path, capsys):
    assert reproduction.reproduce(["redpill"], "smoke", tmp_path, StudyOptions(tuned_only=True)) == 0
    told, folder = capsys.readouterr().out, tmp_path / "redpill" / "smoke"
    assert "redpill: 5 configurations, 10 runs, 2k steps" in told  # three are tuned, two are traced
    drawn = {path.stem for path in (folder / "figures").iterdir()}
    assert drawn == {"figure_2", "figure_3", "figure_c3", "figure_c4"}
    assert "figure_c2 is not drawn. There are no results of redpill/differential-q" in told
    verdicts = {claim["says"]: claim["verdict"] for claim in json.loads((folder / "claims.json").read_text())}
    assert [verdict for says, verdict in verdicts.items() if "is the best of" in says] == ["not run"] * 3
    assert list(verdicts.values()).count("not run") == 3
    whole = Results(folder, [study.at(catalog.SCALES["smoke"]) for study in catalog.REDPILL])
    assert (
        sum(whole.find(*each) is not None for each in whole.configurations()) == 5
    )  # the whole grid takes them as they are


def test_the_pendulum_is_confirmed_by_the_engine_that_runs_it(tmp_path, capsys, monkeypatch):
    few = [
        dataclasses.replace(
            study, grid={name: tuple({value, study.grid[name][0]}) for name, value in study.tuned.items()}
        )
        for study in catalog.PENDULUM
    ]
    monkeypatch.setitem(paper.PARTS, "pendulum", dataclasses.replace(PARTS["pendulum"], studies=few, figures={}))
    parts = []

    class Counting(Here):
        def work(self, units):
            parts.append({(Path(unit.folder).name, unit.study.key) for unit in units})
            return super().work(units)

    assert reproduction.reproduce(["pendulum"], "smoke", tmp_path, StudyOptions(engine=Counting())) == 0
    told, folder = capsys.readouterr().out, tmp_path / "pendulum" / "smoke"
    assert {name for name, _ in parts[0]} == {"smoke"}
    assert {name for name, _ in parts[1]} == {"confirmation"}
    assert "pendulum, confirmation: " in told
    confirmed = [path.parent.name for path in (folder / "confirmation").rglob("*.parquet")]
    assert set(confirmed) == {key for _, key in parts[1]}
    assert json.loads((folder / "confirmation/provenance.json").read_text())["runs"] == 20 * len(confirmed)
    claims = json.loads((folder / "claims.json").read_text())
    assert sum("in 20 runs with other seeds" in claim["measured"] for claim in claims) == len(confirmed) / 2
    assert "not run" not in {claim["verdict"] for claim in claims}
    assert reproduction.reproduce(["pendulum"], "smoke", tmp_path, StudyOptions(engine=Counting())) == 0
    assert len(parts) == 2  # nothing ran again


class Here:
    """An engine that runs everything in this process, which has loaded PyTorch."""

    name = "here"

    def work(self, units):
        return ((unit, run_unit(unit)) for unit in units)


@pytest.mark.parametrize(
    ("name", "part"), [("minatar", "minatar"), ("minatar-tuning", "minatar-tuning"), ("atari", "atari/Breakout")]
)
def test_games_go_through_with_a_folder_each(tmp_path, capsys, monkeypatch, name, part):
    for library in ("torch", "minatar", "ale_py"):
        pytest.importorskip(library, reason="The [deep] extra is not installed.")
    small = {"replay_capacity": 200, "device": "cpu"}
    studies = [study for study in PARTS[name].studies if belongs(study.part, part) and study.rule.name != "d3"]
    few = [
        dataclasses.replace(study, num_runs=1, own_seeds=(500,), fixed={**study.fixed, **small}) for study in studies
    ]
    monkeypatch.setitem(paper.PARTS, name, dataclasses.replace(PARTS[name], studies=few, claims=lambda _: []))
    assert (
        reproduction.reproduce([name], "smoke", tmp_path, StudyOptions(engine=Here(), tuned_only=name == "atari")) == 0
    )
    told, folder = capsys.readouterr().out, tmp_path / name / "smoke"
    files = [path.relative_to(folder).parts[:-1] for path in folder.rglob("*.parquet")]
    assert set(files) == {(study.game, study.algorithm) for study in few}
    assert len(files) == (2 if name == "atari" else sum(len(study.settings) for study in few))
    every = pl.read_parquet(folder / "Breakout/**/*.parquet")
    assert every["error"].null_count() == every.height
    assert every["episode_return"].null_count() == 0
    if name != "minatar-tuning":
        assert (folder / "figures" / "figure_4.png").exists()
        assert "figure_late_returns is not drawn." in told
        assert len(list((folder / "tables").iterdir())) == 6
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"perstep reproduce {name} --scale smoke" in page


MISSING = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from perstep.app.cli import main
sys.exit(main(["reproduce", "redpill", sys.argv[2], "--scale", "smoke", "--out", sys.argv[3]]))
"""


@pytest.mark.parametrize(("library", "part"), [("torch", "minatar"), ("minatar", "minatar"), ("ale_py", "atari")])
def test_without_its_library_a_part_is_refused_before_anything_runs(tmp_path, library, part):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", MISSING, library, part, str(tmp_path / "results")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("perstep: ")
    assert "pip install 'perstep[deep]'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_a_wrong_name_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match=r"no part of the paper 'redpil'\. Did you mean 'redpill'"):
        reproduction.reproduce(["redpil"], "smoke", tmp_path)
    with pytest.raises(UnknownName, match=r"no scale 'papper'\. Did you mean 'paper'"):
        reproduction.reproduce(["redpill"], "papper", tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_tuned_only_left_out_is_said(tmp_path: Path) -> None:
    study = next(iter(studies_in("redpill")))
    other = next(setting for setting in study.settings if setting not in (study.tuned, study.traced))
    for tuned_only, words in ((True, "leave out --tuned-only"), (False, f"in {tmp_path}.")):
        with pytest.raises(MissingRuns, match=rf"There are no results of {study.name} with .*{words}"):
            Results(tmp_path, [study], tuned_only=tuned_only).runs(study, other)
