"""Prediction: Theorem B.18 (V_t → v_π with two timescales), the effect of other timescales, and the bias of a finite m."""

from __future__ import annotations

import numpy as np
import polars as pl

from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.quantiles import levels
from perstep.numerics.schedules import Decay
from perstep.paper.claims.claim import Claim
from perstep.paper.theory.measuring import LOOKS_PER_DECADE, Floats, Theorem, learn_in_stages, log_spaced_steps
from perstep.studies.measurement import Effort, Row
from perstep.tabular.agent import TDLearning
from perstep.worlds.loops import two_loop
from perstep.worlds.redpill import red_pill_blue_pill

VALUE_SHARE = 0.05  # of the first error: an error that goes to 0 must have fallen below this
LEVEL = 0.05  # how far a converging level may still move in the last decade of steps
BIAS_TOLERANCE = 0.05  # relative error of a drift

VALUE_STEP = Decay(0.5, 0.8)
TIMESCALES = {
    "α/α_θ → 0": Decay(0.5, 0.55),
    "α/α_θ = 1": Decay(0.5, 0.8),
    "α/α_θ → ∞": Decay(0.5, 1.0),
    "α_θ constant": Decay(0.05, 0.0),
}
"""Limit of the ratio α/α_θ → α_θ, where α = 0.5 / (1 + ν)^0.8."""


def uniform(mdp: FiniteMDP) -> Floats:
    """The policy that takes all actions with equal probability. (S, A)"""
    return np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)


def value_errors(mdp: FiniteMDP, agent: TDLearning) -> tuple[float, float]:
    """RMS error of the values after removing their common level, and that level. v_π is unique up to a constant only."""
    exact = mdp.evaluate(agent.policy())
    level = float(agent.state_values @ exact.stationary)
    return float(np.sqrt(np.mean((agent.state_values - level - exact.state_values) ** 2))), level


SETUPS = (("two-loop", 10), ("red-pill", 3))
"""World and m: one in which the mean of the quantiles is exactly r̄, and one in which it is not."""


def measure_values(effort: Effort) -> list[Row]:
    """Errors of V, of its level and of R̄ over the steps of D2 as printed, for each pair of timescales."""
    rows: list[Row] = []
    for world, m in SETUPS:
        mdp = two_loop() if world == "two-loop" else red_pill_blue_pill()
        exact = mdp.evaluate(uniform(mdp))
        for timescale, reward_step in TIMESCALES.items():
            agents = [
                TDLearning(
                    mdp,
                    uniform(mdp),
                    step_size=VALUE_STEP,
                    reward_step_size=reward_step,
                    num_quantiles=m,
                    preset="paper",
                    seed=run,
                )
                for run in range(effort.runs)
            ]
            for step in learn_in_stages(agents, log_spaced_steps(1000, effort.steps // 4)):
                for run, agent in enumerate(agents):
                    error, level = value_errors(mdp, agent)
                    average = abs(agent.average_reward - exact.average_reward)
                    rows.append({
                        "world": world, "m": m, "timescale": timescale, "step": step, "run": run,
                        "error": error, "level": level, "average_error": average,
                    })  # fmt: skip
    return rows


def value_curves(frame: pl.DataFrame) -> pl.DataFrame:
    """RMS errors over runs, and mean and standard deviation of the level, for each configuration and step."""
    by = frame.group_by("world", "m", "timescale", "step", maintain_order=True)
    return by.agg(
        error=(pl.col("error") ** 2).mean().sqrt(),
        average_error=(pl.col("average_error") ** 2).mean().sqrt(),
        level=pl.col("level").mean(),
        level_spread=pl.col("level").std(),
    )


def value_claims(frame: pl.DataFrame) -> list[Claim]:
    """V converges if the mean of the quantiles is r̄, for all timescales; otherwise the level of V diverges."""
    table, shares, moved = value_curves(frame), {}, {}
    for (world, m, timescale), curve in table.partition_by("world", "m", "timescale", as_dict=True).items():
        key = f"{world}, m = {m}, {timescale}"
        shares[key] = float(curve["error"][-1] / curve["error"][0])
        moved[key] = float(curve["level"][-1] - curve["level"][max(0, len(curve) - 1 - LOOKS_PER_DECADE)])
    two, one, none = (f"two-loop, m = 10, {ratio}" for ratio in list(TIMESCALES)[:3])
    biased = "red-pill, m = 3, α/α_θ → 0"
    return [
        Claim(
            where="Theorem B.18",
            says="V converges to the differential values under two timescales (two-loop, m = 10: the mean of q is r̄)",
            measured=f"the error falls to {shares[two]:.1%} of that after 1,000 steps; V's level moves by {abs(moved[two]):.4f} "
            "in the last decade of steps",
            tolerance=f"{VALUE_SHARE:.0%}, {LEVEL:g}",
            holds=shares[two] <= VALUE_SHARE and abs(moved[two]) <= LEVEL,
        ),
        Claim(
            where="Assumption B.17",
            says="α/α_θ need not vanish for that: θ does not depend on V",
            measured=f"with α/α_θ = 1 the error falls to {shares[one]:.1%} and the level moves by {abs(moved[one]):.4f}; with "
            f"α/α_θ → ∞ {shares[none]:.1%} and {abs(moved[none]):.2f}, as θ itself hardly moves any more",
            tolerance=f"{VALUE_SHARE:.0%}, {LEVEL:g} for a ratio of 1",
            holds=shares[one] <= VALUE_SHARE and abs(moved[one]) <= LEVEL,
        ),
        Claim(
            where="Theorem B.18",
            says="V has a limit for any m (red-pill, m = 3: the mean of q is not r̄)",
            measured=f"its level moves by {abs(moved[biased]):.3f} in the last decade of steps",
            tolerance=f"{LEVEL:g}",
            holds=abs(moved[biased]) <= LEVEL,
        ),
    ]


# The bias of a finite m


BIAS_SIZES = (1, 3, 4, 5, 7, 11, 51)
"""Values of m without the levels ¼ and ¾: there F is almost flat, so θ may stop anywhere between two groups of rewards."""
BIAS_STEP = 0.01


def measure_bias(effort: Effort) -> list[Row]:
    """The drift of V per step with a constant α, and the prediction α (r̄ − mean of exact quantiles) / S; also with the offset."""
    rows: list[Row] = []
    mdp = red_pill_blue_pill()
    exact = mdp.evaluate(uniform(mdp))
    for m in BIAS_SIZES:
        bias = exact.average_reward - float(exact.reward_distribution.quantile(levels(m)).mean())
        for algorithm, offset_ratio in (("D2 as printed", 0.0), ("D2 with offset", 0.1)):
            settings = {"step_size": BIAS_STEP, "reward_ratio": 0.05, "num_quantiles": m, "offset_ratio": offset_ratio}
            agents = [
                TDLearning(mdp, uniform(mdp), preset="paper", seed=run, **settings)
                for run in range(max(2, effort.runs // 2))
            ]
            half = effort.steps // 4
            begin = np.zeros(len(agents))
            for step in learn_in_stages(agents, (half, 2 * half)):
                level = np.array([agent.state_values.mean() for agent in agents])
                begin = level if step == half else begin
            predicted = BIAS_STEP * bias / mdp.num_states if offset_ratio == 0.0 else 0.0
            for run, drift in enumerate((level - begin) / half):
                row = {"m": m, "algorithm": algorithm, "run": run, "bias": bias}
                rows.append({**row, "drift": float(drift), "predicted": predicted, "alpha": BIAS_STEP})
    return rows


def bias_claims(frame: pl.DataFrame) -> list[Claim]:
    """V drifts by the bias of m quantiles; with the learned offset it does not drift."""
    off: list[float] = []
    left: list[float] = []
    largest = float(frame["predicted"].abs().to_numpy().max())
    for (_, algorithm), runs in frame.partition_by("m", "algorithm", as_dict=True).items():
        miss = abs(float(runs["drift"].to_numpy().mean()) - runs["predicted"][0])
        (off if algorithm == "D2 as printed" else left).append(miss / largest)
    return [
        Claim(
            where="ours",
            says="with a finite m, V of D2 drifts by α (r̄ − mean of q) / S a step",
            measured=f"for m from {BIAS_SIZES[0]} to {BIAS_SIZES[-1]} off by {max(off):.1%} of the largest drift at most; "
            f"with the offset {max(left):.1%} of it are left",
            tolerance=f"{BIAS_TOLERANCE:.0%}",
            holds=max(*off, *left) <= BIAS_TOLERANCE,
        )
    ]


THEOREMS = (
    Theorem(name="values", figure="two_timescales", measure=measure_values, claims=value_claims),
    Theorem(name="bias", figure="finite_m", measure=measure_bias, claims=bias_claims),
)
