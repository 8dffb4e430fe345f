"""d3 with a horizon (docs/decisions/0013-horizon.md): its return distribution beside the exact one, its policies beside d2's."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from defaults import WORLDS
from measuring import table
from scores import exactly

import perstep
from perstep.numerics.quantiles import levels
from perstep.worlds import garnet, red_pill_blue_pill

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from exact_returns import return_spreads, sampled_returns

DISTRIBUTIONS = {
    "red-pill": red_pill_blue_pill,
    "Garnet(10, 3, 3)": lambda: garnet(10, 3, 3, seed=1),
    "Garnet(20, 3, 4), sd 0.5": lambda: garnet(20, 3, 4, seed=2, reward_sd=0.5),
}
HORIZONS = (10, 20)
N = 51


def main(*, quick: bool) -> None:
    warnings.simplefilter("ignore", perstep.FindingWarning)
    distributions(quick=quick)
    policies(quick=quick)


def distributions(*, quick: bool) -> None:
    """The spread of Z in all pairs of the best policy, and the quantiles of Z where it is most often."""
    looks = (100_000, 1_000_000) if quick else (1_000_000, 10_000_000)
    middle, rows = (levels(N) > 0.04) & (levels(N) < 0.96), []
    for name, make in DISTRIBUTIONS.items():
        mdp = make()
        best, policy = mdp.solve(), mdp.solve().action_values.argmax(axis=1)
        stationary = mdp.evaluate(best.policy).stationary
        state, used = int(stationary.argmax()), np.flatnonzero(stationary > 0.01)
        for horizon in HORIZONS:
            factor = 1.0 - 1.0 / horizon
            exact = return_spreads(mdp, factor)
            truth = np.quantile(sampled_returns(mdp, factor, state, policy[state], 400_000), levels(N))
            agent = perstep.QLearning(mdp, rule="d3", horizon=horizon, num_quantiles=N, seed=1)
            for steps in looks:
                agent.learn(steps - agent.steps)
                ratio = [agent.return_quantiles(s, policy[s]).std() / exact[s, policy[s]] for s in used]
                found = np.sort(agent.return_quantiles(state, policy[state]))
                off = (found - found.mean() - truth) / exact[state, policy[state]]
                rows.append((
                    name, f"{factor:g}", f"{steps:,}", f"{min(ratio):.3f} to {max(ratio):.3f}",
                    f"{np.sqrt((off**2).mean()):.3f}", f"{np.abs(off[middle]).max():.3f}", f"{np.abs(off).max():.3f}",
                ))  # fmt: skip
    table(
        f"Z of d3 with a horizon, n = {N}, the defaults: learnt against exact, errors of quantiles in standard deviations of Z",
        ("world", "g", "steps", "spread, learnt / exact", "quantiles, rms", "largest, 5 to 95 %", "largest, 1 to 99 %"),
        rows,
    )


def policies(*, quick: bool) -> None:
    """The exact gain of the greedy policy in the finite worlds of `perstep reproduce defaults`."""
    steps, rows = 100_000 if quick else 300_000, []
    for world in WORLDS.values():
        mdp = world.make()
        best, gains = mdp.solve().average_reward, {}
        for name, settings in {"d2": {"rule": "d2"}, "horizon": {"rule": "d3", "horizon": 20}}.items():
            agents = [perstep.QLearning(mdp, seed=seed, **settings) for seed in range(4)]
            perstep.learn_together(agents, steps, progress=False)
            gains[name] = np.array([exactly(mdp, agent.policy(deterministic=True)).average_reward for agent in agents])
        rows.append((
            world.title, f"{best:.4f}", *(f"{g.mean():.4f} (lowest {g.min():.4f})" for g in gains.values()),
            f"{gains['horizon'].mean() - gains['d2'].mean():+.4f}",
        ))  # fmt: skip
        print(*rows[-1], sep="  ", flush=True)
    table(
        f"Exact gain of the greedy policy after {steps:,} steps, the defaults, 4 seeds",
        ("world", "best", "d2", "d3, horizon 20", "difference"),
        rows,
    )
