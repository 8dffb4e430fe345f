"""Runs that take long save themselves on their way: a study that was killed goes on within a run instead of before it.

A draft is the agent of a run, in a file named after all that decides the run, so it is found by that run alone. One that has ended
stays, without its replay, until its configuration is published. What comes of a run is the same with and without drafts.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from pathlib import Path
from typing import Any, final

from perstep.agents import Agent, DeepQ, load
from perstep.agents.worlds import FRESH, describe

FOLDER = ".drafts"  # in the folder of the results
PATIENCE = 60.0  # seconds of work that may be lost
SHARE = 50  # of the time at most one part in so many goes into saving: a full replay of Atari takes seconds


@final
class Draft:
    """The file of one run under way."""

    def __init__(self, folder: Path, run: str) -> None:
        self.path = folder / f"{hashlib.sha256(run.encode()).hexdigest()[:32]}.safetensors"
        self._first = self._last = time.monotonic()
        self._cost, self._begun = 0.0, False

    def agent(self, world: Any, steps: int) -> Agent | None:
        """The agent of a run of `steps` steps, as far as it came before; None if it has to begin now."""
        try:
            with warnings.catch_warnings():  # a run that has ended needs no world
                warnings.simplefilter("ignore")
                agent = load(self.path, world)
        except Exception:  # whatever it is, damage or want of memory, the run can do without
            return None
        if agent.steps < steps and (agent._world is None or agent._world.point is None):
            return None  # the world is another one now, and was not found again
        self._begun = True
        return agent

    def look(self, agent: Agent) -> None:
        """Save the agent if that is due, and if the world can be found again as it is."""
        if time.monotonic() - self._last < max(PATIENCE, SHARE * self._cost):
            return
        self._save(agent)
        self._last = time.monotonic()

    def end(self, agent: Agent) -> None:
        """Keep what has come of a run that took long."""
        if self._begun or time.monotonic() - self._first >= PATIENCE:
            self._save(agent, ended=True)

    def remove(self) -> None:
        """It is not needed any more."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _save(self, agent: Agent, *, ended: bool = False) -> None:
        begin = time.monotonic()
        with contextlib.suppress(OSError, ValueError):  # a full disk, or a number that no file can hold, stops no run
            if ended and isinstance(agent, DeepQ):
                agent.save(self.path, replay=False)
            elif ended or describe(agent._opened, agent._world, agent._spaces())[1].get("resumes") != FRESH:
                agent.save(self.path)
            else:
                return
            self._begun = True
        self._cost = time.monotonic() - begin
