"""What an agent should have learnt, by algebra, where its world is finite and known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perstep.agents.agent import Agent
from perstep.agents.making import load
from perstep.agents.tables import QLearning, TDLearning
from perstep.environments.exact import NotCommunicating, NotUnichain
from perstep.quantiles import levels

Floats = NDArray[np.float64]

UP_TO = 5000  # states: beyond, exact answers may take longer than the run
LOOKS = 50  # at the policy while a copy of the agent goes on


def exact_answers(agent: Agent, saved: Path, *, optimum: bool) -> dict[str, Any]:
    """Average reward and quantiles of the policy that the agent follows, and the best average reward; or else why not.

    `saved`: the agent's file.
    """
    mdp = getattr(agent, "mdp", None)
    if mdp is None:
        return {}
    if mdp.num_states > UP_TO:
        return {"unknown": f"it is computed up to {UP_TO:,} states, and this world has {mdp.num_states:,}."}
    answers: dict[str, Any] = {}
    try:
        truth = mdp.evaluate(followed_policy(agent, saved))
        quantiles = truth.reward_distribution.quantile(np.asarray(levels(agent.reward_quantiles.size)))
        answers |= {"average_reward": truth.average_reward, "quantiles": [float(x) for x in quantiles]}
        if optimum:
            answers["optimal_average_reward"] = mdp.solve().average_reward
    except (NotUnichain, NotCommunicating) as error:
        answers["unknown"] = str(error)
    return answers


def followed_policy(agent: Any, saved: Path) -> Floats:
    """Probabilities of the actions in every state, (S, A), as the agent behaves while it goes on learning.

    Q-learning often switches between two actions whose values keep overtaking each other, so its policy at any one moment
    may be far from what it does. In such states the frequencies over a further tenth of the run stand for the policy: they
    have the agent's own share of steps in every state. A copy goes on, so that the agent and its file stay as they are.
    """
    if isinstance(agent, TDLearning):
        return agent.policy()
    if not isinstance(agent, QLearning):
        return np.stack([agent.policy(state) for state in range(agent.mdp.num_states)])
    policy, twin = agent.policy(), load(saved)
    assert isinstance(twin, QLearning)
    further = min(max(agent.steps // 10, 10 * LOOKS), 1_000_000)
    steady = np.ones(agent.num_states, np.bool_)
    for _ in range(LOOKS):
        twin.learn(further // LOOKS, progress=False)
        steady &= (twin.policy() == policy).all(axis=1)
    taken = (twin.visits - agent.visits).astype(np.float64)  # (S, A)
    total = taken.sum(axis=1, keepdims=True)
    switching = ~steady[:, None] & (total > 0)
    return np.where(switching, taken / np.maximum(total, 1.0), policy)
