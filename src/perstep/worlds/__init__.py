"""The worlds: continuing tasks, registered with Gymnasium under `perstep/`, and finite MDPs with exact answers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perstep.worlds.registry import WORLDS, register

if TYPE_CHECKING:
    from perstep.worlds.access_control import access_control
    from perstep.worlds.catch import catch
    from perstep.worlds.far_rewards import long_chain, river_swim, six_arms
    from perstep.worlds.garnet import garnet
    from perstep.worlds.operations import (
        inventory,
        maintenance,
        multi_item_inventory,
        perishable_stock,
        recycling_robot,
        routing,
        service_queue,
        tandem_queue,
    )
    from perstep.worlds.queue_networks import admission_control, criss_cross
    from perstep.worlds.redpill import red_pill_blue_pill
    from perstep.worlds.two_loop import two_loop

__all__ = [
    "WORLDS",
    "access_control",
    "admission_control",
    "catch",
    "criss_cross",
    "garnet",
    "inventory",
    "long_chain",
    "maintenance",
    "multi_item_inventory",
    "perishable_stock",
    "recycling_robot",
    "red_pill_blue_pill",
    "register",
    "river_swim",
    "routing",
    "service_queue",
    "six_arms",
    "tandem_queue",
    "two_loop",
]

_HOMES = {
    "access_control": ("access_control",),
    "catch": ("catch",),
    "far_rewards": ("long_chain", "river_swim", "six_arms"),
    "garnet": ("garnet",),
    "operations": (
        "inventory",
        "maintenance",
        "multi_item_inventory",
        "perishable_stock",
        "recycling_robot",
        "routing",
        "service_queue",
        "tandem_queue",
    ),
    "queue_networks": ("admission_control", "criss_cross"),
    "redpill": ("red_pill_blue_pill",),
    "two_loop": ("two_loop",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a world when it is asked for: registering it with Gymnasium need not wait for a compiler."""
    if name not in _HOME:
        raise AttributeError(f"perstep.worlds has no {name!r}. It has: {', '.join(__all__)}.")
    return getattr(importlib.import_module(f"perstep.worlds.{_HOME[name]}"), name)
