"""What is found in a results folder: claims, figures, provenance and the numbers of every run, as plain values."""

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

from perstep.report.paper import PARTS, SCALES, captions
from perstep.report.sensitivity import Sensitivity, sensitivities
from perstep.studies.results import CONFIRMATION

VERDICTS = ("holds", "does not hold", "not run")
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
MAX_PICTURE_WIDTH = 1600  # pixels: sharp on a good screen at the width of the page
COLOURS = 128  # of a picture: a third of its size, and no difference to the eye in a drawing


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, and what came of it."""

    where: str
    says: str
    verdict: str
    measured: str = ""
    tolerance: str = ""
    figure: str = ""
    """Its name without folder and suffix; empty if there is none."""


@dataclass(frozen=True)
class Picture:
    """A figure, ready to be part of the page."""

    name: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class PartResults:
    """All that is there of one part at one scale."""

    part: str
    scale: str
    claims: tuple[Claim, ...]
    pictures: tuple[Picture, ...]
    provenance: Mapping[str, Any]
    sensitivities: tuple[Sensitivity, ...]
    runs: int
    steps: int
    """Taken by all runs that ended well."""
    failures: tuple[tuple[str, str], ...]
    """Of each run that failed, its file and error."""
    problems: tuple[str, ...]
    """What could not be read."""


def read_results(folder: Path) -> list[PartResults]:
    """All parts and scales in a folder, in the paper's order, the fullest scale of a part first."""
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
    """Part and scale of every folder with results; a study of a user's own has no scale."""
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
    """Whether `folder` is that of a part or of a scale in the results `above` it."""
    inside = folder.resolve().relative_to(above).parts
    return inside[0] in PARTS and (len(inside) == 1 or inside[-1] in SCALES)


def _place(found: tuple[str, str]) -> tuple[int, str, int]:
    """In the paper's order, the fullest scale of a part first; what is not of the paper at the end."""
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
        pictures=tuple(_pictures(here / FIGURES, list(captions(part)), problems)),
        provenance=_json(here / PROVENANCE, dict, problems) or {},
        sensitivities=tuple(sensitivities(part, good, here)),
        runs=len(runs),
        steps=int(good["steps"].sum()),
        failures=tuple(runs.filter(pl.col("error").is_not_null()).select("path", "error").rows()),
        problems=tuple(problems),
    )


def _json(path: Path, kind: type, problems: list[str]) -> Any:
    """The content of a file, or None if it is absent; what is wrong with it becomes a problem."""
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
        if not isinstance(row, dict) or row.get("verdict") not in VERDICTS:
            problems.append(
                f"{path} holds a claim without one of the verdicts {', '.join(VERDICTS)}: {json.dumps(row)[:200]}"
            )
            continue
        text = {key: str(row.get(key) or "") for key in ("where", "says", "measured", "tolerance", "verdict")}
        yield Claim(**text, figure=Path(str(row.get("figure") or "")).stem)


def _pictures(folder: Path, order: list[str], problems: list[str]) -> Iterator[Picture]:
    """One a name: a PNG if there is one, else an SVG. Those that the paper has, in its order; then the others."""
    names = {path.stem for path in folder.glob("*") if path.suffix in (".png", ".svg")}
    places = {name: place for place, name in enumerate(order)}
    for name in sorted(names, key=lambda name: (places.get(name, len(order)), name)):
        png = folder / f"{name}.png"
        try:
            if png.exists():
                yield Picture(name, _uri("image/png", _lighter(png)))
            else:
                yield Picture(name, _uri("image/svg+xml", (folder / f"{name}.svg").read_bytes()))
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damaged files
            problems.append(f"{folder / name} cannot be read: {error}")


def _uri(kind: str, data: bytes) -> str:
    """As the source of an image: in that place also an SVG runs no scripts and asks for nothing."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _lighter(path: Path) -> bytes:
    """The picture with fewer colours and no more pixels than a page can show, if that is smaller."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    if picture.width > MAX_PICTURE_WIDTH:
        picture = picture.resize((MAX_PICTURE_WIDTH, round(picture.height * MAX_PICTURE_WIDTH / picture.width)))
    made = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return min(made.getvalue(), path.read_bytes(), key=len)


def _runs(folder: Path, problems: list[str]) -> pl.DataFrame:
    """A row a run: what it was (algorithm, settings, steps), its seed, what it earned or why it failed, and its file."""
    frames = [pl.DataFrame(schema=RUNS)]
    for path in sorted(folder.rglob("*.parquet")):
        if CONFIRMATION in path.relative_to(folder).parts:
            continue
        try:
            if not set(pl.read_parquet_schema(path)) >= COLUMNS:  # measurements of another kind than runs
                continue
            frame = pl.read_parquet(path, columns=sorted(COLUMNS))
            about = [_about(text) for text in frame["description"]]
            rows = zip(about, frame["seed"], frame["average_reward"], frame["error"], strict=True)
            name = str(path.relative_to(folder))
            frames.append(pl.DataFrame([(*what, *rest, name) for what, *rest in rows], schema=RUNS, orient="row"))
        except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path} cannot be read: {error}")
    return pl.concat(frames)


def _about(description: str) -> tuple[str, str, str, int]:
    """World, algorithm, settings as JSON and steps of a run."""
    about = json.loads(description)
    return str(about["world"]), str(about["algorithm"]), json.dumps(about["settings"]), int(about["steps"])
