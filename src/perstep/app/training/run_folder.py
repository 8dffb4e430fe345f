"""The folder of a training run: its files, and its record, which says what was asked and how far the run is.

`agent.safetensors` is the run. `agent.before.safetensors` is the checkpoint before it, used if the newest file is damaged.
The other files are made from the agent and from `run.json`. When a run resumes, evaluations and events of later steps than the
agent's are dropped. So the files cannot disagree after a crash.
"""

from __future__ import annotations

import contextlib
import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

from perstep.agent.agent import Agent
from perstep.agent.files import load_checkpoint, save_checkpoint
from perstep.app.training.metrics import write_metrics
from perstep.app.training.run_spec import RunSpec, read_json
from perstep.files.storage import BadFile, published, read_metadata
from perstep.gym.opening import describe

AGENT, METRICS, RUN = "agent.safetensors", "metrics.parquet", "run.json"
EVALUATIONS, EVENTS, VIDEO = "evaluations.parquet", "events.out.tfevents", "film.gif"
QUANTILES, REWARD_RATE, EPISODE_RETURN = "quantiles.png", "reward_rate.png", "episode_return.png"
FILES = (AGENT, METRICS, EVALUATIONS, RUN, QUANTILES, REWARD_RATE, EPISODE_RETURN, VIDEO)
OPTIONAL = (EVALUATIONS, EVENTS, VIDEO)  # files that a command renews only if a flag asks for them

LIBRARIES = ("numpy", "numba", "gymnasium", "torch")  # their versions may change the bits of a run


@final
class RunFolder:
    """The folder of one run, and its record."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.folder, self.record = folder, record
        self._last_write = time.monotonic()

    @classmethod
    def open(cls, folder: Path, spec: RunSpec, resume: bool) -> RunFolder:
        """The run in the folder, which must be the same run; a new run if the folder has none."""
        there = [name for name in (RUN, AGENT) if (folder / name).exists()]
        if there and not resume:
            raise FileExistsError(
                f"{folder} already contains a run. Add --resume to continue it, or choose another folder."
            )
        if there == [AGENT]:
            raise FileNotFoundError(
                f"{folder} contains {AGENT} without its {RUN}, so the run cannot be resumed. Choose another folder."
            )
        record = read_record(folder) if there else {}
        if there:
            _refuse_another_run(record, spec, folder)
        return cls(folder, record)

    def path(self, name: str) -> Path:
        """The path of a file of the run."""
        return self.folder / name

    def load_agent(self, spec: RunSpec) -> Agent:
        """The agent at its last checkpoint."""
        return load_checkpoint(
            self.path(AGENT), spec.make_world(), lambda path: spec.refuse_agent(read_metadata(path), path)
        )

    def save_agent(self, agent: Agent) -> None:
        """Save a checkpoint: the agent first, because the other files are made from it and may be lost."""
        save_checkpoint(agent, self.path(AGENT))
        write_metrics(agent, self.path(METRICS))
        about = describe(agent._opened, agent._world, agent._spaces())[1]
        self.update_record(steps=agent.steps, resumes=about.get("resumes", "from the same state"))

    def update_record(self, **entries: Any) -> None:
        """Add entries to the record, and publish it."""
        now = time.monotonic()
        seconds = self.record.get("seconds", 0.0) + now - self._last_write
        self._last_write = now
        self.record |= {**entries, "seconds": round(seconds, 3)}
        with published(self.path(RUN)) as draft:
            draft.write_text(json.dumps(self.record, indent=2) + "\n", encoding="utf-8")


def read_record(folder: Path) -> dict[str, Any]:
    """The record of the run in a folder."""
    record = read_json(folder / RUN)
    if not isinstance(record, dict) or not isinstance(record.get("settings", {}), dict):
        raise BadFile(
            f"{folder / RUN} should be the record of a run, a JSON object, got something else. Choose another folder."
        )
    return record


def is_current(folder: Path, name: str) -> bool:
    """Whether a file was made from the agent as it is now, and not from an earlier step."""
    record = read_record(folder)
    return name not in OPTIONAL or record.get("current", {}).get(name) == record["steps"]


def versions() -> dict[str, str]:
    """The versions of all that may change the bits of a run."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("perstep", *LIBRARIES):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _refuse_another_run(record: dict[str, Any], spec: RunSpec, folder: Path) -> None:
    if different := spec.differences(record):
        words = "; ".join(
            f"{name} was {_words(old)} and is now {_words(new)}" for name, (old, new) in different.items()
        )
        raise ValueError(
            f"{folder} contains another run: {words}. Resume with the old settings, or choose another folder."
        )


def _words(value: Any) -> str:
    if isinstance(value, dict) and set(value) >= {"scale", "power"}:
        return f"{value['scale']:g}:{value['power']:g}"  # a decaying step size, as it is written in flags
    return "not given" if value is None else json.dumps(value)
