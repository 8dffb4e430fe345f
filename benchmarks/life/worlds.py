"""The worlds in which a whole life is measured: "choose" for use while a learner is designed, "judge" for one look at the end.

The worlds to judge by were written down before any agent ran in them. Each is a kind of its own, and none was tuned to a learner.
Random choices in the definitions have fixed seeds, so a name means the same world for ever.

python benchmarks/life/worlds.py    prints their sizes, the optimum and what random actions earn, and checks them
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import numpy as np

from perstep import FiniteMDP
from perstep.worlds.far_rewards import long_chain, river_swim
from perstep.worlds.operations import maintenance, service_queue
from perstep.worlds.random_mdps import garnet
from perstep.worlds.redpill import red_pill_blue_pill
from perstep.worlds.servers import access_control

SMALL = 100  # pairs

Outcome = tuple[float, object, float]
"""Probability, next state and reward."""


def finite(start: object, actions: object, outcomes: Callable[..., Iterable[Outcome]], name: str) -> FiniteMDP:
    """The world of a Python model. An action that a state does not have does what its first action does."""
    return FiniteMDP.from_function(start, actions, outcomes, name=name, progress=False)


def binomial(trials: int, chance: float) -> list[float]:
    """Probabilities of 0, …, `trials` successes."""
    return [math.comb(trials, k) * chance**k * (1.0 - chance) ** (trials - k) for k in range(trials + 1)]


# ------------------------------------------------------------------------------------------------------------ to choose by


def deep_sea(size: int = 20) -> FiniteMDP:
    """A fall through `size` rows: right costs little at every row, and only right all the way earns the prize at the bottom."""

    def outcomes(state: tuple[int, int], right: int) -> list[Outcome]:
        row, column = state
        cost = 0.01 / size * right
        if row == size - 1:
            return [(1.0, (0, 0), float(right and column == size - 1) - cost)]
        return [(1.0, (row + 1, column + 1 if right else max(column - 1, 0)), -cost)]

    return finite((0, 0), [0, 1], outcomes, f"DeepSea({size})")


def server_speeds() -> FiniteMDP:
    """A queue of at most 15 customers and a server with five speeds, of which a faster one costs more than its share."""
    chances, costs = (0.0, 0.25, 0.5, 0.7, 0.9), (0.0, 0.4, 1.2, 2.5, 5.0)

    def outcomes(queue: int, speed: int) -> list[Outcome]:
        reward = -float(queue) - costs[speed] - 10.0 * (queue == 15)
        served = chances[speed] if queue else 0.0
        up, down = 0.45 * (1.0 - served) * (queue < 15), 0.55 * served
        return [(up, min(queue + 1, 15), reward), (down, max(queue - 1, 0), reward), (1.0 - up - down, queue, reward)]

    return finite(0, list(range(5)), outcomes, "ServerSpeeds")


def climb() -> FiniteMDP:
    """Eight heights: resting earns more the higher one is and slides down, climbing costs and sometimes falls to the bottom."""

    def outcomes(height: int, up: int) -> list[Outcome]:
        if up:
            return [(0.7, min(height + 1, 7), -0.3), (0.25, height, -0.3), (0.05, 0, -0.3)]
        earned = 4.0 if height == 7 else 0.1 * height
        return [(0.8, height, earned), (0.2, max(height - 1, 0), earned)]

    return finite(0, [0, 1], outcomes, "Climb(8)")


def tickets(branching: int = 20) -> FiniteMDP:
    """A loop of five places with a prize, from which each step may lead through a tree of thousands of tickets and back.

    Tickets differ in what they earn, but no action there matters. The third action asks for a ticket, which is never worth it.
    """
    random = np.random.default_rng(28)
    levels = [random.normal(0.0, 0.3, branching**depth) for depth in (1, 2, 3)]
    share = 1.0 / branching

    def draw(chance: float, depth: int, first: int, reward: float) -> list[Outcome]:
        return [(chance * share, ("ticket", depth, first + i), reward) for i in range(branching)]

    def outcomes(state: tuple, action: int) -> list[Outcome]:
        if state[0] == "ticket":
            _, depth, index = state
            reward = float(levels[depth][index])
            if depth == 2:
                return [(1.0, ("place", 0), reward)]
            return draw(1.0, depth + 1, index * branching, reward)
        place = state[1]
        if action == 2:
            return draw(1.0, 0, 0, 0.0)
        right = action == (0, 1, 1, 0, 1)[place]
        reward = 2.0 * (right and place == 4)
        return [(0.9, ("place", (place + 1) % 5 if right else 0), reward), *draw(0.1, 0, 0, reward)]

    return finite(("place", 0), [0, 1, 2], outcomes, f"Tickets({branching})")


def taxi() -> FiniteMDP:
    """Gymnasium's Taxi, continuing, in the newest version that is installed."""
    from gymnasium.envs.registration import registry

    return FiniteMDP.from_gymnasium(max(name for name in registry if name.startswith("Taxi-v")))


# ------------------------------------------------------------------------------------------------------------- to judge by


def toymaker() -> FiniteMDP:
    """Two states, a toy in or out of favour, and advertising or research that cost now (Howard 1960)."""
    table = {
        ("liked", "save"): [(0.5, "liked", 9.0), (0.5, "disliked", 3.0)],
        ("liked", "spend"): [(0.8, "liked", 4.0), (0.2, "disliked", 4.0)],
        ("disliked", "save"): [(0.4, "liked", 3.0), (0.6, "disliked", -7.0)],
        ("disliked", "spend"): [(0.7, "liked", 1.0), (0.3, "disliked", -19.0)],
    }
    return finite("liked", ["save", "spend"], lambda state, action: table[state, action], "Toymaker")


def polling() -> FiniteMDP:
    """A server between two queues of at most 6: it serves where it is, and a step is lost and paid for when it changes sides."""

    def outcomes(state: tuple[int, int, int], switch: int) -> Iterable[Outcome]:
        queues, side = list(state[:2]), state[2]
        reward = -1.0 * queues[0] - 3.0 * queues[1] - 2.0 * switch
        if switch:
            side = 1 - side
        served = 0.8 if not switch and queues[side] else 0.0
        for done, first, second in itertools.product((0, 1), repeat=3):
            chance = (served, 1.0 - served)[not done] * (0.3, 0.7)[not first] * (0.2, 0.8)[not second]
            left = [queues[0] - done * (side == 0), queues[1] - done * (side == 1)]
            lost = (left[0] + first > 6) + (left[1] + second > 6)
            yield chance, (min(left[0] + first, 6), min(left[1] + second, 6), side), reward - 15.0 * lost

    return finite((0, 0, 0), [0, 1], outcomes, "Polling")


def dam() -> FiniteMDP:
    """A reservoir of 20 levels in four seasons: water released earns by its head, an empty dam and a flood cost much."""
    inflows = ((0.1, 0.3, 0.4, 0.2), (0.5, 0.3, 0.2, 0.0), (0.8, 0.2, 0.0, 0.0), (0.3, 0.4, 0.2, 0.1))
    prices = (1.0, 1.5, 4.0, 2.0)

    def outcomes(state: tuple[int, int], release: int) -> Iterable[Outcome]:
        level, season = state
        released = min(release, level)
        earned = 10.0 * prices[season] * released * (0.3 + 0.7 * level / 20.0) - 50.0 * (level < 3)
        for inflow, chance in enumerate(inflows[season]):
            after = level - released + 2 * inflow
            for turns, odds in ((season, 0.75), ((season + 1) % 4, 0.25)):
                yield chance * odds, (min(after, 20), turns), earned - 100.0 * max(after - 20, 0)

    return finite((10, 0), list(range(5)), outcomes, "Dam")


def hospital() -> FiniteMDP:
    """Eight beds and three kinds of patients a day: admit, send elsewhere, or discharge somebody early, in units of money."""
    values, costs = (0.0, 900.0, 2500.0), (0.0, 100.0, 9000.0)  # none, planned, emergency

    def outcomes(state: tuple[int, int], action: int) -> Iterable[Outcome]:
        taken, patient = state
        reward = -40.0 * taken
        if action == 2 and taken:
            taken, reward = taken - 1, reward - 1500.0
        if patient and action != 1 and taken < 8:
            taken, reward = taken + 1, reward + values[patient]
        elif patient:
            reward -= costs[patient]
        for leaving, chance in enumerate(binomial(taken, 0.04)):
            for following, odds in enumerate((0.35, 0.5, 0.15)):
                yield chance * odds, (taken - leaving, following), reward

    return finite((0, 0), [0, 1, 2], outcomes, "Hospital")


def elevator() -> FiniteMDP:
    """A lift in a house of four floors that brings people down to the ground floor: move up or down, or open the door."""
    calls_per_floor = (0.0, 0.06, 0.03, 0.09)

    def outcomes(state: tuple[int, int, int], action: int) -> Iterable[Outcome]:
        floor, calls, load = state
        reward = -0.5 * calls.bit_count() - 0.2 * load
        if action == 2 and floor == 0:
            load, reward = 0, reward + 5.0 * load
        elif action == 2:
            if calls >> floor & 1 and load < 2:
                load, calls = load + 1, calls & ~(1 << floor)
        else:
            floor, reward = min(max(floor + (1 if action == 0 else -1), 0), 3), reward - 0.1
        for pattern in itertools.product((0, 1), repeat=3):
            chance, after = 1.0, calls
            for i, called in enumerate(pattern, start=1):
                chance *= calls_per_floor[i] if called else 1.0 - calls_per_floor[i]
                after |= called << i
            yield chance, (floor, after, load), reward

    return finite((0, 0, 0), [0, 1, 2], outcomes, "Elevator")


def lead_time() -> FiniteMDP:
    """A shop whose order arrives two days later: at most 9 units of stock, up to three ordered a day, unmet demand is lost."""
    demand = (0.25, 0.35, 0.2, 0.15, 0.05)

    def outcomes(state: tuple[int, int, int], order: int) -> Iterable[Outcome]:
        stock, next_day, after = state
        for wanted, chance in enumerate(demand):
            sold = min(stock, wanted)
            money = 6.0 * sold - 2.0 * order - 1.5 * (order > 0) - 0.3 * stock - 4.0 * (wanted - sold)
            yield chance, (min(stock - sold + next_day, 9), after, order), money

    return finite((3, 0, 0), list(range(4)), outcomes, "LeadTime")


def hidden_debt() -> FiniteMDP:
    """A machine that is made as new by a cheap patch, but every patch adds to the chance of a disaster, until an overhaul."""

    def outcomes(state: tuple[int, int], action: int) -> list[Outcome]:
        wear, debt = state
        if action == 1:  # patch
            return [(1.0, (0, min(debt + 1, 5)), -0.5)]
        if action == 2:  # overhaul
            return [(1.0, (0, 0), -12.0)]
        disaster, earned = 0.004 * debt**2, 3.0 - 0.6 * wear
        return [
            (disaster, (5, 5), earned - 60.0),
            (0.4 * (1.0 - disaster), (min(wear + 1, 5), debt), earned),
            (0.6 * (1.0 - disaster), (wear, debt), earned),
        ]

    return finite((0, 0), [0, 1, 2], outcomes, "HiddenDebt")


def lock() -> FiniteMDP:
    """A combination lock of six digits from four; one wrong digit of each pays a little, as does a ring of five places."""
    right = (2, 0, 3, 3, 1, 2)
    lures = (0, 3, 1, 0, 2, 3)

    def outcomes(state: tuple[str, int], action: int) -> list[Outcome]:
        where, place = state
        if where == "ring":
            return [(1.0, ("lock", 0) if place == 4 else ("ring", place + 1), 0.01 * (action + 1))]
        if action == right[place]:
            return [(1.0, ("lock", (place + 1) % 6), 10.0 * (place == 5))]
        if action == lures[place]:
            return [(1.0, ("lock", 0), 0.05)]
        return [(1.0, ("ring", 0) if action == (right[place] + 1) % 4 else ("lock", 0), 0.0)]

    return finite(("lock", 0), list(range(4)), outcomes, "Lock")


def slippery_maze() -> FiniteMDP:
    """A maze of 8 × 8 with walls, pits and a slippery floor, whose exit leads back to the entrance; rewards of a thousandth."""
    plan = ("S.#....o", "..#.##..", "........", ".##o#.#.", ".#..#.#.", "...##.#.", ".#o...#.", ".#.#.o#E")
    sides = ((-1, 0), (0, 1), (1, 0), (0, -1))

    def moved(place: tuple[int, int], side: int) -> Outcome:
        row, column = place[0] + sides[side][0], place[1] + sides[side][1]
        if not (0 <= row < 8 and 0 <= column < 8) or plan[row][column] == "#":
            row, column = place
        reward = {"E": 1e-3, "o": -2e-4}.get(plan[row][column], -1e-6)
        return 1.0, ((0, 0) if plan[row][column] in "Eo" else (row, column)), reward

    def outcomes(place: tuple[int, int], action: int) -> Iterable[Outcome]:
        for chance, turn in ((0.8, 0), (0.1, 1), (0.1, 3)):
            _, to, reward = moved(place, (action + turn) % 4)
            yield chance, to, reward

    return finite((0, 0), list(range(4)), outcomes, "SlipperyMaze")


def two_components() -> FiniteMDP:
    """Two parts of a machine that wear out; whoever replaces one pays a set-up, and then the other is cheap to replace too."""

    def wears(wear: int) -> list[tuple[float, int]]:
        return [(1.0, 5)] if wear == 5 else [(0.7, wear), (0.25, wear + 1), (0.05, min(wear + 2, 5))]

    def outcomes(state: tuple[int, int], action: int) -> Iterable[Outcome]:
        worn = [0 if action >> i & 1 else wear for i, wear in enumerate(state)]
        paid = 5.0 * (action > 0) + 2.0 * (action & 1) + 3.0 * (action >> 1)
        reward = 4.0 * (max(worn) < 5) - 6.0 * (max(worn) == 5) - paid
        for (chance, first), (odds, second) in itertools.product(wears(worn[0]), wears(worn[1])):
            yield chance * odds, (first, second), reward

    return finite((0, 0), list(range(4)), outcomes, "TwoComponents")


def star() -> FiniteMDP:
    """A hub with seven ways: each takes another number of steps before it pays a noisy amount; the fifth pays most per step."""
    lengths, means = (1, 2, 3, 5, 8, 13, 4), (0.5, 1.2, 1.5, 3.5, 8.0, 9.0, 1.0)

    def outcomes(state: tuple[int, int], way: int) -> list[Outcome]:
        if state != (0, 0):
            way, walked = state
        else:
            walked = 0
        if walked + 1 < lengths[way]:
            return [(1.0, (way, walked + 1), 0.0)]
        return [(0.5, (0, 0), means[way] - 1.0), (0.5, (0, 0), means[way] + 1.0)]

    return finite((0, 0), list(range(7)), outcomes, "Star")


def two_mouths() -> FiniteMDP:
    """A river of 15 places that begins in the middle: its near mouth pays a tenth of the far one, and currents lead to neither."""

    def outcomes(place: int, right: int) -> list[Outcome]:
        reward = 0.1 * (place == 0) + 1.0 * (place == 14)
        pull = 0.0 if place == 7 else (1.0 if place < 7 else -1.0)  # the current leads back to the middle
        wanted = 1 if right else -1
        with_it = 0.45 if wanted * pull < 0 else 0.8
        against = 0.25 if wanted * pull < 0 else 0.05
        return [
            (with_it, min(max(place + wanted, 0), 14), reward),
            (against, min(max(place - wanted, 0), 14), reward),
            (1.0 - with_it - against, place, reward),
        ]

    return finite(7, [0, 1], outcomes, "TwoMouths")


def battery() -> FiniteMDP:
    """A battery of seven levels beside a market with five prices: buy, wait or sell, with a loss each way; hundreds of units."""
    prices = (-50.0, 80.0, 150.0, 260.0, 700.0)
    change = np.array([
        [0.6, 0.4, 0.0, 0.0, 0.0],
        [0.1, 0.6, 0.3, 0.0, 0.0],
        [0.0, 0.3, 0.5, 0.2, 0.0],
        [0.0, 0.0, 0.4, 0.5, 0.1],
        [0.0, 0.0, 0.3, 0.4, 0.3],
    ])  # fmt: skip

    def outcomes(state: tuple[int, int], action: int) -> Iterable[Outcome]:
        charge, price = state
        reward = 0.0
        if action == 1 and charge < 6:
            charge, reward = charge + 1, -1.1 * prices[price]
        elif action == 2 and charge > 0:
            charge, reward = charge - 1, 0.9 * prices[price]
        for following in range(5):
            if change[price, following] > 0.0:
                yield float(change[price, following]), (charge, following), reward - 1.0 * charge

    return finite((0, 2), [0, 1, 2], outcomes, "Battery")


def rare_prizes() -> FiniteMDP:
    """A random world of 40 states in which four pairs pay 50 about once in forty times, and the others pay nearly nothing."""
    random = np.random.default_rng(1729)
    base = garnet(40, 3, 4, 1729)
    probability, to = base.outcomes.probability, base.outcomes.next_state
    mean = np.broadcast_to(random.normal(0.0, 0.02, (40, 3, 1)), probability.shape).copy()
    chance, prize = np.zeros((40, 3, 1)), np.full((40, 3, 1), 50.0)
    chance.reshape(-1)[random.choice(120, 4, replace=False)] = 0.025
    return FiniteMDP.from_outcomes(
        np.concatenate([probability * (1.0 - chance), probability * chance], axis=2),
        np.concatenate([to, to], axis=2),
        np.concatenate([mean, mean + prize], axis=2),
        initial=np.arange(40) == 0,
        name="RarePrizes",
    )


def epidemic() -> FiniteMDP:
    """Up to 40 infected among 40: do nothing, advise or close; closing costs each day, and many infected cost with their square."""
    spread, daily = (0.45, 0.28, 0.12), (0.0, 0.4, 1.5)

    def outcomes(infected: int, action: int) -> Iterable[Outcome]:
        reward = -daily[action] - (infected / 10.0) ** 2
        rate = spread[action] * infected * (40 - infected) / 40.0
        came = min(0.9, rate / 8.0)
        went = min(0.9, 0.22 * infected / 8.0)
        for (more, up), (fewer, down), (new, imported) in itertools.product(
            ((0, 1.0 - came), (5, came)), ((0, 1.0 - went), (4, went)), ((0, 0.9), (1, 0.1))
        ):
            yield up * down * imported, min(max(infected + more - fewer + new, 0), 40), reward

    return finite(0, [0, 1, 2], outcomes, "Epidemic")


def overbooking() -> FiniteMDP:
    """A flight with five seats, sold for a week at two fares; some buyers do not come. Sell all, only dear ones, or none."""

    def outcomes(state: tuple[int, int], action: int) -> Iterable[Outcome]:
        days, booked = state
        if days == 0:
            for came, chance in enumerate(binomial(booked, 0.8)):
                yield chance, (8, 0), -8.0 * max(came - 5, 0)
            return
        cheap, dear = (0.9, 0.2) if days > 3 else (0.5, 0.6)
        for one, other in itertools.product((0, 1), repeat=2):
            chance = (cheap if one else 1.0 - cheap) * (dear if other else 1.0 - dear)
            sold = (one * (action == 0), other * (action <= 1))
            sold = sold if booked + sum(sold) <= 12 else (0, 0)
            yield chance, (days - 1, booked + sum(sold)), 1.0 * sold[0] + 2.5 * sold[1]

    return finite((8, 0), [0, 1, 2], outcomes, "Overbooking")


def shuffled_sea() -> FiniteMDP:
    """A deep sea of 12 rows in which left and right are exchanged at random places, and one fall in ten goes the other way."""
    swapped = np.random.default_rng(12).integers(2, size=(12, 12))
    size = 12

    def outcomes(state: tuple[int, int], action: int) -> Iterable[Outcome]:
        row, column = state
        wanted = action ^ int(swapped[row, column])
        for right, chance in ((wanted, 0.97), (1 - wanted, 0.03)):
            reward = 100.0 * (right and row == column == size - 1) - 0.2 * right
            to = (0, 0) if row == size - 1 else (row + 1, column + 1 if right else max(column - 1, 0))
            yield chance, to, reward

    return finite((0, 0), [0, 1], outcomes, "ShuffledSea")


def simple_grid(size: int = 10) -> FiniteMDP:
    """SimpleGrid of the Colosseum benchmark (Conserva & Rauber 2022), continuing, reward type XOR, with 5 % random actions.

    Five moves on a grid, one of them to stay. To stay in a corner earns 1 in two opposite corners and 0 in the others; all other
    steps earn 0.5. It begins in the middle.
    """
    sides = ((0, 1), (1, 0), (0, -1), (-1, 0), (0, 0))
    most = size - 1

    def moved(place: tuple[int, int], action: int) -> tuple[tuple[int, int], float]:
        to = tuple(min(max(x + change, 0), most) for x, change in zip(place, sides[action], strict=True))
        if to != place or not set(place) <= {0, most}:
            return to, 0.5
        return to, float((place[0] == 0) != (place[1] == 0))

    def outcomes(place: tuple[int, int], action: int) -> Iterable[Outcome]:
        for each in range(5):
            to, reward = moved(place, each)
            yield 0.95 * (each == action) + 0.05 / 5, to, reward

    return finite((most // 2, most // 2), list(range(5)), outcomes, f"SimpleGrid({size})")


def rooms(room_size: int = 4) -> FiniteMDP:
    """MiniGridRooms of the Colosseum benchmark (Conserva & Rauber 2022), continuing: four rooms, with 5 % random actions.

    Actions go forward, or turn right or left. Rooms meet at one door in each wall. Each step that ends in the goal cell, in the
    room across, earns 1.
    """
    wide, door = 2 * room_size + 1, room_size // 2
    headings = ((0, 1), (1, 0), (0, -1), (-1, 0))
    free = {
        (x, y)
        for x, y in itertools.product(range(wide), repeat=2)
        if (x != room_size and y != room_size)
        or (x == room_size and y % (room_size + 1) == door and y != room_size)
        or (y == room_size and x % (room_size + 1) == door and x != room_size)
    }
    goal = (wide - 2, wide - 3)

    def moved(state: tuple[int, int, int], action: int) -> tuple[int, int, int]:
        x, y, heading = state
        if action:
            return x, y, (heading + (1 if action == 1 else -1)) % 4
        ahead = (x + headings[heading][0], y + headings[heading][1])
        return (*ahead, heading) if ahead in free else state

    def outcomes(state: tuple[int, int, int], action: int) -> Iterable[Outcome]:
        for each in range(3):
            to = moved(state, each)
            yield 0.95 * (each == action) + 0.05 / 3, to, float(to[:2] == goal)

    return finite((0, 1, 0), [0, 1, 2], outcomes, f"Rooms({room_size})")


def courier() -> FiniteMDP:
    """A courier in a town of 14 × 14 with eight customers, of whom at most one waits; a delivery earns 20, every step costs 0.1."""
    customers = [tuple(place) for place in np.random.default_rng(14).integers(14, size=(8, 2)).tolist()]
    sides = ((-1, 0), (0, 1), (1, 0), (0, -1))
    calls = (0.06, 0.02, 0.04, 0.02, 0.02, 0.08, 0.02, 0.04)

    def outcomes(state: tuple[int, int, int], action: int) -> Iterable[Outcome]:
        x, y, waiting = state
        x, y = (min(max(z + change, 0), 13) for z, change in zip((x, y), sides[action], strict=True))
        if waiting < 8:
            arrived = (x, y) == customers[waiting]
            yield 1.0, (x, y, 8 if arrived else waiting), 20.0 * arrived - 0.1
            return
        yield 1.0 - sum(calls), (x, y, 8), -0.1
        for customer, chance in enumerate(calls):
            yield chance, (x, y, customer), -0.1

    return finite((0, 0, 8), list(range(4)), outcomes, "Courier")


def pig() -> FiniteMDP:
    """The dice game Pig without an opponent: roll on and add up, or hold and take what is there; a one loses the turn."""

    def outcomes(total: int, hold: int) -> list[Outcome]:
        if hold:
            return [(1.0, 0, float(total))]
        return [(1 / 6, 0, 0.0), *((1 / 6, min(total + eyes, 40), 0.0) for eyes in range(2, 7))]

    return finite(0, [0, 1], outcomes, "Pig")


def fishery() -> FiniteMDP:
    """A stock of at most 30 fish that grows by its own size: five sizes of a net, and a lake fished empty recovers very slowly."""

    def outcomes(stock: int, net: int) -> Iterable[Outcome]:
        caught = min(2 * net, stock)
        left = stock - caught
        growth = 0.25 * left * (1.0 - left / 30.0)
        whole = int(growth)
        came_in = 0.02 if left == 0 else 0.0
        for luck, chance in ((-1, 0.2), (0, 0.5), (1, 0.3)):
            for more, odds in ((whole, 1.0 - (growth - whole)), (whole + 1, growth - whole)):
                if left == 0:
                    continue
                yield chance * odds, min(max(left + more + luck, 0), 30), 5.0 * caught - 0.5 * net**2
        if left == 0:
            yield came_in, 1, 5.0 * caught - 0.5 * net**2
            yield 1.0 - came_in, 0, 5.0 * caught - 0.5 * net**2

    return finite(20, list(range(5)), outcomes, "Fishery")


class LifeWorld(NamedTuple):
    """A world of the benchmark."""

    make: Callable[[], FiniteMDP]
    group: Literal["choose", "judge"]
    small: bool
    """Whether it has at most 100 pairs of a state and an action."""


def _choose(make: Callable[[], FiniteMDP], small: bool = False) -> LifeWorld:
    return LifeWorld(make, "choose", small)


def _judge(make: Callable[[], FiniteMDP], small: bool = False) -> LifeWorld:
    return LifeWorld(make, "judge", small)


WORLDS: dict[str, LifeWorld] = {
    "two-rooms": _choose(red_pill_blue_pill, small=True),
    "wear-12": _choose(lambda: maintenance(12), small=True),
    "long-chain-40": _choose(lambda: long_chain(40), small=True),  # its far end is a lure: it slips too often
    "long-chain-40-sure": _choose(lambda: long_chain(40, slip=0.02), small=True),
    "access-control-10": _choose(access_control, small=True),
    "river-6": _choose(lambda: river_swim(6), small=True),
    "river-12": _choose(lambda: river_swim(12), small=True),
    "river-24": _choose(lambda: river_swim(24), small=True),
    "deep-sea-20": _choose(deep_sea),
    "frozen-lake": _choose(lambda: FiniteMDP.from_gymnasium("FrozenLake-v1"), small=True),
    "queue-16": _choose(lambda: service_queue(15), small=True),
    "queue-100": _choose(lambda: service_queue(99)),
    "garnet-30x3": _choose(lambda: garnet(30, 3, 5, 30, reward_sd=0.5), small=True),
    "garnet-60x4": _choose(lambda: garnet(60, 4, 5, 60, reward_sd=0.5)),
    "garnet-200x4": _choose(lambda: garnet(200, 4, 5, 200, reward_sd=0.5)),
    "server-speeds-16": _choose(server_speeds, small=True),
    "climb-8": _choose(climb, small=True),
    "tickets": _choose(tickets),
    "taxi": _choose(taxi),
    "toymaker": _judge(toymaker, small=True),
    "polling": _judge(polling),
    "dam": _judge(dam),
    "hospital": _judge(hospital, small=True),
    "elevator": _judge(elevator),
    "lead-time": _judge(lead_time),
    "hidden-debt": _judge(hidden_debt),
    "lock": _judge(lock, small=True),
    "slippery-maze": _judge(slippery_maze),
    "two-components": _judge(two_components),
    "star": _judge(star),
    "two-mouths": _judge(two_mouths, small=True),
    "battery": _judge(battery),
    "rare-prizes": _judge(rare_prizes),
    "epidemic": _judge(epidemic),
    "overbooking": _judge(overbooking),
    "shuffled-sea": _judge(shuffled_sea),
    "simple-grid": _judge(simple_grid),
    "rooms": _judge(rooms),
    "courier": _judge(courier),
    "pig": _judge(pig, small=True),
    "fishery": _judge(fishery),
}


class Bounds(NamedTuple):
    """What scores are measured by: the long-run average rewards of the uniformly random policy and of the best one."""

    random: float
    optimum: float


def bounds(mdp: FiniteMDP) -> Bounds:
    """Exact, from the first state on."""
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    return Bounds(mdp.evaluate(uniform, start=mdp.initial).average_reward, mdp.solve().average_reward)


def communicates(mdp: FiniteMDP) -> bool:
    """Whether every state that can be reached from the first one can be reached from all of these."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    possible = mdp.outcomes.probability > 0.0
    come_from = np.nonzero(possible)[0]
    shape = (mdp.num_states, mdp.num_states)
    graph = csr_array((np.ones(come_from.size), (come_from, mdp.outcomes.next_state[possible])), shape=shape)
    starts = np.flatnonzero(mdp.initial)
    reached = np.unique(
        np.concatenate([breadth_first_order(graph, start, return_predecessors=False) for start in starts])
    )
    return bool(connected_components(graph[reached][:, reached], connection="strong")[0] == 1)


def main() -> None:
    for name, world in WORLDS.items():
        mdp = world.make()
        low, high = bounds(mdp)
        pairs = mdp.num_states * mdp.num_actions
        sums = ", ".join((f"{mdp.num_states} states × {mdp.num_actions}", f"random {low:.5g}", f"optimum {high:.5g}"))
        print(f"{world.group:7} {name:18} {sums}", flush=True)
        assert communicates(mdp), name
        assert world.small == (pairs <= SMALL), (name, pairs)
        assert high - low > 0.05 * max(abs(high), abs(low)), name


if __name__ == "__main__":
    main()
