"""Settings of the learner with a network."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from perstep.inputs.checks import choice, count, switch
from perstep.numerics.schedules import Decay
from perstep.rules.presets import Presets
from perstep.rules.settings import AUTO, ApproximateConfig
from perstep.rules.transition import RULES

MOST_THREADS = 1024  # many more end the process
HEADS = 15  # for a risk level
LARGEST_SEED = 2**63 - 1  # PyTorch takes no larger one


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(ApproximateConfig):
    """What the learners with networks have in common."""

    presets: ClassVar[Presets] = {
        "steady": {
            "reset_cost": "auto",
            "reward_ratio": None,
            "reward_step_size": Decay(1.0, 0.5),
            "average_step_size": Decay(0.03, 1.0, 100.0),
            "hidden": (256, 256),
            "learning_starts": 1_000,
            "inputs": "standardized",
            "forecast": True,
        },
        "changing": {
            "step_size": Decay(2e-4, 0.0),
            "reward_step_size": Decay(0.005, 0.0),
            "average_step_size": Decay(0.001, 0.0),
        },
    }
    takes_risk_level: ClassVar[bool] = True
    huber: float = 1.0
    """λ of the quantile Huber loss, and of the smooth L1 loss of DeepQ."""
    batch_size: int = 32
    """B, the number of transitions in a minibatch."""
    replay_capacity: int = 100_000
    """The number of transitions that the replay keeps: the most recent ones."""
    learning_starts: int = 100
    """The number of transitions in the replay before the first update; by default at most replay_capacity."""
    update_every: int = 4
    """The number of steps from one update to the next."""
    target_step_size: float | None = 0.005
    """Polyak step of the target network; 1 copies the network after every update. None: from target_lag."""
    target_lag: float | None = None
    """How many steps the target network is behind: target_step_size is then update_every / target_lag. In so many steps of the
    life values reach return_steps steps further back, so that after t steps the agent looks t · return_steps / target_lag steps
    ahead: as far as the task needs, if it is long enough."""
    level_ratio: float = 0.0
    """κ: the share of the mean value of a minibatch that is subtracted together with R̄ where nothing is discounted and ends are
    ordinary steps, so that values keep their level; 0 is the paper."""
    adam_epsilon: float = 1e-8
    """The constant in the denominator of Adam."""
    gradient_clip: float | None = None
    """The largest norm of the gradient; longer gradients are scaled down to it. None for no limit."""
    inputs: Literal["given", "standardized"] = "given"
    """How a network reads vectors: as they are, or minus their running mean and divided by their running spread. Images and
    discrete observations are read as they are."""
    network: Literal["auto", "atari", "minatar", "perceptron"] = "auto"
    """The paper's convolutional network, MinAtar's small one, or a perceptron; "auto" chooses by the observations."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers of the perceptron; empty for values that are linear in the observation."""
    stacked_frames: bool | None = None
    """Whether an observation is a stack of frames, each of which is stored once; None asks the world and its wrappers."""
    device: str = "auto"
    """Where the networks live: "cpu", "cuda", or "auto" for a GPU if there is one."""
    threads: int | None = None
    """The number of PyTorch threads; None for all cores, or one for a small network. The same number gives the same bits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("huber", "adam_epsilon"):
            self._number(name, 0.0, above=True)
        self._check_target_network()
        self._number("level_ratio", 0.0, 1.0)
        if self.gradient_clip is not None:
            self._number("gradient_clip", 0.0, above=True)
        for name in ("batch_size", "replay_capacity", "learning_starts", "update_every"):
            self._count(name, 1)
        if self.threads is not None:
            self._count("threads", 1, MOST_THREADS)
        self._count("seed", 0, LARGEST_SEED)
        choice("inputs", self.inputs, ("given", "standardized"))
        choice("network", self.network, ("auto", "atari", "minatar", "perceptron"))
        if not isinstance(self.stacked_frames, bool | None):
            raise ValueError(f"stacked_frames must be True, False or None, got {self.stacked_frames!r}.")
        if not isinstance(self.device, str):
            raise ValueError(f"device must be a name such as 'auto', 'cpu' or 'cuda', got {self.device!r}.")
        sizes = (self.hidden,) if isinstance(self.hidden, numbers.Integral) else self.hidden
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):  # files and command lines give lists
            raise ValueError(f"hidden must be a size or a sequence of sizes, such as (64, 64), got {self.hidden!r}.")
        object.__setattr__(self, "hidden", tuple(count("A size in hidden", size, 1) for size in sizes))
        if self.learning_starts > self.replay_capacity:
            raise ValueError(
                f"learning_starts={self.learning_starts:,} transitions do not fit in a replay of {self.replay_capacity:,}. "
                "Choose a larger replay_capacity or a smaller learning_starts."
            )

    @property
    def from_stream(self) -> bool:
        """Whether the estimates of the reward follow the rewards as they are earned."""
        return True

    @property
    def average_follows_rewards(self) -> bool:
        """As for every learner; and where all estimates of the reward follow the stream."""
        return super().average_follows_rewards or self.from_stream

    def _check_target_network(self) -> None:
        if self.target_lag is not None:
            self._number("target_lag", 0.0, above=True)
            object.__setattr__(self, "target_step_size", None)  # in place of it
        elif self.target_step_size is None:
            raise ValueError("The step of the target network is unknown. Give target_lag or target_step_size.")
        else:
            self._number("target_step_size", 0.0, 1.0, above=True)

    @property
    def target_step(self) -> float:
        """ρ: the Polyak step of the target network."""
        if self.target_lag is None:
            return float(self.target_step_size or 0.0)
        return min(self.update_every / self.target_lag, 1.0)

    @property
    def level_share(self) -> float:
        """κ where the level of the values is free: it is not where they are discounted, or where an end is worth a given number."""
        return self.level_ratio if self._average_is_free and self.termination == "continue" else 0.0

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """As for every learner. Learning starts at the latest when a replay that is named is full."""
        if named.get("target_step_size") is not None and named.get("target_lag") is not None:
            raise ValueError(
                f"target_lag={named['target_lag']} takes the place of target_step_size={named['target_step_size']}. "
                "Name one of them."
            )
        settings = super().preset_settings(named)
        for one, other in (("target_step_size", "target_lag"), ("target_lag", "target_step_size")):
            if named.get(one) is not None and other not in named:
                settings[other] = None  # one stands for the other
        if isinstance(capacity := named.get("replay_capacity"), int) and "learning_starts" not in named:
            settings["learning_starts"] = min(settings.get("learning_starts", cls.learning_starts), max(capacity, 1))
        return settings


@dataclass(frozen=True, kw_only=True)
class DeepQConfig(NetworkConfig):
    """Settings of DeepQ."""

    presets: ClassVar[Presets] = {
        "steady": {
            "reward_tracking": "stream",
            "level_ratio": 0.01,
            "target_step_size": None,
            "target_lag": 80.0,
            "step_size": Decay(5e-4, 0.5, 5_000.0),
            "network_ratio": AUTO,
            "gradient_clip": 10.0,
            "greedy_network": "online",
            "return_steps": 3,
            "batch_size": 64,
            "epsilon": 0.02,
            "epsilon_steps": 10_000,
            "longest_repeat": 64,
            "precision": "auto",
        },
    }
    rule: str = "d3"
    """What a minibatch does to the estimates: "differential" (Alg. 13), "d2" (Alg. 6) or "d3" (Alg. 10)."""
    step_size: float | Decay = 2e-4
    """α, the step of Adam: a constant, or Decay(scale, power) with the number of updates."""
    reward_ratio: float | None = 10.0
    """η: the step of the reward estimate is α_θ = η α, at every update."""
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
    return_steps: int = 1
    """The number of steps whose rewards are summed before the bootstrap; 1 is the paper. It is 1 with a horizon, with several
    heads, and where θ does not follow the stream."""
    greedy_network: Literal["rule", "online", "target"] = "rule"
    """The network that picks the best action of the bootstrap: as the listing of the rule says, the online network for all
    rules (double Q-learning), or the target network."""
    network_ratio: float | Literal["auto"] = 1.0
    """The factor of α for this network. "auto": 0.2 for more than 500,000 weights, such as the paper's for Atari, 2.5 for MinAtar's
    small convolutional network, and 1 for others."""
    risk_discount: float = 0.99
    """γ of the heads of a risk level, whose gains are read from discounted values; see risk_heads."""
    risk_heads: int = 1
    """With a risk_level below 1: K, the number of heads of the network, each with its own guess of the reward below which a step is
    bad; the agent acts by the best. With 1 the guess comes from θ: cheaper, but the policy may be one that only suits its own
    guess. Where a risk_level is named, and neither the rule nor the heads are, the presets have 15 heads and rule="d2"."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Number format inside the networks; weights are float32. bfloat16 is faster on processors that support it; "auto" takes
    it there for networks of more than 500,000 weights."""
    compile: bool = False
    """Whether the networks are compiled with torch.compile: a minute at the beginning, faster afterwards."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rule_row.has_loss:
            having = ", ".join(repr(rule.name) for rule in RULES.values() if rule.has_loss)
            raise ValueError(f"The rule {self.rule!r} is not written for networks. The rules of DeepQ are {having}.")
        if isinstance(self.network_ratio, str):
            choice("network_ratio", self.network_ratio, (AUTO,))
        else:
            self._number("network_ratio", 0.0, above=True)
        for name in ("epsilon", "initial_epsilon"):
            self._number(name, 0.0, 1.0)
        self._number("risk_discount", 0.0, 1.0, above=True)
        for name in ("longest_repeat", "return_steps"):
            self._count(name, 1)
        self._count("epsilon_steps", 0)
        self._count("risk_heads", 1)
        if self.has_risk_heads:
            self._check_risk_heads()
        choice("reward_tracking", self.reward_tracking, ("per-sample", "batch-mean", "stream"))
        choice("greedy_network", self.greedy_network, ("rule", "online", "target"))
        choice("precision", self.precision, ("float32", "bfloat16", "auto"))
        switch("compile", self.compile)
        if self.return_steps > 1 and self.reward_tracking != "stream":
            raise ValueError(
                f"With return_steps={self.return_steps} a minibatch holds sums of rewards, which tell nothing about the reward of "
                f"one step. Use reward_tracking='stream', got {self.reward_tracking!r}, or return_steps=1."
            )
        if self.risk_level < 1.0 and self.reward_tracking != "stream":
            raise ValueError(
                f"risk_level={self.risk_level:g} needs quantiles of the rewards as they are earned. Use reward_tracking='stream', "
                f"got {self.reward_tracking!r}."
            )
        if self.rule_row.has_reward_masses and self.reward_tracking != "stream":
            raise ValueError(
                f"The masses of the rule {self.rule!r} follow the rewards as they are earned. Use reward_tracking='stream', got "
                f"{self.reward_tracking!r}."
            )
        if self.horizon is not None and self.return_steps > 1:
            raise ValueError(
                f"A horizon weighs every δ by its distance, but with return_steps={self.return_steps} a minibatch holds their "
                "sums. Use return_steps=1, or horizon=None."
            )

    @property
    def has_risk_heads(self) -> bool:
        """Whether a network has a head for each of several targets of a risk level."""
        return self.risk_level < 1.0 and self.risk_heads > 1

    @property
    def value_size(self) -> int:
        """n: how many numbers a value consists of; with several heads one for each."""
        return self.risk_heads if self.has_risk_heads else super().value_size

    def _check_risk_heads(self) -> None:
        if self.risk_heads == 2:
            raise ValueError("risk_heads must be 1, or 3 or more, got 2.")
        if self.rule_row.has_return_quantiles:
            raise ValueError(
                f"risk_heads={self.risk_heads} needs values of one number, but those of rule={self.rule!r} are quantiles. "
                "Use rule='d2', or risk_heads=1."
            )
        if (
            self.risk_discount == 1.0
            or self.return_steps > 1
            or self.termination == "stop"
            or self.reward_tracking != "stream"
        ):
            raise ValueError(
                f"risk_heads={self.risk_heads} needs a risk_discount below 1, return_steps=1, reward_tracking='stream' and a "
                f"termination other than 'stop', got risk_discount={self.risk_discount:g}, return_steps={self.return_steps}, "
                f"reward_tracking={self.reward_tracking!r} and termination={self.termination!r}. Or set risk_heads=1."
            )

    @property
    def from_stream(self) -> bool:
        """Whether the estimates of the reward follow the rewards as they are earned."""
        return self.reward_tracking == "stream"

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """As for every learner with a network; what several steps before the bootstrap and several heads need is set with them."""
        settings = super().preset_settings(named)
        if named.get("horizon") is not None and "return_steps" not in named:
            settings.pop("return_steps", None)
        if cls._scans_by_default(named, settings):
            fitting = {"rule": "d2", "risk_heads": HEADS, "return_steps": 1}
            settings |= {name: value for name, value in fitting.items() if name not in named}
        if settings.get("reward_tracking") != "stream" and "return_steps" not in named:
            settings.pop("return_steps", None)
        return settings

    @staticmethod
    def _scans_by_default(named: dict[str, Any], settings: dict[str, Any]) -> bool:
        """Whether a risk level has several heads where nothing is said about them: if nothing that is named contradicts."""
        level, heads = named.get("risk_level", 1.0), named.get("risk_heads")
        if not isinstance(level, numbers.Real) or not level < 1.0 or settings["preset"] == "paper" or heads == 1:
            return False
        fits = named.get("rule", "d2") not in RULES or not RULES[named.get("rule", "d2")].has_return_quantiles
        alike = named.get("return_steps", 1) == 1 and named.get("termination") != "stop"
        return heads is not None or (fits and alike and named.get("reward_tracking", "stream") == "stream")

    @property
    def best_by(self) -> str:
        """The network that picks the best action of the bootstrap: "online" or "target"."""
        return self.rule_row.best_by if self.greedy_network == "rule" else self.greedy_network

    def epsilon_at(self, step: int) -> float:
        """ε after `step` steps."""
        share = min(step / self.epsilon_steps, 1.0) if self.epsilon_steps else 1.0
        return self.initial_epsilon + share * (self.epsilon - self.initial_epsilon)
