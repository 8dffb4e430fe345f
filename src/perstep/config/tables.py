"""Settings of the learners on tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from perstep.config.checks import choice
from perstep.config.learner import ActionValueConfig, LearnerConfig, refuse_reading_of_values


@dataclass(frozen=True, kw_only=True)
class TDLearningConfig(LearnerConfig):
    """Settings of TDLearning."""

    on_a_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_reading_of_values(self)
        if self.risk_level < 1.0:
            raise ValueError("TDLearning predicts a given policy and maximises nothing: leave out risk_level.")


def refuse_risk(config: ActionValueConfig) -> None:
    """Refuse settings with which a risk level has no meaning."""
    scans = not config.target_from_quantiles
    if (scans and config.value_size > 1) or config.rule_row.average_is_read_from_values or config.bootstrap != "greedy":
        raise ValueError(
            f"risk_level={config.risk_level:g} needs rule='d2' (or 'differential') and bootstrap='greedy', got "
            f"rule={config.rule!r} and bootstrap={config.bootstrap!r}."
        )
    if config.discount < 1.0 or not config.centered:
        raise ValueError(
            f"risk_level={config.risk_level:g} is about the reward per step: use discount=1 and centered=True."
        )


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(ActionValueConfig):
    """Settings of QLearning."""

    on_a_table: ClassVar[bool] = True

    exploration: Literal["epsilon", "curiosity"] = "epsilon"
    """How it explores: by random actions with probability epsilon, as in the paper, or by expeditions to what it knows least
    (curiosity.py), whose share falls with time."""
    replay_capacity: int = 0
    """The number of last transitions of which one is learnt from again at every step; 0 for none, as in the paper. Only with
    bootstrap="greedy"."""
    model_capacity: int = 0
    """The number of different transitions (S, A, R, S′) that are counted, so that values move to the mean target over all that was
    seen after a pair, instead of one transition's; 0 for none, as in the paper. Only with bootstrap="greedy". There is no model
    with a risk_level below 1."""
    risk_scan: int = 25
    """With a risk_level below 1: K, the number of learners, each with its own guess of the reward below which a step is bad. With 1
    the guess comes from θ: cheaper, but the policy may be one that only suits its own guess."""
    least_exploration: float = 0.0
    """The share of expeditions that remains for ever; above 0 for a world that changes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("exploration", self.exploration, ("epsilon", "curiosity"))
        self._number("least_exploration", 0.0, 1.0)
        self._count("replay_capacity", 0)
        self._count("model_capacity", 0)
        self._count("risk_scan", 1)
        if self.risk_scan == 2:
            raise ValueError("risk_scan must be 1, or 3 or more, got 2.")
        if self.risk_level < 1.0:
            refuse_risk(self)
        for name in ("replay_capacity", "model_capacity"):
            if getattr(self, name) and (self.bootstrap != "greedy" or self.rule_row.average_is_read_from_values):
                raise ValueError(
                    f"{name} is for bootstrap='greedy' and rules other than 'rvi', got bootstrap={self.bootstrap!r} and "
                    f"rule={self.rule!r}. Set {name}=0."
                )

    @property
    def has_model(self) -> bool:
        """Whether transitions are counted. With a risk level the rewards that values learn from change as the target does."""
        return self.model_capacity > 0 and self.risk_level == 1.0
