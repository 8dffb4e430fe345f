"""The paper's experiments as data (App. C): worlds, algorithms, grids, seeds, and the settings behind each figure."""

from __future__ import annotations

import itertools
import json
import re
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
    """What the paper found best: these runs keep the reward rate of every window, others that of each hundredth of the run. Empty
    where nobody knows: then all runs keep it whole."""
    traced: Setting | None = None
    """What the paper shows the convergence of: these runs keep their quantiles over time."""
    traced_pair: tuple[int, int] | None = None
    """State and action whose return quantiles are traced."""
    world_settings: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of gymnasium.make."""
    own_seeds: tuple[int, ...] = ()
    """The seeds, where they are not to be the paper's; as many as runs."""

    @property
    def name(self) -> str:
        """As in "redpill/d2-q"."""
        return f"{self.part}/{self.algorithm}"

    @property
    def key(self) -> str:
        """What tells it from the others of its part, as in "d2-q" or "Breakout/d2-deep-q"; also its folder in the results."""
        return self.name.partition("/")[2]

    @property
    def game(self) -> str:
        """As in "Breakout" for a study of "atari/Breakout"; empty where all of a part is about one world."""
        return self.part.partition("/")[2]

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
        return list(self.own_seeds[: self.num_runs]) or [SEED_STRIDE * i for i in range(self.num_runs)]

    def at(self, scale: Scale) -> Study:
        """This study with fewer steps and runs."""
        steps = self.steps if scale.max_steps is None else min(self.steps, scale.max_steps)
        num_runs = self.num_runs if scale.max_runs is None else min(self.num_runs, scale.max_runs)
        return replace(self, steps=steps, num_runs=num_runs, window=min(self.window, steps))

    def description(self, setting: Setting) -> str:
        """All that decides a run besides its seed, as one line of JSON: results of another description are not ours."""
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
    """As in "step_size=0.002,reward_ratio=2": a configuration's name for ever, and its file's."""
    return ",".join(f"{name}={_value_name(value)}" for name, value in setting.items())


def _value_name(value: Any) -> str:
    """Numbers in few digits unless that would be another number; a falling step size as "0.5~0.8"; nothing a file may not have."""
    if isinstance(value, Mapping):
        return "~".join(map(_value_name, value.values()))
    if isinstance(value, list | tuple):
        return "+".join(map(_value_name, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return re.sub(r"[^\w.+-]", "_", str(value))


SCALES = {
    scale.name: scale
    for scale in (
        Scale(name="smoke", max_steps=200, max_runs=2),  # does everything run?
        Scale(name="small", max_steps=100_000, max_runs=5),  # the figures, with more noise
        Scale(name="paper", max_steps=None, max_runs=None),
    )
}

NUM_QUANTILES = (10, 51)


def _grid(
    step_sizes: tuple[float, ...], reward_ratios: tuple[float, ...], algorithm: str, **more: tuple[float, ...]
) -> dict[str, tuple[float, ...]]:
    """α × η, what a learner adds to them, and for the distributional rules the number of quantiles."""
    grid = {"step_size": step_sizes, "reward_ratio": reward_ratios, **more}
    return grid if algorithm.startswith("differential") else grid | {"num_quantiles": NUM_QUANTILES}


def _red_pill(algorithm: str, tuned: Setting) -> Study:
    """50 runs of 100k steps, ε = 0.1, all first guesses zero."""
    traced = {"step_size": 2e-4, "reward_ratio": 2.0, "num_quantiles": 10}
    return Study(
        part="redpill",
        algorithm=algorithm,
        world="perstep/RedPillBluePill-v0",
        grid=_grid((2e-5, 2e-4, 2e-3, 2e-2, 2e-1), (1e-3, 1e-2, 1e-1, 1.0, 2.0, 10.0, 100.0), algorithm),
        fixed={"epsilon": 0.1, "initial_average_reward": 0.0, "initial_value": 0.0},
        steps=100_000,
        num_runs=50,
        window=100,
        tuned=tuned,
        traced=None if algorithm.startswith("differential") else traced,
        traced_pair=(1, 1) if algorithm == "d3-q" else None,  # the blue world, the blue pill
    )


def _pendulum(algorithm: str, tuned: Setting) -> Study:
    """10 runs of 10k steps, 32 tilings of 8 × 8, λ = 1, all first guesses zero; Fig. C.5 and C.6 show the tuned settings."""
    policy_ratios = (1e-2, 1e-1, 1.0, 2.0, 10.0, 100.0)
    return Study(
        part="pendulum",
        algorithm=algorithm,
        world="perstep/InvertedPendulum-v0",
        grid=_grid((2e-4, 2e-3, 2e-2, 2e-1), (1e-3, 1e-2, 1e-1, 1.0, 2.0), algorithm, policy_ratio=policy_ratios),
        fixed={"tilings": 32, "tiles": 8, "huber": 1.0, "initial_average_reward": 0.0, "initial_value": 0.0},
        steps=10_000,
        num_runs=10,
        window=100,
        tuned=tuned,
        traced=None if algorithm.startswith("differential") else tuned,
    )


def _deep(algorithm: str) -> dict[str, Any]:
    """The first guess of the average reward and of θ is 0.25; θ follows the mean of a batch, as printed."""
    tracking = {} if algorithm.startswith("differential") else {"reward_tracking": "batch-mean"}
    return {
        "replay_capacity": 100_000,
        "learning_starts": 100,
        "batch_size": 32,
        "target_step_size": 0.005,
        "huber": 1.0,
        "initial_average_reward": 0.25,
        # What the paper does not say (docs/learners/deep-q.md): here by name, so that no run hangs on a default.
        "initial_epsilon": 1.0,
        "epsilon": 0.05,
        "epsilon_steps": 50_000,
        "update_every": 4,
        "adam_epsilon": 1e-8,
        **tracking,
    }


def _atari(game: str, steps: int, algorithm: str, tuned: Setting) -> Study:
    """5 runs for the tuning."""
    return Study(
        part=f"atari/{game}",
        algorithm=algorithm,
        world=f"ALE/{game}-v5",
        grid=_grid((2e-6, 2e-5, 2e-4, 2e-3), (1e-2, 1e-1, 1.0, 2.0, 10.0, 100.0), algorithm),
        fixed=_deep(algorithm),
        steps=steps,
        num_runs=5,
        window=100,
        tuned=tuned,
    )


def _minatar(game: str, algorithm: str, tuned: Setting) -> Study:
    """Ours: what the Atari games are to a cluster, these are to two cores. 8 runs of 300k steps with one setting."""
    return Study(
        part=f"minatar/{game}",
        algorithm=algorithm,
        world=f"perstep/MinAtar-{game}-v0",
        grid={name: (value,) for name, value in tuned.items()},
        fixed={**_deep(algorithm), "epsilon_steps": 25_000, "update_every": 8},
        steps=300_000,
        num_runs=8,
        window=1000,
        tuned=tuned,
    )


def _tuning(study: Study) -> Study:
    """How the setting of a MinAtar study was found: one run of 60k steps, of another seed than its own, over a part of the
    paper's grid."""
    quantiles = {name: values for name, values in study.grid.items() if name == "num_quantiles"}
    return replace(
        study,
        part=study.part.replace("minatar", "minatar-tuning"),
        grid={"step_size": (2e-4, 2e-3), "reward_ratio": (1.0, 10.0), **quantiles},
        steps=60_000,
        num_runs=1,
        own_seeds=(500,),
        tuned={},
    )


def _setting(
    step_size: float, reward_ratio: float, num_quantiles: int | None = None, *, policy_ratio: float | None = None
) -> Setting:
    """A tuned setting, in the order of the grids, which is that of file names."""
    values = {"step_size": step_size, "reward_ratio": reward_ratio, "policy_ratio": policy_ratio}
    return {name: value for name, value in (values | {"num_quantiles": num_quantiles}).items() if value is not None}


REDPILL = (
    _red_pill("differential-q", _setting(2e-3, 2.0)),  # 35 configurations
    _red_pill("d2-q", _setting(2e-3, 2.0, 51)),  # 70
    _red_pill("d3-q", _setting(2e-2, 2.0, 51)),  # 70
)

PENDULUM = (
    _pendulum("differential-actor-critic", _setting(2e-2, 1e-2, policy_ratio=0.1)),  # 120
    _pendulum("d2-actor-critic", _setting(2e-2, 1e-1, 10, policy_ratio=0.1)),  # 240
    _pendulum("d3-actor-critic", _setting(2e-1, 1e-3, 10, policy_ratio=0.1)),  # 240
)

ATARI = (
    _atari("Breakout", 1_000_000, "differential-deep-q", _setting(2e-5, 10.0)),  # 24, the first column of Table C.1
    _atari("Breakout", 1_000_000, "d2-deep-q", _setting(2e-5, 100.0, 10)),  # 48, C.2
    _atari("Breakout", 1_000_000, "d3-deep-q", _setting(2e-5, 100.0, 51)),  # 48, C.3
    _atari("BeamRider", 1_000_000, "differential-deep-q", _setting(2e-6, 1e-2)),
    _atari("BeamRider", 1_000_000, "d2-deep-q", _setting(2e-3, 100.0, 10)),
    _atari("BeamRider", 1_000_000, "d3-deep-q", _setting(2e-4, 1.0, 51)),
    _atari("Freeway", 3_000_000, "differential-deep-q", _setting(2e-3, 10.0)),
    _atari("Freeway", 3_000_000, "d2-deep-q", _setting(2e-5, 2.0, 10)),
    _atari("Freeway", 3_000_000, "d3-deep-q", _setting(2e-5, 2.0, 51)),
)

MINATAR = (
    _minatar("Breakout", "differential-deep-q", _setting(2e-3, 1.0)),
    _minatar("Breakout", "d2-deep-q", _setting(2e-3, 1.0, 10)),
    _minatar("Breakout", "d3-deep-q", _setting(2e-3, 10.0, 51)),
    _minatar("Freeway", "differential-deep-q", _setting(2e-3, 10.0)),
    _minatar("Freeway", "d2-deep-q", _setting(2e-3, 10.0, 10)),
    _minatar("Freeway", "d3-deep-q", _setting(2e-3, 1.0, 51)),
)

MINATAR_TUNING = tuple(map(_tuning, MINATAR))

# The paper's setting in the paper's game, as far as a machine without a GPU comes in an hour.
ATARI_SHORT = tuple(
    replace(
        study,
        part="atari-short/Breakout",
        grid={name: (value,) for name, value in study.tuned.items()},
        steps=200_000,
        num_runs=1,
    )
    for study in ATARI[:3]
)

STUDIES = {study.name: study for study in (*REDPILL, *PENDULUM, *ATARI, *MINATAR, *MINATAR_TUNING, *ATARI_SHORT)}


def scale_named(name: str) -> Scale:
    """The scale with this name."""
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]
