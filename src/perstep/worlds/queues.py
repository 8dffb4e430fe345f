"""Queues with admission and a network of queues, as finite MDPs of any size. The paper does not use them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.distribution import Floats
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import claim_outcomes
from perstep.worlds.arguments import checked
from perstep.worlds.operations import at_least, probabilities

ADMIT, REJECT = 0, 1
FIRST_CLASS, SECOND_CLASS, IDLE = 0, 1, 2

Event = tuple[Floats, NDArray[np.int64], Floats]
"""Probability, next state and additional reward of something that can happen, each an array (S, A)."""


@checked
def admission_control(
    capacity: int = 30,
    *,
    arrival: float = 0.45,
    service: float = 0.5,
    admission_reward: float = 10.0,
    holding_cost: float = 1.0,
) -> FiniteMDP:
    """A queue that may reject customers; state = number of customers, action 0 admits the next one, 1 rejects it.

    It is here because its best policy is known to be a threshold below the one that customers would choose for themselves (Naor
    1969). In each step at most one thing happens: a customer arrives, with probability `arrival`, or one is served, with `service`.
    An admitted customer earns `admission_reward`, and each customer in the queue costs `holding_cost` per step. A full queue
    rejects. Initially the queue is empty.
    """
    at_least("capacity", capacity, 1)
    probabilities("arrival, service and their sum", [arrival, service, arrival + service])
    claim_outcomes("admission control", capacity + 1, 2, 3)
    size, action = np.indices((capacity + 1, 2))
    enters = (action == ADMIT) & (size < capacity)
    mdp = _from_events(
        (
            (np.full(size.shape, arrival), size + enters, admission_reward * enters),
            (np.where(size > 0, service, 0.0), size - 1, np.zeros(size.shape)),
        ),
        -holding_cost * size.astype(np.float64),
        f"AdmissionControl({capacity})",
    )
    queue = np.arange(capacity + 1)
    heuristics = {
        "admit all": np.zeros(capacity + 1, np.int64),
        # A customer who knows the queue joins while the reward exceeds the expected cost of the wait.
        "individual threshold": np.where((queue + 1) * holding_cost <= admission_reward * service, ADMIT, REJECT),
    }
    return mdp.replace(heuristics=heuristics)


@checked
def criss_cross(
    capacity: int = 6,
    *,
    arrivals: tuple[float, float] = (0.12, 0.12),
    services: tuple[float, float, float] = (0.3, 0.3, 0.16),
    holding_costs: tuple[float, float, float] = (1.0, 1.0, 1.0),
    loss_cost: float = 10.0,
) -> FiniteMDP:
    """Two servers and three classes of customers (Harrison & Wein 1989); state = (class 1, class 2, class 3) in mixed radix.

    It is here because what is best for the first server starves or floods the second. Customers of classes 1 and 2 arrive at server
    1, which serves class 1 (action 0), class 2 (action 1) or nobody (action 2). A served customer of class 1 becomes class 3 and
    waits at server 2; one of class 2 leaves. Each class has room for `capacity` customers; an arrival that finds no room costs
    `loss_cost`, and class 1 is not served while class 3 is full. In each step at most one thing happens. Initially all is empty.
    """
    at_least("capacity", capacity, 1)
    probabilities("arrivals, services", [*arrivals, *services])
    probabilities("their largest sum", [sum(arrivals) + max(services[:2]) + services[2]])
    row = capacity + 1
    claim_outcomes("a criss-cross network", row**3, 3, 6)
    first, second, third, action = (each.reshape(row**3, 3) for each in np.indices((row, row, row, 3)))
    state = (first * row + second) * row + third
    none = np.zeros(state.shape)
    serves_first = (action == FIRST_CLASS) & (first > 0) & (third < capacity)
    mdp = _from_events(
        (
            (np.full(state.shape, arrivals[0]), state + row * row * (first < capacity), -loss_cost * (first == capacity)),
            (np.full(state.shape, arrivals[1]), state + row * (second < capacity), -loss_cost * (second == capacity)),
            (services[0] * serves_first, state - row * row + 1, none),
            (services[1] * ((action == SECOND_CLASS) & (second > 0)), state - row, none),
            (services[2] * (third > 0), state - 1, none),
        ),
        -(holding_costs[0] * first + holding_costs[1] * second + holding_costs[2] * third),
        f"CrissCross({capacity})",
    )  # fmt: skip
    one, two, three = (queue[:, 0] for queue in (first, second, third))
    able = (one > 0) & (three < capacity)
    worth = (holding_costs[0] - holding_costs[2]) * services[0], holding_costs[1] * services[1]
    pressure = (
        services[0] * (holding_costs[0] * one - holding_costs[2] * three),
        services[1] * holding_costs[1] * two,
    )
    heuristics = {
        # The class whose service lowers the holding cost fastest, of those that wait.
        "cμ": _first_or_second(able, two > 0, np.full(row**3, worth[0]), np.full(row**3, worth[1])),
        # The class with the largest product of rate and difference of weighted queues.
        "MaxWeight": _first_or_second(able & (pressure[0] > 0.0), two > 0, *pressure),
        "longest queue": _first_or_second(able, two > 0, one.astype(np.float64), two.astype(np.float64)),
    }
    return mdp.replace(heuristics=heuristics)


def _first_or_second(
    first: NDArray[np.bool_], second: NDArray[np.bool_], weight: Floats, other: Floats
) -> NDArray[np.int64]:
    """The class of larger weight among those that can be served; nobody if none can. (S,)"""
    chosen = np.where(first & (~second | (weight >= other)), FIRST_CLASS, SECOND_CLASS)
    return np.where(first | second, chosen, IDLE)


def _from_events(events: tuple[Event, ...], rewards: Floats, name: str) -> FiniteMDP:
    """In each step one of the events happens, or nothing; `rewards` (S, A) come in any case."""
    here = np.arange(rewards.shape[0])[:, None]
    chances = [np.broadcast_to(chance, rewards.shape) for chance, _, _ in events]
    nothing = 1.0 - sum(chances)
    # An event of probability 0 leads to the same state: its successor may not exist.
    successors = [np.where(chance > 0.0, to, here) for chance, (_, to, _) in zip(chances, events, strict=True)]
    means = [rewards + more for _, _, more in events]
    return FiniteMDP.from_outcomes(
        np.stack([*chances, nothing], axis=2),
        np.stack([*successors, np.broadcast_to(here, rewards.shape)], axis=2),
        np.stack([*means, np.asarray(rewards, np.float64)], axis=2),
        initial=np.arange(rewards.shape[0]) == 0,
        name=name,
    )
