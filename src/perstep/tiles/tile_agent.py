"""An agent on tiles, for bounded boxes of observations and discrete actions: its features, its worlds and its files.

How it chooses actions and what it learns is its own: tiles/agent.py.
"""

from __future__ import annotations

import functools
import operator
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from perstep.agent.agent import KEPT_REWARDS, Agent, AgentHooks, Floats
from perstep.agent.arrays import FINITE, Limits, below, flatten, has_shape
from perstep.agent.evaluation import Evaluation
from perstep.agent.life import LONGEST
from perstep.distributions.sampling import stretches
from perstep.files import storage
from perstep.gym.behaviour import NO_ACTION, Behaviour, Ends
from perstep.gym.opening import Absent
from perstep.gym.spaces import Numbering, as_flat, discrete_actions, part_name
from perstep.numerics.compiled import announce
from perstep.numerics.randomness import Generator, draw
from perstep.tiles import kernel
from perstep.tiles import loop as motion_worlds
from perstep.tiles.coder import TileCoder, bounded, no_bounds
from perstep.tiles.loop import MotionPlace, MotionWorld, motion_place
from perstep.tiles.settings import TileConfig
from perstep.tiles.traces import SAVED, new_traces
from perstep.worlds.motion import Motion

if TYPE_CHECKING:
    from perstep.gym.opening import World

HASHED_FEATURES = 2**20  # where the full table would be larger and no table_size is given
LEAST_TILES = 3
NO_POLICY = np.zeros((0, 0))
LEARNT_BONUS = ("unseen", "scores")  # the arrays of optimism that a file keeps


class TileAgent(Agent):
    """An agent whose values are sums over active tiles."""

    config: TileConfig
    _learner_number: ClassVar[int]  # for compiled code
    _behaviour: Behaviour

    def __init__(self, env: World | Absent, config: TileConfig, policy_ratio: float) -> None:
        super().__init__(env, config)
        self._tiles, self._actions = self._features()
        absent, world = self._opened.absent, self._opened.env
        self._shape = tuple(absent.spaces["shape"] if absent is not None else world.observation_space.shape)
        tilings, actions, n, learner = config.tilings, self._actions.count, config.value_size, self._learner_number
        weights = kernel.weights(self.tiles.num_features, tilings, actions, n, config.initial_value, learner)
        self._run = kernel.LearnerState(
            weights,
            self._objective,
            config.workspace,
            config.schedule(),
            policy_ratio,
            self.tiles.arrays,
            kernel.room(tilings, actions, n, learner),
            config.scale,
            config.average_steps,
            kernel.Level(np.full(1, config.initial_value), config.level_share) if config.level_share else None,
            kernel.optimism(weights, config.optimism, config.optimism_delay) if config.optimism else None,
            new_traces(
                config.trace_decay * config.discount,
                actions if learner == kernel.TILE_Q else 1,
                tilings,
                0 if learner == kernel.TILE_Q else actions,
            ) if config.trace_decay else None,
            self._reference(),
            self._risk,
        )  # fmt: skip
        self._loops = motion_worlds.loops(learner)
        self._warned = False
        self._hooks = TileHooks(self)
        self._motion: tuple[MotionWorld, MotionPlace] | None = None
        if (motion := self._opened.motion) is not None:
            self._motion = as_compiled(motion), motion_place(motion)
            self._begin_motion()

    def _begin_motion(self) -> None:
        """Start the world of motion, and stand there."""
        assert self._motion is not None
        run = self._run
        self._loops.begin_motion(
            *self._motion, self._generator, run.weights, run.rewards, run.tiling, run.optimism, run.traces,
        )  # fmt: skip

    @property
    def tiles(self) -> TileCoder:
        """The tile coder of the observations."""
        return self._tiles

    @abstractmethod
    def policy(self, observation: Any, deterministic: bool = False) -> Floats:
        """Probabilities of the actions at an observation, (A,); with `deterministic`, without chance."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""
        points = np.asarray(as_flat(self._composed, observation), np.float64)
        if points.shape != self._shape and points.shape[1:] != self._shape:
            raise ValueError(
                f"An observation must have shape {self._shape}, and a batch one more axis in front, got {points.shape}."
            )
        choose = self._chooser(self._prediction_generator, deterministic)
        chosen = [choose(point) for point in points.reshape(-1, *self._shape)]
        return (chosen[0] if points.shape == self._shape else np.array(chosen)), None

    def _new_ends(self) -> Ends:
        motion = self._opened.motion
        if motion is not None and motion.teleport_cost is not None:  # the world itself goes on after an end
            return Ends.of("continue", motion.teleport_cost)
        return super()._new_ends()

    @property
    def compiled_world(self) -> str | None:
        """The name of the world if learning in it is one compiled loop; None for the plain loop of Gymnasium."""
        return None if self._opened.motion is None else self._opened.motion.name

    @property
    def clipped(self) -> int:
        """How many coordinates of observations were outside the bounds so far, and were moved to them."""
        return int(self._run.weights.clipped[0])

    def _advance(self, num_steps: int) -> None:
        if self._motion is None:
            announce(self._loops.learn_then_act)
            self._gymnasium_world().learn(self._hooks, self.steps, num_steps)
        else:
            learn_in_motion = self._loops.learn_in_motion
            announce(learn_in_motion)
            world, place = self._motion
            if self._opened.motion is not None and self._opened.motion.replaces_gymnasium:
                say_compiled(self._opened.motion.name)
            learn_in_motion(
                self.config.kernel, world, self._ends, self._behaviour, *self._run,
                self._life.record, self._generator, place, self.steps, num_steps,
            )  # fmt: skip
            self._life.steps += num_steps
        if self.clipped and not self._warned:
            self._warned = True
            warnings.warn(
                f"Some observations were outside the bounds {list(self.tiles.low)} to {list(self.tiles.high)} and were moved "
                "to them. Give wider bounds with low=… and high=… if you do not want that. (agent.clipped counts them.)",
                stacklevel=4,
            )

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> Evaluation | None:
        if self._motion is None or self._opened.motion is None:
            return None
        follow_in_motion = self._loops.follow_in_motion
        announce(follow_in_motion)
        run = self._run  # what looking writes to must not be the learner's own
        weights = run.weights._replace(
            active=run.weights.active.copy(), numbers=run.weights.numbers.copy(), scores=run.weights.scores.copy()
        )
        room = run.room._replace(chances=run.room.chances.copy())
        optimism = run.optimism and run.optimism._replace(scores=run.optimism.scores.copy())
        returns = np.zeros(min(num_steps, KEPT_REWARDS))
        total, episodes, place = np.zeros(1), np.zeros(1, np.int64), motion_place(self._opened.motion)
        for begin, end in stretches(num_steps):
            follow_in_motion(
                self._motion[0], self._ends, self._behaviour_now(), weights, run.rewards, run.tiling, room, optimism, generator,
                picker, place, begin, end, num_steps, deterministic, total, episodes, kept, returns,
            )  # fmt: skip
        return Evaluation.of_kept(float(total[0]), kept, returns[: episodes[0]].copy(), num_steps)

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        return lambda observation: self._actions.point(int(draw(self.policy(observation, deterministic), generator)))

    def _read(self, observation: Any) -> Floats:
        """The observation as tile coding reads it."""
        point = np.asarray(as_flat(self._composed, observation), np.float64)
        if point.shape != self._shape or np.isnan(point).any():
            raise ValueError(
                f"After {self.steps:,} steps, an observation must be {self._shape} numbers, as the world's space says, got "
                f"{observation!r}. Correct it; if the world gave it, correct the world or its observation_space."
            )
        return point.reshape(-1)

    def _at(self, observation: Any, matrix: Floats) -> Floats:
        """The sum of the rows of `matrix` that are active at an observation."""
        return np.asarray(matrix[self.tiles.active(self._read(observation))].sum(axis=0))

    def _values(self) -> tuple[Floats, ...]:
        return self._run.weights.critic, self._run.weights.actor

    def _behaviour_now(self) -> Behaviour:
        """How actions are chosen at this step: ε may fall."""
        return self._behaviour._replace(epsilon=float(motion_worlds.epsilon_now(self._behaviour, self.steps)))

    def _reference(self) -> kernel.Reference | None:
        """What `rvi` reads its average from; the other rules have none."""
        return None

    def _features(self) -> tuple[TileCoder, Numbering]:
        config, absent, env = self.config, self._opened.absent, self._opened.env
        name = type(self).__name__
        if self.mdp is not None:
            raise TypeError(
                f"{name} reads boxes of numbers, but this world has numbered states. Use perstep.QLearning."
            )
        if absent is not None:
            low, high = absent.spaces["low"], absent.spaces["high"]
            actions = Numbering.from_json(absent.spaces["actions"])
        else:
            low, high = box_bounds(env.observation_space, name)
            endless = [d for d, span in enumerate(zip(low, high, strict=True)) if not all(map(bounded, span))]
            if endless and config.low is None and config.high is None and self._opened.motion is None:
                raise no_bounds(part_name(env, endless[0]), low[endless[0]], high[endless[0]])
            if (motion := self._opened.motion) is not None:  # whose bounds are finite
                low, high = list(motion.low), list(motion.high)
            actions = discrete_actions(env.action_space, name)
        coder = tile_coder(config, low, high)
        if coder.dimensions != len(low):
            raise ValueError(
                f"Observations have {len(low)} numbers, but there are bounds for {coder.dimensions}. Give one bound per number."
            )
        return coder, actions

    def _check_point(self, point: Any, action: Any) -> None:
        if np.shape(point) != (self.tiles.dimensions,):
            raise storage.BadFile(
                f"The file's observation should have {self.tiles.dimensions} numbers, but is {point}."
            )
        self._actions.one(operator.index(action))

    def _spaces(self) -> dict[str, Any]:
        bounds = {"low": list(self.tiles.low), "high": list(self.tiles.high)}
        where = {"shape": list(self._shape), "compiled_world": self.compiled_world}
        return {**bounds, **where, "actions": self._actions.to_json()}

    def _arrays(self) -> storage.Arrays:
        learnt = flatten("weights", self._run.weights)
        if self._run.level is not None:
            learnt["level.mean"] = self._run.level.mean
        if self._run.optimism:
            learnt |= {f"optimism.{name}": getattr(self._run.optimism, name) for name in LEARNT_BONUS}
        if self._run.traces:
            learnt |= {f"traces.{name}": getattr(self._run.traces, name) for name in SAVED}
        if self._motion is None:
            return learnt
        world, place = self._motion
        return {**learnt, **flatten("place", place), "physics": world.parameters}

    @classmethod
    def _settings_from(cls, config: Any, about: dict[str, Any]) -> dict[str, Any]:
        """The bounds of the file, whatever those of the world are now: the weights belong to these tiles."""
        return {**config.settings(), "low": tuple(about["spaces"]["low"]), "high": tuple(about["spaces"]["high"])}

    def _limits(self) -> dict[str, Limits]:
        features, found = (
            below(self.tiles.num_features),
            dict.fromkeys(("place.", "physics", "traces.", "level."), FINITE),
        )
        found["weights.active"] = features
        if (traces := self._run.traces) is not None:
            kept = min(len(traces.columns), int(traces.clock[0])) + 1
            found |= {"traces.active": features, "traces.columns": below(len(traces.before))}
            found["traces.clock"] = below([LONGEST, kept])
        if self._motion is not None:
            ends = [*[LONGEST] * motion_worlds.CHOSEN, self._actions.count]
            found["place.counters"] = below(ends, least=[*[0] * motion_worlds.CHOSEN, NO_ACTION])
        return found

    def _take_over(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        """As for every agent. Where it was in a world of motion counts only in the same world; constants of physics that had been
        changed come back too, unless the caller has given a world."""
        saved_in = metadata["world"].get("spaces", {}).get("compiled_world", self.compiled_world)
        there = saved_in == self.compiled_world and any(name.startswith("place.") for name in arrays)
        goes_on = self._motion is not None and there
        if self._motion is not None:
            world, place = self._motion
            self._motion = world._replace(parameters=world.parameters.copy()), place
        given = "physics" if goes_on and metadata["world_is_given"] else () if goes_on else ("place.", "physics")
        kept = {name: array.copy() for name, array in self._arrays().items() if name.startswith(given)}
        super()._take_over({**arrays, **kept}, metadata)
        if self._motion is not None and not goes_on:  # saved in a plain loop or in another world: this one starts anew
            self._begin_motion()

    @classmethod
    def _check_sizes(cls, config: Any, about: dict[str, Any], arrays: storage.Arrays) -> None:
        has_shape(arrays, "weights.active", config.tilings)
        spaces = about["spaces"]
        features = tile_coder(config, spaces["low"], spaces["high"]).num_features
        actions = Numbering.from_json(spaces["actions"]).count
        linear_q = cls._learner_number == kernel.TILE_Q
        has_shape(arrays, "weights.critic", actions if linear_q else 1, features, config.value_size)
        has_shape(arrays, "weights.actor", 0 if linear_q else features, actions)
        if config.optimism:
            has_shape(arrays, "optimism.unseen", actions if linear_q else 1, features, 1)


@final
class TileHooks(AgentHooks):
    """What the plain loop asks of an agent on tiles; a point is an observation as a flat array of numbers."""

    _agent: TileAgent

    def read(self, observation: Any) -> Floats:
        """The observation as tile coding reads it."""
        return self._agent._read(observation)

    def act(self, point: Floats) -> Any:
        """An action for the world, drawn from the policy."""
        agent = self._agent
        run = agent._run
        chosen = agent._loops.enter_then_act(
            agent._behaviour_now(), run.weights, run.rewards, run.tiling, run.room, run.optimism, run.traces, agent._generator,
            point,
        )  # fmt: skip
        return agent._actions.point(int(chosen))

    def learn_then_act(
        self, point: Floats, action: Any, reward: float, next_point: Floats, masked: bool, resume: Floats
    ) -> Any:
        """Learn from one transition of a Gymnasium world, then act where it goes on."""
        agent = self._agent
        chosen = agent._loops.learn_then_act(
            agent.config.kernel, agent._behaviour_now(), *agent._run, agent._life.record, agent._generator, agent.steps,
            agent._actions.one(action), reward, next_point, masked, resume is not next_point, resume,
        )  # fmt: skip
        agent._life.steps += 1
        return agent._actions.point(int(chosen))


def as_compiled(world: Motion) -> MotionWorld:
    """A world of motion as compiled loops take it."""
    return MotionWorld(world.number, world.parameters, world.time_limit)


@functools.cache
def say_compiled(world: str) -> None:
    """Say once per world that Gymnasium's own code is not used."""
    print(f"perstep: {world} runs as compiled code with the same steps as Gymnasium's", file=sys.stderr, flush=True)


def tiles_for(dimensions: int) -> int:
    """The number of tiles across each dimension of a box: fewer where there are many dimensions, so that tiles are met again."""
    return max(LEAST_TILES, 10 - max(dimensions, 2))


def tile_coder(config: TileConfig, low: list[float], high: list[float]) -> TileCoder:
    """The tile coder of a config, where the world has these bounds. A table that is too large is hashed."""
    return _shared_coder(
        low=tuple(low if config.low is None else config.low),
        high=tuple(high if config.high is None else config.high),
        tilings=config.tilings,
        tiles=tiles_for(len(low)) if config.tiles == "auto" else config.tiles,
        wrap=tuple(config.wrap),
        table_size=HASHED_FEATURES if config.table_size is None else config.table_size,
    )


_shared_coder = functools.lru_cache(maxsize=16)(TileCoder)  # agents of a study are many and short, their coder is one


def box_bounds(space: Any, agent: str) -> tuple[list[float], list[float]]:
    """The bounds of a Box, flattened; infinite ones are left to the tile coder to refuse."""
    from gymnasium.spaces import Box

    if not isinstance(space, Box):
        raise TypeError(
            f"{agent} reads boxes of numbers, but this world has {space}. Use perstep.QLearning for discrete observations."
        )
    return space.low.astype(float).ravel().tolist(), space.high.astype(float).ravel().tolist()
