"""How tables explore: ε candidates by the reward of the whole life, and the policy at the end, in finite worlds of ours.

`python benchmarks/exploration_of_tables.py [--steps 10000 100000 1000000] [--seeds 3] [--rules differential d2] [--out FILE]`

A score is 0 for uniformly random actions and 1 for the optimum. "life": the mean reward over all steps so far. "end": the greedy
policy. Rivers and Taxi are reported apart: there only planning helps.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from defaults import WORLDS
from scores import exactly

import perstep
from perstep.agent.together import learn_together

ORDINARY = (
    "access_control", "garnet_100", "frozenlake_8x8", "service_queue", "inventory", "red-pill", "two-loop", "maintenance",
    "recycling_robot", "admission_control",
)  # fmt: skip
HARD = ("riverswim_12", "taxi")
CANDIDATES: dict[str, Any] = {
    "0.1": 0.1,
    "1/sqrt(1 + n)": perstep.Decay(1.0, 0.5),
    "1/(1 + n/10)": perstep.Decay(1.0, 1.0, 10.0),
}


def measure(
    names: list[str], rules: list[str], stops: list[int], seeds: int, candidates: dict[str, Any]
) -> pl.DataFrame:
    rows = []
    for name in names:
        mdp = WORLDS[name].make()
        uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
        lowest, best = exactly(mdp, uniform).average_reward, mdp.solve().average_reward
        for rule in rules:
            for label, epsilon in candidates.items():
                own = {} if epsilon is None else {"epsilon": epsilon}
                agents = [perstep.QLearning(mdp, rule=rule, seed=seed, **own) for seed in range(seeds)]
                for before, stop in zip([0, *stops], stops, strict=False):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UserWarning)
                        learn_together(agents, stop - before, progress=False)
                    for seed, agent in enumerate(agents):
                        greedy = exactly(mdp, agent.policy(deterministic=True)).average_reward
                        life, rewards = agent.history.lifetime_reward, agent.reward_distribution
                        rows.append({
                            "world": name, "rule": rule, "epsilon": label, "steps": stop, "seed": seed,
                            "life": (life - lowest) / (best - lowest), "end": (greedy - lowest) / (best - lowest),
                            "average_off": (agent.average_reward - rewards.mean) / max(rewards.std, 1e-9),
                            "findings": ", ".join(found.name for found in agent.check()),
                        })  # fmt: skip
    return pl.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=[*ORDINARY, *HARD])
    parser.add_argument("--rules", nargs="+", default=["differential", "d2"])
    parser.add_argument("--steps", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--defaults", action="store_true", help="only the default")
    parser.add_argument("--out", type=Path, help="a Parquet file")
    flags = parser.parse_args()
    candidates = {"default": None} if flags.defaults else CANDIDATES
    frame = measure(flags.worlds, flags.rules, flags.steps, flags.seeds, candidates)
    if flags.out:
        frame.write_parquet(flags.out)
    pl.Config.set_tbl_rows(-1), pl.Config.set_tbl_cols(-1), pl.Config.set_tbl_width_chars(200)
    keys = ["rule", "epsilon", "steps"]
    of_world = frame.group_by("world", *keys, maintain_order=True).agg(
        pl.col("life", "end", "average_off").mean(), pl.col("findings").first()
    )
    for name, group in of_world.partition_by("world", as_dict=True, maintain_order=True).items():
        print(name[0], group.drop("world"))
    ordinary = of_world.filter(pl.col("world").is_in(ORDINARY))
    print("ordinary", ordinary.group_by(keys, maintain_order=True).agg(
        life=pl.col("life").mean(), lowest_life=pl.col("life").min(), end=pl.col("end").mean(), good=(pl.col("end") >= 0.9).sum()
    ))  # fmt: skip


if __name__ == "__main__":
    main()
