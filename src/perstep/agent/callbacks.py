"""What `learn` calls on its way: any function of the agent, and objects that are called every so many steps."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

from perstep.agent.tracking import Log, TensorBoardLog, Tracker, WandbLog, tensorboard_classes, wandb_module
from perstep.inputs.checks import whole
from perstep.inputs.synonyms import instead_of

if TYPE_CHECKING:
    from perstep.agent.evaluation import Evaluation


BEST_FILE = "best_model.safetensors"


class EveryCallback(ABC):
    """Called during `learn` whenever the number of steps reaches a multiple of `every`. Learning stops if it returns False."""

    def __new__(cls, *given: Any, **settings: Any) -> Self:
        """Refuse an environment, and names of other libraries, before Python does so without a hint."""
        if given and hasattr(given[0], "step"):
            raise TypeError(
                f"{cls.__name__} needs no environment: it evaluates in a copy of the agent's own. Give the steps between two "
                "calls."
            )
        known = inspect.signature(cls).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        for name in settings if not takes_any else ():
            if name not in known and (instead := instead_of(name)):
                raise TypeError(f"{cls.__name__} has no argument {name!r}. {instead}")
        return super().__new__(cls)

    def __init__(self, every: int) -> None:
        self.every = whole("every", every, 1)

    @abstractmethod
    def __call__(self, agent: Any) -> bool | None:
        """Look at the agent."""


Callback: TypeAlias = Callable[[Any], bool | None] | EveryCallback


@final
class EvalCallback(EveryCallback):
    """Evaluate the policy every `eval_freq` steps, without exploration, and keep the best agent so far.

    Each time, the agent follows its policy for `num_steps` steps in a copy of its world, as `agent.evaluate` does.
    `best_model_save_path`: a folder, whose best_model.safetensors is the agent with the largest average reward, or such a file.
    """

    def __init__(
        self,
        eval_freq: int = 10_000,
        *,
        num_steps: int = 10_000,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(eval_freq)
        self.num_steps = whole("num_steps", num_steps, 1)
        self.best_model_save_path = None if best_model_save_path is None else _best_file(Path(best_model_save_path))
        self.deterministic = deterministic
        self.seed = seed
        self.evaluations: list[tuple[int, Evaluation]] = []
        """The number of steps and what was found, for every evaluation."""

    @property
    def best(self) -> tuple[int, Evaluation] | None:
        """The best evaluation so far and its step."""
        return max(self.evaluations, key=lambda found: found[1].average_reward, default=None)

    def __call__(self, agent: Any) -> None:
        """Evaluate, and save the agent if it is the best one."""
        found = agent.evaluate(self.num_steps, deterministic=self.deterministic, seed=self.seed)
        self.evaluations.append((agent.steps, found))
        if self.best_model_save_path is not None and self.best == self.evaluations[-1]:
            self.best_model_save_path.parent.mkdir(parents=True, exist_ok=True)
            agent.save(self.best_model_save_path)


def _best_file(given: Path) -> Path:
    """The file itself, or the one in a folder; what has no suffix is a folder."""
    return given if given.suffix and not given.is_dir() else given / BEST_FILE


@final
class CheckpointCallback(EveryCallback):
    """Save the agent every `save_freq` steps, as FOLDER/PREFIX_STEPS_steps.safetensors; `keep` of them, or all."""

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str = "agent",
        *,
        keep: int | None = None,
    ) -> None:
        super().__init__(save_freq)
        self.folder = Path(save_path)
        self.name_prefix = name_prefix
        self.keep = None if keep is None else whole("keep", keep, 1)
        self.saved: list[Path] = []
        """The files that are there, oldest first."""

    def __call__(self, agent: Any) -> None:
        """Save the agent."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name_prefix}_{agent.steps}_steps.safetensors"
        agent.save(path)
        self.saved = [*(other for other in self.saved if other != path), path]
        if self.keep is not None:
            for old in self.saved[: -self.keep]:
                old.unlink(missing_ok=True)
            self.saved = self.saved[-self.keep :]


class TrackingCallback(EveryCallback):
    """Writes the metrics of the agent every `every` steps. Close it at the end, or use it in a `with` statement."""

    def __init__(self, every: int) -> None:
        super().__init__(every)
        self._tracker: Tracker | None = None

    @abstractmethod
    def _open(self, agent: Any) -> Log:
        """The log, opened at the first call."""

    def __call__(self, agent: Any) -> None:
        """Write an entry."""
        if self._tracker is None:
            begin = 0 if agent.steps < 2 * self.every else agent.steps  # several worlds may step past a multiple
            self._tracker = Tracker([self._open(agent)], 1, begin)
        self._tracker.write(agent)

    def close(self) -> None:
        """Write all pending entries. If learning continues, so does the log."""
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@final
class TensorBoardCallback(TrackingCallback):
    """Write events for TensorBoard to a folder, every so many steps: the metrics of `perstep train … --tensorboard`."""

    def __init__(self, folder: str | os.PathLike[str], every: int = 1000) -> None:
        super().__init__(every)
        tensorboard_classes()  # now, so that it is missed before the agent learns
        self.folder = Path(folder)

    def _open(self, agent: Any) -> Log:
        return TensorBoardLog(self.folder, agent.steps - 1)


@final
class WandbCallback(TrackingCallback):
    """Log to a project of Weights & Biases, every so many steps: the metrics of `perstep train … --wandb PROJECT`.

    `id`: that of an earlier run, to continue it; `callback.id` is that of this one. `settings`: more arguments of `wandb.init`,
    such as entity, name, tags, dir or mode="offline".
    """

    def __init__(
        self, project: str | None = None, every: int = 1000, *, id: str | None = None, **settings: Any
    ) -> None:
        super().__init__(every)
        if not isinstance(project, str) or not project:
            raise ValueError(f"project must be the name of a project of Weights & Biases, got {project!r}.")
        wandb_module()  # now, so that it is missed before the agent learns
        self.project, self.id, self.settings = project, id, settings

    def _open(self, agent: Any) -> Log:
        about = {"agent": type(agent).__name__, **agent.config.to_json()}
        log = WandbLog(self.project, self.id, **{"config": about, **self.settings})
        self.id = log.id
        return log


def callbacks_of(given: Callback | Iterable[Callback] | None) -> list[Callback]:
    """One callback, several, or none, as a list."""
    found = [] if given is None else list(given) if isinstance(given, Iterable) and not callable(given) else [given]
    for callback in found:
        if isinstance(callback, type):
            raise TypeError(
                f"A callback must be an object, got the class {callback.__name__}. Make one: {callback.__name__}(…)."
            )
        if not callable(callback):
            hint = " Those of Stable-Baselines3 work with its own agents only." if hasattr(callback, "on_step") else ""
            raise TypeError(
                f"A callback must be a function of the agent, such as perstep.EvalCallback(), got {callback!r}.{hint}"
            )
    return found


def next_call(callbacks: Sequence[Callback], steps: int, end: int) -> int:
    """The next number of steps at which a callback is due, at most `end`."""
    return min((steps - steps % c.every + c.every for c in callbacks if isinstance(c, EveryCallback)), default=end)


def call(callbacks: Sequence[Callback], agent: Any, before: int) -> bool:
    """Call whatever is due after the agent has come from `before` steps to here; False if learning is to stop."""
    due = [c for c in callbacks if not isinstance(c, EveryCallback) or agent.steps // c.every > before // c.every]
    answers = [callback(agent) for callback in due]
    return not any(answer is False for answer in answers)
