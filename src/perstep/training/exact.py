"""What an agent should have learnt, by algebra, where its world is finite and known."""

from __future__ import annotations

from typing import Any

import numpy as np

from perstep.agents.agent import Agent
from perstep.agents.tables import QLearning, TDLearning
from perstep.environments.exact import NotCommunicating, NotUnichain
from perstep.quantiles import levels

UP_TO = 5000  # states: beyond, exact answers may take longer than the run


def exact_answers(agent: Agent) -> dict[str, Any]:
    """Average reward and quantiles of what the agent should come to do; or else why they are not known.

    For prediction that is the given policy. For control it is the best policy, with the agent's own exploration: what
    Q-learning does at any one moment may be far from both, where two actions keep overtaking each other.
    """
    mdp = agent.mdp
    if mdp is None or not isinstance(agent, TDLearning | QLearning):
        return {}
    if mdp.num_states > UP_TO:
        return {"unknown": f"it is computed up to {UP_TO:,} states, and this world has {mdp.num_states:,}."}
    try:
        if isinstance(agent, TDLearning):
            truth, what = mdp.evaluate(agent.policy()), "of the given policy"
        else:
            epsilon = agent.config.epsilon
            truth = mdp.evaluate(mdp.solve().policy, epsilon=epsilon)
            what = f"of the best policy, followed with ε = {epsilon:g}"
        quantiles = truth.reward_distribution.quantile(levels(agent.reward_quantiles.size))
        answers = {"what": what, "average_reward": truth.average_reward, "quantiles": np.asarray(quantiles).tolist()}
        if isinstance(agent, QLearning):
            answers["optimal_average_reward"] = mdp.solve().average_reward
    except (NotUnichain, NotCommunicating, ArithmeticError) as error:
        return {"unknown": str(error)}
    return answers
