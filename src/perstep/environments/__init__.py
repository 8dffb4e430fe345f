"""The worlds: continuing tasks, registered with Gymnasium under `perstep/`, and finite MDPs with exact answers."""

from __future__ import annotations

import gymnasium

from perstep.environments.access_control import access_control
from perstep.environments.exact import NotCommunicating, NotUnichain, PolicyEvaluation, Solution, policy_probabilities
from perstep.environments.far_rewards import long_chain, river_swim
from perstep.environments.garnet import garnet
from perstep.environments.gym_env import FiniteMDPEnv
from perstep.environments.mdp import FiniteMDP, GaussianRewards
from perstep.environments.operations import (
    inventory,
    maintenance,
    perishable_stock,
    recycling_robot,
    routing,
    service_queue,
    tandem_queue,
)
from perstep.environments.redpill import red_pill_blue_pill
from perstep.environments.risk import Frontier
from perstep.environments.two_loop import two_loop

__all__ = [
    "WORLDS",
    "FiniteMDP",
    "FiniteMDPEnv",
    "Frontier",
    "GaussianRewards",
    "NotCommunicating",
    "NotUnichain",
    "PolicyEvaluation",
    "Solution",
    "access_control",
    "garnet",
    "inventory",
    "long_chain",
    "maintenance",
    "perishable_stock",
    "policy_probabilities",
    "recycling_robot",
    "red_pill_blue_pill",
    "register",
    "river_swim",
    "routing",
    "service_queue",
    "tandem_queue",
    "two_loop",
]

_FINITE = "perstep.environments.gym_env:"
_PENDULUM = "perstep.environments.pendulum:PendulumEnv"
_MINATAR = "perstep.environments.minatar:MinAtarEnv"

WORLDS: dict[str, tuple[str, dict[str, str]]] = {
    "perstep/RedPillBluePill-v0": (_FINITE + "red_pill_blue_pill_env", {}),
    "perstep/TwoLoop-v0": (_FINITE + "two_loop_env", {}),
    "perstep/AccessControl-v0": (_FINITE + "access_control_env", {}),
    "perstep/InvertedPendulum-v0": (_PENDULUM, {"parameters": "inverted-pendulum"}),
    "perstep/PendulumSwingUp-v0": (_PENDULUM, {"parameters": "pendulum-swing-up"}),
    "perstep/Autoscaling-v0": ("perstep.environments.autoscaling:AutoscalingEnv", {}),
    "perstep/MinAtar-Asterix-v0": (_MINATAR, {"game": "asterix"}),
    "perstep/MinAtar-Breakout-v0": (_MINATAR, {"game": "breakout"}),
    "perstep/MinAtar-Freeway-v0": (_MINATAR, {"game": "freeway"}),
    "perstep/MinAtar-Seaquest-v0": (_MINATAR, {"game": "seaquest"}),
    "perstep/MinAtar-SpaceInvaders-v0": (_MINATAR, {"game": "space_invaders"}),
    "perstep/Atari-v0": ("perstep.environments.atari:AtariEnv", {"game": "breakout"}),
}
"""Gymnasium id → (entry point, keyword arguments) of each world."""


def register() -> None:
    """Register the worlds with Gymnasium, each at most once. They have no time limit, since they are continuing tasks."""
    for name, (entry_point, settings) in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, kwargs=dict(settings))


register()
