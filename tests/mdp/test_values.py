"""Worlds, settings and coders are values: names mean what they say, and nothing inside can be changed behind compiled code."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import polars as pl
import pytest

import perstep
from perstep.mdp.env import FiniteMDPEnv
from perstep.mdp.evaluation import NotUnichain
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.names import ActionNumbers
from perstep.mdp.sampler import make_world, start
from perstep.tiles.coder import TileCoder
from perstep.worlds import WORLDS, register

MOVES = np.array([[[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.1, 0.9]]] * 3)  # (S, A, S)
PAYS = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0], [64.0, 128.0, 256.0]])  # (S, A)


def crews(actions: Any = (1, 2, 3), states: Any = None) -> FiniteMDP:
    return FiniteMDP(MOVES, PAYS, states=states, actions=actions, initial=[1, 0, 0])


def reward_of(mdp: FiniteMDP, policy: Any) -> float:
    return mdp.evaluate(policy).average_reward


# ------------------------------------------------------------------------------------------------ numbers that are names


def test_a_number_that_names_an_action_is_that_action() -> None:
    mdp, plain = crews(), crews(None)
    for number, name in enumerate(mdp.actions):
        expected = reward_of(plain, [number] * 3)
        for policy in (
            lambda state, name=name: name,
            lambda state, name=name: np.int64(name),
            lambda state, name=name: np.array(name),
            dict.fromkeys(range(3), name),
            [name] * 3,
            (name,) * 3,
            np.full(3, name),
            np.full(3, name, np.float32),
            np.full(3, name, np.uint8),
            pl.Series([name] * 3),
            np.full(3, name, dtype=object),
            [str(name)] * 3,
            [f"{name}.0"] * 3,
        ):
            assert reward_of(mdp, policy) == expected
            np.testing.assert_array_equal(perstep.TDLearning(mdp, policy).policy(), np.eye(3)[[number] * 3])


def test_probabilities_are_probabilities_whatever_the_names() -> None:
    odds = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    for names in (None, (1, 2, 3), (2, 0, 1), (0.0, 1.0, 0.5), "abc", ((1, 0, 0), (0, 1, 0), "x")):
        mdp = crews(None if names is None else tuple(names))
        for given in (odds, odds.tolist(), lambda state: odds[state]):  # states have no names here
            np.testing.assert_array_equal(mdp.evaluate(given).policy, odds)


@pytest.mark.parametrize("wrong", [0, 4, True - 1, 1.5, math.nan, -1, np.int64(0)])
def test_a_number_that_is_no_name_is_refused_with_those_that_are(wrong: Any) -> None:
    mdp = crews()
    for policy in (lambda state: wrong, [wrong] * 3, np.array([wrong] * 3)):
        with pytest.raises(ValueError, match=r"There is no action .*numbers are names of actions, which are 1, 2, 3"):
            mdp.evaluate(policy)
    with pytest.raises(ValueError, match="There is no action"):
        mdp.evaluate([1, 1, 1]).forecast(10, action=wrong)


def test_what_is_solved_may_be_evaluated() -> None:
    mdp = crews((2, 0, 1))  # every number is the name of another action
    solution = mdp.solve()
    assert isinstance(solution.policy, ActionNumbers)
    best = pytest.approx(solution.average_reward)
    assert reward_of(mdp, solution) == reward_of(mdp, solution.policy) == best
    assert reward_of(mdp, mdp.policy_frame(solution)) == reward_of(mdp, mdp.policy_frame(solution.policy)) == best
    assert reward_of(mdp, [mdp.actions[a] for a in solution.policy]) == best
    for one in mdp.frontier([0.5, 1.0]).solutions:
        assert reward_of(mdp, one.policy) == pytest.approx(one.average_reward)
    rules = mdp.replace(heuristics={"first": np.zeros(3, int)})
    assert reward_of(rules, rules.heuristics["first"]) == reward_of(mdp, [2, 2, 2])
    assert type(crews(None).solve().policy) is type(crews(tuple("abc")).solve().policy) is np.ndarray


def test_a_number_that_names_a_state_is_that_state() -> None:
    mdp = crews(None, states=(20, 0, 10))
    evaluation, plain = mdp.evaluate(lambda state: {0: 2, 10: 1, 20: 0}[state]), crews(None).evaluate([0, 2, 1])
    np.testing.assert_array_equal(evaluation.policy, plain.policy)
    assert evaluation.forecast(5, start=0).mean == plain.forecast(5, start=1).mean
    assert evaluation.return_distribution(9, 10).mean == plain.return_distribution(9, 2).mean
    assert (
        mdp.evaluate([0, 0, 0], start=10).state_values.tolist()
        == crews(None).evaluate([0] * 3, start=2).state_values.tolist()
    )
    for wrong in (1, 2, 30):
        for asked in (lambda: mdp.evaluate([0] * 3, start=wrong), lambda: evaluation.return_distribution(9, wrong)):  # noqa: B023
            with pytest.raises(ValueError, match=f"There is no state {wrong}: .*which are 20, 0, 10"):
                asked()


def test_an_error_names_a_start_that_can_be_given() -> None:
    mdp = FiniteMDP(np.eye(2)[:, None, :], [[1.0], [2.0]], states=(7, 5))
    with pytest.raises(NotUnichain, match=r"Give start=7, for example"):
        mdp.evaluate([0, 0])
    assert mdp.evaluate([0, 0], start=7).average_reward == 1.0


class Shift(NamedTuple):
    hour: int
    night: bool


class Colour(Enum):
    RED, BLUE = 1, 2


STATE_NAMES = [
    None,
    (5, 3, 4),
    ("a", "b", "c"),
    ("3", "1", "2"),
    tuple(Shift(h, h == 2) for h in (2, 0, 1)),
    (0.5, 2.0, -1e-7),
]
ACTION_NAMES = [
    (1, 2, 3), (2, 0, 1), (0.1, 1e-7, 2.0), ("1", "2", "3"), ("03", "1.5", "x"), ("a", "b", ""), ("true", "false", "x"),
    ((0, 1), (1, 0), (1, 1)), (Colour.RED, Colour.BLUE, None), (1, "x", 2.5), (1, "1", "b"), (True, False, 2),
    ("a b", "c,d", 'e"f'),
]  # fmt: skip


@pytest.mark.parametrize("states", STATE_NAMES, ids=repr)
@pytest.mark.parametrize("actions", ACTION_NAMES, ids=repr)
def test_a_policy_goes_through_its_table_and_through_a_file(actions: Any, states: Any, tmp_path: Path) -> None:
    mdp = crews(actions, states)
    for numbers in ([0, 1, 2], [2, 2, 2], [1, 0, 0]):
        policy = [actions[a] for a in numbers]
        expected = np.eye(3)[numbers]
        frame = mdp.policy_frame(policy)
        frame.write_csv(tmp_path / "policy.csv")
        frame.write_parquet(tmp_path / "policy.parquet")
        read = pl.read_csv(tmp_path / "policy.csv")
        texts = pl.read_csv(tmp_path / "policy.csv", infer_schema=False)
        for table in (frame, pl.read_parquet(tmp_path / "policy.parquet"), read, texts):
            np.testing.assert_array_equal(mdp.evaluate(table["action"]).policy, expected)
            np.testing.assert_array_equal(mdp.evaluate(table).policy, expected)
            np.testing.assert_array_equal(mdp.evaluate(table.reverse()).policy, expected)  # rows find their states


def test_a_file_that_mixes_up_names_is_refused(tmp_path: Path) -> None:
    mdp = crews(("01", "1", "b"))
    mdp.policy_frame(["01", "1", "1"]).write_csv(tmp_path / "policy.csv")
    with pytest.raises(ValueError, match="1 may be any of the actions '01', '1', which are written alike"):
        mdp.evaluate(pl.read_csv(tmp_path / "policy.csv")["action"])


def test_a_table_must_be_that_of_the_world() -> None:
    mdp = crews(("a", "b", "c"), ((0, 1), (0, 2), (1, 0)))
    frame = mdp.policy_frame(["a", "b", "c"])
    for table, told in (
        (frame.drop("action"), "must have the columns state_0, state_1 and action.*missing: action"),
        (frame.head(2), "one row for each of the 3 states, got 2 rows with 2 of these states"),
        (frame.with_columns(state_0=pl.lit(0)), "got 3 rows with 2 of these states"),
    ):
        with pytest.raises(ValueError, match=told):
            mdp.evaluate(table)


# ------------------------------------------------------------------------------------------------ what agents say


@pytest.mark.parametrize("make", [perstep.QLearning, perstep.Planner])
def test_an_agent_speaks_the_language_of_its_world(make: Any, tmp_path: Path) -> None:
    mdp = crews((2, 0, 1), (30, 10, 20))
    named, numbered = make(mdp, seed=0).learn(2_000), make(FiniteMDPEnv(mdp), seed=0).learn(2_000)
    for agent in (named, named.load(_saved(named, tmp_path))):
        for number, name in enumerate(mdp.states):
            action = mdp.actions[int(agent.policy(deterministic=True)[number].argmax())]
            assert agent.predict(name) == (action, None)
            assert (
                agent.predict([name, name])[0].tolist()
                == agent.predict(np.array([name] * 2))[0].tolist()
                == [action] * 2
            )
            assert agent.action_values(name).tolist() == agent.all_action_values[number].tolist()
        for wrong in (0, 1, 2, 3):
            with pytest.raises(ValueError, match=f"Expected a name, such as 30, got {wrong}"):
                agent.predict(wrong)
    for agent in (numbered, numbered.load(_saved(numbered, tmp_path))):
        for number in range(3):
            action = int(agent.policy(deterministic=True)[number].argmax())
            assert agent.predict(number) == (action, None)
            assert agent.action_values(number).tolist() == agent.all_action_values[number].tolist()
        with pytest.raises(ValueError, match="got 30"):
            agent.predict(30)
    assert named.frame()["action"].dtype == pl.Int64
    np.testing.assert_array_equal(mdp.evaluate(named.frame()["action"]).policy, named.policy(deterministic=True))


def _saved(agent: Any, folder: Path) -> Path:
    agent.save(folder / "agent.safetensors")
    return folder / "agent.safetensors"


def test_return_quantiles_and_values_are_asked_by_name() -> None:
    mdp = crews((2, 0, 1), (30, 10, 20))
    agent = perstep.QLearning(mdp, rule="d3", seed=0).learn(1_000)
    plain = perstep.QLearning(FiniteMDPEnv(mdp), rule="d3", seed=0).learn(1_000)
    assert agent.return_quantiles(10, 2).tolist() == plain.return_quantiles(1, 0).tolist()
    assert agent.return_quantiles(10, 0).tolist() == plain.return_quantiles(1, 1).tolist()
    predicted = perstep.TDLearning(mdp, lambda state: 2 if state == 30 else 0, seed=0).learn(500)
    assert predicted.policy().tolist() == np.eye(3)[[0, 1, 1]].tolist()
    assert predicted.state_value(20) == predicted.state_values[2]
    same = perstep.TDLearning(FiniteMDPEnv(mdp), lambda state: 0 if state == 0 else 1, seed=0).learn(500)
    assert same.state_values.tolist() == predicted.state_values.tolist()


def test_a_forecast_of_a_planner_begins_where_it_is_told() -> None:
    mdp = crews((2, 0, 1), (2, 0, 1))
    planner = perstep.Planner(mdp, seed=0).learn(3_000)
    exact = planner.mdp.evaluate(planner.policy(deterministic=True), start=planner.mdp.initial)
    known = [name for name, value in zip(mdp.states, exact.state_values, strict=True) if not np.isnan(value)]
    assert len(known) >= 2
    for name in known:
        assert planner.forecast(1, name).mean == pytest.approx(exact.forecast(1, start=name).mean)


def test_a_network_speaks_the_language_of_its_world() -> None:
    pytest.importorskip("torch")
    mdp = crews((2, 0, 1), (30, 10, 20))
    named, numbered = perstep.DeepQ(mdp, seed=0).learn(200), perstep.DeepQ(FiniteMDPEnv(mdp), seed=0).learn(200)
    for number, name in enumerate(mdp.states):
        assert named.action_values(name).tolist() == numbered.action_values(number).tolist()
        assert named.predict(name)[0] == mdp.actions[numbered.predict(number)[0]]
    with pytest.raises(ValueError, match="Expected a name"):
        named.predict(1)


# ------------------------------------------------------------------------------------------------ names that are no names


@pytest.mark.parametrize(
    ("names", "error", "told"),
    [
        ((1, 2), ValueError, "a name for each of the 3 actions, got 2 names"),
        ((1, 2, 1.0), ValueError, "different names, got 1 more than once"),
        ((1, 2, []), TypeError, "can be keys of a dict"),
        ("abc", TypeError, "a list of 3 names, got 'abc'"),
        (3, TypeError, "a list of 3 names, got 3"),
    ],
)
def test_names_are_checked(names: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        FiniteMDP(MOVES, PAYS, actions=names)


def test_a_range_of_other_numbers_is_a_list_of_names() -> None:
    assert crews(range(1, 4)).actions == (1, 2, 3)
    assert crews(range(3)).actions == range(3)


# ------------------------------------------------------------------------------------------------ worlds are values

WORLD_ARRAYS: list[Callable[[FiniteMDP], np.ndarray]] = [
    lambda m: m.outcomes.next_state, lambda m: m.outcomes.probability, lambda m: m.outcomes.mean, lambda m: m.outcomes.sd,
    lambda m: m.initial, lambda m: m.transitions, lambda m: m.expected_rewards, lambda m: m.allowed, lambda m: m.heuristics["r"],
    *(lambda m, i=i: m.world[i] for i in (0, 1, 2, 3, 4, 6, 7)),
]  # fmt: skip


def forms_of_a_world(folder: Path) -> list[FiniteMDP]:
    made = FiniteMDP.from_function(0, lambda s: [1, 2] if s else [1], lambda s, a: [(0.5, 0, 1.0), (0.5, 1, 0.0)])
    made = made.replace(heuristics={"r": [0, 0]})
    agent = perstep.QLearning(made)
    loaded: Any = perstep.load(_saved(agent, folder)).mdp
    return [
        made,
        copy.copy(made),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        loaded.replace(heuristics=made.heuristics),
        FiniteMDP.from_arrays(made.to_arrays()).replace(heuristics=made.heuristics),
    ]


def test_nothing_in_a_world_can_be_written_to(tmp_path: Path) -> None:
    for mdp in forms_of_a_world(tmp_path):
        for array_of in WORLD_ARRAYS:
            with pytest.raises(ValueError, match="read-only"):
                array_of(mdp)[...] = 2**31 - 1 if array_of(mdp).dtype.kind == "i" else 0
        with pytest.raises(TypeError):
            mdp.heuristics["other"] = np.zeros(2, int)  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "value"),
    [("initial", np.ones(3)), ("states", range(5)), ("actions", range(300)), ("outcomes", None), ("allowed", None),
     ("heuristics", {}), ("name", "x"), ("world", None), ("transitions", MOVES), ("other", 1), ("names", None)],
)  # fmt: skip
def test_nothing_in_a_world_can_be_exchanged(name: str, value: Any) -> None:
    mdp = crews()
    with pytest.raises(AttributeError, match=f"A FiniteMDP cannot be changed, so mdp.{name} cannot be set"):
        setattr(mdp, name, value)
    with pytest.raises(AttributeError, match="cannot be deleted"):
        delattr(mdp, name)


def test_another_world_is_made_from_one() -> None:
    mdp = crews(None)
    other = mdp.replace(initial=[0, 1, 0], name="other", states=list("abc"), actions=[3, 4, 5])
    assert (other.name, other.states, other.actions) == ("other", ("a", "b", "c"), (3, 4, 5))
    assert (mdp.name, mdp.states, mdp.actions, mdp.initial.tolist()) == (None, range(3), range(3), [1, 0, 0])
    assert other.initial.tolist() == [0, 1, 0]
    assert np.shares_memory(other.outcomes.mean, mdp.outcomes.mean)
    with pytest.raises(ValueError, match="heuristic 'up' must be numbers of actions from 0 to 2"):
        mdp.replace(heuristics={"up": [0, 1, 3]})


def test_arrays_that_were_given_stay_ones_own() -> None:
    initial, moves, pays = np.array([1.0, 0.0, 0.0]), MOVES.copy(), PAYS.copy()
    mdp = FiniteMDP(moves, pays, initial=initial)
    initial[...], moves[...], pays[...] = 1.0 / 3.0, 0.0, 7.0
    assert mdp.initial.tolist() == [1, 0, 0]
    assert mdp.expected_rewards.tolist() == PAYS.tolist()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mean": np.zeros((1, 1, 1))}, "mean as float64 of shape"),
        ({"sd": np.zeros((3, 3, 9))}, "sd as float64 of shape"),
        ({"next_state": np.full((3, 3, 2), 3, np.int32)}, "from 0 to 2, got 3"),
        ({"next_state": np.full((3, 3, 2), -1, np.int32)}, "from 0 to 2, got -1"),
        ({"next_state": np.zeros((3, 3, 2), np.int64)}, "next_state as int64"),
        ({"probability": np.ones((3, 3, 1))}, "next_state as int32 of shape"),
    ],
)
def test_exchanged_outcomes_do_not_reach_compiled_code(change: dict[str, Any], told: str) -> None:
    mdp = crews(None)
    bent = mdp.outcomes._replace(**change)
    with pytest.raises(ValueError, match=told):
        make_world(bent, mdp.initial)
    evaluation = dataclasses.replace(mdp.evaluate([0, 0, 0]), outcomes=bent)
    with pytest.raises((ValueError, IndexError)):
        evaluation.forecast(5)
    with pytest.raises(ValueError, match="initial must hold"):
        make_world(mdp.outcomes, np.ones(9))
    with pytest.raises((ValueError, IndexError)):
        dataclasses.replace(mdp.evaluate([0, 0, 0]), policy=np.ones((1, 1))).forecast(5)


def test_every_world_is_of_one_type_to_compiled_code(tmp_path: Path) -> None:
    made = [crews(), crews(None), *forms_of_a_world(tmp_path), FiniteMDP.from_outcomes([[[1.0]]], 0, 1.0)]
    from numba import typeof

    assert len({typeof(mdp.world) for mdp in made}) == 1
    assert start(made[0].world, perstep.numerics.randomness.make_generator(0)) == 0


# ------------------------------------------------------------------------------------------------ settings and coders


def test_the_settings_of_an_agent_cannot_be_exchanged() -> None:
    agent = perstep.QLearning(crews(None), rule="d2", num_quantiles=3)
    other = perstep.QLearning(crews(None), rule="d3", num_quantiles=300)
    with pytest.raises(AttributeError, match=r"settings of an agent cannot be changed.*perstep\.QLearning\(env"):
        agent.config = other.config
    with pytest.raises(dataclasses.FrozenInstanceError):
        agent.config.num_quantiles = 300
    assert agent.learn(100).config.rule == "d2"


def test_a_coder_that_is_shared_cannot_be_written_to() -> None:
    agent = perstep.TileQ("CartPole-v1", seed=0)
    for coder in (agent.tiles, TileCoder(low=(0.0,), high=(1.0,)), copy.deepcopy(agent.tiles)):
        for array in coder.arrays[:-1]:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 2**40 if array.dtype.kind == "i" else 0
        with pytest.raises(AttributeError):
            coder.tilings = 999  # type: ignore[misc]
    with pytest.raises(AttributeError):
        agent.tiles = TileCoder(low=(0.0,), high=(1.0,))  # type: ignore[misc]


def test_a_tile_coder_is_of_one_type_to_compiled_code() -> None:
    coders = [
        TileCoder(low=(0.0,), high=(1.0,)),
        TileCoder(low=(0.0, 0.0), high=(1.0, 1.0), wrap=(1,), table_size=64),
        TileCoder(low=(0,), high=(5,), tilings=1, tiles=5),
    ]
    for coder in coders:
        coder.active(coder.low)
    from numba import typeof

    assert len({typeof(coder.arrays) for coder in coders}) == 1


# ------------------------------------------------------------------------------------------------ files


def agents() -> dict[str, Callable[[], Any]]:
    mdp = crews((1, 2, 3), ("a", "b", "c"))
    return {
        "QLearning": lambda: perstep.QLearning(mdp, seed=0),
        "TDLearning": lambda: perstep.TDLearning(mdp, [1, 2, 3], seed=0),
        "Planner": lambda: perstep.Planner(mdp, seed=0),
        "ActorCritic": lambda: perstep.ActorCritic("CartPole-v1", seed=0),
        "TileQ": lambda: perstep.TileQ("CartPole-v1", seed=0),
        "DeepQ": lambda: perstep.DeepQ(mdp, seed=0),
    }


@pytest.mark.parametrize("name", agents())
def test_two_files_of_one_agent_are_the_same_bytes(name: str, tmp_path: Path) -> None:
    if name == "DeepQ":
        pytest.importorskip("torch")
    agent = agents()[name]().learn(300)
    saved = set()
    for number in range(6):  # two entries of a header in any order would be equal six times in 1 of 32 cases
        agent.save(tmp_path / f"{number}.safetensors")
        saved.add((tmp_path / f"{number}.safetensors").read_bytes())
    perstep.load(tmp_path / "0.safetensors").save(tmp_path / "again.safetensors")
    assert saved == {(tmp_path / "again.safetensors").read_bytes()}


class HugeRewards(gymnasium.Env[Any, Any]):
    """Rewards of ±`size` by chance."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: float, box: bool) -> None:
        self.size, self.box = size, box
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,)) if box else gymnasium.spaces.Discrete(2)

    def _seen(self) -> Any:
        return self.np_random.random(1, np.float32) if self.box else int(self.np_random.integers(2))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        return self._seen(), self.size * float(self.np_random.choice([-1.0, 1.0])), False, False, {}


@pytest.mark.parametrize("size", [1e300, 1e155])
@pytest.mark.parametrize(
    ("make", "box", "settings"),
    [
        (perstep.QLearning, False, {"rule": "d2"}),
        (perstep.QLearning, False, {"rule": "d2", "preset": "paper"}),
        (perstep.QLearning, False, {"rule": "categorical"}),
        (perstep.Planner, False, {}),
        (perstep.TileQ, True, {"trace_decay": 0.5}),
        (perstep.ActorCritic, True, {}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_saved_is_loaded(make: Any, box: bool, settings: dict[str, Any], size: float, tmp_path: Path) -> None:
    agent, world = make(HugeRewards(size, box), seed=0, **settings), HugeRewards(size, box)
    try:
        agent.learn(300)
    except ArithmeticError:
        assert agent.steps
    told = ""
    try:
        agent.save(tmp_path / "agent.safetensors")
    except ValueError as error:
        told = str(error)
    if (tmp_path / "agent.safetensors").exists():
        assert perstep.load(tmp_path / "agent.safetensors", world).steps == agent.steps
    else:
        assert "cannot be saved, since its file could not be loaded again" in told
        assert "Its rewards are probably too large" in told


# ------------------------------------------------------------------------------------------------ the list of worlds


def test_there_is_one_list_of_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    from perstep.app.cli import main

    register()
    assert set(WORLDS) == {name for name in gymnasium.registry if name.startswith("perstep/")}
    assert all(world.description for world in WORLDS.values())
    assert main(["list"]) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert all("".join(name.split()) in shown for name in WORLDS)
