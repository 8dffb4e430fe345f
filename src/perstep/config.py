"""What an agent is told: frozen settings, a line of documentation under each, impossible values refused with a sentence."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from perstep.errors import unknown
from perstep.rules import D2, DIFFERENTIAL, RULES
from perstep.schedules import Decay, as_decay


def number(name: str, value: object, low: float, high: float = math.inf, *, above: bool = False) -> None:
    """Refuse `value` unless it is a finite number from `low` (or above it) to `high`."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if fits and (low < value if above else low <= value) and value <= high:  # type: ignore[operator]
        return
    least = f"above {low:g}" if above else f"{low:g} or more"
    span = least if high == math.inf else f"between {low:g} and {high:g}"
    raise ValueError(f"{name} must be a finite number {span}, but {value!r} came.")


def count(name: str, value: object, least: int) -> None:
    """Refuse `value` unless it is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, but {value!r} came.")


def choice(name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse `value` unless it is one of the known names."""
    if value not in known:
        raise unknown(name, value, known)


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """What every learner has in common."""

    rule: str = "d2"
    """What a transition does to the estimates: "differential", "d2" or "d3"."""
    step_size: float | Decay = 2e-3
    """α of the values: a constant, or Decay(scale, power) with the visits of each entry."""
    reward_ratio: float = 2.0
    """η: the step of the reward estimate is α_θ = η α."""
    reward_step_size: float | Decay | None = None
    """α_θ itself, where two timescales are wanted; overrides reward_ratio. It falls with the number of steps."""
    offset_ratio: float = 0.0
    """η_b of the learned offset of d2, our correction of its bias; 0 is the paper's algorithm."""
    num_quantiles: int = 51
    """m = n, reward and return quantiles (`differential` has none, d2 no return quantiles)."""
    num_reward_quantiles: int | None = None
    """m alone."""
    num_return_quantiles: int | None = None
    """n alone."""
    initial_average_reward: float = 0.0
    """First guess of the average reward and of all reward quantiles."""
    initial_value: float = 0.0
    """First guess of every value."""
    termination: Literal["continue", "mask"] = "continue"
    """At the end of an episode: "continue" to the next start as an ordinary transition, or "mask" the bootstrap."""
    reset_cost: float = 0.0
    """Taken from the reward whenever an episode ends."""
    seed: int = 0
    """All the run's randomness comes from this number."""

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        for name in ("step_size", "reward_step_size"):
            step = getattr(self, name)
            if step is not None and not isinstance(step, Decay):
                number(name, step, 0.0, above=True)
        number("reward_ratio", self.reward_ratio, 0.0)
        number("offset_ratio", self.offset_ratio, 0.0)
        for name in ("num_quantiles", "num_reward_quantiles", "num_return_quantiles"):
            if (quantiles := getattr(self, name)) is not None:
                count(name, quantiles, 1)
        for name in ("initial_average_reward", "initial_value", "reset_cost"):
            number(name, getattr(self, name), -math.inf, above=True)
        choice("termination", self.termination, ("continue", "mask"))
        count("seed", self.seed, 0)
        if self.offset_ratio and self.rule_number != D2:
            raise ValueError(
                f"offset_ratio corrects the average of d2, but the rule is {self.rule!r}. Use rule='d2', or offset_ratio=0."
            )

    @property
    def rule_number(self) -> int:
        """The rule as compiled code knows it."""
        return RULES.index(self.rule)

    @property
    def theta_size(self) -> int:
        """m: quantiles of the reward; one number, the average, for `differential`."""
        return 1 if self.rule_number == DIFFERENTIAL else self.num_reward_quantiles or self.num_quantiles

    @property
    def value_size(self) -> int:
        """n: numbers a value is made of; quantiles of the return for d3, one otherwise."""
        return self.num_return_quantiles or self.num_quantiles if self.rule == "d3" else 1

    @property
    def value_decay(self) -> Decay:
        """α as a schedule."""
        return as_decay(self.step_size)

    @property
    def theta_scale(self) -> float:
        """First step of α_θ, which may be 0 with reward_ratio = 0."""
        if self.reward_step_size is not None:
            return as_decay(self.reward_step_size).scale
        return self.reward_ratio * self.value_decay.scale

    @property
    def theta_power(self) -> float:
        """How fast α_θ falls: as α does, unless it has a schedule of its own."""
        return (self.value_decay if self.reward_step_size is None else as_decay(self.reward_step_size)).power

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Self:
        """The settings as a config; a name that is none of them is refused with the nearest one."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                raise unknown(f"setting of {cls.__name__.removesuffix('Config')},", name, names)
        return cls(**settings)

    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to_json(self) -> dict[str, Any]:
        """Plain values, for files."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The inverse of to_json."""
        return cls.of({name: Decay(**v) if isinstance(v, dict) else v for name, v in values.items()})


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(LearnerConfig):
    """Settings of ActorCritic."""

    step_size: float | Decay = 2e-2
    """α of the critic, as the paper writes it: not divided by the number of tilings."""
    reward_ratio: float = 0.1
    """η: the step of the reward estimate is α_θ = η α."""
    policy_ratio: float = 0.1
    """η_π: the step of the policy is α_π = η_π α."""
    num_quantiles: int = 10
    """m = n, reward and return quantiles (`differential` has none, d2 no return quantiles)."""
    huber: float = 1.0
    """λ of d3's quantile Huber loss; 0 for the quantile loss itself."""
    tilings: int = 32
    """Displaced grids over the observations."""
    tiles: int | tuple[int, ...] = 8
    """Tiles of a grid, for every dimension or one by one."""
    wrap: tuple[int, ...] = ()
    """Dimensions whose ends meet, as those of an angle."""
    low: tuple[float, ...] | None = None
    """Lower bounds of the grids, where the world's own are not wanted or not finite."""
    high: tuple[float, ...] | None = None
    """Upper bounds of the grids."""
    table_size: int | None = None
    """Features to hash into, where the full table is too large."""
    divide_by_tilings: bool = False
    """Whether α and α_π are divided by the number of tilings; the paper's are not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        number("policy_ratio", self.policy_ratio, 0.0)
        number("huber", self.huber, 0.0)
        count("tilings", self.tilings, 1)
        for name in ("tiles", "wrap", "low", "high"):  # lists come from files and command lines
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))

    @property
    def value_decay(self) -> Decay:
        """α as a schedule."""
        decay = as_decay(self.step_size)
        return Decay(decay.scale / self.tilings, decay.power) if self.divide_by_tilings else decay


@dataclass(frozen=True, kw_only=True)
class TDLearningConfig(LearnerConfig):
    """Settings of TDLearning."""


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(LearnerConfig):
    """Settings of QLearning."""

    epsilon: float = 0.1
    """ε: how often the action is any, not the best."""

    def __post_init__(self) -> None:
        super().__post_init__()
        number("epsilon", self.epsilon, 0.0, 1.0)
