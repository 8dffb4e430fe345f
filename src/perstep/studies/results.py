"""What a study leaves behind: one Parquet file a configuration, one row a run, published by rename.

A file that exists is complete, so to go on after a crash is to skip what exists. All studies share the schema below.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from perstep.storage import published
from perstep.studies.catalog import Setting, Study, setting_name

Row = dict[str, Any]

CONFIRMATION = "confirmation"  # in a part's folder: runs with other seeds than the sweep's, which are no part of it

Curve = pl.List(pl.Float32)  # for the eye; what is compared has all its digits
Curves = pl.List(Curve)

COARSE_POINTS = 100  # of the curve that is kept of settings that nobody asked about, until they turn out to be the best

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "description": pl.String,  # world, algorithm, steps and settings as JSON: all that decides a run besides its seed
    "seed": pl.Int64,
    "error": pl.String,  # why the run failed; null if it did not, and all below is null if it did
    "average_reward": pl.Float64,  # earned per step, over all steps
    "late_reward": pl.Float64,  # earned per step, over the last tenth of them
    "estimated_average_reward": pl.Float64,  # R̄ at the end
    "reward_quantiles": pl.List(pl.Float64),  # θ at the end, (m,)
    "greedy_actions": pl.List(pl.Int64),  # of every state at the end, (S,); null where there is no table of values
    "reward_rate": Curve,  # mean reward over each window of steps, (windows,); over each hundredth of them if not tuned, (100,)
    "episode_return": Curve,  # mean return of the episodes that ended in each window, NaN if none; null where nothing ends
    "trace_steps": pl.List(pl.Int64),  # when the quantiles below were looked at, (T,); traced settings only
    "reward_quantile_trace": Curves,  # θ then, (T, m)
    "return_quantile_trace": Curves,  # Ω of the traced state and action then, (T, n)
}


class MissingRuns(LookupError):
    """Results that were asked for and are not there."""


class StudyStopped(OSError):
    """Results could not be written: the study cannot go on, and says what is safe."""


@contextlib.contextmanager
def explained(path: Path, safe: str = "All runs that were published") -> Iterator[None]:
    """A disk that is full, or closed to us, becomes a sentence that names the file and what is safe."""
    try:
        yield
    except OSError as error:
        raise StudyStopped(
            f"{path} could not be written: {error.strerror or error}. {safe} are safe. Make room or mend the folder, and give the "
            "same command: it goes on from there."
        ) from error


@contextlib.contextmanager
def publishing(path: Path, safe: str = "All runs that were published") -> Iterator[Path]:
    """As `published`, and explained."""
    with explained(path, safe), published(path) as draft:
        yield draft


def publish_table(path: Path, frame: pl.DataFrame, safe: str = "All tables that were published") -> None:
    """Publish a file of Parquet."""
    content = io.BytesIO()  # so that a full disk is an OSError, with its number
    frame.write_parquet(content, compression="zstd", compression_level=3)
    with publishing(path, safe) as draft:
        draft.write_bytes(content.getbuffer())


class Results:
    """The folder of one part of the paper at one scale, and the studies it is for.

    `tuned_only`: only the settings of the paper's figures are to be there; of the rest of the grid, what happens to be.
    """

    def __init__(self, folder: str | os.PathLike[str], studies: Sequence[Study], *, tuned_only: bool = False) -> None:
        self.folder = Path(folder)
        self.studies = {study.key: study for study in studies}
        self.tuned_only = tuned_only

    def configurations(self) -> Iterator[tuple[Study, Setting]]:
        """All that are to be there, in an order that never changes."""
        for study in self.studies.values():
            for setting in study.settings:
                if not (self.tuned_only and study.tuned) or setting in (study.tuned, study.traced):
                    yield study, setting

    def path(self, study: Study, setting: Setting) -> Path:
        """The file of a configuration."""
        return self.folder / study.key / f"{setting_name(setting)}.parquet"

    def write(
        self, study: Study, setting: Setting, rows: Sequence[Row], safe: str = "All configurations before it"
    ) -> None:
        """Publish the runs of a configuration."""
        publish_table(self.path(study, setting), pl.DataFrame(rows, schema=SCHEMA), safe)

    def find(self, study: Study, setting: Setting) -> pl.DataFrame | None:
        """All runs of a configuration, failed ones too; None if the file is absent, damaged or of other runs than these."""
        path = self.path(study, setting)
        if not path.exists():
            return None
        try:
            frame = pl.read_parquet(path, use_pyarrow=False)
        except (pl.exceptions.PolarsError, OSError):
            return None
        if dict(frame.schema) != SCHEMA or frame["seed"].to_list() != study.seeds:
            return None
        return frame if set(frame["description"]) == {study.description(setting)} else None

    def runs(self, study: Study, setting: Setting) -> pl.DataFrame:
        """The runs of a configuration that ended well, for figures and claims."""
        frame = self.find(study, setting)
        if frame is None:
            raise MissingRuns(f"There are no results of {study.name} with {setting_name(setting)} in {self.folder}.")
        good = frame.filter(pl.col("error").is_null())
        if good.is_empty():
            raise MissingRuns(f"All runs of {study.name} with {setting_name(setting)} failed: {frame['error'][0]}")
        return good
