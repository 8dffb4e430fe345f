"""The lattice as two tables: every algorithm is one rule and one learner, and the field's baselines are corners of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from perstep.inputs.errors import unknown
from perstep.inputs.synonyms import class_hint
from perstep.rules.settings import AgentConfig
from perstep.rules.transition import RULES, Rule


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Everything that other code asks about one learner."""

    name: str
    """The second half of an algorithm's name, as in "d2-q"."""
    folder: str
    """Its folder, where `agent.py` has the class that runs it and `settings.py` the class of its settings."""
    agent: str
    """The name of the class that runs it; that of its settings is the same with Config behind it."""
    values: Literal["table", "tiles", "network", "model"]
    """Where the values live."""
    control: bool = True
    """Whether it looks for the best policy; otherwise it predicts the values of a given one."""
    compiled_worlds: Literal["finite", "motion", ""] = ""
    """The worlds in which its whole loop is compiled: finite MDPs, or worlds of motion with a vector as state."""
    listings: Mapping[str, str] = field(default_factory=dict)
    """Rule → where this learner with this rule is written down; other combinations are ours."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that make it what it is."""

    @property
    def config(self) -> type[AgentConfig]:
        """The class of its settings."""
        found: type[AgentConfig] = getattr(import_module(f"perstep.{self.folder}.settings"), f"{self.agent}Config")
        return found

    @property
    def agent_class(self) -> type[Any]:
        """The class that runs it. The folders of learners lie above this one, so it is found when it is asked for."""
        found: type[Any] = getattr(import_module(f"perstep.{self.folder}.agent"), self.agent)
        return found

    def fits(self, rule: Rule) -> bool:
        """Whether a rule can be used with it: whether its settings accept it."""
        if self.values == "model":
            return False
        try:
            self.config(**{"rule": rule.name, **self.settings})
        except ValueError:
            return False
        return True


TABLE: Any = {"agent": "QLearning", "folder": "tabular", "values": "table", "compiled_worlds": "finite"}
TILES: Any = {"agent": "TileQ", "folder": "tiles", "values": "tiles", "compiled_worlds": "motion"}
SARSA: Any = {"settings": {"bootstrap": "sampled"}, "listings": {"differential": "Sutton & Barto 2018, 10.3"}}
EXPECTED_SARSA: Any = {"settings": {"bootstrap": "expected"}}

LEARNERS = {
    learner.name: learner
    for learner in (
        Learner(
            name="td",
            agent="TDLearning",
            folder="tabular",
            values="table",
            control=False,
            compiled_worlds="finite",
            listings={"differential": "Wan et al. 2021", "d2": "Alg. 3", "d3": "Alg. 7"},
        ),
        Learner(
            name="q",
            **TABLE,
            listings={"differential": "Alg. 11", "d2": "Alg. 1, 4", "d3": "Alg. 2, 8", "rvi": "Abounadi et al. 2001"},
        ),
        Learner(name="sarsa", **TABLE, **SARSA),
        Learner(name="expected-sarsa", **TABLE, **EXPECTED_SARSA),
        Learner(name="tile-q", **TILES, settings={"bootstrap": "greedy"}),
        Learner(name="tile-sarsa", **TILES, **SARSA),
        Learner(name="tile-expected-sarsa", **TILES, **EXPECTED_SARSA),
        Learner(
            name="actor-critic",
            **TILES | {"agent": "ActorCritic"},
            listings={"differential": "Alg. 12", "d2": "Alg. 5", "d3": "Alg. 9"},
        ),
        Learner(
            name="deep-q",
            agent="DeepQ",
            folder="deep",
            values="network",
            listings={"differential": "Alg. 13", "d2": "Alg. 6", "d3": "Alg. 10"},
        ),
        Learner(
            name="sac",
            agent="SoftActorCritic",
            folder="deep.continuous",
            values="network",
            listings={
                "differential": "ours, after Haarnoja et al. 2018 and Wan et al. 2021",
                "d2": "ours, after Haarnoja et al. 2018",
                "d3": "ours, after Haarnoja et al. 2018",
                "rvi": "Hisaki & Ono 2024",
            },
        ),
        Learner(name="planner", agent="Planner", folder="planning", values="model", compiled_worlds="finite"),
    )
}


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One cell of the lattice, or one of its named corners."""

    name: str
    rule: str
    learner: Learner
    source: str
    """Where it is written down."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that make it what it is; others may be added."""

    @property
    def config(self) -> type[AgentConfig]:
        """The class of its settings."""
        return self.learner.config


DISCOUNTED = {"preset": "paper", "discount": 0.99, "centered": False, "termination": "mask"}
"""The discounted algorithms of the field: no average is subtracted, and the value after the end of an episode is 0."""
CENTERED = {"preset": "paper", "discount": 0.99, "centered": True}
"""Reward centering: the average is subtracted, and the values are still discounted."""


def _algorithm(name: str, rule: str, learner: str, source: str, settings: Mapping[str, Any]) -> Algorithm:
    row = LEARNERS[learner]
    return Algorithm(name=name, rule=rule, learner=row, source=source, settings={**row.settings, **settings})


def _cells() -> list[Algorithm]:
    """Every rule with every learner that it fits."""
    return [
        _algorithm(
            f"{rule.name}-{row.name}",
            rule.name,
            row.name,
            row.listings.get(rule.name, f"ours, after {rule.source}"),
            {},
        )
        for row in LEARNERS.values()
        for rule in RULES.values()
        if row.fits(rule)
    ]


CORNERS = (
    _algorithm("q", "differential", "q", "Watkins 1989", DISCOUNTED),
    _algorithm("quantile-q", "d3", "q", "Dabney et al. 2018", DISCOUNTED),
    _algorithm("sarsa", "differential", "sarsa", "Rummery & Niranjan 1994", DISCOUNTED),
    _algorithm("expected-sarsa", "differential", "expected-sarsa", "van Seijen et al. 2009", DISCOUNTED),
    _algorithm("centered-q", "differential", "q", "Naik et al. 2024", CENTERED),
    _algorithm("tile-q", "differential", "tile-q", "Watkins 1989", DISCOUNTED),
    _algorithm("quantile-tile-q", "d3", "tile-q", "Dabney et al. 2018", DISCOUNTED),
    _algorithm("tile-sarsa", "differential", "tile-sarsa", "Rummery & Niranjan 1994", DISCOUNTED),
    _algorithm("centered-tile-q", "differential", "tile-q", "Naik et al. 2024", CENTERED),
    _algorithm("dqn", "differential", "deep-q", "Mnih et al. 2015", DISCOUNTED),
    _algorithm("qr-dqn", "d3", "deep-q", "Dabney et al. 2018", DISCOUNTED),
    _algorithm("centered-dqn", "differential", "deep-q", "Naik et al. 2024", CENTERED),
    _algorithm("sac", "differential", "sac", "Haarnoja et al. 2018", DISCOUNTED),
    _algorithm("quantile-sac", "d3", "sac", "ours, after Dabney et al. 2018", DISCOUNTED),
    _algorithm("centered-sac", "differential", "sac", "Naik et al. 2024", CENTERED),
)
"""The field's baselines: the same code with other values of `discount`, `centered` and `termination`."""

PLANNER = _algorithm("planner", "", "planner", "ours, after Ouyang et al. 2017", {})
"""It learns by no rule: it counts, and plans."""

ALGORITHMS = {row.name: row for row in (*_cells(), *CORNERS, PLANNER)}


def algorithm(name: str) -> Algorithm:
    """The algorithm with this name."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS, hint=class_hint(str(name)) or "`perstep list` shows them.")
    return ALGORITHMS[name]
