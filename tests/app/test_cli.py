"""The command as people run it: what it prints, what it leaves, and a sentence with exit code 2 for every mistake."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars
import pytest

import perstep
from perstep.app import training
from perstep.app.cli import main
from perstep.app.training.flags import algorithm_position, pairs, train_flags

RED_PILL = "perstep/RedPillBluePill-v0"
ACCESS = "perstep/AccessControl-v0"
PENDULUM = "perstep/InvertedPendulum-v0"


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("PERSTEP_DEBUG", raising=False)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "perstep.app.cli", *words], capture_output=True, text=True)


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


# Without learning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(f"perstep {name}" in out for name in ("list", "train", "evaluate", "reproduce"))


def test_version_from_the_shell() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"perstep {perstep.__version__}\n", "")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_help_in_an_encoding_without_greek_letters(encoding: str) -> None:
    words = [sys.executable, "-m", "perstep.app.cli", "train", "d2-q", "--help"]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"--step-size" in done.stdout


def test_list_names_every_algorithm_and_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for row in perstep.ALGORITHMS.values():
        assert re.search(rf"{row.name} .*{row.rule} .*{row.learner.agent} .*{re.escape(row.source)}", out)
    for name in gymnasium.registry:
        if name.startswith("perstep/"):
            assert name in out


def test_train_help_names_every_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    out = help_of(capsys, "train")
    assert all(f"- {name}:" in out for name in perstep.ALGORITHMS)
    assert "--checkpoint-every" in out


@pytest.mark.parametrize("name", perstep.ALGORITHMS)
def test_every_setting_is_a_flag_with_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = help_of(capsys, "train", name)
    assert "None}" not in out
    assert "(default: )" not in out
    settings = {field.name for field in dataclasses.fields(perstep.ALGORITHMS[name].config)} - {"rule"}
    flags = set(re.findall(r"--[a-z.-]+", out))
    flags |= {flag.replace("--no-", "--") for flag in flags}  # a switch that is on by default
    assert {f"--{setting.replace('_', '-')}" for setting in settings} <= flags
    assert not {"--rule", "--settings"} & flags
    assert not any("." in flag for flag in flags), (
        "A setting with settings inside needs a way to be written as one flag."
    )
    assert ("--policy " in out) == name.endswith("-td")
    assert "All the run's randomness" in out


def test_flags_become_settings(tmp_path: Path) -> None:
    words = [RED_PILL, "--steps", "2e3", "--out", str(tmp_path), "--step-size", "0.5:0.8", "--reward_step_size=0.1"]
    words += [
        "--preset",
        "paper",
        "--num-quantiles",
        "7",
        "--initial-value",
        "-1.5",
        "--termination",
        "mask",
        "--seed",
        "3",
    ]
    flags, spec = train_flags(perstep.ALGORITHMS["d3-q"], words)
    assert (flags.steps, flags.out, flags.resume) == (2000, tmp_path, False)
    expected = {"rule": "d3", "step_size": perstep.Decay(0.5, 0.8), "reward_step_size": 0.1, "num_quantiles": 7}
    expected |= {"initial_value": -1.5, "termination": "mask", "seed": 3, "preset": "paper"}
    assert expected.items() <= spec.config.settings().items()


def test_flags_may_stand_before_the_algorithm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--steps", "5", "d2-q", "nowhere", "--out", str(tmp_path / "a")]) == 2
    assert "no world 'nowhere'" in capsys.readouterr().err


def test_the_value_of_a_flag_is_no_algorithm() -> None:
    assert algorithm_position(["--out", "q", "--resume", "sarsa", "world"]) == 3
    assert algorithm_position(["d2q", "world", "--out", "dqn"]) is None
    assert algorithm_position(["--out=q", "dqn", "world"]) == 1


@pytest.mark.parametrize(("text", "value"), [("max", "max"), ("[3, 0]", (3, 0))])
def test_a_setting_that_is_a_word_or_a_pair(text: str, value: Any, tmp_path: Path) -> None:
    words = ["FrozenLake-v1", "--steps", "5", "--out", str(tmp_path), "--reference", text]
    _, spec = train_flags(perstep.ALGORITHMS["rvi-q"], words)
    assert spec.config.settings()["reference"] == value


@pytest.mark.parametrize("name", ["d2-q", "differential-tile-q", "d3-actor-critic", "d2-deep-q"])
def test_the_objective_is_a_flag(name: str, tmp_path: Path) -> None:
    words = ["FrozenLake-v1", "--steps", "5", "--out", str(tmp_path), "--objective", "return per episode"]
    _, spec = train_flags(perstep.ALGORITHMS[name], words)
    expected = {"objective": "return per episode", "centered": False, "discount": 1.0, "termination": "mask"}
    assert expected.items() <= spec.config.settings().items()


def test_settings_of_a_world() -> None:
    words = ["order=accept-first", "num_servers=5", "rewards=[1, 2.5]", "a=b=c", "flag=true"]
    expected = {"order": "accept-first", "num_servers": 5, "rewards": [1, 2.5], "a": "b=c", "flag": True}
    assert pairs(words) == expected


# Mistakes --------------------------------------------------------------------------------------------------------------

MISTAKES = {
    "trian": "no command 'trian'. Did you mean 'train'?",
    "train": "expects an algorithm first: differential-td",
    "train d2q RED": "no algorithm 'd2q'. Did you mean 'd2-q'?",
    "train d2-q perstep/RedPill-v0 --steps 5 --out OUT": f"Did you mean '{RED_PILL}'?",
    "train d2-q RED --step-sise 1": "no flag --step-sise. Did you mean '--step-size'?",
    "train d2-q RED --step 9": "no flag --step. Did you mean '--steps'?",
    "train d2-q RED --rule d3": "no flag --rule",
    "train d2-q RED --policy uniform": "no flag --policy",
    "train d2-q RED --steps 5 --out OUT --epsilon 2": "epsilon must be",
    "train d2-q RED --steps 5 --out OUT --objective per-step": "must be reward per step or return per episode, got 'per-step'",
    "train dqn RED --steps 5 --out OUT --objective EPISODE": "termination='mask', got discount=0.99. Leave it out",
    "train d2-q RED --steps 5 --out OUT --objective EPISODE": "needs episodes that end, but RedPillBluePill",
    "train d2-q RED --steps 0 --out OUT": "steps must be a whole number of at least 1",
    "train d2-q RED --steps 5 --out OUT --checkpoint-every 0": "checkpoint_every must be",
    "train d2-q QUEUE --steps 5 --out OUT --world-settings order=x": "free-first",
    "train d2-q QUEUE --steps 5 --out OUT --world-settings order": "as name=value, got 'order'",
    "train d2-q QUEUE --steps 5 --out OUT --world-settings ordr=x": "'ordr'. Did you mean 'order'?",
    "train d2-q CartPole-v1 --steps 5 --out OUT": "discrete observations",
    "train d2-td RED --steps 5 --out OUT --policy no.npy": "no policy file no.npy",
    "train d2-td RED --steps 5 --out OUT --policy unifrm": "'unifrm'",
    "evaluate OUT": "There is no file",
    "evaluate .": "contains no agent.safetensors",
    "list all": "takes no arguments, got 'all'",
    "reproduce redpil": "redpill",
}


@pytest.mark.parametrize(("line", "sentence"), MISTAKES.items(), ids=MISTAKES)
def test_mistakes(
    line: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    words = {"RED": RED_PILL, "QUEUE": ACCESS, "OUT": str(out), "EPISODE": "return per episode"}
    assert main([words.get(word, word) for word in line.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("perstep: ")
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert not out.exists(), "A mistake leaves nothing behind."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--steps", "many", "--out", "x"], "got 'many'"),
        (["--steps", "5"], "--out"),
        (
            ["--steps", "5", "--out", "x", "--step-size", "1:x"],
            "or SCALE:POWER or SCALE:POWER:DELAY such as 0.5:0.8, got '1:x'",
        ),
        (
            ["--steps", "5", "--out", "x", "--termination", "end"],
            "--termination must be continue or mask or stop, got 'end'.",
        ),
        (["--steps", "5", "--out", "x", "--seed"], "--seed needs a value."),
        (["--steps", "5", "--out", "x", "--preset"], "--preset needs a value."),
        (["CartPole-v1", "--steps", "5", "--out", "x"], "Nothing more is expected by position, got CartPole-v1."),
    ],
)
def test_flags_that_cannot_be_read(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "d2-q", RED_PILL, *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("perstep: ")
    assert said.endswith(" See perstep train d2-q --help.\n")
    assert said.count("\n") == 1
    assert sentence in said


def test_an_algorithm_alone_and_a_search_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "d2-q"]) == 2
    assert "Missing from perstep train d2-q: WORLD --steps INT --out PATH." in capsys.readouterr().err
    assert main(["sweep", "study.yaml", "--search", "bayes"]) == 2
    assert "--search must be optuna, got 'bayes'." in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["50", "200"])
def test_several_things_missing_are_one_line(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["train", "d2-q", "--steps", "5"]) == 2
    missing = "perstep: Missing from perstep train d2-q: WORLD --out PATH. See perstep train d2-q --help.\n"
    assert capsys.readouterr().err == missing


@pytest.mark.parametrize(
    "words", [["list"], ["--help"], ["train", "--help"], ["evaluate", "agent", "--json"]], ids=" ".join
)
def test_a_reader_that_has_gone_is_no_mistake(words: list[str], tmp_path: Path) -> None:
    if "agent" in words:
        agent = perstep.QLearning(RED_PILL).learn(10)
        agent.evaluate(10)  # compiles here what would be announced there
        agent.save(tmp_path / "agent")
    read, write = os.pipe()
    os.close(read)
    words = [str(tmp_path / word) if word == "agent" else word for word in words]
    done = subprocess.run(
        [sys.executable, "-m", "perstep.app.cli", *words], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_another_pipe_that_breaks_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(words: list[str]) -> int:
        raise BrokenPipeError("a worker has gone")

    monkeypatch.setattr("perstep.app.cli.train", broken)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "perstep: a worker has gone\n"


def test_debugging_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSTEP_DEBUG", "1")
    with pytest.raises(ValueError, match="no algorithm"):
        main(["train", "d4-q"])


def test_missing_library_names_its_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(words: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

    monkeypatch.setattr("perstep.app.cli.train", absent)
    assert main(["train"]) == 2
    assert "pip install 'perstep[deep]'" in capsys.readouterr().err


# Learning --------------------------------------------------------------------------------------------------------------


def test_train_evaluate_and_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs" / "a"
    words = ["train", "d2-q", RED_PILL, "--num-quantiles", "10", "--out", str(folder)]
    done = command(*words, "--steps", "60000")
    assert done.returncode == 0, done.stderr
    assert "exact" in done.stdout
    assert "95 % quantile" in done.stdout
    assert "mean of the worst 1 %" in done.stdout
    for name in ("agent.safetensors", "metrics.parquet", "run.json", "quantiles.png", "reward_rate.png"):
        assert str(folder / name) in done.stdout
        assert (folder / name).stat().st_size > 0
    record = json.loads((folder / "run.json").read_text())
    assert (record["algorithm"], record["world"], record["steps"], record["finished"]) == (
        "d2-q",
        RED_PILL,
        60000,
        True,
    )
    assert record["settings"]["num_quantiles"] == 10
    assert record["command"] == " ".join(["perstep", *words, "--steps", "60000"])
    assert record["exact"]["optimal_average_reward"] == pytest.approx(-0.6, abs=1e-6)
    assert {"python", "numpy", "numba", "gymnasium"} <= record["versions"].keys()
    agent = perstep.load(folder / "agent.safetensors")
    same = perstep.QLearning(RED_PILL, rule="d2", preset="steady", num_quantiles=10).learn(60000)
    np.testing.assert_array_equal(agent.reward_quantiles, same.reward_quantiles)
    assert polars.read_parquet(folder / "metrics.parquet")["average_reward"][-1] == agent.average_reward

    assert main([*words, "--steps", "60000"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*words, "--steps", "60000", "--resume"]) == 0
    assert "finished, with 60,000 steps" in capsys.readouterr().err
    assert main([*words, "--steps", "70000", "--resume"]) == 0
    assert perstep.load(folder / "agent.safetensors").steps == 70000

    capsys.readouterr()
    assert main(["evaluate", str(folder), "--steps", "3000", "--seed", "1", "--deterministic", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    expected = perstep.load(folder / "agent.safetensors").evaluate(3000, deterministic=True, seed=1)
    assert numbers["average_reward"] == expected.average_reward
    assert numbers["quantiles"]["0.5"] == expected.reward_distribution.quantile(0.5)
    assert numbers["cvar"]["0.1"] == expected.reward_distribution.cvar(0.1)
    assert (numbers["steps"], numbers["steps_learnt"], numbers["episode_returns"]) == (3000, 70000, {"count": 0})
    assert main(["evaluate", str(folder / "agent.safetensors"), "--steps", "100"]) == 0
    assert "mean of the worst 10 %" in capsys.readouterr().out
    assert main(["evaluate", str(folder), "--steps", "10"]) == 0
    assert "10 steps are too few for a standard error" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("undrawn")
def test_prediction_of_a_policy_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.json").write_text("[[0.5, 0.5], [0.25, 0.75]]")
    words = ["--policy", str(tmp_path / "policy.json"), "--steps", "500", "--out", str(tmp_path / "a"), "--quiet"]
    assert main(["train", "differential-td", RED_PILL, *words]) == 0
    said = capsys.readouterr()
    assert "best possible" not in said.out
    agent: Any = perstep.load(tmp_path / "a" / training.AGENT)
    np.testing.assert_array_equal(agent.policy(), [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.usefixtures("undrawn")
def test_world_settings_reach_the_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--world-settings", "order=accept-first", "num_servers=3", "--steps", "500", "--out", str(tmp_path / "a")]
    assert main(["train", "d2-td", ACCESS, *words]) == 0
    agent: Any = perstep.load(tmp_path / "a" / training.AGENT)
    assert (agent._num_states, agent.mdp.name) == (16, "AccessControl, accept-first")


@pytest.mark.usefixtures("undrawn")
def test_episodes_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "d2-q", "FrozenLake-v1", "--steps", "300", "--out", str(tmp_path / "a"), "--quiet"]) == 0
    assert "exact" not in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "a"), "--steps", "500", "--world", "FrozenLake-v1"]) == 0
    assert re.search(r"returns of \d+ episodes", capsys.readouterr().out)


@pytest.mark.usefixtures("undrawn")
def test_the_objective_is_said_first_where_episodes_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--steps", "300", "--out"]
    assert main(["train", "d2-q", "FrozenLake-v1", *words, str(tmp_path / "a")]) == 0
    first = "perstep: Objective: the reward per step; an end is a step to the next start like any other.\n"
    assert capsys.readouterr().err.startswith(first)
    assert main(["train", "d2-q", RED_PILL, *words, str(tmp_path / "b")]) == 0
    assert "Objective" not in capsys.readouterr().err


def test_unlearnable_policy_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    from perstep.app.run_view import RunStatus, learnt_table

    moment = RunStatus(10, 0.5, learned=perstep.Distribution.from_quantiles([0.1, 0.9]))
    Console().print(learnt_table(moment, {"unknown": "the chain has two closed classes."}))
    out = capsys.readouterr().out
    assert "No exact answer: the chain has two closed classes." in out
    assert "75 % quantile" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_says_how_to_go_on(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = training.run_status

    def stop(agent: perstep.Agent) -> Any:
        signal.raise_signal(number)
        return moment(agent)

    monkeypatch.setattr(training, "run_status", stop)
    words = ["train", "d2-q", RED_PILL, "--steps", "1000000000", "--out", str(tmp_path / "a b")]
    assert main(words) == 128 + number
    said = capsys.readouterr().err
    assert f"stopped by {number.name} after" in said
    assert f"To continue: perstep train d2-q {RED_PILL} --steps 1000000000 --out '{tmp_path / 'a b'}' --resume" in said
    assert (tmp_path / "a b" / training.AGENT).exists()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.filterwarnings("default:The state of:UserWarning")
def test_a_world_of_unknown_state_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "d2-q", "Blackjack-v1", "--out", str(tmp_path)]
    assert main([*words, "--steps", "100"]) == 0
    assert "perstep: the state of this world cannot be saved" in capsys.readouterr().err
    assert json.loads((tmp_path / training.RUN).read_text())["resumes"] == "from a fresh reset"
    assert main([*words, "--steps", "200", "--resume"]) == 0
    assert capsys.readouterr().err.startswith(
        "perstep: The state of Blackjack-v1 could not be saved, so the agent continues"
    )


def test_reproduce_passes_on_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def reproduce(parts: list[str], scale: str, out: Path, options: Any) -> int:
        told.append((parts, scale, out, options.retry_failed))
        return 1

    monkeypatch.setattr("perstep.paper.reproduction.reproduce", reproduce)
    assert main(["reproduce", "redpill", "--scale", "smoke", "--out", "x", "--retry-failed"]) == 1
    assert told == [(["redpill"], "smoke", Path("x"), True)]


# A video -------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    from perstep.app.training.video import record_video

    run, gif = tmp_path / "a", tmp_path / "videos" / "a.gif"
    assert main(["train", "d2-actor-critic", PENDULUM, "--steps", "2000", "--out", str(run), "--quiet"]) == 0
    words = ["evaluate", str(run), "--steps", "50", "--seed", "3", "--gif", str(gif), "--gif-steps", "40"]
    assert main(words) == 0
    assert str(gif) in capsys.readouterr().out
    assert gif.stat().st_size < 600_000
    with Image.open(gif) as opened:
        assert (opened.format, opened.size, opened.info["loop"]) == ("GIF", (240, 240), 0)
        assert 10 < getattr(opened, "n_frames", 1) <= 21  # the start and every second step; equal neighbours are one
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 50
    assert [path.name for path in gif.parent.iterdir()] == ["a.gif"]

    # The video shows the evaluation itself, with its exploration or without.
    agent = perstep.load(run / training.AGENT)
    for deterministic in (False, True):
        rewards = record_video(agent, gif, 50, deterministic=deterministic, seed=3)
        assert rewards.mean() == pytest.approx(agent.evaluate(50, deterministic, 3).average_reward, rel=1e-12)


@pytest.mark.usefixtures("undrawn")
def test_a_world_without_a_picture_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, gif = tmp_path / "a", tmp_path / "a.gif"
    assert main(["train", "d2-q", ACCESS, "--steps", "100", "--out", str(run), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--gif", str(gif)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "AccessControl is a finite MDP, which cannot draw itself" in said.err
    assert main(["evaluate", str(run), "--gif", str(gif), "--gif-steps", "0"]) == 2
    assert "video_steps must be a whole number of at least 1" in capsys.readouterr().err
    assert not gif.exists()


def test_a_world_that_draws_no_pixels_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perstep.app.training.video import record_video
    from perstep.worlds.pendulum import PendulumEnv

    agent = perstep.ActorCritic(PENDULUM)
    monkeypatch.setattr(PendulumEnv, "metadata", {"render_modes": ["ansi"]})
    with pytest.raises(ValueError, match=r"InvertedPendulum-v0 supports 'ansi'\. Leave the video out"):
        record_video(agent, tmp_path / "a.gif")


def test_a_gif_that_is_too_large_gets_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from perstep.app.training.video import GIF_QUALITIES, scaled, write_gif

    noise = [
        Image.fromarray(picture) for picture in np.random.default_rng(0).integers(0, 256, (4, 12, 10, 3), np.uint8)
    ]
    assert scaled(noise[0], 240).size == (200, 240)
    sizes = []
    for largest in (600_000, 12_000, 0):  # bytes: the first look, the second, and the last whatever it takes
        monkeypatch.setattr("perstep.app.training.video.MAX_GIF_BYTES", largest)
        write_gif(tmp_path / "a.gif", noise, rate=20.0)
        with Image.open(tmp_path / "a.gif") as opened:
            sizes.append(max(opened.size))
    assert sizes == [240, 156, 96] == [12 * (side // 12) for side, _ in GIF_QUALITIES]


def test_every_algorithm_can_be_cited(capsys):
    from perstep.rules.lattice import ALGORITHMS

    for name, row in ALGORITHMS.items():
        assert main(["cite", name]) == 0
        entries = capsys.readouterr().out
        assert entries.startswith("@software{perstep")
        assert entries.count("{") == entries.count("}")
        assert entries.count("@") >= 2, name
        if "Alg." in row.source:
            assert "rojas2026" in entries
    assert main(["cite"]) == 2
    assert main(["cite", "d3-deepq"]) == 2
    assert "Did you mean 'd3-deep-q'?" in capsys.readouterr().err
