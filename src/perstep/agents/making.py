"""Agents from a name in the lattice, and agents from a file."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from perstep import storage
from perstep.agents.actor_critic import ActorCritic, tile_coder
from perstep.agents.agent import FORMAT, Agent
from perstep.agents.deep_q import DeepQ
from perstep.agents.tables import QLearning, TDLearning
from perstep.agents.worlds import reopen, start_anew
from perstep.algorithms import algorithm
from perstep.config import ActorCriticConfig, DeepQConfig, LearnerConfig, QLearningConfig, TDLearningConfig, count
from perstep.deep.observations import Observations, observations_of
from perstep.environments.spaces import Numbering, numbering
from perstep.errors import unknown
from perstep.system.memory import available_memory

if TYPE_CHECKING:
    from perstep.agents.worlds import World

UNFIT = "lacks something that an agent needs, or has it in another shape"
AGENTS: dict[str, type[Agent]] = {agent.__name__: agent for agent in (TDLearning, QLearning, ActorCritic, DeepQ)}


def make_agent(name: str, env: World, *given: Any, **settings: Any) -> Agent:
    """The agent that runs an algorithm of perstep.ALGORITHMS, as `make_agent("d2-q", env, step_size=0.01)`.

    `given`: the policy, for the prediction algorithms.
    """
    cell = algorithm(name)
    return AGENTS[cell.learner](env, *given, rule=cell.rule, **settings)  # type: ignore[call-arg]


def load(path: str | os.PathLike[str], env: World | None = None) -> Agent:
    """The agent that was saved in a file, ready to go on where it was.

    `env`: its world, where the file alone cannot give it. No code in the file is ever run.
    """
    arrays, metadata = storage.read(path)
    if metadata.get("format") != FORMAT:
        raise storage.BadFile(f"{path} has format {metadata.get('format')!r}, but this perstep reads format {FORMAT}.")
    kind = metadata.get("agent")
    if not isinstance(kind, str) or kind not in AGENTS:
        raise storage.BadFile(f"{path}: {unknown('agent', kind, AGENTS)}")
    with _blaming(path):
        config, about = AGENTS[kind].Config.from_json(metadata["config"]), metadata["world"]
        _check_sizes(config, about, arrays)
        world = reopen(about, arrays) if env is None else env
        if env is None and isinstance(config, DeepQConfig):
            _has_spaces(world, about)
        given = (arrays["policy"],) if kind == "TDLearning" else ()
        here = _on_this_machine(config)
    with _blaming(path) if env is None else contextlib.nullcontext():
        agent = AGENTS[kind](world, *given, **here.settings())
    agent.config = config  # with the device that was asked for, where there is one again
    with _blaming(path, UNFIT if env is None else "does not fit the world that was given"):
        agent._restore(arrays, metadata)
        start_anew((agent._world, getattr(agent, "_crowd", None)), about, agent.steps)
    return agent


@contextlib.contextmanager
def _blaming(path: str | os.PathLike[str], fault: str = UNFIT) -> Iterator[None]:
    """Whatever goes wrong here is the file's fault, or that of a world that is not the file's."""
    try:
        yield
    except storage.BadFile:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise storage.BadFile(f"{path} {fault}: {str(error).rstrip('.')}.") from error


def _check_sizes(config: LearnerConfig, about: dict[str, Any], arrays: storage.Arrays) -> None:
    """Refuse a file that claims to be larger than it is, before memory is taken for it."""
    _has_shape(arrays, "rewards.theta", config.theta_size)
    if isinstance(config, DeepQConfig):
        _check_network(config, about, arrays)
    elif isinstance(config, ActorCriticConfig):
        _has_shape(arrays, "weights.active", config.tilings)
        spaces = about["spaces"]
        features = tile_coder(config, spaces["low"], spaces["high"]).num_features
        _has_shape(arrays, "weights.critic", features, config.value_size)
        _has_shape(arrays, "weights.actor", features, Numbering.from_json(spaces["actions"]).count)
    elif isinstance(config, TDLearningConfig | QLearningConfig) and about.get("kind") == "mdp":
        _has_shape(arrays, "table.values", *arrays["table.means"].shape, config.value_size)
    elif isinstance(config, TDLearningConfig | QLearningConfig):
        states, actions = (Numbering.from_json(about["spaces"][name]).count for name in ("states", "actions"))
        prediction = isinstance(config, TDLearningConfig)
        _has_shape(arrays, "table.values", states, 1 if prediction else actions, config.value_size)
        if prediction:
            _has_shape(arrays, "policy", states, actions)


def _check_network(config: DeepQConfig, about: dict[str, Any], arrays: storage.Arrays) -> None:
    """As _check_sizes: the weights, and what a minibatch takes. A replay asks by itself how much memory there is."""
    if about.get("kind") == "mdp":
        states, actions = arrays["mdp.probability"].shape[:2]
        observations, num_envs = Observations((), "int32", "discrete", count=states), 1
    else:
        spaces = about["spaces"]
        observations = Observations.from_json(spaces["observations"])
        actions, num_envs = Numbering.from_json(spaces["actions"]).count, count("num_envs", spaces["num_envs"], 1)
    if "replay.here" in arrays and len(arrays["replay.here"]) != num_envs:
        raise storage.BadFile(
            f"The file should hold replay.here for {num_envs} environments, but {len(arrays['replay.here'])} are there."
        )
    shapes = {} if (learner := _learner()) is None else learner.shapes(config, observations, actions)
    for name, shape in shapes.items():
        _has_shape(arrays, f"learner.online.{name}", *shape)
    width = max(math.prod(observations.shape) * np.dtype(observations.dtype).itemsize, 4 * observations.count)
    needed, free = 2 * config.batch_size * (width + 32), available_memory()
    if free is not None and needed > free:
        raise storage.BadFile(
            f"The file's batch_size of {config.batch_size:,} needs {needed / 1e9:.2f} GB of memory, "
            f"but {free / 1e9:.2f} GB are available. Load it on a larger machine."
        )


def _has_spaces(world: Any, about: dict[str, Any]) -> None:
    """Refuse a world made from a file that is larger than what the file says of it, and was checked."""
    if (space := getattr(world, "observation_space", None)) is None:  # an MDP, or no world
        return
    spaces = about["spaces"]
    told = Observations.from_json(spaces["observations"]), Numbering.from_json(spaces["actions"])
    found = observations_of(space), numbering(world.action_space)
    if told != found:
        raise storage.BadFile(f"The file's world should have observations and actions like {told}, but has {found}.")


def _on_this_machine(config: LearnerConfig) -> LearnerConfig:
    """The settings, on the processor where the saved device is not here."""
    if not isinstance(config, DeepQConfig) or (learner := _learner()) is None or learner.is_here(config.device):
        return config
    warnings.warn(
        f"The agent was saved with device={config.device!r}, which is not here, so it goes on with the CPU.",
        stacklevel=3,
    )
    return dataclasses.replace(config, device="cpu")


def _learner() -> Any:
    """The module that needs PyTorch; None where that is missing, of which the agent itself tells."""
    try:
        from perstep.deep import deep_q
    except ModuleNotFoundError:
        return None
    return deep_q


def _has_shape(arrays: storage.Arrays, name: str, *shape: int) -> None:
    if name not in arrays or arrays[name].shape != shape:
        came = f"{arrays[name].shape}" if name in arrays else "nothing"
        raise storage.BadFile(f"The file should hold {name} of shape {shape}, but {came} is there.")
