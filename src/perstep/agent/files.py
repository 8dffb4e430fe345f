"""Agents from a file, and what is checked before memory is allocated."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perstep.agent.agent import Agent
from perstep.agent.arrays import has_shape
from perstep.agent.saving import FORMAT
from perstep.files import storage
from perstep.gym.opening import reopen, say_of_reset, start_anew
from perstep.inputs.checks import number
from perstep.inputs.errors import UnknownName, unknown
from perstep.rules.lattice import LEARNERS
from perstep.system.budget import BUDGET, limited

if TYPE_CHECKING:
    from perstep.gym.opening import World


AGENTS = {row.agent: row for row in LEARNERS.values()}  # learners of one class have one class of settings
BEFORE = ".before"  # in the name of the checkpoint before the newest one
UNFIT = "lacks something that an agent needs, or has it in another shape"


def load(path: str | os.PathLike[str], env: World | None = None, *, budget: float = BUDGET) -> Agent:
    """The agent that was saved in a file, ready to continue where it was.

    `env`: its world, where the file alone cannot give it. `budget`: how many bytes of memory the agent and its world may take
    beyond the size of the file. No code in the file is ever run.
    """
    allowed = int(number("budget", budget, 0.0)) + 2 * storage.size_on_disk(path)  # the file's arrays, and the agent's
    try:
        with limited(allowed):
            return _load(path, env, own=False)
    except MemoryError as error:
        raise storage.BadFile(f"{path}: {str(error) or 'memory ran out.'}") from error


def resume(path: str | os.PathLike[str], env: World) -> Agent:
    """Like `load`, for the checkpoint of a run whose settings the caller has checked: it may take what the machine has."""
    return _load(path, env, own=True)


def save_checkpoint(agent: Agent, path: Path, **options: Any) -> None:
    """Save an agent, and keep the checkpoint before it: a disk may damage the newest file."""
    if path.exists():
        draft = path.with_name(f"{path.stem}{BEFORE}.new")
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
            os.link(path, draft)  # so that there is an agent at every moment; some disks have no links
            os.replace(draft, checkpoint_before(path))
    agent.save(path, **options)


def load_checkpoint(path: Path, env: World, check: Callable[[Path], None] = lambda path: None) -> Agent:
    """The agent at its newest checkpoint; if this one is damaged, at the one before it, with a warning.

    `check` may refuse a file, with a BadFile, before it is loaded.
    """

    def loaded(file: Path) -> Agent:
        check(file)
        return resume(file, env)

    try:
        return loaded(path)
    except (storage.BadFile, FileNotFoundError) as error:
        if not (before := checkpoint_before(path)).exists():
            raise
        try:
            agent = loaded(before)
        except storage.BadFile:
            raise error from None
        warnings.warn(
            f"{error} The run resumes from the checkpoint before it, at step {agent.steps:,}: {before}", stacklevel=3
        )
        return agent


def checkpoint_before(path: Path) -> Path:
    """Where the checkpoint before the newest one is."""
    return path.with_name(f"{path.stem}{BEFORE}{path.suffix}")


def _load(path: str | os.PathLike[str], env: World | None, *, own: bool) -> Agent:
    arrays, metadata = storage.read(path, functools.partial(_accept, path))
    agent_class: type[Agent] = AGENTS[metadata["agent"]].agent_class
    with _blaming(path):
        settings, about = dict(metadata["config"]), metadata["world"]
        config = agent_class.Config.from_json(settings)
        has_shape(arrays, "rewards.theta", config.theta_size)
        agent_class._check_sizes(config, about, arrays)
        world = reopen(about, arrays) if env is None else env
        if env is None:
            agent_class._check_spaces(world, about)
        given, here = agent_class._given(arrays), agent_class._on_this_machine(config, own)
    with _blaming(path) if env is None else _naming(path, about, arrays):
        agent = agent_class(world, *given, **agent_class._settings_from(here, about))
    if env is not None:
        _refuse_another_world(path, about, arrays, agent)
    agent._config = config  # with the device that was asked for, where there is one again
    with _blaming(path, UNFIT if env is None else "does not fit the world that was given"):
        agent._restore(arrays, {**metadata, "world_is_given": env is not None})
        worlds = [world for world in (agent._world, getattr(agent, "_vector_world", None)) if world is not None]
        start_anew(worlds, about, agent.steps)
    if worlds:
        say_of_reset(about)
    return agent


def _refuse_another_world(
    path: str | os.PathLike[str], about: dict[str, Any], arrays: storage.Arrays, agent: Agent
) -> None:
    """Refuse a world that differs in size from the one in which the agent learnt."""
    there, here = _saved_sizes(about, arrays), sizes_in_words(agent._spaces())
    if there and here and there != here:
        raise storage.BadFile(
            f"{path} was learnt in {_world_name(about)} with {there}, but the world that was given has {here}."
        )


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str], about: dict[str, Any], arrays: storage.Arrays) -> Iterator[None]:
    """Say of an error in a world that was given which world was expected."""
    try:
        yield
    except UnknownName:  # there is no such world
        raise
    except (ValueError, TypeError) as error:
        sizes = _saved_sizes(about, arrays)
        more = f" with {sizes}" if sizes else ""
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{path} was learnt in {_world_name(about)}{more}, and does not fit the world that was given: {error}"
        ) from error


def _world_name(about: dict[str, Any]) -> str:
    settings = about.get("kwargs")
    return str(about.get("name") or "a world without a name") + (f" {settings}" if settings else "")


def _saved_sizes(about: dict[str, Any], arrays: storage.Arrays) -> str:
    """The sizes of the world of a file, in words; empty if they are unknown."""
    if about.get("kind") == "mdp":
        shape = arrays["mdp.probability"].shape if "mdp.probability" in arrays else ()
        return f"{shape[0]} states and {shape[1]} actions" if len(shape) == 3 else ""
    return sizes_in_words(about.get("spaces"))


def sizes_in_words(spaces: Any) -> str:
    """The sizes that an agent's description of its spaces gives, such as "16 states and 4 actions"; empty if it gives none."""
    try:
        moves = spaces["actions"]
        actions = (
            f"{math.prod(moves['sizes'])} actions" if "sizes" in moves else f"actions of shape {tuple(moves['shape'])}"
        )
        if "states" in spaces:
            return f"{math.prod(spaces['states']['sizes'])} states and {actions}"
        seen = spaces.get("observations", spaces)
        if seen.get("count"):
            return f"{seen['count']} states and {actions}"
        return f"observations of shape {tuple(seen['shape'])} and {actions}"
    except (KeyError, TypeError, AttributeError):
        return ""


def _accept(path: str | os.PathLike[str], metadata: dict[str, Any]) -> None:
    """Refuse a file by its metadata."""
    saved_as, kind = metadata.get("format"), metadata.get("agent")
    if type(saved_as) is not int or saved_as != FORMAT:
        raise storage.BadFile(
            f"{path} has format {saved_as!r}, but this perstep reads the format {FORMAT}. "
            "Load it with the version of perstep that saved it."
        )
    if not isinstance(kind, str) or kind not in AGENTS:
        raise storage.BadFile(f"{path}: {unknown('agent', kind, AGENTS)}")


@contextlib.contextmanager
def _blaming(path: str | os.PathLike[str], fault: str = UNFIT) -> Iterator[None]:
    """Report whatever goes wrong here as a fault of the file, or of a world that is not the file's."""
    try:
        yield
    except storage.BadFile:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise storage.BadFile(f"{path} {fault}: {str(error).rstrip('.')}.") from error
