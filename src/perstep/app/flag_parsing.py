"""Flags of a command from a dataclass, with errors that are one sentence and name the most similar flag."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import json
import re
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any, TypeVar, get_args, get_origin

import tyro
from tyro.conf import FlagCreatePairsOff
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from perstep.inputs.synonyms import SYNONYMS
from perstep.numerics.schedules import Decay

Flags = TypeVar("Flags")


def parsed(
    kind: type[Flags], command: str, words: list[str], *, also: Iterable[str] = (), description: str | None = None
) -> Flags:
    """Read the flags of a command. An unknown flag is refused, with the most similar one. `also`: settings inside `kind`."""
    names = (*(field.name for field in dataclasses.fields(kind)), *also)  # type: ignore[arg-type]
    known = ["--help", *(f"--{name.replace('_', '-')}" for name in names)]
    for word in words:
        flag = word.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in known and flag.replace("--no-", "--") not in known:
            elsewhere = SYNONYMS.get(flag[2:].replace("-", "_"), "").replace("_", "-")
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
        if type(None) in get_args(info.type):
            return _optional(info)
        if get_origin(info.type) is tuple and get_args(info.type)[1:] == (Ellipsis,):
            return _several(info)
        return read("INT", _whole, int) if info.type is int else None

    return registry


def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """A value or nothing, in the help by the value alone. "None" is read too."""
    value = ConstructorRegistry.get_primitive_spec(
        PrimitiveTypeInfo.make(
            reduce(or_, (each for each in get_args(info.type) if each is not type(None))), info.markers
        )
    )
    if not isinstance(value, PrimitiveConstructorSpec) or value.nargs not in (1, "*"):
        return None
    return PrimitiveConstructorSpec(
        nargs=value.nargs, metavar=value.metavar, choices=None if value.choices is None else (*value.choices, "None"),
        instance_from_str=lambda words: None if words == ["None"] else value.instance_from_str(words),
        is_instance=lambda given: given is None or bool(value.is_instance(given)),
        str_from_instance=lambda given: ["None"] if given is None else value.str_from_instance(given),
    )  # fmt: skip


def _several(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Any number of values of a kind, in the help with "none" where there are none by default."""
    value = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(get_args(info.type)[0], info.markers))
    if not isinstance(value, PrimitiveConstructorSpec) or value.nargs != 1:
        return None
    return PrimitiveConstructorSpec(
        nargs="*", metavar=f"[{value.metavar} [{value.metavar} ...]]", choices=value.choices,
        instance_from_str=lambda words: tuple(value.instance_from_str([word]) for word in words),
        is_instance=lambda given: isinstance(given, tuple) and all(value.is_instance(each) for each in given),
        str_from_instance=lambda given: [text for each in given for text in value.str_from_instance(each)] or ["none"],
    )  # fmt: skip
