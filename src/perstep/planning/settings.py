"""Settings of the Planner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from perstep.rules.presets import Presets
from perstep.rules.settings import AgentConfig
from perstep.rules.transition import NO_RULE, Rule


@dataclass(frozen=True, kw_only=True)
class PlannerConfig(AgentConfig):
    """Settings of Planner. There is no rule: it counts what it sees, and plans."""

    presets: ClassVar[Presets] = {"changing": {"memory": 10_000.0}}
    on_a_table: ClassVar[bool] = True
    takes_risk_level: ClassVar[bool] = True
    rule: ClassVar[str] = ""
    rule_row: ClassVar[Rule] = NO_RULE
    objective: ClassVar[str] = "reward per step"
    theta_size: ClassVar[int] = 1
    value_size: ClassVar[int] = 1
    initial_average_reward: ClassVar[None] = None
    scale_free: ClassVar[bool] = False
    target_from_quantiles: ClassVar[bool] = False
    termination: ClassVar[str] = "continue"
    forecast: ClassVar[bool] = False

    reset_cost: float | Literal["auto"] = "auto"
    """Subtracted from the reward whenever an episode ends. "auto": the return of the first episode while all rewards are the same,
    so that there is something to learn, otherwise 0 (`agent.reset_cost` is what it is now)."""
    memory: float | None = None
    """The number of steps after which what was seen counts for 1/e, in a world that changes; None: for ever."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory is not None:
            self._number("memory", 1.0)

    @property
    def steps_of_memory(self) -> float:
        """`memory` as a number."""
        return math.inf if self.memory is None else self.memory
