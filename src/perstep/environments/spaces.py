"""Discrete Gymnasium spaces as integers 0 … N−1, which are the rows and columns of a table; composed spaces as flat ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("Discrete", "MultiDiscrete", "MultiBinary", "Tuple", "Dict")
MOST_ACTIONS = 4096  # every combination is an action with values of its own, so they must be few


@dataclass(frozen=True)
class Numbering:
    """A bijection between the points of a Discrete space, or of a product of such spaces, and 0 … N−1."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    kind: str
    """The kind of space: one of KINDS."""
    keys: tuple[str, ...] = ()
    """The keys of a Dict, in order."""

    @classmethod
    def of(cls, count: int) -> Numbering:
        """The space of the integers 0 … count − 1, each of which is its own number."""
        return cls((count,), (0,), "Discrete")

    def to_json(self) -> dict[str, Any]:
        """The numbering as plain values, for a JSON file."""
        keys = {"keys": list(self.keys)} if self.keys else {}
        return {"sizes": list(self.sizes), "starts": list(self.starts), "kind": self.kind, **keys}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Numbering:
        """The inverse of to_json."""
        sizes, starts, kind = tuple(values["sizes"]), tuple(values["starts"]), values["kind"]
        keys = tuple(values.get("keys", ()))
        whole = all(type(n) is int for n in (*sizes, *starts)) and len(sizes) == len(starts)
        named = all(type(key) is str for key in keys) and len(keys) == (len(sizes) if kind == "Dict" else 0)
        if not whole or not named or min(sizes, default=0) < 1 or kind not in KINDS:
            raise ValueError(
                "A discrete space has one size of at least 1 and one start for each dimension, all of them integers, and one of "
                f"the kinds {', '.join(KINDS)}; got {values}. The file is damaged."
            )
        return cls(sizes, starts, kind, keys)

    @property
    def count(self) -> int:
        """N, the number of points."""
        return math.prod(self.sizes)

    def one(self, point: Any) -> int:
        """The number of a single point. Faster than `number`."""
        whole = self.kind == "Discrete" and isinstance(point, int | np.integer)
        if whole and 0 <= (number := int(point) - self.starts[0]) < self.sizes[0]:
            return number
        if (numbers := self.number(point)).size != 1:
            raise ValueError(
                f"Expected a single point, got {point!r}, which is {numbers.size} points. Give one of them."
            )
        return int(numbers.item())

    def number(self, point: Any) -> NDArray[np.int64]:
        """The number of a point, or the numbers of a batch of points."""
        try:
            parts = [np.asarray(part) for part in self._parts(point)]
            if not all(part.dtype.kind in "biu" for part in parts):
                raise ValueError("not integers")
            shifted = tuple(part.astype(np.int64) - start for part, start in zip(parts, self.starts, strict=True))
            return np.asarray(np.ravel_multi_index(shifted, self.sizes), np.int64)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ValueError(
                f"Expected a point of the {self.kind} space of sizes {self.sizes} that starts at {self.starts}, got {point!r}. "
                "Give an observation or action of this world; if the world itself returned it, correct the spaces of the world."
            ) from error

    def point(self, number: int) -> Any:
        """The point with this number, in the form in which the space gives it."""
        if self.kind == "Discrete":
            return number + self.starts[0]
        parts = np.unravel_index(number, self.sizes)
        point = tuple(int(part) + start for part, start in zip(parts, self.starts, strict=True))
        if self.kind == "Dict":
            return dict(zip(self.keys, point, strict=True))
        if self.kind == "Tuple":
            return point
        return np.array(point, np.int8 if self.kind == "MultiBinary" else np.int64)

    def points(self, numbers: NDArray[np.int64]) -> Any:
        """The points with these numbers, in the form in which a batch of the space is given."""
        if self.kind == "Discrete":
            return numbers + self.starts[0]
        made = [self.point(int(number)) for number in numbers]
        if self.kind == "Dict":
            return {key: np.array([point[key] for point in made]) for key in self.keys}
        return tuple(np.array(part) for part in zip(*made, strict=True)) if self.kind == "Tuple" else np.array(made)

    def _parts(self, point: Any) -> tuple[Any, ...]:
        if self.kind == "Discrete":
            return (point,)
        if self.kind == "Dict":
            return tuple(point[key] for key in self.keys)
        return tuple(point) if self.kind == "Tuple" else tuple(np.moveaxis(np.asarray(point), -1, 0))


def discrete_actions(space: Any, agent: str) -> Numbering:
    """The numbers of the actions; a TypeError for a space that is not discrete, or has too many combinations."""
    from gymnasium.spaces import Box

    found = numbering(space)
    if found is not None and found.count <= MOST_ACTIONS:
        return found
    if isinstance(space, Box):
        raise TypeError(
            f"{agent} chooses among numbered actions, but this world has {space}. Offer a few of them by number: "
            "gymnasium.wrappers.DiscretizeAction(env, bins=5)."
        )
    number = "" if found is None else f", which are {found.count:,} actions; at most {MOST_ACTIONS:,} are tried"
    raise TypeError(
        f"{agent} chooses among numbered actions, but this world has {space}{number}. Offer a few of them by number, with a "
        "gymnasium.ActionWrapper whose action_space is Discrete."
    )


def flattened(env: Any) -> Any:
    """The world with observations in one vector, where they are a Dict, a Tuple or a MultiDiscrete; otherwise as it is."""
    from gymnasium import spaces
    from gymnasium.vector import VectorEnv
    from gymnasium.wrappers import FlattenObservation
    from gymnasium.wrappers.vector import FlattenObservation as FlattenObservations

    from perstep.environments.answers import WholeAnswers

    vector = isinstance(env, VectorEnv)
    space = env.single_observation_space if vector else env.observation_space
    if not isinstance(space, spaces.Dict | spaces.Tuple | spaces.MultiDiscrete):
        return env
    if not isinstance(spaces.flatten_space(space), spaces.Box):
        raise TypeError(
            f"Observations that are flattened must have a fixed number of numbers, but this world has {space}. Give its graphs, "
            "sequences and texts a fixed length, with a gymnasium.ObservationWrapper."
        )
    return FlattenObservations(env) if vector else FlattenObservation(WholeAnswers(env))


def as_flat(env: Any, observation: Any) -> Any:
    """An observation as a world made by `flattened` gives it, also where it has not been flattened yet."""
    from gymnasium import spaces
    from gymnasium.wrappers import FlattenObservation

    composed = isinstance(observation, dict | tuple)
    if not isinstance(env, FlattenObservation):
        space = None
    elif (space := env.env.observation_space).contains(observation):
        return spaces.flatten(space, observation)
    if composed:
        raise ValueError(
            f"An observation must be {'an array of numbers' if space is None else f'a point of {space}'}, got {observation!r}. "
            + (
                "Give it as the world does, one at a time."
                if env is not None
                else "The agent was loaded without its world, which knows how to read it: perstep.load(path, env=env), or give "
                "gymnasium.spaces.flatten(env.observation_space, observation)."
            )
        )
    return observation


def part_name(env: Any, place: int) -> str:
    """Which part of a composed observation a number of the flattened one belongs to: "dimension 0 of 'load'"."""
    from gymnasium import spaces
    from gymnasium.wrappers import FlattenObservation

    space = env.env.observation_space if isinstance(env, FlattenObservation) else None
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        inside = place
        for name, part in parts:
            if inside < spaces.flatdim(part):
                return f"dimension {inside} of {name!r}"
            inside -= spaces.flatdim(part)
    return f"dimension {place}"


def numbering(space: Any) -> Numbering | None:
    """The numbering of a Gymnasium space; None if the space is not discrete."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Numbering((int(space.n),), (int(space.start),), "Discrete")
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return Numbering(tuple(map(int, space.nvec)), tuple(map(int, space.start)), "MultiDiscrete")
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return Numbering((2,) * int(space.shape[0]), (0,) * int(space.shape[0]), "MultiBinary")
    if isinstance(space, spaces.Dict) and all(isinstance(part, spaces.Discrete) for part in space.spaces.values()):
        ranges = [(int(part.n), int(part.start)) for part in space.spaces.values()]  # type: ignore[attr-defined]
        return Numbering(tuple(n for n, _ in ranges), tuple(s for _, s in ranges), "Dict", tuple(space.spaces))
    if isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space.spaces):
        parts = [(int(part.n), int(part.start)) for part in space.spaces]  # type: ignore[attr-defined]
        return Numbering(tuple(n for n, _ in parts), tuple(start for _, start in parts), "Tuple")
    return None
