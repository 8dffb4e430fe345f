"""The processors of this machine: how many this process may use, and their model."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")  # Linux only


def usable_cores() -> int:
    """Number of processors that this process may use; all processors of the machine where the system has no affinity."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """Model of the processor; only its architecture where the system does not tell more."""
    with contextlib.suppress(OSError), open(CPU_INFO, encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
