"""The rules, in the order of the listings: what one transition does to the reward estimate and how it pulls a value.

A rule sees two vectors: the estimate (n numbers for S, or for S and A) and the bootstrap (n numbers for S′). It moves θ, writes
the pull on the estimate and returns the TD error δ. The learner owns the vectors and applies `estimate += α · pull`.

Everything that other code asks about a rule is a field of its row in `RULES`; nobody compares names or numbers. The same rules
for networks, as losses of a batch, are in deep/losses.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.compiled import inlined, merged
from perstep.masses import new_masses, track_masses
from perstep.quantiles import LEAST_FACTOR, horizon_pulls, huber_pulls, levels, mean, quantile_pulls, track
from perstep.schedules import step_size
from perstep.units import FIRST, begin, new_units, return_unit, reward_unit, see

Floats = NDArray[np.float64]


REFERENCES = ("pair", "mean", "max")
"""What f(Q) of the rule `rvi` reads: the value of one pair, the mean or the maximum of all values."""
PAIR, MEAN, MAX = 0, 1, 2
NO_REFERENCE = -1


class RewardEstimate(NamedTuple):
    """The estimate of the reward per step: R̄ is the mean of θ plus the offset."""

    theta: Floats  # (m,) reward quantiles; (1,) for a rule that learns the average alone
    offset: Floats  # (1,) b, zero unless it is learnt
    tau: Floats  # (m,)
    units: Floats  # the spreads of what was seen (units.py)
    first: Floats  # (128,) the first rewards, in order; empty where the first estimates are given
    masses: Floats  # (m,) of a rule with masses on a grid, which θ is read from (masses.py); (0,) for other rules
    grid: Floats  # (3,) where these masses are; (0,) for other rules


class Workspace(NamedTuple):
    """The memory that a rule writes to, allocated once per run, and the settings of its target and its loss."""

    pull: Floats  # (n,)
    ordered: Floats  # (n + 2,)
    tau: Floats  # (n,)
    nothing: Floats  # (n,) the bootstrap of a masked end: zeros, unless `stops`
    sums: Floats  # (n + 1,)
    mixed: Floats  # (n,) the bootstrap of a learner that averages over actions
    huber: float  # λ of the quantile Huber loss; 0 for the quantile loss itself
    discount: float  # γ; 1 is the paper
    centered: bool  # whether R̄ is subtracted from the reward; True is the paper
    follows_rewards: bool  # whether R̄ (of d2 and d3: the offset) follows the rewards instead of δ; False is the paper
    stops: bool  # whether rewards stop at a masked end: the value after it is then −R̄/(1 − γ), which is 0 without centering
    horizon_factor: float  # g of return quantiles with a horizon; 0 is the paper: without one
    num_active: int  # how many weights move together as one value


class Steps(NamedTuple):
    """The step sizes of one transition."""

    value: float  # α
    theta: float  # α_θ
    offset: float  # η_b α
    reward_unit: float = 1.0  # the unit of θ and its steps; 1 is the paper
    value_unit: float = 1.0  # the unit of return quantiles and their steps; 1 is the paper


class Schedule(NamedTuple):
    """α, α_θ and η_b of a whole run, as numbers for compiled code."""

    value_scale: float
    value_power: float
    theta_scale: float
    theta_power: float
    offset_ratio: float
    theta_by_visits: bool  # whether α_θ falls with the visits of the entry (see Rule.average_moves_with_value)
    value_delay: float = 1.0
    theta_delay: float = 1.0
    scale_free: bool = False  # whether steps are in the units of what was seen


class AverageSteps(NamedTuple):
    """On tiles: the step by which R̄ follows δ on greedy steps, or the rewards on all steps, while θ stands beside it
    (`average_step_size`)."""

    scale: float = 0.0  # 0: there is none, and R̄ is the mean of θ plus the offset
    power: float = 0.0
    delay: float = 1.0
    moves_theta: bool = False  # of rules without reward quantiles
    follows_rewards: bool = False  # on all steps


def reward_estimate(
    num_quantiles: int, initial: float | None, scale_free: bool = False, has_masses: bool = False
) -> RewardEstimate:
    """θ at its initial guess, no offset, nothing seen. `initial` None: 0, and with `scale_free` the first rewards then give the
    first estimates."""
    guess = 0.0 if initial is None else float(initial)
    masses, grid = new_masses(num_quantiles, guess) if has_masses else (np.zeros(0), np.zeros(0))
    return RewardEstimate(
        np.full(num_quantiles, guess),
        np.zeros(1),
        levels(num_quantiles),
        new_units(),
        np.zeros(FIRST if scale_free and initial is None else 0),
        masses,
        grid,
    )


def workspace(
    num_quantiles: int,
    huber: float = 0.0,
    discount: float = 1.0,
    centered: bool = True,
    follows_rewards: bool = False,
    stops: bool = False,
    horizon: float | None = None,
    num_active: int = 1,
) -> Workspace:
    """Memory for the pulls on one value of `num_quantiles` numbers, and how they are pulled."""
    n = num_quantiles
    return Workspace(
        pull=np.zeros(n),
        ordered=np.zeros(n + 2),
        tau=levels(n),
        nothing=np.zeros(n),
        sums=np.zeros(n + 1),
        mixed=np.zeros(n),
        huber=huber,
        discount=discount,
        centered=centered,
        follows_rewards=follows_rewards or not centered,
        stops=stops,
        horizon_factor=0.0 if horizon is None else horizon_factor(horizon),
        num_active=num_active,
    )


def horizon_factor(horizon: float) -> float:
    """g = 1 − 1/H: the weight of the next δ, relative to the present one."""
    return max(1.0 - 1.0 / horizon, LEAST_FACTOR)


@inlined
def look_at(rewards: Any, schedule: Any, reward: Any, ended: Any, after_end: Any, looks_back: Any) -> None:
    """Before a rule: let the units see the reward, and the first rewards give the first estimates."""
    if schedule.scale_free:
        see(rewards.units, reward, after_end, ended, looks_back)
        begin(rewards.units, rewards.first, rewards.theta, rewards.offset, rewards.tau, reward)


@inlined
def value_step(schedule: Any, visits: Any) -> Any:
    """α after this many visits of the entry."""
    return step_size(schedule.value_scale, schedule.value_power, schedule.value_delay, visits)


@inlined
def steps_now(schedule: Any, visits: Any, clock: Any, units: Any) -> Any:
    """The steps of one transition: α by the visits of the entry, α_θ by the clock or by the visits as the rule asks."""
    alpha = value_step(schedule, visits)
    counted = visits if schedule.theta_by_visits else clock
    alpha_theta = step_size(schedule.theta_scale, schedule.theta_power, schedule.theta_delay, counted)
    offset = schedule.offset_ratio * alpha
    if schedule.scale_free:
        return Steps(alpha, alpha_theta, offset, reward_unit(units), return_unit(units))
    return Steps(alpha, alpha_theta, offset, 1.0, 1.0)


@inlined
def average_reward(rewards: Any) -> Any:
    """R̄ = (1/m) Σ θ_i + b."""
    return mean(rewards.theta) + rewards.offset[0]


@inlined
def value_after_end(rewards: Any, work: Any) -> Any:
    """What comes after an end where rewards stop, in values from which R̄ is taken off: Σ γ^k (0 − R̄)."""
    return -average_reward(rewards) / (1.0 - work.discount) if work.stops else 0.0


@inlined
def nothing_follows(rewards: Any, work: Any) -> Any:
    """The bootstrap of a masked end."""
    if work.stops:
        value = value_after_end(rewards, work)
        for j in range(work.nothing.shape[0]):
            work.nothing[j] = value
    return work.nothing


@inlined
def surplus(reward: Any, average: Any, work: Any) -> Any:
    """R − R̄; R itself where rewards are not centered."""
    return reward - average if work.centered else reward


# A rule has two parts, in this order: the reward moves θ, which gives R̄; then the value is pulled by δ with this R̄.


@inlined
def track_quantiles(rewards: Any, reward: Any, steps: Any) -> Any:
    """θ by quantile regression (Eq. 6), and R̄ = (1/m) Σ θ_i + b."""
    track(rewards.theta, rewards.tau, reward, steps.theta * steps.reward_unit)
    return average_reward(rewards)


@inlined
def track_categorical(rewards: Any, reward: Any, steps: Any) -> Any:
    """The masses of `categorical`, and θ, which is read from them (decision 0014); then R̄."""
    follow_masses(rewards, reward, steps.theta)
    return average_reward(rewards)


@inlined
def follow_masses(rewards: Any, reward: Any, step: Any) -> None:
    """Move masses and θ. The offset is what is left between R̄ and the mean of θ: R̄ moves as the mean of the masses does."""
    before = mean(rewards.theta)
    moved = track_masses(rewards.masses, rewards.grid, rewards.tau, reward, step, rewards.theta)
    rewards.offset[0] += moved - (mean(rewards.theta) - before)


@inlined
def differential(rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """Wan et al. 2021; Alg. 11–12: δ with the old R̄, then R̄ by δ, or as the running mean of the rewards."""
    delta = surplus(reward, average, work) + work.discount * bootstrap[0] - estimate[0]
    rewards.theta[0] += steps.theta * (reward - rewards.theta[0] if work.follows_rewards else delta)
    work.pull[0] = delta
    return delta


@inlined
def pull_value(rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """δ with the new R̄, then the offset, which is ours (docs/decisions/0001-learned-offset.md)."""
    delta = surplus(reward, average, work) + work.discount * bootstrap[0] - estimate[0]
    rewards.offset[0] += steps.offset * (reward - average if work.follows_rewards else delta)
    work.pull[0] = delta
    return delta


@inlined
def pull_quantiles(
    rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any
) -> Any:
    """All Ω_j at once from the old Ω. Tables use the quantile loss, tiles the quantile Huber loss."""
    delta = pull_shape(rewards, average, reward, bootstrap, estimate, steps, work)
    unit = 1.0 if work.huber > 0.0 else steps.value_unit  # λ is in units already
    if unit != 1.0:
        for j in range(work.pull.shape[0]):
            work.pull[j] = unit * work.pull[j]
    return delta


@inlined
def pull_quantiles_by_delta(
    rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any
) -> Any:
    """As `pull_quantiles`, but the mean of Ω moves by δ, as a single value does (ours): only what is left of the pulls at mean 0
    comes from the quantile loss."""
    delta = pull_shape(rewards, average, reward, bootstrap, estimate, steps, work)
    unit = 1.0 if work.huber > 0.0 else steps.value_unit
    middle = mean(work.pull)
    for j in range(work.pull.shape[0]):
        work.pull[j] = unit * (work.pull[j] - middle) + delta
    return delta


@inlined
def pull_shape(rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """The pulls of the loss on Ω, in its own unit; and the offset, if there is one. Returns δ of the means."""
    shift = surplus(reward, average, work)
    delta = shift + work.discount * mean(bootstrap) - mean(estimate)
    if work.huber > 0.0:
        width = work.huber * steps.value_unit
        huber_pulls(shift, work.discount, bootstrap, estimate, work.tau, width, work.ordered, work.sums, work.pull)
    else:
        quantile_pulls(shift, work.discount, bootstrap, estimate, work.tau, work.ordered, work.pull)
    if steps.offset > 0.0:
        rewards.offset[0] += steps.offset * (reward - average if work.follows_rewards else delta)
    return delta


@inlined
def pull_with_horizon(
    rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any
) -> Any:
    """Ω is Q of d2 plus the distribution of Σ g^t δ_t (ours; docs/decisions/0013-horizon.md)."""
    delta = surplus(reward, average, work) + work.discount * mean(bootstrap) - mean(estimate)
    step = work.num_active * steps.value
    horizon_pulls(delta, work.horizon_factor, bootstrap, estimate, work.tau, step, work.ordered, work.pull)
    if steps.offset > 0.0:
        rewards.offset[0] += steps.offset * (reward - average if work.follows_rewards else delta)
    return delta


@inlined
def rvi(rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """Abounadi, Bertsekas & Borkar 2001: R̄ is f(Q), which the learner reads from its values after every move."""
    delta = surplus(reward, average, work) + work.discount * bootstrap[0] - estimate[0]
    work.pull[0] = delta
    return delta


def mean_of_last_axis(numbers: Any) -> Any:
    """The mean of the last axis of a NumPy array or a tensor: (…, n) → (…)."""
    return numbers[..., 0] if numbers.shape[-1] == 1 else numbers.mean(-1)


GREY, BLUE, ORANGE, GREEN = (
    "#777777",
    "#0072B2",
    "#D55E00",
    "#009E73",
)  # colors that color-blind readers can distinguish


DIFFERENTIAL, D2, D3, RVI, CATEGORICAL, D3_BY_DELTA, D3_WITH_HORIZON = range(7)
"""The rules as compiled code knows them: functions as arguments are never cached, numbers are."""


@inlined
def track_rewards(rule: Any, rewards: Any, reward: Any, steps: Any) -> Any:
    """Let a reward move θ as the rule with this number does; returns R̄."""
    if rule in (DIFFERENTIAL, RVI):
        return rewards.theta[0]  # the old one
    if rule == CATEGORICAL:
        return track_categorical(rewards, reward, steps)
    return track_quantiles(rewards, reward, steps)


@merged
def pull_of_rule(
    rule: Any, rewards: Any, average: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any
) -> Any:
    """What the rule with this number does after θ has moved; returns δ and leaves the pull in `work.pull`. An unknown number gives
    NaN, which every agent refuses."""
    if rule == DIFFERENTIAL:
        return differential(rewards, average, reward, bootstrap, estimate, steps, work)
    if rule in (D2, CATEGORICAL):
        return pull_value(rewards, average, reward, bootstrap, estimate, steps, work)
    if rule == D3:
        return pull_quantiles(rewards, average, reward, bootstrap, estimate, steps, work)
    if rule == RVI:
        return rvi(rewards, average, reward, bootstrap, estimate, steps, work)
    if rule == D3_BY_DELTA:
        return pull_quantiles_by_delta(rewards, average, reward, bootstrap, estimate, steps, work)
    if rule == D3_WITH_HORIZON:
        return pull_with_horizon(rewards, average, reward, bootstrap, estimate, steps, work)
    for j in range(work.pull.shape[0]):
        work.pull[j] = np.nan
    return np.nan


@inlined
def apply_rule(rule: Any, rewards: Any, reward: Any, bootstrap: Any, estimate: Any, steps: Any, work: Any) -> Any:
    """The rule with this number; returns δ and leaves the pull in `work.pull`."""
    average = track_rewards(rule, rewards, reward, steps)
    return pull_of_rule(rule, rewards, average, reward, bootstrap, estimate, steps, work)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Everything that other code asks about one rule."""

    name: str
    label: str
    """The name in figures and tables, as the paper writes it."""
    about: str
    """What it learns, in a few words."""
    source: str
    """Where it was published."""
    number: int
    """Its number in compiled code."""
    number_by_delta: int | None = None
    """With return_mean="delta"; None where that means nothing."""
    number_with_horizon: int | None = None
    """With a horizon; None where that means nothing."""
    value: Callable[..., Any] = mean
    """Compiled: the value that a vector of n numbers stands for."""
    values: Callable[[Any], Any] = mean_of_last_axis
    """The same for arrays and tensors: (…, n) → (…)."""
    has_reward_quantiles: bool = False
    """Whether θ holds m quantiles of the reward; otherwise it is one number, the average."""
    has_reward_masses: bool = False
    """Whether these quantiles are read from masses on a grid, which is what it learns."""
    has_return_quantiles: bool = False
    """Whether a value is n quantiles of the return; otherwise it is one number."""
    has_offset: bool = False
    """Whether it can learn an offset of the average (`offset_ratio`)."""
    average_moves_with_value: bool = False
    """Whether R̄ moves by δ together with one entry (Wan et al. 2021), so that its step falls with the visits of that entry.
    θ moves at every step whatever the entry, so its step falls with the clock."""
    average_is_read_from_values: bool = False
    """Whether R̄ is a function f(Q) of the action values, which the learner computes (setting `reference`)."""
    has_loss: bool = True
    """Whether it is written for networks too, in deep/losses.py."""
    best_by: str = "target"
    """The network that picks a* for the bootstrap: "target" (the maximum of the target network) or "online"."""
    setting_labels: Mapping[str, str] = field(default_factory=dict)
    """What the paper's tables call a setting, where that depends on the rule."""
    line: Mapping[str, Any] = field(default_factory=lambda: {"color": GREEN, "linestyle": "-."})
    """The line style in figures, as matplotlib's keywords."""

    def number_with(self, return_mean: str, horizon: float | None) -> int:
        """The number with these settings."""
        if horizon is not None and self.number_with_horizon is not None:
            return self.number_with_horizon
        return self.number_by_delta if return_mean == "delta" and self.number_by_delta is not None else self.number

    def theta_size(self, num_quantiles: int) -> int:
        """m, given the number of reward quantiles asked for."""
        return num_quantiles if self.has_reward_quantiles else 1

    def value_size(self, num_quantiles: int) -> int:
        """n, given the number of return quantiles asked for."""
        return num_quantiles if self.has_return_quantiles else 1


QUANTILE_SETTINGS = {"reward_ratio": "Per-Step Reward Quantile η"}

NO_RULE = Rule(
    name="",
    label="Planner",
    about="the model of the world, by counting",
    source="after Ouyang et al. 2017",
    number=-1,
    has_loss=False,
)
"""Of an agent that learns by no rule."""

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            name="differential",
            label="Differential",
            about="the average reward alone",
            source="Wan et al. 2021",
            number=DIFFERENTIAL,
            average_moves_with_value=True,
            setting_labels={"reward_ratio": "Average-Reward η"},
            line={"color": GREY, "linestyle": (0, (4, 1.5))},
        ),
        Rule(
            name="d2",
            label="D2",
            about="the distribution of the reward per step",
            source="Rojas & Lee 2026",
            number=D2,
            has_reward_quantiles=True,
            has_offset=True,
            setting_labels=QUANTILE_SETTINGS,
            line={"color": BLUE, "linestyle": "-"},
        ),
        Rule(
            name="d3",
            label="D3",
            about="the distributions of the reward per step and of the differential return",
            source="Rojas & Lee 2026",
            number=D3,
            number_by_delta=D3_BY_DELTA,
            number_with_horizon=D3_WITH_HORIZON,
            has_reward_quantiles=True,
            has_return_quantiles=True,
            has_offset=True,
            best_by="online",
            setting_labels={**QUANTILE_SETTINGS, "step_size": "Differential Return Quantile Step Size"},
            line={"color": ORANGE, "linestyle": (0, (1, 0.8))},
        ),
        Rule(
            name="rvi",
            label="RVI",
            about="the average reward as a function of the action values",
            source="Abounadi et al. 2001",
            number=RVI,
            average_is_read_from_values=True,
            has_loss=False,
        ),
        Rule(
            name="categorical",
            label="Categorical",
            about="the distribution of the reward per step, as masses on a grid",
            source="decision 0014",
            number=CATEGORICAL,
            has_reward_quantiles=True,
            has_reward_masses=True,
            has_offset=True,
            setting_labels=QUANTILE_SETTINGS,
        ),
    )
}


def _value_by_number(rules: list[Rule]) -> Callable[..., Any]:
    """The value readings as one inlined function of the rule's number and the n numbers."""
    others = [rule for rule in rules if rule.value is not mean]
    if not others:

        @inlined
        def usual(rule: Any, numbers: Any) -> Any:
            return mean(numbers)

        return usual
    number, reading, rest = others[0].number, others[0].value, _value_by_number(others[1:])

    @inlined
    def chosen(rule: Any, numbers: Any) -> Any:
        return reading(numbers) if rule == number else rest(rule, numbers)

    return chosen


value_of = _value_by_number(list(RULES.values()))
"""The value that the rule with this number reads from its n numbers."""
