"""The flags of the commands; those of `perstep train` depend on the algorithm, and are made in app/training/flags.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags:
    """Evaluate a trained agent: it acts without learning."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a training run, or the .safetensors file of an agent."""
    steps: int = 10_000
    """Number of steps of the evaluation."""
    deterministic: bool = False
    """Act without exploration."""
    seed: int | None = None
    """Seed of the evaluation; by default the seed of the agent."""
    json: bool = False
    """Print the result as JSON."""
    budget: float | None = None
    """How many bytes of memory the agent and its world may take beyond the size of the file; by default 1e9."""
    world: str | None = None
    """Id of the Gymnasium environment, if the agent's file does not name its world."""
    world_settings: tuple[str, ...] = ()
    """Settings of that world, for example order=accept-first."""
    video: Annotated[Path | None, arg(aliases=("--gif",))] = None
    """File for a video of the evaluation from its first step, .gif or .mp4. The world must be able to draw itself."""
    video_steps: Annotated[int, arg(aliases=("--gif-steps",))] = 200
    """Number of steps in the video; may be larger than --steps."""


@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """How the runs of a study are executed."""

    out: Path = Path("results")
    """Folder for the results. Runs whose results are there are not repeated."""
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster."""
    ray_address: str | None = None
    """Address of the Ray cluster; without it, Ray is started on this machine."""
    shard: str | None = None
    """i/n: run only the configurations whose index modulo n is i, for example in an array of jobs."""
    retry_failed: bool = False
    """Repeat the runs that failed."""
    run_timeout: float | None = None
    """Seconds after which a run is stopped and recorded as failed, because its world may hang; no limit by default."""


@dataclass(frozen=True, kw_only=True)
class ReproduceFlags(StudyFlags):
    """Run the experiments of the paper, and make their figures and tables."""

    parts: Annotated[Positional[tuple[str, ...]], arg(metavar="[PART ...]", help_behavior_hint="")] = ()
    """Experiments: redpill, pendulum, theory (these three by default), minatar, minatar-tuning, atari,
    atari-figure-4, atari-short."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """smoke: a quick test that everything runs; small: takes minutes; paper: the settings of the paper."""
    tuned_only: bool = False
    """Run only the settings that the paper's figures show, not the whole grids."""


@dataclass(frozen=True, kw_only=True)
class SweepFlags(StudyFlags):
    """Run your own study: an algorithm in a world over a grid of settings, with many runs of each."""

    study: Annotated[Positional[Path], arg(metavar="STUDY")]
    """A .yaml or .json file, or a .py file that defines STUDY."""
    search: Literal["optuna"] | None = None
    """Let Optuna choose which configurations to run, instead of running all of them. All that ran before counts."""
    trials: int | None = None
    """With --search: how many configurations to run; by default 30. To continue a search later, give more."""


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Write the results as one self-contained page: the claims of the paper and their verdicts, figures, timing."""

    results: Annotated[Positional[Path], arg(metavar="RESULTS")]
    """Folder with the results of `perstep reproduce`."""
    out: Path | None = None
    """File for the page; by default report.html in that folder."""
