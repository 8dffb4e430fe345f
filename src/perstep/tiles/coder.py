"""Tile coding, from a point to the few features active there: the paper's x(s) in actor-critics (Algorithms 5, 9, 12).

Each of K tilings is a grid over the box, displaced by a fraction of a tile. A coordinate is first cut into K steps a
tile; tiling k then sees the step number plus its own offset b < K. With q = K·w + r that is tile w, or w + 1 where
r + b ≥ K. So one division a dimension serves all tilings, and each adds a comparison.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.system.budget import claim

LARGEST_TABLE = 2**27  # features: one weight each is one GiB; a larger table must be hashed

MOST_STEPS = 2**53  # of all tilings along a dimension: above it, a coordinate as a float misses some
_NO_BOUND = 1e30  # worlds that mean infinity may write the largest float instead

_GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio, the step of the splitmix64 sequence
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


class Tiling(NamedTuple):
    """A tile coder as plain arrays, for compiled code (D dimensions, K tilings). None of them can be written to: the active tiles
    are indices that no loop checks, and agents share their coders."""

    low: NDArray[np.float64]  # (D,)
    high: NDArray[np.float64]  # (D,)
    scale: NDArray[np.float64]  # (D,) steps per unit, K·tiles / (high − low)
    tiles: NDArray[np.int64]  # (D,)
    last: NDArray[np.int64]  # (D,) the step number of the upper bound
    wraps: NDArray[np.bool_]  # (D,)
    stride: NDArray[np.int64]  # (D,) what one tile further adds to the index; a random odd number where hashed
    offset: NDArray[np.int64]  # (D, K) displacement in steps, below K
    start: NDArray[np.int64]  # (K,) where the block of each tiling begins
    slots: int  # features per block where hashed, otherwise 0


@compiled
def active_tiles(tiling: Any, point: Any, out: Any) -> Any:
    """Fill `out` (K,) with the active feature of each tiling at `point` (D,).

    Returns how many coordinates were outside the box and were clipped to it. A wrapped coordinate is outside only if it is
    infinite. An infinite wrapped coordinate and a NaN count as clipped and go to the lower bound.
    """
    tilings = len(tiling.start)
    hashed = tiling.slots > 0
    clipped = 0
    for k in range(tilings):
        out[k] = 0 if hashed else tiling.start[k]
    for d in range(len(tiling.low)):
        x = point[d]
        steps = (x - tiling.low[d]) * tiling.scale[d]
        if tiling.wraps[d]:
            turn = tilings * tiling.tiles[d]
            steps -= math.floor(steps / turn) * turn
            if x == tiling.high[d] or not 0.0 <= steps < turn:  # a whole turn up to rounding, or not finite
                steps = 0.0
                clipped += not math.isfinite(x)
            q = np.int64(steps)
        elif x >= tiling.high[d]:
            q = tiling.last[d]
            clipped += x > tiling.high[d]
        elif x >= tiling.low[d]:
            q = max(np.int64(0), min(np.int64(steps), tiling.last[d]))  # the largest error of rounding must stay inside
        else:
            q = np.int64(0)
            clipped += 1
        tile = q // tilings
        due = tilings - (q - tile * tilings)  # tilings displaced by at least this many steps are one tile further
        here = tile * tiling.stride[d]
        there = here + tiling.stride[d]
        if tiling.wraps[d] and tile + 1 == tiling.tiles[d]:
            there = 0
        for k in range(tilings):
            out[k] += there if tiling.offset[d, k] >= due else here
    if hashed:
        for k in range(tilings):
            out[k] = tiling.start[k] + _slot(out[k], k, tiling.slots)
    return clipped


@compiled
def _slot(key: Any, k: Any, slots: Any) -> Any:
    """A slot below `slots` (< 2³²) for the tile `key` of tiling k: the finaliser of splitmix64, then its upper half."""
    word = np.uint64(key) + np.uint64(k + 1) * np.uint64(_GOLDEN)
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    word = word ^ (word >> _31)
    return np.int64(((word >> _32) * np.uint64(slots)) >> _32)


@dataclass(frozen=True, kw_only=True)
class TileCoder:
    """Turns a point of a box into `tilings` active features, one in each tiling.

    The features of tiling k stand together in block k, so two tilings never share one. A displaced grid needs one tile
    more than `tiles` along a dimension that does not wrap: the paper's 32 tilings of 8 × 8 are 32·9·9 = 2592 features.
    A single tiling is not displaced and has exactly `tiles`: with `low=(0,), high=(n,), tilings=1, tiles=n` the
    features are a table of the states 0 … n − 1.
    """

    low: Sequence[float] | NDArray[Any]
    """Lower bounds, one per dimension."""
    high: Sequence[float] | NDArray[Any]
    """Upper bounds, one per dimension; the bound itself belongs to the box. Points outside are clipped."""
    tilings: int = 32
    """Number of grids. Best a power of two, at least four times the number of dimensions (Sutton & Barto, §9.5.4)."""
    tiles: int | Sequence[int] = 8
    """The number of tiles across the box in every dimension, or one number per dimension."""
    wrap: Sequence[int] = ()
    """Periodic dimensions, such as angles: there `high` is the same point as `low`."""
    table_size: int | None = None
    """The largest number of features. If the full table has more, each tiling is hashed into its share of this size (rounded
    down to a multiple of `tilings`). None: always the full table."""

    def __post_init__(self) -> None:
        low, high = _bounds(self.low, self.high)
        dimensions = len(low)
        if self.tilings < 1 or self.tilings != int(self.tilings):
            raise ValueError(f"tilings must be a whole number of at least 1, got {self.tilings}. The paper uses 32.")
        tiles = np.broadcast_to(self.tiles, dimensions) if np.ndim(self.tiles) == 0 else np.asarray(self.tiles)
        if tiles.shape != (dimensions,):
            raise ValueError(
                f"tiles must be one number, or one for each of the {dimensions} dimensions, got {self.tiles}. "
                f"Give for instance tiles={(8,) * dimensions}."
            )
        claim(
            32 * dimensions * int(self.tilings),
            f"tile coding with {self.tilings:,} tilings of {dimensions:,} dimensions",
            "Choose fewer tilings.",
        )
        if not np.issubdtype(tiles.dtype, np.integer) or (tiles < 1).any():
            raise ValueError(
                f"tiles must be whole numbers of at least 1, got {self.tiles}. "
                f"Leave a dimension that should not count out of the point."
            )
        if int(self.tilings) * max(map(int, tiles)) > MOST_STEPS:
            raise ValueError(
                f"tiles must be at most {MOST_STEPS // int(self.tilings):,} for {self.tilings} tilings, got {self.tiles}. "
                "Choose fewer tiles."
            )
        for d in self.wrap:
            if d not in range(dimensions):
                raise ValueError(
                    f"wrap must name dimensions from 0 to {dimensions - 1}, got {d}. "
                    f"Leave it out, or give low and high for that dimension too."
                )
        if self.table_size is not None and self.table_size < self.tilings:
            raise ValueError(
                f"table_size must be at least 1 feature for each of the {self.tilings} tilings, "
                f"got {self.table_size}. Give a larger table or fewer tilings."
            )
        if self.table_size is not None and self.table_size // self.tilings >= 2**32:
            raise ValueError(
                f"table_size must be below 2³² features per tiling, got {self.table_size}. Give a smaller table."
            )
        for name, value in (  # plain tuples: equal coders compare equal, and hash
            ("low", tuple(map(float, low))),
            ("high", tuple(map(float, high))),
            ("tilings", int(self.tilings)),
            ("tiles", tuple(map(int, tiles))),
            ("wrap", tuple(sorted({int(d) for d in self.wrap}))),
        ):
            object.__setattr__(self, name, value)
        with np.errstate(divide="ignore", over="ignore"):
            scale = self.tilings * tiles / (high - low)
        if not np.isfinite(scale).all():
            d = int(np.argmin(np.isfinite(scale)))
            raise ValueError(
                f"low and high must be far enough apart for {self.tilings * int(tiles[d])} steps between them, but dimension "
                f"{d} spans {low[d]} to {high[d]}. Widen the range."
            )
        if self.table_size is None and self.full_size > LARGEST_TABLE:
            raise ValueError(
                f"The full table of this coder would have {self.full_size} features. "
                f"Give table_size=, for instance {LARGEST_TABLE // 8}, to hash the tiles into that many."
            )

    @property
    def dimensions(self) -> int:
        """Number of coordinates of a point, D."""
        return len(self.low)

    @property
    def cells(self) -> tuple[int, ...]:
        """The number of tiles of one tiling along each dimension, (D,): one more than `tiles` where the grid is displaced."""
        assert isinstance(self.tiles, tuple)
        displaced = self.tilings > 1
        return tuple(n + (displaced and d not in self.wrap) for d, n in enumerate(self.tiles))

    @property
    def full_size(self) -> int:
        """Number of tiles in all tilings."""
        return self.tilings * math.prod(self.cells)

    @property
    def hashed(self) -> bool:
        """Whether tiles of one tiling may share a feature, as the table is smaller than the number of tiles."""
        return self.table_size is not None and self.table_size < self.full_size

    @property
    def num_features(self) -> int:
        """Length of the weight vector: every active index is below it."""
        if self.table_size is not None and self.hashed:
            return self.tilings * (self.table_size // self.tilings)
        return self.full_size

    @cached_property
    def arrays(self) -> Tiling:
        """The coder for compiled code; made once."""
        low, high = np.array(self.low), np.array(self.high)
        tiles = np.array(self.tiles, dtype=np.int64)
        wraps = np.isin(np.arange(self.dimensions), self.wrap)
        if self.hashed:
            # Products with random odd numbers, modulo 2⁶⁴: tiles get different keys in any number of dimensions, where
            # the index of the full table would overflow. The numbers are fixed: saved weights keep their meaning.
            words = [_splitmix(d) | 1 for d in range(self.dimensions)]
            stride = np.array(words, dtype=np.uint64).view(np.int64)
        else:
            further = accumulate(reversed(self.cells[1:]), operator.mul, initial=1)
            stride = np.array([*further], dtype=np.int64)[::-1].copy()
        displacement = np.array(_displacements(self.dimensions, self.tilings), dtype=np.int64)
        tilings = np.arange(self.tilings, dtype=np.int64)
        tiling = Tiling(
            low=low,
            high=high,
            scale=self.tilings * tiles / (high - low),
            tiles=tiles,
            last=self.tilings * tiles - (self.tilings == 1),
            wraps=wraps,
            stride=stride,
            offset=displacement[:, None] * tilings % self.tilings,
            start=tilings * (self.num_features // self.tilings),
            slots=self.num_features // self.tilings if self.hashed else 0,
        )
        for array in tiling[:-1]:
            array.flags.writeable = False
        return tiling

    def __deepcopy__(self, memo: dict[int, Any]) -> TileCoder:
        """A coder is a value: its copy is itself."""
        return self

    def active(self, point: Sequence[float] | NDArray[Any]) -> NDArray[np.int64]:
        """The active features at `point` (D,), one per tiling, (tilings,). A point outside the box is clipped to it."""
        place = np.asarray(point, dtype=np.float64)
        if place.shape != (self.dimensions,):
            raise ValueError(
                f"A point must have shape {(self.dimensions,)}, one number per dimension, got shape {place.shape}."
            )
        if np.isnan(place).any():
            raise ValueError(f"A point must not contain NaN, got {place}. Find out where the NaN comes from.")
        out = np.empty(self.tilings, dtype=np.int64)
        active_tiles(self.arrays, place, out)
        return out


def bounded(bound: float) -> bool:
    """Whether a number bounds a range that tiles can cover."""
    return abs(bound) < _NO_BOUND


def no_bounds(dimension: str, low: float, high: float) -> ValueError:
    """The error for a dimension without bounds."""
    return ValueError(
        f"low and high must be finite, but {dimension} spans {low} to {high}. Give as low= and high= the range "
        f"that the coordinate really visits (points outside are clipped to it), or transform it first."
    )


def _bounds(low: Any, high: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The bounds as arrays (D,); a ValueError if they are not those of a box."""
    lower, upper = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if lower.ndim != 1 or lower.shape != upper.shape or not lower.size:
        raise ValueError(
            f"low and high must be two sequences of the same length, one number per dimension, got shapes "
            f"{lower.shape} and {upper.shape}. Give for instance low=(-1.0, 0.0), high=(1.0, 5.0)."
        )
    for d, (a, b) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        if not (bounded(a) and bounded(b)):
            raise no_bounds(f"dimension {d}", a, b)
        if a >= b:
            raise ValueError(f"low must be below high, but dimension {d} spans {a} to {b}. Exchange or widen them.")
    return lower, upper


def _displacements(dimensions: int, tilings: int) -> list[int]:
    """Steps from one tiling to the next: the first odd numbers 1, 3, 5, … that share no factor with `tilings`.

    They are asymmetric, so that tilings do not line up along the diagonal (Sutton & Barto 2018, §9.5.4). A common factor would
    make displacements repeat: with 3 tilings, the usual 3 would not displace the second dimension at all.
    """
    found: list[int] = []
    odd = 1
    while len(found) < dimensions:
        if math.gcd(odd, tilings) == 1:
            found.append(odd)
        odd += 2
    return found


def _splitmix(n: int) -> int:
    """Word n of the splitmix64 sequence that starts at 0."""
    word = (n + 1) * _GOLDEN % 2**64
    word = (word ^ (word >> 30)) * int(_MIX_1) % 2**64
    word = (word ^ (word >> 27)) * int(_MIX_2) % 2**64
    return word ^ (word >> 31)
