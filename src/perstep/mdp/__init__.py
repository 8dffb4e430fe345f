"""Finite MDPs: given by arrays, sampled in compiled code, evaluated and solved exactly, with names for states and actions."""

from perstep.mdp.env import FiniteMDPEnv
from perstep.mdp.evaluation import NotUnichain, PolicyEvaluation
from perstep.mdp.mdp import FiniteMDP, GaussianRewards
from perstep.mdp.policy_tables import policy_probabilities
from perstep.mdp.risk import Frontier
from perstep.mdp.solving import NotCommunicating, Solution

__all__ = [
    "FiniteMDP",
    "FiniteMDPEnv",
    "Frontier",
    "GaussianRewards",
    "NotCommunicating",
    "NotUnichain",
    "PolicyEvaluation",
    "Solution",
    "policy_probabilities",
]
