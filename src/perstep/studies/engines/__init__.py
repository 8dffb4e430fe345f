"""What executes the runs of a study: the cores of this machine, or a Ray cluster. Both give the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perstep.inputs.errors import unknown
from perstep.studies.engines.local import LocalEngine
from perstep.studies.engines.ray import RayEngine
from perstep.studies.runs import Unit, UnitUpdates


class Engine(Protocol):
    """What a study needs from an engine."""

    @property
    def name(self) -> str:
        """Its name in --engine."""

    def work(self, units: Sequence[Unit]) -> UnitUpdates:
        """Run all units, and yield their rows in any order, the runs of a unit together or one by one.

        An engine that knows how many steps a run has made also yields that number, any number of times.
        """


ENGINES = ("local", "ray")


def engine_named(name: str, ray_address: str | None = None) -> Engine:
    """The engine with this name. `ray_address` is the address of a Ray cluster; without it, Ray is started on this machine."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if name == "ray":
        return RayEngine(ray_address)
    if ray_address is not None:
        raise ValueError("--ray-address is for --engine ray. Add --engine ray, or leave --ray-address out.")
    return LocalEngine()


__all__ = ["ENGINES", "Engine", "LocalEngine", "RayEngine", "engine_named"]
