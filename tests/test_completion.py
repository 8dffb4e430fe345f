"""Completion, asked of bash itself."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess

import pytest

from perstep.cli import main
from perstep.training.flags import train_flags

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_perstep
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(["completion", "bash"]) == 0
    path = tmp_path_factory.mktemp("completion") / "perstep.bash"
    path.write_text(said.getvalue())
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="There is no bash.")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("perstep tr", ["train"]),
        ("perstep c", ["cite", "check-world", "completion", "card"]),
        ("perstep train d3-d", ["d3-deep-q"]),
        ("perstep train d2-q perstep/RedP", ["perstep/RedPillBluePill-v0"]),
        ("perstep train d2-q FrozenLake-", ["FrozenLake-v1"]),
        ("perstep train d2-q FrozenLake-v1 --checkpoint", ["--checkpoint-every"]),
        ("perstep train d2-q FrozenLake-v1 --out a --tiling", []),
        ("perstep train d2-tile-q CartPole-v1 --out a --tiling", ["--tilings"]),
        ("perstep train d2-q FrozenLake-v1 --preset p", ["paper"]),
        ("perstep train d2-td FrozenLake-v1 --poli", ["--policy"]),
        ("perstep train d2-q FrozenLake-v1 --termination ", ["continue", "mask", "stop"]),
        ("perstep train d2-q FrozenLake-v1 --out ", []),  # names of files, by bash itself
        ("perstep sweep --search ", ["optuna"]),
        ("perstep sweep a.yaml --tri", ["--trials"]),
        ("perstep reproduce redp", ["redpill"]),
        ("perstep reproduce redpill --scale sm", ["smoke", "small"]),
        ("perstep cite d2-ac", ["d2-actor-critic"]),
        ("perstep check-world perstep/River", ["perstep/RiverSwim-v0"]),
        ("perstep completion ", ["bash", "zsh", "fish"]),
        ("perstep evaluate runs/a --det", ["--deterministic"]),
    ],
)
def test_bash_completes(script, line, words):
    typed = line.split(" ")
    done = subprocess.run(["bash", "-c", ASK, "ask", str(script), *typed], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == words


def test_every_flag_that_is_offered_is_known():
    from perstep.algorithms import algorithm
    from perstep.cli import _completed

    train, told = _completed()["train"], {}
    for names, flags in train.by_algorithm.items():
        for flag in [*train.flags, *flags]:
            try:  # a flag without its value is refused, in other words than one that is not known
                train_flags(algorithm(names[0]), ["FrozenLake-v1", "--steps", "10", "--out", "a", flag])
            except ValueError as error:
                told[names[0], flag] = str(error)
    assert len(told) > 100
    assert not [each for each, text in told.items() if "no flag" in text or "nrecognized" in text]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_all_words(shell, capsys):
    assert main(["completion", shell]) == 0
    told = capsys.readouterr().out
    for word in ("train", "d3-deep-q", "perstep/RedPillBluePill-v0", "reward-ratio", "optuna"):
        assert word in told


@pytest.mark.skipif(shutil.which("zsh") is None, reason="There is no zsh.")
def test_zsh_reads_its_script(capsys, tmp_path):
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "a.zsh").write_text(capsys.readouterr().out)
    script = f"autoload -U compinit && compinit -u; source {tmp_path / 'a.zsh'}; whence _perstep"
    done = subprocess.run(["zsh", "-fc", script], capture_output=True, text=True, check=True)
    assert "_perstep" in done.stdout


@pytest.mark.skipif(shutil.which("fish") is None, reason="There is no fish.")
def test_fish_completes(capsys, tmp_path):
    assert main(["completion", "fish"]) == 0
    (tmp_path / "a.fish").write_text(capsys.readouterr().out)
    words = ["fish", "-c", f"source {tmp_path / 'a.fish'}; complete -C 'perstep train d3-d'"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() == ["d3-deep-q"]


def test_a_shell_that_is_not_known(capsys):
    assert main(["completion", "powershell"]) == 2
    assert "bash" in capsys.readouterr().err
    assert main(["completion"]) == 2
    assert "takes the name of one shell" in capsys.readouterr().err
