"""Discrete Gymnasium spaces as integers 0 … N−1, which are the rows and columns of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Numbering:
    """A bijection between the points of a Discrete space, or of a product of such spaces, and 0 … N−1."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    kind: str
    """The kind of space: "Discrete", "MultiDiscrete" or "Tuple"."""

    @classmethod
    def of(cls, count: int) -> Numbering:
        """The space of the integers 0 … count − 1, each of which is its own number."""
        return cls((count,), (0,), "Discrete")

    def to_json(self) -> dict[str, Any]:
        """The numbering as plain values, for a JSON file."""
        return {"sizes": list(self.sizes), "starts": list(self.starts), "kind": self.kind}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Numbering:
        """The inverse of to_json."""
        sizes, starts, kind = tuple(values["sizes"]), tuple(values["starts"]), values["kind"]
        whole = all(type(n) is int for n in (*sizes, *starts)) and len(sizes) == len(starts)
        if not whole or min(sizes, default=0) < 1 or kind not in ("Discrete", "MultiDiscrete", "Tuple"):
            raise ValueError(
                "A discrete space has one size of at least 1 and one start for each dimension, all of them integers, and the kind "
                f"Discrete, MultiDiscrete or Tuple; got {values}. The file is damaged."
            )
        return cls(sizes, starts, kind)

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
        except (ValueError, TypeError) as error:
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
        return np.array(point) if self.kind == "MultiDiscrete" else point

    def _parts(self, point: Any) -> tuple[Any, ...]:
        if self.kind == "Discrete":
            return (point,)
        return tuple(np.moveaxis(np.asarray(point), -1, 0)) if self.kind == "MultiDiscrete" else tuple(point)


def discrete_actions(space: Any, agent: str) -> Numbering:
    """The numbers of the actions; a TypeError for a space that is not Discrete."""
    found = numbering(space)
    if found is None or found.kind != "Discrete":
        raise TypeError(
            f"{agent} needs a Discrete action space, but this world has {space}. No agent of perstep chooses among others: "
            "offer a few actions by number, with a gymnasium.ActionWrapper."
        )
    return found


def numbering(space: Any) -> Numbering | None:
    """The numbering of a Gymnasium space; None if the space is not discrete."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Numbering((int(space.n),), (int(space.start),), "Discrete")
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return Numbering(tuple(map(int, space.nvec)), tuple(map(int, space.start)), "MultiDiscrete")
    if isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space.spaces):
        parts = [(int(part.n), int(part.start)) for part in space.spaces]  # type: ignore[attr-defined]
        return Numbering(tuple(n for n, _ in parts), tuple(start for _, start in parts), "Tuple")
    return None
