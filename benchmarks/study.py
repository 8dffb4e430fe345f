"""Studies: what the machinery (agents made, runs handed out, results published) adds to the learning itself; a whole study."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable

from measuring import seconds, table

import perstep
from perstep.paper.catalog import REDPILL, SCALES, STUDIES
from perstep.studies.execution import complete
from perstep.studies.results import Results
from perstep.studies.study import Study
from perstep.system.processors import usable_cores

GOAL = 0.15  # of the time of the bare learning


def share(study: Study, *, quick: bool) -> Study:
    """A study over part of its grid, with all runs of a configuration, since they share what it costs to publish them."""
    every = 4 if quick and study.part == "redpill" else 2  # the pendulum's runs are a tenth as long
    grid = {name: values if name == "num_quantiles" else values[1::every] for name, values in study.grid.items()}
    return dataclasses.replace(study, grid=grid)


def processor_seconds(work: Callable[[], object]) -> float:
    """Of all threads: what others do on this machine does not count."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def overhead(study: Study, tries: int = 3) -> tuple[float, float]:
    """Seconds of the study, and of the same agents learning without it, each the best of several tries in turns."""

    def whole() -> None:
        with tempfile.TemporaryDirectory() as folder:
            complete(Results(folder, [study]), progress=False)

    def crowd() -> list[perstep.Agent]:
        settings = [{**study.fixed, **setting, "seed": seed} for setting in study.settings for seed in study.seeds]
        agents = [perstep.make_agent(study.algorithm, study.world, **each) for each in settings]
        for agent in agents:
            agent.may_diverge = True  # as in a study
        return agents

    perstep.learn_together(crowd(), 10, progress=False), whole()  # compiled
    ours, bare = [], []
    for _ in range(tries):
        agents = crowd()
        bare.append(
            processor_seconds(lambda agents=agents: perstep.learn_together(agents, study.steps, progress=False))
        )
        ours.append(processor_seconds(whole))
    return min(ours), min(bare)


def against_bare(*, quick: bool) -> None:
    rows, totals = [], [0.0, 0.0]
    for name, study in STUDIES.items():
        if study.part not in ("redpill", "pendulum"):
            continue
        part = share(study, quick=quick)
        ours, bare = overhead(part)
        times = len(study.settings) * study.num_runs / (len(part.settings) * part.num_runs)
        totals = [totals[0] + times * ours, totals[1] + times * bare]
        rows.append((name, f"{times * bare:.1f} s", f"{times * ours:.1f} s", f"{ours / bare - 1.0:+.1%}", ""))
    more = totals[0] / totals[1] - 1.0
    verdict = f"≤ {GOAL:.0%}: {'yes' if more <= GOAL else 'NO'}"
    rows.append(("all together", f"{totals[1]:.1f} s", f"{totals[0]:.1f} s", f"{more:+.1%}", verdict))
    table(
        "Time of all cores for the paper's studies, from a share of them: the learning alone, and as a study",
        ("study", "bare", "study", "more", "goal"),
        rows,
    )


def whole_study(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = Results(folder, [study.at(SCALES[name]) for study in REDPILL])
        took = seconds(lambda: complete(results, progress=False))
        again = seconds(lambda: complete(results, progress=False))
        size = sum(path.stat().st_size for path in results.folder.rglob("*.parquet"))
    steps = sum(len(study.settings) * study.num_runs * study.steps for study in results.studies.values())
    print(
        f"The whole red-pill study, {name} scale, {usable_cores()} cores: {took:.0f} s, "
        f"{steps / took / 1e6:.1f}M steps/s; {size / 1e6:.1f} MB; once more, with everything there: {again:.1f} s\n"
    )


def main(*, quick: bool) -> None:
    against_bare(quick=quick)
    whole_study("small" if quick else "paper")
