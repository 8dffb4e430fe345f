"""Checkpoints of the long runs of a study: a study that was killed continues inside a run, not before it.

A checkpoint is the agent of one run. The name of its file is a digest of all that decides the run, so no other run finds it. A run
that has ended keeps its checkpoint, without its replay, until its configuration is published. Checkpoints never change a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from pathlib import Path
from typing import Any, final

from perstep.agent.agent import Agent
from perstep.agent.files import checkpoint_before, load_checkpoint, save_checkpoint
from perstep.deep.network_agent import NetworkAgent
from perstep.files.checkpoint_schedule import COST_FACTOR, CheckpointSchedule
from perstep.gym.opening import FRESH, describe

FOLDER = ".drafts"  # in the folder of the results; the name is older than this module, and old folders must be found
MAX_SECONDS = 60.0  # of work that may be lost


@final
class RunCheckpoint:
    """The checkpoint file of one run."""

    def __init__(self, folder: Path, run: str) -> None:
        self.path = folder / f"{hashlib.sha256(run.encode()).hexdigest()[:32]}.safetensors"
        self._begin = time.monotonic()
        self._schedule = CheckpointSchedule(every=None, max_seconds=MAX_SECONDS, cost_factor=COST_FACTOR)
        self._saved = False

    def load(self, world: Any, steps: int) -> Agent | None:
        """The agent of a run of `steps` steps, at its last checkpoint; None if the run has to start at step 0."""
        try:
            with warnings.catch_warnings():  # a run that has ended needs no world
                warnings.simplefilter("ignore")
                agent = load_checkpoint(self.path, world)
        except Exception:  # a missing or damaged file, too little memory: the run can start at step 0
            return None
        if agent.steps < steps and (agent._world is None or agent._world.point is None):
            return None  # the world has changed, and its state could not be restored
        self._saved = True
        return agent

    def save_if_due(self, agent: Agent) -> None:
        """Save the agent if a checkpoint is due and the state of its world can be saved."""
        if self._schedule.is_due(agent.steps):
            self._save(agent, ended=False)

    def save_end(self, agent: Agent) -> None:
        """Save the agent of a run that has ended, if the run took long."""
        if self._saved or time.monotonic() - self._begin >= MAX_SECONDS:
            self._save(agent, ended=True)

    def remove(self) -> None:
        """Remove the file of a run whose result is published."""
        with contextlib.suppress(OSError):
            for path in (self.path, checkpoint_before(self.path)):
                path.unlink(missing_ok=True)

    def _save(self, agent: Agent, *, ended: bool) -> None:
        # No run fails because a disk is full, or because a number cannot be written.
        with self._schedule.saving(), contextlib.suppress(OSError, ValueError):
            if ended and isinstance(agent, NetworkAgent):
                save_checkpoint(agent, self.path, replay=False)
            elif ended or describe(agent._opened, agent._world, agent._spaces())[1].get("resumes") != FRESH:
                save_checkpoint(agent, self.path)
            else:
                return
            self._saved = True
            if ended:  # the one before has a replay, and there may be many runs
                checkpoint_before(self.path).unlink(missing_ok=True)
