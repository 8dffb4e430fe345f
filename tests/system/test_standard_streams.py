"""Output without a reader, with and without select.poll, and in an encoding without Greek letters."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import IO

import pytest

from perstep.system.standard_streams import drop_output_without_reader, replace_unencodable_characters

BROKEN = BrokenPipeError(errno.EPIPE, "Broken pipe")


@contextlib.contextmanager
def no_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[str]]:
    """Standard output into a pipe that nobody reads, with text that could not be written."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
        stream.write("text")
        with pytest.raises(OSError, match="Broken pipe"):
            stream.flush()
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", io.StringIO())  # no file
        yield stream


@pytest.mark.parametrize("poll", [True, False], ids=["poll", "no poll"])
def test_what_nobody_reads_is_dropped(poll: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not poll:
        monkeypatch.delattr(select, "poll", raising=False)
    with no_reader(monkeypatch) as stream:
        assert drop_output_without_reader(BROKEN)
        stream.write("more")
        stream.flush()


@pytest.mark.parametrize("poll", [True, False], ids=["poll", "no poll"])
def test_another_pipe_broke(poll: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not poll:
        monkeypatch.delattr(select, "poll", raising=False)
    with open(os.devnull, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", None)
        assert not drop_output_without_reader(BROKEN)


def test_other_errors_are_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with no_reader(monkeypatch):
        assert not drop_output_without_reader(ValueError("no"))
        assert not drop_output_without_reader(FileNotFoundError(errno.ENOENT, "no"))
        assert drop_output_without_reader(OSError(errno.EINVAL, "Invalid argument"))  # what Windows says


@pytest.mark.parametrize(("encoding", "text"), [("cp1252", "? in the log"), ("utf-8", "ε in the log")])
def test_a_character_that_the_encoding_lacks_is_replaced(
    encoding: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    monkeypatch.setattr(sys, "stderr", None)
    replace_unencodable_characters()
    print("ε in the log", end="", flush=True)
    assert written.getvalue().decode(encoding) == text
