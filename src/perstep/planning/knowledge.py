"""What follows from the counts at one step: the best policy in the world as learnt, and draws of what it may earn."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perstep.agent.states import one_hot
from perstep.mdp.evaluation import NotUnichain, PolicyEvaluation
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.solving import NotCommunicating, Solution
from perstep.planning.beliefs import Experience
from perstep.planning.counts import NONE, Counts
from perstep.planning.known import Possibility, possibilities, world_as_learnt
from perstep.planning.plan import Plan
from perstep.planning.settings import PlannerConfig

POSSIBILITIES = 100  # draws of what is not known: their 5 and 95 % quantiles are known to about 2 %
MOST_WORK = 400_000  # entries in all draws: of a large world there are fewer
FEWEST_POSSIBILITIES = 10
EXPLORING_POLICY = 1e-6  # chance of a random action, where a policy alone has several closed classes


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """What follows from the counts at one step."""

    mdp: FiniteMDP
    policy: NDArray[np.int64]  # (S,)
    solution: Solution | None  # None where the learnt world falls into parts
    evaluation: PolicyEvaluation
    seen: tuple[Counts, Experience]
    state: int
    seed: int

    @cached_property
    def possibilities(self) -> list[Possibility]:
        """Draws of what the policy may earn."""
        counts, experience = self.seen
        entries = max(int(counts.size[0]), 1)
        number = min(POSSIBILITIES, max(FEWEST_POSSIBILITIES, MOST_WORK // entries))
        random = np.random.default_rng(self.seed)
        return possibilities(counts, experience, self.policy, self.state, number, random)


def conclude(
    counts: Counts,
    experience: Experience,
    plan: Plan,
    state: int,
    real: FiniteMDP | None,
    name: str,
    config: PlannerConfig,
) -> Knowledge:
    """Solve the world as learnt, and evaluate its best policy. `state`: where the agent is; `real`: the world, for its names."""
    mdp = world_as_learnt(counts, experience, state, real, name)
    solution: Solution | None = None
    policy = np.maximum(plan.actions, 0).astype(np.int64)
    try:
        solution = mdp.solve(risk_level=config.risk_level)
        policy = np.asarray(solution.policy)
    except (NotCommunicating, NotUnichain):
        pass  # too little was seen: then the policy is that of the current plan
    policy = _visited(counts, policy)
    rows = np.eye(mdp.num_actions)[policy]
    try:
        evaluation = mdp.evaluate(one_hot(rows), start=mdp.initial)
    except NotUnichain:
        evaluation = mdp.evaluate(rows, epsilon=EXPLORING_POLICY, start=mdp.initial)
    return Knowledge(mdp, policy, solution, evaluation, (counts, experience), state, config.seed)


def _visited(counts: Counts, policy: NDArray[np.int64]) -> NDArray[np.int64]:
    """The policy with actions that were taken before, where any was. In a state that was never left, the action that is taken
    in most of the others: nothing else is known there."""
    visited = counts.newest.reshape(policy.size, -1) != NONE
    left = visited.any(axis=1)
    is_visited = np.take_along_axis(visited, policy[:, None], axis=1)[:, 0]
    chosen = np.where(is_visited, policy, visited.argmax(axis=1))
    return np.where(left, chosen, np.bincount(chosen[left], minlength=visited.shape[1]).argmax())
