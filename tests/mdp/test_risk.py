"""The policy whose bad steps are least bad: against brute force over all deterministic policies, and worlds by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.optimize import brentq

from perstep.mdp import chains, risk, solving
from perstep.mdp.mdp import FiniteMDP, GaussianRewards
from perstep.mdp.outcomes import transition_matrix
from perstep.worlds import garnet, red_pill_blue_pill, service_queue, tandem_queue

LEVELS = np.array([0.1, 0.25, 0.5, 0.9])


def largest_cvars(mdp: FiniteMDP) -> Any:
    """The largest CVaR at each level over all deterministic policies and all their closed classes."""
    num_states, num_actions = mdp.num_states, mdp.num_actions
    matrix, best = transition_matrix(mdp.outcomes), np.full(LEVELS.size, -np.inf)
    for actions in map(np.array, itertools.product(range(num_actions), repeat=num_states)):
        for members in chains.closed_classes(matrix[np.arange(num_states) * num_actions + actions]):
            rewards = mdp.evaluate(actions, start=int(members[0])).reward_distribution
            best = np.maximum(best, rewards.cvar(LEVELS))
    return best


def random_world(seed: int) -> FiniteMDP:
    """Fixed rewards, narrow and wide normal ones, by the seed. All 50 seeds: benchmarks/risk.py."""
    num_states, num_actions = ((3, 2), (4, 2), (3, 3), (5, 2))[seed % 4]
    return garnet(num_states, num_actions, 1 + seed % 3, seed, reward_sd=(0.0, 0.05, 0.3, 1.0, 0.0)[seed % 5])


@pytest.mark.parametrize("seed", [0, 1, 3, 6])
def test_equals_brute_force(seed: int) -> None:
    mdp = random_world(seed)
    for level, expected in zip(LEVELS, largest_cvars(mdp), strict=True):
        solution = mdp.solve(risk_level=level)
        assert solution.cvar == pytest.approx(expected, abs=1e-8)
        low, high = solution.interval
        assert low - 1e-12 <= expected <= high + 1e-12
        assert high - low < 1e-8
        rewards = mdp.evaluate(solution.policy).reward_distribution
        assert rewards.cvar(level) == pytest.approx(solution.cvar, abs=1e-14)
        assert rewards.mean == pytest.approx(solution.average_reward)


def test_red_pill_blue_pill() -> None:
    """Red has narrow rewards: it is best where the worst half of the steps counts, and blue is for the mean."""
    mdp = red_pill_blue_pill()
    for level, action, cvar in ((0.1, 0, -0.7877), (0.25, 0, -0.7636), (0.5, 0, -0.7399), (0.9, 1, -0.6522)):
        solution = mdp.solve(risk_level=level)
        assert solution.policy.tolist() == [action, action]
        assert solution.cvar == pytest.approx(cvar, abs=1e-4)
    red, blue = (mdp.evaluate([action, action]).reward_distribution for action in (0, 1))
    switch = brentq(lambda level: red.cvar(level) - blue.cvar(level), 0.6, 0.95)
    assert switch == pytest.approx(0.79077, abs=1e-5)
    assert [mdp.solve(risk_level=switch + side).policy[0] for side in (-1e-3, 1e-3)] == [0, 1]


def test_the_bound_holds_on_its_interval() -> None:
    mdp = garnet(4, 2, 2, 7, reward_sd=0.4)
    model, enough = risk._Model(mdp.outcomes, mdp.initial, 0.3), math.nan  # the bounds are then as good as can be
    for low, high, error in ((-1.0, 0.5, 1.0), (0.1, 0.2, 1e-2), (0.1999, 0.2, 1e-8), (0.4, 0.4, 1e-13)):
        bound, _ = model.bound(low, high, [model.best.optimum] * 2, enough)
        inside = [solving.solve_model(model.matrix, model.rewards(y), mdp.initial) for y in np.linspace(low, high, 7)]
        highest = max(solution.average_reward for solution in inside)
        assert highest - 1e-12 <= bound < highest + error
        for enough_of_it in (highest - 0.1, highest + 0.1):  # one that is compared with a number is a bound too
            rough, _ = model.bound(low, high, [model.best.optimum] * 2, enough_of_it)
            assert rough >= highest - 1e-12
            assert rough > enough_of_it or rough <= enough_of_it < bound + 0.2


@pytest.mark.parametrize("level", [0.3, 0.5, 0.9])
def test_a_large_model_has_the_same_answer_as_a_small_one(monkeypatch: pytest.MonkeyPatch, level: float) -> None:
    """What is done only where there are many states: sweeps before the linear systems, and sparse factorisations."""
    mdp = tandem_queue(6)
    small = mdp.solve(risk_level=level)
    monkeypatch.setattr(chains, "LAPACK_UP_TO", 10)
    monkeypatch.setattr(chains, "DENSE_UP_TO", 10)
    large = mdp.solve(risk_level=level)
    assert large.proven
    assert small.proven
    assert large.cvar == pytest.approx(small.cvar, abs=1e-8)
    assert large.threshold == pytest.approx(small.threshold, abs=1e-8)
    assert large.action_values == pytest.approx(small.action_values, abs=1e-6)


@pytest.mark.parametrize("level", [0.5, 1.0])
def test_after_the_time_limit_comes_the_best_policy_so_far(level: float) -> None:
    mdp = tandem_queue(6)
    best, early = mdp.solve(risk_level=level), mdp.solve(risk_level=level, time_limit=0)
    low, high = early.interval
    assert low - 1e-12 <= mdp.evaluate(early.policy).reward_distribution.cvar(level) <= best.interval[1]
    assert low <= best.cvar <= high
    assert not early.proven
    assert "that was asked for" in repr(early)
    frontier = mdp.frontier([0.5, 1.0], time_limit=0)
    assert (frontier.cvars <= [mdp.solve(risk_level=each).interval[1] for each in (0.5, 1.0)]).all()
    with pytest.raises(ValueError, match="time_limit must be a finite number 0 or more, got -1"):
        mdp.solve(risk_level=level, time_limit=-1)


def test_among_equal_bad_steps_the_larger_mean_wins() -> None:
    """Both actions earn 0 every other step. What they earn otherwise, 1 or 5, is not among the worst tenth."""
    mdp = FiniteMDP(np.full((1, 2, 1), 1.0), GaussianRewards(np.zeros((1, 2, 1)), sds=0.0))
    lumpy = FiniteMDP.from_outcomes(
        np.full((1, 2, 2), 0.5), np.zeros((1, 2, 2), int), np.array([[[0.0, 1.0], [0.0, 5.0]]])
    )
    solution = lumpy.solve(risk_level=0.1)
    assert (solution.cvar, solution.average_reward, solution.policy.tolist()) == (0.0, 2.5, [1])
    assert mdp.solve(risk_level=0.1).interval == (0.0, 0.0)


def test_a_cap_counts() -> None:
    """Uncapped, the wide reward has the better worst nine tenths; a cap takes what it has above the narrow one."""
    means, sds = np.array([[[1.0], [1.2]]]), np.array([[[0.1], [1.0]]])
    for cap, action in ((None, 1), (1.2, 0)):
        mdp = FiniteMDP(np.ones((1, 2, 1)), GaussianRewards(means, sds, cap=cap))
        wide = [mdp.evaluate([action]).reward_distribution.cvar(0.97) for action in (0, 1)]
        assert int(np.argmax(wide)) == action
        assert mdp.solve(risk_level=0.97).policy.tolist() == [action]


def test_level_one_is_the_mean() -> None:
    mdp = garnet(6, 3, 2, 0)
    neutral, mean = mdp.solve(), mdp.solve(risk_level=1.0)
    assert neutral.average_reward == mean.average_reward
    assert np.array_equal(neutral.action_values, mean.action_values)
    assert mean.risk_level == 1.0


@pytest.mark.parametrize("level", [0.0, -0.1, 1.5, float("nan"), "low"])
def test_a_level_outside_gets_a_sentence(level: Any) -> None:
    with pytest.raises(ValueError, match=r"risk_level must be a finite number above 0 and at most 1, got"):
        red_pill_blue_pill().solve(risk_level=level)


def test_frontier() -> None:
    mdp = red_pill_blue_pill()
    with pytest.raises(ValueError, match="at least one risk level"):
        mdp.frontier([])
    assert mdp.frontier(0.5).risk_levels.tolist() == [0.5]  # type: ignore[arg-type]
    frontier = mdp.frontier([1.0, 0.5, 0.9])
    assert frontier.risk_levels.tolist() == [0.5, 0.9, 1.0]
    assert frontier.average_rewards == pytest.approx([-0.7, -0.6, -0.6], abs=1e-6)
    assert frontier.cvars == pytest.approx([-0.7399, -0.6522, -0.6], abs=1e-4)
    blue = mdp.evaluate([1, 1]).reward_distribution
    assert frontier.neutral_cvars == pytest.approx(blue.cvar(frontier.risk_levels))
    figure = frontier.plot()
    assert isinstance(figure, Figure)
    assert frontier.plot(figure.axes[0]) is figure


def test_a_queue_whose_careful_policy_serves_faster() -> None:
    mdp = service_queue()
    neutral, careful = mdp.solve(), mdp.solve(risk_level=0.05)
    plain = mdp.evaluate(neutral.policy).reward_distribution
    assert careful.cvar > plain.cvar(0.05) + 0.01
    assert careful.average_reward < neutral.average_reward


def test_only_reachable_states_and_allowed_actions_count() -> None:
    """State 2 would be best, but nothing leads there. `wait` is not allowed in the second state."""
    apart = FiniteMDP(
        [[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [1, 0, 0]], [[0, 0, 1], [0, 0, 1]]],
        [[0.0, 0.0], [1.0, 1.0], [9.0, 9.0]],
        initial=[1, 0, 0],
    )
    solution = apart.solve(risk_level=0.5)
    assert (solution.cvar, solution.policy[:2].tolist()) == (1.0, [1, 0])
    assert np.isnan(solution.action_values[2]).all()
    named = FiniteMDP.from_function(
        "home",
        lambda state: ["wait", "go"] if state == "home" else ["go"],
        lambda state, action: [(1.0, "home" if action == "wait" or state == "away" else "away", float(action == "go"))],
    )
    careful = named.solve(risk_level=0.5)
    assert careful.cvar == 1.0
    assert named.allowed is not None
    assert all(named.allowed[state, action] for state, action in enumerate(careful.policy))
    assert repr(careful).startswith("Solution(risk_level 0.5, cvar 1, average_reward 1, optimum proven within ")
