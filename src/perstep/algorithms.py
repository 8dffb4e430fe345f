"""The lattice as a table: every algorithm of the paper is one rule and one learner."""

from __future__ import annotations

from dataclasses import dataclass

from perstep.config import ActorCriticConfig, DeepQConfig, LearnerConfig, QLearningConfig, TDLearningConfig
from perstep.errors import unknown


@dataclass(frozen=True)
class Algorithm:
    """One cell of the lattice."""

    name: str
    rule: str
    learner: str
    """Name of the agent that runs it."""
    source: str
    """Where it is written down."""
    config: type[LearnerConfig]


def _table(*rows: Algorithm) -> dict[str, Algorithm]:
    return {row.name: row for row in rows}


ALGORITHMS = _table(
    Algorithm("differential-td", "differential", "TDLearning", "Wan et al. 2021", TDLearningConfig),
    Algorithm("d2-td", "d2", "TDLearning", "Alg. 3", TDLearningConfig),
    Algorithm("d3-td", "d3", "TDLearning", "Alg. 7", TDLearningConfig),
    Algorithm("differential-q", "differential", "QLearning", "Alg. 11", QLearningConfig),
    Algorithm("d2-q", "d2", "QLearning", "Alg. 1, 4", QLearningConfig),
    Algorithm("d3-q", "d3", "QLearning", "Alg. 2, 8", QLearningConfig),
    Algorithm("differential-actor-critic", "differential", "ActorCritic", "Alg. 12", ActorCriticConfig),
    Algorithm("d2-actor-critic", "d2", "ActorCritic", "Alg. 5", ActorCriticConfig),
    Algorithm("d3-actor-critic", "d3", "ActorCritic", "Alg. 9", ActorCriticConfig),
    Algorithm("differential-deep-q", "differential", "DeepQ", "Alg. 13", DeepQConfig),
    Algorithm("d2-deep-q", "d2", "DeepQ", "Alg. 6", DeepQConfig),
    Algorithm("d3-deep-q", "d3", "DeepQ", "Alg. 10", DeepQConfig),
)


def algorithm(name: str) -> Algorithm:
    """The algorithm with this name."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
