"""Settings of the learners on tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from perstep.numerics.schedules import Decay
from perstep.rules.presets import Presets
from perstep.rules.settings import ActionValueConfig, LearnerConfig, refuse_reading_of_values


@dataclass(frozen=True, kw_only=True)
class TableConfig(LearnerConfig):
    """What the learners on tables have in common."""

    presets: ClassVar[Presets] = {
        "steady": {
            "step_size": Decay(1.0, 0.8, 10.0),
            "reward_ratio": "auto",
            "offset_ratio": "auto",
            "return_mean": "delta",
            "forecast": True,
        },
        "changing": {"step_size": Decay(0.1, 0.0)},
    }
    on_a_table: ClassVar[bool] = True

    reward_ratio: float | Literal["auto"] | None = 2.0
    """η: the step of the reward estimate is α_θ = η α. "auto": 1 where it moves at every step, as reward quantiles do, and 1
    divided by the number of entries of the table where it moves with single entries, as the average of `differential` does."""
    offset_ratio: float | Literal["auto"] = 0.0
    """η_b of the learned offset of d2 and d3, our correction of their bias; 0 is the paper's algorithm. "auto": 1 divided by the
    number of entries of the table."""


@dataclass(frozen=True, kw_only=True)
class TDLearningConfig(TableConfig):
    """Settings of TDLearning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_reading_of_values(self)


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(TableConfig, ActionValueConfig):
    """Settings of QLearning."""

    presets: ClassVar[Presets] = {
        "steady": {"epsilon": Decay(1.0, 0.5, 1.0), "reset_cost": "auto"},
        "changing": {"epsilon": 0.05},
    }
    takes_risk_level: ClassVar[bool] = True
    epsilon: float | Decay = 0.1  # type: ignore[assignment]
    """ε: probability of a random action. A Decay falls with the visits of the state."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.risk_level < 1.0:
            self._check_risk()

    def _check_epsilon(self) -> None:
        if not isinstance(self.epsilon, Decay):
            self._number("epsilon", 0.0, 1.0)
        elif self.epsilon.scale > 1.0:
            raise ValueError(
                f"epsilon is a probability, so it begins at 1 or less, got {self.epsilon}. Try Decay(1.0, 0.5)."
            )

    @property
    def epsilon_decay(self) -> tuple[float, float, float]:
        """Scale, power and delay of ε."""
        if not isinstance(self.epsilon, Decay):
            return float(self.epsilon), 0.0, 1.0
        return self.epsilon.scale, self.epsilon.power, self.epsilon.delay

    def _check_risk(self) -> None:
        """Refuse settings with which a risk level has no meaning."""
        if self.rule_row.average_is_read_from_values or self.bootstrap != "greedy":
            raise ValueError(
                f"risk_level={self.risk_level:g} needs rule='d2' and bootstrap='greedy', got rule={self.rule!r} and "
                f"bootstrap={self.bootstrap!r}."
            )
        if self.discount < 1.0 or not self.centered:
            raise ValueError(
                f"risk_level={self.risk_level:g} is about the reward per step: use discount=1 and centered=True."
            )
