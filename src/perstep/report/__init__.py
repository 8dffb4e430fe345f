"""Results as one page: claims of the paper with their verdicts, figures, sensitivity, timing, provenance; no network needed.

It reads the files that `perstep reproduce` leaves and nothing else, so that a page can be made anywhere, at any time.
"""

from __future__ import annotations

from pathlib import Path

from perstep.report.page import page
from perstep.report.reading import read_results
from perstep.storage import published

__all__ = ["report"]

NAME = "report.html"


def report(results: Path, out: Path | None = None) -> Path:
    """Write the page of all parts and scales in `results`, to `out` or to report.html in it; returns where it is."""
    folder = Path(results)
    target = folder / NAME if out is None else Path(out)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder. Give the name of the page to write, as {target / NAME}.")
    text = page(read_results(folder), folder)
    with published(target) as draft:
        draft.write_text(text, encoding="utf-8")
    return target
