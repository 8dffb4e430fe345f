"""perstep: reinforcement learning in tasks that never end, with the whole long-run distribution of the reward per step."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from perstep.registration import register

if TYPE_CHECKING:
    from perstep.agents import (
        ActorCritic,
        Agent,
        DeepQ,
        Evaluation,
        Planner,
        QLearning,
        Snapshot,
        TDLearning,
        TileQ,
        learn_together,
        load,
        make_agent,
    )
    from perstep.agents.callbacks import (
        CheckpointCallback,
        EvalCallback,
        EveryCallback,
        TensorBoardCallback,
        WandbCallback,
    )
    from perstep.agents.doubts import Doubt, DoubtWarning
    from perstep.algorithms import ALGORITHMS
    from perstep.comparison import Comparison, compare
    from perstep.distribution import Distribution, ThinTail
    from perstep.environments import FiniteMDP, FollowPolicy, GaussianRewards
    from perstep.forecast import Forecast
    from perstep.schedules import Decay, assumptions
    from perstep.world_check import WorldCheck, check_world

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "ActorCritic",
    "Agent",
    "CheckpointCallback",
    "Comparison",
    "Decay",
    "DeepQ",
    "Distribution",
    "Doubt",
    "DoubtWarning",
    "EvalCallback",
    "Evaluation",
    "EveryCallback",
    "FiniteMDP",
    "FollowPolicy",
    "Forecast",
    "GaussianRewards",
    "Planner",
    "QLearning",
    "Snapshot",
    "TDLearning",
    "TensorBoardCallback",
    "ThinTail",
    "TileQ",
    "WandbCallback",
    "WorldCheck",
    "assumptions",
    "check_world",
    "compare",
    "learn_together",
    "load",
    "make_agent",
]

_HOMES = {
    "perstep.agents": (
        "ActorCritic",
        "Agent",
        "DeepQ",
        "Evaluation",
        "Planner",
        "QLearning",
        "Snapshot",
        "TDLearning",
        "TileQ",
        "learn_together",
        "load",
        "make_agent",
    ),
    "perstep.agents.callbacks": (
        "CheckpointCallback",
        "EvalCallback",
        "EveryCallback",
        "TensorBoardCallback",
        "WandbCallback",
    ),
    "perstep.agents.doubts": ("Doubt", "DoubtWarning"),
    "perstep.algorithms": ("ALGORITHMS",),
    "perstep.comparison": ("Comparison", "compare"),
    "perstep.distribution": ("Distribution", "ThinTail"),
    "perstep.environments": ("FiniteMDP", "FollowPolicy", "GaussianRewards"),
    "perstep.forecast": ("Forecast",),
    "perstep.schedules": ("Decay", "assumptions"),
    "perstep.world_check": ("WorldCheck", "check_world"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is: help, errors and other tools need not wait for a compiler."""
    if name in _HOME:
        found = getattr(importlib.import_module(_HOME[name]), name)
    elif not name.startswith("_") and importlib.util.find_spec(f"perstep.{name}") is not None:
        found = importlib.import_module(f"perstep.{name}")
    else:
        from perstep.habits import class_hint

        hint = f" {found}" if (found := class_hint(name)) else ""
        raise AttributeError(f"perstep has no {name!r}.{hint} It has: {', '.join(__all__)}.")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
