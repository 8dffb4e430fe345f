"""Continuous actions: environment steps per second beside Stable-Baselines3's SAC, one update a step, batch 256, 2 × 256 units.

In one process and in turns, on one thread: seconds are those of the processor, so that other programs do not count. sbx (JAX) takes
part where it is installed: `pip install sbx-rl -c constraints.txt` in an environment of its own, since it brings JAX and a nightly
build of TensorFlow Probability. JAX takes all cores it may: `taskset -c 0` keeps it on one.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import torch
from measuring import table

import perstep

WORLD = "HalfCheetah-v5" if importlib.util.find_spec("mujoco") is not None else "Pendulum-v1"
PEER, GOAL = "SB3 SAC", 2.0
OURS: dict[str, dict[str, Any]] = {
    "d2, as it is": {},
    "differential, as it is": {"rule": "differential"},
    "rvi, as it is": {"rule": "rvi"},
    "d3, as it is": {"rule": "d3"},
    "d2, compile=True": {"compile": True},
    'd2, precision="highest"': {"precision": "highest"},
    'd2, normalization="none"': {"normalization": "none"},
}
START = 200  # steps before the first update


def learner(name: str, world: str = WORLD, **settings: Any) -> Callable[[int], object]:
    """A function that learns for some steps."""
    if name in OURS:
        agent = perstep.SoftActorCritic(
            world, **{**OURS[name], "learning_starts": START, "threads": 1, "device": "cpu", "seed": 0, **settings}
        )
        return lambda steps: agent.learn(steps, progress=False)
    if name == PEER:
        from stable_baselines3 import SAC
    else:
        from sbx import SAC
    model = SAC("MlpPolicy", world, learning_starts=START, seed=0, **({"device": "cpu"} if name == PEER else {}))
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def processor_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def speed(quick: bool) -> None:
    steps, tries = (100, 2) if quick else (300, 5)
    peers = [PEER, *(["sbx SAC"] if importlib.util.find_spec("sbx") is not None else [])]
    learners = {name: learner(name) for name in (*peers, *OURS)}
    for learn in learners.values():
        learn(START + 50)
    rounds = [
        {name: processor_seconds(lambda learn=learn: learn(steps)) for name, learn in learners.items()}  # type: ignore[misc]
        for _ in range(tries)
    ]
    rates = {name: steps / min(times[name] for times in rounds) for name in learners}
    rows = [
        (name, f"{rate:.0f}", f"{1e3 / rate:.2f}", "" if name in peers else f"{rate / rates[PEER]:.2f}×")
        for name, rate in rates.items()
    ]
    title = f"{WORLD}, steps per second of processor time, one thread; the goal is {GOAL}×"
    table(title, ("", "steps/s", "ms a step", "to SB3"), rows)
    if "sbx SAC" not in rates:
        print("sbx: skipped, it is not installed.")


def sizes(quick: bool) -> None:
    """How the cost grows with width and batch."""
    steps, rows = 40 if quick else 150, []
    for hidden, batch_size in (
        ((64, 64), 256),
        ((256, 256), 64),
        ((256, 256), 256),
        ((256, 256), 1024),
        ((512, 512), 256),
    ):
        learn = learner("d2, as it is", hidden=hidden, batch_size=batch_size)
        learn(START + 30)
        best = min(processor_seconds(lambda learn=learn: learn(steps)) for _ in range(2))  # type: ignore[misc]
        rows.append((f"2 × {hidden[0]}", batch_size, f"{1e3 * best / steps:.2f}"))
    table(f"{WORLD}, milliseconds a step of d2", ("units", "batch", "ms"), rows)


def main(quick: bool = False) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        speed(quick)
        sizes(quick)
    finally:
        torch.set_num_threads(before)


if __name__ == "__main__":
    main()
