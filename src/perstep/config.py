"""What an agent is told: frozen settings, a line of documentation under each, impossible values refused with a sentence."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from perstep.errors import unknown
from perstep.rules import D2, DIFFERENTIAL, RULES
from perstep.schedules import Decay, as_decay, is_finite


def number(name: str, value: object, low: float, high: float = math.inf, *, above: bool = False) -> float:
    """`value` as a float, refused unless it is a finite number from `low` (or above it) to `high`."""
    if is_finite(value) and (low < value if above else low <= value) and value <= high:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    least = f"above {low:g}" if above else f"{low:g} or more"
    span = least if high == math.inf else f"between {low:g} and {high:g}"
    raise ValueError(f"{name} must be a finite number {span}, but {value!r} came.")


def count(name: str, value: object, least: int) -> int:
    """`value` as an int, refused unless it is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, but {value!r} came.")
    return int(value)


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
            if not isinstance(step, Decay) and (step is not None or name == "step_size"):
                self._number(name, 0.0, above=True)
        self._number("reward_ratio", 0.0)
        self._number("offset_ratio", 0.0)
        for name in ("num_quantiles", "num_reward_quantiles", "num_return_quantiles"):
            if name == "num_quantiles" or getattr(self, name) is not None:
                self._count(name, 1)
        for name in ("initial_average_reward", "initial_value", "reset_cost"):
            self._number(name, -math.inf, above=True)
        choice("termination", self.termination, ("continue", "mask"))
        self._count("seed", 0)
        if self.offset_ratio and self.rule_number != D2:
            raise ValueError(
                f"offset_ratio corrects the average of d2, but the rule is {self.rule!r}. Use rule='d2', or offset_ratio=0."
            )

    def _number(self, name: str, low: float, high: float = math.inf, *, above: bool = False) -> None:
        """Check a setting and keep it as a float: kernels would be compiled anew for an int."""
        object.__setattr__(self, name, number(name, getattr(self, name), low, high, above=above))

    def _count(self, name: str, least: int) -> None:
        """Check a setting and keep it as an int, which goes into files where NumPy's do not."""
        object.__setattr__(self, name, count(name, getattr(self, name), least))

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
        return self.reward_ratio * as_decay(self.step_size).scale

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
                owner = f"setting of {cls.__name__.removesuffix('Config')},"
                raise unknown(owner, name, names, hint="If it is the world's, give it to gymnasium.make.")
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
    """Whether the steps of the critic and the policy are divided by the number of tilings; the paper's are not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("policy_ratio", 0.0)
        self._number("huber", 0.0)
        self._count("tilings", 1)
        for name in ("tiles", "wrap", "low", "high"):  # lists come from files and command lines, arrays from spaces
            value = getattr(self, name)
            value = value.tolist() if hasattr(value, "tolist") else value
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        for size in self.tiles if isinstance(self.tiles, tuple) else (self.tiles,):
            count("tiles", size, 1)
        for name in ("wrap", "low", "high"):
            if not isinstance(value := getattr(self, name), tuple) and (name == "wrap" or value is not None):
                raise ValueError(f"{name} must be a sequence of numbers, one a dimension, but {value!r} came.")
        for dimension in self.wrap:
            count("wrap", dimension, 0)
        for bound in (*(self.low or ()), *(self.high or ())):
            number("A bound in low or high", bound, -math.inf, above=True)
        if self.table_size is not None:
            self._count("table_size", 1)
        if not isinstance(self.divide_by_tilings, bool):
            raise ValueError(f"divide_by_tilings must be True or False, but {self.divide_by_tilings!r} came.")

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
        self._number("epsilon", 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class DeepQConfig(LearnerConfig):
    """Settings of DeepQ."""

    rule: str = "d3"
    """What a batch does to the estimates: "differential" (Alg. 13), "d2" (Alg. 6) or "d3" (Alg. 10)."""
    step_size: float | Decay = 2e-4
    """α, the step of Adam: a constant, or Decay(scale, power) with the number of updates."""
    reward_ratio: float = 10.0
    """η: the step of the reward estimate is α_θ = η α, at every update."""
    huber: float = 1.0
    """λ of the smooth L1 and the quantile Huber loss."""
    reward_tracking: Literal["per-sample", "batch-mean"] = "per-sample"
    """θ by every reward of a batch, or by its mean as the paper has it (θ then holds quantiles of batch means)."""
    epsilon: float = 0.05
    """ε: how often the action is any, not the best, once the schedule has come down to it."""
    initial_epsilon: float = 1.0
    """ε at the beginning."""
    epsilon_steps: int = 50_000
    """Steps in which ε falls in a straight line to its last value."""
    batch_size: int = 32
    """B, transitions in a minibatch."""
    replay_capacity: int = 100_000
    """The last so many transitions are kept."""
    learning_starts: int = 100
    """Transitions in the replay before the first update."""
    update_every: int = 4
    """Steps from one update to the next."""
    target_step_size: float = 0.005
    """Polyak step of the target network; 1 copies the network after every update."""
    adam_epsilon: float = 1e-8
    """Added to the denominator of Adam."""
    gradient_clip: float | None = None
    """Largest norm of the gradient; longer ones are shortened to it."""
    network: Literal["auto", "atari", "minatar", "perceptron"] = "auto"
    """The paper's convolutional network, MinAtar's small one, or a perceptron; "auto" goes by the observations."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of the perceptron; none for values that are linear in the observation."""
    stacked_frames: bool | None = None
    """Whether an observation is a stack of frames, each of which is kept once; None asks the world and its wrappers."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the numbers inside the networks; weights are float32. bfloat16 pays where the processor has it."""
    device: str = "auto"
    """Where the networks live: "cpu", "cuda", or "auto" for a GPU if there is one."""
    compile: bool = False
    """Whether the networks are compiled with torch.compile: a minute at the beginning, faster afterwards."""
    threads: int | None = None
    """Threads of PyTorch; None for all cores, or one for a small network. The same number gives the same bits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("huber", "adam_epsilon"):
            self._number(name, 0.0, above=True)
        for name in ("epsilon", "initial_epsilon"):
            self._number(name, 0.0, 1.0)
        self._number("target_step_size", 0.0, 1.0, above=True)
        if self.gradient_clip is not None:
            self._number("gradient_clip", 0.0, above=True)
        for name in ("batch_size", "replay_capacity", "learning_starts", "update_every"):
            self._count(name, 1)
        self._count("epsilon_steps", 0)
        if self.threads is not None:
            self._count("threads", 1)
        choice("reward_tracking", self.reward_tracking, ("per-sample", "batch-mean"))
        choice("network", self.network, ("auto", "atari", "minatar", "perceptron"))
        choice("precision", self.precision, ("float32", "bfloat16"))
        if not isinstance(self.compile, bool):
            raise ValueError(f"compile must be True or False, but {self.compile!r} came.")
        if not isinstance(self.stacked_frames, bool | None):
            raise ValueError(f"stacked_frames must be True, False or None, but {self.stacked_frames!r} came.")
        if not isinstance(self.device, str):
            raise ValueError(f"device must be a name such as 'auto', 'cpu' or 'cuda', but {self.device!r} came.")
        sizes = (self.hidden,) if isinstance(self.hidden, numbers.Integral) else self.hidden
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):  # lists come from files and command lines
            raise ValueError(
                f"hidden must be a size or a sequence of sizes, such as (64, 64), but {self.hidden!r} came."
            )
        object.__setattr__(self, "hidden", tuple(count("A size in hidden", size, 1) for size in sizes))
        if self.learning_starts > self.replay_capacity:
            raise ValueError(
                f"Learning starts with {self.learning_starts:,} transitions in the replay, but it holds {self.replay_capacity:,}. "
                "Choose a larger replay_capacity or a smaller learning_starts."
            )

    def epsilon_at(self, step: int) -> float:
        """ε after this many steps."""
        share = min(step / self.epsilon_steps, 1.0) if self.epsilon_steps else 1.0
        return self.initial_epsilon + share * (self.epsilon - self.initial_epsilon)
