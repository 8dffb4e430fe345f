"""What the studies of scores share: exact scores, errors of quantiles, and a command that completes tables and draws a figure.

A score is 0 for uniformly random actions and 1 for the optimum. Each of the studies is run with

python benchmarks/NAME.py [--scale small] [--out results/NAME]
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from perstep.distributions.distribution import Distribution
from perstep.files.folder_lock import locked
from perstep.mdp.evaluation import NotUnichain, PolicyEvaluation
from perstep.mdp.mdp import FiniteMDP
from perstep.paper.catalog import SCALES, scale_named
from perstep.paper.figures import style
from perstep.studies.measurement import Effort, Measurement, Row
from perstep.studies.results import Results, table
from perstep.studies.study_command import StudyOptions, new_console, run_study

Floats = NDArray[np.float64]

LEVELS = np.arange(1, 100) / 100.0
BAND = 0.01  # of levels, within which an exact quantile counts
LEAST_NOISE = 1e-6  # chance of a random action that joins the closed classes of a policy


def exactly(mdp: FiniteMDP, policy: Floats) -> PolicyEvaluation:
    """The exact evaluation of a policy (S, A) from the first state; with a trace of randomness if it has several closed classes."""
    try:
        return mdp.evaluate(policy, start=mdp.initial)
    except NotUnichain:
        return mdp.evaluate(policy, epsilon=LEAST_NOISE, start=mdp.initial)


def reward_range(mdp: FiniteMDP) -> float:
    """The largest less the smallest mean reward of an outcome."""
    return float(np.ptp(mdp.outcomes.mean[mdp.outcomes.probability > 0.0]))


def quantile_errors(learned: Distribution, exact: Distribution) -> Floats:
    """Distances of the learned quantiles at 1 to 99 % from the nearest exact quantile within ± 0.01 of the level. (99,)

    Where few rewards lie, as between two atoms or two narrow modes, the exact quantile jumps. A share of steps that is off by 0.001
    can change a quantile there by a whole jump, and that says nothing about the distribution.
    """
    found = learned.quantile(LEVELS)
    if not exact.sds.any():  # the atoms that are quantiles in the band
        up_to = np.cumsum(exact.weights)
        in_band = (up_to >= LEVELS[:, None] - BAND) & (up_to - exact.weights <= LEVELS[:, None] + BAND)  # (99, atoms)
        return np.asarray(np.where(in_band, np.abs(found[:, None] - exact.means), np.inf).min(axis=1))
    near = np.clip(LEVELS[:, None] + np.linspace(-BAND, BAND, 41), 0.0005, 0.9995)  # (99, 41)
    values = exact.quantile(near.ravel()).reshape(near.shape)
    if exact.sds.all():  # without atoms every reward between the ends of the band is a quantile of it
        return np.maximum(0.0, np.maximum(values[:, 0] - found, found - values[:, -1]))
    return np.asarray(np.abs(found[:, None] - values).min(axis=1))


def ends(mdp: FiniteMDP) -> tuple[float, float]:
    """The average rewards of uniformly random actions and of the optimum."""
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    return exactly(mdp, uniform).average_reward, mdp.solve().average_reward


def file_name(title: str) -> str:
    return title.lower().replace(" ", "_")


def measurements(
    part: str,
    names: dict[str, str],
    measure: Callable[[str, Effort], list[Row]],
    efforts: dict[str, Effort],
) -> tuple[Measurement, ...]:
    """One for each world, by the name of its table."""
    return tuple(
        Measurement(part=part, name=name, measure=partial(measure, world), efforts=efforts)
        for name, world in names.items()
    )


def tables(folder: Path, every: Sequence[Measurement]) -> pl.DataFrame:
    """The tables of all worlds as one. Raises MissingRuns if one is missing."""
    return pl.concat([table(folder, each.name) for each in every], how="vertical_relaxed")


def run(
    part: str, every: Sequence[Measurement], draw: Callable[[Path], Figure], say: Callable[[Path], None], about: str
) -> int:
    """Complete the tables, draw the figure and print the results. Returns 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="small")
    parser.add_argument("--out", type=Path, help="folder of the tables; what is there is not measured again")
    parser.add_argument("--show", action="store_true", help="measure nothing: only draw and print what is there")
    flags = parser.parse_args()
    folder = flags.out or Path("results") / part / flags.scale
    failed = False
    if not flags.show:
        results = Results(folder, measurements=[each.at(scale_named(flags.scale)) for each in every])
        options = StudyOptions(command=shlex.join(["python", *sys.argv]))
        with locked(folder):
            failed = bool(run_study(part, results, options, new_console()).failures)
    if not failed:
        with style.look():
            written = style.save(draw(folder), folder / "figures" / part, "png")
        say(folder)
        print(*written)
    return int(failed)
