"""The memory of this machine: how much is available, and how the allocator keeps it."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

# Linux only
MACHINE, PROCESS, CGROUP = Path("/proc/meminfo"), Path("/proc/self/status"), Path("/sys/fs/cgroup")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # constants of malloc.h in glibc


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, in the machine and in its container. None if unknown, as on Windows.

    Where the system does not tell what is available, as macOS, it is the memory of the whole machine.
    """
    limits = [limit for limit in (_machine_memory(), *_container_memory()) if limit is not None]
    return min(limits, default=None)


def _machine_memory() -> int | None:
    try:
        fields = dict(line.split(":") for line in MACHINE.read_text().splitlines())
        return 1024 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:  # Unix
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _container_memory() -> list[int]:
    """Bytes left below the limit of the control group, in version 2 or 1; empty without a limit."""
    limits = []
    for limit, used, stat, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        try:
            left = int((CGROUP / limit).read_text()) - int((CGROUP / used).read_text())
        except (OSError, ValueError):  # no control group, or no limit ("max")
            continue
        limits.append(left + _file_cache(CGROUP / stat, cache))
    return limits


def _file_cache(stat: Path, name: str) -> int:
    """Bytes of cached files: a control group counts them as used, but frees them when memory is needed."""
    try:
        return int(dict(line.split() for line in stat.read_text().splitlines())[name])
    except (OSError, ValueError, KeyError):
        return 0


def peak_memory() -> int | None:
    """The most bytes that this process has held at once; None where the system does not tell, as on Windows."""
    try:
        fields = dict(line.split(":", 1) for line in PROCESS.read_text().splitlines())
        return 1024 * int(fields["VmHWM"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@functools.cache
def keep_freed_memory() -> bool:
    """Let the allocator keep the memory of one minibatch for the next one, which saves a tenth of the time of an update.

    This is an option of glibc. Returns whether the option was set; with another C library nothing happens.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS and musl have no mallopt; Windows has no CDLL(None)
        return False
    set_option(M_MMAP_THRESHOLD, 32 << 20)
    set_option(M_TRIM_THRESHOLD, 512 << 20)
    return True
