"""Settings of the soft actor-critic. The fields' own values are those of Haarnoja et al. 2018, without a discount."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from perstep.deep.settings import NetworkConfig
from perstep.inputs.checks import choice, switch
from perstep.numerics.schedules import Decay
from perstep.rules.presets import Presets
from perstep.rules.transition import RULES, RUNNING_MEAN

HORIZON = 100.0  # of the return quantiles of d3, where nothing is discounted


@dataclass(frozen=True, kw_only=True)
class SoftActorCriticConfig(NetworkConfig):
    """Settings of SoftActorCritic."""

    presets: ClassVar[Presets] = {
        "steady": {
            "learning_starts": 100,
            "initial_temperature": 0.02,
            "normalization": "layer",
            "precision": "medium",
        },
    }
    rule: str = "d2"
    """What gives the average that is subtracted: "differential", "d2", "d3", "categorical" (R̄ of the rewards as they are earned)
    or "rvi" (f(Q), the mean value of a minibatch). With d3 a value is n return quantiles."""
    step_size: float | Decay = 3e-4
    """α, the step of Adam for critics, policy and temperature: a constant, or Decay(scale, power) with the number of updates."""
    batch_size: int = 256
    """B, the number of transitions in a minibatch."""
    replay_capacity: int = 1_000_000
    """The number of transitions that the replay keeps: the most recent ones."""
    update_every: int = 1
    """The number of steps from one update to the next."""
    num_minibatches: int = 1
    """The number of minibatches of an update."""
    level_ratio: float = 0.1
    """κ: the share of the mean value of a minibatch that is subtracted together with R̄ where nothing is discounted and ends are
    ordinary steps, so that values keep their level; with rvi f(Q) is this share, and nothing else is subtracted."""
    hidden: tuple[int, ...] = (256, 256)
    """Sizes of the hidden layers of the critics and of the policy."""
    normalization: Literal["none", "layer"] = "none"
    """Whether the hidden layers of the critics are normalised: to mean 0 and variance 1 over their features."""
    initial_temperature: float = 1.0
    """The temperature before the first update, in the unit of values: the weight of the entropy of the policy."""
    target_entropy: float | None = None
    """The entropy of the policy that the temperature seeks, of actions between −1 and 1. None: −1 for each number of an action."""
    precision: Literal["highest", "high", "medium"] = "highest"
    """How exact products of matrices are, as PyTorch names it. "medium" may round factors to bfloat16 on processors with units for
    it, and otherwise only chooses faster code: twice as fast on some."""
    compile: bool = False
    """Whether the losses are compiled with torch.compile: minutes at the beginning, and faster afterwards. It needs a C++ compiler."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("num_minibatches", 1)
        self._number("initial_temperature", 0.0, above=True)
        if self.target_entropy is not None:
            self._number("target_entropy", -math.inf, above=True)
        if self.offset_ratio:
            raise ValueError(
                f"The average here follows the rewards and needs no offset: leave out offset_ratio={self.offset_ratio:g}."
            )
        if self.rule_row.average_is_read_from_values and not self.level_share:
            raise ValueError(
                f"With rule={self.rule!r} level_ratio times the mean value is all that is subtracted. Use a level_ratio above 0 "
                f"and termination='continue', got {self.level_ratio:g} and {self.termination!r}."
            )
        choice("normalization", self.normalization, ("none", "layer"))
        choice("precision", self.precision, ("highest", "high", "medium"))
        switch("compile", self.compile)

    @property
    def kernel(self) -> int:
        """As for every learner. R̄ of rvi is shown and not subtracted: it is the running mean of the rewards."""
        return RUNNING_MEAN if self.rule_row.average_is_read_from_values else super().kernel

    @property
    def target_step(self) -> float:
        """ρ: the Polyak step of the target network; a lag counts steps, in each of which are several minibatches."""
        return super().target_step / (1 if self.target_lag is None else self.num_minibatches)

    @classmethod
    def preset_settings(cls, named: dict[str, Any]) -> dict[str, Any]:
        """As for every learner with a network. Undiscounted return quantiles have a horizon, with which they have a limit."""
        settings = super().preset_settings(named)
        rule = settings.get("rule", cls.rule)
        has_quantiles = isinstance(rule, str) and rule in RULES and RULES[rule].has_return_quantiles
        if has_quantiles and settings["preset"] != "paper" and settings.get("discount", 1.0) == 1.0:
            settings.setdefault("horizon", HORIZON)
        return settings
