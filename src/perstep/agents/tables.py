"""The agents on a table: TDLearning for prediction, QLearning for control (Alg. 3, 4, 7, 8, 11 and Wan et al. 2021)."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep import interaction, rules, storage, tabular
from perstep.agents.agent import Agent, Floats, Snapshot, fill, flatten, put, within
from perstep.agents.worlds import Absent
from perstep.compiled import announce
from perstep.config import LearnerConfig, QLearningConfig, TDLearningConfig, count
from perstep.environments.exact import policy_probabilities
from perstep.environments.finite_world import start
from perstep.environments.spaces import Numbering, numbering
from perstep.interaction import Behaviour, Span
from perstep.randomness import Generator, draw

if TYPE_CHECKING:
    from perstep.agents.worlds import World


class TabularAgent(Agent):
    """An agent with a row of values for every state."""

    _learner: ClassVar[int]
    _behaviour: Behaviour  # how it acts while it learns, for compiled code

    def __init__(self, env: World | Absent, config: LearnerConfig) -> None:
        super().__init__(env, config)
        self._states, self._actions = self._numberings()
        decay = config.value_decay
        self._run = tabular.Run(
            tabular.table(self.num_states, self._num_columns, config.value_size, config.initial_value),
            self._rewards,
            rules.workspace(config.value_size),
            rules.Schedule(decay.scale, decay.power, config.theta_scale, config.theta_power, config.offset_ratio),
        )
        self._state = np.zeros(1, np.int64)  # in an MDP; a Gymnasium world knows its own
        if self.mdp is not None:
            self._state[0] = start(self.mdp.world, self._generator)

    @property
    def num_states(self) -> int:
        """Rows of the table."""
        return self._states.count

    @property
    def num_actions(self) -> int:
        """Actions of the world."""
        return self._actions.count

    @property
    def visits(self) -> NDArray[np.int64]:
        """How often each entry was updated: (S,) for TD, (S, A) for Q."""
        return self._entries(self._run.table.visits).copy()

    def policy(self, deterministic: bool = False) -> Floats:
        """Probabilities of the actions in every state, (S, A), as the agent behaves; with `deterministic`, without chance."""
        return self._chances(slice(None), deterministic)

    @abstractmethod
    def _chances(self, states: Any, deterministic: bool) -> Floats:
        """The policy in some states, (…, A)."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""
        numbers = self._states.number(observation)
        rows = self._chances(numbers.ravel(), deterministic)  # (batch, A)
        if deterministic:
            chosen = rows.argmax(axis=1)
        else:
            chosen = np.array([draw(row, self._prediction_generator) for row in rows], np.int64)
        points = [self._actions.point(int(action)) for action in chosen]
        return (points[0] if numbers.ndim == 0 else np.array(points)), None

    def read(self, observation: Any) -> int:
        """The number of the state that is observed."""
        return self._states.one(observation)

    def act(self, point: int) -> Any:
        """An action for the world, chosen as the agent behaves while it learns."""
        return self._actions.point(
            int(interaction.act(self._learner, self._behaviour, self._run, point, self._generator))
        )

    def learn_then_act(self, point: int, action: Any, reward: float, next_point: int, masked: bool, resume: int) -> Any:
        """Learn from one transition of a Gymnasium world, then act where it goes on."""
        chosen = interaction.learn_then_act(
            self._learner, self.config.rule_number, self._behaviour, self._run, self._record, self._generator, self.steps,
            point, self._actions.one(action), reward, next_point, masked, resume,
        )  # fmt: skip
        self.steps += 1
        return self._actions.point(int(chosen))

    def _entries(self, column_array: NDArray[Any]) -> NDArray[Any]:
        """Without the column axis where there is but one column, for TD."""
        return column_array if self._learner == tabular.Q else column_array[:, 0]

    def _row(self, observation: Any) -> Floats:
        values: Floats = self._run.table.values[self.read(observation)]  # (A, n)
        return values

    def _advance(self, num_steps: int) -> None:
        if self.mdp is None:
            announce(interaction.learn_then_act)
            self._gymnasium_world().learn(self, self.steps, num_steps)
            return
        announce(interaction.learn_in_mdp)
        self._state[0] = interaction.learn_in_mdp(
            self._learner, self.config.rule_number, self.mdp.world, self._behaviour, self._run, self._record,
            self._generator, Span(self._state[0], self.steps, num_steps),
        )  # fmt: skip
        self.steps += num_steps

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> float | None:
        if self.mdp is None:
            return None
        announce(interaction.follow_in_mdp)
        policy = self.policy(deterministic)
        return float(interaction.follow_in_mdp(self.mdp.world, policy, generator, picker, num_steps, kept))

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        policy = self.policy(deterministic)
        return lambda observation: self._actions.point(int(draw(policy[self.read(observation)], generator)))

    def _values(self) -> tuple[Floats, ...]:
        return (self._run.table.means,)

    def _snapshot(self) -> Snapshot:
        values = self._entries(self._run.table.values).copy()
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, values)

    @property
    def _num_columns(self) -> int:
        return self.num_actions if self._learner == tabular.Q else 1

    def _numberings(self) -> tuple[Numbering, Numbering]:
        if self.mdp is not None:
            return Numbering.of(self.mdp.num_states), Numbering.of(self.mdp.num_actions)
        if (absent := self._opened.absent) is not None:
            return Numbering.from_json(absent.spaces["states"]), Numbering.from_json(absent.spaces["actions"])
        env = self._opened.env
        states, actions = numbering(env.observation_space), numbering(env.action_space)
        name = type(self).__name__
        if states is None:
            raise TypeError(
                f"{name} keeps a row for every state and needs discrete observations, but this world has "
                f"{env.observation_space}. perstep.ActorCritic takes bounded boxes, perstep.DeepQ images and vectors."
            )
        if actions is None or actions.kind != "Discrete":
            raise TypeError(f"{name} needs a Discrete action space, but this world has {env.action_space}.")
        return states, actions

    def _spaces(self) -> dict[str, Any]:
        return {"states": self._states.to_json(), "actions": self._actions.to_json()}

    def _arrays(self) -> storage.Arrays:
        return {**flatten("table", self._run.table), "state": self._state}

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        super()._restore(arrays, metadata)
        fill("table", self._run.table, arrays)
        put("state", self._state, arrays)
        within("state", self._state, self.num_states)

    def _check_point(self, point: Any, action: Any) -> None:
        within("observation", np.array([count("observation", point, 0)]), self.num_states)
        self._actions.one(operator.index(action))


@final
class TDLearning(TabularAgent):
    """Prediction: the average reward, its distribution and the values of a given policy (Alg. 3, 7; Wan et al. 2021).

    `policy`: actions (S,), probabilities (S, A), or a function of the observation that returns either an action or the
    probabilities of all actions.
    """

    Config = TDLearningConfig
    _learner = tabular.TD

    def __init__(self, env: World | Absent, policy: ArrayLike | Callable[[Any], Any], **settings: Any) -> None:
        super().__init__(env, TDLearningConfig.of(settings))
        given: Any = (lambda state: policy(self._states.point(state))) if callable(policy) else policy
        self._policy = policy_probabilities(given, self.num_states, self.num_actions)
        self._behaviour = Behaviour(0.0, self._policy)

    def state_value(self, observation: Any) -> float:
        """V(s), the differential value of a state."""
        return float(self._run.table.means[self.read(observation), 0])

    @property
    def state_values(self) -> Floats:
        """V of all states, (S,)."""
        return self._run.table.means[:, 0].copy()

    def return_quantiles(self, observation: Any) -> Floats:
        """Ω(s), the quantiles of the differential return from a state, (n,); rule d3 only."""
        return self._return_quantiles(self._row(observation)[0])

    def _chances(self, states: Any, deterministic: bool) -> Floats:
        """The given policy; with `deterministic`, its likeliest action alone."""
        rows = np.array(self._policy[states])
        return one_hot(rows) if deterministic else rows

    def _arrays(self) -> storage.Arrays:
        return {**super()._arrays(), "policy": self._policy}


@final
class QLearning(TabularAgent):
    """Control: the best average reward, its distribution and the values of all actions, ε-greedily (Alg. 4, 8, 11)."""

    Config = QLearningConfig
    _learner = tabular.Q
    config: QLearningConfig

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        super().__init__(env, config := QLearningConfig.of(settings))
        self._behaviour = Behaviour(config.epsilon, np.zeros((0, 0)))

    def action_values(self, observation: Any) -> Floats:
        """Q(s, ·), (A,)."""
        return np.array(self._run.table.means[self.read(observation)])

    @property
    def all_action_values(self) -> Floats:
        """Q of all states and actions, (S, A)."""
        return self._run.table.means.copy()

    def return_quantiles(self, observation: Any, action: Any) -> Floats:
        """Ω(s, a), the quantiles of the differential return, (n,); rule d3 only."""
        return self._return_quantiles(self._row(observation)[self._actions.one(action)])

    def _chances(self, states: Any, deterministic: bool) -> Floats:
        """Greedy (ties to the first), or as it behaves: ε-greedy with ties shared."""
        means, epsilon = self._run.table.means[states], self.config.epsilon
        if deterministic:
            return one_hot(means)
        best = means == means.max(axis=1, keepdims=True)
        shared: Floats = best / best.sum(axis=1, keepdims=True)
        return (1 - epsilon) * shared + epsilon / self.num_actions


def one_hot(scores: Floats) -> Floats:
    """Probability one for the first of the best in every row."""
    rows: Floats = np.eye(scores.shape[1])[scores.argmax(axis=1)]
    return rows
