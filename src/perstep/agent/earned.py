"""What an agent earns, in the numbers and words of every screen: one mean with its interval, the distribution with its tails, and a
sentence wherever two of the numbers seem to contradict each other.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

from perstep.distributions.distribution import NORMAL_95, TAILS, Distribution, ThinTail
from perstep.distributions.distribution import SHOWN as LEVELS

NOTICED = 0.05  # of the average reward: a smaller difference of two numbers needs no sentence


class Row(NamedTuple):
    """One number of a distribution."""

    name: str
    value: float
    error: float
    """Its standard error; NaN where it is not known."""


def rows(found: Distribution, tails: tuple[float, ...] = TAILS) -> list[Row]:
    """The mean, quantiles and the means of the worst steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThinTail)  # the errors say it
        return [
            Row("mean", found.mean, found.mean_error),
            *(Row(f"{100 * p:g} % quantile", found.quantile(p), found.quantile_error(p)) for p in LEVELS),
            *(Row(f"mean of the worst {100 * p:g} %", found.cvar(p), found.cvar_error(p)) for p in tails),
        ]


def with_interval(value: float, error: float, digits: int = 5) -> str:
    """A number with half the width of its 95 % interval, if it has a standard error."""
    return f"{value:.{digits}g} ± {NORMAL_95 * error:.2g}" if math.isfinite(error) else f"{value:.{digits}g}"


def headline(agent: Any, digits: int = 5) -> str:
    """What the agent earns per step now: the first number on every screen."""
    found = agent._life.reward_distribution
    if found is None:
        return f"average reward {agent.average_reward:.{digits}g}"
    known = " (95 %)" if math.isfinite(found.mean_error) else ""
    return f"earned {with_interval(found.mean, found.mean_error, digits)}{known} per step"


def sentences(agent: Any) -> list[str]:
    """What has to be said, so that nobody takes two numbers for one that contradicts itself."""
    found: Distribution | None = agent._life.reward_distribution
    if found is None:
        return []
    said = mean_sentences(found)
    if abs(agent.average_reward - found.mean) > NORMAL_95 * found.mean_error:
        said.append(
            f"The learner's own average R̄, {agent.average_reward:.5g}, is another number: {_own_average(agent)}."
        )
    if agent._learns_distribution and (apart := _apart(found, agent.learned_distribution)):
        level, learnt, earned = apart
        said.append(
            f"What it has learnt differs from what was earned: the learnt {100 * level:g} % quantile is {learnt:.5g}, and the "
            f"earned one {earned:.5g}. {_own_distribution(agent)}"
        )
    return said


def mean_sentences(found: Distribution) -> list[str]:
    """Why the mean lies outside the middle half of the rewards, where it does."""
    rare = TAILS[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThinTail)
        low, middle, high = found.quantile(LEVELS[1]), found.quantile(0.5), found.quantile(LEVELS[-2])
        worst = found.cvar(rare)
        best = (found.mean - found.cvar(1.0 - rare) * (1.0 - rare)) / rare
    if low <= found.mean <= high:
        return []
    side, tail, number = ("below", "worst", worst) if found.mean < middle else ("above", "best", best)
    return [
        f"The mean lies {side} the middle half of the rewards, since the {tail} {100 * rare:g} % of the steps earn "
        f"{number:.4g} each: quantiles in between do not show them."
    ]


def learnt_columns(agent: Any) -> str:
    """What the numbers are that an agent has learnt, beside those that it has earned."""
    if not agent.config.rule:
        return "of the best policy in the world as learnt"
    if not agent._learns_distribution:
        return "R̄"
    return "R̄, and the masses of the rewards" if agent.config.rule_row.has_reward_masses else "R̄ and θ"


def _apart(earned: Distribution, learnt: Distribution) -> tuple[float, float, float] | None:
    """The quantile, of those shown, that differs most: level, learnt, earned. None if none differs by more than its interval and a
    standard deviation of the rewards, or by so little that nobody would notice."""
    noticed = max(earned.std, NOTICED * abs(earned.mean))
    gaps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThinTail)  # its error is then not known, and nothing is said
        for level in LEVELS:
            error, own, counted = earned.quantile_error(level), learnt.quantile(level), earned.quantile(level)
            if math.isfinite(error):
                gaps.append((abs(own - counted) - NORMAL_95 * error, level, own, counted))
    gap, *apart = max(gaps, default=(0.0, 0.0, 0.0, 0.0))
    return (apart[0], apart[1], apart[2]) if gap > noticed else None


def _own_distribution(agent: Any) -> str:
    """Why the two may differ."""
    if not agent.config.rule:
        return "The model knows what the policy earns without exploration, and what it has seen rarely it knows badly."
    return "The rule moves its numbers by small steps, in a tail by few of them, and they still hold earlier rewards."


def _own_average(agent: Any) -> str:
    """What R̄ is about."""
    if not agent.config.rule:
        return "that of the best policy in the world as learnt, without what exploring costs"
    if agent.config.centered:
        return (
            "values are relative to it, and it follows the rewards at its own pace (check() says when that does harm)"
        )
    return "it follows the rewards at its own pace, and the values do not depend on it"
