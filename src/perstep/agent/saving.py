"""An agent into a file: everything that it is, checked against what `load` takes, so that what is saved can be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from perstep.agent.arrays import check_limits, check_masses, flatten
from perstep.agent.card import card
from perstep.files import storage
from perstep.gym.opening import describe
from perstep.system.signals import deferred_signals, raise_again

Agent = Any  # of agent/agent.py, which uses this module

FORMAT = 1  # of saved files


def save(agent: Agent, path: str | os.PathLike[str], *, with_card: bool = False) -> None:
    """Write everything that an agent is to one .safetensors file, published by rename."""
    world_arrays, world = describe(agent._opened, agent._world, agent._described_spaces())
    arrays = {
        **flatten("rewards", agent._rewards),
        **(flatten("objective", agent._objective) if agent.config.target_from_quantiles else {}),
        **agent._life.arrays(),
        "generator": agent._generator,
        "prediction_generator": agent._prediction_generator,
        "ends": agent._ends.known,
        **world_arrays,
        **agent._arrays(),
    }
    metadata = {
        "format": FORMAT,
        "agent": type(agent).__name__,
        "config": agent.config.to_json(),
        "steps": agent.steps,
        "world": world,
    }
    with deferred_signals() as received:  # a signal leaves neither half a file nor a draft
        _refuse_unreadable(agent, arrays)
        storage.write(path, arrays, metadata)
        if with_card:
            with storage.published(Path(f"{os.fspath(path)}.md")) as draft:
                draft.write_text(card(agent, Path(path).name), encoding="utf-8")
    raise_again(received)


def _refuse_unreadable(agent: Agent, arrays: storage.Arrays) -> None:
    """Refuse to write what `load` would refuse to read, while the agent can still be mended."""
    try:
        check_masses(agent._rewards)
        agent._life.check()
        check_limits(arrays, agent._limits())
    except storage.BadFile as error:
        raise ValueError(
            f"This agent cannot be saved, since its file could not be loaded again: {error} Its rewards are probably too "
            "large: divide them by a constant, and learn anew. The agent itself is as it was."
        ) from error
