"""The late stock, exactly: what "order when no more than so many pieces are left" earns, with and without random actions.

python benchmarks/look/late_stock.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from measuring import table

from worlds import LateStock

THRESHOLDS = (-1, 0, 20, 40, 60, 80, 100, 120, 150, 200, 240)  # −1: never order
EPSILON = 0.02  # of DeepQ
FEW = 60  # pieces: about what is sold until an order arrives


def main() -> None:
    mdp = LateStock().as_mdp()
    stock, wait = np.array(mdp.states).T
    rows = []
    for threshold in THRESHOLDS:
        policy = ((stock <= threshold) & (wait == 0)).astype(int)
        alone, exploring = (mdp.evaluate(policy, epsilon=epsilon) for epsilon in (0.0, EPSILON))
        lacking = float(exploring.stationary[(stock <= FEW) & (wait == 0)].sum())
        rows.append((
            "never" if threshold < 0 else str(threshold), f"{alone.average_reward:.4f}", f"{exploring.average_reward:.4f}",
            f"{lacking:.3%}",
        ))  # fmt: skip
    columns = ("orders at", "alone", f"ε = {EPSILON}", f"of its steps with {FEW} or fewer, none on the way")
    table(f"Late stock, reward per step; the optimum is {mdp.solve().average_reward:.4f}", columns, rows)


if __name__ == "__main__":
    main()
