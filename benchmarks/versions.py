"""Speed of two versions of perstep, measured in one run: `python benchmarks/versions.py OLD/src NEW/src`.

Each version has its own process, and they take turns, so that what disturbs one disturbs the other. A time is processor time
of one thread; the shortest of many counts. The settings are the paper's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

RED_PILL, PENDULUM = "perstep/RedPillBluePill-v0", "perstep/InvertedPendulum-v0"
CASES = {  # name: (class, world, settings, steps)
    "table, differential": ("QLearning", RED_PILL, {"rule": "differential"}, 1_000_000),
    "table, d2, m = 51": ("QLearning", RED_PILL, {"rule": "d2", "num_quantiles": 51}, 500_000),
    "table, d3, m = n = 51": ("QLearning", RED_PILL, {"rule": "d3", "num_quantiles": 51}, 100_000),
    "tiles, differential": ("ActorCritic", PENDULUM, {"rule": "differential"}, 200_000),
    "tiles, d2": ("ActorCritic", PENDULUM, {"rule": "d2"}, 200_000),
    "tiles, d3": ("ActorCritic", PENDULUM, {"rule": "d3"}, 50_000),
    "tiles, d2, 1,000 calls of learn(10)": ("ActorCritic", PENDULUM, {"rule": "d2"}, 10),
}
CALLS = 1_000  # of a case with few steps


def serve() -> None:
    """One version: reads the name of a case from each line, and answers with seconds."""
    import perstep

    warnings.simplefilter("ignore")
    agents: dict[str, object] = {}
    for line in sys.stdin:
        kind, world, settings, steps = CASES[name := json.loads(line)]
        if name not in agents:
            agents[name] = getattr(perstep, kind)(world, preset="paper", seed=0, **settings).learn(100, progress=False)
        agent, calls = agents[name], CALLS if steps <= CALLS else 1
        begin = time.process_time()
        for _ in range(calls):
            agent.learn(steps, progress=False)  # type: ignore[attr-defined]
        print(json.dumps([perstep.__file__, time.process_time() - begin]), flush=True)


class Version:
    """The process of one version."""

    def __init__(self, source: Path) -> None:
        self.source = source.resolve()
        one = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"), "1")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], env={**os.environ, **one, "PYTHONPATH": str(self.source)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def seconds(self, name: str) -> float:
        """The time of one case, once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        file, seconds = json.loads(self.process.stdout.readline())
        if self.source not in Path(file).parents:
            raise RuntimeError(f"Expected perstep from {self.source}, got {file}.")
        return float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--tries", type=int, default=30)
    parser.add_argument("--cases", nargs="+", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        serve()
    else:
        measure(Version(flags.old), Version(flags.new), flags.cases, flags.tries)


def measure(old: Version, new: Version, cases: list[str], tries: int) -> None:
    """Both versions in turns, one line for each case."""
    for name in cases:
        old.seconds(name), new.seconds(name)  # compiled
        pairs = []
        for turn in range(tries):  # who begins alternates
            first, second = (old, new) if turn % 2 else (new, old)
            times = {version: version.seconds(name) for version in (first, second)}
            pairs.append((times[old], times[new]))
        before, after = (min(times) for times in zip(*pairs, strict=True))
        middle = statistics.median(b / a for a, b in pairs)
        steps = max(CASES[name][3], CALLS * 10)
        print(
            f"{name}: {1e9 * before / steps:.1f} ns a step before, {1e9 * after / steps:.1f} after: "
            f"{100 * (after / before - 1):+.1f} % (median of pairs {100 * (middle - 1):+.1f} %)",
            flush=True,
        )
    for version in (old, new):
        version.process.kill()


if __name__ == "__main__":
    main()
