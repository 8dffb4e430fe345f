"""Every rule and baseline on tiles in the continuing worlds whose state is a vector of numbers, beside rules of practice.

python benchmarks/continuing_tiles.py [--scale smoke|small|paper] [--out FOLDER] [--show]
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
from continuing import EFFORTS, HEURISTIC, print_summary, scores_and_means, summary, with_best_step_sizes
from matplotlib.figure import Figure
from scores import file_name, measurements, run, tables

from perstep.agent.making import make_agent
from perstep.agent.together import learn_together
from perstep.studies.measurement import Effort, Row
from perstep.tiles.agent import TileQ

OURS = (
    "differential-actor-critic", "d2-actor-critic", "d3-actor-critic", "differential-tile-sarsa", "d2-tile-sarsa", "d3-tile-sarsa",
    "differential-tile-expected-sarsa", "rvi-tile-sarsa",
)  # fmt: skip
"""With their defaults. Those of `TileQ` bootstrap from the action that is taken next, which is Sarsa."""
BASELINES = ("tile-q", "quantile-tile-q", "tile-sarsa", "centered-tile-q")
ALGORITHMS = (*OURS, *BASELINES)
STEP_SIZES = (0.03, 0.1, 0.3, 1.0)
"""Of the baselines, divided by the number of tilings: each gets the one that is best for it over all worlds."""

RANDOM = "random actions"
EVALUATION = 20_000  # steps with the greedy policy, from a start
RANDOM_STEPS = 2_000_000  # of random actions in compiled worlds; elsewhere as many as of an evaluation


@dataclass(frozen=True, kw_only=True)
class TileWorld:
    """A world and the rule that stands for a score of 1."""

    name: str
    """Its id, without `perstep/` and `-v0`."""
    rule: Callable[[Any, Any], int]
    """(environment, observation) → action: what somebody who knows the world would do."""
    steps_factor: int = 3
    """Steps of a run, as a multiple of those of the effort."""

    @property
    def id(self) -> str:
        """The id of Gymnasium."""
        return f"perstep/{self.name}-v0"


def hold_upright(env: Any, observation: Any) -> int:
    """Inverted pendulum: torque against the angle that is ahead, none near the top."""
    lean = observation[0] + 0.4 * observation[1]
    return 1 if abs(lean) <= 0.03 else 0 if lean > 0 else 2


def swing_up(env: Any, observation: Any) -> int:
    """Pendulum swing-up: torque along the motion until the energy is that of standing, then hold."""
    angle, velocity = observation
    if abs(angle) < 0.3:
        lean = angle + 0.35 * velocity
        return 1 if abs(lean) <= 0.002 else 0 if lean > 0 else 2
    missing = 0.5 * velocity**2 + 4.9 * (math.cos(angle) - 1.0) < 0.0
    return 2 if (velocity >= 0.0) == missing else 0


def balance(env: Any, observation: Any) -> int:
    """CartPole: push under the falling pole, and a little against position and velocity of the cart."""
    position, velocity, angle, turning = observation
    return int(angle + 0.3 * turning + 0.02 * position + 0.05 * velocity > 0.0)


def along_the_motion(env: Any, observation: Any) -> int:
    """MountainCar: accelerate in the direction in which the car moves."""
    return 2 if observation[1] >= 0.0 else 0


def pump(env: Any, observation: Any) -> int:
    """Acrobot: torque against the motion of the upper link, which swings the tip."""
    return 2 if observation[4] < 0.0 else 0


def own_rule(env: Any, observation: Any) -> int:
    """The heuristic of the world itself."""
    return int(env.unwrapped.heuristic(observation))


WORLDS = {
    "Inverted pendulum": TileWorld(name="InvertedPendulum", rule=hold_upright),
    "Pendulum swing-up": TileWorld(name="PendulumSwingUp", rule=swing_up),
    "CartPole": TileWorld(name="CartPole", rule=balance),
    "MountainCar": TileWorld(name="MountainCar", rule=along_the_motion),
    "Acrobot": TileWorld(name="Acrobot", rule=pump),
    "PuckWorld": TileWorld(name="PuckWorld", rule=own_rule),
    "Autoscaling": TileWorld(name="Autoscaling", rule=own_rule, steps_factor=1),  # it is not compiled
}
"""Title → world."""


def earned(world: TileWorld, num_steps: int = EVALUATION) -> float:
    """The average reward of the rule, from a start."""
    env: Any = gymnasium.make(world.id)
    observation, _ = env.reset(seed=0)
    total = 0.0
    for _ in range(num_steps):
        observation, reward, *_ = env.step(np.int64(world.rule(env, observation)))
        total += float(reward)
    env.close()
    return total / num_steps


def earned_at_random(world: TileWorld) -> float:
    """The average reward of uniformly random actions."""
    agent = TileQ(world.id, preset="paper", epsilon=1.0, tilings=1, tiles=1)
    num_steps = EVALUATION if agent.compiled_world is None else RANDOM_STEPS
    return agent.evaluate(num_steps, seed=0).average_reward


def measure_world(title: str, effort: Effort) -> list[Row]:
    """One row per algorithm and run, and one each for random actions (score 0) and for the rule (score 1)."""
    world = WORLDS[title]
    lowest, practice = earned_at_random(world), earned(world)

    def row(name: str, step_size: float | None, seed: int, average: float) -> Row:
        score = (average - lowest) / (practice - lowest)
        return {
            "world": title, "algorithm": name, "step_size": step_size, "seed": seed, "score": score, "average_reward": average,
            "quantile_error": None,
        }  # fmt: skip

    rows = [row(RANDOM, None, 0, lowest), row(HEURISTIC, None, 0, practice)]
    for name, step_size in configurations():
        # The same features as ours have by default.
        own = {} if step_size is None else {"step_size": step_size, "tiles": "auto"}
        agents = [make_agent(name, world.id, seed=seed, **own) for seed in range(effort.runs)]
        with warnings.catch_warnings():  # findings about an agent: they are measured here
            warnings.simplefilter("ignore", UserWarning)
            learn_together(agents, effort.steps * world.steps_factor, progress=False)
            for seed, agent in enumerate(agents):
                evaluation = agent.evaluate(EVALUATION, deterministic=True, seed=seed)
                rows.append(row(name, step_size, seed, evaluation.average_reward))
    return rows


def configurations() -> list[tuple[str, float | None]]:
    """Each algorithm with its step size; None for its default."""
    return [(name, None) for name in OURS] + [(name, step_size) for name in BASELINES for step_size in STEP_SIZES]


MEASUREMENTS = measurements(
    "continuing_tiles", {f"tiles_{file_name(title)}": title for title in WORLDS}, measure_world, EFFORTS
)


def all_worlds(folder: Path) -> pl.DataFrame:
    """The tables of all worlds as one, each baseline with its best step size."""
    return with_best_step_sizes(tables(folder, MEASUREMENTS), BASELINES, STEP_SIZES)


def say(folder: Path) -> None:
    print_summary(summary(all_worlds(folder), ALGORITHMS))


def draw(folder: Path) -> Figure:
    frame = all_worlds(folder)
    return scores_and_means(frame, summary(frame, ALGORITHMS), "score (0 random, 1 rule of practice)", OURS)


if __name__ == "__main__":
    sys.exit(run("continuing_tiles", MEASUREMENTS, draw, say, __doc__))
