"""Processors, with and without the calls that only some systems have."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from perstep.system import processors
from perstep.system.processors import processor_name, usable_cores


def test_cores_of_this_process_and_of_a_system_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_cores() >= 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {2, 3, 5}, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_name_of_the_processor_with_and_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert processor_name() == platform.machine()
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    assert processor_name() == "arm"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast Chip 9\n")
    assert processor_name() == "Fast Chip 9"


def test_a_study_and_agents_in_parallel_run_without_affinity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import dataclasses

    import perstep
    from perstep.paper.catalog import REDPILL
    from perstep.studies.execution import complete
    from perstep.studies.provenance import machine
    from perstep.studies.results import Results

    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    study = dataclasses.replace(REDPILL[0], grid={"step_size": (0.01,), "reward_ratio": (1.0,)}, num_runs=2, steps=100)
    assert complete(Results(tmp_path, [study]), progress=False).failures == ()
    (agent,) = perstep.learn_together([perstep.QLearning("perstep/RedPillBluePill-v0")], 10)
    assert agent.steps == 10
    assert machine()["cores"] == os.cpu_count()
