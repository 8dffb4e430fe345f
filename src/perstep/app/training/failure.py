"""A run that cannot continue, because an estimate, a loss, a reward or an observation is NaN or infinite: what was wrong, and
where the last checkpoint is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perstep.agent.agent import Agent, Diverged
from perstep.deep.network_agent import NetworkAgent
from perstep.gym.behaviour import BadReward


def explained_failure(
    error: ArithmeticError | ValueError, agent: Agent, path: Path, save: Callable[[], None]
) -> ArithmeticError | ValueError:
    """The error to raise instead, with the path of the checkpoint.

    An agent that refused a bad batch or a bad step is unchanged by it, and is saved first.
    """
    if isinstance(error, ValueError):  # a reward or an observation, refused before the agent learnt from it
        if not agent.steps or not is_finite(agent):
            return error
        save()
        kind = BadReward if isinstance(error, BadReward) else ValueError
        return kind(f"Stopped at step {agent.steps:,}. {error} The checkpoint is {path}")
    if isinstance(agent, NetworkAgent) and is_bad_loss(error):
        save()
        return type(error)(f"Stopped at step {agent.steps:,}. {error} The checkpoint is {path}")
    if isinstance(error, Diverged) and path.exists():
        return Diverged(f"{error} The last checkpoint before that is {path}")
    return error


def is_finite(agent: Agent) -> bool:
    """Whether the agent may replace its last checkpoint. An agent checks its estimates only between chunks of learning."""
    try:
        agent._check_finite()
    except Diverged:
        return False
    return True


def is_bad_loss(error: ArithmeticError) -> bool:
    """Whether the error is a NaN or infinite loss of a deep agent."""
    from perstep.deep.learner import BadLoss  # a deep agent exists, so PyTorch is installed

    return isinstance(error, BadLoss)
