"""The result files of a study: one Parquet file per configuration with one row per run, published by rename.

A file that exists is complete, so resuming after a crash means skipping the files that exist. All studies share the schema below;
a measurement has one file with columns of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import polars as pl

from perstep.files.storage import BadFile, published, read_table, write_table
from perstep.studies.measurement import Measurement, Row
from perstep.studies.study import Setting, Study, setting_name

Experiment: TypeAlias = Study | Measurement

CONFIRMATION = (
    "confirmation"  # subfolder for runs with other seeds than those of the sweep; not counted as part of the sweep
)

DAMAGED = ".damaged"  # added to the name of a file whose content is not what was written

Curve = pl.List(pl.Float32)  # single precision is enough for plots; numbers that are compared have Float64
Curves = pl.List(Curve)

COARSE_POINTS = 100  # points of the reward curve that is kept of configurations other than the tuned one

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "description": pl.String,  # world, algorithm, steps and settings as JSON: everything that determines a run except its seed
    "seed": pl.Int64,
    "error": pl.String,  # why the run failed, then all columns below are null; null if it did not fail
    "average_reward": pl.Float64,  # mean reward over all steps
    "late_reward": pl.Float64,  # mean reward over the last tenth of the steps
    "estimated_average_reward": pl.Float64,  # R̄ at the end
    "reward_quantiles": pl.List(pl.Float64),  # θ at the end, (m,)
    "greedy_actions": pl.List(
        pl.Int64
    ),  # greedy action in every state at the end, (S,); null without a table of values
    "reward_rate": Curve,  # mean reward in each window, (windows,); in each hundredth of the run if not tuned, (100,)
    "episode_return": Curve,  # mean return of the episodes that ended in each window, NaN if none did; null if no episode ended
    "final_scores": Curve,  # of every game that ended, in points and in order, (games,); null where rewards are not clipped points
    "trace_steps": pl.List(
        pl.Int64
    ),  # steps at which the quantiles below were recorded, (T,); traced configurations only
    "reward_quantile_trace": Curves,  # θ at those steps, (T, m)
    "return_quantile_trace": Curves,  # Ω of the traced state and action at those steps, (T, n)
}


FAILURE = "failure"  # column of the file of a measurement that failed: why
ROWS = "rows"  # of the table of a measurement, in the row that an engine returns

ADDED = ("final_scores",)
"""Columns that older files do not have; they are null there."""


class MissingRuns(LookupError):
    """Results that a figure or a claim needs are missing."""


class StudyStopped(OSError):
    """Results could not be written, or are no longer there. The message says what to do."""


@contextlib.contextmanager
def explained(path: Path, safe: str = "All runs that were published") -> Iterator[None]:
    """Turns an OSError, such as a full disk, into an error that names the file and the results that are safe."""
    try:
        yield
    except OSError as error:
        raise StudyStopped(
            f"{path} could not be written: {error.strerror or error}. {safe} are safe. Free disk space or fix the folder's "
            "permissions, then repeat the same command: it continues from there."
        ) from error


@contextlib.contextmanager
def publishing(path: Path, safe: str = "All runs that were published") -> Iterator[Path]:
    """Like `storage.published`, with errors explained."""
    with explained(path, safe), published(path) as draft:
        yield draft


def publish_table(path: Path, frame: pl.DataFrame, safe: str = "All tables that were published") -> None:
    """Publish a Parquet file."""
    with explained(path, safe):
        write_table(path, frame)


class Results:
    """The results folder of one part of the paper at one scale, and the studies and measurements whose results it holds.

    `tuned_only`: only the tuned and traced configurations are expected. Others are still read if they exist.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        studies: Sequence[Study] = (),
        measurements: Sequence[Measurement] = (),
        *,
        tuned_only: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self.studies = {study.key: study for study in studies}
        self.measurements = tuple(measurements)
        self.tuned_only = tuned_only

    def expected(self) -> Iterator[tuple[Experiment, Setting]]:
        """All expected files, always in the same order."""
        yield from self.configurations()
        yield from ((measurement, {}) for measurement in self.measurements)

    def configurations(self) -> Iterator[tuple[Study, Setting]]:
        """All expected configurations, always in the same order."""
        for study in self.studies.values():
            for setting in study.settings:
                if not (self.tuned_only and study.tuned) or setting in (study.tuned, study.traced):
                    yield study, setting

    def path(self, study: Experiment, setting: Setting) -> Path:
        """The file of a configuration."""
        return self.folder / study.file(setting)

    def write(
        self, study: Experiment, setting: Setting, rows: Sequence[Row], safe: str = "All configurations before it"
    ) -> None:
        """Publish the runs of a configuration, or the table of a measurement."""
        frame = pl.DataFrame(rows, schema=SCHEMA) if isinstance(study, Study) else _measured(study, rows[0])
        publish_table(self.path(study, setting), frame, safe)

    def find(self, study: Experiment, setting: Setting) -> pl.DataFrame | None:
        """All runs of a configuration, also failed ones. None if the file is missing, damaged or holds unexpected runs."""
        try:
            return self._read(study, setting)
        except (BadFile, OSError):
            return None

    def find_or_set_aside(self, study: Experiment, setting: Setting) -> tuple[pl.DataFrame | None, Path | None]:
        """Like `find`. A damaged file is renamed, so that its runs can be run again, and its new path is the second value."""
        path = self.path(study, setting)
        try:
            return self._read(study, setting), None
        except BadFile:
            aside = path.with_name(f"{path.name}{DAMAGED}")
            with explained(path):
                path.replace(aside)
            return None, aside
        except OSError:
            return None, None

    def _read(self, study: Experiment, setting: Setting) -> pl.DataFrame | None:
        path = self.path(study, setting)
        if not path.exists():
            return None
        frame = read_table(path)
        if isinstance(study, Measurement):
            return frame if set(frame["description"]) == {study.description(setting)} else None
        absent = [pl.lit(None, SCHEMA[name]).alias(name) for name in ADDED if name not in frame.columns]
        frame = frame.with_columns(absent)
        if dict(frame.schema) != SCHEMA or frame["seed"].to_list() != study.seeds:
            return None
        return frame if set(frame["description"]) == {study.description(setting)} else None

    def runs(self, study: Study, setting: Setting) -> pl.DataFrame:
        """The successful runs of a configuration, for figures and claims. Raises MissingRuns if no run succeeded."""
        frame = self.find(study, setting)
        if frame is None:
            left_out = self.tuned_only and setting not in (study.tuned, study.traced)
            raise MissingRuns(
                f"There are no results of {study.name} with {setting_name(setting)} in {self.folder}."
                + (" To run all configurations, leave out --tuned-only." if left_out else "")
            )
        good = frame.filter(pl.col("error").is_null())
        if good.is_empty():
            raise MissingRuns(f"All runs of {study.name} with {setting_name(setting)} failed: {frame['error'][0]}")
        return good

    def traced_runs(self, study: Study) -> pl.DataFrame:
        """The successful runs of the configuration whose quantiles were recorded over time."""
        if study.traced is None:
            raise MissingRuns(f"{study.name} has no configuration whose quantiles are recorded over time.")
        return self.runs(study, study.traced)


def _measured(measurement: Measurement, row: Row) -> pl.DataFrame:
    """The table of a measurement; if it failed, one row that says why."""
    rows = row[ROWS] if row["error"] is None else [{FAILURE: row["error"]}]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(description=pl.lit(measurement.description({})))


def errors(study: Experiment, frame: pl.DataFrame) -> list[str | None]:
    """Why the runs in a file failed; None for those that did not."""
    if isinstance(study, Study):
        return frame["error"].to_list()
    return frame[FAILURE].to_list() if FAILURE in frame.columns else []


def table(folder: Path, name: str) -> pl.DataFrame:
    """The table of a measurement in this folder, for figures and claims. Raises MissingRuns if there is none."""
    try:
        frame = read_table(folder / f"{name}.parquet")
    except (BadFile, OSError):
        raise MissingRuns(f"There is no measurement {name!r} in {folder}.") from None
    if FAILURE in frame.columns:
        raise MissingRuns(f"The measurement {name!r} failed: {frame[FAILURE][0]}")
    return frame
