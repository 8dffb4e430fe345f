"""Who may work in a folder of results: one alone, or several on shares of the work; a killed process holds nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perstep.files.folder_lock import LOCK, Busy, locked

HOLD = """
import sys, time
from pathlib import Path
from perstep.files.folder_lock import locked
with locked(Path(sys.argv[1]), sys.argv[2] or None):
    print("held", flush=True)
    time.sleep(600)
"""


def test_alone_or_in_shares(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(Busy, match=rf"is in use: process {os.getpid()} on"), locked(tmp_path):
            pass
        with pytest.raises(Busy), locked(tmp_path, "0-of-2"):
            pass
    with locked(tmp_path, "0-of-2"), locked(tmp_path, "1-of-2"):  # shards work in parallel
        with pytest.raises(Busy), locked(tmp_path, "1-of-2"):
            pass
        with pytest.raises(Busy, match=rf"is in use: process {os.getpid()} on"), locked(tmp_path):
            pass
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text().startswith(f" process {os.getpid()} on")


@pytest.mark.parametrize("share", ["", "0-of-2"])
def test_a_killed_process_holds_nothing(tmp_path: Path, share: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path), share], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=rf"is in use: process {other.pid} on"), locked(tmp_path):
            pass
    finally:
        other.kill()
        other.communicate()
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(("number", "granted"), [(errno.ENOLCK, True), (errno.ENOSYS, True), (errno.EIO, False)])
def test_a_disk_without_locks_is_used_and_another_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, granted: bool
) -> None:
    def refuse(descriptor: int, *, blocking: bool) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("perstep.files.folder_lock.lock_descriptor", refuse)
    if granted:
        with locked(tmp_path), locked(tmp_path), locked(tmp_path, "0-of-2"):
            assert (tmp_path / LOCK).exists()
    else:
        with pytest.raises(OSError, match="Nothing can be written in"), locked(tmp_path):
            pass
