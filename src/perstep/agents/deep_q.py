"""The agent with a network: DeepQ, for images, vectors and everything else that a table cannot hold (Alg. 6, 10, 13)."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from perstep import interaction, storage, tabular
from perstep.agents.agent import Agent, Evaluation, Floats, Snapshot
from perstep.agents.vector_world import Transition, VectorWorld, is_vector
from perstep.agents.worlds import Absent, say_of_reset
from perstep.compiled import announce, compiled
from perstep.config import DeepQConfig, count
from perstep.deep.observations import Observations, observations_of
from perstep.deep.replay import Replay
from perstep.distribution import Distribution
from perstep.environments.gym_env import FiniteMDPEnv
from perstep.environments.spaces import Numbering, numbering
from perstep.environments.world_state import restore, snapshot
from perstep.interaction import GymnasiumWorld
from perstep.randomness import Generator, make_generator, uniform
from perstep.recording import note

if TYPE_CHECKING:
    from perstep.agents.worlds import World
    from perstep.deep.deep_q import DeepQLearner

STACKING = ("FrameStackObservation", "AtariVectorEnv")  # whose observations are the last frames, the newest at the end


@final
class DeepQ(Agent):
    """Control with a network and a replay: the best average reward, its distribution and the values of all actions, ε-greedily.

    `env` may also be a Gymnasium vector environment, in any autoreset mode; learning then ends with a whole step of it.
    """

    Config = DeepQConfig
    config: DeepQConfig

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        config = DeepQConfig.of(settings)
        learner = _learner_class()
        self._crowd = VectorWorld(env, config.reset_cost, config.seed) if is_vector(env) else None
        super().__init__(Absent(_vector_name(env), {}) if self._crowd else env, config)
        if self.mdp is not None:
            self._world = GymnasiumWorld(FiniteMDPEnv(self.mdp), config.termination, config.reset_cost, config.seed)
        self._observations, self._actions, stacked, num_envs = self._read_spaces()
        self._learner = learner(self._observations, self._actions.count, config)
        self._replay = Replay(
            config.replay_capacity,
            self._observations.shape,
            self._observations.dtype,
            stacked=stacked,
            num_envs=num_envs,
            batch_size=config.batch_size,
        )
        self._saves_replay = True
        self.last_loss: float | None = None
        """Of the last minibatch."""

    @property
    def updates(self) -> int:
        """Minibatches learnt from so far."""
        return self._learner.updates

    @property
    def epsilon(self) -> float:
        """ε at this step."""
        return self.config.epsilon_at(self.steps)

    def action_values(self, observation: Any) -> Floats:
        """Q(s, ·), (A,); for d3 the means of the quantiles."""
        return np.asarray(self._one(observation).mean(axis=1))

    def return_quantiles(self, observation: Any, action: Any) -> Floats:
        """Ω(s, a), the quantiles of the differential return, (n,); rule d3 only."""
        return self._return_quantiles(self._one(observation)[self._actions.one(action)])

    def policy(self, observation: Any, deterministic: bool = False) -> Floats:
        """Probabilities of the actions at an observation, (A,): greedy (ties to the first), or ε-greedy as it behaves now."""
        means = self.action_values(observation)
        if deterministic:
            return np.asarray(np.eye(len(means))[means.argmax()])
        best = means == means.max()
        return np.asarray((1 - self.epsilon) * best / best.sum() + self.epsilon / len(means))

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""
        points = self.read(observation)
        single = points.shape == self._observations.shape
        chosen = self._choose(points[None] if single else points, self._prediction_generator, deterministic)
        actions = [self._actions.point(int(action)) for action in chosen]
        return (actions[0] if single else np.array(actions)), None

    def save(self, path: str | os.PathLike[str], *, replay: bool = True) -> None:
        """As of every agent. `replay=False` leaves the replay out: a small file, from which learning goes on with an empty one."""
        self._saves_replay = replay
        try:
            super().save(path)
        finally:
            self._saves_replay = True

    def evaluate(self, num_steps: int, deterministic: bool = False, seed: int | None = None) -> Evaluation:
        """As of every agent; a vector environment is used itself, and learning goes on from a fresh reset."""
        with (
            self._learner.learning()
        ):  # with the threads of learning, so that the bits are the same whatever others set
            if self._crowd is None:
                return super().evaluate(num_steps, deterministic, seed)
            count("num_steps", num_steps, 1)
            generator = make_generator(self.config.seed if seed is None else seed, 2)
            rewards, returns = self._crowd.follow(
                self.read, lambda points: self._choose(points, generator, deterministic), num_steps, seed
            )
        return Evaluation(float(rewards.mean()), Distribution.from_samples(rewards), returns, num_steps)

    # ------------------------------------------------------------------------------------------- what the loops ask of it

    def read(self, observation: Any) -> NDArray[Any]:
        """The observation, or a batch of them, as the replay keeps it."""
        return self._observations.keep(observation)

    def act(self, point: NDArray[Any]) -> Any:
        """An action for the world where it starts."""
        self.begin(0, point)
        return self._actions.point(int(self.act_at(point[None])[0]))

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
        self.learn_from(Transition(0, self._actions.one(action), reward, next_point, masked, resume))
        return self._actions.point(int(self.act_at(resume[None])[0]))

    def begin(self, env: int, point: NDArray[Any]) -> None:
        """An environment is at its first point."""
        self._replay.start(env, point)

    def learn_from(self, transition: Transition) -> None:
        """`Store (S, A, R, S′) in replay buffer`, and if it is time, update the estimates from a minibatch."""
        env, action, reward, next_point, terminated, resume = transition
        masked = terminated and self.config.termination == "mask"
        self._replay.add(env, action, reward, next_point, masked, resume)
        self.steps += 1
        try:
            if self.steps % self.config.update_every == 0 and self._replay.added >= self.config.learning_starts:
                self.last_loss = self._learner.update(self._replay.sample(self._generator), self._rewards)
        finally:  # a batch that cannot be learnt from changes nothing in what was earned
            take_down(self._record, reward, self._rewards)

    def act_at(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """Actions for a batch of points, as it behaves while it learns."""
        return self._choose(points, self._generator, deterministic=False)

    def _choose(self, points: NDArray[Any], generator: Generator, deterministic: bool) -> NDArray[np.int64]:
        """ε-greedy actions, ties broken uniformly; the network is asked only where the action is not to be any."""
        epsilon, actions = 0.0 if deterministic else self.epsilon, self._actions.count
        chosen, asked = np.zeros(len(points), np.int64), []
        for b in range(len(points)):
            draw = 1.0 if deterministic else float(uniform(generator))
            if draw < epsilon:
                chosen[b] = min(int(draw / epsilon * actions), actions - 1)  # given draw < ε, draw/ε is uniform again
            else:
                asked.append(b)
        if asked:
            means = self._learner.means(points if len(asked) == len(points) else points[asked])  # (asked, A)
            for b, row in zip(asked, means, strict=True):
                chosen[b] = row.argmax() if deterministic else tabular.epsilon_greedy(row, 0.0, generator)
        return chosen

    def _one(self, observation: Any) -> Floats:
        point = self.read(observation)
        if point.shape != self._observations.shape:
            raise ValueError(
                f"One observation of shape {self._observations.shape} is wanted here, but {point.shape} came. Ask one at a time."
            )
        return np.asarray(self._learner.values(point[None])[0])  # (A, n)

    # --------------------------------------------------------------------------------------------- what every agent must say

    def _advance(self, num_steps: int) -> None:
        announce(take_down)
        with self._learner.learning():
            if self._crowd is not None:
                self._crowd.learn(self, self.steps, num_steps)
            else:
                self._gymnasium_world().learn(self, self.steps, num_steps)

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> float | None:
        if self.mdp is None:
            return None
        announce(interaction.follow_in_mdp)
        policy = np.array([self.policy(state, deterministic) for state in range(self.mdp.num_states)])  # (S, A)
        return float(interaction.follow_in_mdp(self.mdp.world, policy, generator, picker, num_steps, kept))

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        def choose(observation: Any) -> Any:
            return self._actions.point(int(self._choose(self.read(observation)[None], generator, deterministic)[0]))

        return choose

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, self._learner.weights())

    def _read_spaces(self) -> tuple[Observations, Numbering, bool, int]:
        env = self._crowd.env if self._crowd else self._opened.env if self.mdp is None else self._gymnasium_world().env
        if env is None:
            assert self._opened.absent is not None
            spaces = self._opened.absent.spaces
            observations = Observations.from_json(spaces["observations"])
            return (
                observations,
                Numbering.from_json(spaces["actions"]),
                bool(spaces["stacked"]),
                int(spaces["num_envs"]),
            )
        action_space = env.single_action_space if self._crowd else env.action_space
        observations, actions = observations_of(single_space(env)), numbering(action_space)
        if actions is None or actions.kind != "Discrete":
            raise TypeError(f"DeepQ needs a Discrete action space, but this world has {action_space}.")
        wanted = self.config.stacked_frames
        stacked = stacks_frames(env) if wanted is None else wanted
        return observations, actions, stacked, self._crowd.num_envs if self._crowd else 1

    def _spaces(self) -> dict[str, Any]:
        observations, actions = self._observations.to_json(), self._actions.to_json()
        replay = {"stacked": self._replay.stacked, "num_envs": self._replay.num_envs}
        return {"observations": observations, "actions": actions, **replay}

    def _check_point(self, point: Any, action: Any) -> None:
        if np.shape(point) != self._observations.shape:
            raise storage.BadFile(
                f"The file's observation should be {self._observations.shape}, but is {np.shape(point)}."
            )
        self._actions.one(operator.index(action))

    def _arrays(self) -> storage.Arrays:
        arrays = {f"learner.{name}": array for name, array in self._learner.arrays().items()}
        if self._saves_replay:
            arrays |= {f"replay.{name}": array for name, array in self._replay.arrays().items()}
        if self.mdp is not None and (world := self._gymnasium_world()).point is not None:
            where = {"state": snapshot(world.env), "point": int(world.point), "action": world.action}
            arrays["where"] = np.frombuffer(json.dumps(where).encode(), np.uint8)
        return arrays

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        super()._restore(arrays, metadata)
        self._learner.restore(_under("learner.", arrays))
        if kept := _under("replay.", arrays):
            self._replay.restore(kept, self._actions.count)
        if self._crowd is not None:
            say_of_reset(metadata["world"], stacklevel=4)
        if (world := self._world) is None:
            return
        if "where" in arrays:
            where = json.loads(arrays["where"].tobytes())
            self._check_point(where["point"], where["action"])
            world.reset()
            restore(world.env, where["state"])
            world.point, world.action = where["point"], where["action"]
        if world.point is not None:
            world.point = self.read(world.point)
            if not kept:
                self.begin(0, world.point)


@compiled
def take_down(record: Any, reward: Any, rewards: Any) -> None:
    """Note one step in the record."""
    note(record, reward, rewards)


def stacks_frames(env: Any) -> bool:
    """Whether a world, or a wrapper around it, says that its observations are the last frames, the newest at the end, and nobody
    further out has made something else of them."""
    layer, seen = env, single_space(env)
    while layer is not None:
        if type(layer).__name__ in STACKING or getattr(layer, "stacks_frames", False) is True:
            return bool(single_space(layer) == seen)
        inner = getattr(layer, "envs", None)
        layer = inner[0] if inner else vars(layer).get("env")
    return False


def single_space(env: Any) -> Any:
    """Of the observations of one environment, also if there are several."""
    return getattr(env, "single_observation_space", env.observation_space)


def _under(prefix: str, arrays: storage.Arrays) -> storage.Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _vector_name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return f"a vector environment of {spec.id if spec is not None else type(env).__name__}"


def _learner_class() -> type[DeepQLearner]:
    """Not before it is needed: without PyTorch all the rest of perstep works."""
    try:
        from perstep.deep.deep_q import DeepQLearner
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("perstep.DeepQ needs PyTorch, which is not here: pip install 'perstep[deep]'") from error
    return DeepQLearner
