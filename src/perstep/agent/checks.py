"""Findings about what an agent has learnt: each compares an estimate with experience, and names the setting to change.

`agent.check()` returns all of them; `learn` warns of the first. The tuned runs of the paper's studies raise none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perstep.numerics.scale import MEAN, REWARD
from perstep.numerics.schedules import as_decay
from perstep.rules.settings import PER_EPISODE, PER_STEP

Agent = Any  # of agent/agent.py, which uses this module

FEWEST_STEPS = 1_000  # before so many steps everything is still moving
APART = 0.06  # of the standard deviation of the rewards: an average that is further from experience is a finding
ERRORS = 5.0  # and that are further than so many standard errors
IMPROVED = 0.05  # of the range of the reward rates in the life of the agent
FLUCTUATIONS = 2.0  # and further than so many standard deviations of an estimate whose step stays above 0
LEVELS_APART = 0.15  # shares of the rewards below θ_i that are further from τ_i are a finding
TRACE = 64  # rows that are kept, evenly spaced over the steps
DRIFT = 1.0  # in spreads of the values, over the last half of the steps
GROWTH = 10.0  # of the loss, over the last half of the steps
IMPOSSIBLE = 100.0  # times the largest value that rewards like those seen could add up to: values beyond it diverge
STILL = 0.05  # of the standard deviation of the rewards: values that moved less have learnt nothing
LATE = 2.0  # rewards that come more rarely than once in so many looks are not seen: of them less than e^−2 is left
OF_THE_MEAN = 0.25  # the share of the rewards that must come so late
ENOUGH_PATH = (
    1.0  # the sum of the step sizes of an average entry: above it, values that stay equal are learnt to be equal
)
OUTSIDE = 0.01  # coordinates outside the bounds of tiles per step: fewer are exceptions, of which a warning tells once
LEAST_PATH = 3e-3  # how far a weight of a network can have moved; weights begin at about 0.1


@dataclass(frozen=True)
class Finding:
    """One thing that is probably wrong."""

    name: str
    """A short name: "average", "greedy", "quantiles", "equal rewards", "drift", "returns", "trap", "unvisited", "look", "replay",
    "loss", "no end", "bounds", "divergence" or "small steps"."""
    sentence: str
    """What was expected, what was got, and what to change."""

    def __str__(self) -> str:
        return self.sentence


class FindingWarning(UserWarning):
    """An estimate that contradicts experience; `agent.check()` lists all of them."""


class Trace:
    """The level and the spread of the values, and the last loss, at some steps in the life of an agent. It is not saved."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float, float, float]] = []
        self._every = 1
        self._calls = 0

    def look(self, agent: Agent) -> None:
        """Keep one row; when there are too many, every second one is dropped."""
        self._calls += 1
        if self._calls % self._every:
            return
        with np.errstate(over="ignore", invalid="ignore"):  # values that diverge are reported elsewhere
            level, spread = agent._level_of_values()
        loss = getattr(agent, "last_loss", None)
        self.rows.append((agent.steps, level, spread, math.nan if loss is None else loss))
        if len(self.rows) > TRACE:
            self.rows = self.rows[::2]
            self._every *= 2

    def halves(self, column: int, steps: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The entries of a column in the third quarter of the steps, and in the fourth."""
        third = [row[column] for row in self.rows if 0.5 * steps <= row[0] < 0.75 * steps]
        fourth = [row[column] for row in self.rows if row[0] >= 0.75 * steps]
        return np.array(third), np.array(fourth)


def findings(agent: Agent) -> list[Finding]:
    """Everything that is probably wrong, the gravest first; empty if nothing is, or if it is too early to say."""
    if agent.steps < FEWEST_STEPS or math.isnan(agent._life.recent_reward):
        return []
    return [finding for check in CHECKS for finding in check(agent)]


def _divergence(agent: Agent) -> Iterator[Finding]:
    """Values beyond all that rewards can add up to: discounted for ever, or in as many steps as there were."""
    size = _largest(agent)
    if math.isnan(size):
        return
    length = min(1.0 / max(1.0 - agent.config.discount, 1e-12), agent.steps)
    reward = _largest_reward(agent)
    reach = abs(agent.config.initial_value) + length * (reward + abs(agent.reset_cost or 0.0))
    if size > IMPOSSIBLE * reach:
        yield Finding(
            "divergence",
            f"The values have grown to {size:.3g}, but rewards like those seen, of at most {reward:.3g}, add up to no more than "
            f"{reach:.3g}: the values diverge. Use a smaller step_size (it is {agent.config.step_size}), or preset='steady' "
            "without other settings.",
        )


def _small_steps(agent: Agent) -> Iterator[Finding]:
    """Steps so small that values are still where they began, though rewards differ."""
    step, spread = as_decay(agent.config.step_size).scale, agent.reward_distribution.std
    updates = getattr(agent, "updates", None)
    if updates:
        if step * updates < LEAST_PATH:
            yield Finding(
                "small steps",
                f"In {updates:,} updates no weight of the network can have moved by more than about {step * updates:.2g}: nothing "
                f"is learnt. Use a larger step_size (it is {step:g}), as 5e-4, or learn longer.",
            )
        return
    values = agent._values()
    if not values or not spread:
        return
    together = getattr(agent.config, "tilings", 1)
    first = agent.config.initial_value / together
    width = values[0].shape[2] if values[0].ndim > 2 else 1  # return quantiles
    entries = max((values[0] != first).sum() / (width * together), 1.0)
    path = agent._run.schedule.value_scale * together * agent.steps / entries
    moved = together * float(np.abs(values[0] - first).max(initial=0.0))
    if path < ENOUGH_PATH and moved < STILL * spread:
        yield Finding(
            "small steps",
            f"In {agent.steps:,} steps no value has moved by more than {moved:.2g}, {moved / spread:.1%} of the spread of the "
            f"rewards: nothing is learnt. Use a larger step_size (it is {step:g}); preset='steady' has one that works.",
        )


def _equal_rewards(agent: Agent) -> Iterator[Finding]:
    rewards = agent.reward_distribution
    ends = int(agent.history.episodes.sum())
    if rewards.num_components == 1 and ends and agent.config.termination == "continue" and not agent.reset_cost:
        yield Finding(
            "equal rewards",
            f"Every step paid {rewards.mean:g} and {ends:,} episodes ended, at no cost: all policies have the same average reward, "
            f"and there is nothing to learn. Give an end a cost with reset_cost (above 0 for long episodes, below 0 for short "
            "ones), or use objective='return per episode'.",
        )


def _no_end(agent: Agent) -> Iterator[Finding]:
    if agent.config.objective == PER_EPISODE and not agent.ends:
        cut = int(agent.history.episodes.sum())
        though = f" ({cut:,} were cut off by a time limit, which is no end)" if cut else ""
        yield Finding(
            "no end",
            f"In {agent.steps:,} steps no episode has ended{though}, and the return of an episode that never ends has no limit: "
            f"values grow with the steps. Use objective={PER_STEP!r}, or learn longer if an end is hard to find.",
        )


def _bounds(agent: Agent) -> Iterator[Finding]:
    """Observations beyond the tiles, which all look like their edge."""
    outside = getattr(agent, "clipped", 0)
    if outside > OUTSIDE * agent.steps:
        yield Finding(
            "bounds",
            f"In {agent.steps:,} steps {outside:,} coordinates of observations were outside the bounds of the tiles and were moved "
            "to them, so that what lies beyond looks the same. Give the range that really occurs, with low=… and high=….",
        )


def _average(agent: Agent) -> Iterator[Finding]:
    rewards = agent.reward_distribution
    apart = agent.average_reward - rewards.mean
    config, rates = agent.config, agent.history.reward_rate
    improved = float(np.ptp(rates)) if len(rates) else 0.0  # an agent that has improved much need not be exact yet
    tolerated = max(APART * rewards.std, IMPROVED * improved, ERRORS * rewards.mean_error) + _cost_of_exploring(
        agent, rewards.std
    )
    if abs(apart) <= tolerated + FLUCTUATIONS * _fluctuation(agent, rewards.std):
        return
    if config.rule_row.has_reward_quantiles and not config.centered:
        advice = (
            "the mean of its reward quantiles misses rare rewards, and nothing corrects it where no average is subtracted. The "
            "values do not depend on it: read agent.reward_distribution.mean, or use rule='differential'"
        )
    elif config.rule_row.has_reward_quantiles and not (
        getattr(config, "average_step_size", None) or config.offset_ratio
    ):
        advice = (
            "its reward quantiles have not arrived, or miss rare rewards: use preset='steady', or set offset_ratio=0.1"
        )
    else:
        advice = "learn longer" + ", or use preset='steady'" * (config.preset != "steady")
    yield Finding(
        "average",
        f"The estimate of the average reward is {agent.average_reward:.4g}, but the agent earned {rewards.mean:.4g} per step "
        f"recently: {advice}.",
    )


def _greedy(agent: Agent) -> Iterator[Finding]:
    """A policy that earns far less without exploration, in the last evaluation if nothing was learnt since: random actions then do
    what it leaves out, and keep the agent from the states in which it would learn to do it."""
    steps, found = agent._life.without_exploring or (-1, None)
    if found is None or steps != agent.steps:
        return
    less = -found._gain_over_learning(ERRORS)
    if less <= APART * agent.reward_distribution.std:
        return
    epsilon = getattr(agent, "epsilon", None)
    fewer = f", or fewer random actions (epsilon is {epsilon:g})" if isinstance(epsilon, float) else ""
    yield Finding(
        "greedy",
        f"Without exploration the policy earned {found.average_reward:.4g} per step in {found.num_steps:,} steps, but the agent "
        f"earned {found.while_learning.mean:.4g} recently: its random actions do what the policy leaves out, and the states in "
        f"which that is missed are hardly met. Use the policy as it acts (deterministic=False){fewer}.",
    )


def _quantiles(agent: Agent) -> Iterator[Finding]:
    """θ_i lies where it should if the share of the rewards below it is about τ_i; where rewards are atoms, a share in between."""
    if not agent.config.rule_row.has_reward_quantiles or agent.steps < len(agent._rewards.first):
        return
    rewards, theta, tau = agent.reward_distribution, agent._rewards.theta, agent._rewards.tau
    near = 0.01 * _spread(agent)
    below, above = np.asarray(rewards.cdf(theta - near)), np.asarray(rewards.cdf(theta + near))
    away = np.maximum(below - tau, tau - above)
    worst = int(away.argmax())
    if away[worst] <= LEVELS_APART:
        return
    goal = float(rewards._quantiles(tau[worst : worst + 1])[0])
    step = _theta_step(agent)
    needed = abs(goal - float(theta[worst])) / max(step * float(away[worst]), 1e-300)
    if needed < 0.1 * agent.steps:  # it arrives soon
        return
    yield Finding(
        "quantiles",
        f"The {100 * float(tau[worst]):.0f} % quantile of the reward is learnt as {float(theta[worst]):.4g}, but {goal:.4g} was "
        f"earned recently. With its step of {step:.3g} it needs about {needed:,.0f} more steps: use preset='steady', or a larger "
        "reward_step_size. (agent.reward_distribution counts what was earned, and does not wait for it.)",
    )


def _drift(agent: Agent) -> Iterator[Finding]:
    before, now = agent._life.trace.halves(1, agent.steps)
    _, spreads = agent._life.trace.halves(2, agent.steps)
    config = agent.config
    if len(before) < 3 or len(now) < 3 or config.discount < 1.0 or config.risk_level < 1.0:
        return  # with a target that moves, the level of the values has no meaning
    if not config.centered:  # nothing is subtracted that could be wrong
        return
    moved, size = float(now[-1] - before[0]), float(np.median(spreads))
    steady = (np.diff(np.concatenate([before, now])) * np.sign(moved) > 0).mean() > 0.9
    if steady and abs(moved) > DRIFT * max(size, _spread(agent)):
        yield Finding(
            "drift",
            f"The mean of all values moved from {before[0]:.4g} to {now[-1]:.4g} in the last half of the steps, and still moves: "
            "the average that is subtracted is not the one that is earned. Set offset_ratio=0.1 (d2, d3), or use preset='steady'.",
        )


def _returns(agent: Agent) -> Iterator[Finding]:
    if not agent.config.rule_row.has_return_quantiles:
        return
    before, now = agent._life.trace.halves(2, agent.steps)
    if len(before) >= 3 and len(now) >= 3 and now[-1] > 2.0 * before[0] and (np.diff(now) > 0).mean() > 0.9:
        yield Finding(
            "returns",
            f"The spread of the return quantiles grew from {before[0]:.4g} to {now[-1]:.4g} in the last half of the steps: Ω has "
            "not settled. Learn longer, use a larger step_size, or set a horizon, with which Ω has a limit.",
        )


def _unvisited(agent: Agent) -> Iterator[Finding]:
    visits = getattr(agent, "visits", None)
    if visits is None or visits.ndim != 2:
        return
    unvisited, met = visits == 0, visits.sum(axis=1) > 0
    if agent.mdp is not None and agent.mdp.allowed is not None:
        unvisited &= agent.mdp.allowed
    lacking = met & unvisited.any(axis=1)
    missing, often = int(lacking.sum()), visits[lacking].sum(axis=1)
    if missing and often.max(initial=0) > 100 * visits.shape[1]:
        yield Finding(
            "unvisited",
            f"In {missing:,} of {int(met.sum()):,} states that were met, one of them {int(often.max()):,} times, an action was "
            f"never taken, so its value is not known. Explore more, with a larger epsilon, or learn longer.",
        )


def _look(agent: Agent) -> Iterator[Finding]:
    """Rewards, far from the median, that make up much of what is earned and come later than the values look. An episode that
    masks its end is a task of its own length."""
    config, rewards = agent.config, agent.reward_distribution
    by_discount = 1.0 / (1.0 - config.discount) if config.discount < 1.0 else math.inf
    look = getattr(agent, "look", by_discount)
    if config.termination != "continue" or math.isinf(look):
        return
    away = rewards.means - rewards.quantile(0.5)
    order = np.argsort(-np.abs(away))
    rate = np.cumsum(rewards.weights[order])  # of rewards at least so far away
    rare = order[rate * LATE * look < 1.0]
    often, carried = float(rewards.weights[rare].sum()), abs(float(rewards.weights[rare] @ away[rare]))
    earned = float(rewards.weights @ np.abs(rewards.means))
    if often and carried > OF_THE_MEAN * earned:
        advice = (
            f"Use a larger discount (it is {config.discount:g}); discount=1 looks as far as the task needs"
            if look == by_discount
            else "Learn longer, or use a larger return_steps or a smaller target_lag"
        )
        yield Finding(
            "look",
            f"Rewards of about {float(np.average(rewards.means[rare], weights=rewards.weights[rare])):.4g}, which make up "
            f"{min(carried / earned, 1.0):.0%} of what is earned, came once in {1.0 / often:,.0f} steps, but the values look only "
            f"{look:,.0f} steps ahead: what leads to such rewards seems worth less than it is. {advice}.",
        )


def _replay(agent: Agent) -> Iterator[Finding]:
    episodes = agent.history.episodes.sum()
    capacity = getattr(agent.config, "replay_capacity", 0)
    if agent.config.on_a_table or not capacity or not episodes:
        return
    length = agent.steps / episodes
    if length > capacity:
        yield Finding(
            "replay",
            f"An episode has {length:,.0f} steps on average, but the replay keeps {capacity:,}: no whole episode fits. Use a "
            "larger replay_capacity.",
        )


def _loss(agent: Agent) -> Iterator[Finding]:
    before, now = agent._life.trace.halves(3, agent.steps)
    before, now = before[np.isfinite(before)], now[np.isfinite(now)]
    if len(before) >= 3 and len(now) >= 3 and np.median(now) > GROWTH * max(float(np.median(before)), 1e-12):
        yield Finding(
            "loss",
            f"The loss grew from {np.median(before):.3g} to {np.median(now):.3g} in the last half of the steps: the values "
            "diverge. Use a smaller step_size, a gradient_clip, or a larger target_lag.",
        )


CHECKS: tuple[Callable[[Any], Iterator[Finding]], ...] = (
    _divergence, _no_end, _bounds, _equal_rewards, _small_steps, _average, _greedy, _quantiles, _drift, _returns, _unvisited,
    _look, _replay, _loss,
)  # fmt: skip


def _theta_step(agent: Agent) -> float:
    """α_θ now, in the unit of the rewards where steps are in units."""
    schedule = agent._run.schedule if hasattr(agent, "_run") else agent.config.schedule()
    step = float(schedule.theta_scale / (1.0 + agent.steps / schedule.theta_delay) ** schedule.theta_power)
    return step * math.sqrt(agent._rewards.units[REWARD]) if agent.config.scale_free else step


def _fluctuation(agent: Agent, std: float) -> float:
    """The standard deviation of R̄ about its limit with the current step, roughly: √(step · spread / 2) for quantiles, whose moves
    have the size of the step, and √(step / 2) · spread for a mean."""
    if getattr(agent.config, "average_step_size", None) is not None:
        return 0.0
    step = min(_theta_step(agent), 2.0 * std if agent.config.rule_row.has_reward_quantiles else 2.0)
    return math.sqrt(step * std / 2.0) if agent.config.rule_row.has_reward_quantiles else math.sqrt(step / 2.0) * std


def _cost_of_exploring(agent: Agent, std: float) -> float:
    """How far R̄ may lie from what random actions leave, roughly ε deviations: on a table R̄ that moves by δ is about the best
    actions."""
    config, epsilon = agent.config, getattr(agent.config, "epsilon", 0.0)
    if not (config.on_a_table and isinstance(epsilon, float)):
        return 0.0
    by_delta = config.average_moves_with_value or agent._run.schedule.offset_ratio > 0.0
    return epsilon * (1.0 - 1.0 / agent._num_actions) * std if by_delta else 0.0


def _largest_reward(agent: Agent) -> float:
    """The size of the largest reward, as far as it is known: recent ones, and averages in windows of the past."""
    units, rates = agent._rewards.units, agent.history.reward_rate
    recent = float(np.abs(agent.reward_distribution.means).max())
    return max(recent, float(np.abs(rates).max(initial=0.0)), float(abs(units[MEAN]) + units[REWARD + 1]))


def _largest(agent: Agent) -> float:
    """The size of the largest value that the weights can make, without θ; NaN for networks, whose loss tells (`_loss`)."""
    values = agent._values()
    if not values or not values[0].size:
        return math.nan
    return getattr(agent.config, "tilings", 1) * float(np.abs(values[0]).max())


def _spread(agent: Agent) -> float:
    """The range of the recent rewards, without the rarest thousandth on each side."""
    rewards = agent.reward_distribution
    places = np.sort(rewards.means)
    weights = np.cumsum(rewards.weights[np.argsort(rewards.means)])
    low, high = np.searchsorted(weights, [0.001, 0.999])
    return float(places[min(high, len(places) - 1)] - places[min(low, len(places) - 1)])


__all__ = ["Finding", "FindingWarning", "Trace", "findings"]
