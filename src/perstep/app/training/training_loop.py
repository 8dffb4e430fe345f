"""The loop of a training run: chunks of learning, and between them what changes no result (evaluations, checkpoints, displays)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import final

from perstep.agent.agent import Agent
from perstep.agent.checks import FindingWarning
from perstep.agent.tracking import Tracker
from perstep.app.training.evaluation import EvaluationLog
from perstep.app.training.failure import explained_failure
from perstep.app.training.run_folder import AGENT, RunFolder
from perstep.files.checkpoint_schedule import CheckpointSchedule
from perstep.gym.opening import FRESH
from perstep.system.signals import abandoned_at_signals, deferred_signals, signal_name


class Interrupted(Exception):
    """A signal stopped the run, and the run has saved a checkpoint."""

    def __init__(self, signal_number: int, steps: int) -> None:
        super().__init__(f"stopped by {signal_name(signal_number)} after {steps:,} steps")
        self.signal_number, self.steps = signal_number, steps


@final
class TrainingLoop:
    """Lets an agent learn, and saves, evaluates and shows it between two chunks of learning."""

    def __init__(
        self,
        run: RunFolder,
        agent: Agent,
        schedule: CheckpointSchedule,
        evaluations: EvaluationLog | None,
        events: Tracker | None,
        watch: Callable[[Agent], None],
        say: Callable[[str], None],
    ) -> None:
        self.run, self.agent, self.schedule, self.evaluations, self.events = run, agent, schedule, evaluations, events
        self.watch, self.say = watch, say

    def learn_until(self, steps: int) -> None:
        """Learn until the agent has made `steps` steps; raises Interrupted if a stop signal arrives before."""
        agent = self.agent
        with deferred_signals() as received:
            while True:
                self._evaluate_if_due(received)
                if received or agent.steps >= steps or self.schedule.is_due(agent.steps):
                    self._save()
                if received:
                    raise Interrupted(received[0], agent.steps)
                if agent.steps >= steps:
                    return
                stops = [steps, self.schedule.next_step(agent.steps)]
                if self.evaluations is not None:
                    stops.append(self.evaluations.next_step(agent.steps))
                self._learn(min(stop for stop in stops if stop is not None), received)

    def _learn(self, target: int, received: list[int]) -> None:
        """Learn until step `target`, or until a signal arrives or a checkpoint is overdue."""

        def look(agent: Agent) -> bool:
            self.watch(agent)
            if self.events is not None:
                self.events(agent)
            return not received and not self.schedule.is_overdue()

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FindingWarning)  # findings are shown in the panel and at the end
                self.agent.learn(target - self.agent.steps, progress=False, callback=look)
        except (ArithmeticError, ValueError) as error:
            raise explained_failure(error, self.agent, self.run.path(AGENT), self._save) from error
        except Exception:  # of the world, or of what watches
            if (path := self.run.path(AGENT)).exists():
                self.say(
                    f"stopped at step {self.agent.steps:,} by an error. --resume continues from the checkpoint {path}"
                )
            raise

    def _evaluate_if_due(self, received: list[int]) -> None:
        if self.evaluations is None or received or not self.evaluations.is_due(self.agent.steps):
            return
        earned = None
        with abandoned_at_signals(received):  # an abandoned evaluation is repeated when the run resumes
            earned = self.evaluations.evaluate(self.agent)
        if earned is None:
            return
        if self.events is not None:
            self.events.write_evaluation(self.agent.steps, earned)
        returns = earned.episode_returns
        episodes = f", episode return {returns.mean():.5g} over {returns.size:,} episodes" if returns.size else ""
        self.say(f"evaluation at step {self.agent.steps:,}: average reward {earned.average_reward:.5g}{episodes}")

    def _save(self) -> None:
        """Write the events first: an agent that resumes from this checkpoint must find them."""
        if self.events is not None:
            if self.events.last_step < self.agent.steps:
                self.events.write(self.agent)
            self.events.flush()
        first = "resumes" not in self.run.record
        with self.schedule.saving():
            self.run.save_agent(self.agent)
        if first and self.run.record["resumes"] == FRESH:
            self.say(
                "the state of this world cannot be saved. If the run is interrupted, it resumes from a reset of the world, "
                "with everything that the agent has learnt."
            )
