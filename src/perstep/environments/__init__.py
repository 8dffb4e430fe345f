"""The worlds: continuing tasks, registered with Gymnasium under `perstep/`, and finite MDPs with exact answers."""

from __future__ import annotations

from perstep.environments.access_control import access_control
from perstep.environments.catch import catch
from perstep.environments.evaluation import NotUnichain, PolicyEvaluation
from perstep.environments.far_rewards import long_chain, river_swim, six_arms
from perstep.environments.garnet import garnet
from perstep.environments.gym_env import FiniteMDPEnv
from perstep.environments.mdp import FiniteMDP, GaussianRewards
from perstep.environments.operations import (
    inventory,
    maintenance,
    multi_item_inventory,
    perishable_stock,
    recycling_robot,
    routing,
    service_queue,
    tandem_queue,
)
from perstep.environments.policy_tables import policy_probabilities
from perstep.environments.queue_networks import admission_control, criss_cross
from perstep.environments.redpill import red_pill_blue_pill
from perstep.environments.risk import Frontier
from perstep.environments.solving import NotCommunicating, Solution
from perstep.environments.two_loop import two_loop
from perstep.environments.wrappers import FollowPolicy, Teleport, endless, without_time_limit
from perstep.registration import WORLDS, register

__all__ = [
    "WORLDS",
    "FiniteMDP",
    "FiniteMDPEnv",
    "FollowPolicy",
    "Frontier",
    "GaussianRewards",
    "NotCommunicating",
    "NotUnichain",
    "PolicyEvaluation",
    "Solution",
    "Teleport",
    "access_control",
    "admission_control",
    "catch",
    "criss_cross",
    "endless",
    "garnet",
    "inventory",
    "long_chain",
    "maintenance",
    "multi_item_inventory",
    "perishable_stock",
    "policy_probabilities",
    "recycling_robot",
    "red_pill_blue_pill",
    "register",
    "river_swim",
    "routing",
    "service_queue",
    "six_arms",
    "tandem_queue",
    "two_loop",
    "without_time_limit",
]
