"""Memory, with and without /proc, control groups, sysconf, glibc and the resource module."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perstep.system import memory
from perstep.system.memory import available_memory, keep_freed_memory, peak_memory


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system without /proc and control groups; returns the folder where they would be found."""
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "PROCESS", tmp_path / "status")
    return tmp_path


@pytest.fixture
def fresh_allocator() -> Iterator[None]:
    keep_freed_memory.cache_clear()
    yield
    keep_freed_memory.cache_clear()


def test_available_memory_is_a_sensible_number() -> None:
    free = available_memory()
    assert free is None or 10_000_000 < free < 1e15


def test_a_container_counts_files_that_it_can_give_back(no_proc: Path) -> None:
    (no_proc / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    assert available_memory() == 8_192_000_000
    (no_proc / "memory.max").write_text("4000000000\n")
    (no_proc / "memory.current").write_text("3900000000\n")
    assert available_memory() == 100_000_000
    (no_proc / "memory.stat").write_text("anon 1000000000\ninactive_file 2500000000\nactive_file 400000000\n")
    assert available_memory() == 2_600_000_000
    (no_proc / "memory.max").write_text("max\n")
    assert available_memory() == 8_192_000_000


@pytest.mark.usefixtures("no_proc")
def test_without_proc_it_is_the_whole_machine_and_without_sysconf_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(os, "sysconf_names", sizes, raising=False)
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    assert available_memory() == 4_096_000
    monkeypatch.setattr(os, "sysconf_names", {})  # a Unix that does not tell
    assert available_memory() is None
    monkeypatch.delattr(os, "sysconf")  # Windows
    monkeypatch.delattr(os, "sysconf_names")
    assert available_memory() is None


@pytest.mark.usefixtures("no_proc")
def test_a_replay_is_made_where_memory_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from perstep.deep import replay

    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.setattr(replay, "ANNOUNCED", 1)
    assert replay.Replay(10, (3,), "float32", stacked=False, num_envs=1, batch_size=2).capacity == 10
    assert "GB available" not in capsys.readouterr().err


@pytest.mark.usefixtures("fresh_allocator")
@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_c_library_is_left_alone(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: Any) -> Any:
        raise error("no glibc")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert keep_freed_memory() is False


@pytest.mark.usefixtures("fresh_allocator")
def test_a_library_without_mallopt_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False


def test_peak_memory_with_and_without_proc_and_resource(no_proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "win32":
        peak = peak_memory()
        assert peak is not None
        assert 10_000_000 < peak < 1e13
    (no_proc / "status").write_text("Name:\tpython\nVmHWM:\t    2000 kB\n")
    assert peak_memory() == 2_048_000
    (no_proc / "status").unlink()
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory() is None
