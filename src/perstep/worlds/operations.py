"""Worlds of operations: queues, stock, machines and a robot, small enough for exact answers. The paper does not use them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perstep.distributions.distribution import Floats
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import claim_outcomes
from perstep.worlds.arguments import checked

RUN, REPAIR, REPLACE = 0, 1, 2
LOW, HIGH = 0, 1
SEARCH, WAIT, RECHARGE = 0, 1, 2
MOST_OUTCOMES = 50_000_000  # of a world in memory


@checked
def service_queue(
    capacity: int = 50,
    *,
    arrival: float = 0.35,
    service: Sequence[float] = (0.2, 0.4, 0.6),
    service_costs: Sequence[float] = (0.0, 1.0, 4.0),
    holding_cost: float = 1.0,
) -> FiniteMDP:
    """A queue with a choice of service rates; state = number of customers, action = index of the rate.

    It is here because bad luck is persistent: a long queue costs much and takes long to clear. In each step a customer arrives with
    probability `arrival`, and one is served with probability `service[action]`. Each customer in the queue costs `holding_cost` per
    step, and the service costs `service_costs[action]`. A customer who meets a full queue is lost. Initially the queue is empty.
    """
    at_least("capacity", capacity, 1)
    probabilities("arrival", [arrival])
    probabilities("service", service)
    _equally_many("service", service, "service_costs", service_costs)
    claim_outcomes("a service queue", capacity + 1, len(service), 3)
    size, rate = np.arange(capacity + 1)[:, None], np.asarray(service, dtype=np.float64)[None, :]
    served = np.where(size > 0, rate, 0.0)
    up = np.where(size < capacity, arrival * (1.0 - served), 0.0)
    down = served * (1.0 - arrival)
    successors = np.stack([np.maximum(size - 1, 0), size, np.minimum(size + 1, capacity)], axis=2)  # (S, 1, 3)
    costs = holding_cost * size + np.asarray(service_costs, dtype=np.float64)
    mdp = FiniteMDP.from_outcomes(
        np.stack([down, 1.0 - up - down, up], axis=2),
        successors,
        -costs[:, :, None],
        initial=np.arange(capacity + 1) == 0,
        name=f"ServiceQueue({capacity})",
    )
    queue, fastest = size[:, 0], int(np.argmax(service))
    steady = next((a for a in np.argsort(service).tolist() if service[a] > arrival), fastest)
    extra = service_costs[fastest] - service_costs[steady]
    # The cheapest rate that keeps up with the arrivals; the fastest while the queue costs more than the faster service.
    heuristics = {
        "threshold": np.where(
            holding_cost * queue > extra, fastest, np.where(queue > 0, steady, int(np.argmin(service_costs)))
        )
    }
    return mdp.replace(heuristics=heuristics)


@checked
def inventory(
    capacity: int = 20,
    *,
    mean_demand: float = 4.0,
    price: float = 8.0,
    unit_cost: float = 4.0,
    order_cost: float = 6.0,
    holding_cost: float = 0.5,
    lost_sale_cost: float = 2.0,
) -> FiniteMDP:
    """Stock with lost sales and a fixed cost per order; state = units in stock, action = units to order, up to `capacity`.

    It is here because there are many actions, of which most are bad and some almost equal. An order arrives at once; what exceeds
    `capacity` is not bought. Then the demand of the day is a Poisson number, cut at three times its mean. The reward is `price` per
    unit sold, less `unit_cost` per unit bought, `order_cost` per order, `holding_cost` per unit left and `lost_sale_cost` per unit
    of demand that is not met. Initially the stock is empty.
    """
    at_least("capacity", capacity, 1)
    chances = _poisson(mean_demand)
    claim_outcomes("an inventory", capacity + 1, capacity + 1, chances.size)
    stock, order, demand = np.indices((capacity + 1, capacity + 1, chances.size))
    full = np.minimum(stock + order, capacity)
    bought, left, sold = full - stock, np.maximum(full - demand, 0), np.minimum(full, demand)
    rewards = (
        price * sold - unit_cost * bought - order_cost * (bought > 0) - holding_cost * left
        - lost_sale_cost * (demand - sold)
    )  # fmt: skip
    mdp = FiniteMDP.from_outcomes(
        np.broadcast_to(chances, demand.shape),
        left,
        rewards,
        initial=np.arange(capacity + 1) == 0,
        name=f"Inventory({capacity})",
    )
    low, high = _reorder_levels(capacity, mean_demand, order_cost, holding_cost)
    level = np.arange(capacity + 1)
    heuristics = {"(s, S)": np.where(level < low, high - level, 0)}
    return mdp.replace(heuristics=heuristics)


def _reorder_levels(capacity: int, mean_demand: float, order_cost: float, holding_cost: float) -> tuple[int, int]:
    """s and S of the textbook: order below the demand of a day plus a margin, and as much as the economic order quantity."""
    low = min(capacity, math.ceil(mean_demand + math.sqrt(mean_demand)))
    if holding_cost <= 0.0:
        return low, capacity
    economic = math.sqrt(max(2.0 * order_cost * mean_demand / holding_cost, 0.0))
    return low, low + math.floor(min(economic, capacity - low))


@checked
def multi_item_inventory(
    capacity: int = 6,
    num_items: int = 2,
    *,
    mean_demand: float = 1.5,
    price: float = 8.0,
    unit_cost: float = 4.0,
    joint_order_cost: float = 6.0,
    item_order_cost: float = 1.0,
    holding_cost: float = 0.3,
    lost_sale_cost: float = 2.0,
) -> FiniteMDP:
    """Several items that share the cost of an order; state = stock of each, action = order of each, in mixed radix.

    It is here because the best policy orders an item early when another has to be ordered anyway. Every item is like that of
    `inventory`, with room for `capacity` units and a demand of its own. An order costs `joint_order_cost` once, and
    `item_order_cost` for each item in it. There are (capacity + 1)^num_items states and as many actions.
    """
    at_least("capacity", capacity, 1)
    at_least("num_items", num_items, 1)
    chances = _poisson(mean_demand)
    row, draws = capacity + 1, chances.size
    digits = num_items * math.log10(row * row * draws)
    if digits > math.log10(MOST_OUTCOMES):
        raise ValueError(
            f"The world would have 10^{digits:.1f} outcomes, more than {MOST_OUTCOMES:.0e}. Give a smaller capacity or fewer items."
        )
    shape = (row**num_items, row**num_items, draws**num_items)
    state, action, draw = np.indices(shape, dtype=np.int32)
    probability, rewards, successor = np.ones(shape), np.zeros(shape), np.zeros(shape, np.int64)
    orders = np.zeros(shape, np.bool_)
    for item in range(num_items):
        stock, order = ((each // row**item) % row for each in (state, action))
        demand = (draw // draws**item) % draws
        full = np.minimum(stock + order, capacity)
        bought, left, sold = full - stock, np.maximum(full - demand, 0), np.minimum(full, demand)
        probability *= chances[demand]
        successor += left * row**item
        orders |= bought > 0
        rewards += (
            price * sold - unit_cost * bought - item_order_cost * (bought > 0) - holding_cost * left
            - lost_sale_cost * (demand - sold)
        )  # fmt: skip
    mdp = FiniteMDP.from_outcomes(
        probability,
        successor,
        rewards - joint_order_cost * orders,
        initial=np.arange(shape[0]) == 0,
        name=f"MultiItemInventory({capacity}, {num_items})",
    )
    low, high = _reorder_levels(capacity, mean_demand, joint_order_cost + item_order_cost, holding_cost)
    stocks = [(np.arange(shape[0]) // row**item) % row for item in range(num_items)]
    any_low = np.any([stock < low for stock in stocks], axis=0)
    alone = sum(np.where(stock < low, high - stock, 0) * row**item for item, stock in enumerate(stocks))
    joint = sum(np.where(any_low, np.maximum(high - stock, 0), 0) * row**item for item, stock in enumerate(stocks))
    heuristics = {"(s, S) of each item": np.asarray(alone), "(s, S) together": np.asarray(joint)}
    return mdp.replace(heuristics=heuristics)


@checked
def perishable_stock(
    most: int = 6,
    *,
    mean_demand: float = 3.0,
    price: float = 6.0,
    unit_cost: float = 2.0,
    waste_cost: float = 2.0,
    lost_sale_cost: float = 3.0,
) -> FiniteMDP:
    """Stock that spoils after three days; state = (units one day old) · (most + 1) + (units two days old), action = fresh units.

    It is here because what is good today depends on the age of the stock. At most `most` units are ordered per day, and arrive at
    once. The demand is a Poisson number, cut at three times its mean, and takes the
    oldest units first. Then units of the third day are thrown away. The reward is `price` per unit sold, less `unit_cost` per unit
    ordered, `waste_cost` per unit thrown away and `lost_sale_cost` per unit of demand not met. Initially the stock is empty.
    """
    at_least("most", most, 1)
    chances = _poisson(mean_demand)
    claim_outcomes("a perishable stock", (most + 1) ** 2, most + 1, chances.size)
    young, old, fresh, demand = np.indices((most + 1, most + 1, most + 1, chances.size))
    waste = np.maximum(old - demand, 0)
    after_old = np.maximum(demand - old, 0)
    young_left = np.maximum(young - after_old, 0)
    after_young = np.maximum(after_old - young, 0)
    fresh_left = np.maximum(fresh - after_young, 0)
    lost = np.maximum(after_young - fresh, 0)
    rewards = price * (demand - lost) - unit_cost * fresh - waste_cost * waste - lost_sale_cost * lost
    shape = ((most + 1) ** 2, most + 1, chances.size)
    mdp = FiniteMDP.from_outcomes(
        np.broadcast_to(chances, shape),
        (fresh_left * (most + 1) + young_left).reshape(shape),
        rewards.reshape(shape),
        initial=np.arange(shape[0]) == 0,
        name=f"PerishableStock({most})",
    )
    held = (young + old)[:, :, 0, 0].ravel()
    enough = math.ceil(mean_demand + math.sqrt(mean_demand))
    heuristics = {"order up to": np.clip(enough - held, 0, most)}
    return mdp.replace(heuristics=heuristics)


@checked
def maintenance(
    num_conditions: int = 10,
    *,
    wear: float = 0.25,
    failure: float = 0.05,
    output: float = 10.0,
    repair_cost: float = 4.0,
    replacement_cost: float = 12.0,
    failure_cost: float = 5.0,
) -> FiniteMDP:
    """A machine that wears out; state = condition from 0 (new) to `num_conditions` − 1 (broken); run, repair or replace it.

    It is here because the good actions cost now and pay later. Action 0 runs the machine: it earns `output` less its condition,
    wears by one with probability `wear` and breaks with probability `failure`; a broken machine costs `failure_cost` per step.
    Action 1 repairs it by three conditions, action 2 replaces it by a new one. Initially it is new.
    """
    at_least("num_conditions", num_conditions, 2)
    probabilities("wear, failure and their sum", [wear, failure, wear + failure])
    claim_outcomes("a machine", num_conditions, 3, 3)
    condition, broken = np.arange(num_conditions), num_conditions - 1
    probability = np.zeros((num_conditions, 3, 3))
    probability[:, RUN] = (1.0 - wear - failure, wear, failure)
    probability[:, REPAIR:, 0] = 1.0
    next_state = np.zeros((num_conditions, 3, 3), np.int64)
    next_state[:, RUN] = np.stack(
        [condition, np.minimum(condition + 1, broken), np.full_like(condition, broken)], axis=1
    )
    next_state[:, REPAIR, 0] = np.maximum(condition - 3, 0)
    rewards = np.empty((num_conditions, 3))
    rewards[:, RUN], rewards[:, REPAIR], rewards[:, REPLACE] = output - condition, -repair_cost, -replacement_cost
    rewards[broken, RUN] = -failure_cost
    mdp = FiniteMDP.from_outcomes(
        probability, next_state, rewards[:, :, None], initial=np.arange(num_conditions) == 0, name="Maintenance"
    )
    run_to_failure = np.where(condition == broken, REPLACE, RUN)
    heuristics = {
        "run to failure": run_to_failure,
        "repair from condition 3": np.where((condition >= 3) & (condition < broken), REPAIR, run_to_failure),
    }
    return mdp.replace(heuristics=heuristics)


@checked
def recycling_robot(
    *,
    stays_high: float = 0.8,
    stays_low: float = 0.7,
    search_reward: float = 2.0,
    wait_reward: float = 0.7,
    rescue_cost: float = 3.0,
) -> FiniteMDP:
    """A robot that collects cans (Sutton & Barto 2018, Example 3.3); state 0 = battery low, 1 = high; search, wait or recharge.

    It is here as the smallest world with a choice to make. Searching earns `search_reward`; the battery stays high with probability
    `stays_high`, and low with `stays_low`, otherwise it is empty: the robot is rescued, which costs `rescue_cost` instead, and
    charged. Waiting earns `wait_reward`, recharging nothing. The first state is uniform.
    """
    probabilities("stays_high and stays_low", [stays_high, stays_low])
    probability = np.zeros((2, 3, 2))  # the outcomes are: the battery is low, it is high
    probability[HIGH, SEARCH], probability[LOW, SEARCH] = (1.0 - stays_high, stays_high), (stays_low, 1.0 - stays_low)
    probability[HIGH, WAIT, HIGH] = probability[LOW, WAIT, LOW] = probability[:, RECHARGE, HIGH] = 1.0
    rewards = np.zeros((2, 3, 2))
    rewards[:, SEARCH], rewards[:, WAIT] = search_reward, wait_reward
    rewards[LOW, SEARCH, HIGH] = -rescue_cost
    mdp = FiniteMDP.from_outcomes(probability, np.array([LOW, HIGH]), rewards, name="RecyclingRobot")
    heuristics = {"recharge when low": np.array([RECHARGE, SEARCH])}
    return mdp.replace(heuristics=heuristics)


@checked
def tandem_queue(
    capacity: int = 8,
    *,
    arrival: float = 0.25,
    first_service: Sequence[float] = (0.0, 0.21, 0.35),
    service_costs: Sequence[float] = (0.0, 0.5, 2.0),
    second_service: float = 0.28,
    holding_costs: tuple[float, float] = (1.0, 2.0),
    full_cost: float = 5.0,
    rejection_cost: float | None = None,
) -> FiniteMDP:
    """Two queues one behind the other; state = (customers in the first) · (capacity + 1) + (customers in the second).

    It is here because the noise is large beside what separates a good action from the best. The action is the index of the rate of
    the first server. In each step at most one thing happens: an arrival, a customer who goes from the first queue to the second
    with probability `first_service[action]` (not while the second is full), or one who leaves the second. A customer costs
    `holding_costs` per step, depending on the queue, the first server `service_costs[action]`, and a full first queue `full_cost`.
    Initially both queues are empty.

    With a `rejection_cost` the controller also decides about admission: action = (rate) + (number of rates) · (1 to reject, 0 to
    admit the customer who arrives in this step, if one does). A rejection, also by a full queue, costs `rejection_cost`.
    """
    at_least("capacity", capacity, 1)
    _equally_many("first_service", first_service, "service_costs", service_costs)
    total = arrival + max(first_service) + second_service
    probabilities("the rates and their largest sum", [arrival, *first_service, second_service, total])
    rate, cost = (np.asarray(each, dtype=np.float64) for each in (first_service, service_costs))
    decides = rejection_cost is not None
    claim_outcomes("a tandem queue", (capacity + 1) ** 2, rate.size * (1 + decides), 4)
    first, second, action = np.indices((capacity + 1, capacity + 1, rate.size * (1 + decides)))
    speed, admits = action % rate.size, action < rate.size
    enters = admits & (first < capacity)
    comes = np.where(enters | decides, arrival, 0.0)
    moves = np.where((first > 0) & (second < capacity), rate[speed], 0.0)
    leaves = np.where(second > 0, second_service, 0.0)
    probability = np.stack([comes, moves, leaves, 1.0 - comes - moves - leaves], axis=3)
    row = capacity + 1
    state = first * row + second
    # An event of probability 0 leads to the same state: its successor does not exist.
    successors = np.stack([state + row * enters, state - row + 1, state - 1, state], axis=3)
    successors = np.where(probability > 0.0, successors, state[..., None])
    rewards = -(holding_costs[0] * first + holding_costs[1] * second + cost[speed] + full_cost * (first == capacity))
    rewards = rewards[..., None]
    if rejection_cost is not None:
        rewards = np.repeat(rewards, 4, axis=3)
        rewards[..., 0] -= rejection_cost * ~enters
    shape = (row * row, action.shape[2], 4)
    mdp = FiniteMDP.from_outcomes(
        probability.reshape(shape),
        successors.reshape(shape),
        rewards.reshape(*shape[:2], -1),
        initial=np.arange(row * row) == 0,
        name=f"TandemQueue({capacity}{', admission' if decides else ''})",
    )
    fastest, slowest = int(rate.argmax()), int(rate.argmin())
    ahead, behind = first[:, :, 0].ravel(), second[:, :, 0].ravel()
    limited = np.where((behind < 3) & (ahead > 0), fastest, slowest)
    heuristics = {
        "always fast": np.full(row * row, fastest),
        "fast while fewer than 3 wait behind": limited,
    }
    if rejection_cost is not None:
        # The cost of a customer's own waits, behind those ahead of it; that it delays others is not counted.
        own = holding_costs[0] * (ahead + 1) / rate.max() + holding_costs[1] * (behind + 1) / second_service
        heuristics |= {
            "the same, at most 4 inside": limited + rate.size * (ahead + behind >= 4),
            "the same, individual threshold": limited + rate.size * (own > rejection_cost),
        }
    return mdp.replace(heuristics=heuristics)


@checked
def routing(
    capacity: int = 8,
    *,
    arrival: float = 0.5,
    service: tuple[float, float] = (0.3, 0.15),
    holding_cost: float = 1.0,
    rejection_cost: float = 15.0,
) -> FiniteMDP:
    """A dispatcher before a fast and a slow server, each with a queue; state = (fast queue) · (capacity + 1) + (slow queue).

    It is here because the action matters only for the next customer, and the best choice depends on both queues. Action 0 sends the
    next customer to the fast server, 1 to the slow one, 2 rejects it. In each step at most one thing happens: an arrival, or a
    service of one of the two. A customer in a queue costs `holding_cost` per step. A rejection, also by a full queue, costs
    `rejection_cost`. Initially both queues are empty.
    """
    at_least("capacity", capacity, 1)
    probabilities("arrival, service and their sum", [arrival, *service, arrival + sum(service)])
    claim_outcomes("routing", (capacity + 1) ** 2, 3, 4)
    fast, slow, action = np.indices((capacity + 1, capacity + 1, 3))
    row = capacity + 1
    state = fast * row + slow
    to_fast, to_slow = (action == 0) & (fast < capacity), (action == 1) & (slow < capacity)
    rejected = ~(to_fast | to_slow)
    served = [np.where(queue > 0, rate, 0.0) for queue, rate in zip((fast, slow), service, strict=True)]
    comes = np.full(state.shape, arrival)
    probability = np.stack([comes, *served, 1.0 - comes - served[0] - served[1]], axis=3)
    after_arrival = state + row * to_fast + to_slow
    successors = np.stack([after_arrival, np.maximum(state - row, 0), np.maximum(state - 1, 0), state], axis=3)
    costs = np.repeat((holding_cost * (fast + slow))[..., None], 4, axis=3)
    costs[..., 0] += rejection_cost * rejected
    shape = (row * row, 3, 4)
    mdp = FiniteMDP.from_outcomes(
        probability.reshape(shape),
        successors.reshape(shape),
        -costs.reshape(shape),
        initial=np.arange(row * row) == 0,
        name=f"Routing({capacity})",
    )
    queues = fast[:, :, 0].ravel(), slow[:, :, 0].ravel()
    waits = [(queue + 1) / max(speed, 1e-300) for queue, speed in zip(queues, service, strict=True)]
    soonest = np.where(waits[0] <= waits[1], 0, 1)
    heuristics = {
        "join the shortest queue": np.where(queues[0] <= queues[1], 0, 1),
        "shortest expected delay": soonest,
        "shortest delay, or reject": np.where(holding_cost * np.minimum(*waits) > rejection_cost, 2, soonest),
    }
    return mdp.replace(heuristics=heuristics)


def _poisson(mean: float) -> Floats:
    """Probabilities of the numbers 0 to 3 · mean; the last one has what remains."""
    if not 0.0 < mean < 200.0:
        raise ValueError(f"mean_demand must be above 0 and below 200, got {mean}.")
    chances = [math.exp(-mean) * mean**count / math.factorial(count) for count in range(math.ceil(3 * mean))]
    return np.array([*chances, 1.0 - sum(chances)])


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a size that is too small."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}.")


def probabilities(names: str, values: Sequence[float]) -> None:
    """Refuse what is not a probability."""
    if not all(0.0 <= value <= 1.0 for value in values):
        raise ValueError(
            f"{names} must be probabilities from 0 to 1, got {', '.join(f'{value:g}' for value in values)}."
        )


def _equally_many(name: str, values: Sequence[float], other: str, others: Sequence[float]) -> None:
    if not values or len(values) != len(others):
        raise ValueError(
            f"{name} and {other} must have one entry per action each, got {len(values)} and {len(others)} entries."
        )
