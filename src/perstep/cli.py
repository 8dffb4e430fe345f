"""The command line: one function for each command, and the settings of every algorithm as flags."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from perstep.system.standard_streams import drop_output_without_reader, replace_unencodable_characters

# A command imports what it needs when it runs: help, error messages and the version should not wait for compilers.
if TYPE_CHECKING:
    from perstep.agents import Agent
    from perstep.completion import Command
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

FORECAST_STEPS = 1_000  # of the forecast at the end of a training run
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
        from perstep.errors import unknown

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

    from perstep.algorithms import ALGORITHMS
    from perstep.registration import WORLDS
    from perstep.run_view import table

    rows = [(row.name, row.rule, row.learner.agent, row.source) for row in ALGORITHMS.values()]
    console = Console()
    console.print(table(["algorithm", "rule", "agent", "source"], rows))
    console.print(table(["world", ""], [(name, world.description) for name, world in sorted(WORLDS.items())]))
    console.print(
        "[dim]The id of any other Gymnasium environment works too. Settings: perstep train ALGORITHM --help\n"
        "On tiles the default bootstrap is that of Sarsa, also for …-tile-q; --bootstrap greedy is Q-learning.[/]"
    )
    return 0


def check_world(words: list[str]) -> int:
    """`perstep check-world ID`."""
    usage = "perstep check-world WORLD, for example perstep/RiverSwim-v0; the exit code is 1 if something is wrong"
    if words and words[0] in ("-h", "--help"):
        print(usage)
        return 0
    if len(words) != 1:
        raise ValueError(f"perstep check-world takes the id of one world, got {len(words)}: {usage}.")
    import perstep.world_check

    found = perstep.world_check.check_world(words[0])
    print(found)
    return 1 if found else 0


def cite(words: list[str]) -> int:
    """`perstep cite`."""
    from perstep.algorithms import algorithm
    from perstep.citations import cite as entries

    if len(words) != 1 or words[0].startswith("-"):
        raise ValueError(f"perstep cite takes the name of one algorithm, such as d3-deep-q, got {len(words)} words.")
    print(entries(algorithm(words[0]), sys.modules["perstep"].__version__))
    return 0


def train(words: list[str]) -> int:
    """`perstep train`."""
    from perstep import run_view, training
    from perstep.algorithms import algorithm
    from perstep.training.flags import algorithm_position, evaluation_plan, train_flags

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
    _show_run(agent, flags.out)
    return 0


def _chosen(words: list[str]) -> str:
    """The algorithm for the world that follows the word "auto"."""
    from perstep.agents.lattice import choose
    from perstep.agents.worlds import make

    if len(words) < 2 or words[1].startswith("-"):
        raise ValueError(
            "perstep train auto expects the id of a world next: perstep train auto Taxi-v4 --steps 1e5 --out runs/a"
        )
    name, reason = choose(make(words[1]))
    print(f"perstep: {name}: {reason}", file=sys.stderr)
    return name


def _train_without_algorithm(words: list[str]) -> int:
    from perstep.algorithms import ALGORITHMS, algorithm
    from perstep.training.flags import TrainFlags, parsed

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


def _show_run(agent: Agent, folder: Path) -> None:
    """Print the learnt numbers beside the exact ones, and the paths of the files."""
    from rich.console import Console
    from rich.text import Text

    from perstep import run_view, training

    console = Console()
    exact = training.read_record(folder).get("exact") or {}
    console.print(run_view.learnt_table(training.run_status(agent), exact))
    if agent.config.risk_level < 1.0:
        console.print(
            f"the worst {100 * agent.config.risk_level:g} % of the steps earn {agent.objective:.6g} on average"
        )
    if agent.config.forecast:
        with contextlib.suppress(ValueError):  # rewards whose squares are infinite
            console.print(str(agent.forecast(FORECAST_STEPS)), highlight=False)
    for name in training.FILES:
        if (folder / name).exists() and training.is_current(folder, name):
            console.print(Text(str(folder / name), style="dim"), soft_wrap=True)
    if training.is_current(folder, training.EVENTS):
        console.print(Text(f"tensorboard --logdir {folder}", style="dim"), soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags:
    """Evaluate a trained agent: it acts without learning."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a training run, or the .safetensors file of an agent."""
    steps: int = 10_000
    """Number of steps of the evaluation."""
    deterministic: bool = False
    """Act without exploration."""
    seed: int | None = None
    """Seed of the evaluation; by default the seed of the agent."""
    json: bool = False
    """Print the result as JSON."""
    budget: float | None = None
    """How many bytes of memory the agent and its world may take beyond the size of the file; by default 1e9."""
    world: str | None = None
    """Id of the Gymnasium environment, if the agent's file does not name its world."""
    world_settings: tuple[str, ...] = ()
    """Settings of that world, for example order=accept-first."""
    video: Annotated[Path | None, arg(aliases=("--gif",))] = None
    """File for a video of the evaluation from its first step, .gif or .mp4. The world must be able to draw itself."""
    video_steps: Annotated[int, arg(aliases=("--gif-steps",))] = 200
    """Number of steps in the video; may be larger than --steps."""


def evaluate(words: list[str]) -> int:
    """`perstep evaluate`."""
    from rich.console import Console
    from rich.text import Text

    from perstep import run_view, training
    from perstep.agents import load
    from perstep.agents.worlds import Absent
    from perstep.training.flags import pairs, parsed

    flags = parsed(EvaluateFlags, "perstep evaluate", words, also=("gif", "gif_steps"))
    path = flags.run / training.AGENT if flags.run.is_dir() else flags.run
    if flags.run.is_dir() and not path.exists():
        raise FileNotFoundError(f"{flags.run} contains no {training.AGENT}. Give the folder of a training run.")
    env = None if flags.world is None else training.make_world(flags.world, pairs(flags.world_settings))
    agent = load(path, env) if flags.budget is None else load(path, env, budget=flags.budget)
    if isinstance(absent := agent._opened.absent, Absent) and flags.run.is_dir():
        raise ValueError(_with_its_world(flags.run, absent.name))
    if flags.video is not None:
        from perstep.training.video import record_video  # imports Pillow, which other evaluations do not need

        record_video(agent, flags.video, flags.video_steps, deterministic=flags.deterministic, seed=flags.seed)
    earned = agent.evaluate(flags.steps, flags.deterministic, flags.seed)
    tails = {*run_view.TAILS, agent.config.risk_level} - {1.0}
    numbers = run_view.evaluation_numbers(
        earned.average_reward, earned.reward_distribution, earned.episode_returns, sorted(tails)
    )
    if flags.json:
        about = {"agent": type(agent).__name__, "rule": agent.config.rule, "steps_learnt": agent.steps}
        print(json.dumps({**about, "steps": flags.steps, "deterministic": flags.deterministic, **numbers}, indent=2))
    else:
        console = Console()
        console.print(run_view.evaluation_table(flags.steps, numbers))
        if flags.video is not None:
            console.print(Text(str(flags.video), style="dim"), soft_wrap=True)
    return 0


def _with_its_world(folder: Path, name: str) -> str:
    """What to say of a run in a world whose module nothing has imported: a file alone never makes us import one."""
    from perstep import training

    spec = training.read_record(folder)
    settings = [f"{key}={json.dumps(value)}" for key, value in (spec.get("world_settings") or {}).items()]
    more = ["--world-settings", *settings] if settings else []
    command = shlex.join(["perstep", "evaluate", str(folder), "--world", str(spec.get("world", name)), *more])
    return f"This run is in a world of your own, {spec.get('world', name)}, which a file alone cannot bring. Use: {command}"


@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """How the runs of a study are executed."""

    out: Path = Path("results")
    """Folder for the results. Runs whose results are there are not repeated."""
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster."""
    ray_address: str | None = None
    """Address of the Ray cluster; without it, Ray is started on this machine."""
    shard: str | None = None
    """i/n: run only the configurations whose index modulo n is i, for example in an array of jobs."""
    retry_failed: bool = False
    """Repeat the runs that failed."""
    run_timeout: float | None = None
    """Seconds after which a run is stopped and recorded as failed, because its world may hang; no limit by default."""


@dataclass(frozen=True, kw_only=True)
class ReproduceFlags(StudyFlags):
    """Run the experiments of the paper, and make their figures and tables."""

    parts: Annotated[Positional[tuple[str, ...]], arg(metavar="[PART ...]")] = ()
    """Experiments: redpill, pendulum, theory (these three by default), minatar, minatar-tuning, atari,
    atari-figure-4, atari-short, defaults, continuing, continuing-tuned."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """smoke: a quick test that everything runs; small: takes minutes; paper: the settings of the paper."""
    tuned_only: bool = False
    """Run only the settings that the paper's figures show, not the whole grids."""


def reproduce(words: list[str]) -> int:
    """`perstep reproduce`."""
    from perstep.training.flags import parsed

    flags = parsed(ReproduceFlags, "perstep reproduce", words)
    from perstep.reproduction import reproduce as reproduce_parts  # after the flags: help and errors do not wait for it

    options = replace(_study_options(flags, ["reproduce", *words]), tuned_only=flags.tuned_only)
    return reproduce_parts(list(flags.parts), flags.scale, flags.out, options)


@dataclass(frozen=True, kw_only=True)
class SweepFlags(StudyFlags):
    """Run your own study: an algorithm in a world over a grid of settings, with many runs of each."""

    study: Annotated[Positional[Path], arg(metavar="STUDY")]
    """A .yaml or .json file, or a .py file that defines STUDY."""
    search: Literal["optuna"] | None = None
    """Let Optuna choose which configurations to run, instead of running all of them. All that ran before counts."""
    trials: int | None = None
    """With --search: how many configurations to try; by default 30. To go on later, give more."""


def sweep(words: list[str]) -> int:
    """`perstep sweep`."""
    from perstep.training.flags import parsed

    flags = parsed(SweepFlags, "perstep sweep", words)
    from perstep.studies.sweep import sweep as sweep_study

    options = _study_options(flags, ["sweep", *words])
    return sweep_study(flags.study, flags.out, options, _trials(flags))


def _trials(flags: SweepFlags) -> int | None:
    """How many configurations to try; None without a search."""
    if flags.search is None:
        if flags.trials is not None:
            raise ValueError("--trials is the length of a search. Give --search optuna as well.")
        return None
    if flags.shard is not None:
        raise ValueError("A search chooses from what it has seen, so it cannot be split. Give --search or --shard.")
    import optuna  # noqa: F401 (before anything runs: it may not be installed)

    from perstep.config import count
    from perstep.studies.search import TRIALS

    return count("--trials", TRIALS if flags.trials is None else flags.trials, 1)


def card(words: list[str]) -> int:
    """`perstep card`."""
    from perstep import training
    from perstep.agents import load

    usage = "perstep card RUN, with the folder of a training run or the .safetensors file of an agent"
    if words and words[0] in ("-h", "--help"):
        print(usage)
        return 0
    if len(words) != 1:
        raise ValueError(f"perstep card takes one file, got {len(words)}: {usage}.")
    path = Path(words[0]) / training.AGENT if Path(words[0]).is_dir() else Path(words[0])
    print(load(path).card(path), end="")
    return 0


def completion(words: list[str]) -> int:
    """`perstep completion`."""
    from perstep.completion import SHELLS, script
    from perstep.config import choice

    usage = 'perstep completion bash, zsh or fish; for example in ~/.bashrc: eval "$(perstep completion bash)"'
    if words and words[0] in ("-h", "--help"):
        print(usage)
        return 0
    if len(words) != 1:
        raise ValueError(f"perstep completion takes the name of one shell, got {len(words)} words: {usage}.")
    choice("shell", words[0], SHELLS)
    print(script(words[0], _completed()), end="")
    return 0


def _completed() -> dict[str, Command]:
    """What may follow every command."""
    import gymnasium

    from perstep.algorithms import ALGORITHMS
    from perstep.completion import SHELLS, Command, flags_of
    from perstep.paper import PARTS
    from perstep.presets import PRESETS
    from perstep.training.flags import PredictionFlags, TrainFlags

    worlds = tuple(sorted(gymnasium.registry))
    by_config: dict[Any, list[str]] = {}
    for row in ALGORITHMS.values():
        by_config.setdefault((row.config, row.learner.control), []).append(row.name)
    settings = {}
    for (config, control), names in by_config.items():
        own = {**flags_of(config, config.preset_settings({})), "--preset": tuple(PRESETS)}
        own.pop("--rule", None)  # the algorithm gives it
        settings[tuple(names)] = own if control else {**flags_of(PredictionFlags), **own}
    algorithms = tuple(ALGORITHMS)
    return {
        "list": Command(),
        "train": Command(algorithms, flags_of(TrainFlags), settings, worlds),
        "evaluate": Command(flags=flags_of(EvaluateFlags)),
        "reproduce": Command(tuple(PARTS), flags_of(ReproduceFlags)),
        "sweep": Command(flags=flags_of(SweepFlags)),
        "cite": Command(algorithms),
        "check-world": Command(worlds),
        "report": Command(flags=flags_of(ReportFlags)),
        "completion": Command(SHELLS),
        "card": Command(),
    }


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Write the results as one self-contained page: the claims of the paper and their verdicts, figures, timing."""

    results: Annotated[Positional[Path], arg(metavar="RESULTS")]
    """Folder with the results of `perstep reproduce`."""
    out: Path | None = None
    """File for the page; by default report.html in that folder."""


def report(words: list[str]) -> int:
    """`perstep report`."""
    from perstep.training.flags import parsed

    flags = parsed(ReportFlags, "perstep report", words)
    from perstep.report import report as write_report

    print(write_report(flags.results, flags.out))
    return 0


def _study_options(flags: StudyFlags, words: list[str]) -> StudyOptions:
    from perstep.config import number
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
