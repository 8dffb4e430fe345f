"""A finite world from its numbers: what is kept, what is drawn, what is stored, and a sentence for every bad input."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from perstep.mdp.evaluation import NotUnichain
from perstep.mdp.mdp import FiniteMDP, GaussianRewards
from perstep.mdp.sampler import FiniteWorld, alias_table, start, step
from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import make_generator, uniform
from perstep.worlds.loops import two_loop
from perstep.worlds.random_mdps import garnet
from perstep.worlds.redpill import red_pill_blue_pill
from perstep.worlds.servers import access_control

HALVES = np.full((2, 1, 2), 0.5)  # two states, one action, either state next


@compiled
def roll_out(world: Any, cumulative: Any, generator: Any, rewards: Any) -> Any:
    """Follow a policy given by running sums of probabilities (S, A), and write down the rewards (N,)."""
    state = start(world, generator)
    for t in range(rewards.shape[0]):
        action = 0
        point = uniform(generator)
        while action < cumulative.shape[1] - 1 and cumulative[state, action] <= point:
            action += 1
        reward, state = step(world, state, action, generator)
        rewards[t] = reward
    return state


@compiled
def count(world: Any, state: Any, action: Any, generator: Any, counts: Any, draws: Any) -> None:
    """How often each state comes next, in so many draws from one pair."""
    for _ in range(draws):
        _, next_state = step(world, state, action, generator)
        counts[next_state] += 1


@compiled
def count_starts(world: Any, generator: Any, counts: Any, draws: Any) -> None:
    """How often each state comes first."""
    for _ in range(draws):
        counts[start(world, generator)] += 1


def far_off(counts: Any, probabilities: Any) -> float:
    """The largest distance of a count from what is expected, in standard deviations."""
    draws = counts.sum()
    sd = np.sqrt(np.maximum(draws * probabilities * (1.0 - probabilities), 1e-9))
    return float(np.abs((counts - draws * probabilities) / sd).max())


# ------------------------------------------------------------------------------------------------------ what is kept


def test_rewards_of_pairs_and_of_triples() -> None:
    by_pair = FiniteMDP(HALVES, [[1.0], [2.0]])
    assert by_pair.expected_rewards.tolist() == [[1.0], [2.0]]
    by_triple = FiniteMDP(HALVES, [[[1.0, 3.0]], [[0.0, 0.0]]])
    assert by_triple.expected_rewards.tolist() == [[2.0], [0.0]]
    assert (by_triple.num_states, by_triple.num_actions) == (2, 1)
    assert np.array_equal(by_triple.transitions, HALVES)
    assert by_triple.initial.tolist() == [0.5, 0.5]


def test_only_what_can_happen_is_kept() -> None:
    mdp = FiniteMDP(np.eye(50)[:, None, :], np.arange(50.0)[:, None])
    assert mdp.outcomes.probability.shape == (50, 1, 1)
    assert red_pill_blue_pill().outcomes.probability.tolist() == [[[1, 0], [1, 0]], [[0.5, 0.5], [0.5, 0.5]]]


def test_equal_outcomes_are_merged() -> None:
    mdp = FiniteMDP.from_outcomes([[[0.25, 0.25, 0.5]]], [[[0, 0, 0]]], [[[1.0, 1.0, 2.0]]])
    assert mdp.outcomes.probability.tolist() == [[[0.5, 0.5]]]
    assert mdp.outcomes.mean.tolist() == [[[1.0, 2.0]]]
    capped = FiniteMDP.from_outcomes([[[0.5, 0.5]]], 0, [[[1.0, 2.0]]], cap=0.5)
    assert capped.outcomes.mean.tolist() == [[[0.5]]]


def test_capped_normal_rewards_have_their_mean() -> None:
    # E min(0, N(0, 1)) = −φ(0) = −1/√(2π).
    mdp = FiniteMDP(HALVES, GaussianRewards(0.0, 1.0, cap=0.0))
    assert mdp.expected_rewards == pytest.approx(np.full((2, 1), -1.0 / np.sqrt(2.0 * np.pi)), abs=1e-15)
    assert FiniteMDP(HALVES, GaussianRewards([1.0, 3.0], 1.0)).expected_rewards.tolist() == [[2.0], [2.0]]


def test_mixture_with_unequal_weights() -> None:
    rewards = GaussianRewards(np.array([0.0, 10.0]), 0.5, weights=[[[[0.9, 0.1]]], [[[0.2, 0.8]]]])
    assert FiniteMDP(HALVES, rewards).expected_rewards == pytest.approx(np.array([[1.0], [8.0]]))


def test_impossible_transitions_may_have_any_reward() -> None:
    mdp = FiniteMDP(np.eye(2)[:, None, :], [[[1.0, np.nan]], [[np.inf, 2.0]]])
    assert mdp.expected_rewards.tolist() == [[1.0], [2.0]]


def test_small_errors_of_rounding_are_taken_away() -> None:
    mdp = FiniteMDP(HALVES + 1e-11, np.zeros((2, 1)))
    assert np.abs(mdp.transitions.sum(axis=2) - 1.0).max() < 1e-15


# ----------------------------------------------------------------------------------------------------- what is drawn


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), min_size=1, max_size=5))
def test_alias_table_gives_back_the_probabilities(rows: list[list[int]]) -> None:
    probability = np.array(rows, dtype=float)
    probability /= probability.sum(axis=1, keepdims=True)
    accept, alias = alias_table(probability)
    recovered = accept / 4.0
    for row in range(len(rows)):
        np.add.at(recovered[row], alias[row], (1.0 - accept[row]) / 4.0)
    assert recovered == pytest.approx(probability, abs=1e-15)
    assert (accept[probability == 0.0] == 0.0).all()  # what cannot happen is never drawn, not even by rounding
    assert (np.take_along_axis(probability, alias.astype(np.int64), axis=1)[accept < 1.0] > 0.0).all()


def test_frequencies_of_compiled_steps() -> None:
    mdp, generator = garnet(12, 3, 7, seed=5), make_generator(3)
    for state, action in ((0, 0), (5, 2), (11, 1)):
        counts = np.zeros(12, dtype=np.int64)
        count(mdp.world, state, action, generator, counts, 400_000)
        assert far_off(counts, mdp.transitions[state, action]) < 4.5
        assert counts[mdp.transitions[state, action] == 0.0].sum() == 0


def test_frequencies_of_starts() -> None:
    initial = np.array([0.1, 0.0, 0.6, 0.3])
    mdp = FiniteMDP(np.eye(4)[:, None, :], np.zeros((4, 1)), initial=initial)
    counts = np.zeros(4, dtype=np.int64)
    count_starts(mdp.world, make_generator(4), counts, 400_000)
    assert far_off(counts, initial) < 4.5
    assert counts[1] == 0


@pytest.mark.parametrize(
    "mdp",
    [red_pill_blue_pill(), access_control(), garnet(20, 3, 4, seed=1, reward_sd=0.5), garnet(20, 3, 4, seed=1)],
    ids=str,
)
def test_a_million_rewards_follow_the_exact_distribution(mdp: FiniteMDP) -> None:
    policy = np.random.default_rng(7).dirichlet(np.ones(mdp.num_actions), size=mdp.num_states)
    exact = mdp.evaluate(policy).reward_distribution
    rewards = np.empty(1_000_000)
    roll_out(mdp.world, np.cumsum(policy, axis=1), make_generator(11), rewards)
    # Steps depend on each other: fifty stretches of twenty thousand give the error of each share by themselves.
    levels, quantiles = exact.levels_and_quantiles(10)
    for level, x in zip(levels, quantiles, strict=True):
        shares = (rewards.reshape(50, -1) <= x).mean(axis=1)
        error = shares.std(ddof=1) / np.sqrt(50) + 1e-9
        assert abs(shares.mean() - exact.cdf(x)) < 4.5 * error
        assert exact.cdf(x) >= level - 1e-12
    means = rewards.reshape(50, -1).mean(axis=1)
    assert abs(means.mean() - exact.mean) < 4.5 * means.std(ddof=1) / np.sqrt(50)
    assert rewards.max() <= mdp.outcomes.cap


def test_the_world_is_a_tuple_of_arrays_and_its_step_owns_no_randomness() -> None:
    world = red_pill_blue_pill().world
    assert isinstance(world, FiniteWorld)
    first, again, other = np.empty(1000), np.empty(1000), np.empty(1000)
    either = np.array([[0.5, 1.0], [0.5, 1.0]])
    for seed, rewards in ((1, first), (1, again), (2, other)):
        roll_out(world, either, make_generator(seed), rewards)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# ---------------------------------------------------------------------------------------------------- what is stored


@pytest.mark.parametrize(
    "mdp",
    [
        red_pill_blue_pill(),
        access_control("accept-first"),
        two_loop(),
        garnet(30, 2, 5, 0, reward_sd=1.0),
        FiniteMDP.from_gymnasium("FrozenLake-v1", reset_cost=0.5),
        FiniteMDP.from_gymnasium("Taxi-v4"),
    ],
    ids=str,
)
def test_stored_and_loaded_to_the_bit(mdp: FiniteMDP) -> None:
    arrays = mdp.to_arrays()
    assert all(isinstance(array, np.ndarray) and array.dtype.kind in "fi" for array in arrays.values())
    loaded = FiniteMDP.from_arrays({key: array.copy() for key, array in arrays.items()}, name=mdp.name)
    for key, array in loaded.to_arrays().items():
        assert np.array_equal(array, arrays[key])
        assert array.dtype == arrays[key].dtype
    assert repr(loaded) == repr(mdp)
    assert all(np.array_equal(a, b) for a, b in zip(loaded.world, mdp.world, strict=True))


def test_repr() -> None:
    assert repr(red_pill_blue_pill()) == (
        "FiniteMDP(RedPillBluePill: 2 states, 2 actions, at most 2 outcomes, normal rewards capped at 0)"
    )
    assert (
        repr(FiniteMDP(HALVES, [[1.0], [2.0]])) == "FiniteMDP(2 states, 1 actions, at most 2 outcomes, fixed rewards)"
    )


# ------------------------------------------------------------------------------------------------- from Gymnasium


def test_an_end_is_a_step_to_the_next_start() -> None:
    mdp = FiniteMDP.from_gymnasium("FrozenLake-v1", reset_cost=0.25)
    assert mdp.initial.tolist() == [1.0] + [0.0] * 15
    # Left of the goal (state 14), action right: a third each to stay, to go up (10) and to reach the goal, +1 and start.
    assert mdp.transitions[14, 2, [0, 10, 14, 15]] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0])
    assert mdp.expected_rewards[14, 2] == pytest.approx((1.0 - 0.25) / 3.0)
    assert mdp.name == "FrozenLake-v1"


def test_taxi_starts_again_anywhere() -> None:
    env = gymnasium.make("Taxi-v4")
    mdp = FiniteMDP.from_gymnasium(env)
    assert mdp.transitions.sum(axis=2) == pytest.approx(np.ones((500, 6)))
    delivered = [(s, a) for s in range(500) for a in range(6) if mdp.expected_rewards[s, a] > 19.0]
    assert len(delivered) == 4  # one state for each destination
    for s, a in delivered:
        assert mdp.transitions[s, a] == pytest.approx(mdp.initial)
    env.close()


def test_our_own_environments_give_their_world() -> None:
    env = gymnasium.make("perstep/TwoLoop-v0")
    assert FiniteMDP.from_gymnasium(env) is env.unwrapped.mdp  # type: ignore[attr-defined]


def test_worlds_without_a_table_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"a transition table `P`.*CartPole-v1 has none. Build a FiniteMDP from arrays"
    ):
        FiniteMDP.from_gymnasium("CartPole-v1")
    with pytest.raises(ValueError, match="fickle_passenger=True does not follow its table"):
        FiniteMDP.from_gymnasium(gymnasium.make("Taxi-v4", fickle_passenger=True))


# -------------------------------------------------------------------------------------------------------- bad input

ZEROS = np.zeros((2, 1))


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (
            lambda: FiniteMDP([[[0.5, 0.4]], [[0.5, 0.5]]], ZEROS),
            r"transitions must sum to 1 over next states, got the sum 0.9 at transitions\[0, 0\], off by -0.1. Add the missing",
        ),
        (lambda: FiniteMDP("abc", ZEROS), "transitions must be an array of numbers, got str: could not convert"),
        (lambda: FiniteMDP(HALVES, [[0], [1, 2]]), "rewards must be an array of numbers, got list: "),
        (lambda: FiniteMDP(HALVES, ZEROS, initial={}), "initial must be an array of numbers, got dict: "),
        (lambda: FiniteMDP(2 * HALVES, ZEROS), "off by \\+1; 2 rows are wrong in total. Add"),
        (lambda: FiniteMDP([[[1.5, -0.5]], [[1, 0]]], ZEROS), r"0 or more, got -0.5 at transitions\[0, 0, 1\]"),
        (
            lambda: FiniteMDP([[[np.nan, 1]], [[1, 0]]], ZEROS),
            r"finite probabilities, got nan at transitions\[0, 0, 0\]",
        ),
        (lambda: FiniteMDP(np.eye(2), ZEROS), r"\(states, actions, states\).*got shape \(2, 2\)"),
        (
            lambda: FiniteMDP(np.ones((1, 2, 2)), ZEROS),
            r"got shape \(1, 2, 2\). If it holds one matrix for each action.*from_matrices",
        ),
        (lambda: FiniteMDP(np.ones((0, 1, 0)), ZEROS), "none of them empty"),
        (
            lambda: FiniteMDP(HALVES, [1.0, 2.0]),
            r"\(2, 1\) or .* = \(2, 1, 2\), or be Gauss.*got shape \(2,\).*np.repeat",
        ),
        (
            lambda: FiniteMDP(HALVES, [[np.nan], [0.0]]),
            "Rewards must be finite .* from state 0 with action 0 to state 0, got nan",
        ),
        (lambda: FiniteMDP(HALVES, [[[0, 0]], [[0, np.inf]]]), "from state 1 with action 0 to state 1, got inf"),
        (lambda: FiniteMDP(HALVES, GaussianRewards(np.nan, 1.0)), "Rewards must be finite"),
        (
            lambda: FiniteMDP(HALVES, GaussianRewards(0.0, -1.0)),
            "Standard deviations must be finite and 0 or more.*got -1",
        ),
        (
            lambda: FiniteMDP(HALVES, GaussianRewards(0.0, 1.0, cap=np.nan)),
            "The cap must be a number, the largest possible reward, got",
        ),
        (
            lambda: FiniteMDP(HALVES, GaussianRewards(np.zeros((2, 1, 2, 3)), 1.0)),
            r"to \(S, A, S\), here with S = 2 and A = 1; got means \(2, 1, 2, 3\), sds \(\).*if, and only if, weights",
        ),
        (
            lambda: FiniteMDP(HALVES, GaussianRewards(np.zeros(3), 1.0, weights=[0.5, 0.5])),
            r"broadcast to \(S, A, S, C\).*got means \(3,\), sds \(\), weights \(2,\)",
        ),
        (
            lambda: FiniteMDP(HALVES, GaussianRewards([0.0, 1.0], 1.0, weights=[0.5, 0.6])),
            "sum to 1 over the last axis; got 0.5 as the smallest weight, and sums from 1.1 to 1.1",
        ),
        (lambda: FiniteMDP(HALVES, ZEROS, initial=[1.0]), r"shape \(2,\), got shape \(1,\).*np.eye\(2\)\[s\]"),
        (
            lambda: FiniteMDP(HALVES, ZEROS, initial=[0.5, 0.6]),
            "sum to 1; got 0.5 as the smallest entry and 1.1 as the sum",
        ),
        (lambda: FiniteMDP(HALVES, ZEROS, initial=[1.5, -0.5]), "got -0.5 as the smallest entry"),
        (lambda: FiniteMDP.from_outcomes(np.ones((2, 1, 1)), 2, 0.0), r"from 0 to 1, got 2 at next_state\[0, 0, 0\]"),
        (lambda: FiniteMDP.from_outcomes(np.ones((2, 1, 1)), [0, 1, 0], 0.0), r"shape \(2, 1, 1\) .* got shape \(3,\)"),
        (
            lambda: FiniteMDP.from_outcomes(np.ones((2, 1, 1)), 0, np.nan),
            r"Rewards must be finite .* got nan at mean\[0, 0, 0\]",
        ),
        (lambda: FiniteMDP.from_outcomes(np.ones((2, 1, 1)), 0, 0.0, -1.0), r"0 or more, got -1 at sd\[0, 0, 0\]"),
        (lambda: FiniteMDP.from_arrays({"probability": HALVES}), "missing: next_state, mean, sd, cap, initial"),
    ],
)
def test_bad_input_gets_a_sentence(attempt: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        attempt()


def test_a_world_for_agents_of_other_libraries() -> None:
    env = two_loop().env(render_mode="ansi")
    check_env(env, skip_render_check=True)
    assert (env.observation_space, env.action_space) == (gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2))


def test_pairs_without_an_outcome_are_named_with_the_way_out() -> None:
    table = np.full((4, 2, 4), 0.25)
    table[1:, 0] = 0.0
    with pytest.raises(ValueError, match=r"no outcome: \(1, 0\), \(2, 0\), \(3, 0\)\..* FiniteMDP.from_matrices"):
        FiniteMDP(table, np.zeros((4, 2)))


@pytest.mark.parametrize("size", [1e308, -1e308, 1e200])
def test_rewards_whose_squares_are_infinite_are_refused(size: float) -> None:
    with pytest.raises(ValueError, match=r"must be at most 1e\+100 in size, .*, got 1e\+"):
        FiniteMDP(np.full((2, 2, 2), 0.5), [[size, 0.0], [0.0, 1.0]])


def test_a_probability_below_the_smallest_number_with_all_digits_is_none() -> None:
    """Products of such numbers are 0, so a part of the code would see the transition and another would not."""
    least = 5e-324
    moves = [[[1.0, least], [1.0, 0.0]], [[least, 1.0], [1.0, 0.0]]]
    mdp = FiniteMDP(moves, [[0.0, 0.0], [1.0, 1.0]])
    assert mdp.outcomes.probability.shape[2] == 1
    with pytest.raises(NotUnichain, match=r"2 closed classes: \{0\} and \{1\}"):
        mdp.evaluate([0, 0])


@pytest.mark.parametrize("size", [2, 300])
def test_a_state_that_is_almost_never_left_gets_a_sentence(size: int) -> None:
    moves = np.zeros((size, 1, size))
    moves[:, 0, 0], moves[0, 0, 1], moves[1, 0, 0], moves[1, 0, 1] = 1.0, 1e-20, 1e-20, 1.0
    with pytest.raises(ValueError, match=r"states that a policy almost never leaves\. Give the transition"):
        FiniteMDP(moves, np.zeros((size, 1))).evaluate(np.zeros(size, int))
