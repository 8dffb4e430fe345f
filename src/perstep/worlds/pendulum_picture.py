"""The picture of a pendulum (the paper's figure of its two validation worlds, part b)."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perstep.display.shapes import (
    GOAL,
    MOTOR,
    SHINE,
    STEEL,
    TRACK,
    Stamp,
    blank,
    canvas,
    length,
    paint,
    segment,
    stamp,
)

ROD = 140.0  # from pivot to tip, in pixels


def draw(angle: float, torque: float) -> NDArray[np.uint8]:
    """The rod at `angle`, with an arrow in the direction of the torque; (SIZE, SIZE, 3)."""
    x, y = canvas()
    image = _background().copy()  # (SIZE, SIZE, 3)
    tip = (-ROD * math.sin(angle), ROD * math.cos(angle))  # 0 is upright; positive angles are counter-clockwise
    paint(image, stamp(segment(x, y, tip) - 9.0), STEEL)
    paint(image, stamp(length(x - tip[0], y - tip[1]) - 4.0), SHINE)
    paint(image, _disc(17.0), STEEL)
    paint(image, _disc(6.0), SHINE)
    if torque:
        paint(image, _arrow(torque > 0), MOTOR)
    return image


@cache
def _background() -> NDArray[np.uint8]:
    """The parts that never move: the circle on which the tip moves, and a mark at the goal; (SIZE, SIZE, 3)."""
    x, y = canvas()
    image = blank()
    paint(image, stamp(np.abs(length(x, y) - ROD) - 1.5), TRACK)
    paint(image, stamp(segment(x, y - (ROD + 17.0), (0.0, 14.0)) - 3.0), GOAL)
    return image


@cache
def _disc(radius: float) -> Stamp:
    """A disc around the pivot."""
    return stamp(length(*canvas()) - radius)


@cache
def _arrow(counter_clockwise: bool) -> Stamp:
    """A curved arrow around the pivot, open at the bottom."""
    x, y = canvas()
    x = x if counter_clockwise else -x
    ring, first, last = 46.0, math.radians(-60.0), math.radians(150.0)
    middle, reach = (first + last) / 2, (last - first) / 2
    # Rotate so that the middle of the arc points up; the arc is then symmetric about the vertical axis.
    right = np.abs(x * math.sin(middle) - y * math.cos(middle))
    up = x * math.cos(middle) + y * math.sin(middle)
    beside = right * math.cos(reach) < up * math.sin(reach)
    end = length(right - ring * math.sin(reach), up - ring * math.cos(reach))
    arc = np.where(beside, np.abs(length(right, up) - ring), end) - 3.0
    # The head: a triangle at the end of the arc, along the tangent there.
    outwards = x * math.cos(last) + y * math.sin(last) - ring
    onwards = y * math.cos(last) - x * math.sin(last)
    height, width = 22.0, 12.0
    sides = (np.abs(outwards) * height + onwards * width - width * height) / math.hypot(height, width)
    return stamp(np.minimum(arc, np.maximum(sides, -onwards)))
