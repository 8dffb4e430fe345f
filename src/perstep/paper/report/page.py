"""The page: claims first, then the figures of each part, sensitivity, timing and provenance."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from perstep.paper.claims.claim import VERDICTS, Claim
from perstep.paper.parts import PARTS, belongs
from perstep.paper.report import sections, sensitivity_section
from perstep.paper.report.markup import Markup, element, join
from perstep.paper.report.reading import PartResults
from perstep.paper.report.sections import anchor, claim_anchor, figure_link, is_fullest, verdict_mark
from perstep.paper.report.titles import part_title

COLUMNS = ("where", "claim", "measured", "tolerance", "verdict", "figure")

NOTES = {
    "small": "fewer runs than in the paper, so more noise.",
    "smoke": "runs so short that they show only that everything works. Their verdicts say nothing of the paper.",
}
"""Scale → a note about its results."""


def page(results: Sequence[PartResults], folder: Path) -> str:
    """The whole page as text."""
    style, script = (
        resources.files("perstep.paper.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    parts = list(dict.fromkeys(each.part for each in results))
    of_paper = not parts or any(belongs(part, name) for part in parts for name in PARTS)
    rows = [row for row in _claim_rows(results) if of_paper or not isinstance(row[0], str)]
    absent = [name for name in PARTS if of_paper and not any(belongs(part, name) for part in parts)]
    title = "The paper's claims, measured" if of_paper else f"Results of {', '.join(map(part_title, parts))}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · perstep"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "To the claims", href="#claims", class_="skip") if rows else None,
        _header(title, results, rows, parts, absent),
        element(
            "main",
            _claims(results, rows) if rows else None,
            [sections.part(results, part, folder) for part in parts],
            sections.absent(absent, folder),
            sensitivity_section.section(results),
            sections.timing(results),
            sections.provenance(results),
        ),
        element("footer", element("p", "Made by ", element("code", "perstep report"), " from result files alone.")),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _policy(style: str, script: str) -> str:
    """The content security policy: no network access, and no script or style except ours, whatever the result files contain."""

    def only(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {only(style)}; script-src {only(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _claim_rows(results: Sequence[PartResults]) -> list[tuple[PartResults | str, Claim]]:
    """Every claim with the results that it was judged from; with the name of its part if there are none."""
    rows: list[tuple[PartResults | str, Claim]] = []
    for name, part in PARTS.items():
        judged: list[tuple[PartResults | str, Claim]] = [
            (each, claim) for each in results if belongs(each.part, name) for claim in each.claims
        ]
        unjudged = [Claim(where=where, says=says) for where, says in part.in_brief]
        rows += judged or [(name, claim) for claim in unjudged]
    others = [each for each in results if not any(belongs(each.part, name) for name in PARTS)]
    return rows + [(each, claim) for each in others for claim in each.claims]


def _header(
    title: str,
    results: Sequence[PartResults],
    rows: list[tuple[PartResults | str, Claim]],
    parts: list[str],
    absent: list[str],
) -> Markup:
    fullest = [claim.verdict for source, claim in rows if isinstance(source, str) or is_fullest(results, source)]
    counts = Counter(fullest)
    fullest_of = [next(each for each in results if each.part == part) for part in parts]
    scales = ", ".join(part_title(each.part) + (f" ({each.scale} scale)" if each.scale else "") for each in fullest_of)
    links = [("claims", "Claims")] if rows else []
    links += [(anchor(part), part_title(part)) for part in parts]
    links += [("not-run", "Not run yet")] if absent else []
    links += [("sensitivity", "Sensitivity"), ("timing", "Timing"), ("provenance", "Provenance")]
    items = [element("li", element("a", text, href=f"#{target}")) for target, text in links]
    return element(
        "header",
        element("h1", title),
        element("p", "Average-reward distributional reinforcement learning: ", scales, ".", class_="lead"),
        element("nav", element("ul", items), aria_label="Sections"),
        element(
            "div",
            [
                element("div", element("b", str(counts[verdict])), element("span", sections.icon(verdict), " ", verdict),
                        class_=f"count {sections.CLASSES[verdict]}", data_verdict=verdict)
                for verdict in VERDICTS
            ],
            class_="counts", role="group", aria_label="Claims by verdict",
        ) if rows else None,
    )  # fmt: skip


def _claims(results: Sequence[PartResults], rows: list[tuple[PartResults | str, Claim]]) -> Markup:
    head = [
        element("th", element("span", name), scope="col", role="columnheader", data_sortable=name != "figure")
        for name in COLUMNS
    ]
    body = [_claim_row(results, place, source, claim) for place, (source, claim) in enumerate(rows)]
    return element(
        "section",
        element("h2", "Claims", id="claims"),
        element("p", "What the paper says, and what our runs show. A claim that does not hold is a result like any other."),
        _caution(results),
        _controls(results),
        element(
            "table",
            element("thead", element("tr", head, role="row"), role="rowgroup"),
            element("tbody", body, role="rowgroup"),
            class_="claims", role="table", aria_label="Claims of the paper",
        ),
        element("p", "No claim is like that. Clear the filter to see them all.", class_="nothing", hidden=True),
        aria_labelledby="claims",
    )  # fmt: skip


def _caution(results: Sequence[PartResults]) -> Markup | None:
    """A warning about verdicts from short runs."""
    at = {
        scale: [part_title(e.part) for e in results if is_fullest(results, e) and e.scale == scale] for scale in NOTES
    }
    lines = [f"{', '.join(titles)} ({scale} scale): {NOTES[scale]}" for scale, titles in at.items() if titles]
    return element("div", [element("p", line) for line in lines], class_="notice", role="note") if lines else None


def _controls(results: Sequence[PartResults]) -> Markup:
    """The controls of the table of claims. The script shows them, since they need it."""
    scales = list(dict.fromkeys(each.scale for each in results))
    choose = None
    if len(results) > len({each.part for each in results}):  # a part at several scales
        options = [("fullest", "the fullest of each part"), *((name, name) for name in scales), ("all", "all")]
        choose = element(
            "label", "Scale", element("select", [element("option", text, value=value) for value, text in options])
        )
    return element(
        "div",
        element("label", "Filter", element("input", type="search", placeholder="D3 quantiles", autocomplete="off")),
        choose,
        element("output", aria_live="polite"),
        class_="controls",
        hidden=True,
    )


def _claim_row(results: Sequence[PartResults], place: int, source: PartResults | str, claim: Claim) -> Markup:
    part = source if isinstance(source, str) else source.part
    scale = "" if isinstance(source, str) else source.scale
    fullest = isinstance(source, str) or is_fullest(results, source)
    where = join(claim.where, element("span", f"{part_title(part)}{f', {scale}' if scale else ''}", class_="scale"))
    figure = "" if isinstance(source, str) else figure_link(source, claim.figure)
    measured = element("a", "how to run it", href=f"#{anchor(part)}") if isinstance(source, str) else claim.measured

    def cell(content: str, **attributes: str | None) -> Markup:
        return element("td", content, role="cell", **attributes)

    return element(
        "tr",
        cell(where, data_sort=claim.where),
        cell(claim.says),
        cell(measured, data_label=None if isinstance(source, str) else "measured"),
        cell(claim.tolerance, data_label="tolerance" if claim.tolerance else None),
        cell(verdict_mark(claim.verdict), data_sort=str(list(VERDICTS).index(claim.verdict))),
        cell(figure, data_label="figure" if figure else None),
        role="row",
        id=claim_anchor(source, claim) or f"claim-{place}",
        data_verdict=claim.verdict,
        data_scale=scale,
        data_fullest="yes" if fullest else "no",
    )
