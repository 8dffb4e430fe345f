"""Headings and labels of the page: titles of parts and figures, captions, the settings of a figure, and commands to repeat."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from perstep.paper.figures.paper_figure import PaperFigure
from perstep.paper.parts import PARTS, studies_in
from perstep.studies.notation import symbols


def command(part: str, scale: str, out: Path, recorded: str = "") -> str:
    """The command that makes the results in a folder. It has --tuned-only if the recorded command has it."""
    words = ["perstep", "reproduce", part.partition("/")[0], "--scale", scale, "--out", str(out)]
    return shlex.join([*words, *(word for word in recorded.split() if word == "--tuned-only")])


def part_title(part: str) -> str:
    """The heading of a part, or "Atari, Breakout" for one game of it. For a user's own study, the name of its folder."""
    of, _, game = part.partition("/")
    return ", ".join(filter(None, (PARTS[of].title, game))) if of in PARTS else part


def figure_title(name: str) -> str:
    """For example "Figure C.2, D3" for figure_c2_d3. A figure that the paper does not have is called by its name."""
    found = re.fullmatch(r"figure_(c?)(\d+)(?:_(\w+))?", name)
    if not found:
        words = name.removeprefix("figure_").replace("_", " ")
        return words[:1].upper() + words[1:]
    appendix, number, variant = found.groups()
    of = f", {variant.replace('_', ' ').upper()}" if variant else ""
    return f"Figure\N{NO-BREAK SPACE}{'C.' if appendix else ''}{number}{of}"


def figures(part: str) -> Mapping[str, PaperFigure]:
    """Name → figure of a part, in the order of the paper; empty for a user's own study."""
    return PARTS[part].figures if part in PARTS else {}


def settings_shown(part: str, figure: str) -> list[str]:
    """The settings that a figure shows, one line per algorithm."""
    known = figures(part).get(figure)
    if known is None:
        return []
    lines = []
    for study in studies_in(part):
        which = known.shows.get(study.algorithm)
        setting = {"tuned": study.tuned, "traced": study.traced}.get(which or "")
        if which == "grid":
            lines.append(f"{study.key}: all {len(study.settings)} settings of the grid")
        elif setting:
            lines.append(f"{study.key}: {symbols(setting)}")
    return lines
