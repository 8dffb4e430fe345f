"""Tables: red-pill steps per second against NumPy and bare kernels, cost against m, n and states, first step, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import numpy as np
import peers
from measuring import in_turns, rate, seconds, table

import perstep
from perstep.numerics.quantiles import levels
from perstep.numerics.randomness import make_generator
from perstep.system.memory import peak_memory
from perstep.system.processors import usable_cores
from perstep.worlds import garnet

WORLD = "perstep/RedPillBluePill-v0"
CASES = (("differential", 1), ("d2", 10), ("d2", 51), ("d3", 10), ("d3", 51))
TARGET = {("d2", 51): 300, ("d3", 51): 100}


def bare(rule: str, m: int, steps: int):
    generator, theta, tau = make_generator(1), np.zeros(m), levels(m)
    if rule == "differential":
        return lambda: peers.bare_differential(generator, steps)
    if rule == "d2":
        return lambda: peers.bare_d2(generator, theta, tau, steps)
    omega, pull = np.zeros((2, 2, m)), np.zeros(m)
    return lambda: peers.bare_d3(generator, theta, tau, omega, pull, steps)


def against_peers(scale: int) -> None:
    rows = []
    cores = usable_cores()
    for rule, m in CASES:
        steps = (2_000_000 if rule != "d3" else 400_000) // scale
        crowd = [perstep.QLearning(WORLD, rule=rule, preset="paper", num_quantiles=m, seed=s) for s in range(2 * cores)]
        one = perstep.QLearning(WORLD, rule=rule, preset="paper", num_quantiles=m)
        kernel = bare(rule, m, steps)
        one.learn(10), kernel()  # compiled
        literal = 5_000 // min(scale, 5)
        all_cores, single, plain, numpy = in_turns(
            [
                lambda crowd=crowd, steps=steps: perstep.learn_together(crowd, steps, progress=False),
                lambda one=one, steps=steps: one.learn(steps, progress=False),
                kernel,
                lambda rule=rule, m=m, literal=literal: peers.numpy_red_pill(rule, m, literal),
            ]
        )
        ours, alone, best, theirs = len(crowd) * steps / all_cores, steps / single, steps / plain, literal / numpy
        goal = TARGET.get((rule, m))
        verdict = "" if goal is None else f"≥ {goal}: {'yes' if ours / theirs >= goal else 'NO'}"
        label = rule if rule == "differential" else f"{rule}, m = {m}" if rule == "d2" else f"{rule}, m = n = {m}"
        rows.append(
            (
                label,
                rate(ours),
                rate(alone),
                rate(best),
                rate(theirs),
                f"{ours / theirs:,.0f}×",
                verdict,
                f"{best / alone:.2f}×",
            )
        )
    table(
        "Red-pill, Q-learning, recording on (steps per second)",
        (
            "algorithm",
            f"perstep, {cores} cores",
            "perstep, 1",
            "bare kernel, 1",
            "NumPy, 1",
            "to NumPy",
            "goal",
            "bare to perstep",
        ),
        rows,
    )


def counting_rewards(scale: int) -> None:
    """What the sketch of the rewards costs: two distinct rewards, and normal ones."""
    steps, rows = 2_000_000 // scale, []
    worlds = {"two distinct rewards": garnet(1, 2, 1, 1), "normal rewards": garnet(1, 2, 1, 1, reward_sd=1.0)}
    for title, mdp in worlds.items():
        without, counted = (
            perstep.QLearning(mdp, rule="d2", preset="paper", num_quantiles=10)
            .record_every(1000, sketch=on)
            .learn(10_000)
            for on in (False, True)
        )
        off, on = in_turns(
            [
                lambda without=without: without.learn(steps, progress=False),
                lambda counted=counted: counted.learn(steps, progress=False),
            ]
        )
        rows.append((title, f"{1e9 * off / steps:.1f}", f"{1e9 * on / steps:.1f}", f"{1e9 * (on - off) / steps:.1f}"))
    table("Counting the rewards (nanoseconds per step)", ("world", "without", "with", "difference"), rows)


def against_size(scale: int) -> None:
    steps = 1_000_000 // scale
    rows = []
    for title, cases in (
        (
            "d2, m",
            [
                (m, perstep.QLearning(WORLD, rule="d2", preset="paper", num_quantiles=m))
                for m in (10, 50, 100, 200, 400)
            ],
        ),
        (
            "d3, n",
            [(n, perstep.QLearning(WORLD, rule="d3", preset="paper", num_quantiles=n)) for n in (10, 25, 50, 100, 200)],
        ),
        (
            "d2, states",
            [(s, perstep.QLearning(garnet(s, 2, 3, seed=1), rule="d2", preset="paper")) for s in (10, 100, 300, 1000)],
        ),
    ):
        for _, agent in cases:
            agent.learn(1000, progress=False)
        shorter = steps if title != "d3, n" else steps // 5
        times = in_turns([lambda agent=agent, n=shorter: agent.learn(n, progress=False) for _, agent in cases])
        rows += [(title, size, f"{1e9 * t / shorter:.0f} ns") for (size, _), t in zip(cases, times, strict=True)]
    table("Cost of a step against size, 1 core", ("what", "size", "a step"), rows)


FIRST_STEP = """
import time; begin = time.perf_counter()
import perstep
perstep.QLearning("perstep/RedPillBluePill-v0", rule="d3").learn(1)
print(time.perf_counter() - begin)
"""


def first_step() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, NUMBA_CACHE_DIR=folder)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as an ordinary machine is: modules are compiled once
        times = []
        for _ in range(3):
            run = subprocess.run(
                [sys.executable, "-c", FIRST_STEP], env=environment, capture_output=True, text=True, check=True
            )
            times.append(float(run.stdout))
    rows = [("compiling", f"{times[0]:.1f} s", "< 20 s"), ("from the cache", f"{min(times[1:]):.2f} s", "< 2 s")]
    table("From `import perstep` to the first step", ("", "time", "goal"), rows)


def memory(scale: int) -> None:
    agent = perstep.QLearning(WORLD, rule="d2").learn(1_000_000 // scale, progress=False)
    before = peak_memory() or 0
    took = seconds(lambda: agent.learn(50_000_000 // scale, progress=False))
    grown = ((peak_memory() or 0) - before) / 2**20
    print(f"Memory of one run over {50_000_000 // scale:,} more steps ({took:.1f} s): +{grown:.1f} MiB at its peak\n")


def main(*, quick: bool) -> None:
    scale = 10 if quick else 1
    against_peers(scale)
    counting_rewards(scale)
    against_size(scale)
    first_step()
    memory(scale)
