"""The defaults of every learner: what `preset` stands for, before any setting that is named.

"steady" is the default, for a world that stays as it is. "changing" follows a world that changes. "paper" is the paper's
algorithms as printed, with constant steps in units of 1; it is what the fields of the settings say (settings.py of each
learner). How the numbers were chosen: docs/defaults.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perstep.numerics.schedules import Decay

PRESETS = ("steady", "changing", "paper")
DEFAULT = "steady"

Settings = Mapping[str, Any]

EVERYWHERE: Settings = {"scale_free": True, "initial_average_reward": None}

TABLES: Settings = {
    "step_size": Decay(1.0, 0.8, 10.0),
    "reward_ratio": "auto",
    "offset_ratio": "auto",
    "return_mean": "delta",
    "forecast": True,
}
CHANGING_TABLES: Settings = {"step_size": Decay(0.1, 0.0)}

NETWORKS: Settings = {
    "reset_cost": "auto",
    "reward_tracking": "stream",
    "reward_ratio": None,
    "reward_step_size": Decay(1.0, 0.5),
    "average_step_size": Decay(0.03, 1.0, 100.0),
    "level_ratio": 0.01,
    "target_step_size": None,
    "target_lag": 80.0,
    "step_size": Decay(5e-4, 0.5, 5_000.0),
    "large_network_ratio": 0.2,
    "grid_network_ratio": 2.5,
    "gradient_clip": 10.0,
    "greedy_network": "online",
    "return_steps": 3,
    "hidden": (256, 256),
    "batch_size": 64,
    "learning_starts": 1_000,
    "epsilon": 0.02,
    "epsilon_steps": 10_000,
    "longest_repeat": 64,
    "inputs": "standardized",
    "precision": "auto",
    "forecast": True,
}
CONTINUOUS: Settings = {
    **{
        name: NETWORKS[name]
        for name in ("reset_cost", "reward_ratio", "reward_step_size", "average_step_size", "inputs", "forecast")
    },
    "learning_starts": 1_000,
    "initial_temperature": 0.02,
    "normalization": "layer",
    "precision": "medium",
}
CHANGING_NETWORKS: Settings = {
    "step_size": Decay(2e-4, 0.0),
    "reward_step_size": Decay(0.005, 0.0),
    "average_step_size": Decay(0.001, 0.0),
}

TILES: Settings = {
    "reset_cost": "auto",
    "reward_ratio": None,
    "reward_step_size": Decay(1.0, 0.5),
    "return_mean": "delta",
    "divide_by_tilings": True,
    "tiles": "auto",
    "trace_decay": 0.7,
    "optimism": 1.0,
    "forecast": True,
}
CHANGING_TILES: Settings = {
    "reward_ratio": None,
    "reward_step_size": Decay(0.005, 0.0),
    "average_step_size": Decay(0.01, 0.0),
}

STEADY: Mapping[str, Settings] = {
    "TDLearningConfig": TABLES,
    "QLearningConfig": {**TABLES, "epsilon": Decay(1.0, 0.5, 1.0), "reset_cost": "auto"},
    "DeepQConfig": NETWORKS,
    "SoftActorCriticConfig": CONTINUOUS,
    "ActorCriticConfig": {
        **TILES,
        "step_size": Decay(0.4, 0.5, 50_000.0),
        "policy_ratio": 0.6,
        "average_step_size": Decay(0.1, 1.0, 100.0),
        "optimism_delay": 100_000.0,
    },
    "TileQConfig": {
        **TILES,
        "step_size": Decay(0.3, 0.5, 50_000.0),
        "bootstrap": "sampled",
        "average_step_size": Decay(0.03, 1.0, 100.0),
        "trace_decay": 0.9,
        "epsilon": 0.1,
        "epsilon_delay": 10_000.0,
        "optimism_delay": 10_000.0,
    },
}
CHANGING: Mapping[str, Settings] = {
    "PlannerConfig": {"memory": 10_000.0},
    "TDLearningConfig": CHANGING_TABLES,
    "QLearningConfig": {**CHANGING_TABLES, "epsilon": 0.05},
    "DeepQConfig": CHANGING_NETWORKS,
    "SoftActorCriticConfig": CHANGING_NETWORKS,
    "ActorCriticConfig": {**CHANGING_TILES, "step_size": 0.15},
    "TileQConfig": {**CHANGING_TILES, "step_size": 0.3, "epsilon": 0.05, "epsilon_delay": None},
}

WITHOUT_TRACES: Mapping[str, Mapping[str, Settings]] = {
    "steady": {
        "ActorCriticConfig": {"step_size": Decay(0.8, 0.5, 20_000.0), "policy_ratio": 0.3},
        "TileQConfig": {"step_size": Decay(0.6, 0.5, 50_000.0)},
    },
    "changing": {"ActorCriticConfig": {"step_size": 0.3, "policy_ratio": 0.3}},
}
"""Steps for λ = 0: a single δ has about half the variance of a sum of them."""


def defaults(config: str, preset: str) -> dict[str, Any]:
    """The settings of a preset for the config class with this name, where they are not those of the paper."""
    if preset == "paper" or config not in {*STEADY, *CHANGING}:
        return {}
    changed = CHANGING.get(config, {}) if preset == "changing" else {}
    return {**(EVERYWHERE if config in STEADY else {}), **STEADY.get(config, {}), **changed}
