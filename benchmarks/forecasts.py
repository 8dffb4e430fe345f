"""How often the 90 % band of a forecast holds the sum of the next rewards: 100,000 simulated sums in six finite worlds.

Two bands: the one that is given by default (up to 100 steps that of another 100,000 simulated sums, then the normal one of the
exact mean and variance), and the normal one for every number of steps.
"""

from __future__ import annotations

from measuring import table

from perstep.worlds import (
    access_control,
    garnet,
    inventory,
    maintenance,
    red_pill_blue_pill,
    service_queue,
)

WORLDS = {
    "red-pill blue-pill": red_pill_blue_pill,
    "Garnet, 50 states": lambda: garnet(50, 3, 4, 1, reward_sd=0.3),
    "access control": access_control,
    "service queue": service_queue,
    "inventory": inventory,
    "maintenance": maintenance,
}
HORIZONS = (10, 100, 1000, 10_000)


def main(*, quick: bool) -> None:
    num_paths = 10_000 if quick else 100_000
    rows = []
    for name, make in WORLDS.items():
        mdp = make()
        evaluation = mdp.evaluate(mdp.solve().policy, epsilon=0.1)
        for num_steps in HORIZONS:
            given, normal = evaluation.forecast(num_steps, seed=1), evaluation.forecast(num_steps, num_paths=0)
            sums = evaluation.forecast(num_steps, num_paths=num_paths, seed=2).samples
            assert sums is not None
            shares = []
            for low, high in (given.interval(0.9), normal.interval(0.9)):
                shares.append(f"{100 * ((low <= sums) & (sums <= high)).mean():.1f} %")
            error = (sums.mean() - normal.mean) / normal.std * num_paths**0.5
            rows.append([name, f"{num_steps:,}", *shares, f"{error:+.1f}", f"{sums.var() / normal.variance:.3f}"])
            print("  ".join(rows[-1]), flush=True)
    table(
        "Share of simulated sums in the 90 % band of a forecast",
        ("world", "steps", "given band", "normal band", "mean, in standard errors", "variance ratio"),
        rows,
    )
