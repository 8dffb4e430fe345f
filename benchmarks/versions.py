"""Speed of two versions of perstep, measured in one run: `python benchmarks/versions.py OLD/src NEW/src`.

Each version has its own process, and they take turns, so that what disturbs one disturbs the other. A time is processor time
of one thread, of about a millisecond. Where a process has its memory can change its speed by a tenth or more, so the processes are
started again several times. The settings are the paper's, but for the case of the defaults.

A process uses what earlier ones have compiled, so its machine code could depend on which agent was the first on a machine. Each
version is compiled from an empty cache in several orders, one process for each agent, and measured after each of them.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import inspect
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RED_PILL, PENDULUM = "perstep/RedPillBluePill-v0", "perstep/InvertedPendulum-v0"
CASES = {  # name: (class, world, settings, steps at once), about a millisecond
    "table, differential": ("QLearning", RED_PILL, {"rule": "differential"}, 8_000),
    "table, d2, m = 51": ("QLearning", RED_PILL, {"rule": "d2", "num_quantiles": 51}, 6_000),
    "table, d3, m = n = 51": ("QLearning", RED_PILL, {"rule": "d3", "num_quantiles": 51}, 2_000),
    "table, d2, prediction": ("TDLearning", RED_PILL, {"rule": "d2", "policy": (0, 0)}, 10_000),
    "table, d2, defaults": ("QLearning", RED_PILL, {"rule": "d2", "preset": "steady"}, 1_000),
    "tiles, differential": ("ActorCritic", PENDULUM, {"rule": "differential"}, 2_000),
    "tiles, d2": ("ActorCritic", PENDULUM, {"rule": "d2"}, 2_000),
    "tiles, d3": ("ActorCritic", PENDULUM, {"rule": "d3"}, 700),
    "tiles, d2, Q": ("TileQ", PENDULUM, {"rule": "d2"}, 2_000),
}
CALLS = "a call of learn(1)"
ORDERS = {  # name: which cases are compiled, in this order, before any is measured
    "actor-critic first": ("tiles, d2", "tiles, d2, Q", "table, d2, m = 51", "table, d2, prediction"),
    "Q on tiles first": ("tiles, d2, Q", "tiles, d2"),
    "tables first": ("table, d2, prediction", "table, d2, m = 51", "tiles, d2", "tiles, d2, Q"),
}


def serve() -> None:
    """One version: reads the name of a case from each line, and answers with seconds and with the code that it has loaded."""
    from numba.core.codegen import CPUCodeLibrary

    loaded: dict[str, list[str]] = {}
    unserialize = CPUCodeLibrary._unserialize.__func__

    def watched(cls: Any, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind == "object":
            loaded[name] = disassembled(data[0])
        return unserialize(cls, codegen, state)

    CPUCodeLibrary._unserialize = classmethod(watched)
    import perstep

    warnings.simplefilter("ignore")
    agents: dict[str, object] = {}
    for line in sys.stdin:
        name = json.loads(line)
        kind, world, settings, steps = CASES.get(name, CASES["table, d2, m = 51"])
        if name not in agents:
            settings = {"preset": "paper", "seed": 0} | settings
            if (
                "preset" not in inspect.signature(getattr(perstep, kind)).parameters
            ):  # older versions: all is the paper's
                settings.pop("preset")
            agents[name] = getattr(perstep, kind)(world, **settings).learn(100, progress=False)
        agent: Any = agents[name]
        begin = time.process_time()
        if name == CALLS:
            agent.learn(1, progress=False)
        else:
            agent._advance(steps)  # the compiled loop alone
        print(json.dumps([perstep.__file__, time.process_time() - begin, loaded]), flush=True)
        loaded.clear()


def disassembled(code: bytes) -> list[str]:
    """The instructions of an object file, without addresses; empty without binutils."""
    if shutil.which("objdump") is None:
        return []
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        words = ["objdump", "--disassemble", "--no-show-raw-insn", file.name]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [re.sub(r"[0-9a-f]+ <.*?>|#.*", "", line.partition("\t")[2]).strip() for line in lines if "\t" in line]


class Version:
    """The process of one version."""

    def __init__(self, source: Path, caches: Path) -> None:
        self.source = source.resolve()
        self.code: dict[str, list[str]] = {}
        own = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"), "1")
        own |= {"PYTHONPATH": str(self.source), "NUMBA_CACHE_DIR": str(caches)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], env={**os.environ, **own},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def seconds(self, name: str) -> float:
        """The time of one case, once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        file, seconds, code = json.loads(self.process.stdout.readline())
        self.code |= code
        if self.source not in Path(file).parents:
            raise RuntimeError(f"Expected perstep from {self.source}, got {file}.")
        return float(seconds)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def compiled(sources: Iterable[Path], order: str) -> Iterator[Path]:
    """A folder of caches in which these versions were compiled in this order. They share it: a cache is named by its sources."""
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            for name in ORDERS[order]:
                print(f"compiling {name}, {order}, of {source}", file=sys.stderr)
                version = Version(source, Path(folder))
                version.seconds(name)
                version.stop()
        yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--tries", type=int, default=50, help="times of each case between two starts")
    parser.add_argument("--starts", type=int, default=20, help="of both processes")
    parser.add_argument("--cases", nargs="+", default=[*CASES, CALLS], help=f"of {', '.join([*CASES, CALLS])}")
    parser.add_argument("--orders", nargs="+", default=[*ORDERS], help=f"of {', '.join(ORDERS)}")
    parser.add_argument(
        "--code",
        action="store_true",
        help="compare machine code instead: of OLD in the first of the orders, of NEW in the last",
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        serve()
    elif flags.code:
        compare_code(flags.old, flags.new, flags.cases, flags.orders)
    else:
        for order in flags.orders:
            with compiled((flags.old, flags.new), order) as caches:
                print(f"Compiled in the order: {', '.join(ORDERS[order])}", flush=True)
                measure(flags.old, flags.new, flags.cases, flags.tries, flags.starts, caches)


def compare_code(old: Path, new: Path, cases: list[str], orders: list[str]) -> None:
    """The instructions of every function, and how many of them differ: of the old version compiled in the first of the orders, and
    of the new one in the last. With the same version twice, what the order changes."""
    codes = []
    for source, order in ((old, orders[0]), (new, orders[-1])):
        with compiled([source], order) as caches:
            for _ in range(
                2
            ):  # what the order leaves out is compiled at the first start, and all is loaded at the second
                version = Version(source, caches)
                for name in cases:
                    version.seconds(name)
                version.stop()
        codes.append(version.code)
    before_all, after_all = codes
    for name in sorted(before_all.keys() & after_all.keys()):
        before, after = before_all[name], after_all[name]
        changed = sum(line.startswith("+ ") for line in difflib.ndiff(before, after)) if before != after else 0
        print(f"{name}: {len(before):,} instructions before, {len(after):,} after, {changed:,} of them others")


def measure(old: Path, new: Path, cases: list[str], tries: int, starts: int, caches: Path) -> None:
    """Both versions in turns, then one line for each case."""
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for start in range(starts):
        before, after = Version(old, caches), Version(new, caches)
        for name in cases:
            before.seconds(name), after.seconds(name)  # compiled, or read from the cache
            for turn in range(start, start + tries):  # who begins alternates
                first, second = (before, after) if turn % 2 else (after, before)
                times = {version: version.seconds(name) for version in (first, second)}
                pairs[name].append((times[before], times[after]))
        before.stop(), after.stop()
    for name in cases:
        steps = CASES[name][3] if name in CASES else 1
        ratios = [b / a for a, b in pairs[name]]
        medians = [statistics.median(ratios[i : i + tries]) for i in range(0, len(ratios), tries)]
        low, high = statistics.quantiles(medians, n=4)[::2] if starts > 1 else (medians[0], medians[0])
        a, b = (statistics.median(times) for times in zip(*pairs[name], strict=True))
        print(
            f"{name}: {1e9 * a / steps:.1f} ns before, {1e9 * b / steps:.1f} after (medians); ratio of pairs "
            f"{100 * (statistics.median(ratios) - 1):+.1f} %, "
            f"of half of the starts {100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"
        )


if __name__ == "__main__":
    main()
