"""A run that cannot go on because its numbers, or those of its world, are none: what was wrong, and where the agent is saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perstep.agents.agent import Agent, Diverged
from perstep.agents.deep_q import DeepQ
from perstep.interaction.behaviour import BadReward


def in_words(
    error: ArithmeticError | ValueError, agent: Agent, path: Path, save: Callable[[], None]
) -> ArithmeticError | ValueError:
    """The error to raise instead. An agent that refused to learn from a bad batch or step is as it was before, and is saved."""
    if isinstance(error, ValueError):  # of the world's rewards and observations, before they are learnt from
        if not agent.steps or not is_sound(agent):
            return error
        save()
        kind = BadReward if isinstance(error, BadReward) else ValueError
        return kind(f"Stopped at step {agent.steps:,}. {error} The checkpoint is {path}")
    if isinstance(agent, DeepQ) and is_bad_loss(error):
        save()
        return type(error)(f"Stopped at step {agent.steps:,}. {error} The checkpoint is {path}")
    if isinstance(error, Diverged) and path.exists():
        return Diverged(f"{error} The last checkpoint before that is {path}")
    return error


def is_sound(agent: Agent) -> bool:
    """Whether an agent may replace its last checkpoint: it is looked at between stretches of learning only."""
    try:
        agent._check_finite()
    except Diverged:
        return False
    return True


def is_bad_loss(error: ArithmeticError) -> bool:
    """Whether a deep learner met a loss that is not a number."""
    from perstep.deep.learner import BadLoss  # PyTorch is here, since a deep agent is

    return isinstance(error, BadLoss)
