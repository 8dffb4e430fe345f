"""Tiles: pendulum steps per second against NumPy, the time of one tile coding, and the paper's whole grid projected."""

from __future__ import annotations

import numba
import numpy as np
import peers
from measuring import in_turns, rate, table

import perstep
from perstep.numerics.compiled import OPTIONS
from perstep.system.processors import usable_cores
from perstep.tiles.coder import TileCoder, active_tiles

WORLD = "perstep/InvertedPendulum-v0"
CASES = (("differential", 1), ("d2", 10), ("d2", 51), ("d3", 10), ("d3", 51))
TARGET = {("differential", 1): 200, ("d2", 10): 200, ("d2", 51): 200, ("d3", 51): 50}
GRID = {("differential", 1): 120, ("d2", 10): 120, ("d2", 51): 120, ("d3", 10): 120, ("d3", 51): 120}  # × 10 runs × 10k


def against_numpy(scale: int) -> None:
    rows, whole = [], 0.0
    cores = usable_cores()
    for rule, m in CASES:
        steps = (400_000 if rule != "d3" else 100_000) // scale
        crowd = [
            perstep.ActorCritic(WORLD, rule=rule, preset="paper", num_quantiles=m, seed=s) for s in range(2 * cores)
        ]
        crowd[0].learn(10)
        literal = 3_000 // min(scale, 3)
        ours, theirs = in_turns(
            [
                lambda crowd=crowd, steps=steps: perstep.learn_together(crowd, steps, progress=False),
                lambda rule=rule, m=m, literal=literal: peers.numpy_pendulum(rule, m, literal),
            ]
        )
        ours, theirs = len(crowd) * steps / ours, literal / theirs
        whole += GRID[rule, m] * 100_000 / ours
        goal = TARGET.get((rule, m))
        verdict = "" if goal is None else f"≥ {goal}: {'yes' if ours / theirs >= goal else 'NO'}"
        label = rule if rule == "differential" else f"{rule}, m = {m}" if rule == "d2" else f"{rule}, m = n = {m}"
        rows.append((label, rate(ours), rate(theirs), f"{ours / theirs:,.0f}×", verdict))
    table(
        "Inverted pendulum, actor-critic, 32 tilings, recording on (steps per second)",
        ("algorithm", f"perstep, {cores} cores", "NumPy, 1", "to NumPy", "goal"),
        rows,
    )
    print(
        f"The paper's grid, 120 + 240 + 240 configurations × 10 runs × 10k steps = 60M steps, at these rates: {whole:.0f} s\n"
    )


@numba.njit(**OPTIONS)
def code(tiling, points, out):
    for i in range(points.shape[0]):
        active_tiles(tiling, points[i], out)


def one_point(scale: int) -> None:
    coder = TileCoder(low=(-np.pi, -2 * np.pi), high=(np.pi, 2 * np.pi))
    points = np.random.default_rng(0).uniform(-3, 3, (1_000_000 // scale, 2))
    out = np.zeros(32, np.int64)
    code(coder.arrays, points[:1], out)
    (took,) = in_turns([lambda: code(coder.arrays, points, out)])
    print(f"A point in 2-D to its tiles in 32 tilings: {1e9 * took / len(points):.0f} ns\n")


def main(*, quick: bool) -> None:
    scale = 10 if quick else 1
    against_numpy(scale)
    one_point(scale)
