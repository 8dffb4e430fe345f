"""The agent on tiles: ActorCritic, for bounded boxes of observations and discrete actions (Alg. 5, 9, 12)."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from perstep import interaction, linear, rules, storage
from perstep.agents.agent import Agent, Floats, Snapshot, fill, flatten, put, within
from perstep.agents.worlds import Absent
from perstep.compiled import announce
from perstep.config import ActorCriticConfig
from perstep.environments.spaces import Numbering, numbering
from perstep.randomness import Generator, draw
from perstep.tiles import TileCoder

if TYPE_CHECKING:
    from perstep.agents.worlds import World


@final
class ActorCritic(Agent):
    """Control from continuous observations: values on tiles, a softmax policy, and the distribution of the reward per step."""

    Config = ActorCriticConfig
    config: ActorCriticConfig

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        config = ActorCriticConfig.of(settings)
        super().__init__(env, config)
        self.tiles, self._actions = self._features()
        """The tile coder of the observations."""
        absent, world = self._opened.absent, self._opened.env
        self._shape = tuple(absent.spaces["shape"] if absent is not None else world.observation_space.shape)
        tilings, actions, n = config.tilings, self._actions.count, config.value_size
        decay = config.value_decay
        self._run = linear.Run(
            linear.weights(self.tiles.num_features, tilings, actions, n, config.initial_value),
            self._rewards,
            rules.workspace(n, config.huber),
            rules.Schedule(decay.scale, decay.power, config.theta_scale, config.theta_power, config.offset_ratio),
            config.policy_ratio,
            self.tiles.arrays,
            linear.room(tilings, actions, n),
        )
        self._warned = False
        self._state = np.zeros(2)  # of a pendulum; other worlds know their own
        if self._opened.pendulum is not None:
            self._state[:] = self._opened.pendulum.start_angle, 0.0
            interaction.stand_at(self._run, self._state)

    def state_value(self, observation: Any) -> float:
        """v(s), the differential value of a state; for d3 the mean of its quantiles."""
        return float(self._at(observation, self._run.weights.critic).mean())

    def return_quantiles(self, observation: Any) -> Floats:
        """Ω(s), the quantiles of the differential return from a state, (n,); rule d3 only."""
        return self._return_quantiles(self._at(observation, self._run.weights.critic))

    def policy(self, observation: Any, deterministic: bool = False) -> Floats:
        """Probabilities of the actions at an observation, (A,); with `deterministic`, the likeliest alone."""
        chances = self._at(observation, self._run.weights.actor)
        linear.softmax(chances)
        return np.asarray(np.eye(len(chances))[chances.argmax()]) if deterministic else chances

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""
        points = np.asarray(observation, np.float64)
        if points.shape != self._shape and points.shape[1:] != self._shape:
            raise ValueError(
                f"An observation has shape {self._shape}, and a batch of them one axis more in front, but {points.shape} came."
            )
        choose = self._chooser(self._prediction_generator, deterministic)
        chosen = [choose(point) for point in points.reshape(-1, *self._shape)]
        return (chosen[0] if points.shape == self._shape else np.array(chosen)), None

    @property
    def clipped(self) -> int:
        """How many coordinates of observations lay outside the bounds so far, and were moved to them."""
        return int(self._run.weights.clipped[0])

    def read(self, observation: Any) -> Floats:
        """The observation as tile coding reads it."""
        point = np.asarray(observation, np.float64)
        if point.shape != self._shape or np.isnan(point).any():
            raise ValueError(
                f"After {self.steps:,} steps an observation should be {self._shape} numbers, as the world's space says, but "
                f"{observation!r} came. Mend the world, or its observation_space."
            )
        return point.reshape(-1)

    def act(self, point: Floats) -> Any:
        """An action for the world, drawn from the policy."""
        interaction.stand_at(self._run, point)
        return self._actions.point(int(interaction.choose_at(self._run, self._generator)))

    def learn_then_act(
        self, point: Floats, action: Any, reward: float, next_point: Floats, masked: bool, resume: Floats
    ) -> Any:
        """Learn from one transition of a Gymnasium world, then act where it goes on."""
        number = self._actions.one(action)
        jumps = resume is not next_point
        chosen = interaction.learn_on_tiles_then_act(
            self.config.rule_number, self._run, self._record, self._generator, self.steps, number, reward, next_point,
            masked, jumps, resume,
        )  # fmt: skip
        self.steps += 1
        return self._actions.point(int(chosen))

    def _advance(self, num_steps: int) -> None:
        if (pendulum := self._opened.pendulum) is None:
            announce(interaction.learn_on_tiles_then_act)
            self._gymnasium_world().learn(self, self.steps, num_steps)
        else:
            announce(interaction.learn_in_pendulum)
            interaction.learn_in_pendulum(
                self.config.rule_number, pendulum, self._run, self._record, self._generator, self._state, self.steps,
                num_steps,
            )  # fmt: skip
            self.steps += num_steps
        if self.clipped and not self._warned:
            self._warned = True
            warnings.warn(
                f"Some observations lay outside the bounds {list(self.tiles.low)} to {list(self.tiles.high)} and were moved "
                "to them. Give wider bounds with low=… and high=… if that is not meant. (agent.clipped counts them.)",
                stacklevel=3,
            )

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> float | None:
        if (pendulum := self._opened.pendulum) is None:
            return None
        announce(interaction.follow_in_pendulum)
        weights, room = self._run.weights, self._run.room
        apart = self._run._replace(  # what a look-up writes to must not be the learner's own
            weights=weights._replace(active=weights.active.copy()), room=room._replace(chances=room.chances.copy())
        )
        state = np.array([pendulum.start_angle, 0.0])
        return float(
            interaction.follow_in_pendulum(pendulum, apart, generator, picker, state, num_steps, deterministic, kept)
        )

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        return lambda observation: self._actions.point(int(draw(self.policy(observation, deterministic), generator)))

    def _at(self, observation: Any, matrix: Floats) -> Floats:
        """The sum of the rows of `matrix` that are active at an observation."""
        return np.asarray(matrix[self.tiles.active(self.read(observation))].sum(axis=0))

    def _values(self) -> tuple[Floats, ...]:
        return self._run.weights.critic, self._run.weights.actor

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, self._run.weights.critic.copy())

    def _features(self) -> tuple[TileCoder, Numbering]:
        config, absent, env = self.config, self._opened.absent, self._opened.env
        if self.mdp is not None:
            raise TypeError(
                "ActorCritic reads boxes of numbers, but this world has numbered states. Use perstep.QLearning."
            )
        if absent is not None:
            low, high = absent.spaces["low"], absent.spaces["high"]
            actions: Numbering | None = Numbering.from_json(absent.spaces["actions"])
        else:
            low, high = box_bounds(env.observation_space)
            actions = numbering(env.action_space)
        if actions is None or actions.kind != "Discrete":
            raise TypeError(f"ActorCritic needs a Discrete action space, but this world has {env.action_space}.")
        coder = tile_coder(config, low, high)
        if coder.dimensions != len(low):
            raise ValueError(
                f"Observations have {len(low)} numbers, but bounds for {coder.dimensions} came. Give one a number."
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
        return {**bounds, "shape": list(self._shape), "actions": self._actions.to_json()}

    def _arrays(self) -> storage.Arrays:
        return {**flatten("weights", self._run.weights), "state": self._state}

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        super()._restore(arrays, metadata)
        fill("weights", self._run.weights, arrays)
        within("active features", self._run.weights.active, self.tiles.num_features)
        put("state", self._state, arrays)
        chances = self._run.room.chances  # of the action that is chosen and not yet taken
        linear.gather(self._run.weights.actor, self._run.weights.active, chances)
        linear.softmax(chances)


def tile_coder(config: ActorCriticConfig, low: list[float], high: list[float]) -> TileCoder:
    """The tile coder of a config, where the world has these bounds."""
    return _shared_coder(
        low=tuple(low if config.low is None else config.low),
        high=tuple(high if config.high is None else config.high),
        tilings=config.tilings,
        tiles=config.tiles if isinstance(config.tiles, int) else tuple(config.tiles),
        wrap=tuple(config.wrap),
        table_size=config.table_size,
    )


_shared_coder = functools.lru_cache(maxsize=16)(TileCoder)  # agents of a study are many and short, their coder is one


def box_bounds(space: Any) -> tuple[list[float], list[float]]:
    """The bounds of a Box, flattened; infinite ones are left to the tile coder to refuse."""
    from gymnasium.spaces import Box

    if not isinstance(space, Box):
        raise TypeError(
            f"ActorCritic reads boxes of numbers, but this world has {space}. Use perstep.QLearning for discrete observations."
        )
    return space.low.astype(float).ravel().tolist(), space.high.astype(float).ravel().tolist()
