"""The one decorator of every compiled function: numba, cached on disk, without the interpreter's lock.

Numba decides whether a cached kernel is still good by the file of the *outermost* function alone, so an edited rule
would leave a stale loop behind. Here the folder of the cache carries a digest of all the package's sources instead.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config

Function = TypeVar("Function", bound=Callable[..., Any])


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if b"compiled" in (text := path.read_bytes()):
            digest.update(text)
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(chosen) if chosen else caches / "perstep") / f"kernels-{_sources_digest()}"


CACHE = _cache_folder()

# `_nrt=False`: no counting of references to arrays. Compiled code here writes to arrays that it is given and makes none, so
# there is nothing to count, and the counters, shared by all threads, would cost several times the work of a step.
OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """Compile `function` at its first call and keep the machine code on disk for the processes that follow.

    It may not make arrays (np.zeros, fancy indexing, whole-slice assignment), only read and write elements of those it is given.
    """
    before = config.CACHE_DIR
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        config.CACHE_DIR = str(CACHE)
        dispatcher = numba.njit(cache=True, **OPTIONS)(function)
    except (OSError, RuntimeError):  # nowhere to write, as in a read-only container: compile in every process
        dispatcher = numba.njit(**OPTIONS)(function)
    finally:
        config.CACHE_DIR = before
    return dispatcher  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compile `function` into its callers, as if written there: for the small steps that are handed whole tuples of arrays."""
    return numba.njit(inline="always", **OPTIONS)(function)  # type: ignore[no-any-return]


_announced: set[str] = set()


def announce(kernel: Callable[..., Any]) -> None:
    """Say on the terminal that `kernel` is about to compile, unless it already has: a silent wait looks like a hang."""
    if config.DISABLE_JIT or kernel.__name__ in _announced:
        return
    _announced.add(kernel.__name__)
    if not any(CACHE.rglob(f"*{kernel.__name__}-*.nbi")):
        print("perstep: compiling the kernels for this machine (once, about ten seconds)", file=sys.stderr, flush=True)
