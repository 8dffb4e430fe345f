"""What an agent should learn, computed by linear algebra if its world is a known finite MDP."""

from __future__ import annotations

from typing import Any

import numpy as np

from perstep.agent.earned import rows
from perstep.mdp.evaluation import NotUnichain
from perstep.mdp.solving import NotCommunicating
from perstep.numerics.quantiles import levels
from perstep.numerics.schedules import Decay
from perstep.rules.lattice import LEARNERS

MAX_STATES = 5000  # with more states, exact answers may take longer than the run


def exact_answers(agent: Any) -> dict[str, Any]:
    """Exact average reward and quantiles of the policy that the agent should learn or predict; or the reason why they are unknown.

    For prediction, this is the given policy. For control, it is the optimal policy with the agent's own exploration. The policy of
    Q-learning at one step may be far from it, where the order of two action values keeps changing.
    """
    learner = next(row for row in LEARNERS.values() if row.agent == type(agent).__name__)
    mdp = agent._opened.mdp
    if mdp is None or learner.values not in ("table", "model"):
        return {}
    if mdp.num_states > MAX_STATES:
        return {"unknown": f"it is computed for at most {MAX_STATES:,} states, and this world has {mdp.num_states:,}."}
    try:
        if not learner.control:
            exact, what = mdp.evaluate(agent.policy()), "of the given policy"
        else:
            epsilon = getattr(agent.config, "epsilon", 0.0)
            epsilon = 0.0 if isinstance(epsilon, Decay) else epsilon  # which a Decay falls to
            level = agent.config.risk_level
            best = mdp.solve() if level == 1.0 else mdp.solve(risk_level=level)
            exact = mdp.evaluate(best.policy, epsilon=epsilon)
            what = "of the best policy" if level == 1.0 else f"of the policy with the best CVaR({level:g})"
            what += f", followed with ε = {epsilon:g}" if epsilon else ""
        quantiles = exact.reward_distribution.quantile(levels(agent.reward_quantiles.size))
        answers = {"what": what, "average_reward": exact.average_reward, "quantiles": np.asarray(quantiles).tolist()}
        answers["rows"] = {row.name: row.value for row in rows(exact.reward_distribution)[1:]}
        if learner.control and level == 1.0:
            answers["optimal_average_reward"] = best.average_reward
    except (NotUnichain, NotCommunicating, ArithmeticError) as error:
        return {"unknown": str(error)}
    return answers
