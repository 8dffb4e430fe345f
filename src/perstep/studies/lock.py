"""One study at a time in a folder: a lock that the system itself releases when its holder ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from perstep.storage import sweep

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"


class Busy(RuntimeError):
    """Another process works in the folder."""


@contextlib.contextmanager
def locked(folder: Path, share: str | None = None) -> Iterator[None]:
    """The folder, for this process alone; or for this `share` of its work alone, while others have theirs."""
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(_hold(folder / LOCK, alone=share is None))
            if share is not None:
                held.enter_context(_hold(folder / f"{LOCK}-{share}", alone=True))
        except OSError as error:
            reason = error.strerror or error
            raise type(error)(
                error.errno, f"Nothing can be written in {folder}: {reason}. Choose another folder with --out"
            ) from error
        if share is None:
            for within in (folder, *filter(Path.is_dir, folder.rglob("*"))):
                sweep(within)
        yield


@contextlib.contextmanager
def _hold(path: Path, *, alone: bool) -> Iterator[None]:
    with open(path, "a+", encoding="utf-8") as file:
        _take(file, path, alone=alone)
        if alone:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield


def _take(file: IO[str], path: Path, *, alone: bool) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        who = file.read().strip() or "another process"
        raise Busy(
            f"{path.parent} is in use: {who} works on it. Wait until it ends, or choose another folder with --out."
        ) from None
    except (
        OSError
    ) as error:  # some network disks know no locks: files are published by rename, so at worst work is done twice
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
