"""Worlds of operations and of far-off rewards: their dynamics as documented, and answers derived by hand."""

from __future__ import annotations

import numpy as np
import pytest

from linear_programs import optimum_by_linear_program
from perstep.system.budget import TooLarge
from perstep.worlds import (
    admission_control,
    catch,
    criss_cross,
    garnet,
    inventory,
    long_chain,
    maintenance,
    perishable_stock,
    recycling_robot,
    river_swim,
    routing,
    service_queue,
    six_arms,
    tandem_queue,
)

EVERY = [
    river_swim, long_chain, six_arms, service_queue, inventory, perishable_stock, maintenance, recycling_robot, routing,
    tandem_queue,
]  # fmt: skip


@pytest.mark.parametrize("make", EVERY)
def test_every_world_has_a_name_and_an_optimum_above_random(make):
    mdp = make()
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    assert mdp.name
    assert mdp.solve().average_reward > mdp.evaluate(uniform, start=mdp.initial).average_reward


def test_river_swim_by_hand():
    mdp = river_swim(3)
    assert mdp.transitions[:, 0].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert mdp.transitions[:, 1] == pytest.approx(np.array([[0.4, 0.6, 0], [0.05, 0.6, 0.35], [0, 0.4, 0.6]]))
    assert mdp.expected_rewards.tolist() == [[0.005, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert mdp.evaluate(np.zeros(3, int)).average_reward == pytest.approx(0.005)
    # Always up: balance between neighbours gives μ1 = 12 μ0 and μ2 = 0.35/0.4 μ1 = 10.5 μ0, so μ2 = 10.5/23.5.
    assert mdp.solve().average_reward == pytest.approx(10.5 / 23.5)


def test_long_chain_by_hand():
    mdp = long_chain(2, slip=0.2, step_cost=0.01, near_reward=0.1, far_reward=5.0)
    # Forward at both places: the end has a share of 0.8.
    assert mdp.evaluate(np.ones(2, int)).average_reward == pytest.approx(0.8 * 5.0 - 0.2 * 0.01)
    assert mdp.evaluate(np.zeros(2, int)).average_reward == pytest.approx(0.1)
    assert mdp.transitions[1, 1] == pytest.approx([0.2, 0.8])


def test_six_arms_by_hand():
    mdp = six_arms()
    best = mdp.solve()
    assert best.average_reward == pytest.approx(6000.0)
    assert best.policy[[0, 6]].tolist() == [5, 5]
    assert all(best.policy[arm] != arm - 1 for arm in range(1, 6))  # back to the hall
    stay_at_first = mdp.evaluate(np.array([0, 0, 0, 0, 0, 0, 0]), start=mdp.initial)
    assert stay_at_first.average_reward == pytest.approx(50.0)
    # From the hall the last arm is reached after 100 steps on average, from the other arms after 101. Each is worth 6000.
    assert np.ptp(best.action_values.max(axis=1)) == pytest.approx(606_000.0)


def test_service_queue_by_hand():
    mdp = service_queue(1, arrival=0.5, service=(0.5,), service_costs=(2.0,), holding_cost=3.0)
    # An empty queue fills with 0.5, a full one empties with 0.5 · 0.5: the shares are 1/3 and 2/3.
    assert mdp.transitions[:, 0].tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert mdp.evaluate(np.zeros(2, int)).average_reward == pytest.approx(-2.0 - 3.0 * 2 / 3)


def test_inventory_by_hand():
    mdp = inventory(1, mean_demand=1 / 3)  # a demand of 0 or 1
    none = np.exp(-1 / 3)
    # Ordering a unit: cost 4 + 6; sold for 8, or kept for 0.5. What exceeds the capacity is not bought.
    assert mdp.expected_rewards[0, 1] == pytest.approx(-10.0 - 0.5 * none + 8.0 * (1.0 - none))
    assert mdp.expected_rewards[0, 0] == pytest.approx(-2.0 * (1.0 - none))
    assert mdp.expected_rewards[1, 1] == mdp.expected_rewards[1, 0]
    assert mdp.transitions[0, 1] == pytest.approx([1.0 - none, none])


def test_perishable_stock_sells_the_oldest_first_and_throws_away_what_is_left_of_it():
    mdp = perishable_stock(1, mean_demand=1 / 3)  # states (young, old): (0, 0), (0, 1), (1, 0), (1, 1)
    none = np.exp(-1 / 3)
    # Both ages in stock, nothing ordered: without demand the old unit is waste and the young one grows old.
    assert mdp.transitions[3, 0] == pytest.approx([0.0, 1.0, 0.0, 0.0])
    assert mdp.expected_rewards[3, 0] == pytest.approx(-2.0 * none + 6.0 * (1.0 - none))
    # A young unit and a fresh one: a demand takes the young one.
    assert mdp.transitions[2, 1] == pytest.approx([0.0, 0.0, 1.0 - none, none])
    assert mdp.expected_rewards[0, 0] == pytest.approx(-3.0 * (1.0 - none))


def test_maintenance_by_hand():
    mdp = maintenance(5)
    assert mdp.transitions[0, 0] == pytest.approx([0.7, 0.25, 0.0, 0.0, 0.05])
    assert mdp.transitions[3, 0] == pytest.approx([0.0, 0.0, 0.0, 0.7, 0.3])
    assert mdp.transitions[4].argmax(axis=1).tolist() == [4, 1, 0]
    assert mdp.expected_rewards[3].tolist() == [7.0, -4.0, -12.0]
    assert mdp.expected_rewards[4, 0] == -5.0


def test_recycling_robot_by_hand():
    mdp = recycling_robot()
    # Search while high, recharge while low: six parts of the time 5/6 and 1/6, so 2 · 5/6.
    assert mdp.solve().average_reward == pytest.approx(2.0 * 5 / 6)
    assert mdp.expected_rewards[0, 0] == pytest.approx(0.7 * 2.0 - 0.3 * 3.0)


def test_tandem_queue_moves_one_customer_at_a_time():
    mdp = tandem_queue(2)  # state = 3 · first + second
    moves = mdp.transitions[4, 2]  # one customer in each
    assert moves[[7, 2, 3, 4]] == pytest.approx([0.25, 0.35, 0.28, 0.12])
    assert mdp.transitions[5, 2, 5] == pytest.approx(1.0 - 0.25 - 0.28)  # the second is full: nobody moves on
    assert mdp.expected_rewards[4].tolist() == [-3.0, -3.5, -5.0]
    assert mdp.expected_rewards[6, 0] == -2.0 - 5.0


def test_tandem_queue_with_admission():
    mdp = tandem_queue(2, rejection_cost=10.0)  # actions 0 to 2 admit at each rate, 3 to 5 reject
    assert mdp.transitions[4, 2, [7, 2, 3, 4]] == pytest.approx([0.25, 0.35, 0.28, 0.12])
    assert mdp.transitions[4, 5, [7, 2, 3, 4]] == pytest.approx([0.0, 0.35, 0.28, 0.37])
    # A customer arrives in a quarter of the steps, and is rejected by the controller or by a full queue.
    assert mdp.expected_rewards[4] == pytest.approx([-3.0, -3.5, -5.0, -5.5, -6.0, -7.5])
    assert mdp.expected_rewards[6, [0, 3]] == pytest.approx([-2.0 - 5.0 - 2.5, -2.0 - 5.0 - 2.5])
    # If nobody is admitted, both queues become empty, and only the rejections cost.
    assert mdp.evaluate(np.full(9, 5)).average_reward == pytest.approx(-2.0 - 0.25 * 10.0)
    # Admission that costs nothing to refuse is never granted; where refusing is ruinous, it always is while there is room.
    assert tandem_queue(4, rejection_cost=0.0).solve().average_reward == pytest.approx(0.0)
    dear = tandem_queue(4, rejection_cost=1e4).solve().policy.reshape(5, 5)
    assert (dear[:4] < 3).all()


def test_tandem_queue_with_admission_against_linear_programming():
    mdp = tandem_queue(4, rejection_cost=60.0)
    solution = mdp.solve()
    assert solution.proven
    assert solution.average_reward == pytest.approx(optimum_by_linear_program(mdp), abs=1e-8)
    gains = {name: mdp.evaluate(policy).average_reward for name, policy in mdp.heuristics.items()}
    assert len(gains) == 4
    assert max(gains.values()) <= solution.interval[1]
    # The choice is worth something: who may reject earns more than who may not and pays the same for a full queue.
    assert gains["the same, at most 4 inside"] > gains["fast while fewer than 3 wait behind"]


def test_routing_by_hand():
    mdp = routing(1)  # state = 2 · fast + slow
    assert mdp.transitions[0].argmax(axis=1).tolist() == [0, 0, 0]  # ties to the first: it stays or fills with 0.5
    assert mdp.transitions[0, 0, [0, 2]].tolist() == [0.5, 0.5]
    assert mdp.transitions[0, 1, [0, 1]].tolist() == [0.5, 0.5]
    assert mdp.transitions[3, 0] == pytest.approx([0.0, 0.3, 0.15, 0.55])
    # Both full: two customers wait, and an arrival is rejected whatever the action.
    assert mdp.expected_rewards[3] == pytest.approx(-2.0 - 0.5 * 15.0)
    assert mdp.expected_rewards[2].tolist() == [-1.0 - 7.5, -1.0, -1.0 - 7.5]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: river_swim(1), "at least 2 places, got 1"),
        (lambda: long_chain(1), "at least 2 places, got 1"),
        (lambda: long_chain(slip=1.0), "from 0 to below 1, got 1.0"),
        (lambda: service_queue(0), "capacity must be at least 1, got 0"),
        (lambda: service_queue(service=(0.5,)), "one entry per action each, got 1 and 3"),
        (lambda: service_queue(arrival=1.5), "arrival must be probabilities from 0 to 1, got 1.5"),
        (lambda: inventory(mean_demand=0.0), "mean_demand must be above 0"),
        (lambda: maintenance(wear=0.7, failure=0.5), "their sum must be probabilities"),
        (lambda: tandem_queue(arrival=0.9), "largest sum must be probabilities"),
        (lambda: recycling_robot(stays_low=-0.1), "stays_high and stays_low must be"),
        (lambda: perishable_stock(0), "most must be at least 1"),
    ],
)
def test_impossible_numbers_are_refused_with_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tandem_queue(31_622, rejection_cost=1.0), "A tandem queue with 1,000,014,129 states needs 4,800"),
        (lambda: routing(31_622), "Routing with 1,000,014,129 states"),
        (lambda: service_queue(10**9), "A service queue with 1,000,000,001 states"),
        (lambda: inventory(10**6), "An inventory with 1,000,001 states"),
        (lambda: perishable_stock(10**4), "A perishable stock with 100,020,001 states"),
        (lambda: maintenance(10**9), "A machine with 1,000,000,000 states"),
        (lambda: river_swim(10**9), "RiverSwim with 1,000,000,000 states"),
        (lambda: long_chain(10**9), "A chain with 1,000,000,000 states"),
        (lambda: admission_control(10**9), "Admission control with 1,000,000,001 states"),
        (lambda: criss_cross(999), "A criss-cross network with 1,000,000,000 states"),
        (lambda: catch(10**5, 100), "Catch with 1,000,000,000 states"),
        (lambda: garnet(10**9, 2, 2, seed=0), "A Garnet world with 1,000,000,000 states"),
    ],
)
def test_a_billion_states_are_refused_with_a_sentence_before_any_array_is_made(make, words):
    with pytest.raises(TooLarge, match=words):
        make()
