"""The settings of agents: frozen, a line of documentation under each, impossible values refused with a sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import numbers
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from perstep import presets
from perstep.errors import UnknownName, unknown
from perstep.policies import BOOTSTRAPS
from perstep.rules import RULES, Rule, Schedule, Workspace, workspace
from perstep.schedules import Decay, as_decay, is_finite


def number(name: str, value: object, low: float, high: float = math.inf, *, above: bool = False) -> float:
    """`value` as a float, refused unless it is a finite number from `low` (or above it) to `high`."""
    if is_finite(value) and (low < value if above else low <= value) and value <= high:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    least = f"above {low:g}" if above else f"{low:g} or more"
    most = f"above {low:g} and at most {high:g}" if above else f"between {low:g} and {high:g}"
    span = least if high == math.inf else most
    raise ValueError(f"{name} must be a finite number {span}, got {value!r}.")


def count(name: str, value: object, least: int) -> int:
    """`value` as an int, refused unless it is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def choice(name: str, value: object, known: Iterable[str]) -> None:
    """Refuse `value` unless it is one of the known names."""
    if not isinstance(value, str) or value not in known:
        raise unknown(name, value, known)


CALLED_ELSEWHERE = {
    "gamma": "discount",
    "learning_rate": "step_size",
    "alpha": "step_size",
    "buffer_size": "replay_capacity",
    "train_freq": "update_every",
    "tau": "target_step_size",
    "exploration_final_eps": "epsilon",
    "exploration_initial_eps": "initial_epsilon",
    "n_quantiles": "num_quantiles",
    "max_grad_norm": "gradient_clip",
}
"""Names of settings in other libraries → ours."""


OVERRIDES = {
    "reward_ratio": ("reward_step_size",),
    "offset_ratio": ("average_step_size", "discount", "termination"),
    "initial_average_reward": ("scale_free", "first_average"),
    "epsilon": ("exploration",),
    "bootstrap": ("exploration", "replay_capacity"),
}
"""A setting that is named → settings of a preset that would make it void."""


@contextlib.contextmanager
def naming(setting: str) -> Iterator[None]:
    """Let an error about a value say which setting gave it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from error


def switch(name: str, value: object) -> None:
    """Refuse `value` unless it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """What every learner has in common. The fields' own values are those of the preset "paper"."""

    on_a_table: ClassVar[bool] = False
    preset: str = "paper"
    """Where settings that are not named come from: "steady" (an agent's default), "changing" for a world that changes, or
    "paper"."""
    rule: str = "d2"
    """What a transition does to the estimates: "differential", "d2", "d3" or "rvi"."""
    step_size: float | Decay = 2e-3
    """α of the values: a constant, or Decay(scale, power) with the visits of each entry."""
    reward_ratio: float = 2.0
    """η: the step of the reward estimate is α_θ = η α."""
    reward_step_size: float | Decay | None = None
    """α_θ itself, for two separate timescales; overrides reward_ratio. It falls with the number of steps."""
    offset_ratio: float = 0.0
    """η_b of the learned offset of d2 and d3, our correction of their bias; 0 is the paper's algorithm."""
    average_step_size: float | Decay | None = None
    """The step by which R̄ follows δ on greedy steps, falling with the number of steps; with a discount it follows the rewards,
    on all steps. θ then stands beside R̄. It overrides offset_ratio, and the step of rules without reward quantiles. None is
    the paper, where R̄ is the mean of θ."""
    discount: float = 1.0
    """γ, the factor of the bootstrap; 1 is the paper. Below 1, with centered=False, the rules are the usual discounted ones."""
    centered: bool = True
    """Whether the average reward is subtracted from every reward; True is the paper."""
    num_quantiles: int = 51
    """m = n, the number of reward quantiles and of return quantiles, for the rules that have them."""
    num_reward_quantiles: int | None = None
    """m alone."""
    num_return_quantiles: int | None = None
    """n alone."""
    return_mean: Literal["quantiles", "delta"] = "quantiles"
    """How the mean of d3's return quantiles moves: by their own pulls, as in the paper, or by δ, as the value of d2 does."""
    scale_free: bool = False
    """Whether the steps of quantiles and λ are in units of the rewards seen, and the first rewards give the first estimates."""
    first_average: Literal["mean", "best"] = "mean"
    """With scale_free, the first R̄: the mean of the first rewards, or the best one, an optimist's guess."""
    initial_average_reward: float = 0.0
    """First guess of the average reward and of all reward quantiles; without scale_free."""
    initial_value: float = 0.0
    """First guess of every value."""
    termination: Literal["continue", "mask", "stop"] = "continue"
    """At the end of an episode: "continue" to the next start as an ordinary transition, "mask" the bootstrap, or "stop": no
    rewards come after it, which is worth −R̄/(1 − γ) where R̄ is subtracted."""
    reset_cost: float | Literal["auto"] = 0.0
    """Subtracted from the reward whenever an episode ends. "auto", for tables: the return of the first episode while all rewards
    are the same, so that there is something to learn, otherwise 0 (`agent.reset_cost` is what it is now)."""
    seed: int = 0
    """All the run's randomness comes from this number."""

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        choice("preset", self.preset, presets.PRESETS)
        choice("return_mean", self.return_mean, ("quantiles", "delta"))
        choice("first_average", self.first_average, ("mean", "best"))
        switch("scale_free", self.scale_free)
        for name in ("step_size", "reward_step_size", "average_step_size"):
            step = getattr(self, name)
            if not isinstance(step, Decay) and (step is not None or name == "step_size"):
                self._number(name, 0.0, above=True)
        self._number("reward_ratio", 0.0)
        self._number("offset_ratio", 0.0)
        for name in ("num_quantiles", "num_reward_quantiles", "num_return_quantiles"):
            if name == "num_quantiles" or getattr(self, name) is not None:
                self._count(name, 1)
        if self.reset_cost == "auto" and not self.on_a_table:
            raise ValueError(
                "reset_cost='auto' is for tables. Use termination='stop' on tiles and with networks: an end is then worth what "
                "follows it, nothing."
            )
        for name in ("initial_average_reward", "initial_value", "reset_cost"):
            if getattr(self, name) != "auto" or name != "reset_cost":
                self._number(name, -math.inf, above=True)
        choice("termination", self.termination, ("continue", "mask", "stop"))
        self._count("seed", 0)
        self._number("discount", 0.0, 1.0, above=True)
        switch("centered", self.centered)
        if self.offset_ratio and not self.rule_row.has_offset:
            having = " or ".join(f"rule={rule.name!r}" for rule in RULES.values() if rule.has_offset)
            raise ValueError(f"The rule {self.rule!r} has no learned offset. Use {having}, or offset_ratio=0.")
        if self.offset_ratio and not (self.centered and self.discount == 1.0):
            raise ValueError(
                "offset_ratio corrects the average that is subtracted from undiscounted rewards. Use it with centered=True and "
                "discount=1, or set offset_ratio=0."
            )
        if self.termination == "stop" and self.centered and self.discount == 1.0:
            raise ValueError(
                "With termination='stop' the value after an end is −R̄/(1 − γ), so it needs a discount below 1. "
                "Use discount=0.99, or termination='continue'."
            )
        if self.rule_row.average_is_read_from_values and not (self.centered and self.discount == 1.0):
            raise ValueError(
                f"The rule {self.rule!r} needs centered=True and discount=1: its average is f(Q) of such values."
            )
        if not self.centered and self.discount == 1.0 and self.termination == "continue":
            raise ValueError(
                "With centered=False and discount=1 the values of a task that goes on grow without bound. "
                "Use a discount below 1 or centered=True; termination='mask' if all episodes end."
            )

    def _number(self, name: str, low: float, high: float = math.inf, *, above: bool = False) -> None:
        """Check a setting and keep it as a float: kernels would be compiled anew for an int."""
        object.__setattr__(self, name, number(name, getattr(self, name), low, high, above=above))

    def _count(self, name: str, least: int) -> None:
        """Check a setting and keep it as an int, which goes into files where NumPy's do not."""
        object.__setattr__(self, name, count(name, getattr(self, name), least))

    @property
    def rule_row(self) -> Rule:
        """Everything there is to know about the rule."""
        return RULES[self.rule]

    @property
    def theta_size(self) -> int:
        """m: the number of reward quantiles; 1, the average, for a rule without them."""
        return self.rule_row.theta_size(self.num_reward_quantiles or self.num_quantiles)

    @property
    def value_size(self) -> int:
        """n: how many numbers a value consists of."""
        return self.rule_row.value_size(self.num_return_quantiles or self.num_quantiles)

    @property
    def value_decay(self) -> Decay:
        """α as a schedule."""
        return as_decay(self.step_size)

    @property
    def schedule(self) -> Schedule:
        """All step sizes of a run, as numbers for compiled code."""
        decay = self.value_decay
        by_visits = self.rule_row.average_moves_with_value and not self.average_follows_rewards
        theta = self.value_decay if self.reward_step_size is None else as_decay(self.reward_step_size)
        average = None if self.average_step_size is None else as_decay(self.average_step_size)
        by_delta = self.centered and self.discount == 1.0  # otherwise δ says nothing about R̄
        follows = average is not None and (by_delta or self.average_follows_rewards)
        return Schedule(
            decay.scale,
            decay.power,
            self.theta_scale,
            self.theta_power,
            self.offset_ratio,
            theta_by_visits=by_visits,
            value_delay=decay.delay,
            theta_delay=theta.delay,
            average_scale=average.scale if average is not None and follows else 0.0,
            average_power=average.power if average is not None and follows else 0.0,
            average_delay=average.delay if average is not None and follows else 1.0,
            moves_theta=not self.rule_row.has_reward_quantiles,
            scale_free=self.scale_free,
            optimistic=self.first_average == "best",
            follows_rewards=self.average_follows_rewards,
        )

    @property
    def average_follows_rewards(self) -> bool:
        """Whether R̄ of a rule without reward quantiles is the running mean of the rewards. δ tells nothing about the average
        where it is not subtracted, and little where values are discounted."""
        return not self.centered or (self.scale_free and self.discount < 1.0)

    @property
    def workspace(self) -> Workspace:
        """Memory for the pulls on a value, and how they are pulled."""
        return workspace(
            self.value_size,
            getattr(self, "huber", 0.0),
            self.discount,
            self.centered,
            stops=self.termination == "stop" and self.centered,
            average_apart=self.schedule.average_scale > 0.0,
            follows_rewards=self.average_follows_rewards,
            mean_by_delta=self.return_mean == "delta" and self.rule_row.has_return_quantiles,
        )

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
        """The settings as a config, others from the preset; an unknown name is refused with the nearest known one."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                owner = f"setting of {cls.__name__.removesuffix('Config')},"
                if (ours := CALLED_ELSEWHERE.get(name)) in names:
                    raise UnknownName(f"There is no {owner} {name!r}: it is called {ours!r} here.")
                raise unknown(owner, name, names, hint="If it is the world's, give it to gymnasium.make.")
        choice("preset", settings.get("preset", presets.DEFAULT), presets.PRESETS)
        return cls(**cls.preset_settings(settings))

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """What is named, and what the preset says of the rest, unless it contradicts what is named."""
        preset = named.get("preset", presets.DEFAULT)
        rest = presets.defaults(cls.__name__, preset)
        for name, overridden in OVERRIDES.items():
            if name in named:
                rest = {other: value for other, value in rest.items() if other not in overridden}
        if (rule := RULES.get(named.get("rule", ""))) is not None and rule.average_is_read_from_values:
            rest.pop("discount", None)
        if {**rest, **named}.get("discount", 1.0) == 1.0:
            rest.pop("termination", None)
        if not {**rest, **named}.get("scale_free"):
            rest.pop("optimism", None)
        if "learning_starts" in rest:  # a small replay that is named must not contradict it
            capacity = named.get("replay_capacity")
            if isinstance(capacity, int) and capacity > 0:
                rest["learning_starts"] = min(rest["learning_starts"], capacity)
        return {**rest, **named, "preset": preset}

    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to_json(self) -> dict[str, Any]:
        """Plain values, for files. A step that falls from the first visit on is written as before there were delays."""
        values = dataclasses.asdict(self)
        for value in values.values():
            if isinstance(value, dict) and value.get("delay") == 1.0:
                del value["delay"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The inverse of to_json."""
        plain = {name: Decay(**v) if isinstance(v, dict) else v for name, v in values.items()}
        return cls.of({"preset": "paper", **plain})  # what an older file does not name is as it was then


@dataclass(frozen=True, kw_only=True)
class TileConfig(LearnerConfig):
    """What the learners on tiles have in common."""

    step_size: float | Decay = 2e-2
    """α of the values, as the paper writes it: not divided by the number of tilings."""
    reward_ratio: float = 0.1
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
    optimism: float = 0.0
    """How much the unknown is hoped to hold, as a multiple of what an end is worth where ends are good, or of the spread of
    returns where nothing ends. It needs scale_free. 0 is the paper."""
    optimism_delay: float = 1000.0
    """Where nothing ends: the number of steps after which the hope begins to fall."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("huber", 0.0)
        self._number("optimism", 0.0)
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

    @property
    def value_decay(self) -> Decay:
        """α as a schedule."""
        decay = as_decay(self.step_size)
        return Decay(decay.scale / self.tilings, decay.power, decay.delay) if self.divide_by_tilings else decay


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(TileConfig):
    """Settings of ActorCritic."""

    policy_ratio: float = 0.1
    """η_π: the step of the policy is α_π = η_π α."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("policy_ratio", 0.0)
        _refuse_reading_of_values(self)


@dataclass(frozen=True, kw_only=True)
class TDLearningConfig(LearnerConfig):
    """Settings of TDLearning."""

    on_a_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_reading_of_values(self)


def _refuse_reading_of_values(config: LearnerConfig) -> None:
    """Refuse a rule that reads its average from action values, for a learner without them."""
    if config.rule_row.average_is_read_from_values:
        raise ValueError(
            f"The rule {config.rule!r} reads the average reward from action values, which this learner does not keep. "
            "Use QLearning or TileQ."
        )


@dataclass(frozen=True, kw_only=True)
class ActionValueConfig(LearnerConfig):
    """What the learners of action values on tables and tiles have in common."""

    epsilon: float = 0.1
    """ε: probability of a random action."""
    bootstrap: Literal["greedy", "sampled", "expected"] = "greedy"
    """The action at the next state whose value is the target: the best one (Q-learning), the one taken next (Sarsa) or the
    average over the policy (Expected Sarsa)."""
    reference: str | tuple[Any, int] = "mean"
    """f(Q) of the rule "rvi": "mean", "max" (tables only) or one pair (observation, action)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("epsilon", 0.0, 1.0)
        choice("bootstrap", self.bootstrap, BOOTSTRAPS)
        if self.bootstrap == "expected" and self.value_size > 1:
            raise ValueError(
                f"bootstrap='expected' averages values of one number, but those of rule={self.rule!r} are {self.value_size} "
                "quantiles, whose average is not the quantiles of the mixture. Use bootstrap='sampled' or another rule."
            )
        if isinstance(self.reference, str):
            choice("reference", self.reference, ("mean", "max"))
            return
        try:
            observation, action = self.reference
            plain = observation.tolist() if hasattr(observation, "tolist") else observation
            pair = (tuple(plain) if isinstance(plain, list) else plain, count("action", action, 0))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"reference must be 'mean', 'max' or a pair (observation, action), got {self.reference!r}."
            ) from error
        object.__setattr__(self, "reference", pair)


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
    least_exploration: float = 0.0
    """The share of expeditions that remains for ever; above 0 for a world that changes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("exploration", self.exploration, ("epsilon", "curiosity"))
        self._number("least_exploration", 0.0, 1.0)
        self._count("replay_capacity", 0)


@dataclass(frozen=True, kw_only=True)
class TileQConfig(TileConfig, ActionValueConfig):
    """Settings of TileQ."""

    rule: str = "differential"
    """What a transition does to the estimates. d2 needs `offset_ratio` here: without it nothing holds its values back."""
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


@dataclass(frozen=True, kw_only=True)
class DeepQConfig(LearnerConfig):
    """Settings of DeepQ."""

    rule: str = "d3"
    """What a minibatch does to the estimates: "differential" (Alg. 13), "d2" (Alg. 6) or "d3" (Alg. 10)."""
    step_size: float | Decay = 2e-4
    """α, the step of Adam: a constant, or Decay(scale, power) with the number of updates."""
    reward_ratio: float = 10.0
    """η: the step of the reward estimate is α_θ = η α, at every update."""
    huber: float = 1.0
    """λ of the smooth L1 and the quantile Huber loss."""
    reward_tracking: Literal["per-sample", "batch-mean", "stream"] = "per-sample"
    """θ moves by every reward of a minibatch, or by their mean as in the paper (θ then holds quantiles of batch means), or
    by every reward once, as it is earned; R̄ is then the running mean of the rewards, with average_step_size."""
    epsilon: float = 0.05
    """ε: probability of a random action at the end of its schedule."""
    initial_epsilon: float = 1.0
    """ε at the beginning."""
    epsilon_steps: int = 50_000
    """The number of steps in which ε falls linearly to its final value."""
    longest_repeat: int = 1
    """The largest number of steps for which a random action is repeated; a number k is drawn in proportion to k^−1.5. It falls
    to 1 as ε falls to its final value. ε is the share of random steps all the same. 1 is the paper."""
    batch_size: int = 32
    """B, the number of transitions in a minibatch."""
    replay_capacity: int = 100_000
    """The number of transitions that the replay keeps: the most recent ones."""
    learning_starts: int = 100
    """The number of transitions in the replay before the first update."""
    update_every: int = 4
    """The number of steps from one update to the next."""
    return_steps: int = 1
    """The number of steps whose rewards are summed before the bootstrap; 1 is the paper."""
    greedy_network: Literal["rule", "online", "target"] = "rule"
    """The network that picks the best action of the bootstrap: as the listing of the rule says, the online network for all
    rules (double Q-learning), or the target network."""
    target_step_size: float = 0.005
    """Polyak step of the target network; 1 copies the network after every update."""
    adam_epsilon: float = 1e-8
    """The constant in the denominator of Adam."""
    gradient_clip: float | None = None
    """The largest norm of the gradient; longer gradients are scaled down to it. None for no limit."""
    large_network_ratio: float = 1.0
    """The factor of α for a network of more than 500,000 weights, such as the paper's for Atari."""
    inputs: Literal["given", "standardized"] = "given"
    """How a network reads vectors: as they are, or minus their running mean and divided by their running spread. Images and
    discrete observations are read as they are."""
    network: Literal["auto", "atari", "minatar", "perceptron"] = "auto"
    """The paper's convolutional network, MinAtar's small one, or a perceptron; "auto" chooses by the observations."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers of the perceptron; empty for values that are linear in the observation."""
    stacked_frames: bool | None = None
    """Whether an observation is a stack of frames, each of which is stored once; None asks the world and its wrappers."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Number format inside the networks; weights are float32. bfloat16 is faster on processors that support it; "auto" takes
    it there for networks of more than 500,000 weights."""
    device: str = "auto"
    """Where the networks live: "cpu", "cuda", or "auto" for a GPU if there is one."""
    compile: bool = False
    """Whether the networks are compiled with torch.compile: a minute at the beginning, faster afterwards."""
    threads: int | None = None
    """The number of PyTorch threads; None for all cores, or one for a small network. The same number gives the same bits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rule_row.has_loss:
            having = ", ".join(repr(rule.name) for rule in RULES.values() if rule.has_loss)
            raise ValueError(f"The rule {self.rule!r} is not written for networks. The rules of DeepQ are {having}.")
        for name in ("huber", "adam_epsilon", "large_network_ratio"):
            self._number(name, 0.0, above=True)
        for name in ("epsilon", "initial_epsilon"):
            self._number(name, 0.0, 1.0)
        self._number("target_step_size", 0.0, 1.0, above=True)
        if self.gradient_clip is not None:
            self._number("gradient_clip", 0.0, above=True)
        for name in (
            "batch_size",
            "replay_capacity",
            "learning_starts",
            "update_every",
            "longest_repeat",
            "return_steps",
        ):
            self._count(name, 1)
        self._count("epsilon_steps", 0)
        if self.threads is not None:
            self._count("threads", 1)
        choice("reward_tracking", self.reward_tracking, ("per-sample", "batch-mean", "stream"))
        choice("greedy_network", self.greedy_network, ("rule", "online", "target"))
        choice("inputs", self.inputs, ("given", "standardized"))
        choice("network", self.network, ("auto", "atari", "minatar", "perceptron"))
        choice("precision", self.precision, ("float32", "bfloat16", "auto"))
        switch("compile", self.compile)
        if not isinstance(self.stacked_frames, bool | None):
            raise ValueError(f"stacked_frames must be True, False or None, got {self.stacked_frames!r}.")
        if not isinstance(self.device, str):
            raise ValueError(f"device must be a name such as 'auto', 'cpu' or 'cuda', got {self.device!r}.")
        sizes = (self.hidden,) if isinstance(self.hidden, numbers.Integral) else self.hidden
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):  # files and command lines give lists
            raise ValueError(f"hidden must be a size or a sequence of sizes, such as (64, 64), got {self.hidden!r}.")
        object.__setattr__(self, "hidden", tuple(count("A size in hidden", size, 1) for size in sizes))
        if self.return_steps > 1 and self.reward_tracking != "stream":
            raise ValueError(
                f"With return_steps={self.return_steps} a minibatch holds sums of rewards, which tell nothing about the reward of "
                f"one step. Use reward_tracking='stream', got {self.reward_tracking!r}, or return_steps=1."
            )
        if self.learning_starts > self.replay_capacity:
            raise ValueError(
                f"learning_starts={self.learning_starts:,} transitions do not fit in a replay of {self.replay_capacity:,}. "
                "Choose a larger replay_capacity or a smaller learning_starts."
            )

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """As for every learner. Without a discount, rewards cannot stop at an end, and R̄ follows δ as the rule says."""
        settings = super().preset_settings(named)
        if settings.get("discount") == 1.0:
            tied = ("termination", "reward_tracking", "reward_step_size", "average_step_size")
            settings = {name: value for name, value in settings.items() if name in named or name not in tied}
        if settings.get("reward_tracking") != "stream" and "return_steps" not in named:
            settings.pop("return_steps", None)
        return settings

    @property
    def best_by(self) -> str:
        """The network that picks the best action of the bootstrap: "online" or "target"."""
        return self.rule_row.best_by if self.greedy_network == "rule" else self.greedy_network

    def epsilon_at(self, step: int) -> float:
        """ε after `step` steps."""
        share = min(step / self.epsilon_steps, 1.0) if self.epsilon_steps else 1.0
        return self.initial_epsilon + share * (self.epsilon - self.initial_epsilon)
