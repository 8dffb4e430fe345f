"""The verbs that every agent has, whatever its learner: learn, predict, evaluate, save."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np
from numpy.typing import NDArray

from perstep.agent import saving
from perstep.agent.arrays import check_masses, fill, finite_numbers, put
from perstep.agent.callbacks import Callback, call, callbacks_of, next_call
from perstep.agent.card import card
from perstep.agent.checks import Finding, FindingWarning, findings
from perstep.agent.earned import headline
from perstep.agent.evaluation import Evaluation, Snapshot
from perstep.agent.family import Family
from perstep.agent.life import LONGEST, Life
from perstep.display.progress import Bar
from perstep.distributions.distribution import Distribution
from perstep.distributions.forecast import Forecast
from perstep.distributions.history import ROWS, History, note_end
from perstep.files import storage
from perstep.gym.behaviour import COST, NUMBER, Ends
from perstep.gym.loop import GymnasiumWorld
from perstep.gym.opening import Absent, go_back, name_of_world, open_world
from perstep.gym.spaces import space_to_json
from perstep.inputs.checks import count, whole
from perstep.inputs.synonyms import instead_of
from perstep.mdp.env import FiniteMDPEnv
from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.randomness import make_generator
from perstep.rules import transition
from perstep.rules.masses import MOST_DOUBLINGS, is_outgrown
from perstep.rules.masses import atoms as atoms_of_masses
from perstep.rules.risk import Risk
from perstep.rules.settings import PER_EPISODE, PER_STEP, LearnerConfig
from perstep.rules.transition import RULES, RewardEstimate
from perstep.system.budget import claim
from perstep.system.signals import deferred_signals, raise_again

if TYPE_CHECKING:
    from perstep.gym.opening import World

Floats = NDArray[np.float64]

FIRST_CHUNK = 16  # steps before the first update of the progress bar: a world may be slow
PULSE = 0.1  # seconds between two updates of the bar, calls of the callback and checks for signals
LONGEST_EVALUATION = 10**10  # steps: an hour or more
KEPT_REWARDS = 1_000_000  # rewards that an evaluation keeps, evenly spaced in time


class Diverged(ArithmeticError):
    """Estimates that are NaN or infinite."""


_LEARNING: set[int] = set()
_GUARD = threading.Lock()


@contextlib.contextmanager
def _alone(agent: object) -> Iterator[None]:
    """Refuse a second call of `learn` while one is running: compiled loops hold no lock, and two would corrupt the memory."""
    with _GUARD:
        if id(agent) in _LEARNING:
            raise RuntimeError(
                "This agent is already learning, in another thread or in its own callback. Wait for it, or make one agent for each "
                "thread (perstep.learn_together runs several at once)."
            )
        _LEARNING.add(id(agent))
    try:
        yield
    finally:
        _LEARNING.discard(id(agent))


class AgentHooks:
    """What plain loops ask of every agent; each learner adds how it reads, acts and learns (gym/loop.py)."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def note_end(self, episode_return: float) -> None:
        """An episode ends with the transition that is learnt next."""
        note_end(self._agent._life.record, episode_return)


class Agent(Family):
    """An agent in its world: learn, look, save, resume."""

    def __new__(cls, *given: Any, **settings: Any) -> Self:
        """Refuse what is given by position, as elsewhere, before Python does so without a hint."""
        places = [p.name for p in inspect.signature(cls).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        if given and isinstance(given[0], str) and given[0].endswith("Policy"):
            raise TypeError(
                f"{cls.__name__} takes no name of a policy, because the spaces of the world decide what it learns with: "
                f"perstep.{cls.__name__}({', '.join(places)}), got {given[0]!r}."
            )
        if len(given) > len(places):
            raise TypeError(
                f"{cls.__name__} takes {' and '.join(places)} by position and settings by name: "
                f"perstep.{cls.__name__}({', '.join(places)}, seed=0), got {len(given)} values by position."
            )
        return super().__new__(cls)

    def __init__(self, env: World | Absent, config: LearnerConfig) -> None:
        self._config = config
        claim(
            8 * (ROWS + 20) * config.theta_size + 64 * config.value_size,
            f"an agent with {config.theta_size:,} reward quantiles and {config.value_size:,} numbers per value",
            "Choose a smaller num_quantiles.",
        )
        self._opened = open_world(env, self._reads_vectors)
        if config.objective == PER_EPISODE and self._never_ends:
            raise ValueError(
                f"objective={PER_EPISODE!r} needs episodes that end, but {name_of_world(self._opened, self._opened.env)} goes on "
                "for ever: so does every finite MDP, and every world behind perstep.gym.endless. Give the Gymnasium environment "
                f"itself, or use objective={PER_STEP!r}."
            )
        self._composed = self._opened.composed if self._reads_vectors else None
        self._life = Life(config.theta_size, changing=config.preset == "changing", forecasts=config.forecast)
        self.may_diverge = False
        """Whether learning continues when the estimates become infinite, as in studies over whole grids."""
        self._rewards: RewardEstimate = transition.reward_estimate(
            config.theta_size,
            config.initial_average_reward,
            config.scale_free,
            config.rule_row.has_reward_masses,
        )
        self._objective = self._rewards  # what the values learn from
        if config.target_from_quantiles:
            self._objective = transition.reward_estimate(
                config.theta_size,
                config.initial_average_reward,
                config.scale_free,
                config.rule_row.has_reward_masses,
            )
        self._risk = Risk(config.risk_level, self._rewards) if config.target_from_quantiles else None
        self._generator = make_generator(config.seed)
        self._prediction_generator = make_generator(config.seed, 1)
        self._ends = self._new_ends()
        self._world: GymnasiumWorld | None = None
        plain = self._opened.env
        if self._opened.mdp is not None and not self._has_loop_for_mdps:
            plain = FiniteMDPEnv(self._opened.mdp)
        if plain is not None:
            self._world = GymnasiumWorld(plain, self._ends, config.seed)

    @property
    def config(self) -> Any:
        """The settings. They cannot be changed: what compiled code reads was made from them."""
        return self._config

    @config.setter
    def config(self, value: Any) -> Never:
        raise AttributeError(
            f"The settings of an agent cannot be changed. Make another one: perstep.{type(self).__name__}(env, …)."
        )

    @property
    def steps(self) -> int:
        """The number of steps learnt so far."""
        return self._life.steps

    @property
    def snapshots(self) -> list[Snapshot]:
        """Copies of the estimates at the steps that `learn(snapshot_at=…)` names."""
        return self._life.snapshots

    @property
    def mdp(self) -> FiniteMDP | None:
        """The finite MDP that the world is, if it is one."""
        return self._opened.mdp

    @property
    def _world_name(self) -> str:
        """The id of the world with its settings; of a finite MDP its name and sizes."""
        world = getattr(self, "_vector_world", None) or self._world
        return name_of_world(self._opened, None if world is None else world.env)

    @property
    def compiled_world(self) -> str | None:
        """The name of the world if learning in it is one compiled loop; None for the plain loop of Gymnasium."""
        mdp = self._opened.mdp if self._has_loop_for_mdps else None
        return None if mdp is None else mdp.name or "a finite MDP"

    @property
    def ends(self) -> int:
        """The number of episodes that ended while it learnt; those that a time limit cut off did not end."""
        return self._ends.number

    @property
    def _never_ends(self) -> bool:
        """Whether it is known that no episode ever ends in this world."""
        return self._opened.never_ends

    @property
    def reset_cost(self) -> float:
        """What the end of an episode costs now."""
        return self._ends.reset_cost

    def _new_ends(self) -> Ends:
        """What an end means here, before the first one."""
        return Ends.of(self.config.termination, self.config.reset_cost)

    def __init_subclass__(cls) -> None:
        """Show the settings in the signature, so that help() and notebooks list them."""
        if not inspect.isabstract(cls) and "Config" in vars(cls):
            own = list(inspect.signature(cls.__init__).parameters.values())[1:-1]
            keyword = inspect.Parameter.KEYWORD_ONLY
            shown = cls.Config.preset_settings({})
            settings = [
                inspect.Parameter(
                    field.name, keyword, default=shown.get(field.name, field.default), annotation=field.type
                )
                for field in fields(cls.Config)
            ]
            cls.__signature__ = inspect.Signature([*own, *settings])  # type: ignore[attr-defined]

    def learn(
        self,
        num_steps: float | None = None,
        *,
        progress: bool | None = None,
        callback: Callback | Iterable[Callback] | None = None,
        snapshot_at: Iterable[int] = (),
        **elsewhere: Never,
    ) -> Self:
        """Learn for `num_steps` more steps; call again to continue.

        `progress`: show a progress bar always (True), never (False), or on a terminal when it takes long (None).
        `callback(agent)` is called several times a second, and an `EvalCallback` or `CheckpointCallback` every so many steps; give
        one or several. Learning stops when one returns False. `snapshot_at`: step numbers (0 is the beginning) at which to keep a
        copy of the estimates in `agent.snapshots`. None of these changes what is learnt.
        """
        for name in elsewhere:
            raise TypeError(f"learn has no argument {name!r}. {instead_of(name) or 'See help(agent.learn).'}")
        with _alone(self):
            self._learn(whole("num_steps", num_steps, 0), progress, callbacks_of(callback), snapshot_at)
        if not self.may_diverge and self._life.has_grown() and (found := self.check()):
            more = f" ({len(found) - 1} more: agent.check())" if len(found) > 1 else ""
            warnings.warn(f"{found[0]}{more}", FindingWarning, stacklevel=2)
        return self

    def check(self) -> list[Finding]:
        """What is probably wrong: estimates that contradict experience, each as a sentence with the setting to change.

        Empty if nothing is, or before the first thousand steps. `learn` warns of the first one.
        """
        return findings(self)

    def _learn(
        self, num_steps: int, progress: bool | None, callbacks: list[Callback], snapshot_at: Iterable[int]
    ) -> Self:
        end = self.steps + count("num_steps", num_steps, 0, LONGEST - 1 - self.steps)
        if not isinstance(snapshot_at, Iterable):
            raise TypeError(f"snapshot_at must be a list of step numbers, got {snapshot_at!r}.")
        named = (count("A step of snapshot_at", step, 0) for step in snapshot_at)
        wanted = sorted({step for step in named if self.steps <= step <= end})
        chunk = FIRST_CHUNK
        with Bar(num_steps, type(self).__name__, show=progress) as bar:
            while True:
                if wanted and wanted[0] <= self.steps:  # several environments step together, and may step past it
                    self.snapshots.append(self._snapshot())
                    wanted = [step for step in wanted if step > self.steps]
                if self.steps >= end:
                    return self
                begin = time.perf_counter()
                before = self.steps
                stop = min(next_call(callbacks, before, end), wanted[0] if wanted else end, end)
                span = min(chunk, stop - before)
                with deferred_signals() as received:  # inside a chunk, estimates and number of steps may not agree
                    self._advance(span)
                raise_again(received)
                self._check_finite()
                self._check_grid()
                self._life.trace.look(self)
                if span == chunk:
                    speed = span / max(time.perf_counter() - begin, 1e-6)
                    chunk = int(min(max(speed * PULSE, 1), 10 * chunk))
                if not call(callbacks, self, before):
                    return self
                bar.update(num_steps - (end - self.steps), lambda: headline(self, 4))

    @property
    def average_reward(self) -> float:
        """R̄, the estimate of the average reward per step."""
        return float(transition.average_reward(self.config.rule_row.number, self._rewards))

    @property
    def risk_adjusted_reward(self) -> float:
        """The estimate of what is maximised: the average reward, or with a risk_level below 1 the mean of the worst share."""
        return float(transition.average_reward(self.config.rule_row.number, self._objective))

    @property
    def reward_quantiles(self) -> Floats:
        """θ, the estimated quantiles of the long-run reward per step, (m,); one number, the average, for rules without them."""
        return self._rewards.theta.copy()

    @property
    def reward_distribution(self) -> Distribution:
        """The distribution of the reward per step of the current policy: the rewards since the policy last changed, as they were
        counted in what the agent did, random actions included; with its number of steps and its standard errors.

        It rests on the last half of the steps or less, down to a sixteenth where the later rewards differ from the earlier ones by
        more than chance; with preset="changing" on about the last 130,000 steps at most. A change that is too small to be seen is
        part of the standard errors. Up to 1024 distinct rewards are counted exactly; of more, the tails are the finest. What the
        agent itself has learnt is `learned_distribution`. Before the first step there is none: a ValueError says so.
        """
        if (counted := self._life.reward_distribution) is not None:
            return counted
        quantiles = self.config.rule_row.has_reward_quantiles
        guess = " (agent.learned_distribution is what the rule has learnt.)" if quantiles else ""
        if self.steps:
            raise ValueError(f"The rewards of this agent were not counted: record_every was told not to.{guess}")
        raise ValueError(
            f"This agent has recorded no reward yet, so the distribution of its rewards is unknown. Call learn first.{guess}"
        )

    @property
    def learned_distribution(self) -> Distribution:
        """The distribution of the reward per step that the rule itself has learnt: the quantiles θ with equal weights, or the
        masses of the rule "categorical". It may lag behind `reward_distribution`, which counts the rewards."""
        if self.config.rule_row.has_reward_masses:
            return Distribution(self._rewards.masses, atoms_of_masses(self._rewards.masses, self._rewards.grid))
        return Distribution.from_quantiles(self._rewards.theta)

    @property
    def _learns_distribution(self) -> bool:
        """Whether it learns a distribution of the reward per step, and not the average alone."""
        return bool(self.config.rule_row.has_reward_quantiles)

    @property
    def history(self) -> History:
        """Reward rate, average reward and reward quantiles over the agent's life."""
        return History(self._life.record, self._optimum)

    def _optimum(self) -> float:
        """The best average reward, in a finite world that is known: it is solved for that."""
        if self._opened.mdp is None:
            raise ValueError("The optimum of this world is not known. Give it: agent.history.regret(optimum).")
        if self.config.risk_level < 1.0:
            raise ValueError("This agent maximises the mean of its worst steps, and a regret is about the mean of all.")
        return float(self._opened.mdp.solve().average_reward)

    def record_every(self, window: int, rows: int = ROWS, *, sketch: bool = True) -> Self:
        """Let the history have windows of exactly `window` steps. When `rows` of them (an even number) are full, the window
        doubles. `sketch=False` saves the few nanoseconds per step that it takes to count the rewards: there is then no
        `reward_distribution`. Call it before learning."""
        self._life.record_every(window, rows, sketch)
        return self

    def card(self, path: str | os.PathLike[str] = "agent.safetensors") -> str:
        """What the agent is, where it learnt, what it earned and how to load it from `path`, as a page of Markdown."""
        return card(self, os.fspath(path))

    def save(self, path: str | os.PathLike[str], *, card: bool = False) -> None:
        """Write everything to one .safetensors file, published by rename, from which `perstep.load` continues to the bit.

        `card`: also write `card()` beside it, as a file that ends in .md.
        """
        saving.save(self, path, with_card=card)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: World | None = None) -> Self:
        """`perstep.load`, for a file of this kind of agent."""
        if not isinstance(agent := import_module("perstep.agent.files").load(path, env), cls):
            raise TypeError(
                f"{path} holds a {type(agent).__name__}, not a {cls.__name__}. Use perstep.load, which reads all."
            )
        return agent

    if not TYPE_CHECKING:  # a type checker should still refuse such names

        def __getattr__(self, name: str) -> Never:
            """Only for what an agent has not got: the sentence for a name of another library."""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}. {instead_of(name)}".rstrip())

    def evaluate(
        self, num_steps: float | None = None, deterministic: bool = False, seed: int | None = None, **elsewhere: Never
    ) -> Evaluation:
        """Follow the current policy for a budget of steps without learning. `deterministic`: no exploration. `seed`: for the
        actions and the world; by default that of the agent.

        A Gymnasium world is made a second time from its id and settings, or copied. Where neither is possible, the agent's own
        world is used, and learning then continues from a fresh reset.
        """
        for name in elsewhere:
            hint = instead_of(name) or "See help(agent.evaluate)."
            raise TypeError(f"evaluate has no argument {name!r}. {hint}")
        num_steps = whole("num_steps", num_steps, 1, LONGEST_EVALUATION)
        seed = None if seed is None else count("seed", seed, 0)
        generator = make_generator(self.config.seed if seed is None else seed, 2)
        room = np.full(min(num_steps, KEPT_REWARDS), np.nan)
        picker = make_generator(*map(int, generator), 3)
        found = self._follow(generator, picker, num_steps, deterministic, room)
        if found is None:
            choose = self._chooser(generator, deterministic)
            rewards, returns = self._gymnasium_world().follow(choose, num_steps, seed)
            found = Evaluation.of_all(rewards, returns)
        return self._beside_learning(found, deterministic)

    def _beside_learning(self, found: Evaluation, deterministic: bool) -> Evaluation:
        """An evaluation beside what the agent earned while it learnt; `check` reads the last one without exploration."""
        found = dataclasses.replace(
            found, risk_level=self.config.risk_level, while_learning=self._life.reward_distribution
        )
        if deterministic:
            self._life.without_exploring = self.steps, found
        return found

    def forecast(self, num_steps: int, observation: Any = None) -> Forecast:
        """The distribution of the sum of the next `num_steps` rewards, with the error of its mean. Needs the setting forecast=True.

        As the agent behaved recently, random actions included, from anywhere in the long run. From a state of a finite world that
        is known, `agent.mdp.evaluate(agent.policy()).forecast(num_steps, start=…)` is exact.
        """
        num_steps = whole("num_steps", num_steps, 1, LONGEST)
        if not self.config.forecast:
            raise ValueError(
                f"This agent does not learn what a forecast needs. Give {type(self).__name__} the setting forecast=True."
            )
        if observation is not None:
            raise ValueError(
                f"{type(self).__name__} forecasts from anywhere in the long run: leave out the observation. In a finite world "
                "that is known, agent.mdp.evaluate(agent.policy()).forecast(num_steps, start=…) begins in a state."
            )
        return self._life.forecast(num_steps)

    def _advance(self, num_steps: int) -> None:
        """Learn for some steps and count them in `self.steps`: in the plain loop, unless there is a compiled one."""
        self._gymnasium_world().learn(self._hooks, self.steps, num_steps)

    def _described_spaces(self) -> dict[str, Any]:
        """`_spaces`, and how observations become vectors."""
        found = None if self._composed is None else space_to_json(self._composed)
        return self._spaces() if found is None else {**self._spaces(), "composed": found}

    def _snapshot(self) -> Snapshot:
        """A copy of the estimates."""
        values = self._values()
        return Snapshot(
            self.steps, self.average_reward, self.reward_quantiles, values[0].copy() if values else np.zeros(0)
        )

    def _check_finite(self) -> None:
        """Raise an error if the estimates are no longer finite."""
        with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ is reported below
            sums = [float(values.sum()) for values in (self._rewards.theta, self._rewards.offset, *self._values())]
        if self.may_diverge or all(map(math.isfinite, sums)):
            return
        step_size = getattr(self.config, "step_size", None)  # a planner has none
        smaller = "" if step_size is None else f"a smaller step_size (it was {step_size}), or with "
        raise Diverged(
            f"By step {self.steps:,} the estimates are NaN or infinite, so this agent cannot continue. Begin again "
            f"with {smaller}smaller rewards."
        )

    def _check_grid(self) -> None:
        """Raise an error if the rewards have left every grid."""
        if is_outgrown(self._rewards.grid):
            raise Diverged(
                f"By step {self.steps:,} the rewards differ by more than {2.0**MOST_DOUBLINGS:.0e} times the first difference of "
                f"two rewards, so no grid of {self.config.theta_size} atoms can hold them. Use rule='d2', or rewards with a bound."
            )

    def _return_quantiles(self, values: Floats) -> Floats:
        if not self.config.rule_row.has_return_quantiles:
            having = " or ".join(f"rule={rule.name!r}" for rule in RULES.values() if rule.has_return_quantiles)
            raise TypeError(f"The rule {self.config.rule!r} learns no return quantiles. Use {having} for them.")
        return values.copy()

    def _gymnasium_world(self) -> GymnasiumWorld:
        if self._world is None:
            assert self._opened.absent is not None
            raise self._opened.absent.error()
        return self._world

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        """Become the agent that was saved."""
        fill("rewards", self._rewards, arrays)
        check_masses(self._rewards)
        if self.config.target_from_quantiles:
            fill("objective", self._objective, arrays)
        if self._rewards.offset[0] and not (self.config.rule_row.has_offset or self.config.scale_free):
            raise storage.BadFile(f"The file holds an offset, but the rule {self.config.rule!r} has none.")
        self._life.restore(arrays, metadata["steps"])
        self._restore_ends(arrays)
        for name, generator in (("generator", self._generator), ("prediction_generator", self._prediction_generator)):
            put(name, generator, arrays)
            if not generator.any():
                raise storage.BadFile(f"The file's {name} is all zeros, from which no random numbers come.")
        if self._world is not None:
            go_back(self._world, metadata["world"])
            if self._world.point is not None:
                self._check_point(self._world.point, self._world.action)
        self._take_over(arrays, metadata)

    def _restore_ends(self, arrays: storage.Arrays) -> None:
        """How many ends there were, and what one costs, unless the settings or the world say it."""
        known = self._ends.known.copy()
        put("ends", known, arrays)
        finite_numbers("ends", known[COST:])
        self._ends.known[:] = known if self._ends.is_found else [*self._ends.known[:NUMBER], known[NUMBER]]

    def __repr__(self) -> str:
        own = f", R̄ {self.average_reward:.4g}" if self._life.reward_distribution is not None else ""
        learnt = f"{headline(self, 4)}{own} after {self.steps:,} steps"
        where = f", in compiled {self.compiled_world}" if self.compiled_world is not None and self.mdp is None else ""
        wrong = self.check()
        reported = f", findings: {', '.join(finding.name for finding in wrong)} (see check())" if wrong else ""
        level = self.config.risk_level
        aim = f", worst {100 * level:g} % {self.risk_adjusted_reward:.4g}" if level < 1.0 else ""
        objective = "" if self.config.objective == PER_STEP else f", objective={self.config.objective!r}"
        return f"{type(self).__name__}(rule={self.config.rule!r}{objective}, {learnt}{aim}{where}{reported})"
