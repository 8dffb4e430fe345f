"""Runs in folders: the same bits whatever interrupts them, exact answers beside what was learnt, and what the terminal shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import perstep
from perstep.app import run_view, training
from perstep.app.training import figures
from perstep.app.training.exact_answers import exact_answers
from perstep.app.training.run_spec import RunSpec
from perstep.distributions.distribution import Batches
from perstep.files import storage
from perstep.tabular.settings import QLearningConfig, TDLearningConfig
from perstep.tiles.settings import ActorCriticConfig
from same_runs import Crash, assert_same_run

RED_PILL = "perstep/RedPillBluePill-v0"


def q_spec(world: str = RED_PILL, **settings: Any) -> RunSpec:
    return RunSpec(algorithm="d2-q", world=world, config=QLearningConfig(rule="d2", num_quantiles=5, **settings))


SPECS = [
    q_spec(),
    q_spec("FrozenLake-v1", reset_cost=0.1),
    RunSpec(algorithm="d3-td", world="perstep/TwoLoop-v0", config=TDLearningConfig(rule="d3", num_quantiles=4)),
    RunSpec(
        algorithm="d3-actor-critic",
        world="perstep/InvertedPendulum-v0",
        config=ActorCriticConfig(rule="d3", num_quantiles=3),
    ),
]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.algorithm} in {spec.world}")
def test_crash_and_resume_give_the_uninterrupted_run(spec: RunSpec, tmp_path: Path) -> None:
    training.train(spec, 2500, tmp_path / "whole")

    def crash(agent: perstep.Agent) -> None:
        if agent.steps > 1700:
            raise Crash

    with pytest.raises(Crash):
        training.train(spec, 2500, tmp_path / "broken", checkpoint_every=333, watch=crash)
    assert 0 < storage.read(tmp_path / "broken" / training.AGENT)[1]["steps"] < 2500
    leftover, notes = (tmp_path / "broken" / name for name in (".perstep-0123456789abcdef", ".notes.part"))
    leftover.mkdir()
    (leftover / "agent.safetensors.part").write_bytes(b"half a file")
    notes.write_text("of the user")
    training.train(spec, 2500, tmp_path / "broken", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    assert {path.name for path in (tmp_path / "broken").glob(".*")} == {".lock", ".notes.part"}


def test_killed_process_goes_on_to_the_bit(tmp_path: Path) -> None:
    steps = 3_000_000
    command = [
        sys.executable, "-m", "perstep.app.cli", "train", "d2-q", RED_PILL, "--steps", str(steps), "--num-quantiles", "10",
        "--checkpoint-every", "50000", "--out", str(tmp_path / "killed"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record = tmp_path / "killed" / training.RUN
    deadline = time.monotonic() + 120
    while not (record.exists() and json.loads(record.read_text())["steps"] >= 100_000) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    reached = json.loads(record.read_text())
    assert 100_000 <= reached["steps"] < steps
    assert reached["finished"] is False

    spec = RunSpec(
        algorithm="d2-q",
        world=RED_PILL,
        config=QLearningConfig.of({"preset": "steady", "rule": "d2", "num_quantiles": 10}),
    )
    training.train(spec, steps, tmp_path / "whole")
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=True)
    assert "best possible average reward" in done.stdout
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    for figure in (training.QUANTILES, training.REWARD_RATE):
        assert (tmp_path / "whole" / figure).read_bytes() == (tmp_path / "killed" / figure).read_bytes()
    assert json.loads(record.read_text())["finished"] is True


@pytest.mark.usefixtures("undrawn")
def test_longer_run_is_the_same_whether_extended_or_made_at_once(tmp_path: Path) -> None:
    training.train(q_spec(), 1500, tmp_path / "extended")
    training.train(q_spec(), 4100, tmp_path / "extended", resume=True)
    training.train(q_spec(), 4100, tmp_path / "at once", checkpoint_every=97)
    assert_same_run(tmp_path / "extended", tmp_path / "at once")


@pytest.mark.usefixtures("undrawn")
def test_resume_without_a_run_begins_one_and_before_its_first_checkpoint_too(tmp_path: Path) -> None:
    def crash(agent: perstep.Agent) -> None:
        raise Crash

    with pytest.raises(Crash):
        training.train(q_spec(), 1200, tmp_path / "a", resume=True, watch=crash)
    assert not (tmp_path / "a" / training.AGENT).exists()
    agent = training.train(q_spec(), 1200, tmp_path / "a", resume=True)
    assert agent.steps == 1200


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_stop(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    with pytest.raises(training.Interrupted) as caught:
        training.train(q_spec(), 10**9, tmp_path / "a", watch=lambda agent: os.kill(os.getpid(), number))
    assert signal.getsignal(number) is before
    assert caught.value.signal_number == number
    steps = caught.value.steps
    assert storage.read(tmp_path / "a" / training.AGENT)[1]["steps"] == steps
    assert training.read_record(tmp_path / "a")["steps"] == steps
    training.train(q_spec(), steps + 500, tmp_path / "a", resume=True)
    training.train(q_spec(), steps + 500, tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")


@pytest.mark.usefixtures("undrawn")
def test_folder_with_a_run_is_refused(tmp_path: Path) -> None:
    training.train(q_spec(), 50, tmp_path)
    with pytest.raises(FileExistsError, match="already contains a run"):
        training.train(q_spec(), 50, tmp_path)
    (tmp_path / training.RUN).unlink()
    with pytest.raises(FileNotFoundError, match=r"without its run\.json"):
        training.train(q_spec(), 50, tmp_path, resume=True)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (q_spec(epsilon=0.3), "epsilon was 0.1 and is now 0.3"),
        (q_spec(step_size=perstep.Decay(0.5, 0.8)), "step_size was 0.002 and is now 0.5:0.8"),
        (q_spec("perstep/TwoLoop-v0"), f'world was "{RED_PILL}" and is now "perstep/TwoLoop-v0"'),
        (RunSpec(algorithm="d3-q", world=RED_PILL, config=QLearningConfig(rule="d3")), 'was "d2-q" and is now "d3-q"'),
    ],
    ids=["setting", "decay", "world", "algorithm"],
)
def test_another_task_is_not_resumed(other: RunSpec, words: str, tmp_path: Path) -> None:
    training.train(q_spec(), 50, tmp_path)
    with pytest.raises(ValueError, match="contains another run") as caught:
        training.train(other, 50, tmp_path, resume=True)
    assert words in str(caught.value)
    assert str(caught.value).count(" was ") == 1


@pytest.mark.parametrize("content", ["[1]", '"run"', '{"settings": 3}'])
def test_a_record_that_is_none_is_not_resumed(content: str, tmp_path: Path) -> None:
    (tmp_path / training.RUN).write_text(content)
    with pytest.raises(storage.BadFile, match=r"run\.json should be the record of a run, a JSON object"):
        training.train(q_spec(), 50, tmp_path, resume=True)


@pytest.mark.usefixtures("undrawn")
def test_setting_added_since_had_its_default(tmp_path: Path) -> None:
    training.train(q_spec(), 50, tmp_path)
    record = training.read_record(tmp_path)
    del record["settings"]["reset_cost"]
    (tmp_path / training.RUN).write_text(json.dumps(record))
    assert training.train(q_spec(), 60, tmp_path, resume=True).steps == 60


@pytest.mark.usefixtures("undrawn")
def test_policy_may_move_but_not_change(tmp_path: Path) -> None:
    config = TDLearningConfig(rule="d2")
    np.save(tmp_path / "a.npy", np.array([1, 1]))
    np.save(tmp_path / "b.npy", np.array([0, 1]))
    (tmp_path / "c.npy").write_bytes((tmp_path / "a.npy").read_bytes())
    specs = {
        name: RunSpec(algorithm="d2-td", world=RED_PILL, config=config, policy=str(tmp_path / f"{name}.npy"))
        for name in "abc"
    }
    agent = training.train(specs["a"], 50, tmp_path / "run")
    assert isinstance(agent, perstep.TDLearning)
    np.testing.assert_array_equal(agent.policy(), [[0, 1], [0, 1]])
    training.train(specs["c"], 60, tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="policy was"):
        training.train(specs["b"], 70, tmp_path / "run", resume=True)


def test_rule_and_algorithm_agree() -> None:
    with pytest.raises(ValueError, match="Expected settings with the rule 'd3' of d3-q, got the rule 'd2'"):
        RunSpec(algorithm="d3-q", world=RED_PILL, config=QLearningConfig(rule="d2"))


def test_metrics_cover_every_step_once() -> None:
    agent = perstep.QLearning(RED_PILL, rule="d2", num_quantiles=3).learn(5000)
    frame = training.metrics_frame(agent)
    theta = ["theta_1", "theta_2", "theta_3"]
    assert frame.columns == [
        "step", "window", "reward_rate", "average_reward", *theta, "episodes", "episode_return"
    ]  # fmt: skip
    np.testing.assert_array_equal(np.cumsum(frame["window"]), frame["step"])
    assert frame["step"][-1] == 5000
    assert frame["average_reward"][-1] == agent.average_reward
    np.testing.assert_array_equal(frame.select("^theta_.*$").row(-1), agent.reward_quantiles)
    assert len(frame) <= 1024


# Exact answers ---------------------------------------------------------------------------------------------------------


def test_exact_answers_of_a_given_policy() -> None:
    agent = perstep.TDLearning(RED_PILL, policy=[0, 0], rule="d2", num_quantiles=2)
    answers = exact_answers(agent)
    assert answers["average_reward"] == pytest.approx(-0.7)
    # quartiles of N(−0.7, 0.05): −0.7 ± 0.6745 · 0.05
    assert answers["quantiles"] == pytest.approx([-0.73372, -0.66628], abs=1e-5)
    assert "optimal_average_reward" not in answers


def test_exact_answers_say_why_there_are_none() -> None:
    stay = perstep.FiniteMDP(np.eye(2)[:, None, :], [[0.0], [1.0]])
    agent = perstep.TDLearning(stay, policy=[0, 0])
    assert "closed" in exact_answers(agent)["unknown"]
    assert exact_answers(perstep.QLearning("FrozenLake-v1")) == {}


def test_exact_answers_of_control_are_those_of_the_best_policy_with_its_exploration() -> None:
    answers = exact_answers(perstep.QLearning(RED_PILL, rule="d2", num_quantiles=10, epsilon=0.1))
    assert answers["average_reward"] == pytest.approx(-0.605, abs=1e-6)
    assert answers["optimal_average_reward"] == pytest.approx(-0.6, abs=1e-6)
    assert answers["quantiles"][0] == pytest.approx(-1.0626, abs=1e-4)


def test_exact_answers_beside_a_risk_level_are_those_of_its_policy() -> None:
    answers = exact_answers(perstep.QLearning(RED_PILL, rule="d2", num_quantiles=10, epsilon=0.0, risk_level=0.25))
    assert answers["average_reward"] == pytest.approx(-0.7, abs=1e-6)
    assert answers["what"] == "of the policy with the best CVaR(0.25)"
    assert "optimal_average_reward" not in answers


# The terminal ----------------------------------------------------------------------------------------------------------


def test_picture_shows_where_the_quantiles_are() -> None:
    *bars, axis, ends = run_view.text_histogram(np.array([0.0, 0.0, 0.0, 1.0]), mark=0.25, width=12, height=2)
    assert bars == ["█" + " " * 11, "█" + " " * 10 + "▆"]  # 3 and 1 of 3 in 16 eighths: 16 and 6
    assert axis.index("▲") == round(0.25 * 11)
    assert ends.split() == ["0", "1"]
    assert {len(line) for line in (*bars, axis, ends)} == {12}


def test_picture_of_nothing_much() -> None:
    assert "█" in run_view.text_histogram(np.full(5, 2.0), mark=2.0)[0]
    assert run_view.text_histogram(np.array([np.nan, 1.0]), mark=np.nan) == ["(not finite)"]


def three_rewards() -> perstep.Distribution:
    """-1, 0 and 1, equally often in each of four batches."""
    values = np.tile([-1.0, 0.0, 1.0], 16)
    return perstep.Distribution.from_batches(Batches(values, np.ones(48, np.int64), np.repeat(np.arange(4), 12)))


def test_a_mean_beyond_the_picture_is_shown_at_its_end() -> None:
    *_, axis, _ = run_view.text_histogram(np.linspace(0.0, 1.0, 9), mark=-3.0)
    assert axis.startswith("◀")
    *_, axis, _ = run_view.text_histogram(np.linspace(0.0, 1.0, 9), mark=3.0)
    assert axis.endswith("▶")


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_view, "LINE_EVERY", 0.0)
    with run_view.run_view("d2-q", 1000, quiet=False) as view:
        assert isinstance(view, run_view.LineView)
        view.show(run_view.RunStatus(250, -0.5, three_rewards(), None, episode_return=12.5, episodes=3))
        view.say("something happened")
    said = capsys.readouterr().err
    assert "250 of 1,000 steps (25%)" in said
    earned = (
        "earned 0 ± 0.23 over 48 steps, 5 % quantile -1, 50 % quantile 0, 95 % quantile 1, mean of the worst 10 % -1"
    )
    assert f"{earned}, episode return 12.5" in said
    assert "perstep: something happened" in said
    with run_view.run_view("d2-q", 1000, quiet=True) as view:
        view.show(run_view.RunStatus(250, -0.5))
        view.say("something happened")
    assert capsys.readouterr().err == ""


def test_panel_on_a_terminal() -> None:
    from rich.console import Console

    view = run_view.PanelView("d2-q in a world", 1000)
    panel = view._panel(run_view.RunStatus(250, -0.5, three_rewards()))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(panel)
    text = capture.get()
    for words in ("d2-q in a world", "250 of 1,000", "0 ± 0.23 over 48 steps", "earned per step", "▲", "█"):
        assert words in text
    assert "episode" not in text


def test_panel_of_a_game() -> None:
    from rich.console import Console

    view = run_view.PanelView("d2-deep-q in a game", 1000)
    moment = run_view.RunStatus(250, 0.1, three_rewards(), None, 3.5, 12, epsilon=0.25, loss=0.125)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(view._panel(moment))
    text = capture.get()
    for words in ("ε 0.25, loss 0.125", "episode return", "3.5 over 12 episodes"):
        assert words in text


def test_speed_is_that_of_the_last_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    view = run_view.NoView("", 10**6)

    def step(now: float, made: int) -> run_view.RunStatus:
        clock[0] = now
        moment = run_view.RunStatus(made, 0.0)
        view.show(moment)
        return moment

    for second in range(10):  # fast, before learning starts
        step(second, 1000 * second)
    last = [step(second, 9000 + 100 * (second - 9)) for second in range(10, 60)][-1]
    assert view._speed(last) == pytest.approx(100)
    assert view._time_left(last) == "2 h 44 min"  # of 986,000 steps


def test_moment_of_an_agent_with_episodes() -> None:
    agent = perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=3)
    assert training.run_status(agent).episodes == 0
    agent.learn(3000)
    moment = training.run_status(agent)
    history = agent.history
    rows = len(history) // 20
    assert moment.episodes == history.episodes[-rows:].sum() + history.record.pending[2]
    assert 0 <= moment.episode_return <= 1
    assert np.isnan(moment.loss)


# Figures ---------------------------------------------------------------------------------------------------------------


def metrics(theta: np.ndarray[Any, Any]) -> polars.DataFrame:
    rows = len(theta)
    columns = {"step": np.arange(1, rows + 1) * 10, "window": np.full(rows, 10), "reward_rate": theta.mean(axis=1)}
    quantiles = {f"theta_{i + 1}": column for i, column in enumerate(theta.T)}
    return polars.DataFrame({**columns, "average_reward": theta.mean(axis=1), **quantiles})


@pytest.mark.parametrize("size", [3, 51], ids=["lines", "fan"])
@pytest.mark.parametrize("known", [True, False])
def test_figures_are_drawn(size: int, known: bool, tmp_path: Path) -> None:
    frame = metrics(np.linspace(0, 1, 40)[:, None] * np.arange(1, size + 1))
    exact = {"average_reward": 1.0, "optimal_average_reward": 1.2, "quantiles": [*range(size)]} if known else None
    figures.quantile_convergence(tmp_path / "quantiles", frame, exact, "title")
    figures.reward_rate(tmp_path / "rate", frame, exact, "title")
    for name in ("quantiles.png", "rate.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("undrawn")
def test_figures_of_a_run_with_episodes_and_evaluations(tmp_path: Path) -> None:
    plan = training.EvaluationPlan(every=1000, num_steps=100)
    training.train(q_spec("FrozenLake-v1"), 3000, tmp_path / "ends", evaluate=plan)
    training.train(q_spec(), 3000, tmp_path / "never ends", evaluate=plan)
    for folder in (tmp_path / "ends", tmp_path / "never ends"):
        training.draw(folder)
        for name in (training.QUANTILES, training.REWARD_RATE):
            assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "ends" / training.EPISODE_RETURN).exists()
    assert not (tmp_path / "never ends" / training.EPISODE_RETURN).exists()


def test_figures_of_a_run_that_diverged(tmp_path: Path) -> None:
    frame = metrics(np.full((5, 2), np.nan))
    figures.quantile_convergence(tmp_path / "quantiles", frame)
    figures.reward_rate(tmp_path / "rate", frame)
    assert (tmp_path / "rate.png").exists()


def test_an_average_outside_its_quantiles_is_told() -> None:
    theta = np.array([-2.0, 0.0, 1.0])
    assert figures.beyond(0.5, theta) == ""
    assert figures.beyond(-2.5, theta) == "average below the lowest quantile, since rarer low rewards count"
    assert figures.beyond(1.5, theta).startswith("average above the highest")


@pytest.mark.usefixtures("undrawn")
def test_without_quantiles_there_is_no_figure_of_them(tmp_path: Path) -> None:
    spec = RunSpec(algorithm="differential-q", world=RED_PILL, config=QLearningConfig(rule="differential"))
    training.train(spec, 500, tmp_path / "a")
    training.draw(tmp_path / "a")
    assert not (tmp_path / "a" / training.QUANTILES).exists()
    assert (tmp_path / "a" / training.REWARD_RATE).exists()


def test_trailing_mean_weighs_windows_by_their_steps() -> None:
    mean = figures.trailing_mean(np.array([1.0, 2.0, 8.0]), np.array([10, 10, 5]), span=2)
    # (1·10)/10, (1·10 + 2·10)/20, (2·10 + 8·5)/15
    np.testing.assert_allclose(mean, [1.0, 1.5, 4.0])
