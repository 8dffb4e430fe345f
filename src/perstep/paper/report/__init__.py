"""Results as one HTML page: claims with verdicts, figures, sensitivity, timing and provenance. It needs no network.

The page is made from the files that `perstep reproduce` writes and from nothing else, so it can be made anywhere, at any time.
"""

from __future__ import annotations

from pathlib import Path

from perstep.files.storage import published
from perstep.paper.report.page import page
from perstep.paper.report.reading import read_results

__all__ = ["report"]

NAME = "report.html"


def report(results: Path, out: Path | None = None) -> Path:
    """Write the page of all parts and scales in `results`, to `out` or to report.html in that folder. Returns its path."""
    folder = Path(results)
    target = folder / NAME if out is None else Path(out)
    if target.is_dir():
        raise IsADirectoryError(
            f"{target} is a folder. Give the name of the page to write, for example {target / NAME}."
        )
    text = page(read_results(folder), folder)
    with published(target) as draft:
        draft.write_text(text, encoding="utf-8")
    return target
