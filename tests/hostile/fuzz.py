"""Reads mutated files of agents, results, studies, runs and reports, each within limits of time and memory: `make fuzz`.

A child process reads the files. A death, a hang, too much memory, an error that is no sentence, or code that a file has started is
a fault: its file is kept, and the command exits with 1. The same --seed makes the same files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, BYTES = 10.0, 1_000_000_000  # the limits for one file: processor time and memory
LONGEST = 60.0  # seconds of waiting, also if the processor is busy with something else
START = 300.0  # seconds of processor time for a child to import and compile
KINDS = [
    *["agent"] * 12,
    *["result"] * 4,
    *["study"] * 4,
    "run",
    "page",
]  # a run draws its figures, which takes longest
EVIL = "evil_world"  # a module whose import leaves a file
FOLDER = Path(__file__).parent

NASTY_JSON: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 7, 1000, 2**31, 2**53, 2**62, 2**63, 2**64 - 1, 10**30, -(2**63), 0.5, -0.5, 1e-320, 1e308,
    -1e308, 1e9, "", "x", "d3", "auto", "human", "meta", "θ" * 300, "/etc/passwd", "../../x", f"{EVIL}:make", EVIL, [], [1], [0, 0],
    [-1, 10**12], [[1.0]], [1] * 1000, {}, {"scale": 1}, {"tuple": [1]}, {"array": [1], "dtype": "O"}, {"a": {"b": {}}},
]  # fmt: skip
# A study may name the module of its world, which is then imported (SECURITY.md).
NASTY_IN_STUDIES = [value for value in NASTY_JSON if EVIL not in str(value)]
NASTY_NUMBERS = [0, 1, -1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 10**12, 255]
NASTY_FLOATS = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e9]
STUDY = """algorithm: [d2-q, differential-q]
world: perstep/RedPillBluePill-v0
steps: 1000
runs: 3
grid:
  step_size: [0.01, 0.1]
  reward_ratio: {low: 0.1, high: 10, log: true}
fixed: {num_quantiles: 10, preset: paper}
"""


# ------------------------------------------------------------------------------------------------------------ the files


RUN = ["train", "d2-q", "perstep/TwoLoop-v0", "--num-quantiles", "4"]


def make_samples(folder: Path) -> dict[str, list[Path]]:
    """Small whole files of every kind."""
    import gymnasium

    import perstep
    from perstep.app.cli import main
    from perstep.studies.execution import complete
    from perstep.studies.results import Results
    from perstep.studies.study_file import studies_of

    small = {"tilings": 4, "tiles": 3, "num_quantiles": 4}
    deep = {
        "hidden": (8,),
        "replay_capacity": 50,
        "learning_starts": 10,
        "batch_size": 4,
        "threads": 1,
        "device": "cpu",
    }
    names = perstep.FiniteMDP.from_function(
        ("up", 1), ["stay", "go"], lambda state, go: [(0.5, ("up", 1), 1.0), (0.5, ("down", "x"), -1.0 * (go == "go"))]
    )
    agents = [
        perstep.QLearning("perstep/TwoLoop-v0", rule="d3", num_quantiles=4, horizon=20),
        perstep.QLearning("perstep/RedPillBluePill-v0", num_quantiles=4, risk_level=0.25),
        perstep.QLearning("perstep/TwoLoop-v0", rule="categorical", num_quantiles=5),
        perstep.TDLearning("perstep/RedPillBluePill-v0", [0, 1], num_quantiles=4),
        perstep.QLearning("FrozenLake-v1", rule="d2", num_quantiles=4),
        perstep.Planner("perstep/RedPillBluePill-v0", risk_level=0.25),
        perstep.QLearning("perstep/TwoLoop-v0", rule="rvi", step_size=perstep.Decay(0.5, 0.8)),
        perstep.QLearning("FrozenLake-v1", objective="return per episode", num_quantiles=4),
        perstep.Planner("FrozenLake-v1", preset="changing"),
        perstep.Planner(names),
        perstep.TDLearning(names, {("up", 1): "go", ("down", "x"): "stay"}, num_quantiles=4),
        perstep.ActorCritic("perstep/InvertedPendulum-v0", rule="d3", **small),
        perstep.TileQ("MountainCar-v0", rule="differential", **small),
        perstep.TileQ("perstep/MountainCar-v0", rule="d3", horizon=20, risk_level=0.5, **small),
        perstep.TileQ(
            gymnasium.make("perstep/MountainCar-v0", max_episode_steps=9), rule="d3", **small
        ),  # a plain loop
        perstep.DeepQ("CartPole-v1", rule="d3", num_quantiles=4, **deep),
        perstep.DeepQ("CartPole-v1", rule="d2", num_quantiles=4, risk_level=0.5, **deep),
        perstep.DeepQ("CartPole-v1", rule="categorical", num_quantiles=5, precision="float32", **deep),
        perstep.DeepQ(gymnasium.make_vec("CartPole-v1", num_envs=2), rule="differential", **deep),
        perstep.SoftActorCritic("Pendulum-v1", rule="d2", num_quantiles=4, **deep),
        perstep.SoftActorCritic("Pendulum-v1", rule="d3", num_quantiles=4, normalization="layer", **deep),
        perstep.SoftActorCritic("perstep/LinearQuadratic-v0", rule="rvi", preset="steady", **deep),
    ]
    paths: dict[str, list[Path]] = {"agent": [], "result": [], "study": [], "run": [], "page": []}
    for number, agent in enumerate(agents):
        path = folder / f"{number}.safetensors"
        agent.record_every(5, rows=8, sketch=number % 2 == 0).learn(30, progress=False).save(path)
        paths["agent"].append(path)
    _, studies = studies_of(
        {**json.loads(json.dumps(study_given())), "steps": 200, "world": "perstep/TwoLoop-v0"}, "sample"
    )
    results = Results(folder / "results", studies[:1])
    complete(results, threads=1, progress=False)
    paths["result"] = sorted(results.folder.rglob("*.parquet"))
    for name, text in (("yaml", STUDY), ("json", json.dumps(study_given()))):
        paths["study"].append(folder / f"study.{name}")
        paths["study"][-1].write_text(text, encoding="utf-8")
    if main([*RUN, "--steps", "40", "--evaluate-every", "20", "--out", str(folder / "run"), "--quiet"]):
        raise RuntimeError("The training run failed.")
    make_page(folder / "page", paths["result"][0])
    for kind in ("run", "page"):
        files = sorted(path for path in (folder / kind).rglob("*") if path.is_file() and path.name != ".lock")
        paths[kind] = [path for path in files if path.suffix != ".pdf"]
    return paths


def make_page(folder: Path, result: Path) -> None:
    """A results folder as a report reads it: claims, provenance, a figure and the table of a run."""
    from PIL import Image

    from perstep.studies.provenance import write_provenance

    here = folder / "redpill" / "smoke"
    (here / "figures").mkdir(parents=True)
    (here / "runs").mkdir()
    shutil.copy(result, here / "runs" / result.name)
    Image.new("RGB", (8, 8)).save(here / "figures" / "redpill_2.png")
    claims = [
        {
            "where": "Fig. 2",
            "says": "R̄ is -0.6",
            "measured": "-0.61",
            "tolerance": "0.02",
            "verdict": "holds",
            "figure": "",
        }
    ]
    (here / "claims.json").write_text(json.dumps(claims), encoding="utf-8")
    write_provenance(here, command="perstep reproduce redpill", engine="local", seconds=1.0, runs=1)


def study_given() -> dict[str, Any]:
    return {
        "algorithm": "d2-q", "world": "perstep/RedPillBluePill-v0", "steps": 1000, "runs": 3,
        "grid": {"step_size": [0.01, 0.1]}, "fixed": {"num_quantiles": 10, "risk_level": 0.5},
    }  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


def replaced(value: Any, rng: random.Random, nasty: list[Any] = NASTY_JSON) -> Any:
    """A JSON value with one to three entries replaced, added or removed."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 3))):
        *way, last = rng.choice(list(places(value)) or [("x",)])
        inner = value
        for key in way:
            inner = inner[key]
        if rng.random() < 0.1 and isinstance(inner, dict):
            inner.pop(last, None)
        elif rng.random() < 0.1 and isinstance(inner, dict):
            inner[rng.choice(("x", "seed", "render_mode", "entry_point", "env", "name", "world"))] = json.loads(
                json.dumps(rng.choice(NASTY_JSON))
            )
        else:
            inner[last] = json.loads(json.dumps(rng.choice(nasty)))
    return value


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes with flips, cuts, insertions or zeros."""
    changed = bytearray(content)
    kind = rng.randrange(5)
    at = rng.randrange(max(len(changed), 1))
    if kind == 0:
        for _ in range(rng.choice((1, 1, 1, 5, 50))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del changed[at:]
    elif kind == 2:
        changed[at:at] = rng.randbytes(rng.randrange(1, 40))
    elif kind == 3:
        changed[at : at + 512] = bytes(len(changed[at : at + 512]))
    else:
        changed[at : at + 8] = rng.choice(NASTY_NUMBERS[:8]).to_bytes(8, "little", signed=True)
    return bytes(changed)


def mutate_array(array: Any, rng: random.Random) -> Any:
    """An array with other numbers, another shape or another type."""
    kind = rng.randrange(6)
    if kind == 0:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice((np.float32, np.float64, np.int64, np.uint8, np.bool_)))
    if kind == 1:
        return array.ravel()[: rng.randrange(array.size + 1)]
    if kind == 2:
        return np.resize(array, (rng.choice((0, 1, 3, 60, 5000)), *array.shape[1:]))
    changed = np.array(array).reshape(-1)
    for _ in range(rng.choice((1, 3, changed.size)) if changed.size else 0):
        nasty = rng.choice(NASTY_FLOATS if changed.dtype.kind == "f" else NASTY_NUMBERS)
        with np.errstate(all="ignore"):
            changed[rng.randrange(changed.size)] = np.array(nasty).astype(changed.dtype)
    return changed.reshape(array.shape)


def mutant(kind: str, sample: Path, rng: random.Random, folder: Path) -> Path:
    """A mutated file; of a run or of a page, in a copy of its folder."""
    from perstep.files import storage

    path = folder / f"mutant{sample.suffix}"
    if kind in ("run", "page"):
        whole = next(above for above in sample.parents if above.name == kind)
        shutil.rmtree(folder / kind, ignore_errors=True)
        shutil.copytree(whole, folder / kind)
        path = folder / kind / sample.relative_to(whole)
    if rng.random() < 0.3 or sample.suffix == ".png":
        path.write_bytes(damaged(sample.read_bytes(), rng))
    elif sample.suffix == ".safetensors":
        arrays, metadata = storage.read(sample)
        if rng.random() < 0.6:
            metadata = replaced(metadata, rng)
        if rng.random() < 0.6:
            for name in rng.sample(sorted(arrays), rng.choice((1, 1, 2))):
                arrays[name] = mutate_array(arrays[name], rng)
        if rng.random() < 0.05:
            del arrays[rng.choice(sorted(arrays))]
        storage.write(path, arrays, metadata)
    elif sample.suffix == ".parquet":
        import polars as pl

        frame = storage.read_table(sample)
        name = rng.choice(frame.columns)
        change: list[Callable[[], Any]] = [
            lambda: frame.drop(name), lambda: frame.head(rng.randrange(3)), lambda: frame.rename({name: "x"}),
            lambda: frame.with_columns(pl.lit(rng.choice((None, 1, -1.5, "x", "{}"))).alias(name)),
            lambda: pl.concat([frame, frame]),
        ]  # fmt: skip
        storage.write_table(path, rng.choice(change)())
    elif sample.suffix == ".json":
        path.write_text(json.dumps(replaced(json.loads(sample.read_text()), rng, NASTY_IN_STUDIES)), encoding="utf-8")
    else:
        lines = sample.read_text().splitlines()
        for _ in range(rng.choice((1, 2))):
            at = rng.randrange(len(lines))
            key = lines[at].partition(":")[0]
            nasty = rng.choice(
                (
                    "&a [*a, *a]",
                    "!!bool 3",
                    "!!python/object/apply:os.system [ls]",
                    "1e9",
                    "1e99",
                    "[[[[[",
                    "{a: }",
                    "? x",
                    "2e400",
                )
            )
            lines[at] = rng.choice(
                (
                    f"{key}: {nasty}",
                    f"{key}: {json.dumps(rng.choice(NASTY_IN_STUDIES))}",
                    lines[at] * 2,
                    "",
                    f"- {lines[at]}",
                )
            )
        path.write_text("\n".join(lines), encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------------------ the child


def command(words: list[str]) -> str:
    """How a command of `perstep` ended; it prints nothing here."""
    from perstep.app.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    sentence = said.getvalue().startswith("perstep: ") and "Error:" not in said.getvalue().split("perstep: ")[0]
    return "read" if code == 0 else "refused" if code == 2 and sentence else f"no sentence: {code} {said.getvalue()!r}"


def serve(connection: Connection, folder: str) -> None:
    """Read files, and say how it went: a word, and the largest memory of this process since the last file."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (16 * BYTES, 16 * BYTES))  # so that a fault does not take the machine
    sys.path.insert(0, folder)
    warnings.simplefilter("ignore")
    import gymnasium

    import perstep
    from perstep.files.storage import BadFile, published, remove_leftovers  # noqa: F401 (imported before the audit)
    from perstep.studies.ranking import rank  # noqa: F401
    from perstep.studies.results import Results
    from perstep.studies.runs import try_out
    from perstep.studies.study_file import read_study, studies_of
    from perstep.studies.sweep import ranking_table

    _, studies = studies_of({**study_given(), "steps": 200, "world": "perstep/TwoLoop-v0"}, "sample")
    spoken = (
        ValueError,
        TypeError,
        OSError,
        ImportError,
        RuntimeError,
        MemoryError,
        ArithmeticError,
        gymnasium.error.Error,
    )
    started: list[str] = []

    def watch(event: str, arguments: Any) -> None:
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"):
            started.append(f"{event} {arguments[:1]}")
        if event == "import" and arguments[0] == EVIL:
            started.append("import")

    def attempt(kind: str, path: Path) -> str:
        if kind == "agent":
            try:
                agent = perstep.load(path)
            except BadFile:
                return "refused"
            except FileNotFoundError as error:
                return f"no sentence: {error!r}"
            try:
                agent.learn(5, progress=False)
                agent.history  # noqa: B018 (a property)
                repr(agent)
                agent.card()
                with contextlib.suppress(ValueError):  # too few steps, or none that it learns
                    agent.forecast(10)
            except spoken as error:
                unexpected = isinstance(error, TypeError | MemoryError) or not str(error)
                return f"no sentence: {error!r}" if unexpected else "loaded, then a sentence"
            return "loaded"
        try:
            if kind == "result":
                results = Results(path.parent, studies[:1])
                target = results.path(*next(iter(results.configurations())))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
                if results.find(*next(iter(results.configurations()))) is None:
                    return "refused"
                ranking_table(results)
            elif kind == "run":
                here = str(Path(folder) / "work" / "run")
                ends = [
                    command(["evaluate", here, "--steps", "5"]),
                    command([*RUN, "--steps", "60", "--resume", "--quiet", "--out", here]),
                ]
                return next((end for end in ends if end.startswith("no")), min(ends))
            elif kind == "page":
                return command(["report", str(Path(folder) / "work" / "page")])
            else:
                for study in read_study(path).studies:
                    try_out(study)
        except spoken as error:
            return "refused" if str(error) else f"no sentence: {error!r}"
        return "read"

    for sample in sorted(Path(folder).glob("*.safetensors")):
        attempt("agent", sample)  # compiled before a clock runs
    sys.addaudithook(watch)
    connection.send(("ready", 0))
    while (order := connection.recv()) is not None:
        Path("/proc/self/clear_refs").write_text("5")
        started.clear()
        try:
            said = attempt(order[0], Path(order[1]))
        except BaseException as error:
            said = f"no sentence: {error!r}"
        said = f"started {started[0]}" if started else said
        connection.send((said[:300], perstep.system.memory.peak_memory() or 0))


class Child:
    """The process that reads, started again when it dies or hangs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, str(self.folder)), daemon=True)
        self.process.start()
        theirs.close()
        while not self.connection.poll(1.0):
            if not self.process.is_alive() or self.processor_time() > START:
                raise RuntimeError("The child did not start.")
        if self.connection.recv()[0] != "ready":
            raise RuntimeError("The child did not start.")

    def processor_time(self) -> float:
        """Seconds that the process has computed so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def read(self, kind: str, path: Path) -> tuple[str, int, float]:
        """What happened, the memory and the seconds."""
        begin = time.monotonic()
        try:
            self.connection.send((kind, str(path)))
            busy = self.processor_time()
            while not self.connection.poll(1.0):
                if self.processor_time() - busy > SECONDS or time.monotonic() - begin > LONGEST:
                    break
            else:
                said, memory = self.connection.recv()
                return said, memory, time.monotonic() - begin
            said = "hang"
        except (EOFError, OSError):
            said = "death"
        self.process.kill()
        self.process.join()
        code = self.process.exitcode
        self.start()
        return said if said == "hang" else f"death, exit code {code}", 0, time.monotonic() - begin


def is_fault(said: str, memory: int) -> bool:
    """Whether a file did what no file may do."""
    return said.startswith(("no sentence", "started", "death", "hang")) or memory > BYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-faults"), help="folder for the files that are faults")
    flags = parser.parse_args()
    begin, told, faults = time.monotonic(), Counter[str](), 0
    slowest, most = 0.0, 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / f"{EVIL}.py").write_text(f"open({str(folder / 'executed')!r}, 'w')\ndef make(**settings): pass\n")
        samples, work = make_samples(folder), folder / "work"
        work.mkdir()
        child, done = Child(folder), 0
        for done in range(1, flags.files + 1):
            rng = random.Random(f"{flags.seed}-{done}")
            kind = rng.choice(flags.kinds)
            path = mutant(kind, rng.choice(samples[kind]), rng, work)
            said, memory, seconds = child.read(kind, path)
            slowest, most = max(slowest, seconds), max(most, memory)
            if is_fault(said, memory) or (folder / "executed").exists():
                faults += 1
                flags.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, flags.keep / f"{flags.seed}-{done}{path.suffix}")
                print(
                    f"\nfault {flags.seed}-{done}: {kind}, {said}, {memory / 1e6:.0f} MB, {seconds:.1f} s", flush=True
                )
                (folder / "executed").unlink(missing_ok=True)
            told[f"{kind} {said.partition(':')[0]}"] += 1
            if done % 100 == 0:
                print(f"\r{done:,} files, {faults} faults, {time.monotonic() - begin:.0f} s", end="", flush=True)
            if time.monotonic() - begin > flags.seconds:
                break
        child.process.kill()
    print(
        f"\n{done:,} files in {time.monotonic() - begin:.0f} s: {faults} faults; slowest {slowest:.1f} s, {most / 1e6:.0f} MB"
    )
    for what, times in sorted(told.items()):
        print(f"  {what}: {times:,}")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
