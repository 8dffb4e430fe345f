"""Control: the bound of Theorem 4.4 at every observation, and the drift of Q that contradicts Theorem B.25 (Q_t → q∞) if ε > 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import brentq

from perstep.mdp.evaluation import NotUnichain
from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.schedules import Decay
from perstep.paper.claims.claim import Claim
from perstep.paper.theory.measuring import Floats, Theorem, learn_in_stages, log_spaced_steps
from perstep.rules.transition import RULES
from perstep.studies.measurement import Effort, Row
from perstep.tabular.agent import QLearning
from perstep.worlds.loops import two_loop
from perstep.worlds.random_mdps import garnet
from perstep.worlds.redpill import red_pill_blue_pill
from perstep.worlds.servers import access_control

ROUNDING = 1e-9  # rounding error allowed in an inequality
GAP_SHARE = 0.1  # of the first gap: a gap that goes to 0 must have fallen below this
FAINT = 0.02  # of the largest drift: smaller drifts are dominated by noise
DRIFT_TOLERANCE = 0.05  # relative error of a slope over half a run
REST_TOLERANCE = 0.3  # relative error; it includes the noise of the last steps
STILL = 0.05  # of the drift as printed: the largest remainder with the learned offset

ALGORITHMS: dict[str, dict[str, Any]] = {
    "Differential": {"rule": "differential", "reward_ratio": 0.2},
    "D2 with offset": {"rule": "d2", "offset_ratio": 0.2, "num_quantiles": 51},
    "D2 as printed": {"rule": "d2", "num_quantiles": 51},
}


def worlds() -> dict[str, FiniteMDP]:
    """Four communicating worlds."""
    return {
        "red-pill": red_pill_blue_pill(),
        "two-loop": two_loop(),
        "Garnet": garnet(8, 2, 3, seed=3),
        "access control": access_control(),
    }


# sp(TQ − Q) ≥ r̄* − r̄_π


def bellman_difference(mdp: FiniteMDP, q: Floats) -> Floats:
    """TQ − Q. (S, A)"""
    return np.asarray(mdp.expected_rewards + mdp.transitions @ q.max(axis=1) - q)


def lowest_gain(mdp: FiniteMDP, policy: Floats) -> float:
    """r̄ of a policy; if its chain has several recurrent classes, r̄ from the worst initial state."""
    try:
        return mdp.evaluate(policy).average_reward
    except NotUnichain:
        return min(mdp.evaluate(policy, start=state).average_reward for state in range(mdp.num_states))


def measure_gap(effort: Effort) -> list[Row]:
    """Minimum and maximum of TQ − Q, the exact gain of the greedy policy, and the mean of Q, with decaying steps and ε = 0.1.

    α = ν^−0.8 works well in practice; α = 1/ν is the only power that satisfies the asynchronous Assumption B.15.
    """
    rows: list[Row] = []
    for world, mdp in worlds().items():
        best = mdp.solve().average_reward
        for algorithm, settings in ALGORITHMS.items():
            for power in (0.8, 1.0) if algorithm == "D2 as printed" else (0.8,):
                steps: dict[str, Any] = {"step_size": Decay(0.5 if power < 1 else 1.0, power)}
                if RULES[settings["rule"]].has_reward_quantiles:
                    steps["reward_step_size"] = Decay(0.5, 0.6)
                runs = max(2, effort.runs // 2)
                agents = [QLearning(mdp, preset="paper", seed=run, **settings, **steps) for run in range(runs)]
                for step in learn_in_stages(agents, log_spaced_steps(1000, effort.steps // 2)):
                    for run, agent in enumerate(agents):
                        q = agent.all_action_values
                        difference = bellman_difference(mdp, q)
                        gain = lowest_gain(mdp, agent.policy(deterministic=True))
                        rows.append({
                            "world": world, "algorithm": algorithm, "power": power, "step": step, "run": run,
                            "low": float(difference.min()), "high": float(difference.max()), "gain": gain, "best": best,
                            "mean_value": float(q.mean()), "predicted_gap": None,
                        })  # fmt: skip
                if algorithm == "D2 as printed":
                    _predict_gap(rows, mdp, agents, power)
    return rows


def _predict_gap(rows: list[Row], mdp: FiniteMDP, agents: list[QLearning], power: float) -> None:
    """Put the predicted limit of the gap of a drifting Q, sp of k w^(p − 1), into the last row of each run."""
    for row, agent in zip(rows[-len(agents) :], agents, strict=True):
        weights = agent.visits / agent.steps
        if weights.min() > 0.0:
            row["predicted_gap"] = float(
                np.ptp(rise(mdp, weights, agent.average_reward, power) * weights ** (power - 1))
            )


def gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """Means over runs of sp(TQ − Q), of the shortfall r̄* − r̄_π and of the mean value, for each configuration and step."""
    return (
        frame.group_by("world", "algorithm", "power", "step", maintain_order=True)
        .agg(
            gap=(pl.col("high") - pl.col("low")).mean(),
            shortfall=(pl.col("best") - pl.col("gain")).mean(),
            mean_value=pl.col("mean_value").mean(),
            predicted_gap=pl.col("predicted_gap").mean(),
        )
        .sort("world", "algorithm", "power", "step")
    )


SETTLING = ("red-pill", "Garnet")
"""Worlds in which the rarest state-action pair is visited often enough for the gap to close within a run."""


def gap_claims(frame: pl.DataFrame) -> list[Claim]:
    """The bound holds for any Q; the gap closes if Q converges; the drift of D2 as printed keeps a predicted gap open."""
    low, high, gain, best = (frame[name].to_numpy() for name in ("low", "high", "gain", "best"))
    broken = int(((low > gain + ROUNDING) | (gain > best + ROUNDING) | (best > high + ROUNDING)).sum())
    curves = gaps(frame).filter(pl.col("world").is_in(SETTLING))
    shares, printed, assumed = [], [], []
    for (algorithm, power), some in curves.partition_by("algorithm", "power", as_dict=True).items():
        for curve in some.partition_by("world"):
            share = float(curve["gap"][-1] / curve["gap"][0])
            if algorithm != "D2 as printed":
                shares.append(share)
            elif power == 1.0:
                assumed.append((share, float(curve["mean_value"][-1] - curve["mean_value"][len(curve) // 2])))
            else:
                printed.append((float(curve["gap"][-1]), curve["predicted_gap"][-1]))
    ratios = [found / wanted for found, wanted in printed if wanted]
    return [
        Claim(
            where="Theorem 4.4",
            says="min(TQ − Q) ≤ r̄_π ≤ r̄* ≤ max(TQ − Q), hence r̄* − r̄_π ≤ sp(TQ − Q)",
            measured=f"broken at {broken} of {len(frame):,} looks, in {frame['world'].n_unique()} worlds",
            tolerance="never",
            holds=broken == 0,
        ),
        Claim(
            where="Theorem 4.4",
            says="sp(TQ − Q) goes to 0 as Q converges: Differential, and D2 with the learned offset",
            measured=f"it falls to {min(shares):.1%} to {max(shares):.1%} of its first value ({' and '.join(SETTLING)})",
            tolerance=f"{GAP_SHARE:.0%}",
            holds=max(shares) <= GAP_SHARE,
        ),
        Claim(
            where="Theorem B.25",
            says="Q of D2 as printed converges and is bounded (Lemma B.28), here with steps 1/ν and ε = 0.1",
            measured="Q keeps rising: in the second half of the looks by "
            + " and ".join(f"{rise:.2f}" for _, rise in assumed)
            + ", as log t; sp(TQ − Q) falls to " + " and ".join(f"{share:.1%}" for share, _ in assumed),
            tolerance="a rise of 0.01",
            holds=all(abs(rise) <= 0.01 for _, rise in assumed),
        ),
        Claim(
            where="ours",
            says="with the usual steps ν^−0.8, sp(TQ − Q) of D2 as printed does not go to 0 but to sp(k w^−0.2)",
            measured="it ends at " + " and ".join(f"{found:.4f}" for found, _ in printed)
            + (", " + " and ".join(f"{ratio:.2f}" for ratio in ratios) + " times that" if ratios else ""),
            tolerance=f"{REST_TOLERANCE:.0%}",
            holds=bool(ratios) and max(abs(ratio - 1) for ratio in ratios) <= REST_TOLERANCE,
        ),
    ]  # fmt: skip


# The drift of Q


def rise(mdp: FiniteMDP, weights: Floats, average: float, power: float = 0.0) -> float:
    """k, the common drift of all entries of Q if R̄ is not the optimal gain: k α per step for a constant α.

    With steps c ν^−p, the pair (s, a) moves by c w^(1−p) t^−p (TQ − Q − R̄)(s, a) per step, where w (S, A) is its share of the
    visits. All pairs rise equally, by k c t^−p, if TQ − Q = R̄ + k w^(p−1): the Bellman equation with rewards r − k w^(p−1) and
    gain R̄. The optimal gain for such rewards decreases with k, so k is the only root of optimal gain(k) = R̄.
    """

    def excess(k: float) -> float:
        table = mdp.expected_rewards - k * weights ** (power - 1.0)
        return FiniteMDP(mdp.transitions, table, initial=mdp.initial).solve().average_reward - average

    span = 1e-6
    while excess(-span) * excess(span) > 0.0:
        span *= 4.0
    return float(brentq(excess, -span, span, xtol=1e-12))


DRIFTS = (
    ("red-pill", 5, 0.1), ("red-pill", 10, 0.1), ("red-pill", 51, 0.05), ("red-pill", 51, 0.1), ("red-pill", 51, 0.2),
    ("Garnet", 51, 0.1), ("two-loop", 50, 0.1), ("access control", 51, 0.1),
)  # fmt: skip
"""World, m and ε."""
DRIFT_STEP = 0.01
SETTLED = 2.0  # visits × α of the rarest pair: how many time constants have passed for it


def measure_drift(effort: Effort) -> list[Row]:
    """The slope of mean Q over the second half of runs with a constant α, and k computed from the visits and R̄ of that half."""
    rows: list[Row] = []
    half = effort.steps // 4
    for world, m, epsilon in DRIFTS:
        mdp = worlds()[world]
        best = mdp.solve().average_reward
        for algorithm, settings in ALGORITHMS.items():
            more = {} if algorithm == "Differential" else {"num_quantiles": m, "reward_ratio": 0.1}
            agents = [
                QLearning(mdp, preset="paper", **{**settings, **more}, epsilon=epsilon, step_size=DRIFT_STEP, seed=run)
                for run in range(max(2, effort.runs // 2))
            ]
            at = [half * i // 10 for i in range(1, 21)]
            levels_seen, visits = [np.zeros(len(agents))], []
            for step in learn_in_stages(agents, at):
                levels_seen.append(np.array([agent.all_action_values.mean() for agent in agents]))
                if step in (at[9], at[19]):
                    visits.append([agent.visits for agent in agents])
            for run, agent in enumerate(agents):
                trace = [float(level[run]) for level in levels_seen]
                share = (visits[1][run] - visits[0][run]) / (at[19] - at[9])
                rows.append({
                    "world": world, "m": m, "epsilon": epsilon, "algorithm": algorithm, "run": run, "alpha": DRIFT_STEP,
                    "drift": (trace[20] - trace[10]) / (at[19] - at[9]),
                    "predicted": _predicted_drift(mdp, agent, share, half) if algorithm == "D2 as printed" else 0.0,
                    "shortfall": best - lowest_gain(mdp, agent.policy(deterministic=True)),
                    "steps": [0, *at], "mean_values": trace,
                })  # fmt: skip
    return rows


def _predicted_drift(mdp: FiniteMDP, agent: QLearning, share: Floats, num_steps: int) -> float | None:
    """α k from the visits of one run in `num_steps` steps; None if some pair is too rare to have reached the common drift."""
    if share.min() * num_steps * DRIFT_STEP < SETTLED:
        return None
    late = slice(len(agent.history) // 2, None)
    # R̄ tracks the sampled rewards and shares their noise; k is defined with expected rewards.
    ahead = float((agent.history.average_reward[late] - agent.history.reward_rate[late]).mean())
    return DRIFT_STEP * rise(mdp, share, ahead + float((share * mdp.expected_rewards).sum()))


def drifts(frame: pl.DataFrame) -> pl.DataFrame:
    """The mean over runs of the drift of Q per step and of its prediction, for each configuration."""
    by = frame.group_by("world", "m", "epsilon", "algorithm", maintain_order=True)
    return by.agg(
        pl.col("drift").mean(), pl.col("predicted").mean(), pl.col("shortfall").mean(), pl.col("alpha").first()
    )


def drift_claims(frame: pl.DataFrame) -> list[Claim]:
    """With ε > 0, Q of D2 is not bounded; its drift is as predicted; the learned offset removes it."""
    printed = frame.filter(pl.col("algorithm") == "D2 as printed")
    smallest, largest = (float(end) for end in (printed["drift"].to_numpy().min(), printed["drift"].to_numpy().max()))
    known = printed.filter(pl.col("predicted").abs() > FAINT * largest)
    off = ((known["drift"] - known["predicted"]) / known["predicted"]).abs().to_numpy()
    offset = frame.filter(pl.col("algorithm") == "D2 with offset")
    left = float(offset["drift"].abs().to_numpy().max()) / largest
    bent = drifts(frame).filter(pl.col("world").is_in(["Garnet", "access control"])).sort("world")
    missed = [
        bent.filter(pl.col("algorithm") == name)["shortfall"].to_numpy() for name in ("D2 as printed", "D2 with offset")
    ]
    short = [" and ".join(f"{each:.3f}" for each in some) for some in missed]
    worse = bool((missed[0] > missed[1]).all())
    return [
        Claim(
            where="ours",
            says="while it explores with a constant α, Q of D2 as printed rises without end, and the policy suffers",
            measured=f"by {smallest:.1e} to {largest:.1e} a step; the greedy policies (Garnet; access control) end {short[0]} "
            f"short of r̄*, {short[1]} with the offset",
            tolerance="a rise; short by more than with the offset",
            holds=smallest > 0 and worse,
        ),
        Claim(
            where="ours",
            says="the drift of Q is α k a step, with k the root of gain*(r − k/w) = R̄",
            measured=f"off by {np.median(off):.1%} in the median of {off.size} runs in {known['world'].n_unique()} worlds, "
            f"{off.max():.1%} at most"
            if off.size
            else "no run was long enough",
            tolerance=f"{DRIFT_TOLERANCE:.0%} in the median",
            holds=bool(np.median(off) <= DRIFT_TOLERANCE) if off.size else None,
        ),
        Claim(
            where="ours",
            says="the learned offset ends the drift",
            measured=f"at most {left:.1%} of the largest are left",
            tolerance=f"{STILL:.0%}",
            holds=left <= STILL,
        ),
    ]


THEOREMS = (
    Theorem(name="optimality_gap", figure="optimality_gap", measure=measure_gap, claims=gap_claims),
    Theorem(name="drift", figure="drift", measure=measure_drift, claims=drift_claims),
)
