"""Evaluations on the way: at every multiple of so many steps, once each, whatever happens, and learning never notices."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import polars
import pytest

import perstep
from perstep.app import training
from perstep.app.cli import main
from perstep.app.training import EvaluationPlan
from perstep.app.training.run_spec import RunSpec
from perstep.deep.settings import DeepQConfig
from perstep.tabular.settings import QLearningConfig, TDLearningConfig
from perstep.tiles.settings import ActorCriticConfig
from same_runs import Crash, assert_same_learning, assert_same_run, evaluations

pytestmark = pytest.mark.usefixtures("undrawn")

PLAN = EvaluationPlan(every=300, num_steps=200)
SPECS = {
    "a table in a finite MDP": RunSpec(
        algorithm="d3-td", world="perstep/TwoLoop-v0", config=TDLearningConfig(rule="d3", num_quantiles=4)
    ),
    "a table in Gymnasium": RunSpec(
        algorithm="d2-q", world="FrozenLake-v1", config=QLearningConfig(rule="d2", num_quantiles=4)
    ),
    "tiles with a pendulum": RunSpec(
        algorithm="d2-actor-critic",
        world="perstep/InvertedPendulum-v0",
        config=ActorCriticConfig(rule="d2", num_quantiles=4),
    ),
}
DEEP = RunSpec(
    algorithm="d2-deep-q",
    world="perstep/MinAtar-Breakout-v0",
    config=DeepQConfig(rule="d2", replay_capacity=200, batch_size=4, num_quantiles=4, epsilon_steps=300, threads=1),
)
FROZEN = SPECS["a table in Gymnasium"]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_learning_never_notices(spec: RunSpec, tmp_path: Path) -> None:
    training.train(spec, 1000, tmp_path / "plain")
    training.train(spec, 1000, tmp_path / "evaluated", evaluate=PLAN)
    assert_same_learning(tmp_path / "plain", tmp_path / "evaluated")
    assert evaluations(tmp_path / "evaluated")["step"].to_list() == [300, 600, 900]


def test_deep_learning_never_notices(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("minatar")
    training.train(DEEP, 500, tmp_path / "plain")
    training.train(
        DEEP, 500, tmp_path / "evaluated", evaluate=EvaluationPlan(every=120, num_steps=60, deterministic=True)
    )
    assert_same_learning(tmp_path / "plain", tmp_path / "evaluated")
    assert evaluations(tmp_path / "evaluated")["step"].to_list() == [120, 240, 360, 480]


def test_a_row_says_what_evaluate_says(tmp_path: Path) -> None:
    training.train(FROZEN, 600, tmp_path, evaluate=PLAN)
    rows = evaluations(tmp_path)
    assert rows.columns == [
        "step", "average_reward", "episode_return", "episodes", "num_steps", "deterministic", "seed",
    ]  # fmt: skip
    first, last = rows.to_dicts()
    assert first["seed"] != last["seed"]
    earned = perstep.load(tmp_path / training.AGENT).evaluate(200, seed=last["seed"])
    assert last["average_reward"] == earned.average_reward
    assert last["episodes"] == earned.episode_returns.size > 0
    assert last["episode_return"] == earned.episode_returns.mean()
    assert (last["num_steps"], last["deterministic"]) == (200, False)


def test_where_nothing_ends_there_is_no_return(tmp_path: Path) -> None:
    training.train(SPECS["a table in a finite MDP"], 300, tmp_path, evaluate=PLAN)
    rows = evaluations(tmp_path)
    assert rows["episodes"].to_list() == [0]
    assert rows["episode_return"].is_nan().all()


class CrashingWatch:
    """A process that is gone once the agent has made so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, agent: perstep.Agent) -> None:
        if agent.steps >= self.step:
            raise Crash


@pytest.mark.parametrize("step", [450, 600, 750], ids=["between", "at an evaluation", "after one that was not saved"])
def test_a_crash_leaves_neither_holes_nor_doubles(step: int, tmp_path: Path) -> None:
    training.train(FROZEN, 1000, tmp_path / "whole", evaluate=PLAN)
    with pytest.raises(Crash):
        training.train(
            FROZEN, 1000, tmp_path / "broken", evaluate=PLAN, checkpoint_every=400, watch=CrashingWatch(step)
        )
    training.train(FROZEN, 1000, tmp_path / "broken", evaluate=PLAN, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    assert evaluations(tmp_path / "broken")["step"].to_list() == [300, 600, 900]


def test_a_crash_within_an_evaluation_right_after_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> Any:
        raise Crash

    training.train(FROZEN, 700, tmp_path / "whole", evaluate=PLAN)
    training.train(FROZEN, 600, tmp_path / "broken")  # saved at 600, and no evaluation of it is there
    with monkeypatch.context() as patch:
        patch.setattr(perstep.QLearning, "evaluate", crash)
        with pytest.raises(Crash):
            training.train(FROZEN, 700, tmp_path / "broken", evaluate=PLAN, resume=True)
    training.train(FROZEN, 700, tmp_path / "broken", evaluate=PLAN, resume=True)
    assert evaluations(tmp_path / "broken").equals(evaluations(tmp_path / "whole")[1:])


def test_a_signal_within_an_evaluation_saves_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: perstep.QLearning, *_: Any) -> Any:
        if self.steps == 600:
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("the signal waited for the evaluation")  # pragma: no cover
        return evaluate(self, *_)

    evaluate = perstep.QLearning.evaluate
    training.train(FROZEN, 1000, tmp_path / "whole", evaluate=PLAN)
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(perstep.QLearning, "evaluate", slow)
        with pytest.raises(training.Interrupted) as caught:
            training.train(FROZEN, 1000, tmp_path / "stopped", evaluate=PLAN)
    assert caught.value.steps == 600
    assert signal.getsignal(signal.SIGTERM) is before
    assert evaluations(tmp_path / "stopped")["step"].to_list() == [300]
    training.train(FROZEN, 1000, tmp_path / "stopped", evaluate=PLAN, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_another_budget_from_here_on(tmp_path: Path) -> None:
    training.train(FROZEN, 700, tmp_path, evaluate=PLAN)
    training.train(FROZEN, 1000, tmp_path, evaluate=EvaluationPlan(every=250, num_steps=50), resume=True)
    rows = evaluations(tmp_path)
    assert rows["step"].to_list() == [300, 600, 750, 1000]
    assert rows["num_steps"].to_list() == [200, 200, 50, 50]


class Unique(gymnasium.Env[int, int]):
    """A world of which there is one."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        if self.made > 1:
            raise RuntimeError("the machine is in use")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return action, 1.0, False, False, {}


def test_a_world_that_is_the_only_one_is_not_evaluated_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Unique-v0", gymnasium.envs.registration.EnvSpec("Unique-v0", Unique))
    words = ["train", "d2-q", "Unique-v0", "--steps", "5", "--out", str(tmp_path / "a"), "--evaluate-every", "2"]
    monkeypatch.setattr(Unique, "made", 0)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "its world must be created a second time" in said
    assert "the machine is in use" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "a").exists()
    monkeypatch.setattr(Unique, "made", 0)
    assert main(words[:-2]) == 0
    assert "the state of this world cannot be saved" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--evaluate-every 0", "evaluate_every must be a whole number of at least 1"),
        ("--evaluate-every 5 --evaluate-steps 0", "evaluate_steps must be a whole number of at least 1"),
        ("--evaluate-steps 5", "need --evaluate-every. Add it"),
        ("--evaluate-deterministic", "need --evaluate-every. Add it"),
    ],
)
def test_mistakes(words: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin = ["train", "d2-q", "FrozenLake-v1", "--steps", "5", "--out", str(tmp_path / "a")]
    assert main([*begin, *words.split()]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    training.train(FROZEN, 300, tmp_path, evaluate=PLAN)
    path = tmp_path / training.EVALUATIONS
    polars.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(
        perstep.files.storage.BadFile,
        match=r"Expected evaluations of a run in .*, got the columns a\. Move the file away",
    ):
        training.train(FROZEN, 600, tmp_path, evaluate=PLAN, resume=True)
    path.write_bytes(b"half a file")
    with pytest.raises(perstep.files.storage.BadFile, match="cannot be read"):
        training.train(FROZEN, 600, tmp_path, evaluate=PLAN, resume=True)
    path.unlink()
    training.train(FROZEN, 600, tmp_path, evaluate=PLAN, resume=True)
    assert evaluations(tmp_path)["step"].to_list() == [300, 600]


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--steps", "1000", "--out", str(tmp_path), "--evaluate-every", "500", "--evaluate-steps", "100"]
    assert main(["train", "d2-q", "FrozenLake-v1", *words, "--evaluate-deterministic"]) == 0
    said = capsys.readouterr()
    assert "perstep: evaluation at step 500: average reward" in said.err
    assert str(tmp_path / training.EVALUATIONS) in said.out
    assert evaluations(tmp_path)["deterministic"].to_list() == [True, True]


def test_what_an_earlier_call_left_is_no_result_of_this_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard")
    words = ["train", "d2-q", "perstep/RedPillBluePill-v0", "--out", str(tmp_path), "--quiet", "--resume"]
    also = ["--evaluate-every", "500", "--evaluate-steps", "10", "--tensorboard"]
    for steps, flags, listed in (("1000", also, True), ("1000", [], True), ("1500", [], False), ("2000", also, True)):
        assert main([*words, "--steps", steps, *flags]) == 0
        out = capsys.readouterr().out
        assert str(tmp_path / training.METRICS) in out
        assert (str(tmp_path / training.EVALUATIONS) in out) is listed
        assert (f"tensorboard --logdir {tmp_path}" in out) is listed
