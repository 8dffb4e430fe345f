"""Sections of the page after the claims: the figures of each part, parts without results, timing and provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perstep.display.progress import duration, si
from perstep.paper.claims.claim import Claim
from perstep.paper.parts import PARTS
from perstep.paper.report import titles
from perstep.paper.report.markup import Markup, element, join, table
from perstep.paper.report.reading import PartResults, Picture

CLASSES = {"holds": "holds", "does not hold": "fails", "not run": "not-run"}
ICONS = {"holds": "✓", "does not hold": "✗", "not run": "○"}
PICTURES_AT_MOST = 4_500_000  # characters in all: the page opens quickly and fits into an e-mail
ERRORS_SHOWN = 20


def icon(verdict: str) -> Markup:
    """A sign for a verdict, so that its meaning does not depend on colour."""
    return element("span", ICONS[verdict], aria_hidden="true")


def verdict_mark(verdict: str) -> Markup:
    """The verdict in words, with its sign and colour."""
    return element("span", icon(verdict), " ", verdict, class_=f"verdict {CLASSES[verdict]}")


def is_fullest(results: Sequence[PartResults], one: PartResults) -> bool:
    """Whether this is the fullest scale of its part. Results have the fullest scale first."""
    return next(each for each in results if each.part == one.part) is one


def anchor(*names: str) -> str:
    """The id of an element, made from names."""
    return "-".join(re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-") for name in names if name)


def figure_anchor(source: PartResults, figure: str) -> str:
    """The id of a figure."""
    return anchor("fig", source.part, source.scale, figure)


def claim_anchor(source: PartResults | str, claim: Claim) -> str | None:
    """The id of a claim; None if it belongs to a part without results."""
    if isinstance(source, str):
        return None
    return f"{anchor('claim', source.part, source.scale)}-{source.claims.index(claim)}"


def figure_link(source: PartResults, figure: str) -> Markup:
    """A link to the figure of a claim; empty if the claim has no figure."""
    if not figure:
        return Markup("")
    if figure not in {picture.name for picture in source.pictures}:
        return join(f"{titles.figure_title(figure)} is not drawn")
    return element("a", titles.figure_title(figure), href=f"#{figure_anchor(source, figure)}")


# Figures ---------------------------------------------------------------------------------------------------------------


def part(results: Sequence[PartResults], name: str, folder: Path) -> Markup:
    """What a part is about, and its figures. The figures of smaller scales are folded."""
    there = [each for each in results if each.part == name]
    fits = _fitting(results)
    first, *others = there
    return element(
        "section",
        element("h2", titles.part_title(name), id=anchor(name)),
        element("p", PARTS[name].about) if name in PARTS else None,
        _tables(name),
        _at_scale(first, folder, fits),
        [
            element(
                "details",
                element("summary", f"The same at scale {each.scale}" if each.scale else "More"),
                _at_scale(each, folder, fits),
            )
            for each in others
        ],
        aria_labelledby=anchor(name),
    )


def absent(names: Sequence[str], folder: Path) -> Markup | None:
    """The parts of the paper without results, and the commands that make them."""
    if not names:
        return None
    blocks = [
        (
            element("h3", titles.part_title(name), " ", verdict_mark("not run"), id=anchor(name)),
            element("p", PARTS[name].about),
            element("p", "To run it: ", element("code", titles.command(name, "paper", folder), class_="command")),
            _tables(name),
        )
        for name in names
    ]
    return element("section", element("h2", "Not run yet", id="not-run"), blocks, aria_labelledby="not-run")


def _tables(name: str) -> list[Markup]:
    """The tuned settings of a part, in the form of the paper's tables."""
    return [
        table(("", *each.columns), each.rows, caption=f"{title}: {each.caption}", class_="numbers")
        for title, each in (PARTS[name].tables.items() if name in PARTS else ())
    ]


def _fitting(results: Sequence[PartResults]) -> set[str]:
    """Ids of the pictures that fit on the page. Those of the fullest scales come first."""
    fits: set[str] = set()
    total = 0
    for source in sorted(results, key=lambda each: not is_fullest(results, each)):
        for picture in source.pictures:
            total += len(picture.uri)
            if total <= PICTURES_AT_MOST:
                fits.add(figure_anchor(source, picture.name))
    return fits


def _at_scale(source: PartResults, folder: Path, fits: set[str]) -> Markup:
    size = f"{source.runs:,} runs, {si(source.steps)} steps. " if source.runs else ""
    recorded = str(source.provenance.get("command") or "")
    command = titles.command(source.part, source.scale, folder, recorded)
    if not source.scale:  # a user's own study: the command that was recorded
        command = recorded or "a command that is not recorded"
    made = element("code", command, class_="command")
    scale = f"Scale {source.scale}: " if source.scale else ""
    known = titles.figures(source.part)
    return join(
        element("p", f"{scale}{size}Made by ", made),
        _notice("Not all could be read:", source.problems),
        _notice(f"{len(source.failures)} of {source.runs:,} runs failed:", _errors(source)),
        [
            _figure(source, picture, made, fits=figure_anchor(source, picture.name) in fits)
            for picture in source.pictures
        ],
        element("p", "No figures are drawn yet.", class_="faint") if known and not source.pictures else None,
    )


def _errors(source: PartResults) -> list[str]:
    lines = [f"{path}: {error}" for path, error in source.failures[:ERRORS_SHOWN]]
    more = len(source.failures) - len(lines)
    return lines + ([f"and {more} more"] if more else [])


def _notice(text: str, lines: Sequence[str]) -> Markup | None:
    if not lines:
        return None
    return element("div", text, element("ul", [element("li", line) for line in lines]), class_="notice", role="note")


def _figure(source: PartResults, picture: Picture, made: Markup, *, fits: bool) -> Markup:
    title = titles.figure_title(picture.name)
    known = titles.figures(source.part).get(picture.name)
    about = known.caption if known else ()
    setting = titles.settings_shown(source.part, picture.name)
    name = "/".join(filter(None, (source.part, source.scale, "figures", picture.name)))
    image = element("img", src=picture.uri, alt=f"{title}. {about[0] if about else ''}".strip())
    claims = [claim for claim in source.claims if claim.figure == picture.name]
    return element(
        "figure",
        element("div", image, class_="picture", tabindex="0", role="group", aria_label=title) if fits else None,
        element(
            "figcaption",
            element("h3", title),
            None if fits else element("p", f"Left out to keep this page small; it is in {name}."),
            [element("p", text if text[1:2] == ")" else text[:1].upper() + text[1:]) for text in about],
            element("ul", [_judged(source, claim) for claim in claims]) if claims else None,
            element(
                "dl",
                (element("dt", "setting"), element("dd", _lines(setting))) if setting else None,
                element("dt", "made by"), element("dd", made),
                element("dt", "files"), element("dd", element("code", f"{name}.*")),
            ),
        ),
        id=figure_anchor(source, picture.name),
    )  # fmt: skip


def _judged(source: PartResults, claim: Claim) -> Markup:
    link = element("a", claim.says, href=f"#{claim_anchor(source, claim)}")
    return element("li", verdict_mark(claim.verdict), " ", link)


def _lines(texts: list[str]) -> Iterator[Markup]:
    for place, text in enumerate(texts):
        yield join(element("br") if place else None, text)


# Timing and provenance -------------------------------------------------------------------------------------------------


def timing(results: Sequence[PartResults]) -> Markup:
    """The time that each part took, and its steps per second."""
    rows = []
    for each in results:
        seconds = each.provenance.get("seconds", each.provenance.get("duration"))
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        rows.append([
            titles.part_title(each.part), each.scale, f"{each.runs:,}", si(each.steps),
            duration(float(seconds)) if is_number else str(seconds or "not recorded"),
            f"{si(each.steps / float(seconds))} a second" if is_number and each.steps else "",
        ])  # fmt: skip
    head = ["part", "scale", "runs", "steps", "time", "speed"]
    return element(
        "section", element("h2", "Timing", id="timing"), table(head, rows, class_="numbers"), aria_labelledby="timing"
    )


def provenance(results: Sequence[PartResults]) -> Markup:
    """Command, versions, commit and machine of each part."""
    blocks = []
    for each in results:
        facts = _facts(each.provenance) if each.provenance else None
        blocks += [
            element("h3", f"{titles.part_title(each.part)}{f', {each.scale}' if each.scale else ''}"),
            facts or element("p", "Nothing is recorded.", class_="faint"),
        ]
    return element("section", element("h2", "Provenance", id="provenance"), blocks, aria_labelledby="provenance")


def _facts(facts: Mapping[str, Any]) -> Markup:
    return element(
        "dl",
        [(element("dt", str(name).replace("_", " ")), element("dd", _fact(value))) for name, value in facts.items()],
    )


def _fact(value: Any) -> str:
    """Nested values in one line, for example "numpy 2.4.6, numba 0.68.1"."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_fact(inner) for inner in value)
    return "unknown" if value is None else str(value)
