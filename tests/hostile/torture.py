"""Kills studies and trainings at random moments until they end, and compares what is left: `make torture ARGS="--kills 100"`.

Nothing may be lost (what was published stays), nothing done twice (a published file does not change), and at the end all bits are
those of runs without a kill. The same --seed draws the same delays. With --ray-nodes N, machines of a Ray cluster die instead, N of
them, while studies run there; each is followed by a new one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from perstep.files import storage

SHARE = 0.3  # of the time of a whole run: a kill comes after this share of it at the latest
RAY_STEPS = 15_000  # of a run on Ray: seconds, so that a machine is mostly lost inside of one
BETWEEN_LOSSES = 4.0, 14.0  # seconds between two lost machines; a new one needs some of them to begin
TILES = ["d2-tile-sarsa", "MountainCar-v0", "--tiles", "4", "--num-quantiles", "5"]
NETWORK = [
    "d2-deep-q", "perstep/InvertedPendulum-v0", "--hidden", "8", "--replay-capacity", "1000", "--num-quantiles", "5",
    "--threads", "1", "--device", "cpu",
]  # fmt: skip
SOUND = "nothing lost, nothing done twice, same bits"

STUDY = """algorithm: [d2-q, d3-q]
world: {world}
steps: {steps}
runs: 4
grid: {{step_size: [0.002, 0.02, 0.2], num_quantiles: [5, 10]}}
"""


# A process that has loaded the libraries, which takes seconds, and forks one process for every command.
NURSERY = """
import json, os, sys
import perstep.app.cli, perstep.paper.reproduction, perstep.studies.sweep, perstep.app.training.flags, rich.table

for world, agent in (("perstep/RedPillBluePill-v0", perstep.QLearning), ("perstep/InvertedPendulum-v0", perstep.ActorCritic)):
    for rule in ("d2", "d3"):
        agent(world, rule=rule).learn(20, progress=False)  # compiled
perstep.QLearning("FrozenLake-v1", rule="d2").learn(20, progress=False)
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        os._exit(perstep.app.cli.main(json.loads(line)))
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Nursery:
    """Runs commands, each in a process that begins at once."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", NURSERY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )  # fmt: skip
        assert self._line() == "ready"

    def run(self, words: list[str], seconds: float | None = None) -> int | None:
        """The exit code of a command; None if it was killed after so many seconds, with all processes that it started."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        pid = int(self._line())
        if select.select([self.process.stdout], [], [], seconds)[0]:
            return int(self._line())
        with contextlib.suppress(ProcessLookupError):  # it ended by itself in this moment
            os.killpg(pid, signal.SIGKILL)
        return None if int(self._line()) == -signal.SIGKILL else 0

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()


def digests(folder: Path) -> dict[str, str]:
    """The results that are published: names and contents."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.parquet")
    }


def same_tables(one: Path, other: Path) -> bool:
    """Whether two folders hold the same results, to the bit."""
    names = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet")) for folder in (one, other)]
    return names[0] == names[1] and all(
        pl.read_parquet(one / name, glob=False).equals(pl.read_parquet(other / name, glob=False)) for name in names[0]
    )


def same_agents(one: Path, other: Path) -> bool:
    """Whether two runs have the same agent, to the bit."""
    (arrays, about), (others, about_other) = (storage.read(folder / "agent.safetensors") for folder in (one, other))
    equal = all(arrays[name].tobytes() == others[name].tobytes() for name in arrays)
    return equal and arrays.keys() == others.keys() and about == about_other


def kill_until_it_ends(
    nursery: Nursery, words: list[str], kills: int, longest: float, rng: random.Random, check: Callable[[], None]
) -> int:
    """Start a command again and again, killed after random times, `kills` times at most; the last one ends by itself."""
    for number in range(kills + 1):
        code = nursery.run(words, rng.uniform(0.0, longest) if number < kills else None)
        check()
        if code is not None:
            if code:
                raise SystemExit(f"A command failed with exit code {code} after {number} kills: {' '.join(words)}")
            return number
    raise AssertionError("the last one is not killed")


def torture_study(nursery: Nursery, folder: Path, world: str, steps: int, kills: int, rng: random.Random) -> int:
    """Kill a study; returns the number of kills."""
    file, whole, killed = folder / "study.yaml", folder / "whole", folder / "killed"
    file.write_text(STUDY.format(world=world, steps=steps))
    begin = time.monotonic()
    assert nursery.run(["sweep", str(file), "--out", str(whole)]) == 0
    longest = SHARE * (time.monotonic() - begin)
    seen: dict[str, str] = {}

    words = ["sweep", str(file), "--out", str(killed)]
    times = kill_until_it_ends(nursery, words, kills, longest, rng, lambda: check_published(killed, seen))
    if not same_tables(whole, killed):
        raise SystemExit(f"The results of {world} differ after {times} kills.")
    return times


def torture_training(
    nursery: Nursery, folder: Path, words: list[str], steps: int, kills: int, rng: random.Random
) -> int:
    """Kill a training; returns the number of kills."""
    whole, killed = folder / "whole", folder / "killed"
    train = ["train", *words, "--steps", str(steps), "--checkpoint-every", str(max(steps // 40, 1)), "--quiet"]
    begin = time.monotonic()
    assert nursery.run([*train, "--out", str(whole)]) == 0
    longest, reached = SHARE * (time.monotonic() - begin), [0]

    def check() -> None:
        if (agent := killed / "agent.safetensors").exists():
            now = storage.read(agent)[1]["steps"]
            if now < reached[0]:
                raise SystemExit(f"The agent was at step {reached[0]:,}, and is at step {now:,} now.")
            reached[0] = now

    times = kill_until_it_ends(nursery, [*train, "--out", str(killed), "--resume"], kills, longest, rng, check)
    if not same_agents(whole, killed):
        raise SystemExit(f"The agent of {' '.join(words)} differs after {times} kills.")
    return times


class Machines:
    """A Ray cluster on this machine: a head that does no work, and machines with one core that can be lost."""

    def __init__(self, number: int) -> None:
        # Before Ray is imported: its ports are open to everybody, so it asks for a token, which the commands below inherit.
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        from ray.cluster_utils import Cluster

        self._small = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **self._small})
        self.address = self._cluster.address
        self._started = 0
        self._nodes = [self._another() for _ in range(number)]

    def lose_one(self, rng: random.Random) -> None:
        """End a machine and all its workers with SIGKILL, and start another one."""
        self._cluster.remove_node(self._nodes.pop(rng.randrange(len(self._nodes))), allow_graceful=False)
        self._nodes.append(self._another())

    def close(self) -> None:
        """End all machines."""
        self._cluster.shutdown()

    def _another(self) -> Any:
        self._started += 1
        # An address of its own, since a command connects to the machine that has its own address: the head.
        return self._cluster.add_node(num_cpus=1, node_ip_address=f"127.0.1.{self._started % 250 + 1}", **self._small)


def torture_ray(machines: Machines, sweep: list[str], folder: Path, losses: int, rng: random.Random) -> int:
    """Run a study on a cluster whose machines die, `losses` at most; returns how many have died."""
    seen: dict[str, str] = {}
    times, words = 0, [*sweep, str(folder), "--engine", "ray", "--ray-address", machines.address]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            try:
                running.wait(rng.uniform(*BETWEEN_LOSSES))
            except subprocess.TimeoutExpired:
                if times < losses and seen:  # the study is under way
                    machines.lose_one(rng)
                    times += 1
            check_published(folder, seen)
    if running.returncode:
        raise SystemExit(f"The study on Ray failed with exit code {running.returncode} after {times} lost machines.")
    return times


def check_published(folder: Path, seen: dict[str, str]) -> None:
    """Stop if a result that was published is gone or has changed; `seen` holds those that were there before."""
    now = digests(folder)
    if changed := [name for name, digest in seen.items() if now.get(name) != digest]:
        raise SystemExit(f"Results were lost or made twice: {changed}")
    seen.update(now)


def lose_machines(losses: int, rng: random.Random) -> None:
    """Run a study on a cluster again and again until so many machines have died; its results must be those of a local run."""
    begin, total, rounds = time.monotonic(), 0, 0
    machines = Machines(2)
    try:
        with tempfile.TemporaryDirectory() as name:
            file, whole = Path(name) / "study.yaml", Path(name) / "whole"
            file.write_text(STUDY.format(world="FrozenLake-v1", steps=RAY_STEPS))
            sweep = [sys.executable, "-W", "ignore", "-m", "perstep.app.cli", "sweep", str(file), "--out"]
            subprocess.run([*sweep, str(whole)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while total < losses:
                rounds += 1
                folder = Path(name) / str(rounds)
                total += torture_ray(machines, sweep, folder, losses - total, rng)
                if not same_tables(whole, folder):
                    raise SystemExit(f"The results on Ray differ from the local ones after {total} lost machines.")
                print(f"{total:,} lost machines over {rounds} studies, {time.monotonic() - begin:.0f} s", flush=True)
    finally:
        machines.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-run", type=int, default=12, help="kills of one study or training, at most")
    parser.add_argument("--ray-nodes", type=int, default=0, help="let so many machines of a Ray cluster die instead")
    flags = parser.parse_args()
    if flags.ray_nodes:
        lose_machines(flags.ray_nodes, random.Random(flags.seed))
        print(SOUND)
        return 0
    nursery = Nursery()
    rng, begin, total, rounds = random.Random(flags.seed), time.monotonic(), 0, 0
    cases: list[Callable[[Path, int], int]] = [
        lambda folder, kills: torture_study(nursery, folder, "perstep/RedPillBluePill-v0", 300_000, kills, rng),
        lambda folder, kills: torture_training(
            nursery, folder, ["d2-q", "perstep/RedPillBluePill-v0", "--num-quantiles", "10"], 6_000_000, kills, rng
        ),
        lambda folder, kills: torture_training(nursery, folder, ["d2-q", "FrozenLake-v1"], 60_000, kills, rng),
        lambda folder, kills: torture_study(nursery, folder, "FrozenLake-v1", 5_000, kills, rng),
        lambda folder, kills: torture_training(
            nursery,
            folder,
            ["d3-actor-critic", "perstep/InvertedPendulum-v0", "--num-quantiles", "5"],
            1_000_000,
            kills,
            rng,
        ),
        lambda folder, kills: torture_training(nursery, folder, TILES, 400_000, kills, rng),
        lambda folder, kills: torture_training(nursery, folder, NETWORK, 4_000, kills, rng),
    ]
    while total < flags.kills and time.monotonic() - begin < flags.seconds:
        with tempfile.TemporaryDirectory() as folder:
            total += cases[rounds % len(cases)](Path(folder), min(flags.per_run, flags.kills - total))
        rounds += 1
        print(f"{total:,} kills over {rounds} studies and trainings, {time.monotonic() - begin:.0f} s", flush=True)
    print(SOUND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
