"""The picture of a pendulum (the paper's figure of its two validation worlds, part b), drawn with NumPy alone.

A shape is given by its signed distance field: for each pixel, the distance to the outline, negative inside. The shape covers a
pixel by ½ − distance, clipped to [0, 1]. This gives smooth edges without a drawing library, at several hundred pictures a second.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE = 400  # pixels
ROD = 140.0  # from pivot to tip, in pixels

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


def draw(angle: float, torque: float) -> NDArray[np.uint8]:
    """The rod at `angle`, with an arrow in the direction of the torque; (SIZE, SIZE, 3)."""
    x, y = _canvas()
    image = _background().copy()  # (SIZE, SIZE, 3)
    tip = (-ROD * math.sin(angle), ROD * math.cos(angle))  # 0 is upright; positive angles are counter-clockwise
    _paint(image, _stamp(_segment(x, y, tip) - 9.0), STEEL)
    _paint(image, _stamp(_length(x - tip[0], y - tip[1]) - 4.0), SHINE)
    _paint(image, _disc(17.0), STEEL)
    _paint(image, _disc(6.0), SHINE)
    if torque:
        _paint(image, _arrow(torque > 0), MOTOR)
    return image


def _stamp(distance: Field) -> Stamp:
    """The pixels inside or on the outline of a shape, and the covered fraction of each."""
    rows, columns = np.nonzero(distance < 0.5)
    return rows, columns, np.clip(0.5 - distance[rows, columns], 0.0, 1.0)


def _paint(image: NDArray[np.uint8], stamp: Stamp, colour: tuple[int, int, int]) -> None:
    """Blend `colour` over the pixels of a stamp."""
    rows, columns, cover = stamp
    below = image[rows, columns].astype(np.float32)  # (P, 3)
    above = np.array(colour, dtype=np.float32)
    image[rows, columns] = np.rint(below + cover[:, None] * (above - below)).astype(np.uint8)


@cache
def _canvas() -> tuple[Field, Field]:
    """Coordinates of the pixels. The pivot is the origin; x points right, y points up."""
    along = np.arange(SIZE, dtype=np.float32) + np.float32(0.5 - SIZE / 2)
    x, y = np.meshgrid(along, -along)
    return x, y


@cache
def _background() -> NDArray[np.uint8]:
    """The parts that never move: the circle on which the tip moves, and a mark at the goal; (SIZE, SIZE, 3)."""
    x, y = _canvas()
    image = np.empty((SIZE, SIZE, 3), dtype=np.uint8)
    image[:] = PAPER
    _paint(image, _stamp(np.abs(_length(x, y) - ROD) - 1.5), TRACK)
    _paint(image, _stamp(_segment(x, y - (ROD + 17.0), (0.0, 14.0)) - 3.0), GOAL)
    return image


@cache
def _disc(radius: float) -> Stamp:
    """A disc around the pivot."""
    return _stamp(_length(*_canvas()) - radius)


def _length(x: Field, y: Field) -> Field:
    return np.asarray(np.sqrt(x * x + y * y))


def _segment(x: Field, y: Field, end: tuple[float, float]) -> Field:
    """Distance to the segment from the origin to `end`."""
    along = np.clip((x * end[0] + y * end[1]) / (end[0] ** 2 + end[1] ** 2), 0.0, 1.0)
    return _length(x - along * end[0], y - along * end[1])


@cache
def _arrow(counter_clockwise: bool) -> Stamp:
    """A curved arrow around the pivot, open at the bottom."""
    x, y = _canvas()
    x = x if counter_clockwise else -x
    ring, first, last = 46.0, math.radians(-60.0), math.radians(150.0)
    middle, reach = (first + last) / 2, (last - first) / 2
    # Rotate so that the middle of the arc points up; the arc is then symmetric about the vertical axis.
    right = np.abs(x * math.sin(middle) - y * math.cos(middle))
    up = x * math.cos(middle) + y * math.sin(middle)
    beside = right * math.cos(reach) < up * math.sin(reach)
    end = _length(right - ring * math.sin(reach), up - ring * math.cos(reach))
    arc = np.where(beside, np.abs(_length(right, up) - ring), end) - 3.0
    # The head: a triangle at the end of the arc, along the tangent there.
    outwards = x * math.cos(last) + y * math.sin(last) - ring
    onwards = y * math.cos(last) - x * math.sin(last)
    length, width = 22.0, 12.0
    sides = (np.abs(outwards) * length + onwards * width - width * length) / math.hypot(length, width)
    return _stamp(np.minimum(arc, np.maximum(sides, -onwards)))
