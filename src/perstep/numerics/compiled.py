"""The decorators of compiled functions: numba, with a cache on disk and without the global interpreter lock.

To decide whether a cached kernel is valid, numba looks only at the file of the *outermost* function. After an edit of a rule, an
old loop would still be used. So the name of the cache folder contains a digest of all sources of the package.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba
import numpy as np
from numba import config

PACKAGE = Path(__file__).parents[1]

Function = TypeVar("Function", bound=Callable[..., Any])
Whole = int | np.int64
"""A whole number in compiled code, where the two are one type."""


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        if b"compiled" in (text := path.read_bytes()):
            digest.update(text)
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    checked = (
        "-checked" if config.BOUNDSCHECK else ""
    )  # NUMBA_BOUNDSCHECK=1, as in `make test-bounds`: other machine code
    return (Path(chosen) if chosen else caches / "perstep") / f"kernels-{_sources_digest()}{checked}"


CACHE = _cache_folder()

# `_nrt=False`: no reference counts for arrays. Compiled code here writes to given arrays and creates none, so there is nothing
# to count. The counters are shared by all threads, and would take several times as long as a step.
# `forceinline=False`: an option that is not given is inherited from the function that happens to be the first to call this one, so
# that speed would depend on which agent was compiled first on a machine.
# `no_cfunc_wrapper=True`: nothing here is called from C, and wrappers for it are a tenth of the time of compilation.
OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": False, "no_cfunc_wrapper": True}


def compiled(function: Function, **options: Any) -> Function:
    """Compile `function` at its first call, and keep the machine code on disk for later processes.

    The function must not create arrays (np.zeros, fancy indexing, assignment to a slice). It may only read and write elements of
    its arguments. `options` are more of numba's.
    """
    options = OPTIONS | options
    before = config.CACHE_DIR
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        config.CACHE_DIR = str(CACHE)
        dispatcher = numba.njit(cache=True, **options)(function)
        _recover_from_damage(dispatcher)
    except (OSError, RuntimeError):  # no writable folder, as in a read-only container: compile in every process
        dispatcher = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = before
    return dispatcher


def _recover_from_damage(dispatcher: Any) -> None:
    """Let a function whose cached code was cut off, as by a full disk, be compiled again. Numba would fail in every process."""
    cache: Any = getattr(dispatcher, "_cache", None)
    if not hasattr(cache, "load_overload"):  # compilation is switched off
        return
    load = cache.load_overload

    def load_or_flush(*signature: Any) -> Any:
        try:
            return load(*signature)
        except Exception:  # unpickling what is left of a file may raise anything
            cache.flush()
            return None

    cache.load_overload = load_or_flush


def copied(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """A compiled copy of a function in which some global names mean something else. It has a name of its own, by which its machine
    code is found on disk again."""
    name = "_".join([function.__name__, *(getattr(value, "__name__", str(value)) for value in names.values())])
    copy = FunctionType(function.__code__, {**function.__globals__, **names}, name, function.__defaults__)
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, name, function.__doc__
    return compiled(copy)


def merged(function: Function) -> Function:
    """Compile `function` once, and merge its machine code into that of its callers: for the large functions that several loops have
    in common, and for what every step calls several times. Inlined, they would be compiled again with every loop, and that takes
    time with the square of their size."""
    return compiled(function, forceinline=True)


def inlined(function: Function) -> Function:
    """Compile `function` into its callers, as if it were written there: for small functions with tuples of arrays as arguments."""
    return numba.njit(inline="always", **OPTIONS)(function)


_announced: set[str] = set()


def announce(kernel: Callable[..., Any]) -> None:
    """Print that `kernel` is about to be compiled, unless it is in the cache: a silent wait looks like a hang."""
    if config.DISABLE_JIT or kernel.__name__ in _announced:
        return
    _announced.add(kernel.__name__)
    if not any(CACHE.rglob(f"*{kernel.__name__}-*.nbi")):
        print(
            "perstep: compiling an algorithm for this machine (once, 10 seconds to a minute)",
            file=sys.stderr,
            flush=True,
        )
