"""Agents by the name of an algorithm, and the choice of one for a world."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box

from perstep.agent.agent import Agent
from perstep.gym.opening import open_world
from perstep.gym.spaces import numbering
from perstep.rules.lattice import algorithm

if TYPE_CHECKING:
    from perstep.gym.opening import World

AUTO = "auto"
MOST_PAIRS = 1_000_000  # of states and actions, up to which a world is counted
MOST_DIMENSIONS = 8  # of a box that tiles cover


def choose(env: World) -> tuple[str, str]:
    """The algorithm for a world by its spaces, and the reason in a sentence."""
    opened = open_world(env)
    if opened.mdp is not None:
        return "planner", (
            f"the world is a finite MDP with {opened.mdp.num_states:,} states; counting and planning earns most there."
        )
    observations, actions = opened.env.observation_space, opened.env.action_space
    if isinstance(actions, Box):
        return "d2-sac", f"actions are vectors in {actions}."
    moves = numbering(actions)
    if moves is None:
        raise TypeError(
            f"There is no learner for actions in {actions}. Make them a box, or a few of them the actions of the world, as "
            "numbers: gymnasium.wrappers.TransformAction."
        )
    states = numbering(observations)
    if states is not None and states.count * moves.count <= MOST_PAIRS:
        return "planner", (
            f"the world has {states.count:,} states and {moves.count:,} actions; counting and planning earns most there."
        )
    shape = getattr(observations, "shape", None)
    bounded = np.isfinite([getattr(observations, "low", np.inf), getattr(observations, "high", np.inf)]).all()
    if shape is not None and len(shape) == 1 and shape[0] <= MOST_DIMENSIONS and bounded:
        return "d2-actor-critic", f"observations are {shape[0]} bounded numbers, which tiles cover (as TileQ does)."
    return "d2-deep-q", f"observations are in {observations}, which needs a network."


def make_agent(name: str, env: World, *given: Any, **settings: Any) -> Agent:
    """The agent that runs an algorithm of perstep.ALGORITHMS, as `make_agent("d2-q", env, step_size=0.01)`.

    `given`: the policy, for the prediction algorithms. The name "auto" chooses by the spaces of the world, and says why.
    """
    if name == AUTO:
        name, reason = choose(env)
        print(f"perstep: {name}: {reason}", file=sys.stderr)
    cell = algorithm(name)
    rule = {"rule": cell.rule} if cell.rule else {}
    for setting, value in {**cell.learner.settings, **rule}.items():
        if settings.get(setting, value) != value:
            raise ValueError(
                f"{name} has {setting}={value!r}, got {settings[setting]!r}. Choose another algorithm (perstep.ALGORITHMS)."
            )
    if not cell.learner.control and not given:
        raise TypeError(f"{name} predicts the values of a policy: make_agent({name!r}, env, policy, …).")
    agent: Agent = cell.learner.agent_class(env, *given, **{**cell.settings, **rule, **settings})
    return agent
