"""The worlds: continuing tasks, registered with Gymnasium under `perstep/`, and finite MDPs with exact answers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perstep.worlds.registry import WORLDS, register

if TYPE_CHECKING:
    from perstep.worlds.balls import catch
    from perstep.worlds.far_rewards import long_chain, river_swim, six_arms
    from perstep.worlds.loops import two_loop
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
    from perstep.worlds.queues import admission_control, criss_cross
    from perstep.worlds.random_mdps import garnet
    from perstep.worlds.redpill import red_pill_blue_pill
    from perstep.worlds.servers import access_control

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

# No module has the name of a function: the package would then give the module.
_HOMES = {
    "servers": ("access_control",),
    "balls": ("catch",),
    "far_rewards": ("long_chain", "river_swim", "six_arms"),
    "random_mdps": ("garnet",),
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
    "queues": ("admission_control", "criss_cross"),
    "redpill": ("red_pill_blue_pill",),
    "loops": ("two_loop",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a world when it is asked for: registering it with Gymnasium need not wait for a compiler."""
    if name not in _HOME:
        raise AttributeError(f"perstep.worlds has no {name!r}. It has: {', '.join(__all__)}.")
    return getattr(importlib.import_module(f"perstep.worlds.{_HOME[name]}"), name)
