"""MuJoCo beside Stable-Baselines3's SAC: `python benchmarks/robots.py run [--worlds …] [--seeds N] [--share S]`, then `show`.

Every algorithm with its defaults, in the same number of steps. A run is (world, algorithm, seed); finished runs are rows of one
Parquet file, so that a study that is killed continues with the runs that are missing. Pendulum-v1 and linear-quadratic control are
in it too, with variants of d2-sac, to choose defaults on: `--worlds Pendulum-v1 --algorithms d2-sac "d2-sac, no normalization"`.

Criteria, written before the first run. In each world, with the mean over seeds:
1. at the end: the reward per step over the last tenth of the steps is higher than that of SAC;
2. over the whole life: the mean reward of all steps is higher than that of SAC;
in Swimmer also beside SAC with γ .999. A criterion counts as met where the 95 % intervals over seeds (Student's t) do not
overlap, and as open where they do or where there is one seed.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import torch

import perstep

STEPS = {"Swimmer-v5": 150_000, "HalfCheetah-v5": 100_000, "Hopper-v5": 100_000, "Reacher-v5": 50_000}
SMALL = {"Pendulum-v1": 10_000, "LQR, 2": 15_000, "LQR, 8": 30_000}
OURS: dict[str, dict[str, Any]] = {
    **{f"{rule}-sac": {} for rule in ("d2", "d3", "rvi", "differential")},
    "d2-sac, no normalization": {"normalization": "none"},
    "d2-sac, warm": {"initial_temperature": 0.1},
    "d2-sac, level 0.01": {"level_ratio": 0.01},
    "d2-sac, twice": {"num_minibatches": 2},
}
THEIRS = {"SB3 SAC": 0.99, "SB3 SAC, .999": 0.999}
WINDOWS = 50
RESULTS = Path(__file__).parent / "results" / "robots.parquet"


class Listening(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Keeps the rewards of all steps."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.rewards: list[float] = []
        self.ends = 0

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self.rewards.append(float(result[1]))
        self.ends += bool(result[2])
        return result


def made(world: str) -> Any:
    name, _, dimensions = world.partition(", ")
    return (
        gymnasium.make("perstep/LinearQuadratic-v0", dimensions=int(dimensions))
        if name == "LQR"
        else gymnasium.make(world)
    )


def greedy(world: str, predict: Callable[[Any], Any], steps: int = 10_000) -> float:
    """The reward per step of the middle of the policy, divided by the exact optimum in linear-quadratic control."""
    env = made(world)
    observation, _ = env.reset(seed=1_000_000)
    total = 0.0
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(predict(observation))
        total += float(reward) / steps
        if terminated or truncated:
            observation, _ = env.reset()
    return total / env.unwrapped.solve().average_reward if world.startswith("LQR") else total


def one_run(world: str, algorithm: str, seed: int, steps: int) -> dict[str, Any]:
    env = Listening(made(world))
    begin = time.process_time()
    if algorithm in THEIRS:
        from stable_baselines3 import SAC

        model = SAC("MlpPolicy", env, gamma=THEIRS[algorithm], seed=seed, device="cpu").learn(steps)
        predict = functools.partial(model.predict, deterministic=True)
    else:
        settings = {"seed": seed, "threads": 1, "device": "cpu", **OURS[algorithm]}
        agent = perstep.make_agent(algorithm.partition(",")[0], env, **settings).learn(steps, progress=False)
        predict = agent.predict
    seconds = time.process_time() - begin
    rewards = np.array(env.rewards[:steps])
    edges = np.linspace(0, steps, WINDOWS + 1).astype(int)
    curve = [float(rewards[low:high].mean()) for low, high in itertools.pairwise(edges)]
    return {
        "world": world, "algorithm": algorithm, "seed": seed, "steps": steps, "life": float(rewards.mean()),
        "end": float(rewards[-(steps // 10) :].mean()), "greedy": greedy(world, lambda seen: predict(seen)[0]),
        "ends": env.ends, "processor_seconds": seconds, "curve": curve,
    }  # fmt: skip


def known(path: Path) -> pl.DataFrame | None:
    return pl.read_parquet(path) if path.exists() else None


def keep(path: Path, row: dict[str, Any]) -> None:
    before, frame = known(path), pl.DataFrame([row])
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".part")
    (frame if before is None else pl.concat([before, frame])).write_parquet(draft)
    os.replace(draft, path)


def run(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for seed in range(arguments.seeds):
        for world in arguments.worlds:
            steps = int({**STEPS, **SMALL}[world] * arguments.share)
            for algorithm in arguments.algorithms:
                if algorithm == "SB3 SAC, .999" and world != "Swimmer-v5":
                    continue
                this = {"world": world, "algorithm": algorithm, "seed": seed, "steps": steps}
                before = known(arguments.out)
                if before is not None and len(before.filter(**this)):
                    continue
                row = one_run(**this)
                keep(arguments.out, row)
                print({name: value for name, value in row.items() if name != "curve"}, flush=True)


def show(arguments: argparse.Namespace) -> None:
    frame = known(arguments.out)
    if frame is None:
        raise SystemExit("No run is finished yet.")
    summary = frame.group_by("world", "steps", "algorithm").agg(
        pl.len().alias("seeds"), pl.col("life").mean(), pl.col("life").std().alias("life, deviation"),
        pl.col("end").mean(), pl.col("end").std().alias("end, deviation"), pl.col("greedy").mean(),
        pl.col("processor_seconds").mean(),
    )  # fmt: skip
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True):
        print(summary.sort("world", "steps", "algorithm"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--worlds", nargs="+", default=list(STEPS), choices=[*STEPS, *SMALL])
    parser.add_argument("--algorithms", nargs="+", default=["d2-sac", *THEIRS], choices=[*OURS, *THEIRS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the steps of every world")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    {"run": run, "show": show}[arguments.what](arguments)


if __name__ == "__main__":
    main()
