"""What an agent maximises, and what the end of an episode is to it, in one sentence."""

from __future__ import annotations

from typing import Any


def objective_sentence(agent: Any) -> str:
    """The objective that is in force; empty where no episode ever ends, so that there is nothing to choose."""
    if agent._never_ends:
        return ""
    config = agent.config
    discount = getattr(config, "discount", 1.0)
    if config.risk_level < 1.0:
        what = f"the mean of the worst {100 * config.risk_level:g} % of the rewards per step"
    else:
        what = "the reward per step" if getattr(config, "centered", True) else "the return per episode"
    seen = "" if discount == 1.0 else f" with a discount of {discount:g}"
    return f"Objective: {what}{seen}; {_an_end(agent)}."


def _an_end(agent: Any) -> str:
    if agent.config.termination != "continue":
        return "no rewards follow an end"
    cost = f", at a cost of {agent.reset_cost:g}" if agent.reset_cost else ""
    return f"an end is a step to the next start like any other{cost}"
