"""The folder of machine code changes with every source that it may come from."""

from __future__ import annotations

from pathlib import Path

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
