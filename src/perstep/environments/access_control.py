"""Access control to servers, with a queue of customers that never ends (Sutton & Barto 2018, Example 10.2).

Not in the paper, but the usual test of average-reward control: Wan et al. (2021) introduced Differential Q with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from perstep.distribution import Floats
from perstep.environments.mdp import FiniteMDP

REJECT, ACCEPT = 0, 1


def access_control(
    order: Literal["free-first", "accept-first"] = "free-first",
    *,
    num_servers: int = 10,
    free_probability: float = 0.06,
    rewards: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
) -> FiniteMDP:
    """State = free servers · priorities + priority of the customer at the head; action 0 rejects, 1 accepts.

    Each step the customer is served, if accepted and a server is free, earning `rewards[priority]`, or else turned
    away; every busy server becomes free with `free_probability`; and the next customer has a uniform priority. With
    order "free-first" the servers become free before the customer is served (Wan et al.), with "accept-first" after
    (csuite), so that the server just taken may be free again at once. Accepting without a free server is a rejection.
    Starts with all servers free.
    """
    if order not in ("free-first", "accept-first"):
        raise ValueError(f'order is "free-first" or "accept-first", and got {order!r}.')
    if num_servers < 1 or not rewards:
        raise ValueError(
            f"Access control needs at least one server and one priority, and got {num_servers} servers "
            f"and {len(rewards)} rewards."
        )
    if not 0.0 < free_probability <= 1.0:
        raise ValueError(
            f"free_probability is above 0 and at most 1, or no server would ever come back, and got {free_probability}."
        )
    num_priorities, num_counts = len(rewards), num_servers + 1
    shape = (num_counts, num_priorities, 2, num_counts, num_priorities)
    free, priority, action, after, next_priority = np.indices(
        shape
    )  # `after` counts the free servers once some became free
    freed = _freed(num_servers, free_probability)
    if order == "free-first":
        served = (action == ACCEPT) & (after > 0)
        probability, left = freed[free, after], after - served
    else:
        served = (action == ACCEPT) & (free > 0)
        probability, left = freed[free - served, after], after
    pairs = (num_counts * num_priorities, 2, num_counts * num_priorities)  # (S, A, K)
    return FiniteMDP.from_outcomes(
        (probability / num_priorities).reshape(pairs),
        (left * num_priorities + next_priority).reshape(pairs),
        (served * np.asarray(rewards, dtype=np.float64)[priority]).reshape(pairs),
        initial=np.repeat(np.eye(num_counts)[num_servers], num_priorities) / num_priorities,
        name="AccessControl" if order == "free-first" else "AccessControl, accept-first",
    )


def _freed(num_servers: int, free_probability: float) -> Floats:
    """The chance of `after` free servers, once each busy one has become free or not. (free, after), n + 1 of each"""
    table = np.zeros((num_servers + 1, num_servers + 1))
    for free in range(num_servers + 1):
        busy = num_servers - free
        for more in range(busy + 1):
            table[free, free + more] = (
                math.comb(busy, more) * free_probability**more * (1.0 - free_probability) ** (busy - more)
            )
    return table
