"""Arguments of a world: whole numbers, finite numbers and sequences of them, as its signature says, or a sentence."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from perstep.inputs.checks import number, shown, whole

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_COUNT, LARGEST_NUMBER = 2**62, 1e100  # of a count; of a number that may be squared or summed


def checked(make: Callable[P, R]) -> Callable[P, R]:
    """`make`, which refuses an argument that its signature does not allow before it computes with it."""

    @functools.wraps(make)
    def careful(*args: P.args, **kwargs: P.kwargs) -> R:
        given = inspect.signature(make).bind(*args, **kwargs)
        kinds = typing.get_type_hints(make)  # of the annotations, which are texts
        for name, value in given.arguments.items():
            given.arguments[name] = _value(name, value, kinds.get(name))
        return make(*given.args, **given.kwargs)

    return careful


def _value(name: str, value: Any, kind: Any) -> Any:
    """The value of an argument of this kind. Kinds without a rule here are left to the world."""
    if isinstance(kind, types.UnionType):
        return None if value is None else _value(name, value, typing.get_args(kind)[0])
    if kind is int:
        return whole(name, value, 0, LARGEST_COUNT)
    if kind is float:
        return number(name, value, -LARGEST_NUMBER, LARGEST_NUMBER)
    if typing.get_origin(kind) is Sequence:
        return tuple(_value(f"{name}[{at}]", each, float) for at, each in enumerate(_items(name, value)))
    if typing.get_origin(kind) is tuple:
        items, length = _items(name, value), len(typing.get_args(kind))
        if len(items) != length:
            raise ValueError(f"{name} must be {length} numbers, got {len(items)}: {shown(value)}.")
        return tuple(_value(f"{name}[{at}]", each, float) for at, each in enumerate(items))
    return value


def _items(name: str, value: Any) -> list[Any]:
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return list(value)
    raise ValueError(f"{name} must be a list of numbers, got {shown(value)}.")
