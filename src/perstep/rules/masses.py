"""The distribution of the reward as masses on a grid of atoms, for the rule `categorical` (docs/decisions/0014-categorical.md).

A reward between two atoms counts for both, in proportion to its nearness, so that the mean of the masses is the mean of the
rewards. The first two rewards that differ give the grid; a reward outside doubles its width, and atoms merge in pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled

Floats = NDArray[np.float64]

LOWEST, WIDTH, DOUBLINGS = (
    0,
    1,
    2,
)  # the lowest atom, the distance between two atoms (0: all mass at the lowest), growth so far
MOST_DOUBLINGS = 60  # the grid then spans 1e18 times the distance of the first two rewards
FEWEST_ATOMS = 2


def new_masses(num_atoms: int, initial: float) -> tuple[Floats, Floats]:
    """All mass at the first guess, and a grid that has no width yet: masses (m,) and grid (3,)."""
    masses = np.zeros(num_atoms)
    masses[0] = 1.0
    return masses, np.array([initial, 0.0, 0.0])


def atoms(masses: Floats, grid: Floats) -> Floats:
    """Where the masses are, (m,)."""
    return np.asarray(grid[LOWEST] + grid[WIDTH] * np.arange(masses.size))


def is_outgrown(grid: Floats) -> bool:
    """Whether rewards were too far apart for any grid."""
    return bool(grid.size and grid[DOUBLINGS] >= MOST_DOUBLINGS)


@compiled
def mean_of_masses(masses: Floats, grid: Floats) -> float:
    """Σ p_i x_i, as a distance from the lowest atom first: precise where the rewards are far from 0."""
    total = 0.0
    for i in range(masses.shape[0]):
        total += masses[i] * i
    return grid[LOWEST] + grid[WIDTH] * total


@compiled
def make_room(masses: Floats, grid: Floats, reward: float) -> None:
    """Let the grid reach a reward: at first by choosing its width, later by doubling it."""
    count = masses.shape[0]
    if grid[WIDTH] == 0.0:
        if reward == grid[LOWEST]:
            return
        middle, away = (count - 1) // 2, max((count - 1) // 4, 1)
        grid[WIDTH] = abs(reward - grid[LOWEST]) / away
        grid[LOWEST] -= middle * grid[WIDTH]
        for i in range(count):
            masses[i] = 1.0 if i == middle else 0.0
    while grid[DOUBLINGS] < MOST_DOUBLINGS:
        is_below = reward < grid[LOWEST]
        if not is_below and not reward > grid[LOWEST] + (count - 1) * grid[WIDTH]:
            return
        merge_pairs(masses, is_below)
        grid[LOWEST] -= (count - 1) * grid[WIDTH] if is_below else 0.0
        grid[WIDTH] *= 2.0
        grid[DOUBLINGS] += 1.0


@compiled
def merge_pairs(masses: Floats, from_the_top: bool) -> None:
    """Every second atom stays, and the mass of the one between two is halved among them, which keeps the mean."""
    count = masses.shape[0]
    last = count - 1
    for k in range(count):
        merged = 0.0
        for i in range(max(2 * k - 1, 0), min(2 * k + 2, count)):
            merged += (1.0 if i == 2 * k else 0.5) * masses[last - i if from_the_top else i]
        masses[last - k if from_the_top else k] = merged


@compiled
def track_masses(masses: Floats, grid: Floats, tau: Floats, reward: float, step: float, theta: Floats) -> float:
    """Move the masses towards a reward by a share `step`, and put θ at their quantiles. Returns by how much the mean moves."""
    if step <= 0.0:
        return 0.0
    count, share = masses.shape[0], min(step, 1.0)
    make_room(masses, grid, reward)
    before = mean_of_masses(masses, grid)
    place = (reward - grid[LOWEST]) / grid[WIDTH] if grid[WIDTH] > 0.0 else 0.0
    below = min(max(int(place), 0), count - 2)
    above = min(max(place - below, 0.0), 1.0)
    for i in range(count):
        masses[i] *= 1.0 - share
    masses[below] += share * (1.0 - above)
    masses[below + 1] += share * above
    read_quantiles(masses, grid, tau, theta)
    return share * (reward - before)


@compiled
def read_quantiles(masses: Floats, grid: Floats, tau: Floats, theta: Floats) -> None:
    """θ_i is the lowest atom with at least the level τ_i at and below it."""
    place, level = 0, masses[0]
    for i in range(theta.shape[0]):
        while level < tau[i] and place < masses.shape[0] - 1:
            place += 1
            level += masses[place]
        theta[i] = grid[LOWEST] + place * grid[WIDTH]
