"""The exact risk-averse optimum: beside brute force over all deterministic policies, and its time beside that of the mean.

50 random worlds at four levels, and tandem queues of up to 100,000 states. The random worlds and the brute force are those of
tests/mdp/test_risk.py, which runs a few of them.

python benchmarks/run.py risk [--quick]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from measuring import table

SIZES = (30, 70, 150, 315)  # capacities of the two queues: 961 to 99,856 states
LEVELS_OF_SIZES = (0.1, 0.5)


def main(*, quick: bool) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mdp"))
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
    sizes(SIZES[:2] if quick else SIZES)


def sizes(capacities: tuple[int, ...]) -> None:
    """Processor seconds of the largest mean and of the largest CVaR."""
    from perstep.worlds import tandem_queue

    rows = []
    tandem_queue(34).solve(risk_level=0.5, time_limit=0)  # compiles
    for capacity in capacities:
        mdp = tandem_queue(capacity)
        seconds, proven = [], []
        for level in (1.0, *LEVELS_OF_SIZES):
            begin = time.process_time()
            solution = mdp.solve(risk_level=level)
            seconds.append(time.process_time() - begin)
            proven.append(solution.proven)
        assert all(proven)
        rows.append((f"{mdp.num_states:,}", *(f"{each:.2f}" for each in seconds)))
    table("Tandem queue: processor seconds", ("states", "mean", *(f"CVaR {level}" for level in LEVELS_OF_SIZES)), rows)
