"""TensorBoard's events, read back by TensorBoard."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perstep
from perstep.agent.tracking import TensorBoardLog, Tracker, totals
from perstep.app import training
from perstep.app.cli import main
from perstep.app.training import EvaluationPlan
from perstep.app.training.run_spec import RunSpec
from perstep.tabular.settings import QLearningConfig
from same_runs import Crash

pytest.importorskip("tensorboard")

pytestmark = pytest.mark.usefixtures("undrawn")

FROZEN = RunSpec(algorithm="d2-q", world="FrozenLake-v1", config=QLearningConfig(rule="d2", num_quantiles=5))

EARNED = {"earned/mean", "earned/mean_95", "earned/worst_10_percent", "earned/worst_1_percent"}


def event_writer(folder: Path, every: int = 1, begin: Any = 0) -> Tracker:
    return Tracker([TensorBoardLog(folder, getattr(begin, "steps", begin))], every, begin)


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    return events


def steps(events: Any, name: str) -> list[int]:
    return [event.step for event in (events.Histograms if name == "reward_quantiles" else events.Scalars)(name)]


def numbers(events: Any, name: str) -> list[float]:
    return [event.value for event in events.Scalars(name)]


def test_curves_and_a_distribution_of_a_deep_agent(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    agent = perstep.DeepQ(
        "CartPole-v1", rule="d2", replay_capacity=200, learning_starts=100, hidden=(8,), num_quantiles=5
    )
    with event_writer(tmp_path) as events:
        agent.learn(300, callback=events)
        events.write(agent)
    found = read(tmp_path)
    scalars = {"average_reward", "reward_rate", "episode_return", "loss", "epsilon", "steps_per_second", *EARNED}
    assert set(found.Tags()["scalars"]) == scalars
    assert found.Tags()["histograms"] == ["reward_quantiles"]
    assert steps(found, "average_reward")[-1] == 300
    assert numbers(found, "average_reward")[-1] == pytest.approx(agent.average_reward, rel=1e-6)
    assert numbers(found, "epsilon")[-1] == pytest.approx(agent.epsilon)
    learnt = found.Histograms("reward_quantiles")[-1].histogram_value
    assert sum(learnt.bucket) == learnt.num == 5  # every quantile is in one
    assert (learnt.min, learnt.max) == (agent.reward_quantiles.min(), agent.reward_quantiles.max())
    assert learnt.sum / learnt.num == pytest.approx(agent.reward_quantiles.mean())


def test_tensorboard_itself_makes_distributions_of_them(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4).learn(100)
    with event_writer(tmp_path, begin=agent) as events:
        events.write(agent)
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    assert found.PluginTagToContent("scalars").keys() == {"average_reward", *EARNED}
    assert found.PluginTagToContent("histograms").keys() == {"reward_quantiles"}
    buckets = make_ndarray(found.Tensors("reward_quantiles")[0].tensor_proto)  # left, right, how many
    assert buckets[:, 2].sum() == 4
    assert buckets[0, 0] == pytest.approx(agent.reward_quantiles.min(), rel=1e-6)
    assert buckets[-1, 1] == pytest.approx(agent.reward_quantiles.max(), rel=1e-6)


def test_entries_are_about_what_happened_since_the_last_one(tmp_path: Path) -> None:
    agent = perstep.QLearning("FrozenLake-v1", rule="differential", epsilon=0.5)
    with event_writer(tmp_path) as events:
        before = agent.learn(2000, callback=events).history.record  # the record has halved its rows on the way
        events.write(agent)
        rewards, returns, ends = (np.array(array) for array in (before.reward_rate, before.returns, before.episodes))
        agent.learn(1000)
        events.write(agent)
    found = read(tmp_path)
    assert found.Tags()["histograms"] == []  # differential has none
    history = agent.history
    earned = history.window * history.reward_rate.sum() + history.record.pending[0]
    assert steps(found, "reward_rate")[-2:] == [2000, 3000]
    earned_before = 2 * rewards[:1000].sum()  # 1000 windows of 2 steps
    assert numbers(found, "reward_rate")[-1] == pytest.approx((earned - earned_before) / 1000, rel=1e-5)
    ended = history.episodes.sum() + history.record.pending[2] - ends[:1000].sum()
    returned = history.record.returns[: len(history)].sum() + history.record.pending[1] - returns[:1000].sum()
    assert ended > 20
    assert numbers(found, "episode_return")[-1] == pytest.approx(returned / ended, rel=1e-5)


def test_they_change_nothing(tmp_path: Path) -> None:
    plain = perstep.QLearning("perstep/TwoLoop-v0", rule="d3").learn(5000)
    with event_writer(tmp_path) as events:
        watched = perstep.QLearning("perstep/TwoLoop-v0", rule="d3").learn(5000, callback=events)
    np.testing.assert_array_equal(plain.all_action_values, watched.all_action_values)


@pytest.mark.parametrize("clock", [1, 0, -1], ids=["forward", "in the same second", "set back"])
@pytest.mark.parametrize("checkpoint_every", [400, 100_000], ids=["from a checkpoint", "from the beginning"])
def test_a_killed_run_goes_on_without_holes_or_doubles(
    checkpoint_every: int, clock: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(agent: perstep.Agent) -> None:
        if agent.steps > 700:
            raise Crash

    plan = EvaluationPlan(every=200, num_steps=50)
    ticks = itertools.count(2 * 10**9, clock)
    monkeypatch.setattr(time, "time", lambda: next(ticks))
    with pytest.raises(Crash):
        training.train(
            FROZEN, 1000, tmp_path, tensorboard=True, evaluate=plan, checkpoint_every=checkpoint_every, watch=crash
        )
    assert max(steps(read(tmp_path), "reward_rate")) > 400
    training.train(FROZEN, 1000, tmp_path, tensorboard=True, evaluate=plan, resume=True)
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2
    found = read(tmp_path)
    assert steps(found, "evaluation/average_reward") == [200, 400, 600, 800, 1000]
    for name in ("reward_rate", "average_reward", "reward_quantiles", "steps_per_second"):
        entries = steps(found, name)
        assert entries == sorted(set(entries))
        assert entries[-1] == 1000
        assert max(np.diff([0, *entries])) <= 400


def test_a_long_run_has_a_thousand_entries_at_most(tmp_path: Path) -> None:
    spec = RunSpec(algorithm="differential-q", world="perstep/TwoLoop-v0", config=QLearningConfig(rule="differential"))
    training.train(spec, 3000, tmp_path, tensorboard=True)
    entries = steps(read(tmp_path), "average_reward")
    assert min(np.diff(entries[:-1]), default=3) >= 3
    assert entries[-1] == 3000


def test_the_end_says_how_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-q", "FrozenLake-v1", "--steps", "200", "--out", str(tmp_path), "--tensorboard", "--quiet"]
    assert main(words) == 0
    assert f"tensorboard --logdir {tmp_path}" in capsys.readouterr().out


def test_the_first_stretch_is_in_the_first_entry(tmp_path: Path) -> None:
    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4)
    for name in ("first", "second"):
        before, earned = agent.steps, totals(agent).rewards
        with event_writer(tmp_path / name, begin=agent if agent.steps else 0) as events:
            assert events.last_step == before
            agent.learn(1000, callback=events)
            written = events.last_step
        found = read(tmp_path / name)
        entries = steps(found, "reward_rate")
        assert entries == steps(found, "average_reward")
        assert written == entries[-1]
        rates = np.array(numbers(found, "reward_rate"))
        if written == agent.steps:
            assert rates @ np.diff([before, *entries]) == pytest.approx(totals(agent).rewards - earned, abs=1e-3)


def test_the_last_step_is_one_with_an_entry(tmp_path: Path) -> None:
    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4).learn(100)
    with event_writer(tmp_path, every=1000, begin=agent.steps) as events:
        agent.learn(500, callback=events)
        assert events.last_step == 100
        events.write(agent)
        assert events.last_step == 600
    assert steps(read(tmp_path), "average_reward") == [600]
