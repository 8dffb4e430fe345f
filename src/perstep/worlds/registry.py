"""The worlds that Gymnasium knows after `import perstep`. Each is imported only when it is made."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import gymnasium

from perstep.inputs.checks import choice
from perstep.inputs.errors import unknown

if TYPE_CHECKING:
    from perstep.mdp.env import FiniteMDPEnv

_FINITE = "perstep.worlds.registry:finite_env"
_PENDULUM = "perstep.worlds.pendulum:PendulumEnv"
_MINATAR = "perstep.worlds.minatar:MinAtarEnv"

_ENDLESS = "perstep.gym.wrappers:endless_env"


class World(NamedTuple):
    """How a world is made, and what it is."""

    entry_point: str
    settings: dict[str, str | float]
    description: str


WORLDS: dict[str, World] = {
    "perstep/RedPillBluePill-v0": World(
        _FINITE,
        {"world": "red_pill_blue_pill"},
        "two states: steady rewards, or bimodal ones that are better on average (the paper's first)",
    ),
    "perstep/TwoLoop-v0": World(
        _FINITE, {"world": "two_loop"}, "nine states in two loops: the larger reward takes more steps"
    ),
    "perstep/AccessControl-v0": World(
        _FINITE, {"world": "access_control"}, "ten servers and customers of four priorities: which customers to reject"
    ),
    "perstep/AdmissionControl-v0": World(
        _FINITE, {"world": "admission_control"}, "a queue with holding costs that may reject customers"
    ),
    "perstep/Catch-v0": World(_FINITE, {"world": "catch"}, "balls fall one after the other, and a paddle catches them"),
    "perstep/CrissCross-v0": World(
        _FINITE, {"world": "criss_cross"}, "three classes of customers, two servers: whom to serve first"
    ),
    "perstep/Inventory-v0": World(
        _FINITE, {"world": "inventory"}, "order stock at a fixed cost per order, with lost sales"
    ),
    "perstep/LongChain-v0": World(
        _FINITE, {"world": "long_chain"}, "every step looks like a loss until the end of the chain is found"
    ),
    "perstep/Maintenance-v0": World(_FINITE, {"world": "maintenance"}, "run, repair or replace a machine"),
    "perstep/MultiItemInventory-v0": World(
        _FINITE, {"world": "multi_item_inventory"}, "items that share the cost of an order"
    ),
    "perstep/PerishableStock-v0": World(
        _FINITE, {"world": "perishable_stock"}, "order stock that spoils after three days"
    ),
    "perstep/RecyclingRobot-v0": World(_FINITE, {"world": "recycling_robot"}, "search, wait or recharge"),
    "perstep/RiverSwim-v0": World(
        _FINITE, {"world": "river_swim"}, "swim up a river: random actions almost never reach the large reward"
    ),
    "perstep/Routing-v0": World(_FINITE, {"world": "routing"}, "a dispatcher before a fast and a slow server"),
    "perstep/ServiceQueue-v0": World(
        _FINITE, {"world": "service_queue"}, "the service rate of a queue with holding costs"
    ),
    "perstep/SixArms-v0": World(
        _FINITE, {"world": "six_arms"}, "the best arm pays 6000 per step, and the way to it takes a hundred"
    ),
    "perstep/TandemQueue-v0": World(_FINITE, {"world": "tandem_queue"}, "the first of two queues in a row"),
    "perstep/InvertedPendulum-v0": World(
        _PENDULUM, {"parameters": "inverted-pendulum"}, "keep a rod upright (the paper's second)"
    ),
    "perstep/PendulumSwingUp-v0": World(
        _PENDULUM,
        {"parameters": "pendulum-swing-up"},
        "swing the rod up with a motor that is too weak to lift it directly",
    ),
    "perstep/ContinuousInvertedPendulum-v0": World(
        _PENDULUM,
        {"parameters": "inverted-pendulum", "motor": "continuous"},
        "keep a rod upright with any torque up to the largest",
    ),
    "perstep/ContinuousPendulumSwingUp-v0": World(
        _PENDULUM,
        {"parameters": "pendulum-swing-up", "motor": "continuous"},
        "swing the rod up with any torque up to the largest",
    ),
    "perstep/PuckWorld-v0": World(
        "perstep.worlds.puck_world:PuckWorldEnv",
        {},
        "a puck that is pushed towards a target, which jumps to another place now and then",
    ),
    "perstep/LinearQuadratic-v0": World(
        "perstep.worlds.linear_quadratic:LinearQuadraticEnv",
        {"dimensions": 2},
        "push a state back to 0 against noise, with actions that are vectors; the optimum is known exactly",
    ),
    "perstep/EnergyStorage-v0": World(
        "perstep.worlds.storage:EnergyStorageEnv",
        {"efficiency": 0.8},
        "buy energy when it is cheap and sell it when it is expensive, with actions from a box; the optimum is known exactly",
    ),
    "perstep/Reservoir-v0": World(
        "perstep.worlds.storage:ReservoirEnv",
        {"flood_cost": 2.0},
        "release water evenly from a reservoir with random inflow, with actions from a box",
    ),
    # Their rewards are the same in every step, so an end must cost or earn something.
    "perstep/CartPole-v0": World(
        _ENDLESS,
        {"name": "CartPole-v1", "reset_cost": 10.0},
        "a pole that stands up again after a fall, which costs 10",
    ),
    "perstep/MountainCar-v0": World(
        _ENDLESS,
        {"name": "MountainCar-v0", "reset_cost": -100.0},
        "a car that begins again at the top, which earns 100",
    ),
    "perstep/Acrobot-v0": World(
        _ENDLESS,
        {"name": "Acrobot-v1", "reset_cost": -100.0},
        "an acrobot that begins again at the top, which earns 100",
    ),
    "perstep/Autoscaling-v0": World(
        "perstep.worlds.autoscaling:AutoscalingEnv",
        {},
        "how many servers to run for a demand that changes over the day",
    ),
    "perstep/MinAtar-Asterix-v0": World(
        _MINATAR,
        {"game": "asterix"},
        "collect treasure, avoid enemies; MinAtar's games are small versions of Atari games",
    ),
    "perstep/MinAtar-Breakout-v0": World(_MINATAR, {"game": "breakout"}, "break bricks with a ball"),
    "perstep/MinAtar-Freeway-v0": World(_MINATAR, {"game": "freeway"}, "cross the road"),
    "perstep/MinAtar-Seaquest-v0": World(_MINATAR, {"game": "seaquest"}, "rescue divers before the oxygen runs out"),
    "perstep/MinAtar-SpaceInvaders-v0": World(
        _MINATAR, {"game": "space_invaders"}, "shoot the aliens before they land"
    ),
    "perstep/Atari-v0": World(
        "perstep.worlds.atari:AtariEnv",
        {"game": "breakout"},
        "a game of the Arcade Learning Environment, also as ALE/Breakout-v5 (the paper's third)",
    ),
}
"""The one list of worlds: Gymnasium id → how each is made, and what it is."""
FINITE_WORLDS = {str(world.settings["world"]) for world in WORLDS.values() if world.entry_point == _FINITE}
"""The functions of `perstep.worlds` that return the registered finite worlds."""


def register() -> None:
    """Register the worlds with Gymnasium, each at most once. They have no time limit, since they are continuing tasks."""
    for name, world in WORLDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=world.entry_point, kwargs=dict(world.settings))


def finite_env(world: str, render_mode: Literal["ansi"] | None = None, **parameters: Any) -> FiniteMDPEnv:
    """The world that the function `world` of `perstep.worlds` returns for these parameters."""
    from perstep import worlds
    from perstep.mdp.env import FiniteMDPEnv

    choice("finite world", world, FINITE_WORLDS)  # a file may name it, and not everything in `worlds` is a world
    make = getattr(worlds, world)
    known = inspect.signature(make).parameters
    for name in parameters:
        if name not in known:
            raise unknown(f"setting of {world}", name, [*known, "render_mode"])
    return FiniteMDPEnv(make(**parameters), render_mode)
