"""Read a results folder: claims, figures, provenance and the numbers of every run."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image

from perstep.files.storage import read_table
from perstep.paper import catalog
from perstep.paper.claims.claim import VERDICTS, Claim
from perstep.paper.parts import PARTS
from perstep.paper.report.sensitivity import Sensitivity, sensitivities
from perstep.paper.report.titles import figures
from perstep.studies.results import CONFIRMATION

SCALES = tuple(reversed(catalog.SCALES))
"""Names of the scales, the fullest first."""
CLAIMS, PROVENANCE, FIGURES = "claims.json", "provenance.json", "figures"
RUNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "world": pl.String,
    "algorithm": pl.String,
    "settings": pl.String,  # as JSON
    "steps": pl.Int64,
    "seed": pl.Int64,
    "average_reward": pl.Float64,
    "error": pl.String,
    "path": pl.String,
}
COLUMNS = {"description", "seed", "error", "average_reward"}
MAX_PICTURE_WIDTH = 1600  # pixels: sharp at the width of the page on a high-resolution screen
COLOURS = 128  # per picture: reduces its size to a third without a visible difference in a drawing


@dataclass(frozen=True)
class Picture:
    """A figure as a data URI, which the page can contain."""

    name: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class PartResults:
    """The results of one part at one scale."""

    part: str
    scale: str
    claims: tuple[Claim, ...]
    pictures: tuple[Picture, ...]
    provenance: Mapping[str, Any]
    sensitivities: tuple[Sensitivity, ...]
    runs: int
    steps: int
    """Steps of all successful runs."""
    failures: tuple[tuple[str, str], ...]
    """File and error of each failed run."""
    problems: tuple[str, ...]
    """Files that could not be read, with the reason."""


def read_results(folder: Path) -> list[PartResults]:
    """All parts and scales in a folder, in the order of the paper; of each part the fullest scale first."""
    if not folder.is_dir():
        is_file = "is not a folder" if folder.exists() else "does not exist"
        raise NotADirectoryError(f"{folder} {is_file}. Give the folder that `perstep reproduce … --out` wrote into.")
    found = sorted(set(_results_in(folder)), key=_place)
    if not found:
        above = next((up for up in folder.resolve().parents if _is_results(up, folder)), None)
        make = f"To make some: perstep reproduce --scale smoke --out {folder}"
        hint = f"The folder of all results is {above}." if above else make
        raise FileNotFoundError(f"{folder} holds no results, such as redpill/paper/claims.json. {hint}")
    return [_read_part(folder, part, scale) for part, scale in found]


def _results_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Part and scale of every folder with results. The scale of a user's own study is empty."""
    marks = (CLAIMS, PROVENANCE, f"{FIGURES}/*.png", f"{FIGURES}/*.svg", "*/*.parquet", "*/*/*.parquet")
    for depth in ("*", "*/*", "*/*/*"):
        for mark in marks:
            for path in folder.glob(f"{depth}/{mark}"):
                inside = path.parents[mark.count("/")].relative_to(folder)
                if inside.name in SCALES and len(inside.parts) > 1:
                    yield inside.parent.as_posix(), inside.name
                elif len(inside.parts) == 1 and inside.name not in SCALES and not mark.endswith(".parquet"):
                    yield inside.name, ""


def _is_results(above: Path, folder: Path) -> bool:
    """Whether `folder` is the folder of a part or of a scale within the results folder `above`."""
    inside = folder.resolve().relative_to(above).parts
    return inside[0] in PARTS and (len(inside) == 1 or inside[-1] in SCALES)


def _place(found: tuple[str, str]) -> tuple[int, str, int]:
    """Sort key: the order of the paper, then the fullest scale first. Users' own studies come last."""
    part, scale = found
    parts, scales = list(PARTS), list(SCALES)
    of = part.partition("/")[0]
    return (
        parts.index(of) if of in parts else len(parts),
        part,
        scales.index(scale) if scale in scales else len(scales),
    )


def _read_part(folder: Path, part: str, scale: str) -> PartResults:
    here = folder / part / scale
    problems: list[str] = []
    runs = _runs(here, problems)
    good = runs.filter(pl.col("error").is_null())
    return PartResults(
        part=part,
        scale=scale,
        claims=tuple(_claims(here / CLAIMS, problems)),
        pictures=tuple(_pictures(here / FIGURES, list(figures(part)), problems)),
        provenance=_json(here / PROVENANCE, dict, problems) or {},
        sensitivities=tuple(sensitivities(part, good, here)),
        runs=len(runs),
        steps=int(good["steps"].sum()),
        failures=tuple(runs.filter(pl.col("error").is_not_null()).select("path", "error").rows()),
        problems=tuple(problems),
    )


def _json(path: Path, kind: type, problems: list[str]) -> Any:
    """The content of a JSON file. None if it is missing or damaged; damage is added to `problems`."""
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        problems.append(f"{path} cannot be read: {error}")
        return None
    if not isinstance(content, kind):
        problems.append(f"{path} should hold a {kind.__name__}, but it holds a {type(content).__name__}.")
        return None
    return content


def _claims(path: Path, problems: list[str]) -> Iterator[Claim]:
    rows = _json(path, list, problems) or []
    for row in rows:
        if not isinstance(row, dict) or row.get("verdict") not in list(VERDICTS):  # it may be unhashable
            problems.append(
                f"{path} holds a claim without one of the verdicts {', '.join(VERDICTS)}: {json.dumps(row)[:200]}"
            )
            continue
        yield Claim.from_json(row)


def _pictures(folder: Path, order: list[str], problems: list[str]) -> Iterator[Picture]:
    """One picture per name, from the PNG file or else from the SVG file. First in the given order, then all others by name."""
    names = {path.stem for path in folder.glob("*") if path.suffix in (".png", ".svg")}
    places = {name: place for place, name in enumerate(order)}
    for name in sorted(names, key=lambda name: (places.get(name, len(order)), name)):
        png = folder / f"{name}.png"
        try:
            if png.exists():
                yield Picture(name, uri("image/png", _lighter(png)))
            else:
                yield Picture(name, uri("image/svg+xml", (folder / f"{name}.svg").read_bytes()))
        except (OSError, ValueError, SyntaxError) as error:  # Pillow raises these for damaged files
            problems.append(f"{folder / name} cannot be read: {error}")


def uri(kind: str, data: bytes) -> str:
    """The source of an <img> element. There even an SVG file cannot run scripts or load other files."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _lighter(path: Path) -> bytes:
    """The picture with fewer colours and no more pixels than the page can show, if that makes the file smaller."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    if picture.width > MAX_PICTURE_WIDTH:
        picture = picture.resize((MAX_PICTURE_WIDTH, round(picture.height * MAX_PICTURE_WIDTH / picture.width)))
    made = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return min(made.getvalue(), path.read_bytes(), key=len)


def _runs(folder: Path, problems: list[str]) -> pl.DataFrame:
    """One row per run: world, algorithm, settings, steps, seed, average reward or error, and file. No confirmation runs."""
    frames = [pl.DataFrame(schema=RUNS)]
    for path in sorted(folder.rglob("*.parquet")):
        if CONFIRMATION in path.relative_to(folder).parts:
            continue
        try:
            if not set((frame := read_table(path)).columns) >= COLUMNS:  # a table of measurements, not of runs
                continue
            about = [_about(text) for text in frame["description"]]
            rows = zip(about, frame["seed"], frame["average_reward"], frame["error"], strict=True)
            name = str(path.relative_to(folder))
            frames.append(pl.DataFrame([(*what, *rest, name) for what, *rest in rows], schema=RUNS, orient="row"))
        except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path} cannot be read: {error}")
    return pl.concat(frames)


def _about(description: str) -> tuple[str, str, str, int]:
    """World, algorithm, settings as JSON, and steps of a run."""
    about = json.loads(description)
    return str(about["world"]), str(about["algorithm"]), json.dumps(about["settings"]), int(about["steps"])
