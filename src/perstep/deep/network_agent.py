"""An agent with networks: its replay, its worlds (one environment or a vector of them), its checkpoints and its device.

Which actions it knows, how it chooses them, and what it asks of the networks is its own: deep/agent.py, deep/continuous/agent.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, final

import numpy as np
from numpy.typing import NDArray

from perstep.agent.agent import Agent, AgentHooks
from perstep.agent.arrays import FINITE, Limits, has_shape, under
from perstep.agent.evaluation import Evaluation, Snapshot
from perstep.deep.observations import Observations, observations_of
from perstep.deep.replay import Replay
from perstep.deep.settings import NetworkConfig
from perstep.deep.stream import Stream, take_in
from perstep.distributions.history import Record, note
from perstep.files import storage
from perstep.gym.opening import Absent
from perstep.gym.spaces import BoundedBox, Numbering, as_flat, composed_space, flattened
from perstep.gym.vector import Transition, VectorWorld, is_vector
from perstep.inputs.checks import count, whole
from perstep.numerics.compiled import announce, compiled
from perstep.numerics.randomness import Generator, make_generator
from perstep.rules.risk import careful
from perstep.rules.transition import RewardEstimate

if TYPE_CHECKING:
    from perstep.deep.learner import NetworkLearner
    from perstep.gym.opening import World

STACKING = ("FrameStackObservation", "AtariVectorEnv")  # their observations are the last frames, the newest at the end


class NetworkAgent(Agent):
    """An agent that learns with a network from a replay.

    `env` may also be a Gymnasium vector environment, in any autoreset mode; learning then ends with a whole step of it.
    """

    config: NetworkConfig

    def __init__(self, env: World | Absent, config: NetworkConfig) -> None:
        make_learner = self._learner_class()
        env = flattened(env) if is_vector(env) else env
        super().__init__(Absent(_vector_name(env), {}, composed_space(env)) if is_vector(env) else env, config)
        self._vector_world: VectorWorld | None = None
        if is_vector(env):
            vector: Any = env
            actions = self._actions_of(vector.single_action_space)
            self._vector_world = VectorWorld(env, self._ends, config.seed, actions)
        self._observations, self._actions, stacked, num_envs = self._read_spaces()
        self._network = make_learner(self._observations, self._actions.count, config, self._generator)
        self._replay = Replay(
            config.replay_capacity,
            self._observations.shape,
            self._observations.dtype,
            stacked=stacked,
            num_envs=num_envs,
            batch_size=config.batch_size,
            num_steps=self._return_steps,
            discount=config.discount,
            action_size=self._actions.count if isinstance(self._actions, BoundedBox) else 0,
        )
        self._saves_replay = True
        self._stream = Stream.of(config)
        self._hooks = NetworkHooks(self)
        self.last_loss: float | None = None
        """The loss of the last minibatch."""

    @classmethod
    @abstractmethod
    def _learner_class(cls) -> type[NetworkLearner]:
        """The learner, imported only when it is needed: everything else works without PyTorch."""

    @classmethod
    @abstractmethod
    def _actions_of(cls, space: Any) -> Any:
        """The actions of a space, as it knows them; any other space is refused with a sentence."""

    @classmethod
    @abstractmethod
    def _actions_from(cls, values: dict[str, Any]) -> Any:
        """The actions that a file describes."""

    @abstractmethod
    def _choose(self, points: NDArray[Any], generator: Generator, deterministic: bool) -> NDArray[Any]:
        """Actions, as numbers from 0 or as vectors, for a batch of points."""

    @property
    def _num_minibatches(self) -> int:
        """The number of minibatches of an update."""
        return 1

    @abstractmethod
    def _answers(self, inputs: Any) -> dict[str, Any]:
        """What an exported policy says about a batch of inputs of the networks, as tensors by name."""

    @property
    def _return_steps(self) -> int:
        """The number of steps whose rewards are summed before the bootstrap."""
        return 1

    def _forget_action(self, env: int) -> None:
        """An episode of an environment has ended: no action goes on in the next one."""

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        def choose(observation: Any) -> Any:
            points = self._observations.keep(observation)[None]
            return self._actions.point(self._choose(points, generator, deterministic)[0])

        return choose

    def _behave(self, points: NDArray[Any]) -> NDArray[Any]:
        """Actions of all environments while it learns."""
        return self._choose(points, self._generator, deterministic=False)

    @property
    def network(self) -> Any:
        """The network as a PyTorch module. Its values are in units of the rewards seen."""
        return self._network.online

    @property
    def updates(self) -> int:
        """The number of minibatches learnt from so far."""
        return self._network.updates

    @property
    def look(self) -> float:
        """How many steps ahead the values look so far: return_steps more in every lag of the target network, and with a discount
        no further than 1/(1 − γ)."""
        config = self.config
        reached = self._return_steps * config.target_step * self.updates
        return reached if config.discount == 1.0 else min(reached, 1.0 / (1.0 - config.discount))

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect. An agent that
        was given a `FiniteMDP` with names takes and returns these."""
        points = self._point_of(observation)
        single = points.shape == self._observations.shape
        chosen = self._choose(points[None] if single else points, self._prediction_generator, deterministic)
        actions = self._actions if self._spoken is None else self._spoken[1]
        return (actions.point(chosen[0]) if single else actions.points(chosen)), None

    def save(self, path: str | os.PathLike[str], *, card: bool = False, replay: bool = True) -> None:
        """As for every agent. `replay=False` leaves the replay out: a loaded agent then continues with an empty one."""
        self._saves_replay = replay
        try:
            super().save(path, card=card)
        finally:
            self._saves_replay = True

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as an ONNX file: a batch `observation` as the world gives it → `action`, and `action_values` where
        actions are numbered (from 0). It runs without perstep and PyTorch, with onnxruntime for example."""
        if Path(path).suffix != ".onnx":
            raise ValueError(f"A network is exported to a file that ends in .onnx, got {os.fspath(path)!r}.")
        from perstep.deep.export import export

        with storage.published(Path(path)) as draft:
            export(self._network, self._answers, draft)

    def evaluate(
        self, num_steps: float | None = None, deterministic: bool = False, seed: int | None = None, **elsewhere: Never
    ) -> Evaluation:
        """As for every agent. A vector environment is used itself, and learning then continues from a fresh reset."""
        with self._acting():  # with the same threads as learning, so that the bits are always the same
            if self._vector_world is None or elsewhere:
                return super().evaluate(num_steps, deterministic, seed, **elsewhere)
            num_steps = whole("num_steps", num_steps, 1)
            generator = make_generator(self.config.seed if seed is None else seed, 2)
            rewards, returns = self._vector_world.follow(
                self._observations.keep, lambda points: self._choose(points, generator, deterministic), num_steps, seed
            )
            return self._beside_learning(Evaluation.of_all(rewards, returns), deterministic)

    def _acting(self) -> AbstractContextManager[None]:
        return self._network.learning()

    @cached_property
    def _spoken(self) -> tuple[Numbering, Numbering] | None:
        """States and actions by their names, in a `FiniteMDP` that was given itself."""
        if self.mdp is None:
            return None
        names = self._opened.names
        return Numbering.named(names.of_states), Numbering.named(names.of_actions)

    def _point_of(self, observation: Any) -> NDArray[Any]:
        """An observation, or a batch of them, as the replay keeps it."""
        seen = as_flat(self._composed, observation) if self._spoken is None else self._spoken[0].number(observation)
        return self._observations.keep(seen)

    def _point_of_one(self, observation: Any) -> NDArray[Any]:
        """A single observation as the replay keeps it."""
        point = self._point_of(observation)
        if point.shape != self._observations.shape:
            raise ValueError(
                f"One observation of shape {self._observations.shape} was expected, got {point.shape}. Ask for one at a time."
            )
        return point

    def _advance(self, num_steps: int) -> None:
        announce(take_in)
        world = self._vector_world or self._gymnasium_world()
        with self._network.learning():
            world.learn(self._hooks, self.steps, num_steps)

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, self._network.weights())

    def _read_spaces(self) -> tuple[Observations, Any, bool, int]:
        vector = self._vector_world
        world = vector or self._world
        env = None if world is None else world.env
        if env is None:
            assert self._opened.absent is not None
            spaces = self._opened.absent.spaces
            observations = Observations.from_json(spaces["observations"])
            actions = self._actions_from(spaces["actions"])
            return observations, actions, bool(spaces["stacked"]), int(spaces["num_envs"])
        action_space = env.single_action_space if vector else env.action_space
        observations, found = observations_of(single_space(env)), self._actions_of(action_space)
        wanted = self.config.stacked_frames
        stacked = stacks_frames(env) if wanted is None else wanted
        return observations, found, stacked, vector.num_envs if vector else 1

    def _spaces(self) -> dict[str, Any]:
        observations, actions = self._observations.to_json(), self._actions.to_json()
        replay = {"stacked": self._replay.stacked, "num_envs": self._replay.num_envs}
        return {"observations": observations, "actions": actions, **replay}

    def _check_point(self, point: Any, action: Any) -> None:
        if np.shape(point) != self._observations.shape:
            raise storage.BadFile(
                f"The file's observation should have shape {self._observations.shape}, but has {np.shape(point)}."
            )
        self._actions.one(action)

    def _arrays(self) -> storage.Arrays:
        arrays = {f"learner.{name}": array for name, array in self._network.arrays().items()}
        if self._saves_replay:
            arrays |= {f"replay.{name}": array for name, array in self._replay.arrays().items()}
        return arrays

    def _limits(self) -> dict[str, Limits]:
        names = ("learner.online.", "learner.target.", "learner.adam.exp_avg.", "learner.unit", "learner.inputs.")
        return dict.fromkeys(names, FINITE)

    def _take_over(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        self._network.restore(under("learner.", arrays))
        if kept := under("replay.", arrays):
            self._replay.restore(kept, self._actions.span)
        if (world := self._world) is not None and world.point is not None:
            world.point = self._observations.keep(world.point)
            if not kept:
                self._hooks.begin(0, world.point)

    @classmethod
    def _check_sizes(cls, config: Any, about: dict[str, Any], arrays: storage.Arrays) -> None:
        """The weights. What the network, its minibatches and its replay take is claimed when they are made."""
        if about.get("kind") == "mdp":
            states, actions = arrays["mdp.probability"].shape[:2]
            observations, num_envs = Observations((), "int32", "discrete", count=states), 1
        else:
            spaces = about["spaces"]
            observations = Observations.from_json(spaces["observations"])
            actions, num_envs = cls._actions_from(spaces["actions"]).count, count("num_envs", spaces["num_envs"], 1)
        if "replay.here" in arrays and len(arrays["replay.here"]) != num_envs:
            raise storage.BadFile(
                f"The file should hold replay.here for {num_envs} environments, but holds it for {len(arrays['replay.here'])}."
            )
        shapes = {} if learner_module() is None else cls._learner_class().shapes(config, observations, actions)
        for name, shape in shapes.items():
            has_shape(arrays, f"learner.online.{name}", *shape)

    @classmethod
    def _check_spaces(cls, world: Any, about: dict[str, Any]) -> None:
        if (space := getattr(world, "observation_space", None)) is None:  # an MDP, or no world
            return
        spaces = about["spaces"]
        described = Observations.from_json(spaces["observations"]), cls._actions_from(spaces["actions"])
        found = observations_of(space), cls._actions_of(world.action_space)
        if described != found:
            raise storage.BadFile(
                f"The file's world should have observations and actions like {described}, but has {found}."
            )

    @classmethod
    def _on_this_machine(cls, config: Any, own: bool) -> Any:
        """The settings, with the CPU where this machine lacks the saved device, and without a compiler unless the file is ours."""
        if getattr(config, "compile", False) and not own:
            warnings.warn(
                "The agent was saved with compile=True. Loading a file starts no compiler, so it continues without.",
                stacklevel=4,
            )
            config = dataclasses.replace(config, compile=False)
        if (learner := learner_module()) is None or learner.is_here(config.device):
            return config
        warnings.warn(
            f"The agent was saved with device={config.device!r}, which this machine lacks, so it continues with the CPU.",
            stacklevel=4,
        )
        return dataclasses.replace(config, device="cpu")


@contextlib.contextmanager
def needs_torch(name: str) -> Iterator[None]:
    """Say of a missing PyTorch how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"perstep.{name} needs PyTorch, which is not installed: pip install 'perstep[deep]'"
        ) from error


@final
class NetworkHooks(AgentHooks):
    """What the plain loops ask of an agent with a network; a point is an observation in the form that the replay keeps."""

    _agent: NetworkAgent

    def read(self, observation: Any) -> NDArray[Any]:
        """The observation, or a batch of them, as the replay keeps it."""
        return self._agent._observations.keep(observation)

    def act(self, point: NDArray[Any]) -> Any:
        """An action for the world where it starts."""
        self.begin(0, point)
        return self._agent._actions.point(self.act_at(point[None])[0])

    def learn_then_act(
        self,
        point: NDArray[Any],
        action: Any,
        reward: float,
        next_point: NDArray[Any],
        masked: bool,
        resume: NDArray[Any],
    ) -> Any:
        """Learn from one transition of a Gymnasium world, then act where it goes on."""
        self._learn(0, self._agent._actions.one(action), reward, next_point, masked, resume)
        return self._agent._actions.point(self.act_at(resume[None])[0])

    def begin(self, env: int, point: NDArray[Any]) -> None:
        """An environment is at its first point."""
        self._agent._replay.start(env, point)

    def note_end(self, episode_return: float) -> None:
        """An episode ends with the transition that is learnt next."""
        super().note_end(episode_return)
        if self._agent._vector_world is None:
            self._agent._forget_action(0)

    def learn_from(self, transition: Transition) -> None:
        """Learn from one transition of a vector environment."""
        env, action, reward, _, next_point, _, masked, resume = transition
        if transition.ends:
            self._agent._forget_action(env)
        self._learn(env, action, reward, next_point, masked, resume)

    def act_at(self, points: NDArray[Any]) -> NDArray[Any]:
        """Actions for a batch of points, as the agent behaves while it learns."""
        return self._agent._behave(points)

    def _learn(
        self, env: int, action: Any, reward: float, next_point: NDArray[Any], masked: bool, resume: NDArray[Any]
    ) -> None:
        """`Store (S, A, R, S′) in replay buffer`, and if it is time, update the estimates from a minibatch."""
        agent, config = self._agent, self._agent.config
        felt = reward
        if config.target_from_quantiles:
            take_in(config.kernel, agent._rewards, *agent._stream, reward, masked, agent.steps)
            felt = float(careful(config.risk_level, agent._rewards.theta, reward))
        agent._replay.add(env, action, felt, next_point, masked, resume)
        agent._network.see(next_point)
        agent._network.see_reward(reward, agent._replay.rewards)
        take_in(config.kernel, agent._objective, *agent._stream, felt, masked, agent.steps)
        agent._life.steps += 1
        try:
            due = agent.steps % config.update_every == 0 and agent._replay.added >= config.learning_starts
            if due and agent._network.follow_unit(agent._objective):
                for _ in range(agent._num_minibatches):
                    agent.last_loss = agent._network.update(agent._replay.sample(agent._generator), agent._objective)
        finally:  # the record is complete even if the minibatch cannot be learnt from
            take_down(config.kernel, agent._life.record, reward, agent._rewards)


@compiled
def take_down(rule: int, record: Record, reward: float, rewards: RewardEstimate) -> None:
    """Note one step in the record."""
    note(rule, record, reward, rewards)


def stacks_frames(env: Any) -> bool:
    """Whether the observations of a world are its last frames, the newest at the end, as the world or a wrapper says, and no outer
    wrapper has changed them."""
    layer, seen = env, single_space(env)
    while layer is not None:
        if type(layer).__name__ in STACKING or getattr(layer, "stacks_frames", False) is True:
            return bool(single_space(layer) == seen)
        inner = getattr(layer, "envs", None)
        layer = inner[0] if inner else vars(layer).get("env")
    return False


def single_space(env: Any) -> Any:
    """The observation space of one environment, also of a vector."""
    return getattr(env, "single_observation_space", env.observation_space)


def learner_module() -> Any:
    """deep/learner.py, which needs PyTorch; None where that is missing, which the agent itself reports."""
    try:
        from perstep.deep import learner
    except ModuleNotFoundError:
        return None
    return learner


def _vector_name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return f"a vector environment of {spec.id if spec is not None else type(env).__name__}"
