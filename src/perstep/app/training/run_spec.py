"""The specification of a run: algorithm, settings, world and policy. It decides all bits of the run, except its length."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perstep.agent.agent import Agent
from perstep.agent.making import make_agent
from perstep.files.storage import BadFile
from perstep.gym.opening import make
from perstep.inputs.errors import unknown
from perstep.planning.settings import PlannerConfig
from perstep.rules.lattice import algorithm
from perstep.rules.settings import LearnerConfig

UNEXPECTED = re.compile(
    r"unexpected keyword argument '(?P<setting>\w+)'.* creator for (?P<world>\S+) with"
)  # from an error of Gymnasium
NOT_THIS_RUN = "This run did not save it. Restore the agent of this run, or choose another folder."


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """An algorithm, its settings and a world."""

    algorithm: str
    """A name in perstep.ALGORITHMS."""
    world: str
    """Id of a Gymnasium environment."""
    config: LearnerConfig | PlannerConfig
    """The settings of the agent, including the seed."""
    world_settings: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of gymnasium.make."""
    policy: str = "uniform"
    """For the prediction algorithms: "uniform", or a .json or .npy file of actions (S,) or probabilities (S, A)."""

    def __post_init__(self) -> None:
        if (rule := algorithm(self.algorithm).rule) != self.config.rule:
            raise ValueError(
                f"Expected settings with the rule {rule!r} of {self.algorithm}, got the rule {self.config.rule!r}."
            )

    @property
    def predicts(self) -> bool:
        """Whether the algorithm predicts the values of a given policy."""
        return not algorithm(self.algorithm).learner.control

    def to_json(self) -> dict[str, Any]:
        """The specification as plain values, for files and comparisons."""
        about = {
            "algorithm": self.algorithm,
            "world": self.world,
            "world_settings": self.world_settings,
            "settings": self.config.to_json(),
        }
        if self.predicts:
            about["policy"] = self.policy if self.policy == "uniform" else policy_digest(self.policy)
        return json.loads(json.dumps(about))  # type: ignore[no-any-return]  # tuples become lists, as in a file

    def make_world(self) -> Any:
        """A new world."""
        return make_world(self.world, self.world_settings)

    def make_agent(self) -> Agent:
        """A new agent in a new world, at step 0."""
        env = self.make_world()
        given = (read_policy(self.policy, env),) if self.predicts else ()
        settings = {name: value for name, value in self.config.settings().items() if name != "rule"}
        return make_agent(self.algorithm, env, *given, **settings)

    def differences(self, before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """The differences to an earlier specification, as `to_json` wrote it: name → (old value, new value)."""
        now = self.to_json()
        named: dict[str, Any] = {"rule": self.config.rule} if self.config.rule else {}
        unnamed = type(self.config)(**named).to_json()  # a setting that did not exist then had its default
        new = now.pop("settings") | now
        old = json.loads(json.dumps(unnamed)) | before.get("settings", {}) | before
        different = {name: (old.get(name), new[name]) for name in new if new[name] != old.get(name)}
        if "algorithm" in different:  # then other settings are no news
            return {"algorithm": different["algorithm"]}
        return different

    def refuse_agent(self, about: dict[str, Any], path: Path) -> None:
        """Raise BadFile if a saved agent is not of this run, by the metadata of its file."""
        learner, agent = algorithm(self.algorithm).learner.agent, about.get("agent")
        if agent != learner:
            raise BadFile(f"Expected a {learner} for {self.algorithm} in {path}, got a {agent}. {NOT_THIS_RUN}")
        now, then = json.loads(json.dumps(self.config.to_json())), about.get("config", {})
        for name, value in now.items():
            if name in then and then[name] != value:
                raise BadFile(f"Expected an agent with {name} {value!r} in {path}, got {then[name]!r}. {NOT_THIS_RUN}")


def make_world(name: str, settings: dict[str, Any]) -> Any:
    """A new Gymnasium environment with this id, or an error with the most similar id or setting."""
    import gymnasium

    try:
        return make(name, **settings)
    except TypeError as error:
        if (found := UNEXPECTED.search(str(error))) is None:
            raise
        entry = gymnasium.spec(found["world"]).entry_point
        made_by = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
        known = inspect.signature(made_by).parameters if made_by is not None else ()
        raise unknown(f"setting of {name}", found["setting"], known) from error


def read_policy(policy: str, env: Any) -> Any:
    """The policy as TDLearning expects it: a function for "uniform", otherwise the array in a .json or .npy file."""
    if policy == "uniform":
        return lambda _: np.full(int(env.action_space.n), 1.0 / int(env.action_space.n))
    path = Path(policy)
    if path.suffix not in (".json", ".npy"):
        raise ValueError(
            f"Expected 'uniform' as policy, or a .json or .npy file of actions or probabilities, got {policy!r}."
        )
    if not path.exists():
        raise FileNotFoundError(f"There is no policy file {path}. Check the path.")
    return np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.array(read_json(path))


def policy_digest(policy: str) -> str:
    """The digest of a policy file: the file may move, but its content may not change."""
    path = Path(policy)
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" if path.exists() else policy


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} does not contain valid JSON: {error}.") from error
