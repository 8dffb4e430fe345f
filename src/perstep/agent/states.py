"""Agents in a world of states that can be numbered: how they read it, act in it and answer."""

from __future__ import annotations

import dataclasses
import operator
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from perstep.agent.agent import Agent, AgentHooks, Floats
from perstep.agent.arrays import within
from perstep.agent.evaluation import Evaluation
from perstep.distributions.sampling import stretches
from perstep.files import storage
from perstep.gym.opening import Absent
from perstep.gym.spaces import Numbering, discrete_actions, numbering
from perstep.inputs.checks import count
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.sampler import follow_in_mdp
from perstep.numerics.compiled import announce
from perstep.numerics.randomness import Generator, draw

if TYPE_CHECKING:
    import polars

    from perstep.gym.opening import World


class StatesAgent(Agent):
    """An agent that knows states and actions by their numbers."""

    _reads_vectors = False
    _control: ClassVar[bool] = True  # whether it looks for a policy

    def __init__(self, env: World | Absent, config: Any) -> None:
        super().__init__(env, config)
        if not self._has_loop_for_mdps:  # Gymnasium speaks of numbers
            self._opened = dataclasses.replace(self._opened, numbered=True)
        self._states, self._actions = self._numberings()

    @property
    def _real_mdp(self) -> FiniteMDP | None:
        """The finite MDP that the world is, if it is one."""
        return self._opened.mdp

    @property
    def _num_states(self) -> int:
        """Rows of the table."""
        return self._states.count

    @property
    def _num_actions(self) -> int:
        """Actions of the world."""
        return self._actions.count

    def policy(self, deterministic: bool = False) -> Floats:
        """Probabilities of the actions in every state, (S, A), as the agent behaves with the current ε; with `deterministic`,
        without chance."""
        if not isinstance(deterministic, bool | np.bool_):
            raise TypeError(
                f"policy() of a table is that of all states, and takes deterministic=True or False, got {deterministic!r}. For one "
                "state, take its row: policy()[number]; or predict(state) for its action."
            )
        return self._allowed_chances(slice(None), deterministic)

    def _allowed_chances(self, states: Any, deterministic: bool) -> Floats:
        """As `_chances`, without actions that a state does not have."""
        rows = self._chances(states, deterministic)
        return rows if self._real_mdp is None else self._real_mdp.only_allowed(rows, states)

    @abstractmethod
    def frame(self) -> polars.DataFrame:
        """What was learnt, one row for each state."""

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write `frame()` as a .parquet, .csv or .json file, for programs without perstep."""
        writers = {".parquet": "write_parquet", ".csv": "write_csv", ".json": "write_json"}
        if (suffix := Path(path).suffix) not in writers:
            raise ValueError(
                f"A table is exported to a file that ends in {', '.join(writers)}, got {os.fspath(path)!r}."
            )
        with storage.published(Path(path)) as draft:
            getattr(self.frame(), writers[suffix])(draft)

    @abstractmethod
    def _chances(self, states: Any, deterministic: bool) -> Floats:
        """The policy in some states, (…, A)."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect.

        An observation is what the world gives, and an action what it takes. In a Gymnasium environment, also in one with a
        `FiniteMDP` inside, these are Gymnasium's numbers. An agent that was given a `FiniteMDP` with names takes and returns these:
        the name of a state, and that of an action (where no name is a number, numbers of states will also do).
        """
        numbers = self._states.number(observation)
        rows = self._allowed_chances(numbers.ravel(), deterministic)  # (batch, A)
        if deterministic:
            chosen = rows.argmax(axis=1)
        else:
            chosen = np.array([draw(row, self._prediction_generator) for row in rows], np.int64)
        return (self._actions.point(int(chosen[0])) if numbers.ndim == 0 else self._actions.points(chosen)), None

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> Evaluation | None:
        return (
            None
            if self._real_mdp is None
            else follow_policy(self, self.policy(deterministic), generator, picker, num_steps, kept)
        )

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        policy = self.policy(deterministic)
        return lambda observation: self._actions.point(int(draw(policy[self._states.one(observation)], generator)))

    def _numberings(self) -> tuple[Numbering, Numbering]:
        if self._real_mdp is not None:
            names = self._opened.names
            return Numbering.named(names.of_states), Numbering.named(names.of_actions)
        if (absent := self._opened.absent) is not None:
            return Numbering.from_json(absent.spaces["states"]), Numbering.from_json(absent.spaces["actions"])
        env = self._opened.env
        states, name = numbering(env.observation_space), type(self).__name__
        if states is None:
            instead = (
                "perstep.ActorCritic and perstep.TileQ take bounded boxes, perstep.DeepQ images and vectors."
                if self._control
                else "Predict a policy there with perstep.ActorCritic(perstep.FollowPolicy(env, policy)) for bounded boxes, "
                "or with perstep.DeepQ for images and vectors."
            )
            raise TypeError(
                f"{name} keeps a row for every state and needs discrete observations, but this world has "
                f"{env.observation_space}. {instead}"
            )
        return states, discrete_actions(env.action_space, name)

    def _spaces(self) -> dict[str, Any]:
        return {"states": self._states.to_json(), "actions": self._actions.to_json()}

    def _check_point(self, point: Any, action: Any) -> None:
        within("observation", np.array([count("observation", point, 0)]), self._num_states)
        self._actions.one(operator.index(action))


def follow_policy(
    agent: Agent, policy: Floats, generator: Generator, picker: Generator, num_steps: int, kept: Floats
) -> Evaluation:
    """Follow fixed probabilities (S, A) in the agent's MDP."""
    assert agent._opened.mdp is not None
    announce(follow_in_mdp)
    state, total = np.zeros(1, np.int64), np.zeros(1)
    for begin, end in stretches(num_steps):
        follow_in_mdp(agent._opened.mdp.world, policy, generator, picker, begin, end, num_steps, state, total, kept)
    return Evaluation.of_kept(float(total[0]), kept, np.zeros(0), num_steps)


class StateHooks(AgentHooks):
    """What the plain loop asks of every such agent; a point is the number of a state."""

    _agent: Any

    def read(self, observation: Any) -> int:
        """The number of the state that is observed."""
        return int(self._agent._states.one(observation))

    def _outside(self, *points: int) -> IndexError:
        wrong = next(point for point in points if not 0 <= point < self._agent._num_states)
        return IndexError(f"A state must be from 0 to {self._agent._num_states - 1}, got {wrong!r}.")


def one_hot(scores: Floats) -> Floats:
    """Probability one for the first of the best in every row."""
    rows: Floats = np.eye(scores.shape[1])[scores.argmax(axis=1)]
    return rows
