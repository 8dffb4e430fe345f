"""The rules, one function each in the order of its listing: what one transition does to the reward estimate and to a value.

A rule sees two vectors: the estimate (n numbers for S, or for S and A) and the bootstrap (n numbers for S′). It moves θ, which
gives R̄; then come δ, what R̄ follows beside θ, and the pull on the estimate. It returns δ. The learner owns the vectors and applies
`estimate += α · pull`.

θ is moved in `move_theta` (and by several rewards in `move_theta_by_batch`), R̄ is computed in `average_reward`, and an error moves
R̄ in `follow`: for tables, tiles and networks alike. Everything that other code asks about a rule is a field of its row in `RULES`;
nobody compares names or numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perstep.display.colours import BLUE, GREEN, GREY, ORANGE
from perstep.numerics.compiled import compiled, inlined, merged
from perstep.numerics.quantiles import (
    LEAST_FACTOR,
    horizon_pulls,
    huber_pulls,
    levels,
    mean,
    quantile_pulls,
    track,
    track_evenly,
    track_share,
)
from perstep.numerics.scale import FIRST, Scale, begin, new_units, return_unit, reward_unit, see
from perstep.numerics.schedules import step_size
from perstep.rules.masses import new_masses, track_masses

Floats = NDArray[np.float64]

REFERENCES = ("pair", "mean", "max")
"""What f(Q) of the rule `rvi` reads: the value of one pair, the mean or the maximum of all values."""
PAIR, MEAN, MAX = 0, 1, 2

(
    DIFFERENTIAL, D2, D3, RVI, CATEGORICAL, D3_BY_DELTA, D3_WITH_HORIZON, D3_HUBER, D3_HUBER_BY_DELTA, RUNNING_MEAN,
    Q_LEARNING, UNCENTERED_D2, UNCENTERED_CATEGORICAL, QR, QR_BY_DELTA, QR_WITH_HORIZON, QR_HUBER, QR_HUBER_BY_DELTA,
) = range(18)  # fmt: skip
"""The rules as compiled code knows them: functions as arguments are never cached, numbers are. A loop is compiled for one rule, so
that a comparison with these numbers takes no time. From Q_LEARNING on, R̄ is not subtracted from the rewards."""
UNCENTERED = tuple(range(Q_LEARNING, QR_HUBER_BY_DELTA + 1))
SCALAR = (DIFFERENTIAL, RUNNING_MEAN, Q_LEARNING)  # θ is R̄ itself
BY_REWARDS = (RUNNING_MEAN, Q_LEARNING)  # and it is the running mean of the rewards
WITH_MASSES = (CATEGORICAL, UNCENTERED_CATEGORICAL)
VALUE = (D2, CATEGORICAL, UNCENTERED_D2, UNCENTERED_CATEGORICAL)  # a value is one number
BY_OWN_PULLS = (D3, D3_HUBER, QR, QR_HUBER)  # the mean of Ω moves by the pulls on its quantiles
QUANTILE_LOSS = (D3, QR)
HUBER_LOSS = (D3_HUBER, QR_HUBER)
QUANTILE_LOSS_BY_DELTA = (D3_BY_DELTA, QR_BY_DELTA)
HUBER_LOSS_BY_DELTA = (D3_HUBER_BY_DELTA, QR_HUBER_BY_DELTA)
WITH_HORIZON = (D3_WITH_HORIZON, QR_WITH_HORIZON)


class RewardEstimate(NamedTuple):
    """The estimate of the reward per step: R̄ is the mean of θ plus the offset."""

    theta: Floats  # (m,) reward quantiles; (1,) for a rule that learns the average alone
    offset: Floats  # (1,) b, zero unless it is learnt
    tau: Floats  # (m,)
    units: Floats  # the spreads of what was seen (numerics/scale.py)
    first: Floats  # (128,) the first rewards, in order; empty where the first estimates are given
    masses: Floats  # (m,) of a rule with masses on a grid, which θ is read from (rules/masses.py); (0,) for other rules
    grid: Floats  # (3,) where these masses are; (0,) for other rules


class Workspace(NamedTuple):
    """The memory that a rule writes to, allocated once per run, and the numbers of its target and its loss."""

    pull: Floats  # (n,)
    ordered: Floats  # (n + 2,)
    tau: Floats  # (n,)
    sums: Floats  # (n + 1,)
    ahead: Floats  # (n,) a bootstrap that is no value of the learner: after a masked end, or a mean over actions
    discount: float  # γ; 1 is the paper
    huber: float  # λ of the quantile Huber loss
    horizon_factor: float  # g of return quantiles with a horizon
    num_active: float  # how many weights move together as one value
    end_divisor: float  # the value after a masked end is −R̄ divided by it: 1 − γ where rewards stop there, else ∞
    lost_divisor: float  # what a masked end takes from the return is R̄ divided by it (`look_at`)


class Steps(NamedTuple):
    """The step sizes of one transition."""

    value: float  # α
    theta: float  # α_θ
    offset: float  # of b by δ: η_b α
    reward_unit: float = 1.0  # the unit of θ and its steps; 1 is the paper
    value_unit: float = 1.0  # the unit of return quantiles and their steps; 1 is the paper
    offset_by_reward: float = 0.0  # of b by R − R̄


class Schedule(NamedTuple):
    """α, α_θ and η_b of a whole run, as numbers for compiled code."""

    value_scale: float
    value_power: float
    theta_scale: float
    theta_power: float
    offset_ratio: float
    value_delay: float = 1.0
    theta_delay: float = 1.0


class AverageSteps(NamedTuple):
    """The steps by which R̄ follows δ or R − R̄ while θ stands beside it (`average_step_size`); one of them is 0."""

    delta_scale: float
    reward_scale: float
    power: float
    delay: float


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
    horizon: float | None = None,
    num_active: int = 1,
    end_divisor: float = np.inf,
    lost_divisor: float = np.inf,
) -> Workspace:
    """Memory for the pulls on one value of `num_quantiles` numbers, and the numbers of its target and its loss."""
    n = num_quantiles
    factor = 0.0 if horizon is None else horizon_factor(horizon)
    return Workspace(
        np.zeros(n), np.zeros(n + 2), levels(n), np.zeros(n + 1), np.zeros(n), discount, huber, factor, float(num_active),
        end_divisor, lost_divisor,
    )  # fmt: skip


def horizon_factor(horizon: float) -> float:
    """g = 1 − 1/H: the weight of the next δ, relative to the present one."""
    return max(1.0 - 1.0 / horizon, LEAST_FACTOR)


# --------------------------------------------------------------------------------------------------- before a rule: its steps


@inlined
def look_at(
    rule: int, scale: Scale | None, rewards: RewardEstimate, reward: float, ended: bool, lost_divisor: float, looks_back: bool
) -> None:  # fmt: skip
    """Let the units see the reward, and the first rewards give the first estimates, where steps are in units (`scale`).

    A masked end adds −R̄ / `lost_divisor` to a return around its mean. Where R̄ is subtracted it is the value after the end. Where it
    is not, that value is 0, and −R̄ for each step of the return is what the end does to it.
    """
    if scale is not None:
        lost = -average_reward(rule, rewards) / lost_divisor if ended else 0.0
        see(rewards.units, reward, lost, ended, looks_back)
        begin(rewards.units, rewards.first, rewards.theta, rewards.offset, rewards.tau, reward)


@inlined
def steps_now(rule: int, scale: Scale | None, schedule: Schedule, units: Floats, visits: int, clock: int) -> Steps:
    """The steps of one transition: α by the visits of the entry; α_θ by the clock, since θ moves at every step, but that of an
    average that moves by the δ of the entry by its visits too."""
    alpha = step_size(schedule.value_scale, schedule.value_power, schedule.value_delay, visits)
    counted = visits if rule == DIFFERENTIAL else clock
    alpha_theta = step_size(schedule.theta_scale, schedule.theta_power, schedule.theta_delay, counted)
    offset = schedule.offset_ratio * alpha
    if scale is not None:
        return Steps(alpha, alpha_theta, offset, reward_unit(units), return_unit(units), 0.0)
    return Steps(alpha, alpha_theta, offset, 1.0, 1.0, 0.0)


@inlined
def value_after_end(rule: int, rewards: RewardEstimate, work: Workspace) -> float:
    """What comes after a masked end: nothing, or where rewards stop there Σ γ^k (0 − R̄)."""
    return -average_reward(rule, rewards) / work.end_divisor


@inlined
def nothing_follows(rule: int, rewards: RewardEstimate, work: Workspace) -> Floats:
    """The bootstrap of a masked end."""
    value = value_after_end(rule, rewards, work)
    for j in range(work.ahead.shape[0]):
        work.ahead[j] = value
    return work.ahead


# ------------------------------------------------------------------------------------- θ and R̄: for tables, tiles and networks


@inlined
def move_theta(rule: int, rewards: RewardEstimate, reward: float, step: float, fastest: float) -> float:
    """Let one reward move θ, by quantile regression (Eq. 6) or through the masses that it is read from. Returns by how much the
    mean of the masses moves. `fastest`: the largest step of an extreme quantile, in steps of the median; 1 is the paper."""
    if rule in WITH_MASSES:
        return track_masses(rewards.masses, rewards.grid, rewards.tau, reward, step, rewards.theta)
    if fastest > 1.0:
        track_evenly(rewards.theta, rewards.tau, reward, step, fastest)
    else:
        track(rewards.theta, rewards.tau, reward, step)
    return 0.0


@compiled
def move_theta_by_batch(rewards: RewardEstimate, batch: Floats, step: float) -> None:
    """As `move_theta`, by several rewards at once."""
    track_share(rewards.theta, rewards.tau, batch, step)


@merged
def center(rule: int, theta: Floats) -> float:
    """What R̄ reads from θ: the mean (1/m) Σ θ_i."""
    return mean(theta)


@merged
def average_reward(rule: int, rewards: RewardEstimate) -> float:
    """R̄ = (1/m) Σ θ_i + b (Eq. 17)."""
    return center(rule, rewards.theta) + rewards.offset[0]


@merged
def follow(rule: int, rewards: RewardEstimate, average: float, reward: float, delta: float, steps: Steps) -> None:
    """What R̄ follows beside θ: δ or R − R̄. The average of a rule without reward quantiles follows nothing else; with them it is
    the offset, which is ours (docs/decisions/0001-learned-offset.md)."""
    if rule in BY_REWARDS:
        rewards.theta[0] += steps.theta * (reward - average)
    elif rule == DIFFERENTIAL:
        rewards.theta[0] += steps.theta * delta
    elif rule != RVI:
        rewards.offset[0] += steps.offset * delta + steps.offset_by_reward * (reward - average)


@inlined
def track_rewards(rule: int, rewards: RewardEstimate, reward: float, steps: Steps, fastest: float) -> float:
    """Let a reward move θ and with it R̄, which is returned. With masses R̄ moves as their mean does, and the offset is what is left
    between R̄ and the mean of θ (decision 0014)."""
    if rule in WITH_MASSES:
        before = center(rule, rewards.theta)
        moved = move_theta(rule, rewards, reward, steps.theta, fastest)
        rewards.offset[0] += moved - (center(rule, rewards.theta) - before)
    elif rule not in SCALAR and rule != RVI:
        move_theta(rule, rewards, reward, steps.theta * steps.reward_unit, fastest)
    return average_reward(rule, rewards)


@inlined
def track_beside(rule: int, rewards: RewardEstimate, reward: float, steps: Steps, fastest: float) -> None:
    """Let a reward move θ but not R̄, which has steps of its own: the offset takes the move of the mean back."""
    before = center(rule, rewards.theta)
    step = steps.theta if rule in WITH_MASSES else steps.theta * steps.reward_unit
    move_theta(rule, rewards, reward, step, fastest)
    rewards.offset[0] -= center(rule, rewards.theta) - before


# ------------------------------------------------------------------------------------------------- the rules, as they are listed


@inlined
def surplus(rule: int, reward: float, average: float) -> float:
    """R − R̄; R itself where rewards are not centered."""
    return reward if rule in UNCENTERED else reward - average


@inlined
def differential(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """Wan et al. 2021; Alg. 11–12: δ with the old R̄, then R̄ by δ, or as the running mean of the rewards."""
    average = average_reward(rule, rewards)
    delta = surplus(rule, reward, average) + work.discount * bootstrap[0] - estimate[0]
    follow(rule, rewards, average, reward, delta, steps)
    work.pull[0] = delta
    return delta


@inlined
def rvi(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """Abounadi, Bertsekas & Borkar 2001: R̄ is f(Q), which the learner reads from its values after every move."""
    delta = reward - rewards.theta[0] + work.discount * bootstrap[0] - estimate[0]
    work.pull[0] = delta
    return delta


@inlined
def d2(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """Alg. 1, 3–5: θ, which gives R̄; δ with the new R̄; the offset; the pull."""
    average = track_rewards(rule, rewards, reward, steps, 1.0)
    delta = surplus(rule, reward, average) + work.discount * bootstrap[0] - estimate[0]
    follow(rule, rewards, average, reward, delta, steps)
    work.pull[0] = delta
    return delta


@inlined
def errors(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> tuple[float, float]:  # fmt: skip
    """What all kinds of d3 begin with: θ, which gives R̄; δ of the means; the offset. Returns R − R̄ and δ."""
    average = track_rewards(rule, rewards, reward, steps, 1.0)
    shift = surplus(rule, reward, average)
    delta = shift + work.discount * mean(bootstrap) - mean(estimate)
    follow(rule, rewards, average, reward, delta, steps)
    return shift, delta


@inlined
def d3(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """Alg. 2, 7, 8: all Ω_j at once from the old Ω, by the quantile loss."""
    shift, delta = errors(rule, rewards, reward, bootstrap, estimate, steps, work)
    quantile_pulls(shift, work.discount, bootstrap, estimate, work.tau, work.ordered, work.pull)
    stretch(work.pull, 0.0, steps.value_unit, 0.0)
    return delta


@inlined
def d3_huber(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """Alg. 9: by the quantile Huber loss, whose λ is in units."""
    shift, delta = errors(rule, rewards, reward, bootstrap, estimate, steps, work)
    width = work.huber * steps.value_unit
    huber_pulls(shift, work.discount, bootstrap, estimate, work.tau, width, work.ordered, work.sums, work.pull)
    return delta


@inlined
def d3_by_delta(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """As d3, but the mean of Ω moves by δ, as a single value does (ours): only what is left of the pulls at mean 0 comes from the
    quantile loss."""
    shift, delta = errors(rule, rewards, reward, bootstrap, estimate, steps, work)
    quantile_pulls(shift, work.discount, bootstrap, estimate, work.tau, work.ordered, work.pull)
    stretch(work.pull, mean(work.pull), steps.value_unit, delta)
    return delta


@inlined
def d3_huber_by_delta(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """As d3_by_delta, with the quantile Huber loss."""
    shift, delta = errors(rule, rewards, reward, bootstrap, estimate, steps, work)
    width = work.huber * steps.value_unit
    huber_pulls(shift, work.discount, bootstrap, estimate, work.tau, width, work.ordered, work.sums, work.pull)
    stretch(work.pull, mean(work.pull), 1.0, delta)
    return delta


@inlined
def d3_with_horizon(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """Ω is Q of d2 plus the distribution of Σ g^t δ_t (ours; docs/decisions/0013-horizon.md)."""
    _, delta = errors(rule, rewards, reward, bootstrap, estimate, steps, work)
    step = work.num_active * steps.value
    horizon_pulls(delta, work.horizon_factor, bootstrap, estimate, work.tau, step, work.ordered, work.pull)
    return delta


@inlined
def stretch(pull: Floats, middle: float, unit: float, delta: float) -> None:
    """The pulls around their middle, times a unit, around δ."""
    for j in range(pull.shape[0]):
        pull[j] = unit * (pull[j] - middle) + delta


FUNCTIONS = {
    DIFFERENTIAL: differential, RUNNING_MEAN: differential, Q_LEARNING: differential, RVI: rvi,
    D2: d2, UNCENTERED_D2: d2, CATEGORICAL: d2, UNCENTERED_CATEGORICAL: d2,
    D3: d3, QR: d3, D3_HUBER: d3_huber, QR_HUBER: d3_huber, D3_BY_DELTA: d3_by_delta, QR_BY_DELTA: d3_by_delta,
    D3_HUBER_BY_DELTA: d3_huber_by_delta, QR_HUBER_BY_DELTA: d3_huber_by_delta, D3_WITH_HORIZON: d3_with_horizon,
    QR_WITH_HORIZON: d3_with_horizon,
}  # fmt: skip
"""Number → compiled function: loops of tables are compiled for each rule alone."""

LOSSES = (SCALAR, (RVI,), VALUE, QUANTILE_LOSS, HUBER_LOSS, QUANTILE_LOSS_BY_DELTA, HUBER_LOSS_BY_DELTA, WITH_HORIZON)
if any(sum(number in group for group in LOSSES) != 1 for number in FUNCTIONS):
    raise ValueError(
        "Every rule's number must be in exactly one of the groups above: they say which loss its values have."
    )


@merged
def any_rule(
    rule: int, rewards: RewardEstimate, reward: float, bootstrap: Floats, estimate: Floats, steps: Steps, work: Workspace
) -> float:  # fmt: skip
    """The rule with this number, as loops of tiles take it: they are compiled once for all rules. An unknown number gives NaN,
    which every agent refuses."""
    if rule in SCALAR:
        return differential(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule == RVI:
        return rvi(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule in VALUE:
        return d2(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule in QUANTILE_LOSS:
        return d3(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule in HUBER_LOSS:
        return d3_huber(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule in QUANTILE_LOSS_BY_DELTA:
        return d3_by_delta(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule in HUBER_LOSS_BY_DELTA:
        return d3_huber_by_delta(rule, rewards, reward, bootstrap, estimate, steps, work)
    if rule in WITH_HORIZON:
        return d3_with_horizon(rule, rewards, reward, bootstrap, estimate, steps, work)
    work.pull[0] = np.nan
    return np.nan


def mean_of_last_axis(numbers: Any) -> Any:
    """The mean of the last axis of a NumPy array or a tensor: (…, n) → (…)."""
    return numbers[..., 0] if numbers.shape[-1] == 1 else numbers.mean(-1)


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
    variants: Mapping[str, int] = field(default_factory=dict)
    """Its other numbers, by what is different: words of `number_with`."""
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
    """Whether it works for networks too."""
    best_by: str = "target"
    """The network that picks a* for the bootstrap: "target" (the maximum of the target network) or "online"."""
    setting_labels: Mapping[str, str] = field(default_factory=dict)
    """What the paper's tables call a setting, where that depends on the rule."""
    line: Mapping[str, Any] = field(default_factory=lambda: {"color": GREEN, "linestyle": "-."})
    """The line style in figures, as matplotlib's keywords."""

    def number_with(
        self,
        return_mean: str = "quantiles",
        horizon: float | None = None,
        huber: float = 0.0,
        centered: bool = True,
        by_rewards: bool = False,
    ) -> int:
        """The number with these settings. Those that mean nothing to this rule make no difference."""
        words = [] if centered else ["uncentered"]
        if not centered and not any("uncentered" in variant.split() for variant in self.variants):
            raise ValueError(
                f"The rule {self.name!r} subtracts the average from every reward: leave out centered=False."
            )
        if horizon is not None:
            words.append("horizon")
        else:
            words += ["huber"] * (huber > 0.0) + ["delta"] * (return_mean == "delta")
        if by_rewards and centered:
            words.append("rewards")
        known = {word for variant in self.variants for word in variant.split()}
        return self.variants.get(" ".join(word for word in words if word in known or word == "uncentered"), self.number)

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
            variants={"rewards": RUNNING_MEAN, "uncentered": Q_LEARNING},
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
            variants={"uncentered": UNCENTERED_D2},
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
            variants={
                "huber": D3_HUBER,
                "delta": D3_BY_DELTA,
                "huber delta": D3_HUBER_BY_DELTA,
                "horizon": D3_WITH_HORIZON,
                "uncentered": QR,
                "uncentered huber": QR_HUBER,
                "uncentered delta": QR_BY_DELTA,
                "uncentered huber delta": QR_HUBER_BY_DELTA,
                "uncentered horizon": QR_WITH_HORIZON,
            },
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
            variants={"uncentered": UNCENTERED_CATEGORICAL},
            has_reward_quantiles=True,
            has_reward_masses=True,
            has_offset=True,
            setting_labels=QUANTILE_SETTINGS,
        ),
    )
}

for row in RULES.values():
    for words, number in row.variants.items():
        if ("uncentered" in words.split()) != (number in UNCENTERED):
            raise ValueError(
                f"The number of {row.name!r}, {words!r}, and UNCENTERED disagree: from the numbers there no average is subtracted."
            )
