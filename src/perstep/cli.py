"""The command line: a word for what to do, and the settings of every algorithm as flags."""

from __future__ import annotations

import json
import os
import select
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

# What a command needs is imported when it runs: help, mistakes and the version should not wait for compilers.
if TYPE_CHECKING:
    from perstep.agents import Agent
    from perstep.studies.terminal import StudyOptions

HELP = """usage: perstep COMMAND ...

Reinforcement learning in tasks that never end: the average reward per step and its whole distribution.

  perstep list                              the algorithms and the worlds
  perstep train ALGORITHM WORLD --steps N --out FOLDER
                                            learn, and leave the agent, metrics and figures in a folder
  perstep evaluate FOLDER                   let a trained agent behave without learning
  perstep reproduce [EXPERIMENT ...]        the experiments of the paper
  perstep sweep STUDY                       an experiment of your own: a grid of settings, many runs of each
  perstep report FOLDER                     the results in a folder as one page, claims first

  perstep COMMAND --help                    everything that a command can be told
  perstep --version
"""

GONE = 141  # exit code of what writes into a pipe that nobody reads: 128 + SIGPIPE
EXTRAS = {"torch": "deep", "ale_py": "deep", "minatar": "deep", "tensorboard": "deep", "ray": "ray"}
WORLDS = {
    "perstep/RedPillBluePill-v0": "two worlds to live in, one calm, one better on average but split (the paper's first)",
    "perstep/TwoLoop-v0": "nine states in two loops, the longer wait for the larger reward",
    "perstep/AccessControl-v0": "customers of four priorities, ten servers: whom to turn away",
    "perstep/InvertedPendulum-v0": "hold a rod upright, for ever (the paper's second)",
    "perstep/PendulumSwingUp-v0": "the same with a motor too weak to lift it at once",
    "perstep/Atari-v0": "a game of the Arcade Learning Environment; also by its id, as ALE/Breakout-v5 (the paper's third)",
    "perstep/MinAtar-Asterix-v0": "collect and avoid; MinAtar's games are Atari in miniature, ten by ten cells",
    "perstep/MinAtar-Breakout-v0": "break bricks with a ball",
    "perstep/MinAtar-Freeway-v0": "cross the road",
    "perstep/MinAtar-Seaquest-v0": "save divers, and breathe",
    "perstep/MinAtar-SpaceInvaders-v0": "shoot them before they land",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; what goes wrong is one line on stderr, and exit code 2. A reader that has gone, as `head`, is no mistake."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with warnings.catch_warnings():
            if not os.environ.get("PERSTEP_DEBUG"):
                warnings.showwarning = _show_warning
            return _flushed(words)
    except KeyboardInterrupt:
        print("perstep: stopped", file=sys.stderr)
        return 130
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # rich leaves like this
            return GONE
        raise
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            return GONE
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
    sys.stdout.flush()  # or Python would meet a broken pipe when it ends, and complain
    return code


def _reader_has_gone() -> bool:
    """Whether nobody reads what is printed, which is then dropped; other pipes may break too, as those to workers."""
    gone = False
    for stream in (sys.stdout, sys.stderr):
        try:
            poll = select.poll()
            poll.register(stream.fileno(), 0)
        except OSError:  # no file, as where tests look at what is printed
            continue
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            gone = True
    return gone


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"perstep {sys.modules['perstep'].__version__}")  # loaded, since this is a module of it
        return 0
    commands: dict[str, Callable[[list[str]], int]] = {
        "list": show_list, "train": train, "evaluate": evaluate, "reproduce": reproduce, "sweep": sweep,
        "report": report,
    }  # fmt: skip
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
        raise ValueError(f"perstep list takes nothing more, but {words[0]!r} came.")
    import gymnasium
    from rich.console import Console

    import perstep.environments
    from perstep.algorithms import ALGORITHMS
    from perstep.live import table

    perstep.environments.register()
    names = sorted(name for name in gymnasium.registry if name.startswith("perstep/"))
    cells = [(cell.name, cell.rule, cell.learner.agent, cell.source) for cell in ALGORITHMS.values()]
    console = Console()
    console.print(table(["algorithm", "rule", "agent", "written in"], cells))
    console.print(table(["world", ""], [(name, WORLDS.get(name, "")) for name in names]))
    console.print(
        "[dim]Any other Gymnasium environment is a world too, by its id. Settings: perstep train ALGORITHM --help[/]"
    )
    return 0


def train(words: list[str]) -> int:
    """`perstep train`."""
    from perstep import live, training
    from perstep.algorithms import ALGORITHMS, algorithm
    from perstep.training.flags import evaluation_plan, train_task

    named = next((word for word in words if word in ALGORITHMS), None)
    if named is None:
        return _train_without_algorithm(words)
    words.remove(named)
    flags, task = train_task(algorithm(named), words)
    command = shlex.join(["perstep", "train", named, *words])
    view = live.viewer(f"{task.algorithm} in {task.world}", flags.steps, quiet=flags.quiet)
    try:
        with view:
            agent = training.train(
                task, flags.steps, flags.out, checkpoint_every=flags.checkpoint_every, resume=flags.resume,
                evaluate=evaluation_plan(flags), tensorboard=flags.tensorboard, film=flags.film,
                watch=lambda agent: view.show(training.moment(agent)), say=view.say, command=command,
            )  # fmt: skip
    except training.Interrupted as interrupted:
        again = command if flags.resume else f"{command} --resume"
        print(f"perstep: {interrupted}, all saved. To go on: {again}", file=sys.stderr)
        return 128 + interrupted.signal_number
    if view.begin is None:  # nothing was left to learn
        print(
            f"perstep: this run is finished, with {agent.steps:,} steps. Give a larger --steps to go on.",
            file=sys.stderr,
        )
    _show_run(agent, flags.out)
    return 0


def _train_without_algorithm(words: list[str]) -> int:
    from perstep.algorithms import ALGORITHMS, algorithm
    from perstep.training.flags import TrainFlags, parsed

    if words and not words[0].startswith("-"):
        algorithm(words[0])  # raises, with the nearest name
    if not {"-h", "--help"} & set(words):
        raise ValueError(f"perstep train begins with an algorithm: {', '.join(ALGORITHMS)}.")
    lines = [
        f"- {cell.name}: {cell.learner.agent} with the rule {cell.rule}, {cell.source}" for cell in ALGORITHMS.values()
    ]
    about = ["Algorithms, each with settings of its own (perstep train d2-q --help):", "", *lines]
    parsed(TrainFlags, "perstep train ALGORITHM", ["--help"], description="\n".join(about))
    return 0


def _show_run(agent: Agent, folder: Path) -> None:
    """The numbers at the end, learnt beside exact, and where the files are."""
    from rich.console import Console

    from perstep import live, training

    console = Console()
    exact = training.read_record(folder).get("exact") or {}
    console.print(live.learnt_table(training.moment(agent), exact))
    for name in training.FILES:
        if (folder / name).exists() and training.is_current(folder, name):
            console.print(f"[dim]{folder / name}[/]", soft_wrap=True, highlight=False)
    if training.is_current(folder, training.EVENTS):
        console.print(f"[dim]tensorboard --logdir {folder}[/]", soft_wrap=True, highlight=False)


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags:
    """Let a trained agent behave without learning, and say what it earns."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a training run, or the .safetensors file of an agent."""
    steps: int = 10_000
    """How long it behaves."""
    deterministic: bool = False
    """No exploration."""
    seed: int | None = None
    """Of the evaluation; that of the agent unless given."""
    json: bool = False
    """Print JSON."""
    world: str | None = None
    """The agent's world, where the file alone cannot give it: the id of a Gymnasium environment."""
    world_settings: tuple[str, ...] = ()
    """Settings of that world, as order=accept-first."""
    video: Annotated[Path | None, arg(aliases=("--gif",))] = None
    """File for a film, .gif or .mp4, where the world can draw itself: the evaluation from its first step."""
    video_steps: Annotated[int, arg(aliases=("--gif-steps",))] = 200
    """How many steps the film shows; where these are more than --steps, it goes on beyond what is measured."""


def evaluate(words: list[str]) -> int:
    """`perstep evaluate`."""
    from rich.console import Console

    from perstep import live, training
    from perstep.agents import load
    from perstep.training.flags import pairs, parsed

    flags = parsed(EvaluateFlags, "perstep evaluate", words, also=("gif", "gif_steps"))
    path = flags.run / training.AGENT if flags.run.is_dir() else flags.run
    if flags.run.is_dir() and not path.exists():
        raise FileNotFoundError(f"{flags.run} holds no {training.AGENT}. Give the folder of a training run.")
    env = None if flags.world is None else training.open_world(flags.world, pairs(flags.world_settings))
    agent = load(path, env)
    if flags.video is not None:
        from perstep.training.film import film  # a library for pictures, which other evaluations need not wait for

        film(agent, flags.video, flags.video_steps, deterministic=flags.deterministic, seed=flags.seed)
    earned = agent.evaluate(flags.steps, flags.deterministic, flags.seed)
    numbers = live.evaluation_numbers(earned.average_reward, earned.reward_distribution, earned.episode_returns)
    if flags.json:
        about = {"agent": type(agent).__name__, "rule": agent.config.rule, "steps_learnt": agent.steps}
        print(json.dumps({**about, "steps": flags.steps, "deterministic": flags.deterministic, **numbers}, indent=2))
    else:
        console = Console()
        console.print(live.evaluation_table(flags.steps, numbers))
        if flags.video is not None:
            console.print(f"[dim]{flags.video}[/]", soft_wrap=True, highlight=False)
    return 0


@dataclass(frozen=True, kw_only=True)
class ReproduceFlags:
    """The experiments of the paper, with their figures and tables."""

    parts: Annotated[Positional[tuple[str, ...]], arg(metavar="[PART ...]")] = ()
    """Which of them: redpill, pendulum, theory (these three unless given), minatar, minatar-tuning, atari, atari-short."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """smoke: does it run; small: minutes; paper: as published."""
    out: Path = Path("results")
    """Folder for the results; runs that are there are not made again."""
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster."""
    ray_address: str | None = None
    """Address of the cluster; without one, Ray is started on this machine."""
    shard: str | None = None
    """i/n: only the configurations whose number leaves i when divided by n, as for an array of jobs."""
    retry_failed: bool = False
    """Make those again that failed."""
    tuned_only: bool = False
    """Only the settings that the paper's figures show, not all of their grids."""


def reproduce(words: list[str]) -> int:
    """`perstep reproduce`."""
    from perstep.training.flags import parsed

    flags = parsed(ReproduceFlags, "perstep reproduce", words)
    from perstep.reproduction import reproduce as reproduce_parts  # after help and mistakes, which need not wait

    options = replace(_study_options(flags, ["reproduce", *words]), tuned_only=flags.tuned_only)
    return reproduce_parts(list(flags.parts), flags.scale, flags.out, options)


@dataclass(frozen=True, kw_only=True)
class SweepFlags:
    """A study of your own: an algorithm in a world over a grid of settings, many runs of each."""

    study: Annotated[Positional[Path], arg(metavar="STUDY")]
    """A .yaml or .json file, or a .py file that defines STUDY."""
    out: Path = Path("results")
    """Folder for the results; runs that are there are not made again."""
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster."""
    ray_address: str | None = None
    """Address of the cluster; without one, Ray is started on this machine."""
    shard: str | None = None
    """i/n: only the configurations whose number leaves i when divided by n, as for an array of jobs."""
    retry_failed: bool = False
    """Make those again that failed."""


def sweep(words: list[str]) -> int:
    """`perstep sweep`."""
    from perstep.training.flags import parsed

    flags = parsed(SweepFlags, "perstep sweep", words)
    from perstep.studies.sweep import sweep as sweep_study

    return sweep_study(flags.study, flags.out, _study_options(flags, ["sweep", *words]))


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Results as one page that needs no network: the claims of the paper and their verdicts, figures, timing."""

    results: Annotated[Positional[Path], arg(metavar="RESULTS")]
    """Folder that `perstep reproduce` wrote into."""
    out: Path | None = None
    """The page; report.html in that folder unless given."""


def report(words: list[str]) -> int:
    """`perstep report`."""
    from perstep.training.flags import parsed

    flags = parsed(ReportFlags, "perstep report", words)
    from perstep.report import report as write_report

    print(write_report(flags.results, flags.out))
    return 0


def _study_options(flags: ReproduceFlags | SweepFlags, words: list[str]) -> StudyOptions:
    from perstep.studies.engines import engine_named
    from perstep.studies.execution import WHOLE, Shard
    from perstep.studies.terminal import StudyOptions

    return StudyOptions(
        engine=engine_named(flags.engine, flags.ray_address),
        shard=WHOLE if flags.shard is None else Shard.of(flags.shard),
        retry_failed=flags.retry_failed,
        command=shlex.join(["perstep", *words]),
    )


if __name__ == "__main__":
    sys.exit(main())
