"""The command line: one function for each command, and the settings of every algorithm as flags.

A command imports what it needs when it runs: help, error messages and the version should not wait for compilers. tyro reads
the flags of one command; as subcommands of tyro all algorithms would have to be built, with their settings, at every call.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perstep.app.command_flags import EvaluateFlags, ReportFlags, ReproduceFlags, StudyFlags, SweepFlags
from perstep.system.standard_streams import drop_output_without_reader, replace_unencodable_characters

if TYPE_CHECKING:
    from perstep.studies.study_command import StudyOptions

HELP = """usage: perstep COMMAND ...

Reinforcement learning in tasks that never end: the average reward per step and its whole distribution.

  perstep list                              list the algorithms and the worlds
  perstep train ALGORITHM WORLD --steps N --out FOLDER
                                            train an agent, and write the agent, metrics and figures to a folder
  perstep evaluate FOLDER                   evaluate a trained agent, without learning
  perstep reproduce [EXPERIMENT ...]        run the experiments of the paper
  perstep sweep STUDY                       run your own study: a grid of settings, with many runs of each
  perstep cite ALGORITHM                    what to cite for an algorithm, as BibTeX
  perstep check-world WORLD                 say whether a world is a sound continuing task, and how hard it is
  perstep card FILE                         what a saved agent is and what it earned, as Markdown
  perstep completion bash|zsh|fish          a script that lets the shell complete commands, flags and names
  perstep report FOLDER                     write the results in a folder as one page, with the claims of the paper first

  perstep COMMAND --help                    all flags of a command
  perstep --version
"""

NO_READER = 141  # exit code of a program that writes to a pipe without a reader: 128 + SIGPIPE
AUTO = "auto"

EXTRAS = {
    "torch": "deep", "ale_py": "deep", "minatar": "deep", "tensorboard": "deep", "ray": "ray", "optuna": "search",
    "wandb": "wandb",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 2 after an error, which is printed as one line on stderr.

    It is no error if the reader of the output has gone, as in `perstep list | head -1`.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    replace_unencodable_characters()
    try:
        with warnings.catch_warnings():
            if not os.environ.get("PERSTEP_DEBUG"):
                warnings.showwarning = _show_warning
            return _flushed(words)
    except KeyboardInterrupt:
        print("perstep: stopped", file=sys.stderr)
        return 130
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # rich exits like this if the reader has gone
            return NO_READER
        raise
    except Exception as error:
        if drop_output_without_reader(error):
            return NO_READER
        if os.environ.get("PERSTEP_DEBUG") or not isinstance(error, _expected()):
            raise
        print(f"perstep: {_sentence(error)}", file=sys.stderr)
        return 2


def _flushed(words: list[str]) -> int:
    try:
        code = _run(words)
    except SystemExit:  # after help
        sys.stdout.flush()
        raise
    sys.stdout.flush()  # now, because Python would print a traceback for a broken pipe at exit
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"perstep {sys.modules['perstep'].__version__}")  # already imported, because this module is part of it
        return 0
    commands: dict[str, Callable[[list[str]], int]] = {
        "list": show_list, "train": train, "evaluate": evaluate, "reproduce": reproduce, "sweep": sweep,
        "report": report, "check-world": check_world, "cite": cite,
        "completion": completion, "card": card,
    }  # fmt: skip
    if (here := os.getcwd()) not in sys.path:  # behind everything else: a world of one's own is named as my_world:Id
        sys.path.append(here)
    if words[0] not in commands:
        from perstep.inputs.errors import unknown

        raise unknown("command", words[0], commands)
    return commands[words[0]](words[1:])


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    print(f"perstep: {message}", file=sys.stderr)


def _expected() -> tuple[type[BaseException], ...]:
    import gymnasium

    ours = ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError, ArithmeticError
    return *ours, gymnasium.error.Error


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ImportError) and error.name and (extra := EXTRAS.get(error.name.partition(".")[0])):
        return f"This needs {error.name.partition('.')[0]}, which is not installed: pip install 'perstep[{extra}]'"
    return text


def show_list(words: list[str]) -> int:
    """`perstep list`."""
    if words and words[0] not in ("-h", "--help"):
        raise ValueError(f"perstep list takes no arguments, got {words[0]!r}.")
    from rich.console import Console

    from perstep.app.run_view import table
    from perstep.rules.lattice import ALGORITHMS
    from perstep.worlds.registry import WORLDS

    console = Console()
    algorithms = [(row.name, row.rule, row.learner.agent, row.source) for row in ALGORITHMS.values()]
    console.print(table(["algorithm", "rule", "agent", "source"], algorithms))
    console.print(table(["world", ""], [(name, world.description) for name, world in sorted(WORLDS.items())]))
    console.print(
        "[dim]The id of any other Gymnasium environment works too. Settings: perstep train ALGORITHM --help[/]"
    )
    return 0


def _only_word(words: list[str], command: str, takes: str, example: str) -> str | None:
    """The one word that a command takes; None after its help."""
    if words and words[0] in ("-h", "--help"):
        print(f"perstep {command} takes {takes}. {example}")
        return None
    if len(words) != 1 or words[0].startswith("-"):
        raise ValueError(f"perstep {command} takes {takes}, got {' '.join(words) or 'nothing'}. {example}")
    return words[0]


def check_world(words: list[str]) -> int:
    """`perstep check-world ID`."""
    example = "For example perstep/RiverSwim-v0. The exit code is 1 if something is wrong."
    if (name := _only_word(words, "check-world", "the id of one world", example)) is None:
        return 0
    import perstep.agent.world_check

    found = perstep.agent.world_check.check_world(name)
    print(found)
    return 1 if found else 0


def cite(words: list[str]) -> int:
    """`perstep cite ALGORITHM`."""
    if (name := _only_word(words, "cite", "the name of one algorithm", "For example d3-deep-q.")) is None:
        return 0
    from perstep.agent.citations import cite as entries
    from perstep.rules.lattice import algorithm

    print(entries(algorithm(name), sys.modules["perstep"].__version__))
    return 0


def card(words: list[str]) -> int:
    """`perstep card FILE`."""
    example = "It is the folder of a training run, or the .safetensors file of an agent."
    if (name := _only_word(words, "card", "one file", example)) is None:
        return 0
    from perstep.agent.files import load
    from perstep.app import training

    path = Path(name) / training.AGENT if Path(name).is_dir() else Path(name)
    print(load(path).card(path), end="")
    return 0


def completion(words: list[str]) -> int:
    """`perstep completion SHELL`."""
    example = 'It is bash, zsh or fish; for example in ~/.bashrc: eval "$(perstep completion bash)"'
    if (shell := _only_word(words, "completion", "the name of one shell", example)) is None:
        return 0
    from perstep.app.completion import SHELLS, script
    from perstep.inputs.checks import choice

    choice("shell", shell, SHELLS)
    print(script(shell), end="")
    return 0


def train(words: list[str]) -> int:
    """`perstep train`."""
    from perstep.app import run_view, training
    from perstep.app.training.flags import algorithm_position, evaluation_plan, train_flags
    from perstep.app.training.summary import print_run
    from perstep.rules.lattice import algorithm

    if words and words[0] == AUTO:
        words = [_chosen(words), *words[1:]]
    position = algorithm_position(words)
    if position is None:
        return _train_without_algorithm(words)
    named = words.pop(position)
    flags, spec = train_flags(algorithm(named), words)
    command = shlex.join(["perstep", "train", named, *words])
    view = run_view.run_view(f"{spec.algorithm} in {spec.world}", flags.steps, quiet=flags.quiet)
    try:
        with view:
            agent = training.train(
                spec, flags.steps, flags.out, checkpoint_every=flags.checkpoint_every, resume=flags.resume,
                evaluate=evaluation_plan(flags), tensorboard=flags.tensorboard, wandb=flags.wandb,
                video=flags.film,
                watch=lambda agent: view.show(training.run_status(agent)), say=view.say, command=command,
            )  # fmt: skip
    except training.Interrupted as interrupted:
        again = command if flags.resume else f"{command} --resume"
        print(f"perstep: {interrupted}, checkpoint saved. To continue: {again}", file=sys.stderr)
        return 128 + interrupted.signal_number
    if view.begin is None:  # the run was already finished
        print(
            f"perstep: this run is finished, with {agent.steps:,} steps. Give a larger --steps to continue it.",
            file=sys.stderr,
        )
    print_run(agent, flags.out)
    return 0


def _chosen(words: list[str]) -> str:
    """The algorithm for the world that follows the word "auto"."""
    from perstep.agent.making import choose
    from perstep.gym.opening import make

    if len(words) < 2 or words[1].startswith("-"):
        raise ValueError(
            "perstep train auto expects the id of a world next: perstep train auto Taxi-v4 --steps 1e5 --out runs/a"
        )
    name, reason = choose(make(words[1]))
    print(f"perstep: {name}: {reason}", file=sys.stderr)
    return name


def _train_without_algorithm(words: list[str]) -> int:
    from perstep.app.flag_parsing import parsed
    from perstep.app.training.flags import TrainFlags
    from perstep.rules.lattice import ALGORITHMS, algorithm

    if words and not words[0].startswith("-"):
        algorithm(words[0])  # raises an error with the most similar name
    if not {"-h", "--help"} & set(words):
        raise ValueError(f"perstep train expects an algorithm first: {', '.join(ALGORITHMS)}.")
    lines = [
        f"- {row.name}: {row.learner.agent}{f' with the rule {row.rule}' * bool(row.rule)}, {row.source}"
        for row in ALGORITHMS.values()
    ]
    about = ["Algorithms, each with its own settings (perstep train d2-q --help):", "", *lines]
    parsed(TrainFlags, "perstep train ALGORITHM", ["--help"], description="\n".join(about))
    return 0


def evaluate(words: list[str]) -> int:
    """`perstep evaluate`."""
    from rich.console import Console
    from rich.text import Text

    from perstep.agent.files import load
    from perstep.app import run_view, training
    from perstep.app.flag_parsing import parsed
    from perstep.app.training.flags import pairs
    from perstep.app.training.summary import needs_its_world
    from perstep.distributions.distribution import TAILS
    from perstep.gym.opening import Absent

    flags = parsed(EvaluateFlags, "perstep evaluate", words, also=("gif", "gif_steps"))
    path = flags.run / training.AGENT if flags.run.is_dir() else flags.run
    if flags.run.is_dir() and not path.exists():
        raise FileNotFoundError(f"{flags.run} contains no {training.AGENT}. Give the folder of a training run.")
    env = None if flags.world is None else training.make_world(flags.world, pairs(flags.world_settings))
    agent = load(path, env) if flags.budget is None else load(path, env, budget=flags.budget)
    if isinstance(absent := agent._opened.absent, Absent) and flags.run.is_dir():
        raise ValueError(needs_its_world(flags.run, absent.name))
    if flags.video is not None:
        from perstep.app.training.video import record_video  # imports Pillow, which other evaluations do not need

        record_video(agent, flags.video, flags.video_steps, deterministic=flags.deterministic, seed=flags.seed)
    earned = agent.evaluate(flags.steps, flags.deterministic, flags.seed)
    tails = {*TAILS, agent.config.risk_level} - {1.0}
    numbers = run_view.evaluation_numbers(
        earned.average_reward, earned.reward_distribution, earned.episode_returns, sorted(tails, reverse=True)
    )
    if said := earned._said_of_learning:
        numbers["sentences"] = [*numbers.get("sentences", []), f"{said.capitalize()}."]
    if flags.json:
        about = {"agent": type(agent).__name__, "rule": agent.config.rule, "steps_learnt": agent.steps}
        print(json.dumps({**about, "steps": flags.steps, "deterministic": flags.deterministic, **numbers}, indent=2))
    else:
        console = Console()
        console.print(run_view.evaluation_table(flags.steps, numbers))
        if flags.video is not None:
            console.print(Text(str(flags.video), style="dim"), soft_wrap=True)
    return 0


def reproduce(words: list[str]) -> int:
    """`perstep reproduce`."""
    from perstep.app.flag_parsing import parsed

    flags = parsed(ReproduceFlags, "perstep reproduce", words)
    from perstep.paper.reproduction import (
        reproduce as reproduce_parts,  # after the flags: help and errors do not wait for it
    )

    options = replace(_study_options(flags, ["reproduce", *words]), tuned_only=flags.tuned_only)
    return reproduce_parts(list(flags.parts), flags.scale, flags.out, options)


def sweep(words: list[str]) -> int:
    """`perstep sweep`."""
    from perstep.app.flag_parsing import parsed

    flags = parsed(SweepFlags, "perstep sweep", words)
    from perstep.studies.sweep import sweep as sweep_study

    options = _study_options(flags, ["sweep", *words])
    return sweep_study(flags.study, flags.out, options, _trials(flags))


def _trials(flags: SweepFlags) -> int | None:
    """How many configurations to run; None without a search."""
    if flags.search is None:
        if flags.trials is not None:
            raise ValueError("--trials is the length of a search. Give --search optuna as well.")
        return None
    if flags.shard is not None:
        raise ValueError("A search chooses from what it has seen, so it cannot be split. Give --search or --shard.")
    import optuna  # noqa: F401 (before anything runs: it may not be installed)

    from perstep.inputs.checks import count
    from perstep.studies.search import TRIALS

    return count("--trials", TRIALS if flags.trials is None else flags.trials, 1)


def report(words: list[str]) -> int:
    """`perstep report`."""
    from perstep.app.flag_parsing import parsed

    flags = parsed(ReportFlags, "perstep report", words)
    from perstep.paper.report import report as write_report

    print(write_report(flags.results, flags.out))
    return 0


def _study_options(flags: StudyFlags, words: list[str]) -> StudyOptions:
    from perstep.inputs.checks import number
    from perstep.studies.engines import engine_named
    from perstep.studies.execution import WHOLE, Shard
    from perstep.studies.study_command import StudyOptions

    return StudyOptions(
        engine=engine_named(flags.engine, flags.ray_address),
        shard=WHOLE if flags.shard is None else Shard.of(flags.shard),
        retry_failed=flags.retry_failed,
        run_timeout=None if flags.run_timeout is None else number("--run-timeout", flags.run_timeout, 0.0, above=True),
        command=shlex.join(["perstep", *words]),
    )


if __name__ == "__main__":
    sys.exit(main())
