"""What was learnt, for programs without perstep: ONNX files run by onnxruntime, tables as Parquet, CSV and JSON."""

from __future__ import annotations

import gymnasium
import numpy as np
import polars
import pytest

import perstep
from perstep.worlds import two_loop

SMALL = {"num_quantiles": 3, "seed": 1, "replay_capacity": 200, "learning_starts": 20, "batch_size": 8, "threads": 1}


@pytest.mark.parametrize(
    ("world", "settings"),
    [
        ("CartPole-v1", {"preset": "steady", "rule": "d3", "hidden": (8,)}),
        ("FrozenLake-v1", {"preset": "paper", "rule": "differential", "hidden": (8,)}),
        ("perstep/MinAtar-Breakout-v0", {"preset": "steady", "rule": "d2"}),
    ],
)
def test_an_exported_network_chooses_as_the_agent(tmp_path, world, settings):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    agent = perstep.DeepQ(world, device="cpu", **SMALL, **settings).learn(60)
    before = agent.network.state_dict()["head.bias"].clone()
    agent.export(tmp_path / "policy.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    session = runtime.InferenceSession(tmp_path / "policy.onnx")
    env = gymnasium.make(world)
    env.action_space.seed(3)
    points = [env.reset(seed=3)[0], *(env.step(env.action_space.sample())[0] for _ in range(2))]
    batch = agent._observations.keep(np.array(points))
    values, actions = session.run(["action_values", "action"], {"observation": batch})
    np.testing.assert_allclose(values, [agent.action_values(point) for point in points], rtol=1e-3, atol=1e-5)
    assert actions.tolist() == values.argmax(axis=1).tolist()
    assert (agent.network.state_dict()["head.bias"] == before).all()
    assert agent.learn(20).steps == 80  # it goes on
    with pytest.raises(ValueError, match=r"ends in \.onnx"):
        agent.export(tmp_path / "policy.pt")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_an_exported_table_is_the_agent_s(tmp_path, suffix):
    agent = perstep.QLearning(two_loop(), seed=1, epsilon=0.3).learn(2000)
    agent.export(path := tmp_path / f"table.{suffix}")
    found = getattr(polars, f"read_{suffix}")(path)
    assert found["action"].to_list() == agent.policy(deterministic=True).argmax(axis=1).tolist()
    np.testing.assert_allclose(found.select("^value_.*$").to_numpy(), agent.all_action_values)
    assert found["visits"].sum() == 2000
    with pytest.raises(ValueError, match=r"ends in \.parquet, \.csv, \.json"):
        agent.export(tmp_path / "table.xls")


def test_prediction_has_one_value_per_state_and_frames_become_pandas(tmp_path):
    pytest.importorskip("pyarrow")
    agent = perstep.TDLearning(two_loop(), np.zeros(9, int), seed=1).learn(500)
    assert agent.frame().columns == ["state", "name", "visits", "value"]
    assert agent.frame().to_pandas()["value"].tolist() == agent.state_values.tolist()
