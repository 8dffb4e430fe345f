"""Agents from a name in the lattice, and agents from a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perstep import storage
from perstep.agents.actor_critic import ActorCritic, tile_coder
from perstep.agents.agent import FORMAT, Agent
from perstep.agents.deep_q import DeepQ
from perstep.agents.tables import QLearning, TDLearning
from perstep.agents.worlds import reopen
from perstep.algorithms import algorithm
from perstep.config import ActorCriticConfig, DeepQConfig, LearnerConfig, QLearningConfig, TDLearningConfig
from perstep.environments.spaces import Numbering
from perstep.errors import unknown

if TYPE_CHECKING:
    from perstep.agents.worlds import World

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
        given = (arrays["policy"],) if kind == "TDLearning" else ()
    with _blaming(path) if env is None else contextlib.nullcontext():
        agent = AGENTS[kind](world, *given, **config.settings())
    with _blaming(path):
        agent._restore(arrays, metadata)
    return agent


@contextlib.contextmanager
def _blaming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong here is the file's fault."""
    try:
        yield
    except storage.BadFile:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise storage.BadFile(
            f"{path} lacks something that an agent needs, or has it in another shape: {error}."
        ) from error


def _check_sizes(config: LearnerConfig, about: dict[str, Any], arrays: storage.Arrays) -> None:
    """Refuse a file that claims to be larger than it is, before memory is taken for it."""
    _has_shape(arrays, "rewards.theta", config.theta_size)
    if isinstance(config, DeepQConfig):
        return  # a network compares shapes as it fills, and a replay asks how much memory there is
    if isinstance(config, ActorCriticConfig):
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


def _has_shape(arrays: storage.Arrays, name: str, *shape: int) -> None:
    if name not in arrays or arrays[name].shape != shape:
        came = f"{arrays[name].shape}" if name in arrays else "nothing"
        raise storage.BadFile(f"The file should hold {name} of shape {shape}, but {came} is there.")
