"""One study at a time in a folder of results, and one training in the folder of a run.

A lock holds the folder. The system releases it when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from perstep.storage import remove_leftovers
from perstep.system.file_locks import try_lock

LOCK = ".lock"


class Busy(RuntimeError):
    """Another process works in the folder."""


@contextlib.contextmanager
def locked(folder: Path, share: str | None = None, *, subfolders: bool = True) -> Iterator[None]:
    """Lock the folder for this process alone, or only one `share` of its work while other processes have the others.

    What killed processes have left there is removed, if the folder is locked alone; with `subfolders`, below it too.
    """
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(_hold(folder / LOCK, exclusive=share is None))
            if share is not None:
                held.enter_context(_hold(folder / f"{LOCK}-{share}", exclusive=True))
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
def _hold(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Without locks on this system or disk, files are still published by rename: at worst, work is done twice."""
    with open(path, "a+", encoding="utf-8") as file:
        if not try_lock(file, exclusive=exclusive):
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise Busy(
                f"{path.parent} is in use: {holder} works on it. Wait until it ends, or choose another folder with --out."
            )
        if exclusive:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield
