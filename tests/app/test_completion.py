"""Completion, asked of the shells themselves."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import subprocess

import pytest

from perstep.app.cli import main
from perstep.app.training.flags import train_flags

LINES = [
    ("perstep tr", ["train"]),
    ("perstep c", ["card", "check-world", "cite", "completion"]),
    ("perstep --ver", ["--version"]),
    ("perstep train d3-d", ["d3-deep-q"]),
    ("perstep train d2-q perstep/RedP", ["perstep/RedPillBluePill-v0"]),
    ("perstep train d2-q FrozenLake-", ["FrozenLake-v1"]),
    ("perstep train d2-q FrozenLake-v1 --checkpoint", ["--checkpoint-every"]),
    ("perstep train d2-q FrozenLake-v1 --out a --tiling", []),
    ("perstep train d2-tile-q CartPole-v1 --out a --tiling", ["--tilings"]),
    ("perstep train d2-q FrozenLake-v1 --preset p", ["paper"]),
    ("perstep train d2-td FrozenLake-v1 --poli", ["--policy"]),
    ("perstep train d2-q FrozenLake-v1 --termination ", ["continue", "mask", "stop"]),
    ("perstep train d2-q FrozenLake-v1 --out ", ["runs"]),
    ("perstep train d2-q FrozenLake-v1 --steps ", ["runs"]),  # not the worlds
    ("perstep train d2-q FrozenLake-v1 --resume perstep/RedP", ["perstep/RedPillBluePill-v0"]),  # a switch
    ("perstep sweep --search ", ["optuna"]),
    ("perstep sweep a.yaml --tri", ["--trials"]),
    ("perstep reproduce redp", ["redpill"]),
    ("perstep reproduce redpill --scale sm", ["small", "smoke"]),
    ("perstep cite d2-ac", ["d2-actor-critic"]),
    ("perstep check-world perstep/River", ["perstep/RiverSwim-v0"]),
    ("perstep completion ", ["bash", "fish", "zsh"]),
    ("perstep evaluate ru", ["runs"]),
    ("perstep evaluate runs/a --det", ["--deterministic"]),
]

# Ctrl-T puts all answers into the line instead of listing them.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], """bind '"\\C-t": insert-completions'"""),
    "zsh": (
        ["zsh", "-f", "-i"],
        "zle -C every complete-word _generic; bindkey '^T' every; "
        "zstyle ':completion:every:*' completer _all_matches _complete; zstyle ':completion:every:*' insert yes",
    ),
}


def written(shell, folder):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(["completion", shell]) == 0
    path = folder / f"perstep.{shell}"
    path.write_text(said.getvalue())
    return path


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def answers(request, tmp_path_factory):
    """What a shell answers to the beginning of a line, asked as a person does: at a terminal, by a key."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"There is no {shell}.")
    home = tmp_path_factory.mktemp(shell)
    (home / "here" / "runs").mkdir(parents=True)
    script = written(shell, home)
    lines = [line for line, _ in LINES]
    return by_fish(script, lines, home) if shell == "fish" else at_a_terminal(shell, script, lines, home)


def by_fish(script, lines, home):
    found = {}
    for line in lines:
        words = ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"]
        told = subprocess.run(words, capture_output=True, text=True, check=True, cwd=home / "here").stdout
        found[line] = [answer.split("\t")[0] for answer in told.splitlines()]
    return found


def at_a_terminal(shell, script, lines, home):
    pty = pytest.importorskip("pty", reason="This system has no terminals of its own making.")
    start, key = SHELLS[shell]
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "dumb", "PS1": "", "HOME": str(home), "INPUTRC": os.devnull}
    process = subprocess.Popen(
        start, stdin=theirs, stdout=theirs, stderr=theirs, cwd=home / "here", env=settings, start_new_session=True
    )
    os.close(theirs)

    def say(keys, answer):
        os.write(ours, keys.encode())
        said = ""
        while answer not in said:
            assert select.select([ours], [], [], 60)[0], f"{shell} is silent after {said!r}"
            said += os.read(ours, 65536).decode(errors="replace")
        return said

    try:
        say(f"stty columns 2000; PS1=; source {script}; {key}; echo be''gin\n", "begin\r\n")
        found = {}
        for line in lines:  # Ctrl-A: to the start of the line, Ctrl-E: to its end
            said = say(f"{line}\x14\x01echo 'FRO''M' \x05 ''TO\n", " TO\r\n")
            words = said[said.rindex("FROM ") + 5 : said.rindex(" TO\r\n")].split()
            before = line.split()[: -1 if line[-1] != " " else None]
            assert words[: len(before)] == before
            found[line] = words[len(before) :]
        return found
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize(("line", "words"), LINES)
def test_a_shell_completes(answers, line, words):
    unanswered = [] if line.endswith(" ") else [line.split(" ")[-1]]  # what was typed stays
    assert sorted(answer.rstrip("/") for answer in answers[line]) in ([words] if words else [[], unanswered])


def test_every_flag_that_is_offered_is_known():
    from perstep.app.completion import commands
    from perstep.rules.lattice import algorithm

    train, told = commands()["train"], {}
    for number, (names, flags) in enumerate(train.by_algorithm.items()):
        for flag in flags if number else [*train.flags, *flags]:
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


def test_a_shell_that_is_not_known(capsys):
    assert main(["completion", "powershell"]) == 2
    assert "bash" in capsys.readouterr().err
    assert main(["completion"]) == 2
    assert "takes the name of one shell" in capsys.readouterr().err
