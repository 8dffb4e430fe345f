"""Folders on the disk: that a file has its name there also after a power failure."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk. Without effect where a folder cannot be opened, as on Windows."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def allocated(status: os.stat_result) -> int:
    """Bytes that a file takes on the disk, at most its size: less for a sparse file. Its size where the system does not tell."""
    blocks = getattr(status, "st_blocks", None)  # not on Windows
    return status.st_size if blocks is None else min(status.st_size, 512 * blocks)
