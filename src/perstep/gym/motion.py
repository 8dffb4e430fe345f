"""The compiled world that takes the same steps as a Gymnasium environment, where there is one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from perstep.gym.world_state import TELEPORT, TIME_LIMIT, kind, layers_of
from perstep.worlds.motion import CLASSIC, TABLE, Motion


def compiled_world(env: Any) -> Motion | None:
    """The compiled world that takes the same steps as a Gymnasium environment; None if there is none.

    It exists for PendulumEnv, for PuckWorldEnv and for Gymnasium's CartPole, MountainCar and Acrobot. Passive wrappers are ignored,
    and the limit of a TimeLimit or the cost of a Teleport is read. With any other wrapper, for a subclass, or if a method was
    replaced, the result is None. The physics of the environment (gravity, masses, …) are read now. Call this function again if
    they may have changed.
    """
    *wrappers, inner = layers_of(env)
    number = next((i for i, row in enumerate(TABLE) if row.env == kind(inner)), None)
    jumps = [wrapper.reset_cost for wrapper in wrappers if kind(wrapper) == TELEPORT]
    limits = [int(wrapper._max_episode_steps) for wrapper in wrappers if kind(wrapper) == TIME_LIMIT]
    if number is None or len(jumps) + len(limits) < len(wrappers) or (jumps and (limits or len(jumps) > 1)):
        return None
    row = TABLE[number]
    if inner.render_mode == "human" or inner.action_space != gymnasium.spaces.Discrete(row.num_actions):
        return None  # it shows a window at every step, or its actions are not 0 … n − 1
    if any(callable(getattr(type(inner), name, None)) for name in vars(inner)):
        return None  # a method of this instance was replaced
    try:
        physics = row.parameters_of(inner)
        parameters = np.array(physics, np.float64)
    except (
        AttributeError,
        TypeError,
        ValueError,
        OverflowError,
    ):  # another Gymnasium, or a parameter that is not a number
        return None
    if physics is None or not np.isfinite(parameters).all():
        return None
    low, high = row.bounds(physics)
    if row.single_precision:  # so that an observation at a bound is not rounded to a number beyond it
        low, high = (tuple(np.array(bound, np.float32).astype(float).tolist()) for bound in (low, high))
    return Motion(
        name=row.name,
        number=number,
        parameters=parameters,
        num_actions=row.num_actions,
        state_size=row.state_size,
        low=low,
        high=high,
        time_limit=min(limits, default=0),
        teleport_cost=jumps[0] if jumps else None,
        replaces_gymnasium=row.env.startswith(CLASSIC),
    )
