"""The section of the page about sensitivity: the best configurations of every grid, compared with the paper's choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from perstep.paper.report.markup import Markup, element, join
from perstep.paper.report.reading import PartResults
from perstep.paper.report.sections import is_fullest
from perstep.paper.report.sensitivity import Configuration, Sensitivity
from perstep.paper.report.titles import part_title
from perstep.studies.notation import letter, symbols

BEST_SHOWN = 5  # configurations of a grid, in addition to the paper's choice


def section(results: Sequence[PartResults]) -> Markup:
    """The whole section."""
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
    names = [letter(name) for name in every[0].setting]
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
        element("h3", f"{part_title(source.part)}, {one.algorithm}" + (f" in {one.world}" if several else "")),
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
        return f"Best of {len(one.configurations)}: {symbols(best.setting)}."
    if chosen is best:
        return f"The paper's setting, {symbols(chosen.setting)}, is the best of {len(one.configurations)}."
    return (
        f"Best of {len(one.configurations)}: {symbols(best.setting)}. The paper's, {symbols(chosen.setting)}, "
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
    """All configurations as dots on an axis of what they earned: shows how much the choice matters."""
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
    """A number with few digits and a typographic minus sign. Text stays as it is."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.{digits}g}".replace("-", "−") if math.isfinite(value) else "unknown"


def _interval(mean: float, error: float, sign: str = "") -> str:
    """Mean ± error, both with as many decimals as give the error two digits."""
    if not math.isfinite(mean) or not math.isfinite(error) or error <= 0:
        return f"{mean:{sign}.4g}".replace("-", "−") if math.isfinite(mean) else "unknown"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:{sign}.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")
