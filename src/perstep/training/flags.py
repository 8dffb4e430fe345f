"""The flags of `perstep train`: those of every run, and one flag for each setting of the algorithm."""

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
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, Suppress, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from perstep.algorithms import ALGORITHMS, Algorithm
from perstep.config import choice
from perstep.habits import SETTINGS
from perstep.presets import PRESETS
from perstep.schedules import Decay
from perstep.training.evaluation import EVALUATION_STEPS, EvaluationPlan
from perstep.training.run_spec import RunSpec

Flags = TypeVar("Flags")


@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """Train an agent in a world."""

    world: Annotated[Positional[str], arg(metavar="WORLD")]
    """Id of a Gymnasium environment, for example perstep/RedPillBluePill-v0."""
    steps: int
    """Total number of steps of the agent; with --resume, this includes the steps already made."""
    out: Path
    """Folder for the agent, its metrics and its figures."""
    resume: bool = False
    """Continue the run in the folder, if there is one."""
    checkpoint_every: int | None = None
    """Steps between two checkpoints; by default about a twentieth of the run. Does not change what is learnt."""
    evaluate_every: int | None = None
    """Steps between two evaluations during the run, in a separate copy of the world. Does not change what is learnt."""
    evaluate_steps: int | None = None
    """Number of steps of each evaluation; 10000 by default."""
    evaluate_deterministic: bool = False
    """Evaluate without exploration."""
    tensorboard: bool = False
    """Write events for TensorBoard to the folder."""
    wandb: Annotated[str | None, arg(metavar="PROJECT")] = None
    """Log the run to this project of Weights & Biases; offline if WANDB_MODE=offline is set."""
    film: bool = False
    """Record film.gif, a video of the agent at the end of the run, in the folder."""
    world_settings: tuple[str, ...] = ()
    """Settings of the world, for example order=accept-first num_servers=5."""
    quiet: bool = False
    """Show nothing during the run."""


@dataclass(frozen=True, kw_only=True)
class PredictionFlags(TrainFlags):
    """Train an agent that predicts the values of a policy."""

    policy: str = "uniform"
    """The policy whose values are predicted: uniform, or a .json or .npy file of actions (S,) or probabilities (S, A)."""


def algorithm_position(words: list[str]) -> int | None:
    """Position of the algorithm among the words of `perstep train`; None if there is none. The value of a flag, as in --out q, is
    no algorithm."""
    switches = {
        f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(TrainFlags) if field.default is False
    }
    for i, word in enumerate(words):
        flag = words[i - 1].replace("_", "-") if i else ""
        takes_value = flag.startswith("--") and "=" not in flag and flag not in switches
        if word in ALGORITHMS and not takes_value:
            return i
    return None


def train_flags(row: Algorithm, words: list[str]) -> tuple[Any, RunSpec]:
    """Read the flags of one algorithm: those of every run, and a flag for each of its settings."""
    # Values are only read here: the config checks them, with better error messages. The algorithm gives the rule.
    settings: Any = dataclasses.make_dataclass(
        f"{row.learner.agent} settings",
        [("rule", Suppress[str], dataclasses.field(default=row.rule))] if row.rule else [],
        bases=(row.config,), frozen=True, kw_only=True, namespace={"__post_init__": lambda self: None},
    )  # fmt: skip
    common = TrainFlags if row.learner.control else PredictionFlags
    fixed = {**row.settings, **({"rule": row.rule} if row.rule else {})}
    if (preset := preset_named(words)) is not None:
        fixed["preset"] = preset
    shown = row.config.preset_settings(fixed)
    defaults = partial(settings, **shown)
    kind = dataclasses.make_dataclass(
        "Flags",
        [("settings", Annotated[settings, OmitArgPrefixes], dataclasses.field(default_factory=defaults))],
        bases=(common,), frozen=True, kw_only=True,
    )  # fmt: skip
    what = f"the rule {row.rule} with {row.learner.agent}" if row.rule else row.learner.agent
    kind.__doc__ = f"{row.name}: {what} ({row.source})."
    names = [field.name for field in dataclasses.fields(row.config) if field.name != "rule"]
    flags: Any = parsed(kind, f"perstep train {row.name}", words, also=names)
    usual = defaults()
    named = {name: value for name in names if (value := getattr(flags.settings, name)) != getattr(usual, name)}
    config = row.config.of({**fixed, **named})
    return flags, RunSpec(
        algorithm=row.name, world=flags.world, config=config, world_settings=pairs(flags.world_settings),
        policy=getattr(flags, "policy", "uniform"),
    )  # fmt: skip


def preset_named(words: list[str]) -> str | None:
    """The value of --preset, on which the defaults of all other flags depend; None if it is not given."""
    for word, following in zip_longest(words, words[1:]):
        flag, equals, value = word.partition("=")
        if flag == "--preset":
            if (chosen := value if equals else following) is None:
                return None  # the parser says that a value is missing
            choice("preset", chosen, PRESETS)
            return chosen
    return None


def evaluation_plan(flags: TrainFlags) -> EvaluationPlan | None:
    """The evaluations that the flags ask for; None if they ask for none."""
    if flags.evaluate_every is None:
        if flags.evaluate_steps is not None or flags.evaluate_deterministic:
            raise ValueError(
                "--evaluate-steps and --evaluate-deterministic need --evaluate-every. Add it, or leave them out."
            )
        return None
    num_steps = EVALUATION_STEPS if flags.evaluate_steps is None else flags.evaluate_steps
    return EvaluationPlan(every=flags.evaluate_every, num_steps=num_steps, deterministic=flags.evaluate_deterministic)


def pairs(words: Iterable[str]) -> dict[str, Any]:
    """The settings in words of the form name=value. A value that is not JSON is a string."""
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise ValueError(f"Expected a setting of a world as name=value, got {word!r}.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def parsed(
    kind: type[Flags], command: str, words: list[str], *, also: Iterable[str] = (), description: str | None = None
) -> Flags:
    """Read the flags of a command. An unknown flag is refused, with the most similar one. `also`: settings inside `kind`."""
    names = (*(field.name for field in dataclasses.fields(kind)), *also)  # type: ignore[arg-type]
    known = ["--help", *(f"--{name.replace('_', '-')}" for name in names)]
    for word in words:
        flag = word.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in known and flag.replace("--no-", "--") not in known:
            elsewhere = SETTINGS.get(flag[2:].replace("-", "_"), "").replace("_", "-")
            meant = f" It is called --{elsewhere} here." if f"--{elsewhere}" in known else nearest(flag, known)
            raise ValueError(f"{command} has no flag {flag}.{meant} See {command} --help.")
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
    """The error in tyro's box as one line: its first part, without the indented help."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", box).splitlines()[1:]  # without colours and the title
    told: list[str] = []
    for line in (line.rstrip("│ ")[2:] for line in lines):  # without the frame of the box
        if set(line) and set(line) <= set("─-╯"):
            if told:
                break
        elif not line.startswith(" " * 8):
            told.append(line.strip())
    words = " ".join(told)
    words = words.strip().rstrip(".") or "The flags cannot be read"
    if found := re.match(r"(?i)invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)", words):
        choices = [choice for choice in re.findall(r"'(.*?)'", found[3]) if choice != "None"]
        words = f"{found[2]} must be {' or '.join(choices)}, got {found[1]!r}"
    elif found := re.match(r"(?i)missing value for argument '(.*)'\.", words):
        words = f"{found[1]} needs a value"
    elif found := re.match(r"(?i)unrecognized options: (.*)", words):
        words = f"Nothing more is expected by position, got {found[1]}"
    return f"{words[0].upper()}{words[1:]}."


def nearest(word: str, known: Iterable[str]) -> str:
    """A question with the most similar known word; empty if none is similar."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def _whole(text: str) -> int:
    """1000000, 1_000_000 or 1e6."""
    try:
        return int(float(text)) if "e" in text.lower() and float(text).is_integer() else int(text)
    except ValueError:
        raise ValueError(f"Expected a whole number such as 1000000 or 1e6, got {text!r}.") from None


def _step_size(text: str) -> Any:
    """A number, or SCALE:POWER[:DELAY] for a step size that decays as SCALE / (1 + visits/DELAY)^POWER."""
    try:
        first, *others = map(float, text.split(":"))
    except ValueError:
        others = [0.0] * 3
    if len(others) > 2:
        raise ValueError(
            f"Expected a number such as 0.01, or SCALE:POWER or SCALE:POWER:DELAY such as 0.5:0.8, got {text!r}."
        )
    return Decay(first, *others) if others else first


def _step_size_text(value: Any) -> str:
    """The inverse of _step_size."""
    return f"{value.scale:g}:{value.power:g}:{value.delay:g}" if isinstance(value, Decay) else str(value)


def _reference(text: str) -> Any:
    """A word, or a pair [OBSERVATION, ACTION] in JSON."""
    try:
        return tuple(json.loads(text)) if text.startswith("[") else text
    except json.JSONDecodeError:
        raise ValueError(f"Expected a word or a pair such as [3, 0], got {text!r}.") from None


def _registry() -> ConstructorRegistry:
    """How flags are read where it differs from tyro's way: step sizes, whole numbers, and a word or a pair."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        def read(metavar: str, parse: Callable[[str], Any], *kinds: type) -> PrimitiveConstructorSpec[Any]:
            return PrimitiveConstructorSpec(
                nargs=1, metavar=metavar, instance_from_str=lambda words: parse(words[0]),
                is_instance=lambda value: isinstance(value, kinds),
                str_from_instance=lambda value: [_step_size_text(value)],
            )  # fmt: skip

        if Decay in get_args(info.type):
            return read("FLOAT|SCALE:POWER[:DELAY]", _step_size, float, Decay, type(None))
        if get_args(info.type) == (str, tuple[Any, int]):  # otherwise tyro makes a subcommand for each
            return read("STR|[OBSERVATION,ACTION]", _reference, str, tuple)
        return read("INT", _whole, int) if info.type is int else None

    return registry
