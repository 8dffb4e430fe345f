"""Observations for networks: how those of a Gymnasium space are kept in the replay, and how a network reads them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.schedules import is_finite

Layout = Literal["channels-first", "channels-last", "plane", "vector", "discrete"]

DIMENSIONS = {"channels-first": 3, "channels-last": 3, "plane": 2, "discrete": 0}  # a vector may have any


@dataclass(frozen=True)
class Observations:
    """How the observations of one world are kept and read."""

    shape: tuple[int, ...]
    """The shape of one kept observation."""
    dtype: str
    """The dtype of a kept observation: at most as wide as float32, which the network reads."""
    layout: Layout
    """The position of the channels in an image, or the kind of observation if it is no image."""
    scale: float = 1.0
    """The factor of kept numbers when they are read: 1/255 for bytes."""
    count: int = 0
    """The number of points of a Discrete space."""
    start: int = 0
    """The first point of a Discrete space."""

    @property
    def is_image(self) -> bool:
        """Whether it has height and width."""
        return self.layout in ("channels-first", "channels-last", "plane")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one observation as the network reads it: (channels, height, width), or (numbers,)."""
        if self.layout == "channels-last":
            height, width, channels = self.shape
            return channels, height, width
        if self.layout == "plane":
            return (1, *self.shape)
        if self.layout == "discrete":
            return (self.count,)
        return self.shape if self.is_image else (math.prod(self.shape),)

    def keep(self, observation: Any) -> NDArray[Any]:
        """One observation, or a batch of them, as the replay keeps it."""
        given = np.asarray(observation)
        with np.errstate(invalid="ignore", over="ignore"):
            kept = given.astype(self.dtype, copy=False)
        if kept.dtype.kind != "f" and kept.dtype != given.dtype and (kept != given).any():
            raise ValueError(
                f"An observation must hold numbers of type {self.dtype}, got {given.dtype} numbers that do not fit in it. "
                "Give it as the world does: an image as bytes from 0 to 255."
            )
        batched = kept.ndim - len(self.shape)
        if batched not in (0, 1) or kept.shape[batched:] != self.shape:
            raise ValueError(
                f"An observation must have shape {self.shape}, and a batch one more axis in front, got {kept.shape}. "
                "If the world returned it, correct its observation_space."
            )
        if kept.dtype.kind == "f" and not np.isfinite(kept).all():
            raise ValueError(
                "An observation must hold finite numbers, got NaN or infinite ones. Correct the observations of the world; "
                "the agent is as it was before this step."
            )
        if self.layout == "discrete" and not (kept.min() >= self.start and kept.max() < self.start + self.count):
            last = self.start + self.count - 1
            raise ValueError(f"An observation must be a number from {self.start} to {last}, got {kept.tolist()}.")
        return kept

    def to_json(self) -> dict[str, Any]:
        """Plain values, for files."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Observations:
        """The inverse of to_json."""
        made = cls(**{**values, "shape": tuple(values["shape"])})
        kept, dimensions = np.dtype(made.dtype), DIMENSIONS.get(made.layout, -1)
        whole = all(type(n) is int for n in (*made.shape, made.count, made.start))
        fits = made.layout == "vector" or len(made.shape) == dimensions
        numbers = kept.kind in "biuf" and kept.itemsize <= 4 and is_finite(made.scale) and made.scale > 0
        sizes = whole and min(made.shape, default=1) >= 1 and made.count >= (made.layout == "discrete")
        if not (fits and numbers and sizes):
            raise ValueError(f"The description of observations contradicts itself: {values}.")
        return made


def observations_of(space: Any) -> Observations:
    """How to keep and read the observations of a Box or Discrete space; any other space is refused with a sentence."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Observations((), "int32", "discrete", count=int(space.n), start=int(space.start))
    if isinstance(space, spaces.MultiBinary):
        return Observations(tuple(space.shape), "int8", "vector")
    if not isinstance(space, spaces.Box):
        raise TypeError(
            f"A network reads boxes of numbers (images or vectors) and discrete observations, but this world has {space}. "
            "Wrap it with gymnasium.wrappers.FlattenObservation."
        )
    if len(space.shape) > 3:
        raise TypeError(
            f"A network reads images of up to three dimensions, but this world has {space}. Convert its frames to grayscale before "
            "you stack them, or flatten them with gymnasium.wrappers.FlattenObservation."
        )
    kept = space.dtype if space.dtype.itemsize < 4 else np.dtype(np.float32)
    shape = tuple(map(int, space.shape))
    scale = 1 / 255 if space.dtype == np.uint8 and np.max(space.high) > 1 else 1.0
    return Observations(shape, str(kept), _layout(shape, space.dtype), scale)


def _layout(shape: tuple[int, ...], dtype: Any) -> Layout:
    """The channels of an image are its smallest dimension; the first one if that does not decide."""
    if len(shape) == 3:
        return "channels-last" if shape[2] < min(shape[:2]) else "channels-first"
    return "plane" if len(shape) == 2 and dtype == np.uint8 else "vector"
