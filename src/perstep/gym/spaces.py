"""Discrete Gymnasium spaces as integers 0 … N−1, which are the rows and columns of a table; boxes with bounds as vectors from −1
to 1; composed spaces as flat ones."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from perstep.mdp.names import NameTable

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
    names: NameTable | None = field(default=None, compare=False, repr=False)
    """The names of the points 0 … N−1, where they have some. A point is then given and returned by its name; where no name is a
    number, it may also be given by its number."""

    @classmethod
    def named(cls, names: NameTable) -> Numbering:
        """The space of the integers 0 … N − 1, each of which is its own number, with their names if they have some."""
        return cls((len(names.names),), (0,), "Discrete", names=names if names.given else None)

    def _of_names(self, names: NameTable, point: Any) -> NDArray[np.int64] | None:
        """The number of a name, or the numbers of a batch of them; None for anything else."""
        if (named := names.find(point)) is not None:
            return np.asarray(named, np.int64)
        batch = point.tolist() if isinstance(point, np.ndarray) and point.ndim == 1 else point
        if isinstance(batch, list) and any(names.meant_by(each) for each in batch):
            return np.array([self.one(each) for each in batch], np.int64)
        if names.meant_by(point) or (isinstance(point, tuple) and any(isinstance(name, tuple) for name in names.names)):
            raise self._no_name(names, point)  # not a batch of numbers
        return None

    def _no_name(self, names: NameTable, point: Any) -> ValueError:
        example = f"a name, such as {names.names[0]!r}"
        expected = example if names.numbers_are_names else f"a number from 0 to {self.count - 1} or {example}"
        texts = [name for name in names.names if isinstance(name, str)] if isinstance(point, str) else []
        near = difflib.get_close_matches(str(point), texts, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        return ValueError(f"Expected {expected}, got {point!r}.{meant}")

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

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last number."""
        return 0, self.count - 1

    def one(self, point: Any) -> int:
        """The number of a single point. Faster than `number`."""
        whole = self.kind == "Discrete" and isinstance(point, int | np.integer) and self.names is None
        if whole and 0 <= (number := int(point) - self.starts[0]) < self.sizes[0]:
            return number
        if (numbers := self.number(point)).size != 1:
            raise ValueError(
                f"Expected a single point, got {point!r}, which is {numbers.size} points. Give one of them."
            )
        return int(numbers.item())

    def number(self, point: Any) -> NDArray[np.int64]:
        """The number of a point, or the numbers of a batch of points."""
        if self.names is not None and (named := self._of_names(self.names, point)) is not None:
            return named
        try:
            parts = [np.asarray(part) for part in self._parts(point)]
            if not all(part.dtype.kind in "biu" for part in parts):
                raise ValueError("not integers")
            shifted = tuple(part.astype(np.int64) - start for part, start in zip(parts, self.starts, strict=True))
            return np.asarray(np.ravel_multi_index(shifted, self.sizes), np.int64)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            if self.names is not None:
                raise self._no_name(self.names, point) from None
            raise ValueError(
                f"Expected a point of the {self.kind} space of sizes {self.sizes} that starts at {self.starts}, got {point!r}. "
                "Give an observation or action of this world; if the world itself returned it, correct the spaces of the world."
            ) from error

    def point(self, number: int) -> Any:
        """The point with this number, in the form in which the space gives it."""
        number = int(number)
        if self.names is not None:
            return self.names.names[number]
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
        if self.names is not None:
            return self.names.batch(numbers)
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


@dataclass(frozen=True)
class BoundedBox:
    """The points of a box with bounds as vectors of numbers from −1 to 1: those of the middle of the box are 0."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def count(self) -> int:
        """How many numbers a point has."""
        return len(self.low)

    @property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest number of a vector."""
        return -1.0, 1.0

    @cached_property
    def _middle(self) -> NDArray[np.float64]:
        return (np.array(self.low) + self.high) / 2.0

    @cached_property
    def _half(self) -> NDArray[np.float64]:
        return (np.array(self.high) - self.low) / 2.0

    def one(self, point: Any) -> NDArray[np.float32]:
        """The vector of a point."""
        given = np.asarray(point)
        if given.shape != self.shape or given.dtype.kind not in "fiu" or not np.isfinite(given).all():
            raise ValueError(f"An action must be finite numbers of shape {self.shape}, got {point!r}.")
        return np.clip((given.reshape(-1) - self._middle) / self._half, -1.0, 1.0).astype(np.float32)

    def point(self, vector: NDArray[Any]) -> NDArray[Any]:
        """The point with this vector, in the form in which the space gives it."""
        return np.asarray(self.points(vector[None])[0])

    def points(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """The points with these vectors, one in each row."""
        inside = np.clip(self._middle + self._half * vectors, self.low, self.high)
        return inside.astype(self.dtype).reshape(-1, *self.shape)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {"low": list(self.low), "high": list(self.high), "shape": list(self.shape), "dtype": self.dtype}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> BoundedBox:
        """The inverse of to_json."""
        low, high = (tuple(map(float, values[name])) for name in ("low", "high"))
        made = cls(low, high, tuple(values["shape"]), str(np.dtype(values["dtype"])))
        whole = all(type(n) is int and n >= 1 for n in made.shape) and np.dtype(made.dtype).kind == "f"
        if not whole or not math.prod(made.shape) == len(low) == len(high) or not _is_open(low, high):
            raise ValueError(f"The description of a box contradicts itself: {values}.")
        return made


Actions: TypeAlias = Numbering | BoundedBox
"""The actions of a world, as learners know them."""


def _is_open(low: Any, high: Any) -> bool:
    return bool(np.isfinite([low, high]).all() and np.less(low, high).all())


def bounded_actions(space: Any, agent: str) -> BoundedBox:
    """The actions of a box with bounds; a TypeError for any other space."""
    from gymnasium.spaces import Box

    if not isinstance(space, Box):
        numbered = ": perstep.DeepQ, perstep.TileQ or perstep.QLearning" if numbering(space) is not None else ""
        raise TypeError(
            f"{agent} chooses vectors from a box of actions, but this world has {space}. "
            f"Use a learner for numbered actions{numbered}."
        )
    low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
    if space.dtype.kind != "f" or not low.size or not _is_open(low, high):
        raise TypeError(
            f"{agent} needs a box of actions of floating point numbers with finite bounds, each lower one below the upper one, but "
            f"this world has {space}. Say which actions make sense: gymnasium.wrappers.TransformAction(env, lambda action: action, "
            "gymnasium.spaces.Box(-1.0, 1.0, shape))."
        )
    return BoundedBox(tuple(low.tolist()), tuple(high.tolist()), tuple(map(int, space.shape)), str(space.dtype))


def discrete_actions(space: Any, agent: str) -> Numbering:
    """The numbers of the actions; a TypeError for a space that is not discrete, or has too many combinations."""
    from gymnasium.spaces import Box

    found = numbering(space)
    if found is not None and found.count <= MOST_ACTIONS:
        return found
    if isinstance(space, Box):
        raise TypeError(
            f"{agent} chooses among numbered actions, but this world has {space}. Use perstep.SoftActorCritic, or offer a few of "
            "them by number: gymnasium.wrappers.DiscretizeAction(env, bins=5)."
        )
    number = "" if found is None else f", which are {found.count:,} actions; at most {MOST_ACTIONS:,} are supported"
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

    from perstep.gym.answers import WholeAnswers

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


def composed_space(env: Any) -> Any:
    """The space of one observation before `flattened` made it a vector; None if it did not."""
    from gymnasium.wrappers import FlattenObservation
    from gymnasium.wrappers.vector import FlattenObservation as FlattenObservations

    if isinstance(env, FlattenObservations):
        return env.env.single_observation_space
    return env.env.observation_space if isinstance(env, FlattenObservation) else None


def as_flat(space: Any, observation: Any) -> Any:
    """A point of a composed space as a vector; an observation that is one already stays as it is. `space`: None for a Box."""
    from gymnasium import spaces

    if space is not None and space.contains(observation):
        return spaces.flatten(space, observation)
    try:
        points = None if isinstance(observation, dict | tuple) else np.asarray(observation)
    except ValueError:  # rows of different lengths
        points = None
    if points is None or points.dtype.kind not in "biuf":
        expected = "an array of numbers" if space is None else f"a point of {space}"
        world = " If the agent was loaded without its world, give that: perstep.load(path, env=env)." * (space is None)
        raise ValueError(
            f"An observation must be {expected}, got {observation!r}. Give it as the world does, one at a time.{world}"
        )
    return points


def space_to_json(space: Any) -> Any:
    """A composed space as plain values, for a JSON file: what flattening needs, without bounds. None for other kinds."""
    from gymnasium import spaces

    match space:
        case spaces.Dict():
            found = [[key, space_to_json(part)] for key, part in space.spaces.items()]  # in an order that JSON keeps
            return None if any(part is None or type(key) is not str for key, part in found) else {"Dict": found}
        case spaces.Tuple():
            parts = [space_to_json(part) for part in space.spaces]
            return None if None in parts else {"Tuple": parts}
        case spaces.Discrete():
            return {"Discrete": [int(space.n), int(space.start)]}
        case spaces.MultiDiscrete() if space.nvec.ndim == 1:
            return {"MultiDiscrete": [space.nvec.tolist(), space.start.tolist()]}
        case spaces.MultiBinary():
            return {"MultiBinary": list(space.shape)}
        case spaces.Box():
            return {"Box": [list(space.shape), str(space.dtype)]}
    return None


MOST_NUMBERS = 10**7  # of a flattened observation that a file may describe


def space_from_json(values: Any) -> Any:
    """The inverse of space_to_json, for a file that may say anything."""
    from gymnasium import spaces

    def whole(numbers: Any) -> list[int]:
        if not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
            raise ValueError(f"expected integers, got {str(numbers)[:100]}")
        if sum(map(abs, numbers)) > MOST_NUMBERS or math.prod(max(n, 1) for n in numbers) > MOST_NUMBERS:
            raise ValueError(f"expected a space of at most {MOST_NUMBERS:,} numbers, got {str(numbers)[:100]}")
        return numbers

    ((kind, inside),) = values.items()
    if kind == "Dict":
        return spaces.Dict([(key, space_from_json(part)) for key, part in inside])
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part) for part in inside])
    if kind == "Discrete":
        size, start = whole(inside)
        return spaces.Discrete(size, start=start)
    if kind == "MultiDiscrete":
        sizes, starts = map(whole, inside)
        return spaces.MultiDiscrete(sizes, start=starts)
    if kind == "MultiBinary":
        return spaces.MultiBinary(whole(inside))
    if kind != "Box":
        raise ValueError(f"there is no space {str(kind)[:100]!r}")
    shape, dtype = whole(inside[0]), np.dtype(inside[1])
    if dtype.kind not in "biuf":
        raise ValueError(f"a Box of {dtype} is not known")
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (0, 1)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return spaces.Box(low, high, tuple(shape), dtype.type)


def part_name(env: Any, place: int) -> str:
    """Which part of a composed observation a number of the flattened one belongs to: "dimension 0 of 'load'"."""
    from gymnasium import spaces

    space = composed_space(env)
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
