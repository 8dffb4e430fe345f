"""What people hold: the verbs that every agent has, whatever its learner."""

from __future__ import annotations

import inspect
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from perstep import rules, storage
from perstep.agents.worlds import Absent, describe, go_back, open_world
from perstep.config import LearnerConfig, count
from perstep.distribution import Distribution
from perstep.environments.mdp import FiniteMDP
from perstep.interaction import GymnasiumWorld
from perstep.progress import Bar
from perstep.quantiles import mean
from perstep.randomness import Generator, make_generator
from perstep.recording import ROWS, History, Record, new_record, note_end
from perstep.rules import RewardEstimate
from perstep.system.signals import deferred_signals, raise_again

if TYPE_CHECKING:
    from perstep.agents.worlds import World

Floats = NDArray[np.float64]
Callback = Callable[[Any], bool | None]

FORMAT = 2  # of saved files
FIRST_CHUNK = 16  # steps before the first such look: a world may be slow
PULSE = 0.1  # seconds between two looks at the bar, the callback and the keyboard
LONGEST = 2**62  # steps of an agent: compiled clocks have 64 bits
KEPT_REWARDS = 1_000_000  # of an evaluation, evenly spaced in time


@dataclass(frozen=True)
class Evaluation:
    """What an agent earned in a budget of steps without learning."""

    average_reward: float
    """Mean reward per step, less the cost of resets."""
    reward_distribution: Distribution
    """Of the reward per step."""
    episode_returns: Floats
    """Sum of rewards of every finished episode; empty where nothing ends."""
    num_steps: int
    """The budget."""


@dataclass(frozen=True)
class Snapshot:
    """The estimates of an agent at one step."""

    step: int
    average_reward: float
    reward_quantiles: Floats
    """θ, (m,)."""
    values: Floats
    """All values as the learner keeps them: (S, n) or (S, A, n) for tables."""


class Diverged(ArithmeticError):
    """Estimates that are no longer numbers."""


class Agent(ABC):
    """An agent in its world: learn, look, save, go on."""

    Config: ClassVar[type[LearnerConfig]]

    def __init__(self, env: World | Absent, config: LearnerConfig) -> None:
        self.config = config
        self._opened = open_world(env)
        self.steps = 0
        """Steps learnt so far."""
        self.snapshots: list[Snapshot] = []
        """Taken at the steps that `learn(snapshot_at=…)` names."""
        self.may_diverge = False
        """Whether to go on, earning what comes, when the estimates run away: as studies over whole grids do."""
        self._rewards: RewardEstimate = rules.reward_estimate(config.theta_size, config.initial_average_reward)
        self._record: Record = new_record(config.theta_size)
        self._generator = make_generator(config.seed)
        self._prediction_generator = make_generator(config.seed, 1)
        self._world: GymnasiumWorld | None = None
        if self._opened.env is not None:
            self._world = GymnasiumWorld(self._opened.env, config.termination, config.reset_cost, config.seed)

    @property
    def mdp(self) -> FiniteMDP | None:
        """The finite MDP that the world is, if it is one."""
        return self._opened.mdp

    def __init_subclass__(cls) -> None:
        """Show the settings in the signature, so that help() and notebooks list them."""
        if not inspect.isabstract(cls) and "Config" in vars(cls):
            own = list(inspect.signature(cls.__init__).parameters.values())[1:-1]
            keyword = inspect.Parameter.KEYWORD_ONLY
            settings = [
                inspect.Parameter(field.name, keyword, default=field.default, annotation=field.type)
                for field in fields(cls.Config)
            ]
            cls.__signature__ = inspect.Signature([*own, *settings])  # type: ignore[attr-defined]

    def learn(
        self,
        num_steps: int,
        *,
        progress: bool | None = None,
        callback: Callback | None = None,
        snapshot_at: Iterable[int] = (),
    ) -> Self:
        """Learn for `num_steps` more steps; call again to go on.

        `progress`: a bar always (True), never (False), or when it takes long on a terminal (None). `callback(agent)` is called
        several times a second, and stops the learning by returning False. `snapshot_at`: steps of the agent's life (0 is the
        beginning) at which to keep a copy of the estimates in `agent.snapshots`. None of these changes what is learnt.
        """
        end = self.steps + count("num_steps", num_steps, 0)
        named = (count("A step of snapshot_at", step, 0) for step in snapshot_at)
        wanted = sorted({step for step in named if self.steps <= step <= end})
        chunk = FIRST_CHUNK
        with Bar(num_steps, type(self).__name__, show=progress) as bar:
            while True:
                if wanted and wanted[0] <= self.steps:  # several environments step at once, and may step past it
                    self.snapshots.append(self._snapshot())
                    wanted = [step for step in wanted if step > self.steps]
                if self.steps >= end:
                    return self
                begin = time.perf_counter()
                span = min(chunk, (wanted[0] if wanted else end) - self.steps)
                with deferred_signals() as received:  # within a stretch, estimates and steps may not agree
                    self._advance(span)
                raise_again(received)
                self._check_finite()
                if span == chunk:
                    speed = span / max(time.perf_counter() - begin, 1e-6)
                    chunk = int(min(max(speed * PULSE, 1), 10 * chunk))
                if callback is not None and callback(self) is False:
                    return self
                bar.update(num_steps - (end - self.steps), f"average reward {self.average_reward:.4g}")

    @property
    def average_reward(self) -> float:
        """R̄, the estimate of the average reward per step."""
        return float(mean(self._rewards.theta) + self._rewards.offset[0])

    @property
    def reward_quantiles(self) -> Floats:
        """θ, the estimates of the quantiles of the long-run reward per step, (m,); one number, the average, for `differential`."""
        return self._rewards.theta.copy()

    @property
    def reward_distribution(self) -> Distribution:
        """The learnt long-run distribution of the reward per step."""
        if self.config.rule == "differential":
            raise TypeError(
                "The rule 'differential' learns the average reward only. Use rule='d2' or 'd3' for its distribution."
            )
        return Distribution.from_quantiles(self._rewards.theta)

    @property
    def history(self) -> History:
        """Reward rate, average reward and reward quantiles over the agent's life."""
        return History(self._record)

    def record_every(self, window: int, rows: int = ROWS) -> Self:
        """Let the history have windows of exactly `window` steps, until `rows` (an even number) of them are full and the window
        doubles; before learning only."""
        count("window", window, 1)
        if rows < 2 or rows % 2:
            raise ValueError(f"rows must be an even number from 2, since rows are merged in pairs, but {rows!r} came.")
        if self.steps:
            raise ValueError(f"The history began {self.steps:,} steps ago. Call record_every before the first learn.")
        self._record = new_record(self.config.theta_size, window, rows)
        return self

    def note_end(self, episode_return: float) -> None:
        """For the loops: an episode ends with the step that is learnt from next."""
        note_end(self._record, episode_return)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one .safetensors file, published by rename; `perstep.load` reads it and goes on to the bit."""
        world_arrays, world = describe(self._opened, self._world, self._spaces())
        arrays = {
            **flatten("rewards", self._rewards),
            **flatten("record", self._record),
            "generator": self._generator,
            "prediction_generator": self._prediction_generator,
            **world_arrays,
            **self._arrays(),
        }
        metadata = {
            "format": FORMAT,
            "agent": type(self).__name__,
            "config": self.config.to_json(),
            "steps": self.steps,
            "world": world,
        }
        storage.write(path, arrays, metadata)

    def evaluate(self, num_steps: int, deterministic: bool = False, seed: int | None = None) -> Evaluation:
        """Behave for a budget of steps without learning, by the policy of this moment. `deterministic`: no exploration. `seed`:
        of the actions and of the world; without one, that of the agent.

        A Gymnasium world is made anew for it, as its id and settings say; where that cannot be done, the agent's own is used,
        and learning then goes on from a fresh reset.
        """
        num_steps = count("num_steps", num_steps, 1)
        seed = None if seed is None else count("seed", seed, 0)
        generator = make_generator(self.config.seed if seed is None else seed, 2)
        kept = np.full(min(num_steps, KEPT_REWARDS), np.nan)
        picker = make_generator(*map(int, generator), 3)
        total = self._follow(generator, picker, num_steps, deterministic, kept)
        if total is not None:
            return Evaluation(
                total / num_steps, Distribution.from_samples(kept[~np.isnan(kept)]), np.zeros(0), num_steps
            )
        choose = self._chooser(generator, deterministic)
        rewards, returns = self._gymnasium_world().follow(choose, num_steps, seed)
        return Evaluation(float(rewards.mean()), Distribution.from_samples(rewards), returns, num_steps)

    @abstractmethod
    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""

    @abstractmethod
    def _advance(self, num_steps: int) -> None:
        """Learn for some steps and count them in `self.steps`."""

    @abstractmethod
    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> float | None:
        """Follow the policy in a compiled world and return the sum of rewards; None where the world is not compiled."""

    @abstractmethod
    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        """A function from an observation to an action."""

    @abstractmethod
    def _spaces(self) -> dict[str, Any]:
        """What a file must say of the world's spaces for the agent to answer without the world."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """A copy of the estimates."""

    @abstractmethod
    def _arrays(self) -> storage.Arrays:
        """What the agent has learnt beyond θ, by name, for a file."""

    def _check_point(self, point: Any, action: Any) -> None:  # noqa: B027 (an agent may have nothing to check)
        """Refuse a point and an action from a file that compiled code would take for places in an array."""

    def _values(self) -> tuple[Floats, ...]:
        """What must stay finite beside θ."""
        return ()

    def _check_finite(self) -> None:
        """Say that the estimates have run away, rather than go on with them."""
        with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ among them is told below
            sums = [float(values.sum()) for values in (self._rewards.theta, self._rewards.offset, *self._values())]
        if self.may_diverge or all(map(math.isfinite, sums)):
            return
        raise Diverged(
            f"By step {self.steps:,} the estimates have run away to infinity, so this agent is of no more use. Begin again "
            f"with a smaller step_size (it was {self.config.step_size}), or smaller rewards."
        )

    def _return_quantiles(self, values: Floats) -> Floats:
        if self.config.rule != "d3":
            raise TypeError(f"The rule {self.config.rule!r} learns no return quantiles. Use rule='d3' for them.")
        return values.copy()

    def _gymnasium_world(self) -> GymnasiumWorld:
        if self._world is None:
            assert self._opened.absent is not None
            raise self._opened.absent.error()
        return self._world

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        """Become the agent that was saved."""
        fill("rewards", self._rewards, arrays)
        self._record = new_record(self.config.theta_size, rows=len(arrays["record.reward_rate"]))
        fill("record", self._record, arrays)
        check_cursor(self._record)
        put("generator", self._generator, arrays)
        put("prediction_generator", self._prediction_generator, arrays)
        self.steps = count("steps", metadata["steps"], 0)
        within("number of steps", np.array([self.steps]), LONGEST)
        if self._world is not None:
            go_back(self._world, metadata["world"])
            if self._world.point is not None:
                self._check_point(self._world.point, self._world.action)

    def __repr__(self) -> str:
        learnt = f"average reward {self.average_reward:.4g} after {self.steps:,} steps"
        return f"{type(self).__name__}(rule={self.config.rule!r}, {learnt})"


def within(name: str, indices: NDArray[np.int64], size: int) -> None:
    """Refuse indices from a file that point outside: compiled code does not look before it writes."""
    if indices.size and not (0 <= indices.min() and indices.max() < size):
        raise storage.BadFile(
            f"The file's {name} should lie between 0 and {size - 1}, but {indices.tolist()} is there."
        )


def check_cursor(record: Record) -> None:
    """Refuse a record from a file whose place to write is outside."""
    window, filled, pending = map(int, record.cursor)
    rows = len(record.reward_rate)
    if not (window >= 1 and 0 <= filled < rows and 0 <= pending < window and rows % 2 == 0):
        raise storage.BadFile(
            f"The file's record has rows {rows} and cursor {record.cursor.tolist()}, which cannot be."
        )


def flatten(name: str, arrays: Any) -> storage.Arrays:
    """A NamedTuple of arrays as names for a file."""
    return {f"{name}.{field}": getattr(arrays, field) for field in arrays._fields}


def fill(name: str, arrays: Any, saved: storage.Arrays) -> None:
    """Put saved arrays into a NamedTuple of arrays of the same shapes."""
    for field in arrays._fields:
        put(f"{name}.{field}", getattr(arrays, field), saved)


def put(name: str, target: NDArray[Any], saved: storage.Arrays) -> None:
    """Put a saved array into one of the same shape and kind."""
    source = saved.get(name)
    if source is None or source.shape != target.shape or source.dtype != target.dtype:
        came = "nothing" if source is None else f"{source.dtype} {source.shape}"
        raise storage.BadFile(f"The file should hold {name} as {target.dtype} {target.shape}, but {came} is there.")
    target[...] = source
