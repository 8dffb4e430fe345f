"""Standard output and error: characters that they cannot encode, and pipes whose reader has gone."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import IO


def replace_unencodable_characters() -> None:
    """Let stdout and stderr print "?" for a character that their encoding lacks, such as ε in a log file on Windows."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        if isinstance(stream, io.TextIOWrapper) and not encoding.startswith("utf"):
            stream.reconfigure(errors="replace")


def drop_output_without_reader(error: Exception) -> bool:
    """Whether `error` arose because the reader of stdout or stderr has gone; all further output there is then dropped.

    This happens in `perstep list | head -1`. Other pipes may break too, such as those to worker processes. So a BrokenPipeError
    alone does not tell.
    """
    if not isinstance(error, BrokenPipeError) and getattr(error, "errno", None) != errno.EINVAL:  # EINVAL: Windows
        return False
    gone = [stream for stream in (sys.stdout, sys.stderr) if _has_no_reader(stream)]
    for stream in gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return bool(gone)


def _has_no_reader(stream: IO[str]) -> bool:
    try:
        number = stream.fileno()
    except (OSError, AttributeError):  # no file, as where tests capture what is printed
        return False
    if hasattr(select, "poll"):  # not on Windows
        poll = select.poll()
        poll.register(number, 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    try:
        stream.flush()  # what could not be written before is still there, and fails again
    except OSError:
        return True
    return False
