"""The sections of the page after the claims: a part's figures, sensitivity, timing, provenance."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perstep.progress import duration, si
from perstep.report import paper
from perstep.report.markup import Markup, element, join, table
from perstep.report.reading import Claim, PartResults, Picture
from perstep.report.sensitivity import Configuration, Sensitivity

CLASSES = {"holds": "holds", "does not hold": "fails", "not run": "not-run"}
ICONS = {"holds": "✓", "does not hold": "✗", "not run": "○"}
BEST_SHOWN = 5  # configurations of a grid, and the paper's
PICTURES_AT_MOST = 4_500_000  # characters: a page that opens at once, and can be sent by mail
ERRORS_SHOWN = 20


def icon(verdict: str) -> Markup:
    """A sign beside the word, so that colour alone says nothing."""
    return element("span", ICONS[verdict], aria_hidden="true")


def verdict_mark(verdict: str) -> Markup:
    """The verdict as a word with its sign and colour."""
    return element("span", icon(verdict), " ", verdict, class_=f"verdict {CLASSES[verdict]}")


def is_fullest(results: Sequence[PartResults], one: PartResults) -> bool:
    """Whether this is the fullest scale of its part; results are in that order."""
    return next(each for each in results if each.part == one.part) is one


def anchor(*names: str) -> str:
    """A name for links, made of other names."""
    return "-".join(re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-") for name in names if name)


def figure_anchor(source: PartResults, figure: str) -> str:
    """Where a figure is."""
    return anchor("fig", source.part, source.scale, figure)


def claim_anchor(source: PartResults | str, claim: Claim) -> str | None:
    """Where a claim is, if it has been judged."""
    if isinstance(source, str):
        return None
    return f"{anchor('claim', source.part, source.scale)}-{source.claims.index(claim)}"


def figure_link(source: PartResults, figure: str) -> Markup:
    """To the figure of a claim, if it has one."""
    if not figure:
        return Markup("")
    if figure not in {picture.name for picture in source.pictures}:
        return join(f"{paper.figure_title(figure)} is not drawn")
    return element("a", paper.figure_title(figure), href=f"#{figure_anchor(source, figure)}")


# Figures ---------------------------------------------------------------------------------------------------------------


def part(results: Sequence[PartResults], name: str, folder: Path) -> Markup:
    """What a part is about, and its figures; those of smaller scales are folded."""
    there = [each for each in results if each.part == name]
    fits = _fitting(results)
    first, *others = there
    return element(
        "section",
        element("h2", paper.title(name), id=anchor(name)),
        element("p", paper.PARTS[name].about) if name in paper.PARTS else None,
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
    """The parts of the paper that there are no results of, and the commands that make them."""
    if not names:
        return None
    blocks = [
        (
            element("h3", paper.title(name), " ", verdict_mark("not run"), id=anchor(name)),
            element("p", paper.PARTS[name].about),
            element("p", "To run it: ", element("code", paper.command(name, "paper", folder), class_="command")),
            _tables(name),
        )
        for name in names
    ]
    return element("section", element("h2", "Not run yet", id="not-run"), blocks, aria_labelledby="not-run")


def _tables(name: str) -> list[Markup]:
    """The settings of a part, as the paper tabulates them."""
    return [
        table(("", *each.columns), each.rows, caption=f"{title}: {each.caption}", class_="numbers")
        for title, each in paper.tables(name).items()
    ]


def _fitting(results: Sequence[PartResults]) -> set[str]:
    """Anchors of the pictures that fit on the page, those of the fullest scales before others."""
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
    command = paper.command(source.part, source.scale, folder, recorded)
    if not source.scale:  # not of the paper: as it was made
        command = recorded or "a command that is not recorded"
    made = element("code", command, class_="command")
    scale = f"Scale {source.scale}: " if source.scale else ""
    captions = paper.captions(source.part)
    return join(
        element("p", f"{scale}{size}Made by ", made),
        _notice("Not all could be read:", source.problems),
        _notice(f"{len(source.failures)} of {source.runs:,} runs failed:", _errors(source)),
        [
            _figure(source, picture, captions.get(picture.name, []), made, figure_anchor(source, picture.name) in fits)
            for picture in source.pictures
        ],
        element("p", "No figures are drawn yet.", class_="faint") if captions and not source.pictures else None,
    )


def _errors(source: PartResults) -> list[str]:
    lines = [f"{path}: {error}" for path, error in source.failures[:ERRORS_SHOWN]]
    more = len(source.failures) - len(lines)
    return lines + ([f"and {more} more"] if more else [])


def _notice(text: str, lines: Sequence[str]) -> Markup | None:
    if not lines:
        return None
    return element("div", text, element("ul", [element("li", line) for line in lines]), class_="notice", role="note")


def _figure(source: PartResults, picture: Picture, caption: list[str], made: Markup, fits: bool) -> Markup:
    title = paper.figure_title(picture.name)
    about = [re.sub(r"^Fig\. [\w.]+: ", "", text) for text in caption]
    setting = paper.setting_of(source.part, picture.name)
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


# Sensitivity -----------------------------------------------------------------------------------------------------------


def sensitivity(results: Sequence[PartResults]) -> Markup:
    """The best settings of every grid beside the paper's."""
    found = [(each, one) for each in results if is_fullest(results, each) for one in each.sensitivities]
    return element(
        "section",
        element("h2", "Sensitivity", id="sensitivity"),
        element(
            "p",
            "What every setting of a grid earns per step, over all steps and runs, and which is best, beside the one that the "
            "paper chose. ± is half a 95 % interval; differences are between runs of the same seed, and not corrected for "
            "picking the best after the fact.",
        ),
        [_grid(source, one) for source, one in found],
        None if found else element("p", "No grid has been run yet.", class_="faint"),
        aria_labelledby="sensitivity",
    )


def _grid(source: PartResults, one: Sensitivity) -> Markup:
    every, chosen = one.configurations, one.tuned
    several = len({each.world for each in source.sensitivities}) > 1
    shown = list(every[:BEST_SHOWN]) + ([chosen] if chosen and chosen.rank > BEST_SHOWN else [])
    names = [paper.LETTERS.get(name, name) for name in every[0].setting]
    rows = [
        element(
            "tr",
            element("td", str(each.rank)),
            [element("td", _number(value)) for value in each.setting.values()],
            element("td", _interval(each.mean, each.error)),
            element("td", "the paper's" if each.is_tuned else _ahead(each)),
            class_="chosen" if each.is_tuned else None,
        )
        for each in shown
    ]
    head = ["rank", *names, "reward per step", "ahead of the paper's"]
    beside = ", and the paper's" if len(shown) > BEST_SHOWN else ""
    caption = f"The best {min(BEST_SHOWN, len(every))} of {len(every)} settings{beside}"
    return join(
        element("h3", f"{paper.title(source.part)}, {one.algorithm}" + (f" in {one.world}" if several else "")),
        element("p", _summary(one)),
        strip(one),
        element("div", element(
            "table",
            element("caption", caption),
            element("thead", element("tr", [element("th", text, scope="col") for text in head])),
            element("tbody", rows),
            class_="numbers",
        ), class_="wide", tabindex="0", role="group", aria_label=f"{caption}, {one.algorithm}"),
    )  # fmt: skip


def _summary(one: Sensitivity) -> str:
    best, chosen = one.configurations[0], one.tuned
    if chosen is None:
        return f"Best of {len(one.configurations)}: {paper.symbols(best.setting)}."
    if chosen is best:
        return f"The paper's setting, {paper.symbols(chosen.setting)}, is the best of {len(one.configurations)}."
    return (
        f"Best of {len(one.configurations)}: {paper.symbols(best.setting)}. The paper's, {paper.symbols(chosen.setting)}, "
        f"has rank {chosen.rank}"
        + (f", {_ahead(best, sign='')} behind." if best.ahead is not None else ".")
        + _apart(one)
    )


def _apart(one: Sensitivity) -> str:
    if one.apart is None or not math.isfinite(one.apart.value):
        return ""
    chance = f"; luck alone would make about {_number(one.apart.by_chance, 2)}" if one.apart.by_chance > 0 else ""
    return f" Over the run, their rewards per step are {_number(one.apart.value, 2)} apart on average{chance}."


def _ahead(each: Configuration, sign: str = "+") -> str:
    if each.ahead is None or each.ahead_error is None:
        return ""
    return _interval(each.ahead, each.ahead_error, sign)


def strip(one: Sensitivity) -> Markup:
    """All settings as dots on a line of what they earn: how much the choice matters, at a glance."""
    means = [each.mean for each in one.configurations if math.isfinite(each.mean)]
    if not means or min(means) == max(means):
        return Markup("")
    low, high, chosen = min(means), max(means), one.tuned
    label = f"Rewards per step of {len(means)} settings, from {_number(low)} to {_number(high)}"

    def dot(mean: float, radius: float, kind: str) -> Markup:
        return element("circle", cx=f"{2 + 96 * (mean - low) / (high - low):.2f}%", cy=14, r=radius, class_=kind)

    drawing = element(
        "svg",
        element("line", x1="2%", x2="98%", y1=14, y2=14),
        [dot(mean, 4, "dot") for mean in reversed(means)],
        dot(high, 5, "best"),
        dot(chosen.mean, 9, "chosen") if chosen and math.isfinite(chosen.mean) else None,
        role="img", aria_label=label,
    )  # fmt: skip
    legend = "● the best, ◯ the paper's" if chosen else "● the best"
    ends = [element("span", text) for text in (_number(low), legend, _number(high))]
    return element("div", drawing, element("div", ends, class_="ends"), class_="strip")


def _number(value: Any, digits: int = 4) -> str:
    """As a reader writes it, with a true minus; words as they are."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.{digits}g}".replace("-", "−") if math.isfinite(value) else "unknown"


def _interval(mean: float, error: float, sign: str = "") -> str:
    """Both with the decimals that make two digits of the error."""
    if not math.isfinite(mean) or not math.isfinite(error) or error <= 0:
        return f"{mean:{sign}.4g}".replace("-", "−") if math.isfinite(mean) else "unknown"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:{sign}.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")


# Timing and provenance -------------------------------------------------------------------------------------------------


def timing(results: Sequence[PartResults]) -> Markup:
    """How long each part took, and how fast that was."""
    rows = []
    for each in results:
        seconds = each.provenance.get("seconds", each.provenance.get("duration"))
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        rows.append([
            paper.title(each.part), each.scale, f"{each.runs:,}", si(each.steps),
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
            element("h3", f"{paper.title(each.part)}{f', {each.scale}' if each.scale else ''}"),
            facts or element("p", "Nothing is recorded.", class_="faint"),
        ]
    return element("section", element("h2", "Provenance", id="provenance"), blocks, aria_labelledby="provenance")


def _facts(facts: Mapping[str, Any]) -> Markup:
    return element(
        "dl",
        [(element("dt", str(name).replace("_", " ")), element("dd", _fact(value))) for name, value in facts.items()],
    )


def _fact(value: Any) -> str:
    """Nested values in one line, as in "numpy 2.4.6, numba 0.68.1"."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_fact(inner) for inner in value)
    return "unknown" if value is None else str(value)
