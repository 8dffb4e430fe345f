"""The paper's experiments as data (App. C): worlds, algorithms, grids, seeds, and the settings behind each figure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perstep.errors import unknown

Setting = Mapping[str, float]
"""A value for each name in a grid: one configuration."""

SEED_STRIDE = 1000  # run i is seeded 1000·i, as the authors do


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of the paper's effort to spend; the grid is never thinned."""

    name: str
    max_steps: int | None
    """Steps of a run at most; None for the paper's."""
    max_runs: int | None
    """Runs of a configuration at most; None for the paper's."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One algorithm in one world over a grid of settings."""

    part: str
    """The part of the paper: what `perstep reproduce` is asked for."""
    algorithm: str
    """A name of perstep.ALGORITHMS."""
    world: str
    """A Gymnasium id."""
    grid: Mapping[str, tuple[float, ...]]
    """The values tried for each setting; all combinations run."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """The settings that all configurations share."""
    steps: int
    """Of a run."""
    num_runs: int
    """Of a configuration, each with a seed of its own."""
    window: int
    """Steps over which a reward rate is taken; divides `steps`."""
    tuned: Setting
    """What the paper found best: these runs keep their reward rate over time."""
    traced: Setting | None = None
    """What the paper shows the convergence of: these runs keep their quantiles over time."""
    traced_pair: tuple[int, int] | None = None
    """State and action whose return quantiles are traced."""

    @property
    def name(self) -> str:
        """As in "redpill/d2-q"."""
        return f"{self.part}/{self.algorithm}"

    @property
    def rule(self) -> str:
        """The algorithm's rule."""
        return self.algorithm.partition("-")[0]

    @property
    def settings(self) -> list[Setting]:
        """All combinations of the grid, the last name varying fastest."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    @property
    def seeds(self) -> list[int]:
        """One a run."""
        return [SEED_STRIDE * i for i in range(self.num_runs)]

    def at(self, scale: Scale) -> Study:
        """This study with fewer steps and runs."""
        steps = self.steps if scale.max_steps is None else min(self.steps, scale.max_steps)
        num_runs = self.num_runs if scale.max_runs is None else min(self.num_runs, scale.max_runs)
        return replace(self, steps=steps, num_runs=num_runs)

    def description(self, setting: Setting) -> str:
        """All that decides a run besides its seed, as one line of JSON: results of another description are not ours."""
        about = {"world": self.world, "algorithm": self.algorithm, "steps": self.steps, "window": self.window}
        return json.dumps({**about, "settings": {**self.fixed, **setting}}, sort_keys=True)


def setting_name(setting: Setting) -> str:
    """As in "step_size=0.002,reward_ratio=2": a configuration's name for ever, and its file's."""
    return ",".join(f"{name}={value:g}" for name, value in setting.items())


SCALES = {
    scale.name: scale
    for scale in (
        Scale(name="smoke", max_steps=200, max_runs=2),  # does everything run?
        Scale(name="small", max_steps=100_000, max_runs=5),  # the figures, with more noise
        Scale(name="paper", max_steps=None, max_runs=None),
    )
}

STEP_SIZES = (2e-5, 2e-4, 2e-3, 2e-2, 2e-1)
REWARD_RATIOS = (1e-3, 1e-2, 1e-1, 1.0, 2.0, 10.0, 100.0)
NUM_QUANTILES = (10, 51)


def _red_pill(algorithm: str, tuned_step_size: float, *, quantiles: bool) -> Study:
    """50 runs of 100k steps, ε = 0.1, all first guesses zero. The three differ in quantiles and the tuned step size only."""
    grid: dict[str, tuple[float, ...]] = {"step_size": STEP_SIZES, "reward_ratio": REWARD_RATIOS}
    tuned: dict[str, float] = {"step_size": tuned_step_size, "reward_ratio": 2.0}
    traced: dict[str, float] = {"step_size": 2e-4, "reward_ratio": 2.0, "num_quantiles": 10}
    return Study(
        part="redpill",
        algorithm=algorithm,
        world="perstep/RedPillBluePill-v0",
        grid=grid | {"num_quantiles": NUM_QUANTILES} if quantiles else grid,
        fixed={"epsilon": 0.1, "initial_average_reward": 0.0, "initial_value": 0.0},
        steps=100_000,
        num_runs=50,
        window=100,
        tuned=tuned | {"num_quantiles": 51} if quantiles else tuned,
        traced=traced if quantiles else None,
        traced_pair=(1, 1) if algorithm == "d3-q" else None,  # the blue world, the blue pill
    )


REDPILL = (
    _red_pill("differential-q", 2e-3, quantiles=False),  # 35 configurations
    _red_pill("d2-q", 2e-3, quantiles=True),  # 70
    _red_pill("d3-q", 2e-2, quantiles=True),  # 70
)

STUDIES = {study.name: study for study in REDPILL}


def scale_named(name: str) -> Scale:
    """The scale with this name."""
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]
