"""Finite MDPs from matrices and from functions, with their names; what is wrong with a model is said with the state's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from perstep.mdp.evaluation import NotUnichain
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.solving import NotCommunicating
from perstep.system.budget import TooLarge
from perstep.worlds import garnet, tandem_queue

CAPACITY = 3


class Queues(NamedTuple):
    first: int
    second: int


def tandem_outcomes(state: Queues, speed: float) -> list[tuple[float, Queues, float]]:
    """`tandem_queue` once more, as a person would write it."""
    cost = state.first + 2.0 * state.second + {0.0: 0.0, 0.21: 0.5, 0.35: 2.0}[speed] + 5.0 * (state.first == CAPACITY)
    found, rest = [], 1.0
    for chance, possible, to in (
        (0.25, state.first < CAPACITY, Queues(state.first + 1, state.second)),
        (speed, state.first > 0 and state.second < CAPACITY, Queues(state.first - 1, state.second + 1)),
        (0.28, state.second > 0, Queues(state.first, state.second - 1)),
    ):
        if possible:
            found.append((chance, to, -cost))
            rest -= chance
    return [*found, (rest, state, -cost)]


def test_a_function_gives_the_same_model_with_names(tmp_path: Path) -> None:
    mdp = FiniteMDP.from_function(Queues(0, 0), [0.0, 0.21, 0.35], tandem_outcomes, name="mine")
    arrays = tandem_queue(CAPACITY)
    assert mdp.num_states == arrays.num_states
    assert set(mdp.states) == {Queues(i, j) for i in range(4) for j in range(4)}
    assert mdp.states[0] == Queues(0, 0)
    assert mdp.initial.tolist() == [1.0] + [0.0] * 15
    assert mdp.actions == (0.0, 0.21, 0.35)
    best, same = mdp.solve(), arrays.solve()
    assert best.average_reward == pytest.approx(same.average_reward, abs=1e-12)
    named: list[Any] = list(mdp.states)
    number = [state.first * 4 + state.second for state in named]
    assert best.policy.tolist() == same.policy[number].tolist()
    frame = mdp.policy_frame(best.policy)
    assert frame.columns == ["first", "second", "action"]
    assert frame["action"].to_list() == [mdp.actions[a] for a in best.policy]
    frame.write_csv(tmp_path / "policy.csv")
    assert pl.read_csv(tmp_path / "policy.csv").equals(frame)


def test_states_have_different_numbers_of_actions() -> None:
    # A lamp: off it can only be switched on (5); on it can burn (2) or be switched off (0).
    def outcomes(state: str, action: str) -> list[tuple[float, str, float]]:
        return {"on": [(1.0, "lit", 5.0)], "burn": [(1.0, "lit", 2.0)], "off": [(1.0, "dark", 0.0)]}[action]

    mdp = FiniteMDP.from_function({"lit": 1.0}, lambda state: ["burn", "off"] if state == "lit" else ["on"], outcomes)
    assert mdp.actions == ("burn", "off", "on")
    assert mdp.allowed is not None
    assert mdp.allowed.tolist() == [[True, True, False], [False, False, True]]
    best = mdp.solve()
    assert best.average_reward == 2.5  # off and on again beats burning
    assert mdp.policy_frame(best.policy).rows() == [("lit", "off"), ("dark", "on")]
    assert mdp.expected_rewards.tolist() == [
        [2.0, 0.0, 2.0],
        [5.0, 5.0, 5.0],
    ]  # what is not allowed does the first allowed


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, coo_array, np.asarray])
def test_matrices_in_every_layout(kind: Any) -> None:
    mdp = garnet(12, 3, 4, seed=0)
    best = mdp.solve().average_reward
    matrices = [kind(mdp.transitions[:, a]) for a in range(3)]
    assert FiniteMDP.from_matrices(matrices, mdp.expected_rewards).solve().average_reward == pytest.approx(best)
    per_next = [kind(np.where(mdp.transitions[:, a] > 0, mdp.expected_rewards[:, [a]], 0.0)) for a in range(3)]
    assert FiniteMDP.from_matrices(matrices, per_next).solve().average_reward == pytest.approx(best)
    toolbox = np.moveaxis(mdp.transitions, 1, 0)  # pymdptoolbox's (A, S, S)
    assert FiniteMDP.from_matrices(toolbox, mdp.expected_rewards).solve().average_reward == pytest.approx(best)
    assert FiniteMDP.from_matrices(toolbox, np.ones(12)).solve().average_reward == pytest.approx(1.0, abs=1e-12)


def test_a_row_of_zeros_is_no_action() -> None:
    mdp = FiniteMDP.from_matrices([np.array([[0, 1], [1, 0]]), np.array([[0, 0], [0, 1]])], [[1.0, 9.0], [2.0, 1.0]])
    assert mdp.solve().average_reward == 1.5
    assert mdp.solve().policy.tolist() == [0, 0]
    assert mdp.expected_rewards.tolist() == [[1.0, 1.0], [2.0, 1.0]]


def step(state: int, action: str) -> Any:
    if state == 3 and action == "break":
        raise KeyError("spanner")
    if state == 2 and action == "leak":
        return [(0.5, 0, 1.0)]
    if state == 2 and action == "nan":
        return [(1.0, 0, float("nan"))]
    return [(1.0, (state + 1) % 4 if action != "grow" else state + 1, 0.0)]


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: FiniteMDP.from_function(0, ["go", "break"], step), r"outcomes\(3, 'break'\).*KeyError: 'spanner'"),
        (lambda: FiniteMDP.from_function(0, ["go", "leak"], step), r"sum to 1, got 0.5 in state 2 with action 'leak'"),
        (lambda: FiniteMDP.from_function(0, ["go", "nan"], step), r"finite, got nan in state 2 with action 'nan'"),
        (lambda: FiniteMDP.from_function(0, ["grow"], step, max_states=50), r"more than max_states = 50.*found is 50"),
        (lambda: FiniteMDP.from_function(0, lambda s: [] if s else ["go"], step), r"got none from actions\(1\)"),
        (lambda: FiniteMDP.from_function(0, lambda s: [1 / 0], step), r"actions\(0\) raised ZeroDivisionError"),
        (lambda: FiniteMDP.from_function(0, ["go"], lambda s, a: [(1.0, cast(Any, [s]), 0.0)]), r"keys of a dict; it raised"),
        (lambda: FiniteMDP.from_matrices([np.eye(2), 0 * np.eye(2)], np.zeros(2)), "Action 1 is not allowed in any state"),
        (lambda: FiniteMDP.from_matrices([[[1, 0], [0, 0]]], np.zeros(2)), "got none for state 1"),
        (lambda: FiniteMDP.from_matrices([[[1, 0], [0.5, 0.6]]], np.zeros(2)), "got 1.1 in state 1 with action 0"),
        (lambda: FiniteMDP.from_matrices([[[1, 0], [2.0, -1.0]]], np.zeros(2)), "0 or more, got -1 in state 1"),
        (lambda: FiniteMDP.from_matrices([np.eye(2), np.eye(3)], np.zeros(2)), r"got shape \(3, 3\) for action 1"),
        (lambda: FiniteMDP.from_matrices([np.eye(2)], np.zeros(5)), r"got shape \(5,\)"),
        (lambda: FiniteMDP.from_matrices([], np.zeros(5)), "got an empty list"),
        (lambda: garnet(3, 2, 2, seed=0).policy_frame(np.full((3, 2), 0.5)), "one action in each state"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_name_of_the_state(attempt: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        attempt()


def test_a_model_that_fills_the_memory_is_stopped_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perstep.system.budget.available_memory", lambda: 20_000_000)
    with pytest.raises(
        TooLarge, match=r"of which 101,001 states are found, the last one 101000, needs 0.02 GB.*Bound what can grow"
    ):
        FiniteMDP.from_function(0, ["grow"], step)


def test_classes_of_states_are_named() -> None:
    mdp = FiniteMDP.from_function({"a": 0.5, "b": 0.5}, ["stay"], lambda state, _: [(1.0, state, 0.0)])
    with pytest.raises(NotUnichain, match=r"Names of states: 0 is 'a', 1 is 'b'"):
        mdp.evaluate([0, 0])
    with pytest.raises(NotCommunicating, match=r"Names of states: 0 is 'a', 1 is 'b'"):
        mdp.solve()
