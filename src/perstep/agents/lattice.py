"""The agent class of every learner, and agents by the name of an algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perstep.agents.agent import Agent
from perstep.agents.deep_q import DeepQ
from perstep.agents.tables import QLearning, TDLearning
from perstep.agents.tiles import ActorCritic, TileQ
from perstep.algorithms import algorithm
from perstep.planning.agent import Planner

if TYPE_CHECKING:
    from perstep.agents.worlds import World

AGENTS: dict[str, type[Agent]] = {
    agent.__name__: agent for agent in (TDLearning, QLearning, ActorCritic, TileQ, DeepQ, Planner)
}


def make_agent(name: str, env: World, *given: Any, **settings: Any) -> Agent:
    """The agent that runs an algorithm of perstep.ALGORITHMS, as `make_agent("d2-q", env, step_size=0.01)`.

    `given`: the policy, for the prediction algorithms.
    """
    cell = algorithm(name)
    for setting, value in {**cell.learner.settings, "rule": cell.rule}.items():
        if settings.get(setting, value) != value:
            raise ValueError(
                f"{name} has {setting}={value!r}, got {settings[setting]!r}. Choose another algorithm (perstep.ALGORITHMS)."
            )
    if not cell.learner.control and not given:
        raise TypeError(f"{name} predicts the values of a policy: make_agent({name!r}, env, policy, …).")
    return AGENTS[cell.learner.agent](env, *given, **{**cell.settings, "rule": cell.rule, **settings})
