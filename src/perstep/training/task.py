"""Who learns what, and where: all that decides the bits of a run but its length."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perstep.agents.agent import Agent
from perstep.agents.files import make_agent
from perstep.agents.worlds import make
from perstep.algorithms import algorithm
from perstep.config import LearnerConfig, TDLearningConfig
from perstep.errors import UnknownName, unknown
from perstep.storage import BadFile

UNEXPECTED = re.compile(
    r"unexpected keyword argument '(?P<setting>\w+)'.* creator for (?P<world>\S+) with"
)  # Gymnasium's words
ELSEWHERE = "It is not the one that this run saved: put that back, or choose another folder."


@dataclass(frozen=True, kw_only=True)
class Task:
    """An algorithm with its settings in a world."""

    algorithm: str
    """A name of perstep.ALGORITHMS."""
    world: str
    """Id of a Gymnasium environment."""
    config: LearnerConfig
    """The settings, the seed among them."""
    world_settings: dict[str, Any] = field(default_factory=dict)
    """Keywords of gymnasium.make."""
    policy: str = "uniform"
    """For the prediction algorithms: "uniform", or a .json or .npy file of actions (S,) or probabilities (S, A)."""

    def __post_init__(self) -> None:
        if (rule := algorithm(self.algorithm).rule) != self.config.rule:
            raise ValueError(f"{self.algorithm} has the rule {rule!r}, but its settings say {self.config.rule!r}.")

    @property
    def predicts(self) -> bool:
        """Whether the algorithm is one that is given its policy."""
        return isinstance(self.config, TDLearningConfig)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for files and for comparison."""
        about = {
            "algorithm": self.algorithm,
            "world": self.world,
            "world_settings": self.world_settings,
            "settings": self.config.to_json(),
        }
        if self.predicts:
            about["policy"] = self.policy if self.policy == "uniform" else policy_digest(self.policy)
        return json.loads(json.dumps(about))  # type: ignore[no-any-return]  # lists for tuples, as it will be read

    def world_made(self) -> Any:
        """The world, at its beginning."""
        return open_world(self.world, self.world_settings)

    def agent(self) -> Agent:
        """The agent, at its beginning."""
        env = self.world_made()
        given = (read_policy(self.policy, env),) if self.predicts else ()
        settings = {name: value for name, value in self.config.settings().items() if name != "rule"}
        return make_agent(self.algorithm, env, *given, **settings)

    def differences(self, before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What another task, as `to_json` wrote it, had otherwise: name → what it was, what it is now."""
        now = self.to_json()
        usual = type(self.config)(rule=self.config.rule).to_json()  # a setting that was not there then had its default
        new = now.pop("settings") | now
        old = json.loads(json.dumps(usual)) | before.get("settings", {}) | before
        different = {name: (old.get(name), new[name]) for name in new if new[name] != old.get(name)}
        if "algorithm" in different:  # then nobody asks about its settings
            return {"algorithm": different["algorithm"]}
        return different

    def refuse_agent(self, about: dict[str, Any], path: Path) -> None:
        """Refuse a saved agent that is not this task's, by the metadata of its file."""
        learner, agent = algorithm(self.algorithm).learner.agent, about.get("agent")
        if agent != learner:
            raise BadFile(f"{path} holds a {agent}, but {self.algorithm} is run by a {learner}. {ELSEWHERE}")
        now, then = json.loads(json.dumps(self.config.to_json())), about.get("config", {})
        for name, value in now.items():
            if name in then and then[name] != value:
                raise BadFile(f"{path} holds an agent with {name} {then[name]!r}, not {value!r}. {ELSEWHERE}")


def open_world(name: str, settings: dict[str, Any]) -> Any:
    """The Gymnasium environment with this id."""
    import gymnasium

    try:
        return make(name, **settings)
    except UnknownName as error:
        if not str(error).startswith(("There is no world", "There is no game")):  # but one of its settings
            raise
        near = difflib.get_close_matches(name, gymnasium.registry, n=1, cutoff=0.5)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownName(
            f"There is no world {name!r}.{meant} Give the id of a Gymnasium environment; `perstep list` names those of perstep."
        ) from error
    except TypeError as error:
        if (found := UNEXPECTED.search(str(error))) is None:
            raise
        entry = gymnasium.spec(found["world"]).entry_point
        made_by = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
        known = inspect.signature(made_by).parameters if made_by is not None else ()
        raise unknown(f"setting of {name}", found["setting"], known) from error


def read_policy(policy: str, env: Any) -> Any:
    """What TDLearning takes as a policy: a function for "uniform", else the array in a .json or .npy file."""
    if policy == "uniform":
        return lambda _: np.full(int(env.action_space.n), 1.0 / int(env.action_space.n))
    path = Path(policy)
    if path.suffix not in (".json", ".npy"):
        raise ValueError(f"A policy is 'uniform', or actions or probabilities in a .json or .npy file, not {policy!r}.")
    if not path.exists():
        raise FileNotFoundError(f"There is no policy file {path}.")
    return np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.array(read_json(path))


def policy_digest(policy: str) -> str:
    """A policy file by its content, so that it may move but not change."""
    path = Path(policy)
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" if path.exists() else policy


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} is not JSON: {error}.") from error
