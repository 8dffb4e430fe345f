"""Settings of the learners on tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from perstep.inputs.checks import count, number, switch
from perstep.numerics.schedules import Decay, as_decay
from perstep.rules.presets import Presets
from perstep.rules.settings import (
    ActionValueConfig,
    ApproximateConfig,
    reads_average_from_values,
    refuse_reading_of_values,
)
from perstep.rules.transition import AverageSteps


@dataclass(frozen=True, kw_only=True)
class TileConfig(ApproximateConfig):
    """What the learners on tiles have in common."""

    presets: ClassVar[Presets] = {
        "steady": {
            "reset_cost": "auto",
            "reward_ratio": None,
            "reward_step_size": Decay(1.0, 0.5),
            "return_mean": "delta",
            "divide_by_tilings": True,
            "tiles": "auto",
            "trace_decay": 0.7,
            "optimism": 1.0,
            "forecast": True,
        },
        "changing": {
            "reward_ratio": None,
            "reward_step_size": Decay(0.005, 0.0),
            "average_step_size": Decay(0.01, 0.0),
        },
    }
    without_traces: ClassVar[Presets] = {}
    """Steps for λ = 0, by preset: a single δ has about half the variance of a sum of them."""
    takes_risk_level: ClassVar[bool] = True
    step_size: float | Decay = 2e-2
    """α of the values, as the paper writes it: not divided by the number of tilings."""
    reward_ratio: float | None = 0.1
    """η: the step of the reward estimate is α_θ = η α."""
    num_quantiles: int = 10
    """m = n, the number of reward quantiles and of return quantiles, for the rules that have them."""
    huber: float = 1.0
    """λ of d3's quantile Huber loss; 0 for the quantile loss itself."""
    tilings: int = 32
    """The number of displaced grids over the observations."""
    tiles: int | tuple[int, ...] | Literal["auto"] = 8
    """The number of tiles of a grid, for every dimension or one number per dimension; "auto": 8 in one or two dimensions, one
    less for each further dimension, at least 3."""
    wrap: tuple[int, ...] = ()
    """Dimensions whose two ends are the same point, as those of an angle."""
    low: tuple[float, ...] | None = None
    """Lower bounds of the grids; None for the bounds of the world, if they are finite."""
    high: tuple[float, ...] | None = None
    """Upper bounds of the grids."""
    table_size: int | None = None
    """The number of features to hash into, where the full table is too large."""
    divide_by_tilings: bool = False
    """Whether the steps of values and policy are divided by the number of tilings; the paper's are not."""
    trace_decay: float = 0.0
    """λ of eligibility traces: an error δ also moves what was done k steps before, by (γλ)^k of it; 0 is the paper.
    Without traces the presets have other steps (step_size, policy_ratio); the rule "rvi" has none."""
    level_ratio: float = 0.0
    """κ: R̄ + κ times the mean of all values over the box is subtracted from every reward, so that on-policy, undiscounted values
    keep their level while R̄ is behind. In force where the level is free: with an `average_step_size` that follows the rewards,
    and where an end is an ordinary step. 0 is the paper."""
    optimism: float = 0.0
    """The size of the bonus of the unseen, as a multiple of the spread of returns. It needs scale_free. 0 is the paper."""
    optimism_delay: float = 1000.0
    """The number of steps after which the bonus begins to fall."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("huber", 0.0)
        self._number("level_ratio", 0.0)
        self._number("optimism", 0.0)
        self._number("trace_decay", 0.0, 1.0)
        self._number("optimism_delay", 0.0, above=True)
        self._count("tilings", 1)
        for name in ("tiles", "wrap", "low", "high"):  # files and command lines give lists, spaces give arrays
            value = getattr(self, name)
            value = value.tolist() if hasattr(value, "tolist") else value
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        if self.optimism and not self.scale_free:
            raise ValueError(
                "optimism is in units of the rewards seen. Use it with scale_free=True, or set optimism=0."
            )
        if self.trace_decay and self.rule_row.average_is_read_from_values:
            raise ValueError(
                f"trace_decay must be 0 for the rule {self.rule!r}, whose average is read from values that move one at a time."
            )
        if self.tiles != "auto":
            for size in self.tiles if isinstance(self.tiles, tuple) else (self.tiles,):
                count("tiles", size, 1)
        for name in ("wrap", "low", "high"):
            if not isinstance(value := getattr(self, name), tuple) and (name == "wrap" or value is not None):
                raise ValueError(f"{name} must be a sequence of numbers, one per dimension, got {value!r}.")
        for dimension in self.wrap:
            count("wrap", dimension, 0)
        for bound in (*(self.low or ()), *(self.high or ())):
            number("A bound in low or high", bound, -math.inf, above=True)
        if self.table_size is not None:
            self._count("table_size", 1)
        switch("divide_by_tilings", self.divide_by_tilings)

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """As for every learner; optimism is in units of the rewards seen."""
        settings = super().preset_settings(named)
        if not settings.get("scale_free") and "optimism" not in named:
            settings.pop("optimism", None)
        if reads_average_from_values(named.get("rule")) and "trace_decay" not in named:
            settings.pop("trace_decay", None)
        if not settings.get("trace_decay"):
            settings |= {**cls.without_traces.get(settings["preset"], {}), **named}
        return settings

    @property
    def average_steps(self) -> AverageSteps | None:
        """The steps of an R̄ beside θ, as numbers for compiled code; None where R̄ neither is free nor follows the rewards."""
        step = self.average_step_size
        if step is None or not (self._average_is_free or self.average_follows_rewards):
            return None
        decay = as_decay(step)
        by_reward = decay.scale if self.average_follows_rewards else 0.0
        return AverageSteps(decay.scale - by_reward, by_reward, decay.power, decay.delay)

    @property
    def level_share(self) -> float:
        """κ where the level of values is free and R̄ follows the rewards, which do not know it; otherwise 0. Off-policy R̄ follows δ,
        whose sum is the level."""
        free = self._average_is_free and self.termination == "continue" and self.on_policy
        return self.level_ratio if free and self.average_steps is not None else 0.0

    @property
    def value_decay(self) -> Decay:
        """α as a schedule."""
        decay = as_decay(self.step_size)
        return Decay(decay.scale / self.tilings, decay.power, decay.delay) if self.divide_by_tilings else decay


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(TileConfig):
    """Settings of ActorCritic."""

    presets: ClassVar[Presets] = {
        "steady": {
            "step_size": Decay(0.4, 0.5, 50_000.0),
            "policy_ratio": 1.0,
            "average_step_size": Decay(0.1, 1.0, 100.0),
            "level_ratio": 1.0,
            "optimism_delay": 100_000.0,
        },
        "changing": {"step_size": 0.15},
    }
    without_traces: ClassVar[Presets] = {
        "steady": {"step_size": Decay(0.8, 0.5, 20_000.0), "policy_ratio": 0.3},
        "changing": {"step_size": 0.3, "policy_ratio": 0.3},
    }
    policy_ratio: float = 0.1
    """η_π: the step of the policy is α_π = η_π α."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("policy_ratio", 0.0)
        refuse_reading_of_values(self)

    @property
    def on_policy(self) -> bool:
        """v is that of the policy."""
        return True


@dataclass(frozen=True, kw_only=True)
class TileQConfig(TileConfig, ActionValueConfig):
    """Settings of TileQ."""

    presets: ClassVar[Presets] = {
        "steady": {
            "step_size": Decay(0.3, 0.5, 50_000.0),
            "bootstrap": "sampled",
            "average_step_size": Decay(0.03, 1.0, 100.0),
            "trace_decay": 0.9,
            "epsilon": 0.1,
            "epsilon_delay": 10_000.0,
            "optimism_delay": 10_000.0,
        },
        "changing": {"step_size": 0.3, "epsilon": 0.05, "epsilon_delay": None},
    }
    without_traces: ClassVar[Presets] = {"steady": {"step_size": Decay(0.6, 0.5, 50_000.0)}}
    rule: str = "differential"
    """What a transition does to the estimates. With preset="paper", d2 needs `offset_ratio`: nothing else holds its values back."""
    step_size: float | Decay = 0.2
    """α of the values, divided by the number of tilings."""
    divide_by_tilings: bool = True
    """Whether the step of the values is divided by the number of tilings."""
    epsilon_delay: float | None = None
    """The number of steps after which ε begins to fall, as ε / (1 + t/delay); None for a constant ε."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon_delay is not None:
            self._number("epsilon_delay", 0.0, above=True)
        if self.reference == "max" and self.rule_row.average_is_read_from_values:
            raise ValueError("The maximum of Q over a box is not known on tiles. Use reference='mean' or a pair.")

    @property
    def on_policy(self) -> bool:
        """Q is that of the ε-greedy policy, unless the bootstrap is that of the best action."""
        return self.bootstrap != "greedy"
