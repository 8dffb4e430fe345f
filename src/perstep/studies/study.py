"""A study: one algorithm in one world over a grid of settings. The paper's experiments (App. C) and users' own have this form."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from perstep.rules.lattice import algorithm
from perstep.rules.transition import RULES, Rule

Setting = Mapping[str, float]
"""One configuration: a value for each name in a grid."""

SEED_STRIDE = 1000  # run i has the seed 1000·i, as in the authors' code


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of the paper's effort to spend. A scale limits steps and runs; it never thins out a grid."""

    name: str
    max_steps: int | None
    """Maximum number of steps per run; None for the paper's number."""
    max_runs: int | None
    """Maximum number of runs per configuration; None for the paper's number."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One algorithm in one world over a grid of settings."""

    part: str
    """The part of the paper that the study belongs to: a name that `perstep reproduce` takes."""
    algorithm: str
    """A name in perstep.ALGORITHMS."""
    world: str
    """A Gymnasium id."""
    grid: Mapping[str, tuple[float, ...]]
    """The values of each setting. All combinations are run."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """The settings that all configurations share."""
    steps: int
    """Steps per run."""
    num_runs: int
    """Runs per configuration, each with its own seed."""
    window: int
    """Number of steps over which a reward rate is averaged; divides `steps`."""
    tuned: Setting
    """The paper's best configuration. Its runs keep the reward rate of every window; all other runs keep 100 values per run.
    Empty if no best configuration is known: then all runs keep every window."""
    traced: Setting | None = None
    """The configuration whose convergence the paper shows: its runs record their quantiles over time."""
    traced_pair: tuple[int, int] | None = None
    """State and action whose return quantiles are recorded."""
    world_settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of gymnasium.make."""
    own_seeds: tuple[int, ...] = ()
    """Seeds to use instead of the paper's, one per run."""
    own_settings: tuple[Setting, ...] = ()
    """Configurations to run instead of all combinations of the grid."""

    unit: ClassVar[str] = "steps"
    """What its progress is counted in."""

    @property
    def name(self) -> str:
        """For example "redpill/d2-q"."""
        return f"{self.part}/{self.algorithm}"

    @property
    def key(self) -> str:
        """Identifies the study within its part and names its results folder: "d2-q", or "Breakout/d2-deep-q"."""
        return self.name.partition("/")[2]

    @property
    def game(self) -> str:
        """For example "Breakout" if the part is "atari/Breakout"; empty if a part has one world only."""
        return self.part.partition("/")[2]

    @property
    def rule(self) -> Rule:
        """The row of the algorithm's rule."""
        return RULES[algorithm(self.algorithm).rule]

    @property
    def settings(self) -> list[Setting]:
        """All configurations. In a grid, the last name varies fastest."""
        if self.own_settings:
            return list(self.own_settings)
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    @property
    def seeds(self) -> list[int]:
        """One seed per run."""
        return list(self.own_seeds[: self.num_runs]) or [SEED_STRIDE * i for i in range(self.num_runs)]

    def at(self, scale: Scale) -> Study:
        """This study with the steps and runs that a scale allows."""
        steps = self.steps if scale.max_steps is None else min(self.steps, scale.max_steps)
        num_runs = self.num_runs if scale.max_runs is None else min(self.num_runs, scale.max_runs)
        return replace(self, steps=steps, num_runs=num_runs, window=min(self.window, steps))

    def file(self, setting: Setting) -> str:
        """The file of a configuration, relative to the folder of results."""
        return f"{self.key}/{setting_name(setting)}.parquet"

    def description(self, setting: Setting) -> str:
        """Everything that determines a run except its seed, as one line of JSON. Results with another description do not match."""
        about: dict[str, Any] = {
            "world": self.world,
            "algorithm": self.algorithm,
            "steps": self.steps,
            "window": self.window,
        }
        if self.world_settings:
            about["world_settings"] = dict(self.world_settings)
        return json.dumps({**about, "settings": {**self.fixed, **setting}}, sort_keys=True)


def setting_name(setting: Setting) -> str:
    """The permanent name of a configuration and of its file, for example "step_size=0.002,reward_ratio=2"."""
    return ",".join(f"{name}={_value_name(value)}" for name, value in setting.items())


def _value_name(value: Any) -> str:
    """A value as part of a file name: numbers with as few digits as identify them, a step-size schedule as "0.5~0.8"."""
    if isinstance(value, Mapping):
        return "~".join(map(_value_name, value.values()))
    if isinstance(value, list | tuple):
        return "+".join(map(_value_name, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return re.sub(r"[^\w.+-]", "_", str(value))
