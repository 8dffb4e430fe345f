"""Agents from a file: what is checked before memory is allocated, and files of older formats."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perstep import storage
from perstep.agents.agent import FORMAT, Agent
from perstep.agents.arrays import flatten, has_shape
from perstep.agents.lattice import AGENTS
from perstep.agents.worlds import reopen, say_of_reset, start_anew
from perstep.curiosity import MOOD
from perstep.errors import unknown
from perstep.interaction.behaviour import NO_ACTION
from perstep.sketch import kept, new_sketch
from perstep.tabular import memory
from perstep.tiles import LARGEST_TABLE
from perstep.units import new_units

if TYPE_CHECKING:
    from perstep.agents.worlds import World

UNFIT = "lacks something that an agent needs, or has it in another shape"


def load(path: str | os.PathLike[str], env: World | None = None) -> Agent:
    """The agent that was saved in a file, ready to go on where it was.

    `env`: its world, where the file alone cannot give it. No code in the file is ever run.
    """
    arrays, metadata = storage.read(path)
    saved_as = metadata.get("format")
    if saved_as not in (*OLD_FORMATS, FORMAT):
        raise storage.BadFile(
            f"{path} has format {saved_as!r}, but this perstep reads the formats {min(OLD_FORMATS)} to {FORMAT}. "
            "Load it with the version of perstep that saved it."
        )
    if saved_as in OLD_FORMATS:
        with _blaming(path):
            arrays = from_format_3(from_format_2(arrays) if saved_as == FORMAT_2 else arrays)
    arrays = {
        "rewards.masses": np.zeros(0),
        "rewards.grid": np.zeros(0),
        **arrays,
    }  # files before the rule `categorical`
    kind = metadata.get("agent")
    if not isinstance(kind, str) or kind not in AGENTS:
        raise storage.BadFile(f"{path}: {unknown('agent', kind, AGENTS)}")
    agent_class = AGENTS[kind]
    with _blaming(path):
        settings, about = dict(metadata["config"]), metadata["world"]
        if saved_as == FORMAT_2 and settings.get("table_size", LARGEST_TABLE) is None:
            settings["table_size"] = LARGEST_TABLE  # the full table, which was the default then
        config = agent_class.Config.from_json(settings)
        has_shape(arrays, "rewards.theta", config.theta_size)
        agent_class._check_sizes(config, about, arrays)
        world = reopen(about, arrays) if env is None else env
        if env is None:
            agent_class._check_spaces(world, about)
        given, here = agent_class._given(arrays), agent_class._on_this_machine(config)
    with _blaming(path) if env is None else contextlib.nullcontext():
        agent = agent_class(world, *given, **agent_class._settings_from(here, about))
    agent.config = config  # with the device that was asked for, where there is one again
    with _blaming(path, UNFIT if env is None else "does not fit the world that was given"):
        agent._restore(arrays, {**metadata, "world_is_given": env is not None})
        worlds = [world for world in (agent._world, getattr(agent, "_vector_world", None)) if world is not None]
        start_anew(worlds, about, agent.steps)
    if worlds:
        say_of_reset(about)
    return agent


@contextlib.contextmanager
def _blaming(path: str | os.PathLike[str], fault: str = UNFIT) -> Iterator[None]:
    """Report whatever goes wrong here as a fault of the file, or of a world that is not the file's."""
    try:
        yield
    except storage.BadFile:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise storage.BadFile(f"{path} {fault}: {str(error).rstrip('.')}.") from error


FORMAT_2, FORMAT_3 = 2, 3
OLD_FORMATS = (FORMAT_2, FORMAT_3)


def from_format_3(arrays: storage.Arrays) -> storage.Arrays:
    """The arrays of format 3 with what came after it: units of rewards, urges to explore, which no agent had then, and an empty
    sketch of the rewards."""
    arrays = {
        **arrays,
        "rewards.units": new_units(),
        "rewards.first": np.zeros(0),
        **flatten("sketch", kept(new_sketch())),
    }
    if "table.visits" in arrays:
        arrays |= {"table.urges": np.zeros((0, 0)), "table.mood": np.zeros(MOOD, np.int64)}
        arrays |= flatten("memory", memory(0))
    if "weights.scores" in arrays:
        arrays |= {"weights.novelty": np.zeros((0, 0, 1)), "weights.appeal": np.zeros_like(arrays["weights.scores"])}
    return arrays


def from_format_2(arrays: storage.Arrays) -> storage.Arrays:
    """The arrays of format 2 under their names and shapes of format 3. Tables kept `means`, a state without a chosen action; tiles
    kept the values of one column; the pendulum its two numbers, which are zeros in all other worlds."""
    arrays = dict(arrays)
    if "table.means" in arrays:
        arrays["table.scores"] = arrays.pop("table.means")
        arrays["place"] = np.array([*arrays.pop("state"), NO_ACTION], np.int64)
    if "weights.estimate" in arrays:
        arrays["weights.critic"] = arrays["weights.critic"][None]
        arrays["weights.numbers"] = arrays.pop("weights.estimate")[None]
        arrays["weights.scores"] = np.zeros(1)
        if (state := arrays.pop("state")).any():
            arrays |= {
                "place.state": state,
                "place.observation": state.copy(),
                "place.counters": np.array([0, NO_ACTION]),
                "place.episode_return": np.zeros(1),
            }
    return arrays
