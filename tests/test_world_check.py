"""What `check_world` says of sound worlds, of worlds that are wrong in one way each, and of the structure of finite ones."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import perstep
from perstep.cli import main
from perstep.environments import WORLDS, endless

SOUND = [
    "AccessControl", "AdmissionControl", "Catch", "CrissCross", "Inventory", "Maintenance", "RiverSwim", "TwoLoop", "CartPole",
    "MountainCar", "Acrobot", "Autoscaling", "InvertedPendulum", "PuckWorld",
]  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_our_worlds_are_sound(name: str) -> None:
    assert f"perstep/{name}-v0" in WORLDS
    found = perstep.check_world(f"perstep/{name}-v0", num_steps=200)
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
    named = {doubt.name: doubt.sentence for doubt in found}
    assert sentence in named[way]
    assert len(named) == 1
    assert "Its state cannot be saved: an agent that is loaded starts with a fresh reset." in found.facts


def test_time_limits_and_ends_of_gymnasium() -> None:
    assert [doubt.name for doubt in perstep.check_world("CartPole-v1", 200)] == ["ends", "time limit"]
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
    (doubt,) = perstep.check_world(apart)
    assert "2 parts" in doubt.sentence
    assert "State 'a' is in one, 'b' in another" in doubt.sentence
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
    assert "gymnasium.wrappers.DiscretizeAction" in str(perstep.check_world("MountainCarContinuous-v0", 20))

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
