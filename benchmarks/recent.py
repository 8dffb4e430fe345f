"""What `reward_distribution` says of the current policy after 100,000 steps, beside 200,000 steps of that policy without learning.

python benchmarks/recent.py run [--seeds 10] [--algorithm TileQ] [--world Battery]   # resumes: no run is made twice
python benchmarks/recent.py table

`good`: runs in which the number is within 3 % of the range of the rewards, or within twice the standard error that it states.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import table

import perstep

STEPS, EVALUATED = 100_000, 200_000
NEAR, ERRORS = 0.03, 2.0
RESULTS = Path(__file__).parent / "results" / "recent.json"
TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "own-task.md"
WORLDS = ("perstep/Autoscaling-v0", "Battery", "perstep/InvertedPendulum-v0")
ALGORITHMS = ("TileQ d2", "ActorCritic d3", "DeepQ d3")
NUMBERS: dict[str, Callable[[perstep.Distribution], tuple[float, float]]] = {
    "mean": lambda found: (found.mean, found.mean_error),
    "cvar(0.1)": lambda found: (found.cvar(0.1), found.cvar_error(0.1)),
    "cvar(0.01)": lambda found: (found.cvar(0.01), found.cvar_error(0.01)),
    "quantile(0.05)": lambda found: (found.quantile(0.05), found.quantile_error(0.05)),
    "quantile(0.5)": lambda found: (found.quantile(0.5), found.quantile_error(0.5)),
}
KEY = ("world", "algorithm", "seed")


def world_named(name: str) -> Any:
    """An id, or the battery of the tutorial, whose first block of code is its class."""
    if name != "Battery":
        return name
    names: dict[str, Any] = {}
    exec(TUTORIAL.read_text().split("```python\n")[1].split("```")[0], names)
    return names["Battery"]()


def measured(world: str, algorithm: str, seed: int) -> dict[str, Any]:
    name, rule = algorithm.split()
    settings = {"threads": 1} if name == "DeepQ" else {}
    agent = getattr(perstep, name)(world_named(world), rule=rule, seed=seed, **settings).learn(STEPS, progress=False)
    learnt, now = agent.reward_distribution, agent.evaluate(EVALUATED, seed=1).reward_distribution
    row: dict[str, Any] = {"range": float(np.ptp(now.means)), "steps": learnt.num_samples}
    for number, read in NUMBERS.items():
        row[number] = [*read(learnt), *read(now)]
    return row


def read() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def append(result: dict[str, Any]) -> None:
    """Add a run to the file, one line per run; it is published by rename."""
    lines = [json.dumps(row) for row in [*read(), result]]
    RESULTS.parent.mkdir(exist_ok=True)
    unfinished = RESULTS.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    unfinished.replace(RESULTS)


def run(seeds: int, algorithm_begins: str, world_has: str) -> None:
    for seed, world, algorithm in itertools.product(range(seeds), WORLDS, ALGORITHMS):
        key = dict(zip(KEY, (world, algorithm, seed), strict=True))
        if not algorithm.startswith(algorithm_begins) or world_has not in world:
            continue
        if not any(all(row[name] == value for name, value in key.items()) for row in read()):
            append({**key, **measured(**key)})
            print(*key.values(), flush=True)


def show() -> None:
    rows = []
    for world, algorithm in itertools.product(WORLDS, ALGORITHMS):
        found = [row for row in read() if (row["world"], row["algorithm"]) == (world, algorithm)]
        for number in NUMBERS if found else ():
            values = np.array([row[number] for row in found])  # (seeds, 4)
            off = np.abs(values[:, 0] - values[:, 2])
            share, both = off / [row["range"] or 1.0 for row in found], np.hypot(values[:, 1], values[:, 3])
            errors = np.divide(off, values[:, 1], out=np.zeros_like(off), where=values[:, 1] > 0.0)
            good = (share <= NEAR) | (errors <= ERRORS)
            scores = np.divide(off, both, out=np.zeros_like(off), where=both > 0.0)
            rows.append((
                world.removeprefix("perstep/"), algorithm, number, f"{good.sum()} of {len(found)}", f"{np.median(share):.1%}",
                f"{share.max():.1%}", f"{math.sqrt(float(np.mean(scores**2))):.1f}",
                f"{min(row['steps'] for row in found):,} to {max(row['steps'] for row in found):,}",
            ))  # fmt: skip
    columns = [
        "world",
        "algorithm",
        "number",
        "good",
        "median off",
        "largest off",
        "in errors of both (rms)",
        "steps read",
    ]
    table(
        f"reward_distribution after {STEPS:,} steps and {EVALUATED:,} steps of the policy; off: of the range",
        columns,
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="make the runs that are not in the file yet")
    running.add_argument("--seeds", type=int, default=10)
    running.add_argument("--algorithm", default="", help="only algorithms whose names begin so")
    running.add_argument("--world", default="", help="only worlds whose names have this in them")
    commands.add_parser("table", help="print the results so far")
    arguments = parser.parse_args()
    if arguments.command == "run":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(arguments.seeds, arguments.algorithm, arguments.world)
    show()


if __name__ == "__main__":
    main()
