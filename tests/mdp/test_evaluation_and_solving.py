"""Exact answers against numbers by hand, against linear programming and dense algebra, and against compiled sampling."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_programs import optimum_by_linear_program
from perstep.mdp.evaluation import NotUnichain
from perstep.mdp.mdp import FiniteMDP, GaussianRewards
from perstep.mdp.policy_tables import policy_probabilities
from perstep.mdp.solving import NotCommunicating
from perstep.worlds.far_rewards import river_swim
from perstep.worlds.loops import two_loop
from perstep.worlds.operations import routing, tandem_queue
from perstep.worlds.random_mdps import garnet
from perstep.worlds.redpill import red_pill_blue_pill
from perstep.worlds.servers import access_control

# A world by hand. Action 0 stays, action 1 moves on to the next of three states; staying earns 0, 1, 2.
RING = FiniteMDP(
    [[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [1, 0, 0]]], [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
)


def evaluation_by_dense_algebra(mdp: FiniteMDP, policy: np.ndarray[Any, Any]) -> tuple[float, Any, Any]:
    """r̄, μ and v by least squares on the defining equations, all states at once."""
    chain = np.einsum("sa,sat->st", policy, mdp.transitions)
    rewards = (policy * mdp.expected_rewards).sum(axis=1)
    size, ones = mdp.num_states, np.ones(mdp.num_states)
    stationary = np.linalg.lstsq(np.vstack([np.eye(size) - chain.T, ones]), np.append(np.zeros(size), 1.0), rcond=None)[
        0
    ]
    # Unknowns v and r̄: v + r̄ − P v = r, μ·v = 0.
    system = np.block([[np.eye(size) - chain, ones[:, None]], [stationary[None, :], np.zeros((1, 1))]])
    solution = np.linalg.lstsq(system, np.append(rewards, 0.0), rcond=None)[0]
    return float(solution[-1]), stationary, solution[:-1]


# ---------------------------------------------------------------------------------------------------------- by hand


def test_two_states_by_hand() -> None:
    # From 0 to 1 with ¼, from 1 to 0 with ½: μ = (2/3, 1/3). Rewards 3 and 0: r̄ = 2. v0 − v1 = (3 − 2)/¼ = 4.
    mdp = FiniteMDP([[[0.75, 0.25]], [[0.5, 0.5]]], [[3.0], [0.0]])
    answer = mdp.evaluate([0, 0])
    assert answer.average_reward == pytest.approx(2.0, abs=1e-14)
    assert answer.stationary == pytest.approx([2 / 3, 1 / 3], abs=1e-14)
    assert answer.state_values == pytest.approx([4 / 3, -8 / 3], abs=1e-13)
    assert answer.action_values[:, 0] == pytest.approx(answer.state_values, abs=1e-13)
    assert answer.reward_distribution.means.tolist() == [0.0, 3.0]
    assert answer.reward_distribution.weights == pytest.approx([1 / 3, 2 / 3], abs=1e-14)


def test_ring_by_hand() -> None:
    solution = RING.solve()
    assert solution.average_reward == 2.0
    assert solution.policy.tolist() == [1, 1, 0]  # go to state 2 and stay
    assert solution.state_values.tolist() == [-4.0, -2.0, 0.0]  # two steps without the 2 a step, one step without
    assert solution.action_values == pytest.approx(np.array([[-6, -4], [-3, -2], [0, -6]]), abs=1e-14)
    assert RING.optimality_gap(solution.action_values) == pytest.approx(0.0, abs=1e-14)
    # q = 0: Tq − q = r, from 0 to 2.
    assert RING.optimality_gap(np.zeros((3, 2))) == 2.0
    # Always move: a cycle of period 3 that earns nothing.
    assert RING.evaluate([1, 1, 1]).stationary == pytest.approx([1 / 3] * 3)


def test_two_loop() -> None:
    mdp = two_loop()
    assert mdp.evaluate(np.zeros(9, dtype=int)).average_reward == pytest.approx(0.2, abs=1e-14)
    assert mdp.evaluate(np.ones(9, dtype=int)).average_reward == pytest.approx(0.4, abs=1e-14)
    uniform = mdp.evaluate(np.full((9, 2), 0.5))
    assert uniform.average_reward == pytest.approx(0.3, abs=1e-14)
    assert uniform.state_values == pytest.approx([-0.2, -1.4, -1.1, -0.8, -0.5, 0.6, 0.9, 1.2, 1.5], abs=1e-13)
    assert mdp.solve().average_reward == pytest.approx(0.4, abs=1e-14)
    assert mdp.solve().policy.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]  # the lowest action where both are the same


def test_red_pill() -> None:
    mdp = red_pill_blue_pill()
    assert mdp.evaluate([0, 0]).average_reward == pytest.approx(-0.7, abs=1e-6)
    assert mdp.evaluate([1, 1]).average_reward == pytest.approx(-0.6, abs=1e-6)
    blue = mdp.evaluate([1, 1], epsilon=0.1)
    assert blue.average_reward == pytest.approx(-0.605, abs=1e-6)
    assert blue.average_reward == pytest.approx(blue.reward_distribution.mean, abs=1e-14)
    known = [-1.0626, -1.0241, -0.9968, -0.9683, -0.9190, -0.2810, -0.2317, -0.2033, -0.1761, -0.1374]
    assert blue.reward_distribution.levels_and_quantiles(10)[1] == pytest.approx(known, abs=1.3e-4)
    assert mdp.solve().policy.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("order", "best", "best_soft"), [("free-first", 2.7432, 2.6426), ("accept-first", 2.7476, 2.6469)]
)
def test_access_control(order: Any, best: float, best_soft: float) -> None:
    mdp = access_control(order)
    solution = mdp.solve()
    assert solution.average_reward == pytest.approx(best, abs=5e-5)
    # Never accept 1, accept 2 with four or more free servers, always 4 and 8 (where there is a choice).
    accepts = solution.policy.reshape(11, 4)[1:] == 1
    assert not accepts[:, 0].any()
    assert accepts[:, 1].tolist() == [False] * 3 + [True] * 7
    assert accepts[:, 2:].all()
    assert mdp.evaluate(np.ones(44, dtype=int)).average_reward == pytest.approx(2.1814, abs=5e-5)
    assert mdp.evaluate(np.full((44, 2), 0.5)).average_reward == pytest.approx(1.6982, abs=5e-5)
    # The best policy that acts at random a tenth of the time is the best of a world that does so by itself.
    soft = FiniteMDP(
        0.9 * mdp.transitions + 0.1 * mdp.transitions.mean(axis=1, keepdims=True),
        0.9 * mdp.expected_rewards + 0.1 * mdp.expected_rewards.mean(axis=1, keepdims=True),
    ).solve()
    assert soft.average_reward == pytest.approx(best_soft, abs=5e-5)
    assert mdp.evaluate(soft.policy, epsilon=0.1).average_reward == pytest.approx(soft.average_reward, abs=1e-12)


# --------------------------------------------------------------------------------------------- against other methods

GARNETS = [
    (5 + (195 * i) // 49, 2 + i % 3, 1 + i % 6, i) for i in range(50)
]  # 5 to 200 states, deterministic to branching 6


@pytest.mark.parametrize(("states", "actions", "branching", "seed"), GARNETS)
def test_garnet_agrees_with_linear_programming(states: int, actions: int, branching: int, seed: int) -> None:
    mdp = garnet(states, actions, branching, seed)
    solution = mdp.solve()
    assert solution.average_reward == pytest.approx(optimum_by_linear_program(mdp), abs=1e-8)
    assert mdp.optimality_gap(solution.action_values) < 1e-10
    own = mdp.evaluate(solution.policy)
    assert own.average_reward == pytest.approx(solution.average_reward, abs=1e-12)
    assert own.stationary @ solution.state_values == pytest.approx(0.0, abs=1e-9)
    # A random policy that takes every action somewhere: one closed class, since the world communicates.
    policy = np.random.default_rng(seed).dirichlet(np.ones(actions), size=states)
    gain, stationary, values = evaluation_by_dense_algebra(mdp, policy)
    answer = mdp.evaluate(policy)
    assert answer.average_reward == pytest.approx(gain, abs=1e-8)
    assert answer.stationary == pytest.approx(stationary, abs=1e-8)
    assert answer.state_values == pytest.approx(values, abs=1e-8)
    assert (policy * answer.action_values).sum(axis=1) == pytest.approx(answer.state_values, abs=1e-9)
    assert answer.reward_distribution.mean == pytest.approx(gain, abs=1e-8)
    assert answer.average_reward <= solution.average_reward + 1e-12


def test_sparse_and_dense_factorisations_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = garnet(60, 3, 4, seed=3)
    dense = mdp.evaluate(np.zeros(60, dtype=int), epsilon=0.3)
    monkeypatch.setattr("perstep.mdp.chains.DENSE_UP_TO", 10)
    sparse = mdp.evaluate(np.zeros(60, dtype=int), epsilon=0.3)
    assert sparse.stationary == pytest.approx(dense.stationary, abs=1e-13)
    assert sparse.state_values == pytest.approx(dense.state_values, abs=1e-11)
    assert mdp.solve().average_reward == pytest.approx(optimum_by_linear_program(mdp), abs=1e-8)


@pytest.mark.parametrize(("name", "reset_cost"), [("FrozenLake-v1", 0.0), ("CliffWalking-v1", 5.0), ("Taxi-v4", 0.0)])
def test_gymnasium_worlds_agree_with_linear_programming(name: str, reset_cost: float) -> None:
    mdp = FiniteMDP.from_gymnasium(name, reset_cost)
    solution = mdp.solve()
    counted = ~np.isnan(solution.state_values)
    assert solution.average_reward == pytest.approx(optimum_by_linear_program(mdp, counted), abs=1e-8)
    assert mdp.optimality_gap(solution.action_values) < 1e-10
    assert mdp.evaluate(solution.policy).average_reward == pytest.approx(solution.average_reward, abs=1e-11)


def test_taxi_leaves_out_states_without_a_passenger_to_drive() -> None:
    # A passenger who already stands at the destination: 25 places of the taxi for each of four destinations.
    solution = FiniteMDP.from_gymnasium("Taxi-v4").solve()
    assert np.isnan(solution.state_values).sum() == 100
    assert np.isnan(solution.action_values).all(axis=1).sum() == 100


# ------------------------------------------------------------------------------------------------------- structure


def test_not_unichain_names_the_classes() -> None:
    stay = [0, 0, 0]
    with pytest.raises(NotUnichain, match=r"3 closed classes: \{0\}, \{1\} and \{2\}.*Give start=0"):
        RING.evaluate(stay)
    assert issubclass(NotUnichain, ValueError)
    # 2 falls to 0 or 4 by chance; {0, 1} and {4} are closed, 3 leads to 4.
    chain = np.zeros((5, 1, 5))
    for s, successors in enumerate([[1], [0], [0, 4], [4], [4]]):
        chain[s, 0, successors] = 1.0 / len(successors)
    mdp = FiniteMDP(chain, np.arange(5.0)[:, None])
    with pytest.raises(NotUnichain, match=r"2 closed classes: \{0, 1\} and \{4\}"):
        mdp.evaluate(np.zeros(5, dtype=int))
    with pytest.raises(NotUnichain, match=r"depends on chance. Give a start inside one of them"):
        mdp.evaluate(np.zeros(5, dtype=int), start=2)
    with pytest.raises(NotUnichain, match=r"2 closed classes: \{0, 1\} and \{4\}"):
        mdp.evaluate(np.zeros(5, dtype=int), start=[0.5, 0.0, 0.0, 0.5, 0.0])
    from_three = mdp.evaluate(np.zeros(5, dtype=int), start=3)
    assert from_three.average_reward == 4.0
    assert from_three.stationary.tolist() == [0, 0, 0, 0, 1]
    assert from_three.state_values[3:].tolist() == [-1.0, 0.0]
    assert np.isnan(from_three.state_values[:3]).all()
    assert np.isnan(from_three.action_values[:3]).all()
    assert mdp.evaluate(np.zeros(5, dtype=int), start=1).average_reward == 0.5


def test_many_and_long_classes_are_shortened() -> None:
    stay = np.eye(30)[:, None, :]
    with pytest.raises(NotUnichain, match=r"30 closed classes: \{0\}, \{1\}, \{2\}, \{3\} and 26 more"):
        FiniteMDP(stay, np.zeros((30, 1))).evaluate(np.zeros(30, dtype=int))
    two_rings = np.zeros((30, 1, 30))
    two_rings[np.arange(30), 0, [*range(1, 20), 0, *range(21, 30), 20]] = 1.0
    with pytest.raises(NotUnichain, match=r"\{0, 1, 2, 3, …, 19\} \(20 states\) and \{20, 21, 22, 23, …, 29\} \(10"):
        FiniteMDP(two_rings, np.zeros((30, 1))).evaluate(np.zeros(30, dtype=int))


def test_initial_decides_where_only_it_can() -> None:
    # Two rings of two states: with the start in one of them, there is one answer.
    rings = np.zeros((4, 1, 4))
    rings[[0, 1, 2, 3], 0, [1, 0, 3, 2]] = 1.0
    rewards = np.array([[1.0], [2.0], [5.0], [7.0]])
    with pytest.raises(NotUnichain):
        FiniteMDP(rings, rewards).evaluate([0] * 4)
    with pytest.raises(NotCommunicating, match=r"2 parts .* do not communicate: \{0, 1\} and \{2, 3\}"):
        FiniteMDP(rings, rewards).solve()
    mdp = FiniteMDP(rings, rewards, initial=[0, 0, 1, 0])
    assert mdp.evaluate([0] * 4).average_reward == 6.0
    assert mdp.solve().average_reward == 6.0
    assert np.isnan(mdp.solve().state_values).tolist() == [True, True, False, False]


def test_not_communicating_sees_what_a_policy_can_stay_in() -> None:
    # State 0 can stay or leave for 1, from where there is no way back: two parts.
    one_way = FiniteMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(NotCommunicating, match=r"\{0\} and \{1\}"):
        one_way.solve()
    assert issubclass(NotCommunicating, ValueError)
    # If state 0 cannot be stayed in, it is only on the way, and the world is as good as communicating.
    on_the_way = FiniteMDP([[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]], [[1.0, 2.0], [3.0, 0.0]])
    solution = on_the_way.solve()
    assert solution.average_reward == 3.0
    # Action 0: 1 − 3 and then state 1. Action 1: v = 2 − 3 + v/2, so v = −2 too; the lowest of both is named.
    assert solution.state_values.tolist() == pytest.approx([-2.0, 0.0], abs=1e-12)
    assert solution.policy.tolist() == [0, 0]


def test_optimal_policy_holds_together_where_two_classes_are_equally_good() -> None:
    # Staying in 0 or in 2 earns 1 each: "the lowest action" would stay in both, and have no single answer.
    mdp = FiniteMDP(RING.transitions, [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    solution = mdp.solve()
    assert solution.average_reward == 1.0
    assert mdp.evaluate(solution.policy).average_reward == 1.0


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 3), st.integers(1, 2))
def test_any_world_is_solved_or_refused(seed: int, states: int, actions: int, branching: int) -> None:
    """Random sparse worlds that need not communicate, with tied rewards: the answer is the linear program's, or a refusal."""
    random = np.random.default_rng(seed)
    transitions = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            transitions[s, a, random.choice(states, size=min(branching, states), replace=False)] = 1.0 / min(
                branching, states
            )
    mdp = FiniteMDP(transitions, random.integers(0, 3, size=(states, actions)).astype(float))
    try:
        solution = mdp.solve()
    except NotCommunicating:
        return
    assert solution.average_reward == pytest.approx(optimum_by_linear_program(mdp), abs=1e-8)
    assert mdp.optimality_gap(solution.action_values) == pytest.approx(0.0, abs=1e-10)
    assert mdp.evaluate(solution.policy).average_reward == pytest.approx(solution.average_reward, abs=1e-10)


def test_slow_mixing_keeps_its_digits() -> None:
    # Two states joined by 1e-7: μ = (½, ½), r̄ = ½, v0 − v1 = (1 − ½)/1e-7.
    rare = 1e-7
    answer = FiniteMDP([[[1 - rare, rare]], [[rare, 1 - rare]]], [[1.0], [0.0]]).evaluate([0, 0])
    assert answer.average_reward == pytest.approx(0.5, abs=1e-9)
    assert np.ptp(answer.state_values) == pytest.approx(0.5 / rare, rel=1e-8)


def test_the_optimum_is_proven_within_an_interval() -> None:
    solution = access_control().solve()
    low, high = solution.interval
    assert low <= solution.average_reward <= high < low + 1e-11
    assert solution.proven
    # Values of 1e12: the optimum is known to fewer digits than were asked for, and the answer says so.
    rare = FiniteMDP([[[1 - 1e-12, 1e-12]] * 2, [[1e-12, 1 - 1e-12]] * 2], [[1.0, 0.5], [0.0, -1.0]])
    answer = rare.solve(tolerance=0.0)
    assert answer.interval[0] <= 0.5 <= answer.interval[1]
    assert not answer.proven
    assert "not within the 0 that was asked for" in repr(answer)
    with pytest.raises(ValueError, match="tolerance must be a number of at least 0, the width of the proven interval"):
        rare.solve(tolerance=-1.0)


def test_large_models_agree_with_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps in place, sparse factors and GMRES, on models that LAPACK and plain policy iteration solve too."""
    for mdp in (tandem_queue(12), routing(12), garnet(150, 3, 40, seed=1), river_swim(160)):
        exact = mdp.solve()
        with monkeypatch.context() as large:
            large.setattr("perstep.mdp.chains.DENSE_UP_TO", 100)
            solution = mdp.solve(tolerance=1e-10)
            again = mdp.evaluate(solution.policy)
        assert solution.proven
        assert solution.interval[0] <= exact.interval[1]
        assert exact.interval[0] <= solution.interval[1]
        assert solution.average_reward == pytest.approx(exact.average_reward, abs=1e-10)
        assert again.average_reward == pytest.approx(mdp.evaluate(solution.policy).average_reward, abs=1e-12)
        assert solution.action_values == pytest.approx(exact.action_values, rel=1e-6, abs=1e-6)


def test_the_queue_that_is_rarely_full_keeps_its_digits() -> None:
    """Values of 1e6 in states that are never seen: the average and the proof keep nine digits."""
    mdp = tandem_queue(60)
    solution = mdp.solve()
    assert solution.proven
    evaluation = mdp.evaluate(solution.policy)
    assert evaluation.average_reward == pytest.approx(solution.average_reward, abs=1e-10)
    assert evaluation.reward_distribution.mean == pytest.approx(solution.average_reward, abs=1e-9)


def test_one_state() -> None:
    mdp = FiniteMDP(np.ones((1, 2, 1)), [[1.0, 3.0]])
    assert mdp.evaluate([0]).average_reward == 1.0
    assert mdp.evaluate([0], epsilon=1.0).average_reward == 2.0
    assert mdp.solve().average_reward == 3.0
    assert mdp.solve().state_values.tolist() == [0.0]


def test_theorem_bound_holds() -> None:
    """|r̄* − r̄(greedy in q)| ≤ sp(Tq − q), the paper's Theorem 4.4, for any q whose greedy policy is unichain."""
    mdp, random = access_control(), np.random.default_rng(0)
    best = mdp.solve()
    for scale in (0.01, 0.1, 1.0, 10.0):
        q = best.action_values + scale * random.normal(size=(44, 2))
        assert best.average_reward - mdp.evaluate(q.argmax(axis=1)).average_reward <= mdp.optimality_gap(q) + 1e-12


# -------------------------------------------------------------------------------------------------- policies, input


def test_policy_in_its_three_forms() -> None:
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    for policy in ([1, 0, 1], rows, lambda s: [1, 0, 1][s], lambda s: rows[s], np.array([1.0, 0.0, 1.0])):
        assert np.array_equal(policy_probabilities(policy, 3, 2), rows)
    assert policy_probabilities([1, 0, 1], 3, 2, epsilon=0.1) == pytest.approx(0.9 * rows + 0.05)
    assert policy_probabilities([[Fraction(1, 3), Fraction(2, 3)]], 1, 2).tolist() == [[1 / 3, 2 / 3]]
    single = np.float32([[1 / 3, 2 / 3]] * 3)
    assert policy_probabilities(single, 3, 2).sum(axis=1) == pytest.approx(np.ones(3), abs=1e-15)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (
            lambda: RING.evaluate([0, 1]),
            r"shape \(3,\), probabilities of shape \(3, 2\) or a function.*got shape \(2,\)",
        ),
        (lambda: RING.evaluate([0, 1, 2]), r"from 0 to 1, got 2 at policy\[2\]. Number the actions from 0"),
        (lambda: RING.evaluate([0.5, 1, 1]), r"got 0.5 at policy\[0\]"),
        (lambda: RING.evaluate([[0.5, 0.4]] * 3), r"sum to 1; got policy\[0\] = \[0.5 0.4\] with sum 0.9. Divide"),
        (lambda: RING.evaluate([[1.5, -0.5]] * 3), r"0 or more, that sum to 1; got policy\[0\]"),
        (lambda: RING.evaluate([[np.nan, 1.0]] * 3), r"policy\[0\] = \[nan"),
        (lambda: RING.evaluate(lambda s: s), r"got 2 at policy\[2\]"),
        (lambda: RING.evaluate(lambda s: 0 if s else [0.5, 0.5]), "got both. Return one kind"),
        (lambda: RING.evaluate(lambda s: None), "an action for every state, got None for 0. If it is a function"),
        (lambda: RING.evaluate(np.array([0, "left", 1], object)), "of numbers, .* got 'left'"),
        (lambda: RING.evaluate([0, 0, 0], epsilon=1.5), "from 0 to 1, got 1.5"),
        (lambda: RING.evaluate([0, 0, 0], start=3), "start must be a state from 0 to 2 .* got 3"),
        (lambda: RING.evaluate([0, 0, 0], start=[0.5, 0.5]), r"a distribution over the 3 states, got \[0.5, 0.5\]"),
        (lambda: RING.optimality_gap(np.zeros((2, 3))), r"shape \(3, 2\), got shape \(2, 3\)"),
        (lambda: RING.optimality_gap(np.full((3, 2), np.nan)), "must be finite .* smaller step size"),
        (lambda: RING.optimality_gap([[0, np.inf], [0, 0], [0, 0]]), "must be finite"),
    ],
)
def test_bad_input_gets_a_sentence(attempt: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        attempt()


def test_mixture_rewards_reach_the_limit() -> None:
    # Next state 0 with ¼ (reward ½ at N(0, 1), ½ at N(4, 1)), next state 1 with ¾ (one normal at N(1, 2)); both states alike.
    rewards = GaussianRewards([[0.0, 4.0], [1.0, 1.0]], [[1.0, 1.0], [2.0, 2.0]], weights=[0.5, 0.5])
    d = FiniteMDP(np.broadcast_to([0.25, 0.75], (2, 1, 2)), rewards).evaluate([0, 0]).reward_distribution
    assert d.means.tolist() == [0.0, 1.0, 4.0]
    assert d.sds.tolist() == [1.0, 2.0, 1.0]
    assert d.weights == pytest.approx([0.125, 0.75, 0.125])
