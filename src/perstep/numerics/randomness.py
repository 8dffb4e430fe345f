"""Random numbers inside compiled loops: xoshiro256++ with a state of four words, uniforms and normals.

The state of a generator is four plain words, so it can be copied, saved and restored to the bit, and one run owns it alone.
docs/decisions/0002-generator.md says why NumPy's generator is not used (a whole step takes half the time).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled

Generator = NDArray[np.uint64]  # (4,)

LAYERS = 256
_TAIL = 3.6541528853610088  # where the lowest of 256 layers of equal area ends
_AREA = 0.00492867323399  # the area of each layer


def _ziggurat() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Right edges x_i of the layers under exp(-x²/2), and the heights there (Marsaglia & Tsang 2000)."""
    edges = np.zeros(LAYERS + 1)
    edges[0] = _AREA / math.exp(-0.5 * _TAIL**2)
    edges[1] = _TAIL
    for i in range(2, LAYERS):
        edges[i] = math.sqrt(-2.0 * math.log(_AREA / edges[i - 1] + math.exp(-0.5 * edges[i - 1] ** 2)))
    return edges, np.exp(-0.5 * edges**2)


_EDGES, _HEIGHTS = _ziggurat()


def make_generator(seed: int, *branch: int) -> Generator:
    """The generator of a tuple of non-negative integers, such as (seed, purpose); every tuple has its own."""
    sequence = np.random.SeedSequence(seed, spawn_key=branch)  # SeedSequence((5,)) would equal SeedSequence((5, 0))
    return np.asarray(sequence.generate_state(4, np.uint64), np.uint64)


@compiled
def next_word(generator: Generator) -> np.uint64:
    """64 random bits (Blackman & Vigna's xoshiro256++); moves the state."""
    s0, s1, s2, s3 = generator[0], generator[1], generator[2], generator[3]
    mixed = s0 + s3
    word = ((mixed << np.uint64(23)) | (mixed >> np.uint64(41))) + s0
    s2 ^= s0
    s3 ^= s1
    generator[0] = s0 ^ s3
    generator[1] = s1 ^ s2
    generator[2] = s2 ^ (s1 << np.uint64(17))
    generator[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return word


@compiled
def uniform(generator: Generator) -> float:
    """A number in [0, 1) with 53 random bits."""
    return (next_word(generator) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def normal(generator: Generator) -> float:
    """A standard normal number by the ziggurat method: 99 of 100 draws take one word, one product and one comparison."""
    while True:
        word = next_word(generator)
        layer = np.int64(word & np.uint64(0xFF))
        sign = 1.0 if word & np.uint64(0x100) else -1.0
        x = (word >> np.uint64(11)) * (1.0 / 9007199254740992.0) * _EDGES[layer]
        if x < _EDGES[layer + 1]:
            return sign * x
        if layer == 0:  # beyond the last edge: Marsaglia's tail
            while True:
                beyond = -math.log(1.0 - uniform(generator)) / _TAIL
                height = -math.log(1.0 - uniform(generator))
                if height + height > beyond * beyond:
                    return sign * (_TAIL + beyond)
        between = _HEIGHTS[layer] + uniform(generator) * (_HEIGHTS[layer + 1] - _HEIGHTS[layer])
        if between < math.exp(-0.5 * x * x):
            return sign * x


@compiled
def normals(generator: Generator, numbers: NDArray[np.float64]) -> None:
    """Fill an array (k,) with standard normal numbers."""
    for i in range(numbers.shape[0]):
        numbers[i] = normal(generator)


@compiled
def draw(chances: NDArray[np.float64], generator: Generator) -> int:
    """An index with these probabilities."""
    point = uniform(generator)
    for index in range(chances.shape[0] - 1):
        point -= chances[index]
        if point < 0.0:
            return index
    return chances.shape[0] - 1
