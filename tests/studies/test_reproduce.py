"""One command: runs, figures, claims, and a sentence for what cannot be asked for."""

from __future__ import annotations

import dataclasses
import json

import polars as pl
import pytest

from perstep.errors import UnknownName
from perstep.studies import catalog, reproduce
from perstep.studies.reproduce import PARTS

FIGURES = {"figure_2", "figure_3", "figure_c2", "figure_c2_d2", "figure_c2_d3", "figure_c3", "figure_c4"}


def test_a_whole_part_and_once_more(tmp_path, capsys, monkeypatch):
    assert reproduce.reproduce(["redpill"], "smoke", tmp_path) == 0
    told = capsys.readouterr().out
    folder = tmp_path / "redpill" / "smoke"
    assert "175 configurations, 350 runs, 70k steps" in told
    assert "ran 175 configurations" in told
    assert told.count("does not hold") >= 1  # 200 steps are not enough to learn
    for name in FIGURES:
        for suffix in ("png", "pdf"):
            path = folder / "figures" / f"{name}.{suffix}"
            assert path.stat().st_size > 2000
            assert path.name in told
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
    monkeypatch.setitem(reproduce.PARTS, "redpill", one)  # to draw all once more would only take time
    for other in set(PARTS) - {"redpill"}:
        monkeypatch.delitem(reproduce.PARTS, other)
    assert reproduce.reproduce([], "smoke", tmp_path) == 0  # none named: all there are
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
    monkeypatch.setitem(reproduce.PARTS, "redpill", part)
    assert reproduce.reproduce(["redpill"], "smoke", tmp_path) == 1
    told = capsys.readouterr().out
    assert "epsilon must be a finite number between 0 and 1, but 2.0 came." in told
    assert "--retry-failed" in told
    assert "figure_3 is not drawn. All runs of redpill/differential-q" in told
    verdicts = [claim["verdict"] for claim in json.loads((tmp_path / "redpill/smoke/claims.json").read_text())]
    assert verdicts.count("not run") >= 6  # all that have to do with differential, and what `few` leaves out
    assert told.count("not run") == verdicts.count("not run")
    assert (tmp_path / "redpill/smoke/figures/figure_c2_d2.png").exists()


@pytest.mark.parametrize("part", ["minatar", "atari"])
def test_a_part_that_is_not_built_is_refused(tmp_path, part):
    with pytest.raises(ValueError, match=f"The part '{part}' of the paper is not built yet; there is redpill"):
        reproduce.reproduce(["redpill", part], "smoke", tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_wrong_name_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match=r"no part of the paper 'redpil'\. Did you mean 'redpill'"):
        reproduce.reproduce(["redpil"], "smoke", tmp_path)
    with pytest.raises(UnknownName, match=r"no scale 'papper'\. Did you mean 'paper'"):
        reproduce.reproduce(["redpill"], "papper", tmp_path)
    assert not any(tmp_path.iterdir())
