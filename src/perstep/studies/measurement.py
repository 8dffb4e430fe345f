"""A measurement: an experiment that is no grid of settings but a function of an effort, and leaves one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from perstep.studies.study import Scale, Setting

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much to spend on a measurement."""

    steps: int
    """Steps per run; each measurement takes a fixed multiple of it."""
    runs: int
    """Runs per configuration, each with its own seed."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One table. An engine runs it as it runs a `Study` of one configuration and one run."""

    part: str
    """The part of the paper that the measurement belongs to."""
    name: str
    measure: Callable[[Effort], list[Row]]
    """Makes the rows of the table; a function of a module, so that other processes and machines find it."""
    efforts: Mapping[str, Effort]
    """Scale → effort."""
    effort: Effort | None = None
    """The effort of the scale; None before `at` has chosen one."""

    unit: ClassVar[str] = "tables"
    """What its progress is counted in: a measurement ends as a whole."""
    steps: ClassVar[int] = 1
    num_runs: ClassVar[int] = 1
    settings: ClassVar[list[Setting]] = [{}]
    seeds: ClassVar[list[int]] = [0]
    tuned: ClassVar[Setting] = {}
    traced: ClassVar[Setting | None] = None

    @property
    def key(self) -> str:
        """Identifies the measurement within its part."""
        return self.name

    def at(self, scale: Scale) -> Measurement:
        """This measurement with the effort of a scale."""
        return replace(self, effort=self.efforts[scale.name])

    def file(self, setting: Setting) -> str:
        """The file of the table, relative to the folder of results."""
        return f"{self.name}.parquet"

    def description(self, setting: Setting) -> str:
        """Everything that determines the table except the code."""
        assert self.effort is not None, "at() chooses the effort"
        return json.dumps({"measurement": self.name, **asdict(self.effort)}, sort_keys=True)
