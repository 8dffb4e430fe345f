"""The card of an agent: what it is, where it learnt, what it earned, and how to load it, as a page of Markdown beside its file."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from perstep.agent.citations import cite
from perstep.agent.earned import headline, rows, sentences, with_interval
from perstep.agent.objective import objective_sentence
from perstep.gym.opening import describe
from perstep.rules.lattice import ALGORITHMS, Algorithm

SPECIAL = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **{mark: f"\\{mark}" for mark in "\\`*[]|#!~$"}})


def card(agent: Any, path: str = "agent.safetensors") -> str:
    """The card of an agent whose file is at `path`."""
    row = algorithm_of(agent)
    name = row.name if row is not None else f"{type(agent).__name__} with the rule {agent.config.rule}"
    source = f" ({row.source})" if row is not None else ""
    rule = f" with the rule `{agent.config.rule}`" if agent.config.rule else ""
    _, world = describe(agent._opened, agent._world, agent._described_spaces())
    given = "" if world["kind"] == "mdp" or "kwargs" in world else ", env=your_world"
    parts = [
        f"# {name} in {_plain(agent._world_name)}",
        f"A `perstep.{type(agent).__name__}`{rule}{source}, after {agent.steps:,} steps of learning. "
        f"World: {f'`{_plain(agent._opened.id)}`, ' if agent._opened.id else ''}{_plain(agent._world_name)}. "
        f"Preset: `{agent.config.preset}`.",
        *([sentence] if agent.ends and (sentence := objective_sentence(agent)) else []),
        _settings(agent),
        "## What it earned",
        *_earned(agent),
        "## Findings",
        "\n".join(f"- {found}" for found in agent.check()) or "`agent.check()` found nothing.",
        "## Use",
        f"```python\nimport perstep\n\nagent = perstep.load({path!r}{given})\nagent.evaluate(10_000)\n```",
        f"Made with {_versions()}.",
    ]
    if row is not None:
        parts += ["## Cite", f"```bibtex\n{cite(row, _perstep_version())}\n```"]
    return "\n\n".join(parts) + "\n"


def algorithm_of(agent: Any) -> Algorithm | None:
    """The algorithm that an agent runs: of all that fit its settings the one that says most about them."""
    settings = agent.config.settings()
    fitting = [
        row
        for row in ALGORITHMS.values()
        if (row.learner.agent, row.rule) == (type(agent).__name__, agent.config.rule)
        and all(settings.get(name) == value for name, value in row.settings.items())
    ]
    return max(fitting, key=lambda row: len(row.settings), default=None)


def _settings(agent: Any) -> str:
    """The settings that differ from those of the preset."""
    config = agent.config
    preset = type(config).of({"preset": config.preset, **({"rule": config.rule} if config.rule else {})}).settings()
    other = {name: value for name, value in config.settings().items() if value != preset[name] and name != "rule"}
    if not other:
        return "All settings are those of the preset."
    return "\n".join(
        ["| setting | value |", "|---|---|", *(f"| `{name}` | `{_code(value)}` |" for name, value in other.items())]
    )


def _plain(text: str) -> str:
    """A text of the user in one line of Markdown, as the characters that it has: no heading, link, picture or HTML of its own."""
    return " ".join(str(text).split()).translate(SPECIAL)


def _code(value: Any) -> str:
    """A value between backticks in a table."""
    return " ".join(str(value).split()).replace("`", "'").replace("|", r"\|")


def _earned(agent: Any) -> list[str]:
    if not agent.steps:
        return ["Nothing yet: it has not learnt."]
    found = agent._life.reward_distribution
    if found is None:
        return [f"Its estimate of the average reward is {agent.average_reward:.5g}. Its rewards were not counted."]
    life = f"over its whole life of {agent.steps:,} steps it earned {agent.history.lifetime_reward:.5g} per step"
    own = f"Its own estimate of the average is {agent.average_reward:.5g}."
    table = "\n".join(f"| {row.name} | {with_interval(row.value, row.error)} |" for row in rows(found))
    return [
        f"In its last {found.num_samples:,} steps it {headline(agent)}; {life}. {own}",
        f"| reward per step | with 95 % intervals |\n|---|---|\n{table}",
        *sentences(agent),
    ]


def _versions() -> str:
    found = [f"perstep {_perstep_version()}", f"Python {platform.python_version()}"]
    for name in ("numpy", "gymnasium"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # a library that is there without its metadata
            continue
    return ", ".join(found)


def _perstep_version() -> str:
    return str(sys.modules["perstep"].__version__)  # already imported, because this module is part of it
