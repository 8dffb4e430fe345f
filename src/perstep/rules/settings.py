"""What all learners have in common, and what those of action values have in common."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from perstep.inputs.checks import LONGEST_HORIZON, choice, count, number, switch
from perstep.inputs.errors import UnknownName, unknown
from perstep.inputs.synonyms import SYNONYMS, instead_of
from perstep.numerics.policies import BOOTSTRAPS
from perstep.numerics.scale import HORIZON_FACTOR, Scale
from perstep.numerics.schedules import Decay, as_decay
from perstep.rules import presets
from perstep.rules.masses import FEWEST_ATOMS
from perstep.rules.presets import Presets
from perstep.rules.transition import RULES, Rule, Schedule, Workspace, workspace

AUTO = "auto"
PER_STEP, PER_EPISODE = OBJECTIVES = "reward per step", "return per episode"
EPISODIC: Mapping[str, Any] = {"centered": False, "discount": 1.0, "termination": "mask"}
"""What the objective "return per episode" stands for."""


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """What every agent has in common. The fields' own values are those of the preset "paper"."""

    presets: ClassVar[Presets] = {}
    on_a_table: ClassVar[bool] = False
    takes_risk_level: ClassVar[bool] = False
    preset: str = "paper"
    """Where settings that are not named come from: "steady" (an agent's default), "changing" for a world that changes, or
    "paper"."""
    reset_cost: float | Literal["auto"] = 0.0
    """Subtracted from the reward whenever an episode ends. "auto": the return of the first episode while all rewards are the same,
    so that there is something to learn, otherwise 0 (`agent.reset_cost` is what it is now); also 0 where `termination` says that
    nothing follows an end."""
    risk_level: float = 1.0
    """τ: the mean of the worst share τ of the rewards per step (CVaR) is maximised; 1 is their mean, as in the paper."""
    seed: int = 0
    """All the run's randomness comes from this number."""

    def __post_init__(self) -> None:
        choice("preset", self.preset, presets.PRESETS)
        self._number("risk_level", 0.0, 1.0, above=True)
        if self.risk_level < 1.0 and not self.takes_risk_level:
            raise ValueError(
                f"{type(self).__name__.removesuffix('Config')} knows no risk level: leave out risk_level={self.risk_level:g}."
            )
        if isinstance(self.reset_cost, str):
            choice("reset_cost", self.reset_cost, ("auto",))
        else:
            self._number("reset_cost", -math.inf, above=True)
        self._count("seed", 0)

    def _number(self, name: str, low: float, high: float = math.inf, *, above: bool = False) -> None:
        """Check a setting and keep it as a float: kernels would be compiled anew for an int."""
        object.__setattr__(self, name, number(name, getattr(self, name), low, high, above=above))

    def _count(self, name: str, least: int, most: int | None = None) -> None:
        """Check a setting and keep it as an int, which goes into files where NumPy's do not."""
        object.__setattr__(self, name, count(name, getattr(self, name), least, most))

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Self:
        """The settings as a config, others from the preset; an unknown name is refused with the nearest known one."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                owner = f"{cls.__name__.removesuffix('Config')} setting"
                if instead := instead_of(name, names) or cls._owner_of(name):
                    raise UnknownName(f"There is no {owner} {name!r}: {instead[0].lower()}{instead[1:]}")
                raise unknown(owner, name, names, hint="If it is the world's, give it to gymnasium.make.")
        for field in dataclasses.fields(cls):
            if getattr(settings.get(field.name), "ndim", 0) and "tuple" not in str(field.type):
                raise ValueError(f"{field.name} must be one value, got an array: {settings[field.name]!r}.")
        choice("preset", settings.get("preset", presets.DEFAULT), presets.PRESETS)
        return cls(**cls.preset_settings(settings))

    @staticmethod
    def _owner_of(name: str) -> str | None:
        """Whose setting a name is, ours or of another library; None if it is nobody's."""
        ours = SYNONYMS.get(name, name)
        having = {row.__name__.removesuffix("Config"): row for row in _learners(AgentConfig)}
        owners = sorted(
            learner for learner, row in having.items() if ours in {field.name for field in dataclasses.fields(row)}
        )
        return f"{'it' if ours == name else ours} is a setting of {' and of '.join(owners)}." if owners else None

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """What is named, and what the preset says of the rest."""
        preset = named.get("preset", presets.DEFAULT)
        return {**presets.defaults(cls, preset), **named, "preset": preset}

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
class LearnerConfig(AgentConfig):
    """What every learner with a rule has in common."""

    presets: ClassVar[Presets] = {"steady": {"scale_free": True, "initial_average_reward": None}}
    rule: str = "d2"
    """What a transition does to the estimates: "differential", "d2", "d3", "rvi" or "categorical"."""
    objective: Literal["reward per step", "return per episode"] = "reward per step"
    """What is maximised where episodes end. To the "reward per step" an end is a step of the world like any other. The
    "return per episode" is the sum of rewards up to an end, undiscounted: it stands for centered=False, discount=1 and
    termination="mask". Where no episode ends it has no limit."""
    step_size: float | Decay = 2e-3
    """α of the values: a constant, or Decay(scale, power) with the visits of each entry."""
    reward_ratio: float | Literal["auto"] | None = 2.0
    """η: the step of the reward estimate is α_θ = η α."""
    reward_step_size: float | Decay | None = None
    """α_θ itself, for two separate timescales, in place of reward_ratio. It falls with the number of steps."""
    offset_ratio: float | Literal["auto"] = 0.0
    """η_b of the learned offset of d2 and d3, our correction of their bias; 0 is the paper's algorithm."""
    discount: float = 1.0
    """γ, the factor of the bootstrap; 1 is the paper. Below 1 with centered=False are the discounted algorithms of the field."""
    centered: bool = True
    """Whether the average reward is subtracted from every reward; True is the paper."""
    num_quantiles: int = 51
    """m = n, the number of reward quantiles and of return quantiles, for the rules that have them."""
    num_reward_quantiles: int | None = None
    """m alone."""
    num_return_quantiles: int | None = None
    """n alone."""
    return_mean: Literal["quantiles", "delta"] = "quantiles"
    """How the mean of d3's return quantiles moves: by their own pulls, as in the paper, or by δ, as the value of d2 does. With a
    horizon it is by δ."""
    horizon: float | None = None
    """H of d3's return distribution: Ω is then the value of d2 plus the distribution of Σ g^t δ_t with g = 1 − 1/H, which has a
    limit. None is the paper, where Ω has none."""
    scale_free: bool = False
    """Whether the steps of quantiles and λ are in units of the rewards seen, and the first rewards give the first estimates."""
    initial_average_reward: float | None = 0.0
    """First guess of the average reward and of all reward quantiles. None: from the first rewards, with scale_free; otherwise 0."""
    initial_value: float = 0.0
    """First guess of every value."""
    termination: Literal["continue", "mask", "stop"] = "continue"
    """At the end of an episode: "continue" to the next start as an ordinary transition, "mask" the bootstrap, or "stop": no
    rewards come after it, which is worth −R̄/(1 − γ) where R̄ is subtracted."""
    forecast: bool = False
    """Whether it also learns what `agent.forecast` needs: how far sums of rewards vary. Values and policy do not change by it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("rule", self.rule, RULES)
        choice("objective", self.objective, OBJECTIVES)
        choice("return_mean", self.return_mean, ("quantiles", "delta"))
        switch("scale_free", self.scale_free)
        switch("forecast", self.forecast)
        for name in ("step_size", "reward_step_size"):
            self._step(name, needed=name == "step_size")
        if self.reward_step_size is not None:  # in place of the ratio
            object.__setattr__(self, "reward_ratio", None)
        if self.reward_ratio is None and self.reward_step_size is None:
            raise ValueError("The step of the reward estimate is unknown. Give reward_ratio or reward_step_size.")
        for name in ("reward_ratio", "offset_ratio"):
            value = getattr(self, name)
            if not (value is None and name == "reward_ratio") and not (self.on_a_table and value == AUTO):
                self._number(name, 0.0)
        for name in ("num_quantiles", "num_reward_quantiles", "num_return_quantiles"):
            if name == "num_quantiles" or getattr(self, name) is not None:
                self._count(name, 1)
        if self.initial_average_reward is not None:
            self._number("initial_average_reward", -math.inf, above=True)
        self._number("initial_value", -math.inf, above=True)
        choice("termination", self.termination, ("continue", "mask", "stop"))
        if self.rule_row.has_reward_masses and self.theta_size < FEWEST_ATOMS:
            raise ValueError(
                f"The rule {self.rule!r} needs at least {FEWEST_ATOMS} atoms, got num_reward_quantiles={self.theta_size}. "
                "Set it to 51."
            )
        if self.horizon is not None:
            self._check_horizon()
        self._number("discount", 0.0, 1.0, above=True)
        switch("centered", self.centered)
        self._check_objective()
        self._check_average()

    def _check_average(self) -> None:
        """Refuse settings with which the average that is subtracted has no meaning."""
        named = self.offset_ratio if self.offset_ratio != AUTO else 0.0
        if named and not self.rule_row.has_offset:
            having = " or ".join(f"rule={rule.name!r}" for rule in RULES.values() if rule.has_offset)
            raise ValueError(f"The rule {self.rule!r} has no learned offset. Use {having}, or offset_ratio=0.")
        if named and not self._average_is_free:
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
        if self.target_from_quantiles and not self.rule_row.has_reward_quantiles:
            having = " or ".join(f"rule={rule.name!r}" for rule in RULES.values() if rule.has_reward_quantiles)
            raise ValueError(
                f"risk_level={self.risk_level:g} needs reward quantiles, which say what a bad step is. Use {having}."
            )
        if not self.centered and self.discount == 1.0 and self.termination == "continue":
            raise ValueError(
                "With centered=False and discount=1 the values of a continuing task grow without bound. "
                "Use a discount below 1 or centered=True; termination='mask' if all episodes end."
            )

    def _check_objective(self) -> None:
        """Refuse an objective that other settings contradict."""
        given = {name: getattr(self, name) for name in EPISODIC}
        if self.objective == PER_STEP:
            if given == EPISODIC:
                raise ValueError(
                    "centered=False, discount=1 and termination='mask' maximise the return per episode, not the reward per step. "
                    f"Use objective={PER_EPISODE!r}."
                )
            return
        if other := ", ".join(f"{name}={value!r}" for name, value in given.items() if value != EPISODIC[name]):
            raise ValueError(
                f"objective={PER_EPISODE!r} stands for centered=False, discount=1 and termination='mask', got {other}. "
                f"Leave it out, or use objective={PER_STEP!r}."
            )
        if self.risk_level < 1.0:
            raise ValueError(
                f"risk_level={self.risk_level:g} is about the reward per step. Use it with objective={PER_STEP!r}."
            )
        if self.rule_row.average_is_read_from_values:
            raise ValueError(
                f"The rule {self.rule!r} needs an average that is subtracted. Use it with objective={PER_STEP!r}."
            )

    def _check_horizon(self) -> None:
        self._number("horizon", 1.0, LONGEST_HORIZON)
        if not self.rule_row.has_return_quantiles:
            having = " or ".join(f"rule={rule.name!r}" for rule in RULES.values() if rule.has_return_quantiles)
            raise ValueError(
                f"horizon is for a rule that learns the distribution of the return, which {self.rule!r} does not. "
                f"Use {having}, or horizon=None."
            )
        if self.value_size == 1:
            raise ValueError(
                "With a horizon the return has a spread, which needs at least two return quantiles, got 1. "
                "Set num_return_quantiles=51, or horizon=None."
            )

    def _step(self, name: str, *, needed: bool) -> None:
        """Check a step size, which may be a number or a schedule, or None if it is not needed."""
        step = getattr(self, name)
        if not isinstance(step, Decay) and (needed or step is not None):
            self._number(name, 0.0, above=True)

    @property
    def rule_row(self) -> Rule:
        """Everything there is to know about the rule."""
        return RULES[self.rule]

    @property
    def kernel(self) -> int:
        """The number of the compiled rule."""
        huber = getattr(self, "huber", 0.0)
        return self.rule_row.number_with(
            self.return_mean, self.horizon, huber, self.centered, self.average_follows_rewards
        )

    @property
    def target_from_quantiles(self) -> bool:
        """Whether θ says which steps are bad; otherwise nothing does, or several heads (risk_heads)."""
        return self.risk_level < 1.0 and getattr(self, "risk_heads", 1) == 1

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
    def _average_is_free(self) -> bool:
        """Whether δ says by how much R̄ is wrong: it does where R̄ is subtracted and nothing is discounted."""
        return self.centered and self.discount == 1.0

    @property
    def average_moves_with_value(self) -> bool:
        """Whether R̄ moves by the δ of single entries, so that its step falls with their visits."""
        return self.rule_row.average_moves_with_value and not self.average_follows_rewards

    @property
    def average_follows_rewards(self) -> bool:
        """Whether R̄ of a rule without reward quantiles is the running mean of the rewards. δ tells nothing about the average
        where it is not subtracted, and little where values are discounted."""
        return not self.centered or (self.scale_free and self.discount < 1.0)

    def ratios(self, num_entries: int) -> tuple[float, float]:
        """η and η_b. "auto": estimates that move at every step move with α; averages that move with single entries move with α
        divided by the number of entries."""
        shared = 1.0 / num_entries
        eta = shared if self.average_moves_with_value else 1.0
        free = shared if self.rule_row.has_offset and self._average_is_free else 0.0
        offset = free if self.offset_ratio == AUTO else float(self.offset_ratio)
        ratio = self.reward_ratio
        return eta if ratio is None or ratio == AUTO else float(ratio), offset

    @property
    def reward_decay(self) -> Decay | None:
        """α_θ, where it has a schedule of its own."""
        return None if self.reward_step_size is None else as_decay(self.reward_step_size)

    def schedule(self, num_entries: int = 1) -> Schedule:
        """All step sizes of a run with so many entries of a table, as numbers for compiled code."""
        alpha, (eta, offset) = self.value_decay, self.ratios(num_entries)
        theta = self.reward_decay or alpha
        return Schedule(
            alpha.scale,
            alpha.power,
            theta.scale if self.reward_decay is not None else eta * as_decay(self.step_size).scale,
            theta.power,
            offset,
            value_delay=alpha.delay,
            theta_delay=theta.delay,
        )

    @property
    def scale(self) -> Scale | None:
        """How the units of the rewards seen are taken; None where all units are 1."""
        return Scale() if self.scale_free else None

    @property
    def workspace(self) -> Workspace:
        """Memory for the pulls on a value, and how they are pulled."""
        return workspace(
            self.value_size,
            getattr(self, "huber", 0.0),
            self.discount,
            self.horizon,
            getattr(self, "tilings", 1),
            *self.end_divisors,
        )

    @property
    def end_divisors(self) -> tuple[float, float]:
        """What −R̄ is divided by for the value after a masked end, and for what the end adds to a return around its mean."""
        if (
            not self.centered
        ):  # the value is 0, and the mean that is earned no more is R̄ for each step that units look ahead
            return math.inf, 1.0 - HORIZON_FACTOR
        after = 1.0 - self.discount if self.termination == "stop" else math.inf
        return after, after

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Self:
        """As for every agent. What an objective stands for counts as if it were named, and what stands for one names it."""
        if "objective" in settings:
            named = _same(settings["objective"], PER_EPISODE)
            return super().of({**EPISODIC, **settings} if named else settings)
        rest = {field.name: field.default for field in dataclasses.fields(cls)}
        rest |= presets.defaults(cls, settings.get("preset", presets.DEFAULT)) | settings
        episodic = all(_same(rest[name], value) for name, value in EPISODIC.items())
        return super().of({**settings, "objective": PER_EPISODE} if episodic else settings)

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """What is named, and what the preset says of the rest, unless it contradicts what is named."""
        if named.get("reward_ratio") is not None and named.get("reward_step_size") is not None:
            raise ValueError(
                f"reward_step_size={named['reward_step_size']} takes the place of reward_ratio={named['reward_ratio']}. "
                "Name one of them."
            )
        preset = named.get("preset", presets.DEFAULT)
        rest = presets.defaults(cls, preset)
        for one, other in (("reward_ratio", "reward_step_size"), ("reward_step_size", "reward_ratio")):
            if named.get(one) is not None and other not in named:
                rest[other] = None  # one stands for the other
        return {**rest, **named, "preset": preset}


@dataclass(frozen=True, kw_only=True)
class ApproximateConfig(LearnerConfig):
    """What the learners on tiles and with networks have in common."""

    average_step_size: float | Decay | None = None
    """The step of R̄, falling with the number of steps, while θ stands beside it. On-policy R̄ follows the rewards, at every step:
    what is earned is the average of the policy that the values are of. Off-policy it follows δ, on greedy steps. It takes the
    place of offset_ratio, and of the step of rules without reward quantiles. None is the paper, where R̄ is the mean of θ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._step("average_step_size", needed=False)
        if self.average_step_size is not None and self.offset_ratio:
            raise ValueError(
                f"average_step_size={self.average_step_size} takes the place of offset_ratio={self.offset_ratio}. "
                "Name one of them."
            )

    @property
    def on_policy(self) -> bool:
        """Whether the values are those of what the agent does, random actions included."""
        return False

    @property
    def average_follows_rewards(self) -> bool:
        """As for every learner; and on-policy, where R̄ has a step of its own. δ would be right about the average of such values
        over all steps only, and then R̄ and values can drive each other apart (docs/theory.md)."""
        return super().average_follows_rewards or (self.average_step_size is not None and self.on_policy)

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """As for every learner; an offset that is named takes the place of the preset's average_step_size."""
        settings = super().preset_settings(named)
        if named.get("offset_ratio") and "average_step_size" not in named:
            settings.pop("average_step_size", None)
        return settings


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
        self._check_epsilon()
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

    def _check_epsilon(self) -> None:
        self._number("epsilon", 0.0, 1.0)


def _learners(config: type[AgentConfig]) -> list[type[AgentConfig]]:
    """The configs of the learners themselves: nothing is derived from them here, though flags of a command line may be."""
    derived = [child for child in config.__subclasses__() if child.__module__.endswith(".settings")]
    return [leaf for child in derived for leaf in _learners(child)] if derived else [config]


def _same(given: object, value: object) -> bool:
    """Whether a setting has this value; given may be anything, also an array."""
    return isinstance(given, bool | int | float | str) and given == value


def reads_average_from_values(rule: object) -> bool:
    """Whether there is a rule with this name whose average is f(Q)."""
    return isinstance(rule, str) and rule in RULES and RULES[rule].average_is_read_from_values


def refuse_reading_of_values(config: LearnerConfig) -> None:
    """Refuse a rule that reads its average from action values, for a learner without them."""
    if config.rule_row.average_is_read_from_values:
        raise ValueError(
            f"The rule {config.rule!r} reads the average reward from action values, which this learner does not keep. "
            "Use QLearning or TileQ."
        )
