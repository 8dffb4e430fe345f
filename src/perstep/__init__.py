"""perstep: reinforcement learning in tasks that never end, with the whole long-run distribution of the reward per step."""

from perstep.agents import (
    ActorCritic,
    Agent,
    DeepQ,
    Evaluation,
    QLearning,
    Snapshot,
    TDLearning,
    TileQ,
    learn_together,
    load,
    make_agent,
)
from perstep.agents.callbacks import CheckpointCallback, EvalCallback, EveryCallback
from perstep.agents.doubts import Doubt, DoubtWarning
from perstep.algorithms import ALGORITHMS
from perstep.comparison import Comparison, compare
from perstep.distribution import Distribution, ThinTail
from perstep.environments import FiniteMDP, GaussianRewards
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
    "Forecast",
    "GaussianRewards",
    "QLearning",
    "Snapshot",
    "TDLearning",
    "ThinTail",
    "TileQ",
    "WorldCheck",
    "assumptions",
    "check_world",
    "compare",
    "learn_together",
    "load",
    "make_agent",
]
