"""Agents from a name in the lattice, and agents from a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from perstep import storage
from perstep.agents.actor_critic import ActorCritic
from perstep.agents.agent import FORMAT, Agent
from perstep.agents.tables import QLearning, TDLearning
from perstep.agents.worlds import reopen
from perstep.algorithms import algorithm
from perstep.errors import unknown

if TYPE_CHECKING:
    from perstep.agents.worlds import World

AGENTS: dict[str, type[Agent]] = {agent.__name__: agent for agent in (TDLearning, QLearning, ActorCritic)}


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
    if kind not in AGENTS:
        raise storage.BadFile(f"{path}: {unknown('agent', kind, AGENTS)}")
    try:
        world = reopen(metadata["world"], arrays) if env is None else env
        given = (arrays["policy"],) if kind == "TDLearning" else ()
        agent = AGENTS[kind](world, *given, **AGENTS[kind].Config.from_json(metadata["config"]).settings())
        agent._restore(arrays, metadata)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise storage.BadFile(
            f"{path} lacks something that an agent needs, or has it in another shape: {error}."
        ) from error
    return agent
