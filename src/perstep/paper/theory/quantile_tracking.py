"""Reward quantiles: Lemma 4.2 (their mean goes to r̄ as m grows) and Theorem B.12 (θ_t → q, with decreasing L(θ_t))."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtr

from perstep.distributions.distribution import Distribution
from perstep.mdp.mdp import FiniteMDP
from perstep.numerics.quantiles import levels
from perstep.numerics.schedules import Decay
from perstep.paper.claims.claim import Claim
from perstep.paper.theory.measuring import LOOKS_PER_DECADE, Floats, Theorem, learn_in_stages, log_spaced_steps, slope
from perstep.studies.measurement import Effort, Row
from perstep.tabular.agent import TDLearning
from perstep.worlds.loops import two_loop
from perstep.worlds.random_mdps import garnet
from perstep.worlds.redpill import red_pill_blue_pill
from perstep.worlds.servers import access_control

EPSILON = 0.1
SLOPE_TOLERANCE = 0.15  # of an exponent fitted to the second half of the observations of a run
NOISE_TOLERANCE = 0.3  # relative error of a mean over few runs

TRACKED = (
    ("red-pill", 5, 0.75),
    ("red-pill", 10, 0.75),
    ("red-pill", 51, 0.75),
    ("red-pill", 10, 0.6),
    ("two-loop", 10, 0.75),
)
"""World, m and the power p of α_θ = 1 / (1 + t)^p."""


def worlds() -> dict[str, tuple[FiniteMDP, Floats]]:
    """Each world with its policy: ε-greedy in red-pill blue-pill, uniformly random in two-loop."""
    red_pill, loops = red_pill_blue_pill(), two_loop()
    blue = red_pill.evaluate(red_pill.solve().policy, epsilon=EPSILON).policy
    return {
        "red-pill": (red_pill, blue),
        "two-loop": (loops, np.full((loops.num_states, loops.num_actions), 1.0 / loops.num_actions)),
    }


# θ_t → q, and L(θ_t) → 0


class Target(NamedTuple):
    """The set of limits of θ: Λ of Lemma B.11."""

    rewards: Distribution
    tau: Floats  # (m,)
    low: Floats  # (m,): a_i, the τ_i-quantile
    high: Floats  # (m,): b_i, larger than a_i if F is constant at τ_i on an interval

    @classmethod
    def of(cls, rewards: Distribution, m: int) -> Target:
        """The m quantiles of a distribution, as the sets q_i = [a_i, b_i] of Theorem B.12."""
        tau = levels(m)
        return cls(rewards, tau, rewards.quantile(tau), rewards.quantile(tau * (1.0 + 1e-9)))

    def distance(self, theta: Floats) -> Floats:
        """The distance of each θ_i from the set q_i."""
        return np.maximum(np.maximum(self.low - theta, theta - self.high), 0.0)


def expected_gap(rewards: Distribution, x: Floats) -> Floats:
    """∫ F(s) ds up to x, which is E[(x − R)⁺], in closed form for a mixture of normals and atoms with an upper cap."""
    below = np.minimum(x, rewards.cap)[:, None]
    spread = rewards.sds > 0.0
    atoms = np.maximum(below - rewards.means[~spread], 0.0) @ rewards.weights[~spread]
    sds = rewards.sds[spread]
    z = (below - rewards.means[spread]) / sds
    normals = (sds * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))) @ rewards.weights[spread]
    return np.asarray(atoms + normals + np.maximum(x - rewards.cap, 0.0))


def lyapunov(target: Target, theta: Floats) -> float:
    """L(θ) = Σ_i ∫ (F(s) − τ_i) ds from q_i to θ_i (Lemma B.11): convex, 0 at the quantiles, gradient minus the mean pull."""
    rise = expected_gap(target.rewards, theta) - expected_gap(target.rewards, target.low)
    return float((rise - target.tau * (theta - target.low)).sum())


def predicted_error(target: Target, step_size: float) -> float:
    """RMS of θ − q for independent rewards with density f: each variance tends to α τ(1 − τ) / 2f(q)."""
    cdf, tau, h = target.rewards.cdf, target.tau, 1e-4
    density = (cdf(target.low + h) - cdf(target.low - h)) / (2 * h)
    return float(np.sqrt(np.mean(step_size * tau * (1 - tau) / (2 * density))))


def predicted_lyapunov(m: int, step_size: float) -> float:
    """¼ α Σ τ(1 − τ) = α (m/24 + 1/48m): half of f times the variance in `predicted_error`, where the density cancels."""
    return step_size * (m / 24 + 1 / (48 * m))


def measure_tracking(effort: Effort) -> list[Row]:
    """Error and L of θ over the steps of D2 prediction with a decaying α_θ, starting at θ = 0."""
    rows: list[Row] = []
    for world, m, power in TRACKED:
        mdp, policy = worlds()[world]
        target = Target.of(mdp.evaluate(policy).reward_distribution, m)
        settings = {"step_size": 0.01, "reward_step_size": Decay(1.0, power), "num_quantiles": m}
        agents = [TDLearning(mdp, policy, preset="paper", seed=run, **settings) for run in range(effort.runs)]
        for step in learn_in_stages(agents, log_spaced_steps(100, effort.steps // 2)):
            alpha = step**-power
            smooth = world == "red-pill"
            same = {
                "world": world,
                "m": m,
                "power": power,
                "step": step,
                "predicted_error": predicted_error(target, alpha) if smooth else None,
                "predicted_lyapunov": predicted_lyapunov(m, alpha) if smooth else None,
            }
            for run, agent in enumerate(agents):
                theta = agent.reward_quantiles
                error = float(np.sqrt(np.mean(target.distance(theta) ** 2)))
                rows.append({**same, "run": run, "error": error, "lyapunov": lyapunov(target, theta)})
    return rows


def tracking_curves(frame: pl.DataFrame, *keys: str) -> dict[tuple[object, ...], pl.DataFrame]:
    """Root mean square error and mean L over runs, with their predictions, for each configuration and step."""
    curves = frame.group_by("world", "m", "power", "step").agg(
        error=(pl.col("error") ** 2).mean().sqrt(),
        lyapunov=pl.col("lyapunov").mean(),
        predicted_error=pl.col("predicted_error").first(),
        predicted_lyapunov=pl.col("predicted_lyapunov").first(),
    )
    return curves.sort("world", "m", "power", "step").partition_by(*keys, as_dict=True)


def tracking_claims(frame: pl.DataFrame) -> list[Claim]:
    """θ_t → q at the rate of stochastic approximation, and L(θ_t) decreases to α_θ (m/24 + 1/48m)."""
    told, errors, floors, rises, decades = [], [], [], 0, 0
    atoms = 0.0
    for key, curve in tracking_curves(frame, "world", "m", "power").items():
        world, m, power = str(key[0]), key[1], float(str(key[2]))
        late = curve.tail(LOOKS_PER_DECADE)
        found = slope(curve["step"].to_numpy().astype(float), curve["error"].to_numpy())
        if world == "red-pill":
            errors.append(float((late["error"] / late["predicted_error"]).to_numpy().mean()))
            floors.append(float((late["lyapunov"] / late["predicted_lyapunov"]).to_numpy().mean()))
            told.append(f"{found:.2f} (m = {m}, p = {power:g})")
        else:  # at an atom the pull does not vanish, so the error is of order α_θ, not √α_θ
            atoms = found + power
            told.append(f"{found:.2f} ({world}, m = {m}, p = {power:g})")
        by_decade = [
            part.mean() for part in np.array_split(curve["lyapunov"].to_numpy(), max(2, len(curve) // LOOKS_PER_DECADE))
        ]
        rises, decades = rises + int((np.diff(by_decade) >= 0).sum()), decades + len(by_decade) - 1
    return [
        Claim(
            where="Theorem B.12",
            says="the reward quantiles θ converge to those of the limiting distribution, with falling steps α_θ = 1/t^p",
            measured=f"in the last decade of steps the error is {min(errors):.2f} to {max(errors):.2f} times "
            f"√(α_θ τ(1 − τ) / 2f); slopes of log error: {', '.join(told)}",
            tolerance=f"{NOISE_TOLERANCE:.0%}; {SLOPE_TOLERANCE:g} in the slope at atoms, −p",
            holds=max(abs(ratio - 1) for ratio in errors) <= NOISE_TOLERANCE and abs(atoms) <= SLOPE_TOLERANCE,
        ),
        Claim(
            where="Lemma B.11",
            says="L(θ) falls along the way",
            measured=f"the mean of L over runs rises in {rises} of {decades} decades of steps, and ends at "
            f"{min(floors):.2f} to {max(floors):.2f} times α_θ (m/24 + 1/48m)",
            tolerance=f"no rise; {NOISE_TOLERANCE:.0%} in the end",
            holds=rises == 0 and max(abs(ratio - 1) for ratio in floors) <= NOISE_TOLERANCE,
        ),
    ]


# L along the differential inclusion, without noise


def measure_flow(effort: Effort) -> list[Row]:
    """L along dθ/dt = τ − F(θ), in small steps, starting from both sides. There is no noise, so L must decrease at every step."""
    rows: list[Row] = []
    dt, every = 0.02, 20
    for world, (mdp, policy) in worlds().items():
        target = Target.of(mdp.evaluate(policy).reward_distribution, 10)
        for start in (-1.5, 1.0 if world == "red-pill" else 3.0):
            theta = np.full(target.tau.size, start)
            for i in range(min(2000, effort.steps // 20)):
                if i % every == 0:
                    value = lyapunov(target, theta)
                    rows.append({"world": world, "start": start, "time": i * dt, "lyapunov": value})
                pull = target.tau - target.rewards.cdf(theta)
                theta = theta + dt * np.where(
                    target.distance(theta) > dt, pull, 0.0
                )  # stop if the target is within one step
    return rows


def flow_claims(frame: pl.DataFrame) -> list[Claim]:
    """L decreases strictly until θ stops."""
    rises, total = 0, 0
    for curve in frame.partition_by("world", "start"):
        change = np.diff(curve["lyapunov"].to_numpy())
        rises, total = rises + int((change > 1e-12).sum()), total + change.size
    return [
        Claim(
            where="Lemma B.11",
            says="L is a Lyapunov function: along dθ/dt = τ − F(θ) it falls",
            measured=f"it rises in {rises} of {total} intervals, from starts on both sides, with a density and with atoms",
            tolerance="none",
            holds=rises == 0,
        )
    ]


# Lemma 4.2: no learning is needed


def exact_rewards() -> dict[str, Distribution]:
    """Exact reward distributions: two with a density, two on a few values."""
    random = garnet(8, 2, 3, seed=3, reward_sd=0.5)
    found = {f"{name}": mdp.evaluate(policy).reward_distribution for name, (mdp, policy) in worlds().items()}
    queue = access_control()
    found["access control"] = queue.evaluate(queue.solve().policy).reward_distribution
    found["Garnet, normal rewards"] = random.evaluate(np.full((8, 2), 0.5)).reward_distribution
    return found


def measure_mean(effort: Effort) -> list[Row]:
    """|mean of the m exact quantiles − r̄| for m from 1 to 1000, in four worlds."""
    sizes = [*range(1, 60), *(step for step in log_spaced_steps(60, 1000 if effort.steps > 20_000 else 200))]
    rows: list[Row] = []
    for world, rewards in exact_rewards().items():
        atoms = not rewards.sds.any()
        span = float(np.ptp(rewards.means)) if atoms else None
        for m in sizes:
            error = abs(float(rewards.quantile(levels(m)).mean()) - rewards.mean)
            bound = None if span is None else span / (2 * m)
            rows.append({"world": world, "discrete": atoms, "m": m, "error": error, "bound": bound})
    return rows


def mean_claims(frame: pl.DataFrame) -> list[Claim]:
    """The error goes to 0. For rewards in [a, b] it is at most (b − a) / 2m for every m."""
    first, last, over, checked = 0.0, 0.0, 0, 0
    for curve in frame.partition_by("world"):
        error, m = curve["error"].to_numpy(), curve["m"].to_numpy()
        first, last = max(first, error[m <= 10].max()), max(last, error[m >= m.max() / 2].max())
        bounded = curve.filter(pl.col("bound").is_not_null())
        over += int((bounded["error"] > bounded["bound"] + 1e-12).sum())
        checked += bounded.height
    most = int(frame["m"].to_numpy().max())
    return [
        Claim(
            where="Lemma 4.2",
            says="the mean of the m quantiles goes to the average reward as m grows",
            measured=f"the worst error of {frame['world'].n_unique()} worlds is {first:.3f} for m ≤ 10 and {last:.5f} for "
            f"m from {most // 2} to {most}; above (b − a)/2m in {over} of {checked} cases with rewards from a to b",
            tolerance="a tenth of the first; never above the bound",
            holds=last <= first / 10 and over == 0,
        )
    ]


THEOREMS = (
    Theorem(name="tracking", figure="quantile_tracking", measure=measure_tracking, claims=tracking_claims),
    Theorem(name="flow", figure="quantile_tracking", measure=measure_flow, claims=flow_claims),
    Theorem(name="quantile_mean", figure="quantile_mean", measure=measure_mean, claims=mean_claims),
)
