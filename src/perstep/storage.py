"""Files: arrays and plain JSON in one safetensors file, published by rename. Loading never executes code."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

KEY = "perstep"


class BadFile(ValueError):
    """A file that is not what it should be."""


@contextlib.contextmanager
def published(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to it at the end: a file that exists is complete, also after a crash."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, but a file is to be written. Give the name of a file in it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
        draft.chmod(0o666 & ~_umask())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what processes that were killed while they wrote have left in a folder: ours, and that of safetensors."""
    for name in (".*.part", ".tmp??????"):
        for draft in folder.glob(name):
            if draft.is_file():
                draft.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Publish arrays and JSON-able metadata as one file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(metadata, allow_nan=False)
    with published(path) as draft:
        try:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, draft, {KEY: text})
        except SafetensorError as error:  # its word for a full disk
            raise OSError(f"{path} could not be written: {error}. Make room, or choose another place.") from error


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """As `read`, without the arrays, which may be large."""
    return _read(path, with_arrays=False)[1]


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and metadata of a file written by `write`; anything else is refused with a reason."""
    return _read(path, with_arrays=True)


def _read(path: str | os.PathLike[str], *, with_arrays: bool) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"There is no file {file}. Was the agent saved somewhere else?")
    if file.is_dir():
        raise BadFile(f"{file} is a folder. Give the .safetensors file in it.")
    try:
        with safe_open(file, framework="numpy") as opened:
            text = (opened.metadata() or {}).get(KEY)
            names = opened.keys() if text and with_arrays else []
            arrays = {name: opened.get_tensor(name) for name in names}
        metadata = json.loads(text) if text else None
    except (SafetensorError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(
            f"{file} is not a whole perstep file ({_diagnosis(file)}). Save it again, or use a copy."
        ) from error
    if not isinstance(metadata, dict):
        raise BadFile(f"{file} is a safetensors file, but not one of perstep. It has no {KEY!r} entry in its metadata.")
    return arrays, metadata


def _diagnosis(file: Path) -> str:
    with open(file, "rb") as opened:
        head = opened.read(16)
    if not head:
        return "it is empty"
    if len(head) >= 8 and 2 <= int.from_bytes(head[:8], "little") < 100_000_000 and head[8:9] == b"{":
        return "it looks cut off or damaged"
    if head[:1] == b"\x80":
        return "it looks like a pickle, which perstep never loads since loading one can run any code"
    if head[:2] == b"PK":
        return "it looks like a zip archive, perhaps of PyTorch or Stable-Baselines3"
    return "it has no safetensors header"
