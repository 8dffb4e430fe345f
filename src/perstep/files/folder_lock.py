"""One study at a time in a folder of results, and one training in the folder of a run.

A lock on an open file holds the folder. The system releases it when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

from perstep.files.storage import remove_leftovers

LOCK = ".lock"
PATIENCE = 2.0  # seconds for another share to begin: it holds the folder for a moment
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # from systems without locks, and from some network disks


class Busy(RuntimeError):
    """Another process works in the folder."""


@contextlib.contextmanager
def locked(folder: Path, share: str | None = None, *, subfolders: bool = True) -> Iterator[None]:
    """Lock the folder for this process alone, or only one `share` of its work while other processes have the others.

    Who begins a share holds the folder for that moment; who wants the folder alone keeps it, and needs every share to be free.
    What killed processes have left there is removed, if the folder is locked alone; with `subfolders`, below it too.
    """
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if share is None:
                held.enter_context(_hold(folder / LOCK))
                for other in folder.glob(f"{LOCK}-*"):
                    with _hold(other):
                        pass
            else:
                with _hold(folder / LOCK, PATIENCE):
                    held.enter_context(_hold(folder / f"{LOCK}-{share}"))
        except OSError as error:
            reason = error.strerror or error
            raise type(error)(
                error.errno, f"Nothing can be written in {folder}: {reason}. Choose another folder with --out"
            ) from error
        if share is None:
            for within in (folder, *(filter(Path.is_dir, folder.rglob("*")) if subfolders else ())):
                remove_leftovers(within)
        yield


@contextlib.contextmanager
def _hold(path: Path, patience: float = 0.0) -> Iterator[None]:
    """Lock a file, which says who holds it. The lock ends when the file is closed."""
    end = time.monotonic() + patience
    with open(path, "a+", encoding="utf-8") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() >= end:
                file.seek(1)  # Windows locks the first byte, also for readers
                holder = file.read().strip() or "another process"
                raise Busy(
                    f"{path.parent} is in use: {holder} works on it. Wait until it ends, or choose another folder with --out."
                )
            time.sleep(0.05)
        file.truncate(0)
        file.write(f" process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def _try_lock(descriptor: int) -> bool:
    """Without locks on this system or disk, files are still published by rename: at worst, work is done twice."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return True
