"""What forecasts and a risk level cost: nanoseconds per step beside the same agent without them, taken in turns in one run.

The goals: a forecast takes at most 0.3 times a step of d2 more, and a scan of 25 targets at most 12 times one learner.
"""

from __future__ import annotations

from measuring import in_turns, table

import perstep

PAIRS = (
    ("d2 as printed, with forecasts", {"preset": "paper"}, {"preset": "paper", "forecast": True}, 1.3),
    ("d2 with defaults, with forecasts", {"forecast": False}, {}, 1.3),
    ("a risk level of 0.25, 25 targets", {"forecast": False}, {"risk_level": 0.25, "forecast": False}, 12.0),
)
WORLDS = ("perstep/RedPillBluePill-v0", "perstep/AccessControl-v0")


def main(*, quick: bool = False) -> None:
    """All of it."""
    steps, rows = 100_000 if quick else 1_000_000, []
    for world in WORLDS:
        for name, plain, more, goal in PAIRS:
            agents = [perstep.QLearning(world, seed=1, **settings) for settings in (plain, more)]
            for agent in agents:
                agent.learn(10_000, progress=False)
            without, with_it = in_turns([lambda agent=agent: agent._advance(steps) for agent in agents])
            took = (f"{1e9 * seconds / steps:.0f}" for seconds in (without, with_it))
            rows.append((world, name, *took, f"{with_it / without:.2f}", f"{goal:g}"))
            print(*rows[-1], flush=True)
    table("What it costs", ["world", "settings", "ns per step without", "with", "ratio", "goal"], rows)


if __name__ == "__main__":
    main()
