"""Tile coding: indices worked out by hand, a slow reference, and the laws that any coder obeys."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perstep.tiles.coder import LARGEST_TABLE, TileCoder, active_tiles

PI = math.pi


def paper_coder(**changes: Any) -> TileCoder:
    return TileCoder(low=(-PI, -2 * PI), high=(PI, 2 * PI), **{"tilings": 32, "tiles": 8, **changes})


def displacements(coder: TileCoder) -> list[int]:
    odd = (n for n in itertools.count(1, 2) if math.gcd(n, coder.tilings) == 1)
    return list(itertools.islice(odd, coder.dimensions))


def reference_cells(coder: TileCoder, point: Any) -> list[tuple[int, ...]]:
    """The tile of each tiling, slowly: the coordinate in steps of 1/K tile, plus the offset, in whole tiles."""
    cells = []
    for k in range(coder.tilings):
        cell = []
        for d, (x, low, high, tiles) in enumerate(
            zip(point, coder.low, coder.high, coder.arrays.tiles.tolist(), strict=True)
        ):
            steps = coder.tilings * tiles
            scale = steps / (high - low)
            offset = k * displacements(coder)[d] % coder.tilings
            if d in coder.wrap:
                q = 0 if x == high else math.floor((x - low) * scale - math.floor((x - low) * scale / steps) * steps)
                cell.append((q % steps + offset) // coder.tilings % tiles)
            else:
                q = steps if x >= high else 0 if x <= low else min(math.floor((x - low) * scale), steps)
                cell.append(min((q + offset) // coder.tilings, coder.cells[d] - 1))
        cells.append(tuple(cell))
    return cells


def reference(coder: TileCoder, point: Any) -> list[int]:
    block = math.prod(coder.cells)
    return [
        k * block + int(np.ravel_multi_index(cell, coder.cells)) for k, cell in enumerate(reference_cells(coder, point))
    ]


def count_clipped(coder: TileCoder, point: Any) -> int:
    return int(active_tiles(coder.arrays, np.array(point, dtype=float), np.empty(coder.tilings, dtype=np.int64)))


# --- By hand


def test_one_dimension_by_hand() -> None:
    # [0, 4] in 4 tiles, 2 tilings: 2 steps a tile, 5 tiles a tiling (one more, as tiling 1 is displaced by a step).
    # x = 1.6 is step ⌊3.2⌋ = 3. Tiling 0: (3 + 0) // 2 = tile 1, index 1. Tiling 1: (3 + 1) // 2 = tile 2, index 5 + 2.
    coder = TileCoder(low=(0.0,), high=(4.0,), tilings=2, tiles=4)
    assert coder.num_features == 10
    assert coder.active((1.6,)).tolist() == [1, 7]
    # The bounds: step 0 is tile 0 in both; step 8 is tile 8 // 2 = 4 and 9 // 2 = 4.
    assert coder.active((0.0,)).tolist() == [0, 5]
    assert coder.active((4.0,)).tolist() == [4, 9]


def test_two_dimensions_by_hand() -> None:
    # [0, 2] × [0, 3] in 2 × 3 tiles, 4 tilings: 3 × 4 = 12 tiles a tiling. (0.9, 1.3) is steps ⌊3.6⌋ = 3 and ⌊5.2⌋ = 5.
    # Offsets of tilings 0 … 3: 0 1 2 3, and with displacement 3: 0 3 6 9, modulo 4 that is 0 3 2 1.
    # First:  (3 + 0, 1, 2, 3) // 4 = 0 1 1 1.  Second: (5 + 0, 3, 2, 1) // 4 = 1 2 1 1.
    # Index 12k + 4·first + second: 0 + 0 + 1, 12 + 4 + 2, 24 + 4 + 1, 36 + 4 + 1.
    coder = TileCoder(low=(0.0, 0.0), high=(2.0, 3.0), tilings=4, tiles=(2, 3))
    assert coder.cells == (3, 4)
    assert coder.active((0.9, 1.3)).tolist() == [1, 18, 29, 41]


def test_wrapped_dimension_by_hand() -> None:
    # [0, 4) closed to a circle, 4 tiles, 2 tilings: no tile to spare, 4 a tiling.
    # x = 3.7 is step 7. Tiling 0: 7 // 2 = 3. Tiling 1: 8 // 2 = 4, which is tile 0 again, index 4 + 0.
    coder = TileCoder(low=(0.0,), high=(4.0,), tilings=2, tiles=4, wrap=(0,))
    assert coder.num_features == 8
    assert coder.active((3.7,)).tolist() == [3, 4]
    assert coder.active((0.2,)).tolist() == [0, 4]  # across the seam tiling 1 still agrees
    assert coder.active((-0.3,)).tolist() == [3, 4]  # 3.7 once more
    assert coder.active((4.2,)).tolist() == [0, 4]


def test_common_factor_of_tilings_and_displacement_is_avoided() -> None:
    # 3 tilings: 3 would displace the second dimension by 0, 3, 6 ≡ 0, never; 5 gives 0, 5, 10 ≡ 0, 2, 1.
    coder = TileCoder(low=(0.0, 0.0), high=(1.0, 1.0), tilings=3, tiles=1)
    assert coder.arrays.offset.tolist() == [[0, 1, 2], [0, 2, 1]]


# --- The paper's setting


def test_papers_setting_has_2592_features_and_uses_each() -> None:
    coder = paper_coder(table_size=4096)  # the authors' table, larger than needed
    assert (coder.num_features, coder.hashed) == (32 * 9 * 9, False)
    # 256 steps a dimension and the upper bound; the middle of each step, so that rounding decides nothing.
    angles = [*(-PI + (np.arange(256) + 0.5) * 2 * PI / 256), PI]
    velocities = [*(-2 * PI + (np.arange(256) + 0.5) * 4 * PI / 256), 2 * PI]
    seen = {int(i) for point in itertools.product(angles, velocities) for i in coder.active(point)}
    assert seen == set(range(2592))


def test_same_tiles_as_the_usual_coder_up_to_their_names() -> None:
    # The usual rule: tiling k sees (q + k·(2d + 1)) // K, whatever number that is, and a hash table names the tuples.
    # Ours must share a tile exactly where that one does: a one-to-one map between the two sets of names.
    coder = paper_coder()
    rng = np.random.default_rng(0)
    ours_to_usual: dict[int, tuple[int, ...]] = {}
    for point in [*rng.uniform(coder.low, coder.high, (3000, 2)), (PI, 0.0), (-PI, 0.0)]:
        q = [math.floor((x - a) * 256 / (b - a)) for x, a, b in zip(point, coder.low, coder.high, strict=True)]
        for k, ours in enumerate(coder.active(point)):
            usual = (k, (q[0] + k) // 32, (q[1] + 3 * k) // 32)
            assert ours_to_usual.setdefault(int(ours), usual) == usual
    assert len(set(ours_to_usual.values())) == len(ours_to_usual)


def test_start_of_the_pendulum_differs_across_the_seam_unless_wrapped() -> None:
    plain, wrapped = paper_coder(), paper_coder(wrap=(0,))
    assert not set(plain.active((PI, 0.0))) & set(plain.active((-PI, 0.0)))
    assert wrapped.num_features == 32 * 8 * 9
    assert wrapped.active((PI, 0.0)).tolist() == wrapped.active((-PI, 0.0)).tolist()
    # A step is 2π/256 ≈ 0.025: half a step on either side of the seam the tiles differ in one tiling of 32.
    left, right = wrapped.active((PI - 0.01, 0.0)), wrapped.active((-PI + 0.01, 0.0))
    assert (left != right).sum() == 1


# --- One-hot


@pytest.mark.parametrize("states", [1, 2, 3, 7, 49, 1000])
@pytest.mark.parametrize("edges", ["ends", "halves", "closed"])
def test_one_tiling_is_a_table(states: int, edges: str) -> None:
    low, high = {"ends": (0.0, states), "halves": (-0.5, states - 0.5), "closed": (0.0, max(states - 1, 1))}[edges]
    coder = TileCoder(low=(low,), high=(high,), tilings=1, tiles=states)
    assert coder.num_features == states
    assert [coder.active((s,)).tolist() for s in range(states)] == [[s] for s in range(states)]


def test_one_tiling_of_two_dimensions_is_a_grid() -> None:
    coder = TileCoder(low=(0, 0), high=(4, 3), tilings=1, tiles=(4, 3))
    assert [coder.active(p).tolist() for p in itertools.product(range(4), range(3))] == [[i] for i in range(12)]


# --- Laws


@st.composite
def coders(draw: st.DrawFn) -> TileCoder:
    dimensions = draw(st.integers(1, 5))
    low = [draw(st.floats(-1e3, 1e3)) for _ in range(dimensions)]
    width = [draw(st.floats(1e-2, 1e3)) for _ in range(dimensions)]
    return TileCoder(
        low=low,
        high=[a + w for a, w in zip(low, width, strict=True)],
        tilings=draw(st.integers(1, 33)),
        tiles=[draw(st.integers(1, 6)) for _ in range(dimensions)],
        wrap=draw(st.lists(st.integers(0, dimensions - 1), unique=True)),
    )


def points_of(coder: TileCoder, beyond: float = 0.5) -> st.SearchStrategy[tuple[float, ...]]:
    """Points of the box and around it."""
    spans = zip(coder.low, coder.high, strict=True)
    return st.tuples(*(st.floats(a - beyond * (b - a), b + beyond * (b - a)) for a, b in spans))


@given(st.data())
def test_compiled_equals_the_slow_reference(data: st.DataObject) -> None:
    coder = data.draw(coders())
    point = data.draw(points_of(coder))
    assert coder.active(point).tolist() == reference(coder, point)


@given(st.data())
def test_one_tile_in_the_block_of_each_tiling(data: st.DataObject) -> None:
    coder = data.draw(coders())
    active = coder.active(data.draw(points_of(coder)))
    block = coder.num_features // coder.tilings
    assert active.dtype == np.int64
    assert (active // block).tolist() == list(range(coder.tilings))


@given(st.data())
def test_tilings_shared_fall_by_one_a_step(data: st.DataObject) -> None:
    # Two points j steps of 1/K tile apart along one dimension lie in different tiles of exactly min(j, K) tilings.
    coder = data.draw(coders().filter(lambda c: c.tilings > 1))
    d = data.draw(st.integers(0, coder.dimensions - 1))
    steps = coder.tilings * int(coder.arrays.tiles[d])
    first = data.draw(st.integers(0, steps - 1))
    second = data.draw(st.integers(0, steps - 1))
    at = (np.array(coder.low) + np.array(coder.high)) / 2
    both = []
    for step in (first, second):
        at[d] = coder.low[d] + (step + 0.5) / steps * (coder.high[d] - coder.low[d])
        both.append(coder.active(at))
    apart = abs(first - second)
    if d in coder.wrap:
        apart = min(apart, steps - apart) if steps > coder.tilings else 0  # one tile is the whole circle
    assert (both[0] != both[1]).sum() == min(apart, coder.tilings)


@given(st.data())
def test_a_turn_changes_nothing_where_wrapped(data: st.DataObject) -> None:
    # Bounds that are whole numbers, and points in the middle of steps: adding a turn is then exact.
    turn, tilings = data.draw(st.integers(1, 8)), data.draw(st.sampled_from([1, 2, 8, 32]))
    coder = TileCoder(low=(0, -1), high=(turn, 1), tilings=tilings, tiles=(turn, 2), wrap=(0,))
    x = (data.draw(st.integers(0, turn * tilings - 1)) + 0.5) / tilings
    turns = data.draw(st.integers(-1000, 1000))
    assert coder.active((x + turns * turn, 0.3)).tolist() == coder.active((x, 0.3)).tolist()
    assert count_clipped(coder, (x + turns * turn, 0.3)) == 0


@given(st.data())
def test_both_ends_of_a_circle_are_one_place(data: st.DataObject) -> None:
    coder = data.draw(coders().filter(lambda c: c.wrap))
    low = np.array(data.draw(points_of(coder, beyond=0.0)))
    high = low.copy()
    for d in coder.wrap:
        low[d], high[d] = coder.low[d], coder.high[d]
    assert coder.active(low).tolist() == coder.active(high).tolist()


@given(st.data())
def test_points_outside_are_clipped_and_counted(data: st.DataObject) -> None:
    coder = data.draw(coders())
    point = data.draw(points_of(coder, beyond=3.0))
    held = [x if d in coder.wrap else min(max(x, coder.low[d]), coder.high[d]) for d, x in enumerate(point)]
    assert coder.active(point).tolist() == coder.active(held).tolist()
    assert count_clipped(coder, point) == sum(x != y for x, y in zip(point, held, strict=True))


def test_clipped_by_hand() -> None:
    coder = paper_coder()
    assert count_clipped(coder, (PI, -2 * PI)) == 0  # the bounds belong to the box
    assert count_clipped(coder, (3.2, 0.0)) == 1
    assert count_clipped(coder, (3.2, -7.0)) == 2
    assert coder.active((3.2, -7.0)).tolist() == coder.active((PI, -2 * PI)).tolist()


@pytest.mark.parametrize("wrap", [(), (0,)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_number_leaves_the_table(bad: float, wrap: tuple[int, ...]) -> None:
    coder = paper_coder(wrap=wrap)
    out = np.full(32, -1)
    assert active_tiles(coder.arrays, np.array([bad, 0.0]), out) == 1
    assert (out // (coder.num_features // 32)).tolist() == list(range(32))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_no_two_tiles_share_a_feature(dimensions: int) -> None:
    coder = TileCoder(low=[0] * dimensions, high=[3] * dimensions, tilings=4, tiles=3)
    middles = (np.arange(12) + 0.5) / 4
    names: dict[int, tuple[Any, ...]] = {}
    for point in itertools.product(middles, repeat=dimensions):
        cells = reference_cells(coder, point)
        for k, index in enumerate(coder.active(point)):
            assert names.setdefault(int(index), (k, cells[k])) == (k, cells[k])
    assert len(set(names.values())) == len(names)


def test_five_dimensions() -> None:
    coder = TileCoder(low=[-1] * 5, high=[1] * 5, tilings=8, tiles=4)
    assert coder.num_features == 8 * 5**5
    for point in np.random.default_rng(1).uniform(-1, 1, (200, 5)):
        assert coder.active(point).tolist() == reference(coder, point)


# --- Hashing


@given(st.data())
def test_hashed_features_stay_in_the_share_of_their_tiling(data: st.DataObject) -> None:
    full = data.draw(coders().filter(lambda c: c.full_size > c.tilings))
    size = data.draw(st.integers(full.tilings, full.full_size - 1))
    coder = TileCoder(
        low=full.low, high=full.high, tilings=full.tilings, tiles=full.tiles, wrap=full.wrap, table_size=size
    )
    assert coder.hashed
    assert size - coder.tilings < coder.num_features <= size
    active = coder.active(data.draw(points_of(coder)))
    assert (active // (coder.num_features // coder.tilings)).tolist() == list(range(coder.tilings))


def test_hash_is_a_function_of_the_tile() -> None:
    full, hashed = paper_coder(), paper_coder(table_size=640)
    names: dict[int, int] = {}
    for point in np.random.default_rng(2).uniform(full.low, full.high, (2000, 2)):
        for tile, feature in zip(full.active(point), hashed.active(point), strict=True):
            assert names.setdefault(int(tile), int(feature)) == feature


def test_hash_spreads_tiles_evenly() -> None:
    # The 64 tiles of each of 32 wrapped tilings fall into 63 slots. Thrown at random, a slot stays empty with
    # probability (1 − 1/63)^64 = 0.359; over 2016 slots the share has standard deviation √(e⁻¹(1 − 2e⁻¹)/2016) = 0.007.
    coder = TileCoder(low=(0, 0), high=(8, 8), tilings=32, tiles=8, wrap=(0, 1), table_size=32 * 63)
    middles = (np.arange(0, 256, 4) + 0.5) / 32
    used = {int(i) for point in itertools.product(middles, middles) for i in coder.active(point)}
    assert 0.33 < 1 - len(used) / (32 * 63) < 0.39


def test_a_hash_of_many_dimensions_sees_each_of_them() -> None:
    # The full table would have 32·9⁴⁰ tiles, far beyond 64 bits.
    coder = TileCoder(low=[0.0] * 40, high=[1.0] * 40, table_size=2**20)
    middle = coder.active([0.5] * 40)
    for d in range(40):
        moved = [0.5] * 40
        moved[d] = 0.9
        assert (coder.active(moved) != middle).all()  # more than a tile away: other tiles, and hardly a collision


def mixed(word: int) -> int:
    """The finaliser of splitmix64, in whole numbers without a bound."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def test_the_hash_never_changes() -> None:
    # Saved weights rely on it: the tile times odd words of splitmix64, plus (k + 1)·golden, mixed, scaled to the slots.
    golden = 0x9E3779B97F4A7C15
    assert mixed(golden) == 0xE220A8397B1DCDAF  # the first word of the sequence from 0, as published
    multipliers = [mixed((d + 1) * golden % 2**64) | 1 for d in range(2)]
    coder = TileCoder(low=(0.0, 0.0), high=(1.0, 1.0), tilings=4, table_size=64)
    expected = []
    for k, cell in enumerate(reference_cells(coder, (0.3, 0.8))):
        key = (sum(c * m for c, m in zip(cell, multipliers, strict=True)) + (k + 1) * golden) % 2**64
        expected.append(16 * k + ((mixed(key) >> 32) * 16 >> 32))
    assert coder.active((0.3, 0.8)).tolist() == expected == [11, 27, 37, 57]


# --- What is refused


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tilings": 0}, "tilings must be a whole number of at least 1, got 0"),
        ({"tilings": 2.5}, "tilings must be a whole number"),
        ({"tiles": 0}, "tiles must be whole numbers of at least 1, got 0"),
        ({"tiles": (8, -1)}, "tiles must be whole numbers of at least 1"),
        ({"tiles": (8, 2.5)}, "tiles must be whole numbers of at least 1"),
        ({"tiles": (8,)}, r"one for each of the 2 dimensions, got \(8,\)\. Give for instance tiles=\(8, 8\)"),
        ({"low": (0.0, 1.0), "high": (1.0, 1.0)}, "low must be below high, but dimension 1 spans 1.0 to 1.0"),
        ({"low": (2.0, 0.0), "high": (1.0, 1.0)}, "dimension 0 spans 2.0 to 1.0"),
        ({"high": (1.0, math.inf)}, r"but dimension 1 spans .* to inf\. Give as low= and high= the range"),
        ({"low": (math.nan, 0.0)}, "must be finite, but dimension 0"),
        ({"low": (-3.4e38, 0.0), "high": (3.4e38, 1.0)}, "must be finite"),  # how a Box may spell infinity
        ({"low": (0.0,)}, r"same length, one number per dimension, got shapes \(1,\) and \(2,\)"),
        ({"low": (), "high": ()}, "one number per dimension"),
        ({"low": 0.0, "high": 1.0}, r"got shapes \(\) and \(\)"),
        ({"wrap": (2,)}, "wrap must name dimensions from 0 to 1, got 2"),
        ({"wrap": (-1,)}, "wrap must name dimensions from 0 to 1, got -1"),
        ({"table_size": 31}, "at least 1 feature for each of the 32 tilings, got 31"),
        ({"table_size": 2**40}, "below 2³² features per tiling"),
    ],
)
def test_impossible_coders_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TileCoder(**{"low": (-PI, -2 * PI), "high": (PI, 2 * PI), **changes})


def test_a_table_that_would_fill_the_machine_is_refused() -> None:
    with pytest.raises(ValueError, match=f"would have {32 * 9**10} features\\. Give table_size="):
        TileCoder(low=[0] * 10, high=[1] * 10)
    assert TileCoder(low=[0] * 10, high=[1] * 10, table_size=LARGEST_TABLE).hashed


@pytest.mark.parametrize(
    ("point", "sentence"),
    [((0.0,), r"shape \(2,\).* got shape \(1,\)"), ([[0.0, 0.0]], "shape"), ((0.0, math.nan), "NaN")],
)
def test_impossible_points_are_refused(point: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        paper_coder().active(point)


def test_equal_coders_are_equal_however_they_were_given() -> None:
    given_as_arrays = TileCoder(low=np.array([-1.0, 0.0]), high=np.array([1.0, 2.0]), tiles=[8, 8], wrap=[1, 1])
    given_as_tuples = TileCoder(low=(-1, 0), high=(1, 2), wrap=(1,))
    assert given_as_arrays == given_as_tuples
    assert hash(given_as_arrays) == hash(given_as_tuples)
