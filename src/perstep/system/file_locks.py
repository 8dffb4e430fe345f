"""Locks on open files, which the system releases when their process ends, however it ends.

fcntl on Linux and macOS, msvcrt on Windows. Where there is neither, or the disk has no locks, a lock is granted without effect.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
from typing import IO, Any

# msvcrt has no shared locks, but it locks ranges of bytes, also beyond the end of a file: who shares takes one of these bytes,
# and who wants the file alone takes all of them.
FIRST_BYTE, SHARES = 1 << 30, 256
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # from some network disks


def try_lock(file: IO[str], *, exclusive: bool) -> bool:
    """Lock an open file for this process alone, or shared with others; False if another process holds a lock that excludes it.

    The lock lasts until the file is closed.
    """
    if (fcntl := _module("fcntl")) is not None:
        return _lock_whole_file(fcntl, file, exclusive)
    if (msvcrt := _module("msvcrt")) is not None:
        return _lock_bytes(msvcrt, file, exclusive)
    return True


def _module(name: str) -> Any:
    """A module of the standard library that not every system has; None where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _lock_whole_file(fcntl: Any, file: IO[str], exclusive: bool) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def _lock_bytes(msvcrt: Any, file: IO[str], exclusive: bool) -> bool:
    number = file.fileno()
    before = os.lseek(number, 0, os.SEEK_CUR)
    try:
        for first, size in [(FIRST_BYTE, SHARES)] if exclusive else [(FIRST_BYTE + i, 1) for i in range(SHARES)]:
            os.lseek(number, first, os.SEEK_SET)  # msvcrt locks from the current position on
            with contextlib.suppress(OSError):  # somebody else has one of these bytes
                msvcrt.locking(number, msvcrt.LK_NBLCK, size)
                return True
        return False
    finally:
        os.lseek(number, before, os.SEEK_SET)
