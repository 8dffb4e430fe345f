"""What `env` may be (a finite MDP, a Gymnasium environment or its id), and how a file describes the world of an agent."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import perstep.worlds  # registers the worlds
from perstep.files.storage import Arrays, BadFile
from perstep.gym.loop import GymnasiumWorld
from perstep.gym.motion import compiled_world
from perstep.gym.spaces import composed_space, flattened, space_from_json
from perstep.gym.world_state import FOLLOWING, TELEPORT, WATCHING, kind, kinds, restore, snapshot, time_limit
from perstep.inputs.errors import UnknownName
from perstep.mdp.env import FiniteMDPEnv
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.names import Names
from perstep.numerics.randomness import make_generator
from perstep.system.budget import TooLarge, claim
from perstep.worlds.atari import game_of, games
from perstep.worlds.motion import Motion

if TYPE_CHECKING:
    import gymnasium

    World: TypeAlias = str | gymnasium.Env[Any, Any] | FiniteMDP

VERSION = re.compile(r"-v\d+$")
ALIKE = 0.75  # of difflib: CartPol is like CartPole, Cooling is not like Bowling
RESETS = 4  # purpose of the generators that give the seeds of resets after a load
BYTES_OF_A_SETTING = (
    4000  # memory of a world per character of its settings, at most about: FrozenLake's map has a state for each
)
FRESH = "from a fresh reset"  # how a world continues if its state is not known
TRUSTED = (
    "perstep.",
    "gymnasium.envs.",
)  # modules that a world named in a file may be imported from


@dataclass(frozen=True)
class Absent:
    """The world of a saved agent that cannot be made here: the agent can answer what it has learnt, but not learn."""

    name: str
    spaces: dict[str, Any]
    composed: Any = None
    """The space of observations that are made vectors."""

    def error(self) -> RuntimeError:
        """The error for an attempt to learn."""
        return RuntimeError(
            f"This agent was saved in {self.name}, which cannot be made from the file alone. "
            "Make the world and give it: perstep.load(path, env=env)."
        )


@dataclass(frozen=True)
class Opened:
    """A world as agents see it: what compiled loops can run (a finite MDP, a world of motion), and the Gymnasium environment."""

    mdp: FiniteMDP | None = None
    motion: Motion | None = None
    env: Any = None
    absent: Absent | None = None
    numbered: bool = False
    """Whether the finite MDP was given inside a Gymnasium environment, whose observations and actions are numbers."""
    id: str = ""
    """The id of that environment, with its settings, if it has one."""

    @property
    def names(self) -> Names:
        """What the states and actions of the finite MDP are called in the world that was given: in a `FiniteMDP` by their names,
        and in a Gymnasium environment by Gymnasium's numbers."""
        assert self.mdp is not None
        return Names(range(self.mdp.num_states), range(self.mdp.num_actions)) if self.numbered else self.mdp.names

    @property
    def never_ends(self) -> bool:
        """Whether it is known that no episode ever ends: in a finite MDP, and where every end is a jump to the next start."""
        return self.mdp is not None or (self.env is not None and TELEPORT in kinds(self.env))

    @property
    def composed(self) -> Any:
        """The space of one observation before it was made a vector; None if it was not."""
        return composed_space(self.env) if self.absent is None else self.absent.composed


def open_world(env: World | Absent, flat: bool = False) -> Opened:
    """Find what compiled loops can run behind `env`. `flat`: composed observations become vectors."""
    import gymnasium

    if isinstance(env, FiniteMDP):
        return Opened(mdp=env)
    if isinstance(env, Absent):
        return Opened(absent=env)
    if isinstance(env, str):
        env = make(env)
    if not isinstance(env, gymnasium.Env):
        old = callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))
        hint = (
            " Let its class inherit from gymnasium.Env; for a world of the old gym package use shimmy: "
            "gymnasium.make('GymV21Environment-v0', env=world)."
        )
        if isinstance(env, gymnasium.vector.VectorEnv):
            hint = " Vector environments are for perstep.DeepQ and perstep.SoftActorCritic; give this agent one environment."
        if isinstance(env, type):
            hint = f" Give an object of the class: {env.__name__}()."
        raise TypeError(
            f"A world must be a Gymnasium environment, its id or a perstep.FiniteMDP, got {type(env).__name__}."
            f"{hint if old else ''}"
        )
    inner: Any = env
    while kind(inner) in WATCHING:
        inner = inner.env
    if type(inner) is FiniteMDPEnv:
        return Opened(mdp=inner.mdp, numbered=True, id=inner.id or _id_with_settings(inner.spec))
    return Opened(env=flattened(env) if flat else env, motion=compiled_world(env))


def make(name: str, /, **settings: Any) -> Any:
    """gymnasium.make, with the nearest names if there is no such world. An id of ALE gives the game with its usual wrappers."""
    import gymnasium

    _refuse_old_id(name)
    if (game := game_of(name)) is not None:
        name, settings = "perstep/Atari-v0", {"game": game, **settings}
    try:
        return gymnasium.make(name, **settings)
    except gymnasium.error.DeprecatedEnv as error:
        raise ValueError(f"{error}") from error
    except ModuleNotFoundError as error:
        module = name.partition(":")[0]
        if ":" not in name or f"No module named {module!r}" not in str(error):
            raise
        raise ImportError(
            f"There is no module {module!r} to import for the world {name}. Run in the folder of {module}.py, or install it."
        ) from error
    except gymnasium.error.Error as error:
        if name.split(":")[-1] in gymnasium.registry:  # it exists; something else is missing
            raise
        raise no_world(name) from error


def no_world(name: str) -> UnknownName:
    """The error for an id that nothing has registered."""
    import gymnasium

    known = {VERSION.sub("", world): world for world in gymnasium.registry}  # of several versions the newest
    short = {world.rpartition("/")[2]: world for world in known}  # a shared namespace makes no two names alike
    asked = VERSION.sub("", name).rpartition("/")[2]
    near = [world for world in short if asked and world.startswith(asked)]
    near = near or difflib.get_close_matches(asked, short, n=1, cutoff=ALIKE)
    meant = f" Did you mean {known[short[near[0]]]!r}?" if near else ""
    if ":" in name:
        module, _, world = name.partition(":")
        return UnknownName(
            f"There is no world {world!r} after importing {module}.{meant} Register it there, with gymnasium.register."
        )
    return UnknownName(
        f"There is no world {name!r}.{meant} Give the id of a Gymnasium environment; one that my_world.py registers is "
        f"my_world:{name}. `perstep list` shows those of perstep."
    )


def _is_here(entry_point: Any) -> bool:
    """Whether a world that a file names may be made: it is one of ours or of Gymnasium, or its module is imported already."""
    module = entry_point.partition(":")[0] if isinstance(entry_point, str) else getattr(entry_point, "__module__", "")
    return f"{module}.".startswith(TRUSTED) or module in sys.modules


def _refuse_old_id(name: str) -> None:
    """Refuse a game by an old id such as "BreakoutNoFrameskip-v4", which exists only if something has imported ale-py before."""
    import gymnasium

    found = re.fullmatch(r"(\w+?)(-ram)?(NoFrameskip|Deterministic)?-v[045]", name)
    spec = gymnasium.registry.get(name)
    if found is None or (spec is not None and not str(spec.entry_point).startswith("ale_py")):
        return
    with contextlib.suppress(ImportError):  # without ale-py there is no game
        if (game := game_of(new := f"ALE/{found[1]}-v5")) is not None and game in games():
            raise ValueError(
                f"Use {new!r} instead of {name!r}: frame skip and sticky actions are settings of the world. "
                "An environment that you make yourself is used as it is."
            )


def describe(opened: Opened, world: GymnasiumWorld | None, spaces: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """The description of a world in a file: a whole MDP; a registered environment by name and state; any other by name."""
    if opened.mdp is not None:
        arrays = {f"mdp.{name}": array for name, array in opened.mdp.to_arrays().items()}
        names = {which: _names(getattr(opened.mdp, which)) for which in NAMED}
        return arrays, {
            "kind": "mdp",
            "name": opened.mdp.name,
            "numbered": opened.numbered,
            **({"id": opened.id} if opened.id else {}),
            **{which: found for which, found in names.items() if found},
            **({"fields": fields} if names["states"] and (fields := _fields(opened.mdp.states)) else {}),
            **_where(world),
        }
    if world is None:  # also for vector environments, whose state cannot be saved
        name = opened.absent.name if opened.absent else ""
        return {}, {"kind": "gymnasium", "name": name, "spaces": spaces, "resumes": FRESH}
    spec = world.env.spec
    about: dict[str, Any] = {"kind": "gymnasium", "name": str(world.env.unwrapped), "spaces": spaces}
    follows = FOLLOWING in kinds(world.env)  # a policy is in no file: the world has to be given again
    if spec is not None and not spec.additional_wrappers and _is_json(spec.kwargs) and not follows:
        about |= {"name": spec.id, "kwargs": spec.kwargs, "time_limit": time_limit(world.env) or -1}
    where = _where(world)
    untouched = world.seed == world.first_seed  # before the first reset
    return {}, {**about, "resumes": "from the same state" if where or untouched else FRESH, **where}


def _where(world: GymnasiumWorld | None) -> dict[str, Any]:
    """Where the plain loop of an agent is in its world; empty before the first step, and if that cannot be saved."""
    state = None if world is None or world.point is None else snapshot(world.env)
    if world is None or state is None:
        return {}
    point = world.point.tolist() if isinstance(world.point, np.ndarray) else world.point
    action = world.action.tolist() if isinstance(world.action, np.ndarray) else world.action
    return {"state": state, "point": point, "action": action, "episode_return": world.episode_return}


NOT_OF_THE_WORLD = ("render_mode", "num_envs", "vectorization_mode", "vector_kwargs")  # arguments of gymnasium alone


def name_of_world(opened: Opened, env: Any) -> str:
    """The id of a world with its settings; of a finite MDP its name and sizes. Wrappers do not count."""
    inner = getattr(env, "unwrapped", None)
    if isinstance(mdp := opened.mdp or getattr(inner, "mdp", None), FiniteMDP):
        return f"{mdp.name or 'a finite MDP'} ({mdp.num_states} states, {mdp.num_actions} actions)"
    if inner is None:
        return opened.absent.name if opened.absent else "a world without a name"
    return _id_with_settings(getattr(inner, "spec", None)) or type(inner).__name__


def _id_with_settings(spec: Any) -> str:
    """The id of a registered world with its settings; empty without one."""
    import gymnasium

    if spec is None:
        return ""
    registered = getattr(gymnasium.registry.get(spec.id), "kwargs", {})
    settings = {
        name: value
        for name, value in spec.kwargs.items()
        if name not in NOT_OF_THE_WORLD and (name not in registered or registered[name] != value)
    }
    return f"{spec.id} {settings}" if settings else str(spec.id)


NAMED = ("states", "actions")
MOST_NAMES = 100_000  # that are kept in a file
LONGEST_ID = 1000  # characters
LONGEST_NAMES = 10**7  # bytes of all of them
FIELD = re.compile(r"[^\W\d_]\w*")  # the name of an entry of a state


def _names(named: Any) -> list[Any] | None:
    """The names as JSON, tuples as lists; None for mere numbers, for too many names, and for names that JSON has not."""

    def plain(name: Any) -> Any:
        if isinstance(name, tuple):
            return [plain(part) for part in name]
        if isinstance(name, np.generic):
            name = name.item()
        if not isinstance(name, str | int | float | None):
            raise TypeError
        return name

    if isinstance(named, range) or len(named) > MOST_NAMES:
        return None
    try:
        found = [plain(name) for name in named]
        text = json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return None
    return found if len(text) <= LONGEST_NAMES else None


def _named(names: Any) -> tuple[Any, ...]:
    """The inverse of `_names`, for a file that may say anything."""

    def hashable(name: Any) -> Any:
        if isinstance(name, dict):
            raise ValueError(f"a name cannot be {str(name)[:100]}")
        return tuple(hashable(part) for part in name) if isinstance(name, list) else name

    if not isinstance(names, list):
        raise ValueError(f"expected a list of names, got {str(names)[:100]}")
    return tuple(hashable(name) for name in names)


def _fields(states: Any) -> list[str]:
    """The names of the entries of all states, if these are named tuples of one kind."""
    kind = type(states[0])
    return list(getattr(kind, "_fields", ())) if all(type(state) is kind for state in states) else []


def _with_fields(states: Any, fields: Any) -> tuple[Any, ...]:
    """The states as tuples with named entries, for a file that may say anything. `namedtuple` would write and run code for them."""
    if not isinstance(fields, list) or not all(isinstance(field, str) and FIELD.fullmatch(field) for field in fields):
        raise ValueError(f"names of entries must be words, got {str(fields)[:100]}")
    if not fields or len(set(fields)) < len(fields):
        raise ValueError(f"names of entries must differ, got {str(fields)[:100]}")
    if not all(isinstance(state, tuple) and len(state) == len(fields) for state in states):
        raise ValueError(f"each state must have the {len(fields)} entries {', '.join(fields)[:100]}")

    def shown(state: tuple[Any, ...]) -> str:
        return f"State({', '.join(f'{field}={entry!r}' for field, entry in zip(fields, state, strict=True))})"

    entries = {field: property(itemgetter(place)) for place, field in enumerate(fields)}
    kind = type("State", (tuple,), {"__slots__": (), "_fields": tuple(fields), "__repr__": shown, **entries})
    return tuple(kind(state) for state in states)


def reopen(about: dict[str, Any], arrays: Arrays) -> World | Absent:
    """The world of a saved agent, as far as the file alone describes it."""
    import gymnasium

    if about.get("kind") == "mdp":
        inside = {name.removeprefix("mdp."): array for name, array in arrays.items() if name.startswith("mdp.")}
        try:
            names = {which: _named(about[which]) for which in NAMED if which in about}
            if "fields" in about:
                names["states"] = _with_fields(names.get("states", ()), about["fields"])
            mdp = FiniteMDP.from_arrays(inside, about.get("name"), **names)
            if about.get("numbered") is not True:
                return mdp
            made = FiniteMDPEnv(mdp)
            named = str(about.get("id", ""))[:LONGEST_ID]
            made.id = named if named.isprintable() and "`" not in named else ""
            return made
        except (KeyError, ValueError, IndexError, TypeError, RecursionError) as error:
            raise BadFile(f"The file's MDP is damaged: {error}") from error
    spaces = dict(about.get("spaces") or {})
    composed = space_from_json(spaces["composed"]) if "composed" in spaces else None
    absent = Absent(str(about.get("name", "a world without a name")), spaces, composed)
    spec = gymnasium.registry.get(absent.name)
    if spec is None or "kwargs" not in about or not _is_here(spec.entry_point):
        return absent
    registered = spec.kwargs  # what it says already is not said again: it may have names such as `name` and `id`
    settings = {k: v for k, v in dict(about["kwargs"]).items() if k not in registered or registered[k] != v}
    claim(BYTES_OF_A_SETTING * len(json.dumps(settings)), f"the world {absent.name} with its settings")
    if settings.get("render_mode") == "human":  # loading opens no window
        del settings["render_mode"]
    try:
        return make(absent.name, max_episode_steps=about.get("time_limit"), **settings)
    except (gymnasium.error.Error, ImportError):  # it needs a library that is not installed
        return absent
    except TooLarge:
        raise
    except Exception as error:  # whatever error the world raises for settings that it does not accept
        raise BadFile(f"The file's world {absent.name} cannot be made with {str(settings)[:200]}: {error}") from error


def go_back(world: GymnasiumWorld, about: dict[str, Any]) -> None:
    """Put a world back where it was when it was described. If that is not known, or the world is another one, it continues from
    a fresh reset."""
    if "state" not in about:
        return
    world.reset()
    if restore(world.env, about["state"]):
        point = about["point"]
        world.point = np.array(point, np.float64) if isinstance(point, list) else point
        world.action = about["action"]
        world.episode_return = float(about.get("episode_return", 0.0))


def start_anew(worlds: Iterable[Any], about: dict[str, Any], steps: int) -> None:
    """New seeds for worlds of a loaded agent that continue from a fresh reset, so that they do not repeat the first episodes."""
    lost = about.get("resumes") == FRESH or "state" in about or about.get("kind") == "mdp"
    for world in worlds:
        if not steps or not lost or getattr(world, "point", None) is not None:
            continue
        seed = int(
            make_generator(world.first_seed, RESETS, steps)[0] >> np.uint64(34)
        )  # 30 bits: vector worlds count on
        world.seed = seed + (seed == world.first_seed)


def say_of_reset(about: dict[str, Any]) -> None:
    """Warn the caller of `load` if the world continues from a fresh reset."""
    if about.get("resumes") == FRESH:
        warnings.warn(
            f"The state of {about.get('name')} could not be saved, so the agent continues from a fresh reset of the world. "
            "Everything that it has learnt is there.",
            stacklevel=4,
        )


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float | bool)


__all__ = ["Absent", "Opened", "World", "describe", "go_back", "make", "open_world", "perstep", "reopen", "start_anew"]
