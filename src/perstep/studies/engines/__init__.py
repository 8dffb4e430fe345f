"""Who does the work of a study: this machine's cores, or a Ray cluster. Both give the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perstep.errors import unknown
from perstep.studies.engines.local import LocalEngine
from perstep.studies.engines.ray import RayEngine
from perstep.studies.runs import Unit, Work


class Engine(Protocol):
    """What a study asks of those who run it."""

    @property
    def name(self) -> str:
        """As in --engine."""

    def work(self, units: Sequence[Unit]) -> Work:
        """The rows of all units, as they come: in any order, and a unit's runs together or apart. Between them, where an engine
        knows it, how many steps of a unit's run have been made."""


ENGINES = ("local", "ray")


def engine_named(name: str, ray_address: str | None = None) -> Engine:
    """The engine with this name; the address is that of a Ray cluster, which otherwise is started here."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if name == "ray":
        return RayEngine(ray_address)
    if ray_address is not None:
        raise ValueError("--ray-address is for --engine ray.")
    return LocalEngine()


__all__ = ["ENGINES", "Engine", "LocalEngine", "RayEngine", "engine_named"]
