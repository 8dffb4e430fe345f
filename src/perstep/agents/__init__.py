"""What people hold: agents with the same verbs, whatever their learner."""

from perstep.agents.agent import Agent
from perstep.agents.deep_q import DeepQ
from perstep.agents.evaluation import Evaluation, Snapshot
from perstep.agents.files import load
from perstep.agents.lattice import make_agent
from perstep.agents.parallel_learning import learn_together
from perstep.agents.planner import Planner
from perstep.agents.tables import QLearning, TDLearning
from perstep.agents.tiles import ActorCritic, TileQ

__all__ = [
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
]
