"""Evaluations while a run goes on: the policy of the moment in a world of its own, so that nothing that is learnt changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from perstep.agents.agent import Agent, Evaluation
from perstep.config import count
from perstep.randomness import make_generator
from perstep.storage import BadFile, published

if TYPE_CHECKING:
    import polars

BUDGET = 10_000  # steps of an evaluation, unless told otherwise
STREAM = 5  # of the agent's randomness, for the seeds of evaluations


@dataclass(frozen=True, kw_only=True)
class Plan:
    """When a run evaluates its agent, and for how long."""

    every: int
    """Steps from one evaluation to the next: it happens after each multiple of it."""
    num_steps: int = BUDGET
    """Budget of steps of an evaluation."""
    deterministic: bool = False
    """No exploration."""

    def __post_init__(self) -> None:
        count("evaluate_every", self.every, 1)
        count("evaluate_steps", self.num_steps, 1)


@final
class Evaluations:
    """The evaluations of a run, one row each, in a file that is published anew with each of them."""

    def __init__(self, path: Path, plan: Plan, agent: Agent) -> None:
        """Rows after the agent's step are forgotten: it will come there again."""
        refuse_the_only_world(agent)
        self.path, self.plan = path, plan
        self._rows = [row for row in read_rows(path) if row["step"] <= agent.steps]

    def next(self, step: int) -> int:
        """The first step after this one at which there is something to do."""
        return step - step % self.plan.every + self.plan.every

    def due(self, step: int) -> bool:
        """Whether the agent is to be evaluated now."""
        return step > 0 and step % self.plan.every == 0 and all(row["step"] != step for row in self._rows)

    def make(self, agent: Agent) -> Evaluation:
        """Evaluate the agent and publish a row about it."""
        seed = int(make_generator(agent.config.seed, STREAM, agent.steps)[0] >> 33)  # another one every time, below 2³¹
        earned = agent.evaluate(self.plan.num_steps, self.plan.deterministic, seed)
        rows = [*self._rows, row_of(agent.steps, earned, self.plan, seed)]
        with published(self.path) as draft:
            frame(rows).write_parquet(draft)
        self._rows = rows
        return earned


def row_of(step: int, earned: Evaluation, plan: Plan, seed: int) -> dict[str, Any]:
    """An evaluation as numbers."""
    returns = earned.episode_returns
    return {
        "step": step,
        "average_reward": earned.average_reward,
        "episode_return": float(returns.mean()) if returns.size else float(np.nan),
        "episodes": int(returns.size),
        "num_steps": plan.num_steps,
        "deterministic": plan.deterministic,
        "seed": seed,
    }


def frame(rows: list[dict[str, Any]]) -> polars.DataFrame:
    """One row an evaluation: step, average_reward, episode_return (mean; NaN if no episode ended), episodes, num_steps, …"""
    import polars

    return polars.DataFrame(
        rows,
        {
            "step": polars.Int64,
            "average_reward": polars.Float64,
            "episode_return": polars.Float64,
            "episodes": polars.Int64,
            "num_steps": polars.Int64,
            "deterministic": polars.Boolean,
            "seed": polars.Int64,
        },
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that `Evaluations` wrote; none where there is no file."""
    import polars

    if not path.exists():
        return []
    try:
        found = polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise BadFile(
            f"{path} cannot be read: {error}. Move it away to go on without the evaluations in it."
        ) from error
    if found.schema != frame([]).schema:
        raise BadFile(f"{path} holds {', '.join(found.columns)}, not the evaluations of a run. Move it away to go on.")
    return found.to_dicts()


def refuse_the_only_world(agent: Agent) -> None:
    """An evaluation in the world that the agent learns in would change what it learns, so another must be there to be made."""
    if agent.mdp is not None:
        return
    world = agent._gymnasium_world()
    try:
        another, why = world._copy(), "it does not say how it is made"
    except Exception as error:  # whatever the world says to being made twice
        another, why = None, str(error)
    if another is None:
        raise ValueError(
            f"To evaluate while it learns, an agent needs its world a second time, but {world.env} cannot be made again: {why}. "
            "Leave --evaluate-every out, and evaluate at the end."
        )
    another.close()
