"""The worlds that Gymnasium knows after `import perstep`. Each is imported only when it is made."""

from __future__ import annotations

import gymnasium

_FINITE = "perstep.environments.gym_env:finite_env"
_PENDULUM = "perstep.environments.pendulum:PendulumEnv"
_MINATAR = "perstep.environments.minatar:MinAtarEnv"

_ENDLESS = "perstep.environments.wrappers:endless_env"

WORLDS: dict[str, tuple[str, dict[str, str | float]]] = {
    "perstep/RedPillBluePill-v0": (_FINITE, {"world": "red_pill_blue_pill"}),
    "perstep/TwoLoop-v0": (_FINITE, {"world": "two_loop"}),
    "perstep/AccessControl-v0": (_FINITE, {"world": "access_control"}),
    "perstep/AdmissionControl-v0": (_FINITE, {"world": "admission_control"}),
    "perstep/Catch-v0": (_FINITE, {"world": "catch"}),
    "perstep/CrissCross-v0": (_FINITE, {"world": "criss_cross"}),
    "perstep/Inventory-v0": (_FINITE, {"world": "inventory"}),
    "perstep/LongChain-v0": (_FINITE, {"world": "long_chain"}),
    "perstep/Maintenance-v0": (_FINITE, {"world": "maintenance"}),
    "perstep/MultiItemInventory-v0": (_FINITE, {"world": "multi_item_inventory"}),
    "perstep/PerishableStock-v0": (_FINITE, {"world": "perishable_stock"}),
    "perstep/RecyclingRobot-v0": (_FINITE, {"world": "recycling_robot"}),
    "perstep/RiverSwim-v0": (_FINITE, {"world": "river_swim"}),
    "perstep/Routing-v0": (_FINITE, {"world": "routing"}),
    "perstep/ServiceQueue-v0": (_FINITE, {"world": "service_queue"}),
    "perstep/SixArms-v0": (_FINITE, {"world": "six_arms"}),
    "perstep/TandemQueue-v0": (_FINITE, {"world": "tandem_queue"}),
    "perstep/InvertedPendulum-v0": (_PENDULUM, {"parameters": "inverted-pendulum"}),
    "perstep/PendulumSwingUp-v0": (_PENDULUM, {"parameters": "pendulum-swing-up"}),
    "perstep/PuckWorld-v0": ("perstep.environments.puck_world:PuckWorldEnv", {}),
    # Their rewards are the same in every step, so an end must cost or earn something.
    "perstep/CartPole-v0": (_ENDLESS, {"name": "CartPole-v1", "reset_cost": 10.0}),
    "perstep/MountainCar-v0": (_ENDLESS, {"name": "MountainCar-v0", "reset_cost": -100.0}),
    "perstep/Acrobot-v0": (_ENDLESS, {"name": "Acrobot-v1", "reset_cost": -100.0}),
    "perstep/Autoscaling-v0": ("perstep.environments.autoscaling:AutoscalingEnv", {}),
    "perstep/MinAtar-Asterix-v0": (_MINATAR, {"game": "asterix"}),
    "perstep/MinAtar-Breakout-v0": (_MINATAR, {"game": "breakout"}),
    "perstep/MinAtar-Freeway-v0": (_MINATAR, {"game": "freeway"}),
    "perstep/MinAtar-Seaquest-v0": (_MINATAR, {"game": "seaquest"}),
    "perstep/MinAtar-SpaceInvaders-v0": (_MINATAR, {"game": "space_invaders"}),
    "perstep/Atari-v0": ("perstep.environments.atari:AtariEnv", {"game": "breakout"}),
}
"""Gymnasium id → (entry point, keyword arguments) of each world."""
FINITE_WORLDS = {str(settings["world"]) for entry_point, settings in WORLDS.values() if entry_point == _FINITE}
"""The functions of `perstep.environments` that return the registered finite worlds."""


def register() -> None:
    """Register the worlds with Gymnasium, each at most once. They have no time limit, since they are continuing tasks."""
    for name, (entry_point, settings) in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, kwargs=dict(settings))


register()
