"""Evaluations during a run: the current policy acts in a separate copy of the world, so that evaluations change no result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from perstep.agent.agent import Agent
from perstep.agent.evaluation import Evaluation
from perstep.files.storage import BadFile, read_table, write_table
from perstep.inputs.checks import count
from perstep.numerics.randomness import make_generator

if TYPE_CHECKING:
    import polars

EVALUATION_STEPS = 10_000  # of each evaluation, by default
STREAM = 5  # branch of the agent's generator that gives the seeds of evaluations


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """When a run evaluates its agent, and for how many steps."""

    every: int
    """Steps between two evaluations: the agent is evaluated at each multiple of this number."""
    num_steps: int = EVALUATION_STEPS
    """Number of steps of each evaluation."""
    deterministic: bool = False
    """Whether to evaluate without exploration."""

    def __post_init__(self) -> None:
        count("evaluate_every", self.every, 1)
        count("evaluate_steps", self.num_steps, 1)


@final
class EvaluationLog:
    """Evaluates the agent of a run, and keeps one row for each evaluation in a file, published again after each."""

    def __init__(self, path: Path, plan: EvaluationPlan, agent: Agent) -> None:
        """Rows of later steps than the agent's are dropped: a resumed run will evaluate there again."""
        require_second_world(agent)
        self.path, self.plan = path, plan
        self._rows = [row for row in read_rows(path) if row["step"] <= agent.steps]

    def next_step(self, step: int) -> int:
        """The step of the next evaluation after this step."""
        return step - step % self.plan.every + self.plan.every

    def is_due(self, step: int) -> bool:
        """Whether the agent is to be evaluated at this step."""
        return step > 0 and step % self.plan.every == 0 and all(row["step"] != step for row in self._rows)

    def evaluate(self, agent: Agent) -> Evaluation:
        """Evaluate the agent, and publish the row of this evaluation."""
        seed = int(
            make_generator(agent.config.seed, STREAM, agent.steps)[0] >> 33
        )  # below 2³¹, another seed at each step
        earned = agent.evaluate(self.plan.num_steps, self.plan.deterministic, seed)
        rows = [*self._rows, row_of(agent.steps, earned, self.plan, seed)]
        write_table(self.path, frame(rows))
        self._rows = rows
        return earned


def row_of(step: int, earned: Evaluation, plan: EvaluationPlan, seed: int) -> dict[str, Any]:
    """The row of one evaluation."""
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
    """One row for each evaluation; episode_return is the mean over its episodes, NaN if no episode ended."""
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
    """The rows of a file that `EvaluationLog` wrote; empty if there is no file."""
    if not path.exists():
        return []
    try:
        found = read_table(path)
    except (OSError, BadFile) as error:
        raise BadFile(
            f"{path} cannot be read: {error}. Move the file away to continue without its evaluations."
        ) from error
    if found.schema != frame([]).schema:
        raise BadFile(
            f"Expected evaluations of a run in {path}, got the columns {', '.join(found.columns)}. Move the file away to continue."
        )
    return found.to_dicts()


def require_second_world(agent: Agent) -> None:
    """Refuse a world that cannot be created a second time: an evaluation in the agent's own world would change what it learns."""
    if agent.mdp is not None:
        return
    world = agent._gymnasium_world()
    try:
        another, reason = world._made_again(), "it has no specification to create it from"
    except Exception as error:  # whatever error the world raises
        another, reason = None, str(error)
    if another is None:
        raise ValueError(
            f"To evaluate an agent during a run, its world must be created a second time, but {world.env} cannot be: {reason}. "
            "Leave out --evaluate-every, and evaluate at the end."
        )
    another.close()
