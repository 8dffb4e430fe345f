"""Tables in worlds whose states and actions have names, and whose states do not all have the same actions."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest

import perstep
from perstep.gym import opening as worlds
from perstep.mdp.mdp import FiniteMDP


class Machine(NamedTuple):
    wear: int
    broken: bool


def actions(state: Machine) -> list[str]:
    return ["repair"] if state.broken else ["run", "service"]


def outcomes(state: Machine, action: str) -> list[tuple[float, Machine, float]]:
    if action == "run":
        worn = Machine(min(state.wear + 1, 3), False)
        return [
            (0.8, worn, 10.0),
            (0.2 * state.wear / 3, Machine(0, True), 0.0),
            (0.2 * (1 - state.wear / 3), worn, 8.0),
        ]
    return [(1.0, Machine(0, False), -40.0 if action == "repair" else -5.0)]


@pytest.fixture(scope="module")
def mdp() -> FiniteMDP:
    return FiniteMDP.from_function(Machine(0, False), actions, outcomes)


@pytest.fixture(scope="module")
def agent(mdp: FiniteMDP) -> perstep.QLearning:
    return perstep.QLearning(mdp, rule="d2", preset="steady", seed=0).learn(50_000)


@pytest.mark.parametrize("settings", [{}, {"preset": "paper", "epsilon": 0.3}], ids=["defaults", "paper"])
def test_no_action_is_chosen_that_a_state_does_not_have(mdp, settings):
    agent = perstep.QLearning(mdp, rule="d2", seed=0, **settings).learn(5_000)
    for deterministic in (False, True):
        policy = agent.policy(deterministic=deterministic)
        assert not policy[~mdp.allowed].any()
        np.testing.assert_allclose(policy.sum(axis=1), 1.0)
        for state in range(mdp.num_states):
            action, _ = agent.predict(state, deterministic=deterministic)
            assert mdp.allowed[state, mdp.actions.index(action)]
    names = dict(zip(agent.frame()["name"], agent.frame()["action"], strict=True))
    assert names[str(Machine(0, True))] == "repair"
    assert np.isnan(agent.frame()["value_repair"][mdp.states.index(Machine(0, False))])
    assert "repair" not in {action for name, action in names.items() if "False" in name}


def test_the_policy_earns_what_it_did_with_the_actions_that_do_the_same(mdp, agent):
    plain = agent._chances(slice(None), True)
    assert mdp.evaluate(plain).average_reward == mdp.evaluate(agent.policy(deterministic=True)).average_reward
    best = mdp.solve().average_reward
    assert mdp.evaluate(agent.policy(deterministic=True)).average_reward == pytest.approx(best, abs=0.05)


def test_a_state_and_an_action_may_be_given_by_name(mdp, agent):
    broken = Machine(0, True)
    number = mdp.states.index(broken)
    assert agent.predict(broken) == agent.predict(number) == ("repair", None)
    assert agent.action_values(broken).tolist() == agent.action_values(number).tolist()
    np.testing.assert_array_equal(agent.predict([number, number])[0], ["repair"] * 2)


@pytest.mark.parametrize("given", ["nobody", Machine(99, False), (np.zeros(2), 1), mdp, 99])
def test_another_name_is_refused_with_one_that_is_known(agent, given):
    with pytest.raises(
        ValueError, match=r"a number from 0 to \d or a name, such as Machine\(wear=0, broken=False\), got"
    ):
        agent.predict(given)


def test_an_agent_is_no_policy_and_a_text_no_list_of_actions(mdp, agent):
    with pytest.raises(TypeError, match=r"got QLearning\(.*Give agent\.policy\(\)\."):
        mdp.evaluate(agent)
    with pytest.raises(
        TypeError, match="actions must be a list of actions, or a function from a state to its actions, got 'go'"
    ):
        FiniteMDP.from_function(0, "go", lambda state, action: [(1.0, 0, 1.0)])


def test_the_policy_of_one_state_is_told_to_be_a_row(agent):
    with pytest.raises(TypeError, match="For one state, take its row"):
        agent.policy(Machine(0, True))


def test_a_loaded_agent_knows_the_actions_of_each_state(mdp, agent, tmp_path):
    agent.save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors")
    np.testing.assert_array_equal(again.mdp.allowed, mdp.allowed)
    np.testing.assert_array_equal(again.policy(), agent.policy())
    assert again.predict((0, True)) == agent.predict((0, True))


@pytest.mark.parametrize(
    "allowed", [np.ones((2, 3), bool), np.ones((5, 3)), np.zeros((5, 3), bool)], ids=["shape", "numbers", "none"]
)
def test_a_stored_world_with_other_actions_is_refused(mdp, allowed):
    assert mdp.num_states == 5
    with pytest.raises(ValueError, match=r"allowed must be truth values of shape \(5, 3\)"):
        FiniteMDP.from_arrays({**mdp.to_arrays(), "allowed": allowed})


def test_an_action_that_a_state_does_not_have_is_not_one_that_was_never_tried(mdp):
    agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(20_000)
    agent._run.table.visits[~mdp.allowed] = 0
    assert "unvisited" not in {finding.name for finding in agent.check()}
    agent._run.table.visits[mdp.states.index(Machine(0, False)), mdp.actions.index("service")] = 0
    (finding,) = (finding for finding in agent.check() if finding.name == "unvisited")
    assert "learn longer." in str(finding)


def careful(state: Machine) -> str:
    if state.broken:
        return "repair"
    return "service" if state.wear > 1 else "run"


def test_a_policy_may_speak_in_names(mdp):
    numbers = [mdp.actions.index(careful(state)) for state in mdp.states]
    exact = mdp.evaluate(numbers)
    listed = [careful(state) for state in mdp.states]
    forms = (
        careful,
        dict(zip(mdp.states, listed, strict=True)),
        listed,
        np.array(listed),
        mdp.policy_frame(careful)["action"],
    )
    for policy in forms:
        assert mdp.evaluate(policy).average_reward == exact.average_reward
        assert mdp.policy_frame(policy).equals(mdp.policy_frame(numbers))
        np.testing.assert_array_equal(perstep.TDLearning(mdp, policy).policy(), exact.policy)
    odds = mdp.evaluate(lambda state: [0.0, 0.0, 1.0] if state.broken else (0.5, 0.5, 0.0))
    assert odds.policy[mdp.states.index(Machine(1, False))].tolist() == [0.5, 0.5, 0.0]


def test_a_start_may_be_named(mdp):
    number = mdp.states.index(Machine(3, False))
    by_name, by_number = mdp.evaluate(careful, start=Machine(3, False)), mdp.evaluate(careful, start=number)
    np.testing.assert_array_equal(by_name.state_values, by_number.state_values)
    assert (
        by_name.forecast(10, start=(3, False), action="run").mean == by_name.forecast(10, start=number, action=0).mean
    )
    assert by_name.return_distribution(10, (3, False), "run").mean == by_name.return_distribution(10, number, 0).mean


def test_names_that_are_not_known_are_named(mdp, agent):
    for wrong, told in (
        (lambda: mdp.evaluate({Machine(0, False): "run"}), r"none for 4 of them, such as Machine\(wear=1"),
        (
            lambda: mdp.evaluate({**dict.fromkeys(mdp.states, "run"), "home": "run"}),
            "one for 'home', which is no state",
        ),
        (
            lambda: mdp.evaluate(lambda state: "rnu"),
            r"no action 'rnu'\. Did you mean 'run'\? Known: repair, run, service",
        ),
        (
            lambda: mdp.evaluate(lambda state: "run"),
            r"takes 'run' in Machine\(wear=0, broken=True\).* one of \['repair'\]",
        ),
        (lambda: mdp.evaluate(lambda state: None), r"got None for Machine\(wear=0, broken=False\)"),
        (lambda: mdp.evaluate(lambda state: state.ware), r"raised AttributeError: .*ware.* for the state Machine"),
        (lambda: mdp.evaluate(["run"]), "an action for each of the 5 states, got 1 actions"),
        (lambda: mdp.evaluate(careful, start="home"), "There is no state 'home'"),
        (lambda: agent.predict((9, False)), r"a name, such as Machine\(wear=0, broken=False\), got \(9, False\)"),
        (lambda: agent.action_values("home"), "got 'home'"),
        (lambda: FiniteMDP.from_function("a", lambda state: "go", None), r"got the text 'go'\. Give \['go'\]"),
        (lambda: mdp.evaluate(careful, start=(9, False)), "start must be a state from 0 to 4 or its name"),
        (lambda: mdp.evaluate(careful).forecast(10, action="walk"), "no action 'walk'"),
    ):
        with pytest.raises(ValueError, match=told):
            wrong()


def test_named_entries_are_kept_in_a_file(agent, mdp, tmp_path):
    agent.save(tmp_path / "agent.safetensors")
    loaded = perstep.load(tmp_path / "agent.safetensors").mdp
    assert loaded.states == mdp.states
    assert loaded.actions == mdp.actions
    assert repr(loaded.states[0]) == "State(wear=0, broken=False)"
    assert loaded.policy_frame(careful).equals(mdp.policy_frame(careful))


def test_a_batch_may_be_named(agent, mdp):
    numbers = [3, 0, 2]
    batch, _ = agent.predict([mdp.states[number] for number in numbers])
    np.testing.assert_array_equal(batch, agent.predict(np.array(numbers))[0])


def test_anything_but_a_number_may_be_a_name():
    class Mood(Enum):
        GOOD, BAD = 1, 2

    mdp = FiniteMDP.from_function(
        Mood.GOOD, ["stay", None], lambda mood, action: [(0.5, Mood.GOOD, 1.0), (0.5, Mood.BAD, 0.0)]
    )
    evaluation = mdp.evaluate(lambda mood: None if mood is Mood.BAD else "stay", start=Mood.BAD)
    assert evaluation.policy[mdp.states.index(Mood.BAD)].tolist() == [0.0, 1.0]
    assert perstep.QLearning(mdp).predict(Mood.BAD)[0] in ("stay", None)


def test_a_field_that_is_called_action_is_kept():
    class Order(NamedTuple):
        stock: int
        action: str

    mdp = FiniteMDP.from_function(Order(0, "none"), ["buy"], lambda state, action: [(1.0, Order(0, "sold"), 1.0)])
    assert mdp.policy_frame([0, 0]).columns == ["stock", "state_action", "action"]


@pytest.mark.parametrize(
    "fields",
    [["wear"], ["wear", "wear"], ["wear", "_x"], ["a b", "c"], [1, 2], "ab", [], ["x", "1"], ["x", "__class__"], {}],
)
def test_names_of_entries_in_a_damaged_file_are_refused(fields):
    with pytest.raises(ValueError, match="entries"):
        worlds._with_fields(((0, False), (1, True)), fields)


def test_names_of_entries_run_no_code():
    (state,) = worlds._with_fields(((1, 2),), ["µ", "μ"])  # one identifier, once Python has normalised it
    assert state == (1, 2)


def test_a_method_of_an_agent_is_no_policy_but_that_of_another_object_may_be():
    class Rule:
        def policy(self, state):
            return 0

    mdp = perstep.FiniteMDP.from_gymnasium("perstep/TwoLoop-v0")
    agent = perstep.QLearning(mdp)
    for method in (agent.policy, agent.predict):
        with pytest.raises(TypeError, match=r"got the method p\w+\. Give agent\.policy\(\)"):
            mdp.evaluate(method)
    assert mdp.evaluate(Rule().policy).average_reward == pytest.approx(0.2)
