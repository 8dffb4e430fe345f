"""Access control: accept or reject customers of an endless queue for a group of servers (Sutton & Barto 2018, Example 10.2).

The paper does not use it, but it is the usual benchmark of average-reward control. Wan et al. (2021) introduced Differential
Q-learning with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from perstep.distributions.distribution import Floats
from perstep.mdp.mdp import FiniteMDP
from perstep.system.budget import claim
from perstep.worlds.arguments import checked

REJECT, ACCEPT = 0, 1


@checked
def access_control(
    order: Literal["free-first", "accept-first"] = "free-first",
    *,
    num_servers: int = 10,
    free_probability: float = 0.06,
    rewards: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
) -> FiniteMDP:
    """State = (number of free servers) · (number of priorities) + priority of the first customer; action 0 rejects, 1 accepts.

    In each step an accepted customer is served if a server is free, and earns `rewards[priority]`. Otherwise the customer is
    rejected and earns 0. Each busy server becomes free with probability `free_probability`. The next customer has a uniform
    priority. With order="free-first" (Wan et al.) servers become free before the customer is served. With
    order="accept-first" (csuite) they become free afterwards, so the server that was just taken can be free again at once.
    Initially all servers are free.
    """
    if order not in ("free-first", "accept-first"):
        raise ValueError(f'order must be "free-first" or "accept-first", got {order!r}.')
    if num_servers < 1 or not rewards:
        raise ValueError(
            f"Access control needs at least one server and one priority, got {num_servers} servers "
            f"and {len(rewards)} rewards."
        )
    if not 0.0 < free_probability <= 1.0:
        raise ValueError(
            f"free_probability must be above 0 and at most 1, got {free_probability}. At 0 no server would become free again."
        )
    num_priorities, num_counts = len(rewards), num_servers + 1
    shape = (num_counts, num_priorities, 2, num_counts, num_priorities)
    claim(100 * math.prod(shape), f"access control with {num_servers:,} servers", "Choose fewer servers or priorities.")
    # `after` is the number of free servers after some have become free.
    free, priority, action, after, next_priority = np.indices(shape)
    freed = _freed(num_servers, free_probability)
    if order == "free-first":
        served = (action == ACCEPT) & (after > 0)
        probability, left = freed[free, after], after - served
    else:
        served = (action == ACCEPT) & (free > 0)
        probability, left = freed[free - served, after], after
    pairs = (num_counts * num_priorities, 2, num_counts * num_priorities)  # (S, A, K)
    mdp = FiniteMDP.from_outcomes(
        (probability / num_priorities).reshape(pairs),
        (left * num_priorities + next_priority).reshape(pairs),
        (served * np.asarray(rewards, dtype=np.float64)[priority]).reshape(pairs),
        initial=np.repeat(np.eye(num_counts)[num_servers], num_priorities) / num_priorities,
        name="AccessControl" if order == "free-first" else "AccessControl, accept-first",
    )
    servers, which = np.divmod(np.arange(pairs[0]), num_priorities)
    above_mean = np.asarray(rewards)[which] >= np.mean(rewards)
    heuristics = {
        "accept all": np.full(pairs[0], ACCEPT),
        # Customers who pay less than the mean are served only while half of the servers are free.
        "reserve half": np.where(above_mean | (2 * servers >= num_servers), ACCEPT, REJECT),
    }
    return mdp.replace(heuristics=heuristics)


def _freed(num_servers: int, free_probability: float) -> Floats:
    """Probability that `free` free servers become `after` free servers in one step; indexed [free, after]. (n + 1, n + 1)"""
    table = np.zeros((num_servers + 1, num_servers + 1))
    for free in range(num_servers + 1):
        busy = num_servers - free
        for more in range(busy + 1):
            table[free, free + more] = (
                math.comb(busy, more) * free_probability**more * (1.0 - free_probability) ** (busy - more)
            )
    return table
