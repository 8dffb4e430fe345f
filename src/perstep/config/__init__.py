"""The settings of agents: frozen, a line of documentation under each, impossible values refused with a sentence."""

from perstep.config.checks import choice, count, naming, number, switch
from perstep.config.learner import ActionValueConfig, AgentConfig, LearnerConfig
from perstep.config.networks import DeepQConfig
from perstep.config.planner import PlannerConfig
from perstep.config.tables import QLearningConfig, TDLearningConfig
from perstep.config.tiles import ActorCriticConfig, TileConfig, TileQConfig

__all__ = [
    "ActionValueConfig",
    "ActorCriticConfig",
    "AgentConfig",
    "DeepQConfig",
    "LearnerConfig",
    "PlannerConfig",
    "QLearningConfig",
    "TDLearningConfig",
    "TileConfig",
    "TileQConfig",
    "choice",
    "count",
    "naming",
    "number",
    "switch",
]
