"""Completion in shells: the commands, flags, algorithms and worlds as a script that bash, zsh or fish reads when it starts.

The script holds all words, so that a press of the tab key starts no Python. tyro can write such scripts too, but they offer nothing
that is given by position (algorithms, worlds, files), and start Python at every press.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from perstep.app.command_flags import EvaluateFlags, ReportFlags, ReproduceFlags, SweepFlags
from perstep.app.training.flags import PredictionFlags, TrainFlags
from perstep.paper.parts import PARTS
from perstep.rules.lattice import ALGORITHMS
from perstep.rules.presets import PRESETS

SHELLS = ("bash", "zsh", "fish")

Flags = Mapping[str, tuple[str, ...] | None]
"""Flag → the words that may follow it; empty if anything may, and None for a switch, which nothing follows."""


@dataclass(frozen=True)
class Command:
    """What may follow a command."""

    words: tuple[str, ...] = ()
    """What it takes by position; empty for files."""
    flags: Flags = field(default_factory=dict)
    by_algorithm: Mapping[tuple[str, ...], Flags] = field(default_factory=dict)
    """Further flags after one of these algorithms, which the command takes first."""
    then: tuple[str, ...] = ()
    """What it takes by position after the algorithm."""


def flags_of(kind: Any, defaults: Mapping[str, Any] | None = None) -> dict[str, tuple[str, ...] | None]:
    """The flags that tyro makes of the fields of a dataclass, without what is given by position."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found: dict[str, tuple[str, ...] | None] = {}
    for each in dataclasses.fields(kind):
        default = (defaults or {}).get(each.name, each.default)
        if "Positional" in repr(hints[each.name]):
            continue
        switched_off = "no-" if default is True else ""
        follows = None if isinstance(default, bool) else tuple(_choices(hints[each.name]))
        found[f"--{switched_off}{each.name.replace('_', '-')}"] = follows
    return found


def _choices(hint: Any) -> Iterable[str]:
    """The words of a Literal, also inside Annotated and unions."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield from (word for word in map(str, typing.get_args(hint)) if " " not in word)  # shells would take them apart
    elif origin is typing.Annotated:
        yield from _choices(typing.get_args(hint)[0])
    elif origin in (typing.Union, types.UnionType):
        for part in typing.get_args(hint):
            yield from _choices(part)


def commands() -> dict[str, Command]:
    """What may follow every command."""
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


def script(shell: str) -> str:
    """The script for a shell."""
    every = commands()
    if shell == "fish":
        return _fish(every)
    return (_ZSH if shell == "zsh" else "") + _bash(every)


# zsh runs bash's script. Where ~/.zshrc has not started the completions of zsh, this does.
_ZSH = """(( $+functions[compdef] )) || { autoload -U compinit && compinit }
autoload -U +X bashcompinit && bashcompinit
"""


def _bash(commands: Mapping[str, Command]) -> str:
    lines = [
        "# perstep: completion for bash and zsh",
        "_perstep() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" answers="" flags="" algorithm="" i',
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{_joined([*commands, "--help", "--version"])}" -- "$cur"))',
        "    return",
        "  fi",
        '  case "${COMP_WORDS[1]}" in',
    ]
    for name, command in commands.items():
        lines += [
            f"    {name})",
            f'      answers="{_joined(command.words)}"',
            f'      flags="{_joined(_all(command.flags))}"',
        ]
        if command.by_algorithm:
            lines += ["      for ((i = 2; i < COMP_CWORD; i++)); do", '        case "${COMP_WORDS[i]}" in']
            for algorithms, flags in command.by_algorithm.items():
                lines.append(
                    f'          {"|".join(algorithms)}) algorithm=1; flags="{_joined(_all({**command.flags, **flags}))}" ;;'
                )
            lines += ["        esac", "      done", f'      [ -n "$algorithm" ] && answers="{_joined(command.then)}"']
        lines.append('      case "$prev" in')
        every = {**command.flags, **{k: v for flags in command.by_algorithm.values() for k, v in flags.items()}}
        for flag, choices in every.items():
            if choices:
                lines.append(f'        {flag}) answers="{_joined(choices)}"; flags="" ;;')
        anything = [flag for flag, choices in every.items() if choices == ()]  # the shell then offers names of files
        lines += [f'        {"|".join(anything)}) answers=""; flags="" ;;'] if anything else []
        lines += ["      esac", "      ;;"]
    lines += [
        "  esac",
        '  case "$cur" in -*) answers="$flags" ;; esac',
        '  [ -n "$answers" ] && COMPREPLY=($(compgen -W "$answers" -- "$cur"))',
        "}",
        "complete -o default -F _perstep perstep",  # without an answer: names of files
    ]
    return "\n".join(lines) + "\n"


def _fish(commands: Mapping[str, Command]) -> str:
    at_start, lines = "__fish_use_subcommand", ["# perstep: completion for fish"]
    lines += [f"complete -c perstep -f -n {at_start} -a {name}" for name in commands]
    lines += [f"complete -c perstep -n {at_start} -l {flag}" for flag in ("help", "version")]
    for name, command in commands.items():
        here = f"__fish_seen_subcommand_from {name}"
        words = command.words
        if command.by_algorithm:
            known = _joined(name for algorithms in command.by_algorithm for name in algorithms)
            lines.append(
                f"complete -c perstep -f -n '{here}; and not __fish_seen_subcommand_from {known}' -a '{known}'"
            )
            lines.append(
                f"complete -c perstep -f -n '{here}; and __fish_seen_subcommand_from {known}' -a '{_joined(command.then)}'"
            )
        elif words:
            lines.append(f"complete -c perstep -f -n '{here}' -a '{_joined(words)}'")
        lines += _fish_flags(here, {**command.flags, "--help": None})
        for algorithms, flags in command.by_algorithm.items():
            lines += _fish_flags(f"{here}; and __fish_seen_subcommand_from {_joined(algorithms)}", flags)
    return "\n".join(lines) + "\n"


def _fish_flags(where: str, flags: Flags) -> list[str]:
    return [
        f"complete -c perstep -n '{where}' -l {flag[2:]}" + _fish_follows(choices) for flag, choices in flags.items()
    ]


def _fish_follows(choices: tuple[str, ...] | None) -> str:
    if choices is None:
        return ""
    return f" -x -a '{_joined(choices)}'" if choices else " -r -F"  # -F: names of files


def _all(flags: Flags) -> list[str]:
    return [*flags, "--help"]


def _joined(words: Iterable[str]) -> str:
    return " ".join(words)
