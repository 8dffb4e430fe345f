"""Arrays between an agent and its file: by name, with shapes, kinds and indices checked before compiled code meets them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.distributions import sketch
from perstep.distributions.history import Record
from perstep.files.storage import Arrays, BadFile
from perstep.rules.masses import DOUBLINGS, MOST_DOUBLINGS, WIDTH
from perstep.rules.transition import RewardEstimate

MASS_TOLERANCE = 1e-6  # of the sum of masses, which every step rounds


def flatten(name: str, arrays: Any) -> Arrays:
    """A NamedTuple of arrays as names for a file, without tuples in it."""
    return {f"{name}.{field}": getattr(arrays, field) for field in _array_fields(arrays)}


def fill(name: str, arrays: Any, saved: Arrays) -> None:
    """Copy saved arrays into a NamedTuple of arrays of the same shapes."""
    for field in _array_fields(arrays):
        put(f"{name}.{field}", getattr(arrays, field), saved)


def _array_fields(arrays: Any) -> list[str]:
    return [field for field in arrays._fields if not isinstance(getattr(arrays, field), tuple)]


def put(name: str, target: NDArray[Any], saved: Arrays) -> None:
    """Copy a saved array into one of the same shape and dtype."""
    source = saved.get(name)
    if source is None or source.shape != target.shape or source.dtype != target.dtype:
        found = "nothing" if source is None else f"{source.dtype} {source.shape}"
        raise BadFile(f"The file should hold {name} as {target.dtype} {target.shape}, but it holds {found}.")
    target[...] = source


def under(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def has_shape(arrays: Arrays, name: str, *shape: int) -> None:
    """Refuse a file whose array is not of this shape."""
    if name not in arrays or arrays[name].shape != shape:
        found = f"{arrays[name].shape}" if name in arrays else "nothing"
        raise BadFile(f"The file should hold {name} of shape {shape}, but it holds {found}.")


def within(name: str, indices: NDArray[np.int64], size: int, least: int = 0) -> None:
    """Refuse indices from a file that are out of range: compiled code does not check them."""
    if indices.size and not (least <= indices.min() and indices.max() < size):
        bad = indices[(indices < least) | (indices >= size)]
        raise BadFile(f"The file's {name} must lie between {least} and {size - 1}, got {bad.flat[0]}.")


class Limits(NamedTuple):
    """The range of the numbers of an array; one range for each column where these are arrays. All must be finite."""

    least: Any = -math.inf
    most: Any = math.inf


FINITE = Limits()


def below(size: Any, least: Any = 0) -> Limits:
    """Whole numbers from `least` that are less than `size`: indices, which compiled code does not check."""
    return Limits(np.asarray(least), np.asarray(size) - 1)


def check_limits(arrays: Arrays, limits: Mapping[str, Limits]) -> None:
    """Refuse numbers that no agent has. A name that ends in a dot stands for all arrays whose names begin with it."""
    for name, array in arrays.items():
        prefix = next((key for key in limits if key.endswith(".") and name.startswith(key)), "")
        if array.dtype.kind not in "fiu" or not (name in limits or prefix):
            continue
        least, most = limits.get(name) or limits[prefix]
        if array.dtype.kind == "f":
            finite_numbers(name, array)
        if (wrong := (array < least) | (array > most)).any():
            span = f"between {np.min(least)} and {np.max(most)}"
            raise BadFile(f"The file's {name} must lie {span}, got {array[wrong].flat[0]}.")


def finite_numbers(name: str, *arrays: NDArray[np.float64]) -> None:
    """Refuse NaN and infinite numbers from a file."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise BadFile(f"The file's {name} contains NaN or infinite numbers.")


def check_cursor(record: Record) -> None:
    """Refuse a record from a file whose next row is out of range."""
    window, filled, pending = map(int, record.cursor)
    rows = len(record.reward_rate)
    possible = window >= 1 and 0 <= filled < rows and 0 <= pending < window and rows % 2 == 0
    if not (possible and window * rows <= sketch.UNBOUNDED):
        raise BadFile(
            f"The file's record has {rows} rows and the cursor {record.cursor.tolist()}, which contradict each other."
        )


def check_masses(rewards: RewardEstimate) -> None:
    """Refuse masses from a file that are no probabilities, or a grid without end."""
    masses, grid = rewards.masses, rewards.grid
    finite_numbers("masses of the rewards", masses, grid)
    if grid.size and not (
        (masses >= 0.0).all()
        and abs(masses.sum() - 1.0) < MASS_TOLERANCE
        and grid[WIDTH] >= 0.0
        and 0.0 <= grid[DOUBLINGS] < MOST_DOUBLINGS
    ):
        raise BadFile(
            f"The file's masses of the rewards are not probabilities on a grid: {masses.tolist()}, {grid.tolist()}."
        )


def fill_sketch(tables: sketch.Sketch, saved: Arrays) -> None:
    """Fill an empty sketch from a file."""
    longest = int(tables.cursor[sketch.LONGEST])
    put("sketch.cursor", tables.cursor, saved)
    tables.cursor[sketch.LONGEST] = longest  # the settings decide
    sizes = tables.cursor[sketch.SIZES :]
    within("sketch.cursor", sizes, sketch.ENTRIES + 1)
    within("sketch.cursor", tables.cursor[sketch.WAIT : sketch.WAIT + 1], sketch.WAITING)
    values, counts, waiting = (
        np.zeros(size, kind)
        for size, kind in ((sizes.sum(), float), (sizes.sum(), np.int64), (tables.cursor[sketch.WAIT], float))
    )
    for name, array in (("values", values), ("counts", counts), ("waiting", waiting)):
        put(f"sketch.{name}", array, saved)
    sketch.put_back(tables, values, counts)
    tables.waiting[: waiting.size] = waiting
    check_sketch(tables)


def check_sketch(tables: sketch.Sketch) -> None:
    """Refuse a sketch from a file whose numbers compiled code would use as indices out of range, or search for ever."""
    if not tables.cursor.size:
        return
    length, filled, taken, waiting, stop, _ = map(int, tables.cursor[: sketch.SIZES])
    sizes = tables.cursor[sketch.SIZES :]
    if not (
        1 <= length <= sketch.UNBOUNDED
        and 0 <= filled < sketch.BLOCKS
        and 0 <= taken < length
        and 0 <= waiting < stop == min(sketch.WAITING, length - taken)
        and (0 <= sizes).all()
        and (sizes <= sketch.ENTRIES).all()
    ):
        raise BadFile(f"The file's sketch of the rewards has an impossible cursor: {tables.cursor.tolist()}.")
    finite_numbers("sketch of the rewards", sketch.waiting_rewards(tables))
    for block in range(sketch.BLOCKS):
        entries = sketch.table(tables, block)
        values, counts = tables.values[entries], tables.counts[entries]
        finite_numbers("sketch of the rewards", values)
        steps = taken if block == filled else length if filled // 2 <= block < filled else 0
        if (np.diff(values) <= 0.0).any() or (counts < 1).any() or int(counts.astype(object).sum()) != steps:
            raise BadFile("The file's sketch of the rewards is not in order, or has impossible counts.")
