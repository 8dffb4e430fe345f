"""Made the files in format_2, format_3 and format_4 with the last versions of perstep that wrote these formats, commits 5892f7a,
8d91ba4 and 7bbfa02, and those in format_5, the format of now, with version 0.1:

    git worktree add /tmp/before 7bbfa02
    PYTHONPATH=/tmp/before/src python tests/agents/make_old_files.py

A perstep that writes another format cannot make them again. They are files of a release, which every later one must load: do not
make them anew when a test of them fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import perstep
from perstep.agents.agent import FORMAT

STEPS = 500
SMALL = {"tilings": 4, "tiles": 3, "num_quantiles": 4, "seed": 3}
BOUNDS = {"low": (-5.0, -4.0, -0.5, -4.0), "high": (5.0, 4.0, 0.5, 4.0)}
DEEP = {"hidden": (8,), "replay_capacity": 100, "learning_starts": 20, "batch_size": 8, "epsilon_steps": 300}

AGENTS = {
    "q": lambda: perstep.QLearning("perstep/TwoLoop-v0", rule="d2", num_quantiles=4, seed=3),
    "td": lambda: perstep.TDLearning(
        "perstep/RedPillBluePill-v0", [[0.5, 0.5], [0.2, 0.8]], rule="d3", num_quantiles=4, seed=3
    ),
    "lake": lambda: perstep.QLearning("FrozenLake-v1", rule="d3", num_quantiles=4, seed=3, reset_cost=0.5),
    "pendulum": lambda: perstep.ActorCritic("perstep/InvertedPendulum-v0", rule="d3", **SMALL),
    "cart-pole": lambda: perstep.ActorCritic("CartPole-v1", rule="d2", **{**SMALL, "tilings": 2}, **BOUNDS),
    "mountain-car": lambda: perstep.ActorCritic("MountainCar-v0", rule="d2", **SMALL),
    "tile-q": lambda: perstep.TileQ("MountainCar-v0", rule="differential", **SMALL),
    "deep-q": lambda: perstep.DeepQ("CartPole-v1", rule="d3", num_quantiles=4, seed=3, threads=1, device="cpu", **DEEP),
}
"""Name → a new agent. With format 2 there was no TileQ, and CartPole and MountainCar ran in plain loops."""


POINTS = {2: [-0.5, 0.01], 4: [0.01, 0.1, 0.01, -0.1]}  # by the number of dimensions


def values(agent: Any) -> list[float]:
    """Some of what an agent has learnt."""
    if isinstance(agent, perstep.DeepQ):
        return agent.action_values(np.array(POINTS[4], np.float32)).tolist()
    if isinstance(agent, perstep.QLearning):
        return agent.all_action_values.ravel().tolist()
    if isinstance(agent, perstep.TDLearning):
        return agent.state_values.tolist()
    point = np.array(POINTS[agent.tiles.dimensions])
    if hasattr(agent, "action_values"):
        return agent.action_values(point).tolist()
    return [agent.state_value(point), *agent.policy(point).tolist()]


def numbers(agent: Any) -> dict[str, Any]:
    """What a test compares."""
    return {
        "steps": agent.steps,
        "average_reward": agent.average_reward,
        "reward_quantiles": agent.reward_quantiles.tolist(),
        "values": values(agent),
        "reward_rate": agent.history.reward_rate.tolist(),
        "episodes": agent.history.episodes.tolist(),
    }


if __name__ == "__main__":
    folder, expected = Path(__file__).parent / f"format_{FORMAT}", {}
    for name, make in AGENTS.items():
        if name == "tile-q" and not hasattr(perstep, "TileQ"):
            continue
        agent = make().record_every(25, rows=8).learn(STEPS)
        agent.save(folder / f"{name}.safetensors")
        expected[name] = {"saved": numbers(agent), "gone on": numbers(agent.learn(STEPS))}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
