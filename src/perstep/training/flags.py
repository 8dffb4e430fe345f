"""Flags: those of every training run, and one for each setting of the algorithm that is named."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, Suppress, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from perstep.algorithms import Algorithm
from perstep.schedules import Decay
from perstep.training.evaluation import BUDGET, Plan
from perstep.training.task import Task

Flags = TypeVar("Flags")


@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """What every training run can be told."""

    world: Annotated[Positional[str], arg(metavar="WORLD")]
    """Id of a Gymnasium environment, as perstep/RedPillBluePill-v0."""
    steps: int
    """How long the agent's life is, in steps; with --resume, steps already made count."""
    out: Path
    """Folder for the agent, its metrics and figures."""
    resume: bool = False
    """Go on with the run in the folder, where there is one."""
    checkpoint_every: int | None = None
    """Steps between two checkpoints; about a twentieth of the run unless given. Does not change what is learnt."""
    evaluate_every: int | None = None
    """Steps between two evaluations on the way, in a world of their own. Does not change what is learnt."""
    evaluate_steps: int | None = None
    """How long an evaluation is; 10000 steps unless given."""
    evaluate_deterministic: bool = False
    """No exploration in evaluations."""
    tensorboard: bool = False
    """Leave events for TensorBoard in the folder."""
    film: bool = False
    """Leave film.gif, the agent at the end in its world, in the folder."""
    world_settings: tuple[str, ...] = ()
    """Settings of the world, as order=accept-first num_servers=5."""
    quiet: bool = False
    """Show nothing while it learns."""


@dataclass(frozen=True, kw_only=True)
class PredictionFlags(TrainFlags):
    """What a training run of a prediction algorithm can be told."""

    policy: str = "uniform"
    """The policy to predict: uniform, or a .json or .npy file of actions (S,) or probabilities (S, A)."""


def train_task(cell: Algorithm, words: list[str]) -> tuple[Any, Task]:
    """The flags of one algorithm: those of every run, and a flag for each of its settings."""
    # Checked by the config itself, whose sentences are better: here only read. The rule comes with the name.
    settings: Any = dataclasses.make_dataclass(
        f"{cell.learner.agent} settings",
        [("rule", Suppress[str], dataclasses.field(default=cell.rule))],
        bases=(cell.config,), frozen=True, kw_only=True, namespace={"__post_init__": lambda self: None},
    )  # fmt: skip
    common = PredictionFlags if not cell.learner.control else TrainFlags
    kind = dataclasses.make_dataclass(
        "Flags",
        [("settings", Annotated[settings, OmitArgPrefixes], dataclasses.field(default_factory=partial(settings, **cell.settings)))],
        bases=(common,), frozen=True, kw_only=True,
    )  # fmt: skip
    kind.__doc__ = f"{cell.name}: the rule {cell.rule} with {cell.learner.agent} ({cell.source})."
    names = [field.name for field in dataclasses.fields(cell.config) if field.name != "rule"]
    flags: Any = parsed(kind, f"perstep train {cell.name}", words, also=names)
    config = cell.config.of({name: getattr(flags.settings, name) for name in (*names, "rule")})
    return flags, Task(
        algorithm=cell.name, world=flags.world, config=config, world_settings=pairs(flags.world_settings),
        policy=getattr(flags, "policy", "uniform"),
    )  # fmt: skip


def evaluation_plan(flags: TrainFlags) -> Plan | None:
    """What a run is told about evaluations; None if there are none."""
    if flags.evaluate_every is None:
        if flags.evaluate_steps is not None or flags.evaluate_deterministic:
            raise ValueError("How to evaluate is given, but not when. Add --evaluate-every.")
        return None
    budget = BUDGET if flags.evaluate_steps is None else flags.evaluate_steps
    return Plan(every=flags.evaluate_every, num_steps=budget, deterministic=flags.evaluate_deterministic)


def pairs(words: Iterable[str]) -> dict[str, Any]:
    """name=value …, a value as JSON where it is JSON."""
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise ValueError(f"A setting of a world is written name=value, but {word!r} came.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def parsed(
    kind: type[Flags], command: str, words: list[str], *, also: Iterable[str] = (), description: str | None = None
) -> Flags:
    """The flags of a command; one that does not exist is refused with the nearest. `also`: flags of settings inside `kind`."""
    names = (*(field.name for field in dataclasses.fields(kind)), *also)  # type: ignore[arg-type]
    known = ["--help", *(f"--{name.replace('_', '-')}" for name in names)]
    for word in words:
        flag = word.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in known and flag.replace("--no-", "--") not in known:
            raise ValueError(f"{command} has no flag {flag}.{nearest(flag, known)} See {command} --help.")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                kind,
                prog=command,
                description=description,
                args=words,
                registry=_registry(),
                config=(FlagCreatePairsOff,),
            )
    except SystemExit as left:
        if left.code:
            raise ValueError(f"{sentence(said.getvalue())} See {command} --help.") from left
        raise


def sentence(box: str) -> str:
    """The box in which tyro says what is wrong with flags, as a line: its first part, without the help that is indented there."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", box).splitlines()[1:]  # without colours and title
    told: list[str] = []
    for line in (
        line.rstrip("│ ")[2:] for line in lines
    ):  # without the frame, which there is only where it can be printed
        if set(line) and set(line) <= set("─-╯"):
            if told:
                break
        elif not line.startswith(" " * 8):
            told.append(line.strip())
    words = " ".join(told)
    words = words.strip().rstrip(".") or "The flags cannot be read"
    return f"{words[0].upper()}{words[1:]}."


def nearest(word: str, known: Iterable[str]) -> str:
    """A question after the name that was probably meant, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def _whole(text: str) -> int:
    """1000000, 1_000_000 or 1e6."""
    try:
        return int(float(text)) if "e" in text.lower() and float(text).is_integer() else int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number, as 1000000 or 1e6.") from None


def _step_size(text: str) -> Any:
    """A number, or SCALE:POWER for a step that falls as SCALE / (1 + visits)^POWER."""
    scale, colon, power = text.partition(":")
    try:
        numbers = float(scale), float(power) if colon else 0.0
    except ValueError:
        raise ValueError(f"{text!r} is neither a number, as 0.01, nor SCALE:POWER, as 0.5:0.8.") from None
    return Decay(*numbers) if colon else numbers[0]


def _registry() -> ConstructorRegistry:
    """How flags are read where tyro's own way is not meant."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        def read(metavar: str, parse: Callable[[str], Any], *kinds: type) -> PrimitiveConstructorSpec[Any]:
            return PrimitiveConstructorSpec(
                nargs=1, metavar=metavar, instance_from_str=lambda words: parse(words[0]),
                is_instance=lambda value: isinstance(value, kinds), str_from_instance=lambda value: [str(value)],
            )  # fmt: skip

        if Decay in get_args(info.type):
            return read("FLOAT|SCALE:POWER", _step_size, float, Decay, type(None))
        return read("INT", _whole, int) if info.type is int else None

    return registry
