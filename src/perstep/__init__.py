"""perstep: reinforcement learning in tasks that never end, with the whole long-run distribution of the reward per step."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from perstep.worlds.registry import register

if TYPE_CHECKING:
    from perstep.agent.agent import Agent
    from perstep.agent.callbacks import (
        CheckpointCallback,
        EvalCallback,
        EveryCallback,
        TensorBoardCallback,
        WandbCallback,
    )
    from perstep.agent.checks import Finding, FindingWarning
    from perstep.agent.comparison import Comparison, compare
    from perstep.agent.evaluation import Evaluation, Snapshot
    from perstep.agent.files import load
    from perstep.agent.making import make_agent
    from perstep.agent.together import learn_together
    from perstep.agent.world_check import WorldCheck, check_world
    from perstep.deep.agent import DeepQ
    from perstep.deep.continuous.agent import SoftActorCritic
    from perstep.distributions.distribution import Distribution, ThinTail
    from perstep.distributions.forecast import Forecast
    from perstep.gym.wrappers import FollowPolicy
    from perstep.mdp.mdp import FiniteMDP, GaussianRewards
    from perstep.numerics.schedules import Decay, assumptions
    from perstep.planning.agent import Planner
    from perstep.rules.lattice import ALGORITHMS
    from perstep.tabular.agent import QLearning, TDLearning
    from perstep.tiles.agent import ActorCritic, TileQ

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
    "EvalCallback",
    "Evaluation",
    "EveryCallback",
    "Finding",
    "FindingWarning",
    "FiniteMDP",
    "FollowPolicy",
    "Forecast",
    "GaussianRewards",
    "Planner",
    "QLearning",
    "Snapshot",
    "SoftActorCritic",
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
    "perstep.agent.agent": ("Agent",),
    "perstep.agent.callbacks": (
        "CheckpointCallback",
        "EvalCallback",
        "EveryCallback",
        "TensorBoardCallback",
        "WandbCallback",
    ),
    "perstep.agent.checks": (
        "Finding",
        "FindingWarning",
    ),
    "perstep.agent.comparison": (
        "Comparison",
        "compare",
    ),
    "perstep.agent.evaluation": (
        "Evaluation",
        "Snapshot",
    ),
    "perstep.agent.files": ("load",),
    "perstep.agent.making": ("make_agent",),
    "perstep.agent.together": ("learn_together",),
    "perstep.agent.world_check": (
        "WorldCheck",
        "check_world",
    ),
    "perstep.deep.agent": ("DeepQ",),
    "perstep.deep.continuous.agent": ("SoftActorCritic",),
    "perstep.distributions.distribution": (
        "Distribution",
        "ThinTail",
    ),
    "perstep.distributions.forecast": ("Forecast",),
    "perstep.gym.wrappers": ("FollowPolicy",),
    "perstep.mdp.mdp": (
        "FiniteMDP",
        "GaussianRewards",
    ),
    "perstep.numerics.schedules": (
        "Decay",
        "assumptions",
    ),
    "perstep.planning.agent": ("Planner",),
    "perstep.rules.lattice": ("ALGORITHMS",),
    "perstep.tabular.agent": (
        "QLearning",
        "TDLearning",
    ),
    "perstep.tiles.agent": (
        "ActorCritic",
        "TileQ",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is: help, errors and other tools need not wait for a compiler."""
    if name in _HOME:
        found = getattr(importlib.import_module(_HOME[name]), name)
    elif not name.startswith("_") and importlib.util.find_spec(f"perstep.{name}") is not None:
        found = importlib.import_module(f"perstep.{name}")
    else:
        from perstep.inputs.synonyms import class_hint

        hint = f" {found}" if (found := class_hint(name)) else ""
        raise AttributeError(f"perstep has no {name!r}.{hint} It has: {', '.join(__all__)}.")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
