"""Steps per second of each compiled world: through Gymnasium with random actions, and inside the loop of a learner.

python benchmarks/run.py worlds [--quick]
"""

from __future__ import annotations

import warnings

import gymnasium
from measuring import in_turns, rate, table

import perstep
from perstep.worlds import WORLDS

MOTION = ("CartPole", "MountainCar", "Acrobot", "InvertedPendulum", "PendulumSwingUp", "PuckWorld")


def main(quick: bool = False) -> None:
    steps, loop_steps = (2_000, 100_000) if quick else (20_000, 1_000_000)
    rows = []
    for name, (_, settings) in WORLDS.items():
        short = name.removeprefix("perstep/").removesuffix("-v0")
        if "world" not in settings and short not in MOTION:
            continue
        env = gymnasium.make(name)
        agent = perstep.QLearning(name) if "world" in settings else perstep.TileQ(name)
        env.reset(seed=0)
        actions = [env.action_space.sample() for _ in range(steps)]

        def through_gymnasium(env: gymnasium.Env = env, actions: list = actions) -> None:
            for action in actions:
                env.step(action)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # findings about what was learnt: only the speed counts here
            agent.learn(1_000, progress=False)  # compiles

            def inside_the_loop(agent: perstep.Agent = agent) -> None:
                agent.learn(loop_steps, progress=False)

            outside, inside = in_turns([through_gymnasium, inside_the_loop], tries=3)
        learner = f"{type(agent).__name__}, {agent.config.rule}"
        rows.append((short, rate(steps / outside), rate(loop_steps / inside), learner))
    table("Steps per second", ("world", "through Gymnasium", "inside the loop", "learner"), rows)
