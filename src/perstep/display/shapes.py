"""Pictures of worlds, drawn with NumPy alone.

A shape is given by its signed distance field: for each pixel, the distance to the outline, negative inside. The shape covers a
pixel by ½ − distance, clipped to [0, 1]. This gives smooth edges without a drawing library, at several hundred pictures a second.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE = 400  # pixels

PAPER = (250, 250, 247)
TRACK = (225, 228, 231)
GOAL = (64, 145, 108)
STEEL = (44, 82, 120)
SHINE = (244, 246, 248)
MOTOR = (228, 118, 44)

Field = NDArray[Any]  # (SIZE, SIZE), of float32
Stamp = tuple[
    NDArray[Any], NDArray[Any], NDArray[Any]
]  # rows, columns and coverage of the pixels inside a shape, (P,) each


def stamp(distance: Field) -> Stamp:
    """The pixels inside or on the outline of a shape, and the covered fraction of each."""
    rows, columns = np.nonzero(distance < 0.5)
    return rows, columns, np.clip(0.5 - distance[rows, columns], 0.0, 1.0)


def paint(image: NDArray[np.uint8], shape: Stamp, colour: tuple[int, int, int]) -> None:
    """Blend `colour` over the pixels of a stamp."""
    rows, columns, cover = shape
    below = image[rows, columns].astype(np.float32)  # (P, 3)
    above = np.array(colour, dtype=np.float32)
    image[rows, columns] = np.rint(below + cover[:, None] * (above - below)).astype(np.uint8)


@cache
def canvas() -> tuple[Field, Field]:
    """Coordinates of the pixels. The origin is the centre; x points right, y points up."""
    along = np.arange(SIZE, dtype=np.float32) + np.float32(0.5 - SIZE / 2)
    x, y = np.meshgrid(along, -along)
    return x, y


def blank() -> NDArray[np.uint8]:
    """An empty picture; (SIZE, SIZE, 3)."""
    image = np.empty((SIZE, SIZE, 3), dtype=np.uint8)
    image[:] = PAPER
    return image


def length(x: Field, y: Field) -> Field:
    """Distance to the origin."""
    return np.asarray(np.sqrt(x * x + y * y))


def segment(x: Field, y: Field, end: tuple[float, float]) -> Field:
    """Distance to the segment from the origin to `end`."""
    along = np.clip((x * end[0] + y * end[1]) / (end[0] ** 2 + end[1] ** 2), 0.0, 1.0)
    return length(x - along * end[0], y - along * end[1])
