"""What a family of learners says of itself: all that an agent asks of it, and what is so unless it says otherwise.

The verbs that call these are in agent/agent.py; what the plain loop asks (read, act, learn then act) is `Hooks` of gym/loop.py.
CONTRIBUTING says how to add a learner.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perstep.agent.arrays import Limits, check_limits, put
from perstep.agent.evaluation import Evaluation
from perstep.files import storage
from perstep.numerics.randomness import Generator

Floats = NDArray[np.float64]


class Family(ABC):
    """What an agent asks of its learner."""

    Config: ClassVar[Any]  # the class of its settings
    _hooks: Any  # the AgentHooks of its learner
    _reads_vectors: ClassVar[bool] = True  # observations that are composed become vectors
    _has_loop_for_mdps: ClassVar[bool] = False  # compiled; without one a finite MDP is a Gymnasium environment to it

    # What every learner has to say.

    @abstractmethod
    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""

    @abstractmethod
    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> Evaluation | None:
        """Follow the policy in a compiled world; None where the world is not compiled. `kept`: room for rewards."""

    @abstractmethod
    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        """A function from an observation to an action."""

    @abstractmethod
    def _spaces(self) -> dict[str, Any]:
        """What a file must say about the spaces of the world, so that the agent can answer without the world."""

    @abstractmethod
    def _arrays(self) -> storage.Arrays:
        """What the agent has learnt beyond θ, by name: views of its memory, which a file is written from and read into."""

    @classmethod
    @abstractmethod
    def _check_sizes(cls, config: Any, about: dict[str, Any], arrays: storage.Arrays) -> None:
        """Refuse a file whose settings claim more memory than its arrays hold, before memory is allocated for it."""

    # What is so unless a learner says otherwise.

    def _values(self) -> tuple[Floats, ...]:
        """What must stay finite, beside θ."""
        return ()

    def _level_of_values(self) -> tuple[float, float]:
        """The mean of the values and their spread: whether they drift. NaN where nothing says so."""
        values = self._values()
        if not values or not values[0].size:
            return math.nan, math.nan
        return float(values[0].mean()), float(values[0].std())

    def _limits(self) -> dict[str, Limits]:
        """What the numbers in these arrays may be, by name (or by how names begin, with a dot at the end)."""
        return {}

    def _acting(self) -> AbstractContextManager[None]:
        """The context in which `_chooser`'s function is to be called."""
        return nullcontext()

    def _take_over(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        """Take what was learnt from a file."""
        for name, array in (own := self._arrays()).items():
            put(name, array, arrays)
        check_limits(own, self._limits())

    def _check_point(self, point: Any, action: Any) -> None:  # noqa: B027 (an agent may have nothing to check)
        """Refuse a point and an action from a file that compiled code would use as indices out of range."""

    @classmethod
    def _given(cls, arrays: storage.Arrays) -> tuple[Any, ...]:
        """What the constructor needs beside the world and the settings, from a file."""
        return ()

    @classmethod  # noqa: B027 (an agent may have nothing to check)
    def _check_spaces(cls, world: Any, about: dict[str, Any]) -> None:
        """Refuse a world made from a file that is not what the file says about its spaces."""

    @classmethod
    def _settings_from(cls, config: Any, about: dict[str, Any]) -> dict[str, Any]:
        """The settings with which a saved agent is made again."""
        settings: dict[str, Any] = config.settings()
        return settings

    @classmethod
    def _on_this_machine(cls, config: Any, own: bool) -> Any:
        """The settings, adapted to a machine that lacks what they name. `own`: the file is a checkpoint of our own run."""
        return config
