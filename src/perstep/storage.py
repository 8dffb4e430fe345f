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
    """A file whose content is not what its name or its place promises."""


@contextlib.contextmanager
def published(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, and rename it to `path` at the end: a file that exists is complete, also after a crash."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(
            f"Expected the name of a file to write, got the folder {target}. Give the name of a file in it."
        )
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


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in a folder that killed processes have left: those of `published`, and those of safetensors."""
    for name in (".*.part", ".tmp??????"):
        for leftover in folder.glob(name):
            if leftover.is_file():
                leftover.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Publish arrays, and metadata that JSON can hold, as one file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(metadata, allow_nan=False)
    with published(path) as draft:
        try:
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, draft, {KEY: text})
        except SafetensorError as error:  # safetensors raises it when the disk is full
            raise OSError(
                f"{path} could not be written: {error}. Free some space, or choose another folder."
            ) from error


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata of a file written by `write`, without its arrays, which may be large."""
    return _read(path, with_arrays=False)[1]


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and metadata of a file written by `write`; BadFile, with the reason, for any other file."""
    return _read(path, with_arrays=True)


def _read(path: str | os.PathLike[str], *, with_arrays: bool) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"There is no file {file}. Check the path, or save the agent first.")
    if file.is_dir():
        raise BadFile(f"Expected a .safetensors file, got the folder {file}. Give the file in it.")
    try:
        with safe_open(file, framework="numpy") as opened:
            text = (opened.metadata() or {}).get(KEY)
            names = opened.keys() if text and with_arrays else []
            arrays = {name: opened.get_tensor(name) for name in names}
        metadata = json.loads(text) if text else None
    except (SafetensorError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(
            f"{file} is not a complete perstep file ({_diagnosis(file)}). Save the agent again, or use a backup of the file."
        ) from error
    if not isinstance(metadata, dict):
        raise BadFile(
            f"{file} is a safetensors file, but perstep did not write it: its metadata has no {KEY!r} entry. Give another file."
        )
    return arrays, metadata


def _diagnosis(file: Path) -> str:
    with open(file, "rb") as opened:
        head = opened.read(16)
    if not head:
        return "it is empty"
    if len(head) >= 8 and 2 <= int.from_bytes(head[:8], "little") < 100_000_000 and head[8:9] == b"{":
        return "it looks truncated or damaged"
    if head[:1] == b"\x80":
        return "it looks like a pickle, which perstep never loads, because loading a pickle can execute any code"
    if head[:2] == b"PK":
        return "it looks like a zip archive, perhaps of PyTorch or Stable-Baselines3"
    return "it has no safetensors header"
