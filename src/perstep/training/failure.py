"""A run that cannot go on because its numbers have become none: what was wrong, and where the agent is saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perstep.agents.agent import Agent, Diverged
from perstep.agents.deep_q import DeepQ


def in_words(error: ArithmeticError, agent: Agent, path: Path, save: Callable[[], None]) -> ArithmeticError:
    """The error to raise instead. An agent that refused to learn from a bad batch is as it was before, and is saved."""
    if isinstance(agent, DeepQ) and is_bad_loss(error):
        save()
        return type(error)(f"Stopped at step {agent.steps:,}. {error} The checkpoint is {path}")
    if isinstance(error, Diverged) and path.exists():
        return Diverged(f"{error} The last checkpoint before that is {path}")
    return error


def is_bad_loss(error: ArithmeticError) -> bool:
    """Whether a deep learner met a loss that is not a number."""
    from perstep.deep.deep_q import BadLoss  # PyTorch is here, since a deep agent is

    return isinstance(error, BadLoss)
