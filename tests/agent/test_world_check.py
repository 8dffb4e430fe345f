"""What `check_world` says of sound worlds, of worlds that are wrong in one way each, and of the structure of finite ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import perstep
from perstep.app.cli import main
from perstep.gym.wrappers import Teleport, endless, without_time_limit
from perstep.worlds import WORLDS

SOUND = [name for name in WORLDS if "Atar" not in name]  # the games of Atari and MinAtar have ends


@pytest.mark.parametrize("name", SOUND)
def test_our_worlds_are_sound(name: str) -> None:
    found = perstep.check_world(name, num_steps=200)
    assert not found, str(found)
    assert "Its state can be saved and restored to the bit." in found.facts


class Wrong(gymnasium.Env[Any, Any]):
    """A world that is wrong in one way."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.observation_space, self.action_space = Box(0.0, 1.0, (1,), np.float64), Discrete(2)
        self.clock = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=None if self.way == "seed" else seed)
        self.clock = 0
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        self.clock += 1
        place = self.np_random.random()
        reward = float("nan") if self.way == "rewards" and self.clock == 5 else 1.0
        return (
            np.array([2.0 if self.way == "space" else place]),
            reward,
            self.way == "ends" and self.clock == 9,
            False,
            {},
        )


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        ("rewards", "finite numbers, got nan in step 5"),
        ("space", "must lie in the space"),
        ("ends", "terminated 5 times in 50 random steps, first after 9"),
        ("seed", "must lead to the same life, but it differs after"),
    ],
)
def test_each_thing_that_is_wrong_is_named(way: str, sentence: str) -> None:
    found = perstep.check_world(Wrong(way), num_steps=50)
    named = {finding.name: finding.sentence for finding in found}
    assert sentence in named[way]
    assert len(named) == 1
    assert "Its state cannot be saved: an agent that is loaded starts with a fresh reset." in found.facts


def test_time_limits_and_ends_of_gymnasium() -> None:
    assert [finding.name for finding in perstep.check_world("CartPole-v1", 200)] == ["ends", "time limit"]
    assert perstep.check_world(endless("CartPole-v1", 1.0), 200) == []


def test_structure_by_hand() -> None:
    # Three states in a ring, where one may also stay. From state 1 to state 0 it takes two moves.
    ring = perstep.FiniteMDP(
        [[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [1, 0, 0]]], [[0.0, 0], [1, 0], [2, 0]]
    )
    facts = " ".join(perstep.check_world(ring).facts)
    assert "communicates: every state" in facts
    assert "Its diameter is 2:" in facts
    assert "Not every policy is known to have one average reward" in facts  # one may stay anywhere
    apart = perstep.FiniteMDP.from_function({"a": 0.5, "b": 0.5}, ["stay"], lambda state, _: [(1.0, state, 0.0)])
    (finding,) = perstep.check_world(apart)
    assert "2 parts" in finding.sentence
    assert "State 'a' is in one, 'b' in another" in finding.sentence
    # The published diameter of RiverSwim with six places is about 14.7.
    assert any("diameter is 14.7" in fact for fact in perstep.check_world("perstep/RiverSwim-v0").facts)
    onward = perstep.FiniteMDP([[[0, 1]], [[0, 1]]], [[1.0], [0.0]])
    assert any("communicates weakly: 1 states" in fact for fact in perstep.check_world(onward).facts)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-world", "perstep/RecyclingRobot-v0"]) == 0
    assert "Nothing is wrong." in capsys.readouterr().out
    assert main(["check-world", "CartPole-v1"]) == 1
    assert main(["check-world"]) != 0


def test_what_no_agent_can_use_is_said():
    assert not [each for each in perstep.check_world("MountainCarContinuous-v0", 20) if each.name == "actions"]

    class OldStep(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, 0.0, False, {}

    assert "got 4 values" in str(perstep.check_world(OldStep()))
    with pytest.raises(TypeError, match=r"not its class: check_world\(OldStep\(\)\)"):
        perstep.check_world(OldStep)


# --- Vectors


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_of_endless_worlds_never_ends(mode: str) -> None:
    wrap = partial(endless, reset_cost=7.0)
    vector = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode=mode, wrappers=[wrap])
    try:
        found = perstep.check_world(vector, num_steps=300)
        assert not found, str(found)
        assert any(fact.startswith("3 environments step together.") for fact in found.facts)
        vector.reset(seed=0)
        rewards, jumps = [], 0
        for _ in range(100):
            _, reward, terminated, truncated, info = vector.step(np.zeros(3, np.int64))
            assert not terminated.any()
            assert not truncated.any()
            rewards += reward.tolist()
            jumps += int(info["teleported"].sum()) if "teleported" in info else 0
        assert jumps >= 15  # always to the left, the pole falls within ten steps or so
        assert rewards.count(-6.0) == jumps
        assert rewards.count(1.0) == 300 - jumps
    finally:
        vector.close()


@pytest.mark.parametrize("name", ["CartPole", "PuckWorld", "RiverSwim"])
def test_vectors_of_our_worlds_are_sound(name: str) -> None:
    vector = gymnasium.make_vec(f"perstep/{name}-v0", 4)
    assert perstep.check_world(vector, num_steps=100) == []


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_ends_of_a_vector_and_its_reset_mode(mode: Any) -> None:
    kwargs = {"autoreset_mode": mode}
    vector = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs=kwargs)
    found = perstep.check_world(vector, num_steps=200)
    assert [finding.name for finding in found] == ["ends", "time limit"], str(found)
    assert "wrappers=[perstep.gym.endless]" in found[0].sentence
    assert any(f"An end is reset in the mode {mode.value}." in fact for fact in found.facts)


def test_a_wrong_reset_mode_is_named() -> None:
    modes = gymnasium.vector.AutoresetMode
    for does, says, sentence in (
        (modes.SAME_STEP, modes.NEXT_STEP, "step after an end only reports the next start, with a reward of 0, but"),
        (modes.NEXT_STEP, modes.SAME_STEP, "info['final_obs'], but it is missing"),
        (modes.NEXT_STEP, "sometimes", "must be one of gymnasium.vector.AutoresetMode, got 'sometimes'"),
    ):
        vector = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": does})
        vector.metadata = {**vector.metadata, "autoreset_mode": says}
        named = {finding.name: finding.sentence for finding in perstep.check_world(vector, num_steps=100)}
        assert sentence in named["reset mode"]


def test_a_vector_itself_is_not_wrapped() -> None:
    vector: Any = gymnasium.make_vec("CartPole-v1", 2)
    for wrap in (endless, Teleport, without_time_limit):
        with pytest.raises(TypeError, match=r"got the vector\. Make it with gymnasium.make_vec"):
            wrap(vector)


# --- Names of states


def test_states_are_called_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    def outcomes(state: str, action: str) -> list[tuple[float, str, float]]:
        return [(1.0, {"new": "old", "old": "worn", "worn": "old"}[state], 0.0)]

    leaves = perstep.FiniteMDP.from_function("new", ["use"], outcomes, name="leaves")
    assert "2 states can be reached from each other, the others, such as 'new', are left for ever." in str(
        perstep.check_world(leaves)
    )
    # The third state leads to the others, but nothing leads to it, and it is no first state.
    matrix = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    unreachable = perstep.FiniteMDP.from_matrices([matrix], np.zeros(3), initial=[1.0, 0.0, 0.0])
    unreachable = unreachable.replace(states=("in", "out", "lost"))
    assert "1 of its 3 states are never reached from its first states, such as 'lost'." in str(
        perstep.check_world(unreachable)
    )
    # The command, with a world that somebody has registered.
    apart = perstep.FiniteMDP.from_function({"a": 0.5, "b": 0.5}, ["stay"], lambda state, _: [(1.0, state, 0.0)])
    gymnasium.register("own/Apart-v0", entry_point=lambda: perstep.mdp.FiniteMDPEnv(apart))
    try:
        assert main(["check-world", "own/Apart-v0"]) == 1
        assert "State 'a' is in one, 'b' in another" in capsys.readouterr().out
    finally:
        del gymnasium.registry["own/Apart-v0"]


def test_a_model_that_cannot_be_built_is_refused_with_the_name_of_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Any:
        mdp = perstep.FiniteMDP.from_function("idle", ["go"], lambda state, _: [(0.5, "busy", 0.0), (0.4, "idle", 1.0)])
        return perstep.mdp.FiniteMDPEnv(mdp)

    gymnasium.register("own/Broken-v0", entry_point=broken)
    try:
        assert main(["check-world", "own/Broken-v0"]) != 0
        printed = capsys.readouterr()
        assert "must sum to 1, got 0.9 in state 'idle' with action 'go'" in printed.err + printed.out
    finally:
        del gymnasium.registry["own/Broken-v0"]
