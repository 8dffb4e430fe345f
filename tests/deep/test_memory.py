"""The memory of a deep agent does not grow with its life."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import perstep

pytest.importorskip("torch")

STATUS = Path("/proc/self/statm")
SETTINGS = {
    "replay_capacity": 1000,
    "update_every": 16,
    "batch_size": 16,
    "hidden": (16,),
    "num_quantiles": 11,
    "threads": 1,
}


def resident() -> int:
    """Bytes of memory that this process has now."""
    gc.collect()
    return 4096 * int(STATUS.read_text().split()[1])


@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc")
def test_memory_is_flat_once_the_replay_is_full(tmp_path: Path) -> None:
    agent = perstep.DeepQ("CartPole-v1", rule="d3", **SETTINGS).learn(4000)
    agent.save(tmp_path / "early")
    before = resident()
    agent.learn(20_000)
    assert resident() - before < 4_000_000  # 200 bytes a step would be seen: a kept observation, a kept graph
    agent.save(tmp_path / "late")
    early, late = ((tmp_path / name).stat().st_size for name in ("early", "late"))
    assert abs(late - early) < 8_000  # the tables of the blocks of rewards, and the digits of some numbers
