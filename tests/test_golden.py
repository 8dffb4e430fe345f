"""Files of earlier versions load, say what they said, and learn on: one small agent of each family (tests/golden/make.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perstep
from golden.make import AGENTS, FOLDER, said

FACTS = json.loads((FOLDER / "facts.json").read_text(encoding="utf-8"))


def test_every_family_has_a_file() -> None:
    files = {path.stem for path in FOLDER.glob("*.safetensors")}
    assert files == AGENTS.keys() == FACTS.keys()
    assert {each["class"] for each in FACTS.values()} == {row.learner.agent for row in perstep.ALGORITHMS.values()}


@pytest.mark.parametrize("name", FACTS)
def test_a_file_of_an_earlier_version_loads_and_learns_on(name: str, tmp_path: Path) -> None:
    agent = perstep.load(FOLDER / f"{name}.safetensors")
    expected = FACTS[name]
    assert said(agent) == expected | {"average_reward": pytest.approx(expected["average_reward"], rel=1e-6)}
    agent.learn(20, progress=False).save(tmp_path / "again.safetensors")
    assert perstep.load(tmp_path / "again.safetensors").steps == expected["steps"] + 20
