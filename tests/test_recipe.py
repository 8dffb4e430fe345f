"""CONTRIBUTING's recipe for a new rule, followed to the letter in a copy of the package: rules.py and losses.py, nothing else.

The new rule is d3 with another reading of its numbers: a value is the mean of the lower half of its quantiles.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perstep

KERNEL = """
@inlined
def mean_of_lower_half(numbers: Any) -> Any:
    total, count = 0.0, (numbers.shape[0] + 1) // 2
    for j in range(count):
        total += numbers[j]
    return total / count


"""
ROW = """        Rule(
            name="cautious",
            label="Cautious",
            about="a toy",
            source="a test",
            number=CAUTIOUS,
            value=mean_of_lower_half,
            values=lambda numbers: numbers[..., : (numbers.shape[-1] + 1) // 2].mean(-1),
            has_reward_quantiles=True,
            has_return_quantiles=True,
            best_by="online",
        ),
"""

SCRIPT = """
import sys
import numpy as np, perstep
from perstep.rules import RULES, value_of
from perstep.algorithms import ALGORITHMS

names = [name for name in ALGORITHMS if name.startswith(sys.argv[1])]
print(len(names), "algorithms")
numbers = np.array([3.0, 1.0, 2.0, 5.0, 9.0])
assert value_of(RULES["cautious"].number, numbers) == RULES["cautious"].values(numbers) == 2.0
assert value_of(RULES["d3"].number, numbers) == 4.0
worlds = {"table": "perstep/TwoLoop-v0", "tiles": "perstep/InvertedPendulum-v0", "network": "CartPole-v1"}
for name in names:
    cell = ALGORITHMS[name]
    given = () if cell.learner.control else ([0] * 9,)
    small = {"hidden": (8,), "replay_capacity": 2000} if cell.learner.values == "network" else {}
    agent = perstep.make_agent(name, worlds[cell.learner.values], *given, num_quantiles=5, seed=1, **small)
    agent.learn(400).save("agent.safetensors")
    again = perstep.load("agent.safetensors").learn(200)
    agent.learn(200)
    assert again.average_reward == agent.average_reward and (again.reward_quantiles == agent.reward_quantiles).all(), name
    if name == "cautious-q":
        assert np.isclose(agent.action_values(0)[1], agent.return_quantiles(0, 1)[:3].mean())
    print(name, "learns, saves and loads")
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package with one more rule."""
    package = tmp_path / "perstep"
    shutil.copytree(Path(perstep.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    rules, losses = package / "rules.py", package / "deep" / "losses.py"
    text = rules.read_text(encoding="utf-8")
    text = text.replace("def mean_of_last_axis(", f"{KERNEL.lstrip()}def mean_of_last_axis(", 1)
    text = text.replace("= range(7)", "= range(7)\nCAUTIOUS = 7", 1).replace(
        "if rule == D3:", "if rule in (D3, CAUTIOUS):", 1
    )
    text = text.replace("    for rule in (\n", f"    for rule in (\n{ROW}", 1)
    rules.write_text(text, encoding="utf-8")
    text = losses.read_text(encoding="utf-8")
    losses.write_text(text.replace('"d3": d3,', '"d3": d3, "cautious": d3,', 1), encoding="utf-8")
    assert "cautious" in rules.read_text(encoding="utf-8")
    assert "cautious" in losses.read_text(encoding="utf-8")
    return tmp_path


def test_a_rule_is_added_in_two_files(copy):
    pytest.importorskip("torch")
    environment = dict(os.environ, PYTHONPATH=str(copy))
    # Compiling a copy of the package takes up to half a minute for each learner: one is compiled, the others run as plain Python.
    for names, plain in (("cautious-td", "0"), ("cautious-", "1")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, names],
            env={**environment, "NUMBA_DISABLE_JIT": plain}, cwd=copy, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(
        [sys.executable, "-c", "from perstep.cli import main; main()", "list"],
        env=environment, cwd=copy, capture_output=True, text=True,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    for name in (
        "cautious-td",
        "cautious-q",
        "cautious-sarsa",
        "cautious-tile-q",
        "cautious-actor-critic",
        "cautious-deep-q",
    ):
        assert f"{name} learns, saves and loads" in done.stdout
        assert name in listed.stdout
