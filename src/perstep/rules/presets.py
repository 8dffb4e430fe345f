"""The names of the presets: where settings that are not named come from.

"steady" is the default, for a world that stays as it is. "changing" follows a world that changes. "paper" is the paper's
algorithms as printed, with constant steps in units of 1: what the fields of the settings say. What the other two say stands in
`presets` of each class of settings. How the numbers were chosen: docs/defaults.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESETS = ("steady", "changing", "paper")
DEFAULT = "steady"

Presets = Mapping[str, Mapping[str, Any]]
"""Preset → its settings where they are not those of the paper. "changing" is "steady" but for what it says itself, and a class has
what the classes that it is derived from have."""


def defaults(config: type[Any], preset: str) -> dict[str, Any]:
    """The settings of a preset for a class of settings, where they are not those of the paper."""
    stages = {"steady": ("steady",), "changing": ("steady", "changing")}.get(preset, ())
    found: dict[str, Any] = {}
    for stage in stages:
        for each in reversed(config.__mro__):
            found |= vars(each).get("presets", {}).get(stage, {})
    return found
