"""The public names, frozen: one that is not in tests/public_names.txt is an oversight, and one that is gone breaks programs.

A new name: add its line, or write the list anew: python tests/test_public_names.py > tests/public_names.txt. A name that goes:
CONTRIBUTING says how (Deprecation).
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import gymnasium
import pytest

import perstep
import perstep.worlds
from perstep.app.cli import HELP
from perstep.mdp.evaluation import PolicyEvaluation
from perstep.mdp.risk import Frontier
from perstep.mdp.solving import Solution

LIST = Path(__file__).with_name("public_names.txt")
INSIDE = (PolicyEvaluation, Solution, Frontier)  # what public functions return, without a public name of their own


def names() -> list[str]:
    """What a program can rely on: names of the package, of its classes, of worlds, algorithms and commands."""
    found = [f"perstep.{name}" for name in perstep.__all__]
    classes = [each for name in perstep.__all__ if inspect.isclass(each := getattr(perstep, name))]
    for each in (*classes, *INSIDE):
        inherited = {name for base in each.__mro__[1:] for name in dir(base)}
        own = ({*dir(each), *inspect.get_annotations(each)}) - inherited
        found += [f"{each.__name__}.{name}" for name in own if not name.startswith("_")]
    for row in perstep.ALGORITHMS.values():
        found += [f"{row.learner.agent}({field.name}=…)" for field in dataclasses.fields(row.config)]
    found += [f"perstep.worlds.{name}" for name in perstep.worlds.__all__]
    found += [f"world {name}" for name in gymnasium.registry if name.startswith("perstep/")]
    found += [f"algorithm {name}" for name in perstep.ALGORITHMS]
    found += [f"command {name}" for name in re.findall(r"^ {2}perstep ([a-z][a-z-]*) ", HELP, re.MULTILINE)]
    return sorted(set(found))


def test_the_public_names_are_those_of_the_list() -> None:
    listed, there = LIST.read_text(encoding="utf-8").splitlines(), names()
    gone, new = sorted(set(listed) - set(there)), sorted(set(there) - set(listed))
    assert not gone, "These names are public and must stay, or go as CONTRIBUTING says (Deprecation)."
    assert not new, f"These names are new: add them to {LIST.name}, or begin them with an underscore."
    assert listed == there, f"{LIST.name} must be sorted and name each once."


@pytest.mark.parametrize("name", perstep.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(perstep, name) is not None


if __name__ == "__main__":
    print("\n".join(names()))
