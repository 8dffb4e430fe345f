"""Search the grid of a study with Optuna instead of running all of it. A trial is one configuration with all its runs.

Optuna's sampler is seeded and is told the same values in the same order each time, so a repeated command proposes the same
configurations again and finds their results on disk. The result files are the only memory that a search needs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console

from perstep.display.progress import duration
from perstep.studies.execution import Summary, complete
from perstep.studies.provenance import write_provenance
from perstep.studies.ranking import ALL_STEPS
from perstep.studies.results import Results
from perstep.studies.study import Setting, Study, setting_name
from perstep.studies.study_command import StudyOptions, print_failures
from perstep.studies.study_file import Range, UserStudy

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

TRIALS = 30  # default number of configurations to run
SEED = 0  # of Optuna's sampler: the same study gives the same search
REPETITIONS = 100  # proposals in a row that were run before, after which a configuration that was not run is taken
MOST_RANDOM = 10  # random trials at the beginning, Optuna's own number; in a small grid a quarter of it
DIGITS = 4  # of a value from a range: short file names, and finer than any setting needs
ALGORITHM = "algorithm"

Configuration = tuple[Study, Setting]


@dataclass(frozen=True)
class Axis:
    """One dimension of the search: the values of a setting, or a range."""

    values: tuple[Any, ...] = ()
    range: Range | None = None

    @classmethod
    def of(cls, values: tuple[Any, ...], given: Range | None) -> Axis:
        """Numbers are sorted, so that the sampler knows which of them are neighbours."""
        if given is not None:
            return cls(range=given)
        return cls(tuple(sorted(values)) if _are_numbers(values) else values)

    def distribution(self) -> BaseDistribution:
        """What Optuna draws: a number of the range, or the position of a value."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.range is not None:
            low, high, log = self.range.low, self.range.high, self.range.log
            return (
                IntDistribution(int(low), int(high), log=log)
                if self.range.whole
                else FloatDistribution(low, high, log=log)
            )
        if _are_numbers(self.values):
            return IntDistribution(0, len(self.values) - 1)
        return CategoricalDistribution(range(len(self.values)))

    def value(self, drawn: Any) -> Any:
        """The value of the setting for what Optuna drew."""
        if self.range is None:
            return self.values[drawn]
        return drawn if self.range.whole else min(max(float(f"{drawn:.{DIGITS}g}"), self.range.low), self.range.high)


def search(study: UserStudy, results: Results, trials: int, options: StudyOptions, console: Console) -> Results:
    """Run up to `trials` configurations. Returns the results of those alone; configurations that have results are not run."""
    console.print(f"{study.name}: {_size(study, trials)}, into {results.folder}", markup=False)
    begin, runs = time.monotonic(), 0
    chosen: list[Configuration] = []
    best = -math.inf
    proposals = _proposals(study)
    try:
        value = None
        while len(chosen) < trials and (each := _next(proposals, value)) is not None:
            value, made = _measure(results, *each, options, console)
            runs += made
            chosen.append(each)
            best = max(best, -math.inf if math.isnan(value) else value)
            where = setting_name(each[1]) + (f", {each[0].algorithm}" if len(study.studies) > 1 else "")
            earned = "failed" if math.isnan(value) else f"{value:.6g}" + (", the best so far" if value == best else "")
            here = "" if made else " (its results were there already)"
            console.print(f"trial {len(chosen)}: {where}: {earned}{here}", markup=False, highlight=False)
    except KeyboardInterrupt:
        console.print("stopped: finished runs are kept; repeat the same command to continue")
        raise
    found = Results(results.folder, _only(study, chosen))
    write_provenance(
        results.folder, command=options.command, engine=options.engine.name, seconds=time.monotonic() - begin, runs=runs
    )
    if len(chosen) < trials:
        what = "Optuna proposes no new configuration any more" if study.ranges else "all configurations were run"
        console.print(f"{what}: {len(chosen)}")
    console.print(f"{len(chosen)} trials with {runs:,} new runs in {duration(time.monotonic() - begin)}")
    return found


def failures(found: Results, options: StudyOptions, console: Console) -> Summary:
    """What failed in the trials, told on the terminal. All of them have results, so nothing runs."""
    summary = complete(found, engine=options.engine, code=options.code)
    print_failures(summary, console)
    return summary


def _size(study: UserStudy, trials: int) -> str:
    size = _num_configurations(study)
    of = "" if math.isinf(size) else f" of {size:,} configurations"
    return f"Optuna runs {min(trials, size):,}{of} with {study.studies[0].num_runs} runs each"


def _num_configurations(study: UserStudy) -> float:
    return math.inf if study.ranges else sum(len(each.settings) for each in study.studies)


def _next(proposals: Any, value: float | None) -> Configuration | None:
    """The next configuration, after the value of the one before."""
    try:
        proposed: Configuration = next(proposals) if value is None else proposals.send(value)
    except StopIteration:
        return None
    return proposed


def _proposals(study: UserStudy) -> Any:
    """Configurations that were not proposed before. Each is answered with its value, NaN if it failed; ends when none is left."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    axes, space = _axes(study)
    random = int(min(MOST_RANDOM, max(1.0, _num_configurations(study) / 4)))
    sampler = optuna.samplers.TPESampler(seed=SEED, n_startup_trials=random)
    optimizer = optuna.create_study(direction="maximize", sampler=sampler)
    fail = optuna.trial.TrialState.FAIL
    seen: set[tuple[str, str]] = set()
    repeated = 0
    while len(seen) < _num_configurations(study):
        trial = optimizer.ask(space)
        each = _configuration(study, axes, trial.params)
        if (name := _name(each)) in seen:
            optimizer.tell(trial, state=fail)  # Optuna ignores it: its value was told before
            repeated += 1
            if repeated == REPETITIONS:
                repeated = 0
                if (fresh := next(_not_run(axes, study, seen), None)) is None:
                    return  # what Optuna proposes in the ranges was run
                optimizer.enqueue_trial(fresh)
            continue
        repeated = 0
        seen.add(name)
        value = yield each
        if math.isnan(value):
            optimizer.tell(trial, state=fail)
        else:
            optimizer.tell(trial, value)


def _axes(study: UserStudy) -> tuple[dict[str, Axis], dict[str, BaseDistribution]]:
    """The dimensions of the search by name. The algorithms are one more if there are several."""
    grid = study.studies[0].grid  # the same for all algorithms
    axes = {name: Axis.of(values, study.ranges.get(name)) for name, values in grid.items()}
    if len(study.studies) > 1:
        axes[ALGORITHM] = Axis(study.studies)
    return axes, {name: axis.distribution() for name, axis in axes.items()}


def _configuration(study: UserStudy, axes: Mapping[str, Axis], drawn: Mapping[str, Any]) -> Configuration:
    values = {name: axis.value(drawn[name]) for name, axis in axes.items()}
    chosen: Study = values.pop(ALGORITHM, study.studies[0])
    return chosen, values


def _name(each: Configuration) -> tuple[str, str]:
    return each[0].algorithm, setting_name(each[1])


def _not_run(axes: Mapping[str, Axis], study: UserStudy, seen: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """What Optuna could have drawn and has not, in the order of the grid; nothing if there is a range."""
    if study.ranges:
        return
    for each in study.studies:
        for setting in each.settings:
            if _name((each, setting)) not in seen:
                values = {**setting, **({ALGORITHM: each} if ALGORITHM in axes else {})}
                yield {name: axes[name].values.index(value) for name, value in values.items()}


def _measure(
    results: Results, study: Study, setting: Setting, options: StudyOptions, console: Console
) -> tuple[float, int]:
    """The mean average reward of the successful runs of a configuration, NaN if there is none, and how many runs it took now."""
    frame, _ = results.find_or_set_aside(study, setting)
    made = 0
    if frame is None or (options.retry_failed and frame["error"].null_count() < frame.height):
        summary = complete(
            Results(results.folder, [replace(study, own_settings=(setting,))]),
            engine=options.engine, retry_failed=options.retry_failed, code=options.code, run_timeout=options.run_timeout,
            progress=None if console.is_terminal else False,
        )  # fmt: skip
        made = summary.runs
        frame = results.find(study, setting)
    rewards = pl.Series() if frame is None else frame.filter(pl.col("error").is_null())[ALL_STEPS]
    mean = float(rewards.to_numpy().mean()) if len(rewards) else math.nan
    return mean if math.isfinite(mean) else math.nan, made


def _only(study: UserStudy, chosen: list[Configuration]) -> list[Study]:
    """The studies with the configurations that were run alone, in the order of the trials."""
    settings = {each.algorithm: tuple(s for one, s in chosen if one is each) for each in study.studies}
    return [replace(each, own_settings=settings[each.algorithm]) for each in study.studies if settings[each.algorithm]]


def _are_numbers(values: tuple[Any, ...]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
