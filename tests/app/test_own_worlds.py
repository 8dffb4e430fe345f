"""Worlds of one's own on the command line: a module in the current folder, trained, evaluated and loaded again."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULE = """
import gymnasium
from gymnasium import spaces


class Coin(gymnasium.Env):
    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def __init__(self, prize=1.0):
        self.prize = prize

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        return self.side, {}

    def step(self, action):
        reward = self.prize * (action == self.side)
        return self.reset()[0], float(reward), False, False, {}


gymnasium.register("Coin-v0", "own_coin:Coin")
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "own_coin.py").write_text(MODULE, encoding="utf-8")

    def command(*words):
        return subprocess.run(
            [sys.executable, "-m", "perstep.app.cli", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return command


def test_a_module_of_the_current_folder_is_found(run, tmp_path):
    train = (
        "train",
        "d2-q",
        "own_coin:Coin-v0",
        "--world-settings",
        "prize=3",
        "--steps",
        "1500",
        "--out",
        "a",
        "--quiet",
    )
    assert (done := run(*train)).returncode == 0, done.stderr
    told = run("evaluate", "a")
    assert told.returncode == 2
    assert "perstep evaluate a --world own_coin:Coin-v0 --world-settings prize=3" in told.stderr
    found = run(
        "evaluate", "a", "--world", "own_coin:Coin-v0", "--world-settings", "prize=3", "--deterministic", "--json"
    )
    assert found.returncode == 0, found.stderr
    assert '"average_reward": 3.0' in found.stdout
    loads = "import own_coin, perstep; print(perstep.load('a/agent.safetensors').learn(10).steps)"
    loaded = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", loads], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert loaded.stdout.strip() == "1510", loaded.stderr  # its id is registered in that process
    unknown = run("train", "d2-q", "Coin-v0", "--steps", "9", "--out", "b")
    assert "one that my_world.py registers is my_world:Coin-v0" in unknown.stderr
    assert "Did you mean" not in unknown.stderr
    assert (
        "There is no module 'own_coim'" in run("train", "d2-q", "own_coim:Coin-v0", "--steps", "9", "--out", "b").stderr
    )
    assert (
        "There is no world 'Con-v0' after importing own_coin"
        in run("train", "d2-q", "own_coin:Con-v0", "--steps", "9", "--out", "b").stderr
    )
