"""Files: arrays and plain JSON in one safetensors file, or tables in Parquet, each with a checksum and published by rename.

Loading never executes code.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perstep.system.budget import claim
from perstep.system.folders import allocated, sync_folder

if TYPE_CHECKING:
    import polars

Arrays = dict[str, NDArray[Any]]

KEY = "perstep"  # the one entry in the header of a file: several would come in any order
CHECKSUM = "crc32"  # the first entry in the metadata: the checksum of everything
PARSED = 30  # bytes of memory per character of JSON, at most about
DRAFT = re.compile(r"\.perstep-[0-9a-f]{16}")  # folder of a file that is not yet published
MARK = b"perstep-crc32="  # in the footer of a table, before its checksum
NO_CHECKSUM = b"0" * 8
FULL = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}  # of a disk, or a quota


class BadFile(ValueError):
    """A file whose content is not what its name or its place says."""


class DiskFull(OSError):
    """A file that could not be written for want of space."""

    def __str__(self) -> str:
        return f"{self.filename} could not be written: {self.strerror}. Free some space, or choose another folder."


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file that could not be written because the disk is full.

    Libraries fail once more when they close such a file, with errors of any kind, as matplotlib with an AttributeError.
    """
    try:
        yield
    except Exception as error:
        first: BaseException | None = error
        while first is not None and getattr(first, "errno", None) not in FULL:
            first = first.__cause__ or first.__context__
        if not isinstance(first, OSError) or isinstance(first, DiskFull):
            raise
        raise DiskFull(first.errno, first.strerror or "no space is left", os.fspath(path)) from error


@contextlib.contextmanager
def published(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, and rename it to `path` at the end: a file that exists is complete, also after a crash.

    Where `path` is a symbolic link, the file that it points to is replaced.
    """
    if "\0" in os.fspath(path):
        raise ValueError(f"Expected the name of a file to write, got {os.fspath(path)!r}, which holds a NUL character.")
    target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
    if target.is_dir():
        raise IsADirectoryError(
            f"Expected the name of a file to write, got the folder {target}. Give the name of a file in it."
        )
    if target.exists() and not target.is_file():
        raise FileExistsError(
            f"{target} is a device, a pipe or a socket, which a file would replace. Give another name."
        )
    folder = target.parent / f".perstep-{secrets.token_hex(8)}"  # also for what libraries leave beside the file
    try:
        with writing(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            draft = folder / f"{target.name}.part"
            yield draft
            with open(draft, "rb+") as file:
                os.fsync(file.fileno())
            draft.chmod(0o666 & ~_umask())
            os.replace(draft, target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what `published` has left in a folder when its process was killed, and nothing else."""
    for leftover in folder.glob(".perstep-*"):
        if DRAFT.fullmatch(leftover.name) and leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Publish arrays, and metadata that JSON can hold, as one file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        text = json.dumps({CHECKSUM: NO_CHECKSUM.decode(), **metadata}, allow_nan=False)
    except ValueError as error:
        raise BadFile(f"{path} cannot hold NaN or infinite numbers beside its arrays: {error}.") from error
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with published(path) as draft:
        try:
            save_file(whole, draft, {KEY: text.replace(NO_CHECKSUM.decode(), _checksum(whole, text), 1)})
        except SafetensorError as error:  # safetensors raises it when the disk is full
            raise OSError(
                f"{path} could not be written: {error}. Free some space, or choose another folder."
            ) from error


def _checksum(arrays: Arrays, text: str) -> str:
    """The checksum of arrays and of metadata in which its own place is filled with zeros."""
    digest = zlib.crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), digest)
        digest = zlib.crc32(array.reshape(-1).view(np.uint8).data, digest)
    return f"{digest:08x}"


def size_on_disk(path: str | os.PathLike[str]) -> int:
    """Bytes of a file on the disk, without the holes of a sparse file; 0 if there is no such file."""
    try:
        return allocated(os.stat(path))
    except OSError:
        return 0


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata of a file written by `write`, without its arrays, which may be large."""
    return _read(path, None, with_arrays=False)[1]


def read(
    path: str | os.PathLike[str], accept: Callable[[dict[str, Any]], None] | None = None
) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and metadata of a file written by `write`; BadFile, with the reason, for any other file.

    `accept` sees the metadata before an array is read. It may raise BadFile.
    """
    return _read(path, accept, with_arrays=True)


def _read(
    path: str | os.PathLike[str], accept: Callable[[dict[str, Any]], None] | None, *, with_arrays: bool
) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    size = _size_of_file(file)
    claim(PARSED * _length_of_header(file, size), "the header of the file")
    arrays: Arrays = {}
    try:
        with safe_open(file, framework="numpy") as opened:
            header = opened.metadata() or {}
            metadata = json.loads(header[KEY]) if header.get(KEY) else None
            if not isinstance(metadata, dict):
                raise BadFile(
                    f"{file} is a safetensors file, but perstep did not write it: its metadata has no {KEY!r} entry. "
                    "Give another file."
                )
            checksum = str(metadata.pop(CHECKSUM, ""))
            if accept is not None:
                accept(metadata)
            if with_arrays:
                claim(size, "the content of the file")
                arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except BadFile:
        raise
    except (SafetensorError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(
            f"{file} is not a complete perstep file ({_diagnosis(file)}). Save the agent again, or use a backup of the file."
        ) from error
    if with_arrays and checksum != _checksum(arrays, header[KEY].replace(checksum, NO_CHECKSUM.decode(), 1)):
        raise BadFile(
            f"{file} is damaged: its content does not match its checksum. Use a backup of the file, or save the agent again."
        )
    return arrays, metadata


def _size_of_file(file: Path) -> int:
    """The size of a regular file: to open a pipe would wait for ever, and a device has no end."""
    try:
        status = file.stat()
    except (FileNotFoundError, ValueError):  # the second for a name with a NUL character
        raise FileNotFoundError(f"There is no file {file}. Check the path, or save the agent first.") from None
    if stat.S_ISDIR(status.st_mode):
        raise BadFile(f"Expected a .safetensors file, got the folder {file}. Give the file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise BadFile(f"Expected a regular file, got a pipe, a socket or a device: {file}. Copy it to a file first.")
    return status.st_size


def _length_of_header(file: Path, size: int) -> int:
    with open(file, "rb") as opened:
        return min(int.from_bytes(opened.read(8), "little"), size)


def write_table(path: str | os.PathLike[str], frame: polars.DataFrame) -> None:
    """Publish a table as a Parquet file with a checksum of all its bytes."""
    content = io.BytesIO()  # writing the bytes ourselves, so that a full disk raises an OSError with its errno
    frame.write_parquet(content, compression="zstd", compression_level=3, metadata={KEY: (MARK + NO_CHECKSUM).decode()})
    whole = content.getvalue()
    at = whole.rindex(MARK) + len(MARK)
    with published(path) as draft:
        draft.write_bytes(whole[:at] + f"{zlib.crc32(whole):08x}".encode() + whole[at + len(NO_CHECKSUM) :])


def read_table(path: str | os.PathLike[str]) -> polars.DataFrame:
    """The table in a Parquet file; BadFile if the file is damaged, as far as a table without a checksum tells.

    The path is that of one file: polars takes some characters of a path for a pattern.
    """
    import polars

    file = Path(path)
    claim(_size_of_file(file), "the content of the file")
    whole = file.read_bytes()
    if (at := whole.rfind(MARK)) >= 0:
        at += len(MARK)
        blank = whole[:at] + NO_CHECKSUM + whole[at + len(NO_CHECKSUM) :]
        if f"{zlib.crc32(blank):08x}".encode() != whole[at : at + len(NO_CHECKSUM)]:
            raise BadFile(f"{file} is damaged: its content does not match its checksum.")
    try:
        return polars.read_parquet(io.BytesIO(whole), use_pyarrow=False)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        raise BadFile(f"{file} is damaged, or no Parquet file: {' '.join(str(error).split())[:200]}.") from error


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
