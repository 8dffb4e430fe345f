"""Steps through a finite MDP inside compiled loops: `take action A, observe R, S′` of the paper's listings.

Outcomes are drawn with the alias method (Walker 1977), so the cost of a step does not depend on the number of outcomes. A
uniform number in [0, K) has an integer part, which selects a column, and a fraction, which selects the column's own outcome
or its alias.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.distributions.distribution import Floats
from perstep.distributions.sampling import keep
from perstep.mdp.outcomes import Outcomes, constant, require_consistent
from perstep.numerics.compiled import Whole, compiled, inlined
from perstep.numerics.randomness import Generator, draw, normal, uniform


class FiniteWorld(NamedTuple):
    """A finite MDP as plain arrays, for compiled code (S states, A actions, up to K outcomes for each pair).

    None of them can be written to: compiled loops use them as indices, without a check. Read-only arrays are a type of their own
    to numba, so all worlds have them, and every loop is compiled once.
    """

    accept: Floats  # (S, A, K), probability that a column gives its own outcome
    alias: NDArray[np.int32]  # (S, A, K), the outcome that the column gives otherwise
    next_state: NDArray[np.int32]  # (S, A, K)
    mean: Floats  # (S, A, K), mean of the reward before the cap
    sd: Floats  # (S, A, K), standard deviation of the reward before the cap
    cap: float  # the largest possible reward; inf for no cap
    start_accept: Floats  # (S,), like `accept`, for the first state
    start_alias: NDArray[np.int32]  # (S,), like `alias`, for the first state


@inlined
def step(world: FiniteWorld, state: Whole, action: Whole, generator: Generator) -> tuple[float, Any]:
    """One step; returns (reward, next state). Draws one uniform number, and a normal number if the reward is random."""
    columns = world.accept.shape[2]
    outcome = np.int64(0)
    if columns > 1:
        place = uniform(generator) * columns
        outcome = np.int64(place)
        if place - outcome >= world.accept[state, action, outcome]:
            outcome = np.int64(world.alias[state, action, outcome])
    reward = world.mean[state, action, outcome]
    sd = world.sd[state, action, outcome]
    if sd > 0.0:
        reward += sd * normal(generator)
    return min(reward, world.cap), np.int64(world.next_state[state, action, outcome])


@compiled
def start(world: FiniteWorld, generator: Generator) -> Any:
    """Draw a first state."""
    place = uniform(generator) * world.start_accept.shape[0]
    state = np.int64(place)
    if place - state >= world.start_accept[state]:
        state = np.int64(world.start_alias[state])
    return state


def make_world(outcomes: Outcomes, initial: Floats) -> FiniteWorld:
    """The arrays of an MDP with these outcomes, whose first state has the distribution `initial` (S,)."""
    require_consistent(outcomes, initial)
    shape = outcomes.probability.shape
    accept, alias = alias_table(outcomes.probability.reshape(-1, shape[2]))
    start_accept, start_alias = alias_table(initial.reshape(1, -1))
    return FiniteWorld(
        accept=constant(accept.reshape(shape)),
        alias=constant(alias.reshape(shape)),
        next_state=constant(outcomes.next_state),
        mean=constant(outcomes.mean),
        sd=constant(outcomes.sd),
        cap=float(outcomes.cap),
        start_accept=constant(start_accept[0]),
        start_alias=constant(start_alias[0]),
    )


def alias_table(probability: Floats) -> tuple[Floats, NDArray[np.int32]]:
    """The alias table of each row of probabilities (N, K): acceptance probabilities (N, K) and aliases (N, K)."""
    accept, alias = np.empty(probability.shape), np.empty(probability.shape, dtype=np.int32)
    columns = probability.shape[1]
    low, high, amount = np.empty(columns, np.int64), np.empty(columns, np.int64), np.empty(columns)
    _fill_alias_table(constant(probability), accept, alias, low, high, amount)
    return accept, alias


@compiled
def _fill_alias_table(
    probability: Floats,
    accept: Floats,
    alias: NDArray[np.int32],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    amount: Floats,
) -> None:
    """Vose (1991), in linear time: a column with less than 1/K is filled up from one with more, until all hold 1/K."""
    rows, columns = probability.shape
    for row in range(rows):
        num_low, num_high, likeliest = 0, 0, 0
        for k in range(columns):
            amount[k] = probability[row, k] * columns
            accept[row, k], alias[row, k] = 1.0, k
            if probability[row, k] > probability[row, likeliest]:
                likeliest = k
            if amount[k] < 1.0:
                low[num_low] = k
                num_low += 1
            else:
                high[num_high] = k
                num_high += 1
        while num_low > 0 and num_high > 0:
            num_low -= 1
            poor, rich = low[num_low], high[num_high - 1]
            accept[row, poor], alias[row, poor] = amount[poor], rich
            amount[rich] -= 1.0 - amount[poor]
            if amount[rich] < 1.0:
                num_high -= 1
                low[num_low] = rich
                num_low += 1
        # Rounding errors may leave some columns untreated. An outcome of probability 0 must never be drawn.
        for k in range(columns):
            if probability[row, k] == 0.0 and accept[row, k] > 0.0:
                accept[row, k], alias[row, k] = 0.0, likeliest


@compiled
def follow_in_mdp(
    world: FiniteWorld,
    policy: NDArray[np.float64],
    generator: Generator,
    picker: Generator,
    begin: int,
    end: int,
    num_steps: int,
    state: NDArray[np.int64],
    total: NDArray[np.float64],
    kept: NDArray[np.float64],
) -> None:
    """Follow fixed probabilities without learning, from step `begin` to `end` of `num_steps`. `state` (1,) and `total` (1,), the
    sum of all rewards, move along; as many rewards as fit are kept."""
    if begin == 0:
        state[0] = start(world, generator)
    for t in range(begin, end):
        reward, state[0] = step(world, state[0], draw(policy[state[0]], generator), generator)
        total[0] += reward
        keep(t, num_steps, reward, kept, picker)
