"""Write the defaults into the tables of settings on the pages of the learners: `python docs/learners/settings.py`.

A table of settings has one row per setting, whose first cell is its name, and one column per agent and preset. This script fills
those columns from the classes of the settings and leaves all other cells as they are. tests/test_docs.py runs it to see whether
a page is up to date, and whether a setting is missing.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from perstep.numerics.schedules import Decay
from perstep.rules.lattice import LEARNERS

HERE = Path(__file__).parent
LEARNERS_OF_PAGE = {
    "tables.md": ("td", "q"),
    "tiles.md": ("actor-critic", "tile-q"),
    "deep-q.md": ("deep-q",),
    "soft-actor-critic.md": ("sac",),
    "planner.md": ("planner",),
}
SHARED = "tables.md"  # other pages need not repeat a row of this page, if the defaults are the same
UNTOLD = {"preset"}


def cell(value: Any) -> str:
    """A default as readers see it."""
    if isinstance(value, Decay):
        if value.power == 0.0:
            return f"{value.scale:g}"
        numbers = [f"{number:g}" for number in dataclasses.astuple(value)]
        return f"`Decay({', '.join(numbers[:2] if value.delay == 1.0 else numbers)})`"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == ():
        return "none"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return f"{value:,}" if isinstance(value, int) else f"{int(value):,}" if value == int(value) else f"{value:g}"


def defaults(learner: str, preset: str) -> dict[str, str]:
    """Every setting of a learner, and its default as a cell."""
    return {name: cell(value) for name, value in LEARNERS[learner].config.of({"preset": preset}).settings().items()}


def column(title: str, learners: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
    """The learners and the preset of a column: "`TileQ`, `"paper"`", or the preset alone for all learners of the page."""
    agents = {LEARNERS[name].agent: name for name in learners}
    named = [agents[word] for word in re.findall(r"`(\w+)`", title) if word in agents]
    presets = re.findall(r'`"(\w+)"`', title)
    if not named and not presets:
        return None
    return tuple(named) or learners, presets[0] if presets else "steady"


def filled(page: str, text: str) -> str:
    """The text of a page with the defaults of today."""
    learners, columns, lines = LEARNERS_OF_PAGE[page], [], []
    for line in text.split("\n"):
        cells = [part.strip() for part in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            columns = []
        elif cells[0] == "setting":
            columns = [column(title, learners) for title in cells]
        elif columns and (found := re.fullmatch(r"`(\w+)`", cells[0])):
            for place, chosen in enumerate(columns):
                if chosen is not None:
                    values = [defaults(learner, chosen[1]).get(found[1], "–") for learner in chosen[0]]
                    told = dict.fromkeys(value for value in values if value != "–")
                    cells[place] = "; ".join(told) or "–"
            line = "| " + " | ".join(cells) + " |"
        lines.append(line)
    return "\n".join(lines)


def missing(page: str, text: str, shared: str) -> set[str]:
    """The settings of a page's learners that have a row neither on it nor, with the same defaults, on the shared page."""
    learners = LEARNERS_OF_PAGE[page]
    on_page, elsewhere = (set(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)) for told in (text, shared))
    gone = set()
    for learner in learners:
        for preset in ("steady", "paper"):
            ours, usual = defaults(learner, preset), defaults("td", preset)
            same = {name for name in elsewhere if name in usual and ours.get(name) == usual[name]}
            gone |= set(ours) - on_page - same - UNTOLD
    return gone


if __name__ == "__main__":
    for page in LEARNERS_OF_PAGE:
        path = HERE / page
        path.write_text(filled(page, path.read_text(encoding="utf-8")), encoding="utf-8")
