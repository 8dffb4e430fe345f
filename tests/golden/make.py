"""Writes the golden files: one small agent of each family, and what it says of itself. From 1.0.0 on they are never written again.

python tests/golden/make.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perstep

FOLDER = Path(__file__).parent
TILES = {"tilings": 2, "tiles": 3, "num_quantiles": 3}
AGENTS: dict[str, Callable[[], Any]] = {
    "q_learning": lambda: perstep.QLearning("perstep/TwoLoop-v0", rule="d3", num_quantiles=4, seed=1),
    "td_learning": lambda: perstep.TDLearning("perstep/RedPillBluePill-v0", [0, 1], num_quantiles=4, seed=1),
    "planner": lambda: perstep.Planner("perstep/RedPillBluePill-v0", seed=1),
    "actor_critic": lambda: perstep.ActorCritic("perstep/InvertedPendulum-v0", rule="d2", seed=1, **TILES),
    "tile_q": lambda: perstep.TileQ("perstep/InvertedPendulum-v0", rule="differential", seed=1, **TILES),
    "deep_q": lambda: perstep.DeepQ(
        "perstep/InvertedPendulum-v0", rule="d3", num_quantiles=3, hidden=(4,), replay_capacity=20, learning_starts=10,
        batch_size=4, threads=1, device="cpu", seed=1,
    ),
}  # fmt: skip


def said(agent: Any) -> dict[str, Any]:
    """What must stay the same."""
    observation = [0.5, -0.5] if isinstance(agent, perstep.ActorCritic | perstep.TileQ | perstep.DeepQ) else 0
    return {
        "class": type(agent).__name__,
        "steps": agent.steps,
        "average_reward": agent.average_reward,
        "action": None if isinstance(agent, perstep.TDLearning) else int(agent.predict(observation)[0]),
    }


def main() -> None:
    facts = {}
    for name, make in AGENTS.items():
        agent = make()
        agent.record_every(50, rows=2, sketch=False)
        agent.learn(100, progress=False).save(FOLDER / f"{name}.safetensors")
        facts[name] = said(agent)
    (FOLDER / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
