"""The paper's experiments as data (App. C): worlds, algorithms, grids, seeds, and the settings behind each figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perstep.inputs.errors import unknown
from perstep.rules.lattice import algorithm as algorithm_named
from perstep.rules.transition import RULES
from perstep.studies.study import Scale, Setting, Study

SCALES = {
    scale.name: scale
    for scale in (
        Scale(name="smoke", max_steps=200, max_runs=2),  # checks that everything runs
        Scale(name="small", max_steps=100_000, max_runs=5),  # the same figures with more noise
        Scale(name="paper", max_steps=None, max_runs=None),
    )
}

NUM_QUANTILES = (10, 51)


def _is_distributional(algorithm: str) -> bool:
    """Whether an algorithm learns quantiles of the reward."""
    return RULES[algorithm_named(algorithm).rule].has_reward_quantiles


def _grid(
    step_sizes: tuple[float, ...], reward_ratios: tuple[float, ...], algorithm: str, **more: tuple[float, ...]
) -> dict[str, tuple[float, ...]]:
    """α × η, the additional settings of a learner, and the number of quantiles for the distributional rules."""
    grid = {"step_size": step_sizes, "reward_ratio": reward_ratios, **more}
    return grid | ({"num_quantiles": NUM_QUANTILES} if _is_distributional(algorithm) else {})


def _red_pill(algorithm: str, tuned: Setting) -> Study:
    """50 runs of 100k steps, ε = 0.1, all initial estimates 0."""
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
        traced=traced if _is_distributional(algorithm) else None,
        traced_pair=(1, 1)
        if RULES[algorithm_named(algorithm).rule].has_return_quantiles
        else None,  # blue world, blue pill
    )


def _pendulum(algorithm: str, tuned: Setting) -> Study:
    """10 runs of 10k steps, 32 tilings of 8 × 8, λ = 1, all initial estimates 0; Fig. C.5 and C.6 show the tuned settings."""
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
        traced=tuned if _is_distributional(algorithm) else None,
    )


def _deep(algorithm: str) -> dict[str, Any]:
    """The initial average reward and the initial θ are 0.25; θ tracks the mean of a batch, as printed in the paper."""
    tracking = {"reward_tracking": "batch-mean"} if _is_distributional(algorithm) else {}
    return {
        "replay_capacity": 100_000,
        "learning_starts": 100,
        "batch_size": 32,
        "target_step_size": 0.005,
        "huber": 1.0,
        "initial_average_reward": 0.25,
        # Not given in the paper (docs/learners/deep-q.md): written out here, so that no run depends on a default.
        "initial_epsilon": 1.0,
        "epsilon": 0.05,
        "epsilon_steps": 50_000,
        "update_every": 4,
        "adam_epsilon": 1e-8,
        **tracking,
    }


def _atari(game: str, steps: int, algorithm: str, tuned: Setting) -> Study:
    """5 runs per configuration, as in the paper's tuning."""
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
    """Not in the paper: the experiment of Fig. 4 at a size for two cores. 8 runs of 300k steps with one configuration."""
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
    """The search that found the configuration of a MinAtar study: one run of 60k steps over a part of the paper's grid. Its seed
    is not one of the study's."""
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
    """A tuned configuration. Its names have the order of the grids, which is the order in file names."""
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

# Fig. 4: the nine tuned configurations, 8 runs each. The paper gives no number of steps for them, so it is that of the tuning.
ATARI_FIGURE_4 = tuple(
    replace(
        study,
        part=study.part.replace("atari", "atari-figure-4"),
        grid={name: (value,) for name, value in study.tuned.items()},
        num_runs=8,
    )
    for study in ATARI
)

# The paper's configuration in one of the paper's games, with as many steps as a machine without a GPU makes in an hour.
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


def scale_named(name: str) -> Scale:
    """The scale with this name; an unknown name raises an error that suggests the nearest one."""
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]
