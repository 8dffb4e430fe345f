"""The picture of PuckWorld: the square, the target, the puck, and the direction of the last push."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from perstep.display.shapes import GOAL, MOTOR, STEEL, TRACK, blank, canvas, length, paint, segment, stamp

SIDE = 340.0  # of the square, in pixels
PUCK, TARGET = 14.0, 20.0  # radii, in pixels

Point = tuple[float, float]


def draw(puck: Point, target: Point, push: Point) -> NDArray[np.uint8]:
    """Puck and target at points of the unit square, and a flame opposite to the push; (SIZE, SIZE, 3)."""
    x, y = canvas()
    image = _background().copy()
    for ring in (0.0, 9.0):
        paint(image, stamp(np.abs(length(x - _pixel(target[0]), y - _pixel(target[1])) - (TARGET - ring)) - 2.5), GOAL)
    from_puck = x - _pixel(puck[0]), y - _pixel(puck[1])
    if push != (0.0, 0.0):
        paint(image, stamp(segment(*from_puck, (-26.0 * push[0], -26.0 * push[1])) - 5.0), MOTOR)
    paint(image, stamp(length(*from_puck) - PUCK), STEEL)
    return image


def _pixel(position: float) -> float:
    return (position - 0.5) * SIDE


@cache
def _background() -> NDArray[np.uint8]:
    """The walls; (SIZE, SIZE, 3)."""
    x, y = canvas()
    image = blank()
    half = SIDE / 2 + PUCK  # the centre of the puck moves within the unit square
    paint(image, stamp(np.abs(np.maximum(np.abs(x), np.abs(y)) - half) - 2.0), TRACK)
    return image
