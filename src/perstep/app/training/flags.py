"""The flags of `perstep train`: those of every run, and one flag for each setting of the algorithm."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, Suppress, arg

from perstep.app.flag_parsing import parsed
from perstep.app.training.evaluation import EVALUATION_STEPS, EvaluationPlan
from perstep.app.training.run_spec import RunSpec
from perstep.inputs.checks import choice
from perstep.rules.lattice import ALGORITHMS, Algorithm
from perstep.rules.presets import PRESETS


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
    unnamed = defaults()
    named = {name: value for name in names if (value := getattr(flags.settings, name)) != getattr(unnamed, name)}
    config: Any = row.config.of({**fixed, **named})
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
