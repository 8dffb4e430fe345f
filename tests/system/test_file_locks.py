"""File locks with fcntl, with a stand-in for msvcrt, and where there is neither."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perstep.studies.folder_lock import LOCK, Busy, locked
from perstep.system.file_locks import try_lock


class ByteLocks:
    """Locks as those of Windows: on ranges of bytes, held by an open file until it is closed."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, set[int]]] = {}  # open file → which file it is, and its bytes

    def locking(self, number: int, mode: int, size: int) -> None:
        assert mode == self.LK_NBLCK
        first, identity = os.lseek(number, 0, os.SEEK_CUR), os.fstat(number).st_ino
        wanted = set(range(first, first + size))
        for other, (held, taken) in self.held.items():
            if other != number and held == identity == open_file(other) and wanted & taken:
                raise PermissionError(errno.EACCES, "Permission denied")
        self.held[number] = identity, wanted


def open_file(number: int) -> int | None:
    """Which file is open under a number, if any."""
    try:
        return os.fstat(number).st_ino
    except OSError:
        return None


@pytest.fixture
def no_fcntl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails


@pytest.fixture
def byte_locks(no_fcntl: None, monkeypatch: pytest.MonkeyPatch) -> ByteLocks:
    made = ByteLocks()
    monkeypatch.setitem(sys.modules, "msvcrt", made)  # type: ignore[arg-type]
    return made


def use_folder_twice(folder: Path) -> None:
    with locked(folder):
        with pytest.raises(Busy, match=rf"is in use: process {os.getpid()} on"), locked(folder):
            pass
        with pytest.raises(Busy), locked(folder, "0-of-2"):
            pass
    with locked(folder, "0-of-2"), locked(folder, "1-of-2"):  # shards work in parallel
        with pytest.raises(Busy), locked(folder, "1-of-2"):
            pass
        with pytest.raises(Busy), locked(folder):
            pass
    with locked(folder):
        assert (folder / LOCK).read_text().startswith(f"process {os.getpid()} on")


def test_with_fcntl(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    use_folder_twice(tmp_path)


@pytest.mark.usefixtures("byte_locks")
def test_with_the_locks_of_windows(tmp_path: Path) -> None:
    use_folder_twice(tmp_path)


@pytest.mark.usefixtures("byte_locks")
def test_a_byte_lock_leaves_the_position_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("some text")
    with open(tmp_path / "a", "a+", encoding="utf-8") as file:
        assert try_lock(file, exclusive=True)
        file.seek(0)
        assert file.read() == "some text"


@pytest.mark.usefixtures("no_fcntl")
def test_without_any_locks_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with locked(tmp_path), locked(tmp_path), locked(tmp_path, "0-of-2"):
        assert (tmp_path / LOCK).exists()


def test_a_disk_without_locks_is_used_and_another_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> Any:
        def flock(file: Any, mode: int) -> None:
            raise OSError(number, os.strerror(number))

        return SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_SH=1, LOCK_NB=4)

    monkeypatch.setitem(sys.modules, "fcntl", refuse(errno.ENOLCK))
    with locked(tmp_path):
        pass
    monkeypatch.setitem(sys.modules, "fcntl", refuse(errno.EIO))
    with pytest.raises(OSError, match="Nothing can be written in"), locked(tmp_path):
        pass
