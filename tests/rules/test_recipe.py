"""CONTRIBUTING's recipe for a new rule, followed to the letter in a copy of the package: rules/transition.py, nothing else.

The new rule is d2 with another reading of θ: R̄ is its median plus the offset.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perstep

ROW = """        Rule(
            name="median",
            label="Median",
            about="a toy",
            source="a test",
            number=MEDIAN,
            has_reward_quantiles=True,
            has_offset=True,
        ),
"""

SCRIPT = """
import sys
import numpy as np, perstep
from perstep.rules.lattice import ALGORITHMS

names = [name for name in ALGORITHMS if name.startswith(sys.argv[1])]
print(len(names), "algorithms")
worlds = {"table": "perstep/TwoLoop-v0", "tiles": "perstep/InvertedPendulum-v0", "network": "CartPole-v1"}
for name in names:
    cell = ALGORITHMS[name]
    given = () if cell.learner.control else ([0] * 9,)
    small = {"hidden": (8,), "replay_capacity": 2000} if cell.learner.values == "network" else {}
    world = worlds[cell.learner.values] if cell.learner.name != "sac" else "perstep/LinearQuadratic-v0"
    agent = perstep.make_agent(name, world, *given, num_quantiles=5, seed=1, **small)
    agent.learn(400).save("agent.safetensors")
    again = perstep.load("agent.safetensors").learn(200)
    agent.learn(200)
    assert again.average_reward == agent.average_reward and (again.reward_quantiles == agent.reward_quantiles).all(), name
    assert agent.average_reward == agent.reward_quantiles[2] + agent._rewards.offset[0], name
    print(name, "learns, saves and loads")
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package with one more rule."""
    package = tmp_path / "perstep"
    shutil.copytree(Path(perstep.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    rules = package / "rules/transition.py"
    text = rules.read_text(encoding="utf-8")
    for old, new in (
        (") = range(18)  # fmt: skip\n", ") = range(18)  # fmt: skip\nMEDIAN = 18\n"),
        (
            "    return mean(theta)\n",
            "    if rule == MEDIAN:\n        return theta[theta.shape[0] // 2]\n    return mean(theta)\n",
        ),
        ("FUNCTIONS = {\n", "FUNCTIONS = {\n    MEDIAN: d2,\n"),
        ("\nVALUE = (D2, ", "\nVALUE = (MEDIAN, D2, "),
        ("    for rule in (\n", f"    for rule in (\n{ROW}"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    rules.write_text(text, encoding="utf-8")
    return tmp_path


def test_a_rule_is_added_in_one_file(copy):
    pytest.importorskip("torch")
    environment = dict(os.environ, PYTHONPATH=str(copy))
    # Compiling a copy of the package takes up to half a minute for each learner: one is compiled, the others run as plain Python.
    for names, plain in (("median-td", "0"), ("median-", "1")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, names],
            env={**environment, "NUMBA_DISABLE_JIT": plain}, cwd=copy, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(
        [sys.executable, "-c", "from perstep.app.cli import main; main()", "list"],
        env=environment, cwd=copy, capture_output=True, text=True,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    for name in (
        "median-td",
        "median-q",
        "median-sarsa",
        "median-tile-q",
        "median-actor-critic",
        "median-deep-q",
    ):
        assert f"{name} learns, saves and loads" in done.stdout
        assert name in listed.stdout
