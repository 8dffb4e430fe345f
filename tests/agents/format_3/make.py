"""Made the files of this folder with perstep at commit 8d91ba4, the last one whose files have format 3:

    git worktree add /tmp/before 8d91ba4
    PYTHONPATH=/tmp/before/src python tests/agents/format_3/make.py

The newer perstep writes another format, so it cannot make them again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import perstep

FOLDER = Path(__file__).parent
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
"""Name → a new agent. TileQ came with this format."""


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
    if isinstance(agent, perstep.TileQ):
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
    expected = {}
    for name, make in AGENTS.items():
        agent = make().record_every(25, rows=8).learn(STEPS)
        agent.save(FOLDER / f"{name}.safetensors")
        expected[name] = {"saved": numbers(agent), "gone on": numbers(agent.learn(STEPS))}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
