"""The section of the page about sensitivity: the best configurations of every grid, compared with the paper's choice or the best.

A study of one's own has its learning curves there too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from perstep.paper.figures import style
from perstep.paper.report.markup import Markup, element, join
from perstep.paper.report.reading import PartResults, uri
from perstep.paper.report.sections import is_fullest
from perstep.paper.report.sensitivity import Configuration, Sensitivity
from perstep.paper.report.titles import part_title
from perstep.studies.notation import letter, symbols

BEST_SHOWN = 5  # configurations of a grid, in addition to the paper's choice


def section(results: Sequence[PartResults]) -> Markup:
    """The whole section."""
    found = [(each, one) for each in results if is_fullest(results, each) for one in each.sensitivities]
    of_paper = not found or any(one.tuned for _, one in found)
    return element(
        "section",
        element("h2", "Sensitivity", id="sensitivity"),
        element(
            "p",
            "What every setting of a grid earns per step, over all steps and runs, and which is best"
            + (", beside the one that the paper chose" if of_paper else "")
            + ". ± is half a 95 % interval; differences are between runs of the same seed, and not corrected for "
            "picking the best after the fact.",
        ),
        [_curves(each) for each in results if is_fullest(results, each)],
        [_grid(source, one) for source, one in found],
        None if found else element("p", "No grid has been run yet.", class_="faint"),
        aria_labelledby="sensitivity",
    )


def _curves(source: PartResults) -> list[Markup]:
    """A picture for each world of a study of one's own: the learning curve of each algorithm with its best settings."""
    worlds = dict.fromkeys(one.world for one in source.sensitivities if one.curve is not None)
    shown = [(world, [one for one in source.sensitivities if one.world == world and one.curve]) for world in worlds]
    return [
        element(
            "figure",
            element("div", element("img", src=_drawn(each), alt=f"Learning curves in {world}."), class_="picture",
                    tabindex="0", role="group", aria_label=f"Learning curves in {world}"),
            element("figcaption", element("h3", f"Learning curves in {world}"), element(
                "p", "Reward per step in equal parts of a run, with the best settings of each algorithm: mean and 95 % interval "
                "over runs.")),
        )
        for world, each in shown
    ]  # fmt: skip


def _drawn(curves: Sequence[Sensitivity]) -> str:
    """The picture as a data URI. Its axis holds every point of every mean."""
    made = io.BytesIO()
    with style.look():
        figure, (axes,) = style.panels()
        for one in curves:
            if one.curve is not None:
                steps, mean, error = one.curve
                (line,) = axes.plot(steps, mean, lw=1.3, label=_legend(one))
                axes.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.2, lw=0)
                style.steps_axis(axes, int(steps[-1] + steps[0]))
        axes.set_ylabel("reward per step")
        figure.legend(loc="outside lower center", fontsize=7)
        figure.savefig(made, format="png", dpi=160, metadata=style.UNDATED["png"])
    return uri("image/png", made.getvalue())


def _legend(one: Sensitivity) -> str:
    """Algorithm and settings. A dollar in a text of the user begins no formula."""
    return f"{one.algorithm}: {symbols(one.configurations[0].setting)}".replace("$", r"\$")


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
    head = ["rank", *names, "reward per step", "ahead of the paper's" if chosen else "beside the best"]
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
    if len(one.configurations) == 1:
        return f"One setting: {_interval(best.mean, best.error)} per step."
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
    """All configurations as dots on an axis of what they earned, with their intervals: shows how much the choice matters."""
    known = [each for each in one.configurations if math.isfinite(each.mean)]
    means = [each.mean for each in known]
    if not means or min(means) == max(means):
        return Markup("")
    bars = [(each.mean - each.error, each.mean + each.error) for each in known if math.isfinite(each.error)]
    low, high = min([*means, *(bar[0] for bar in bars)]), max([*means, *(bar[1] for bar in bars)])
    best, chosen = max(means), one.tuned
    label = f"Rewards per step of {len(means)} settings, from {_number(min(means))} to {_number(best)}, with intervals"

    def place(value: float) -> str:
        return f"{2 + 96 * (value - low) / (high - low):.2f}%"

    def dot(mean: float, radius: float, kind: str) -> Markup:
        return element("circle", cx=place(mean), cy=14, r=radius, class_=kind)

    drawing = element(
        "svg",
        element("line", x1="2%", x2="98%", y1=14, y2=14),
        [element("line", x1=place(left), x2=place(right), y1=14, y2=14, class_="bar") for left, right in reversed(bars)],
        [dot(mean, 4, "dot") for mean in reversed(means)],
        dot(best, 5, "best"),
        dot(chosen.mean, 9, "chosen") if chosen and math.isfinite(chosen.mean) else None,
        role="img", aria_label=label,
    )  # fmt: skip
    legend = "● the best, ◯ the paper's" if chosen else "● the best"
    ends = [element("span", text) for text in (_number(low), f"{legend}, bars: 95 % intervals", _number(high))]
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
