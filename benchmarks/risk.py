"""The exact risk-averse optimum beside brute force over all deterministic policies: 50 random worlds, four levels.

Its worlds and its brute force are those of tests/mdp/test_risk.py, which runs a few of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main(*, quick: bool) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "environments"))
    from test_risk import LEVELS, largest_cvars, random_world

    errors, widths = [], []
    for seed in range(5 if quick else 50):
        mdp = random_world(seed)
        for level, expected in zip(LEVELS, largest_cvars(mdp), strict=True):
            solution = mdp.solve(risk_level=float(level))
            low, high = solution.interval
            errors.append(abs(solution.cvar - expected))
            widths.append(high - low)
            assert low - 1e-12 <= expected <= high + 1e-12
    print(f"{len(errors)} cases: largest error {np.max(errors):.1e}, widest proven interval {np.max(widths):.1e}")
