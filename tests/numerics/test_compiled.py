"""Machine code: its folder changes with every source that it may come from, and it does not depend on which caller is first."""

from __future__ import annotations

from pathlib import Path

import pytest

import perstep
from perstep.numerics import compiled


def test_machine_code_is_of_all_sources(monkeypatch, tmp_path):
    """Numba itself looks at the outermost function's file alone: a loop would keep an old rule."""
    assert Path(perstep.__file__).parent == compiled.PACKAGE
    (tmp_path / "rules").mkdir()
    for folder, text in (("", "compiled"), ("rules", "compiled")):
        (tmp_path / folder / "a.py").write_text(text)
    monkeypatch.setattr(compiled, "PACKAGE", tmp_path)
    before = compiled._sources_digest()
    (tmp_path / "rules" / "a.py").write_text("compiled anew")
    assert compiled._sources_digest() != before


@pytest.mark.parametrize(
    ("inside", "around", "is_merged"), [("compiled", "merged", False), ("merged", "compiled", True)]
)
def test_who_calls_first_does_not_matter(monkeypatch, tmp_path, inside, around, is_merged):
    """Numba's options are inherited by functions that are compiled on the way: they would be merged into all their callers or into
    none, by which agent was the first on a machine."""
    monkeypatch.setattr(compiled, "CACHE", tmp_path)
    inner = getattr(compiled, inside)(lambda x: 2.0 * x)
    assert getattr(compiled, around)(lambda x: inner(inner(x)))(3.0) == 12.0
    assert [code.fndesc.inline for code in inner.overloads.values()] == [is_merged]
