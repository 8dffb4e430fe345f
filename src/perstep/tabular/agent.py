"""The agents on a table: TDLearning for prediction, QLearning for control (Alg. 3, 4, 7, 8, 11 and Wan et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.agent.agent import Floats
from perstep.agent.arrays import Limits, below, flatten, has_shape
from perstep.agent.evaluation import Snapshot
from perstep.agent.life import LONGEST
from perstep.agent.states import StateHooks, StatesAgent, one_hot
from perstep.files import storage
from perstep.gym.behaviour import NO_ACTION, Behaviour
from perstep.gym.opening import Absent
from perstep.gym.spaces import Numbering
from perstep.inputs.checks import naming
from perstep.mdp.names import Names, labels
from perstep.mdp.policy_tables import policy_probabilities
from perstep.mdp.sampler import start
from perstep.numerics.compiled import announce
from perstep.numerics.policies import BOOTSTRAPS, GREEDY
from perstep.rules import transition
from perstep.rules.settings import LearnerConfig
from perstep.tabular import kernel, loop
from perstep.tabular.settings import QLearningConfig, TDLearningConfig

if TYPE_CHECKING:
    import polars

    from perstep.gym.opening import World


class TabularAgent(StatesAgent):
    """An agent with a row of values for every state."""

    _has_loop_for_mdps = True
    _learner_number: int  # for compiled code
    _behaviour: Behaviour  # how it acts while it learns, for compiled code
    config: LearnerConfig

    def __init__(self, env: World | Absent, config: LearnerConfig) -> None:
        super().__init__(env, config)
        n = config.value_size
        self._run = kernel.LearnerState(
            kernel.table(self._num_states, self._num_columns, n, config.initial_value),
            self._objective,
            config.workspace,
            config.schedule(self._num_states * self._num_columns),
            config.scale,
            self._reference(),
            self._risk,
        )
        self._place = np.array([0, NO_ACTION])  # state and chosen action in an MDP; a Gymnasium world knows its own
        if self.mdp is not None:
            self._place[0] = start(self.mdp.world, self._generator)
        self._hooks = TableHooks(self)

    @property
    def _loops(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The compiled code of this learner and this rule: its loop, and one step of it."""
        return loop.loops(self._learner_number, self.config.kernel)

    @property
    def visits(self) -> NDArray[np.int64]:
        """How often each entry was updated: (S,) for TD, (S, A) for Q."""
        return self._entries(self._run.table.visits).copy()

    def frame(self) -> polars.DataFrame:
        """What was learnt, one row for each state: its number, its visits, the best action (for Q), and the values."""
        import polars

        visits, scores = self._run.table.visits, self._run.table.scores  # (S, A)
        names = Names(range(self._num_states), range(self._num_actions)) if self.mdp is None else self.mdp.names
        columns: dict[str, Any] = {"state": np.arange(self._num_states)}
        columns |= {"name": labels(names.states)} if self.mdp is not None else {}
        columns["visits"] = visits.sum(axis=1)
        if not self._control:
            return polars.DataFrame({**columns, "value": scores[:, 0]})
        best = self.policy(deterministic=True).argmax(axis=1)
        if self.mdp is not None and self.mdp.allowed is not None:
            scores = np.where(self.mdp.allowed, scores, np.nan)
        columns["action"] = names.of_actions.column(best)
        values = {f"value_{name}": scores[:, a] for a, name in enumerate(labels(names.actions))}
        return polars.DataFrame({**columns, **values})

    def _entries(self, column_array: NDArray[Any]) -> NDArray[Any]:
        """Without the column axis for prediction, which has one column."""
        return column_array if self._control else column_array[:, 0]

    def _row(self, observation: Any) -> Floats:
        values: Floats = self._run.table.values[self._states.one(observation)]  # (A, n)
        return values

    def _advance(self, num_steps: int) -> None:
        if self.mdp is None:
            announce(self._loops[1])
            self._gymnasium_world().learn(self._hooks, self.steps, num_steps)
            return
        learn_in_mdp = self._loops[0]
        announce(learn_in_mdp)
        learn_in_mdp(
            self.mdp.world,
            self._behaviour,
            *self._run,
            self._life.record,
            self._generator,
            self._place,
            self.steps,
            num_steps,
        )
        self._life.steps += num_steps

    def _values(self) -> tuple[Floats, ...]:
        return (self._run.table.scores,)

    def _level_of_values(self) -> tuple[float, float]:
        return float(self._run.table.scores.mean()), float(self._run.table.values.std())

    def _snapshot(self) -> Snapshot:
        values = self._entries(self._run.table.values).copy()
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, values)

    @property
    def _num_columns(self) -> int:
        return self._num_actions if self._control else 1

    def _reference(self) -> NDArray[np.int64] | None:
        """What `rvi` reads its average from; the other rules have none."""
        return None

    def _arrays(self) -> storage.Arrays:
        return {**flatten("table", self._run.table), "place": self._place}

    def _limits(self) -> dict[str, Limits]:
        place = below([self._num_states, self._num_actions], least=[0, NO_ACTION])
        return {"table.visits": below(LONGEST), "place": place}

    @classmethod
    def _check_sizes(cls, config: Any, about: dict[str, Any], arrays: storage.Arrays) -> None:
        if about.get("kind") == "mdp":
            has_shape(arrays, "table.values", *arrays["table.scores"].shape, config.value_size)
            return
        states, actions = (Numbering.from_json(about["spaces"][name]).count for name in ("states", "actions"))
        columns = actions if cls._control else 1
        has_shape(arrays, "table.values", states, columns, config.value_size)
        if not cls._control:
            has_shape(arrays, "policy", states, actions)


@final
class TableHooks(StateHooks):
    """What the plain loop asks of an agent with a table; a point is the number of a state."""

    _agent: TabularAgent

    def act(self, point: int) -> Any:
        """An action for the world, chosen as the agent behaves while it learns."""
        agent = self._agent
        if not 0 <= point < agent._num_states:  # compiled code does not check indices
            raise self._outside(point)
        chosen = loop.act(agent._learner_number, agent._behaviour, agent._run.table, point, agent._generator)
        return agent._actions.point(int(chosen))

    def learn_then_act(self, point: int, action: Any, reward: float, next_point: int, masked: bool, resume: int) -> Any:
        """Learn from one transition of a Gymnasium world, then act in the next state."""
        agent, states = self._agent, self._agent._num_states
        if not (0 <= point < states and 0 <= next_point < states and 0 <= resume < states):
            raise self._outside(point, next_point, resume)
        chosen = agent._loops[1](
            agent._behaviour, *agent._run, agent._life.record, agent._generator, agent.steps, point,
            agent._actions.one(action), reward, next_point, masked, resume,
        )  # fmt: skip
        agent._life.steps += 1
        return agent._actions.point(int(chosen))


@final
class TDLearning(TabularAgent):
    """Prediction: the average reward, its distribution and the values of a given policy (Alg. 3, 7; Wan et al. 2021).

    `policy`: actions (S,), probabilities (S, A), or a function of the observation that returns either an action or the
    probabilities of all actions. In a `FiniteMDP` whose states and actions have names, these are meant.
    """

    Config = TDLearningConfig
    _control = False
    _learner_number = kernel.TD

    def __init__(self, env: World | Absent, policy: ArrayLike | Callable[[Any], Any], **settings: Any) -> None:
        super().__init__(env, TDLearningConfig.of(settings))
        given: Any = policy
        if self.mdp is not None:
            given = self._opened.names.policy(policy)
        elif callable(policy):
            given = lambda state: policy(self._states.point(state))  # noqa: E731
        self._policy = policy_probabilities(given, self._num_states, self._num_actions)
        self._behaviour = Behaviour(0.0, GREEDY, self._policy)

    def state_value(self, observation: Any) -> float:
        """V(s), the differential value of a state."""
        return float(self._run.table.scores[self._states.one(observation), 0])

    @property
    def state_values(self) -> Floats:
        """V of all states, (S,)."""
        return self._run.table.scores[:, 0].copy()

    def return_quantiles(self, observation: Any) -> Floats:
        """Ω(s), the quantiles of the differential return from a state, (n,); only for rules that learn them."""
        return self._return_quantiles(self._row(observation)[0])

    def _chances(self, states: Any, deterministic: bool) -> Floats:
        """The given policy; with `deterministic`, its likeliest action alone."""
        rows = np.array(self._policy[states])
        return one_hot(rows) if deterministic else rows

    def _arrays(self) -> storage.Arrays:
        return {**super()._arrays(), "policy": self._policy}

    @classmethod
    def _given(cls, arrays: storage.Arrays) -> tuple[Any, ...]:
        return (arrays["policy"],)


@final
class QLearning(TabularAgent):
    """Control: the best average reward, its distribution and the values of all actions, ε-greedily (Alg. 4, 8, 11).

    With `bootstrap="sampled"` it is Sarsa, with `bootstrap="expected"` Expected Sarsa.
    """

    Config = QLearningConfig
    _control = True
    config: QLearningConfig

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        super().__init__(env, config := QLearningConfig.of(settings))
        scale, power, delay = config.epsilon_decay
        self._behaviour = Behaviour(scale, BOOTSTRAPS.index(config.bootstrap), np.zeros((0, 0)), delay, power)
        as_printed = self._behaviour.bootstrap == GREEDY and self._run.reference is None
        self._learner_number = kernel.RISK_Q if self._run.risk else kernel.Q if as_printed else kernel.ANY_Q

    def action_values(self, observation: Any) -> Floats:
        """Q(s, ·), (A,)."""
        return np.array(self._run.table.scores[self._states.one(observation)])

    @property
    def all_action_values(self) -> Floats:
        """Q of all states and actions, (S, A)."""
        return self._run.table.scores.copy()

    def return_quantiles(self, observation: Any, action: Any) -> Floats:
        """Ω(s, a), the quantiles of the differential return, (n,); only for rules that learn them."""
        return self._return_quantiles(self._row(observation)[self._actions.one(action)])

    def _chances(self, states: Any, deterministic: bool) -> Floats:
        """Greedy (ties to the first), or as it behaves: ε-greedy with ties shared."""
        scores = self._run.table.scores[states]
        if deterministic:
            return one_hot(scores)
        scale, power, delay = self.config.epsilon_decay
        epsilon = scale / (1.0 + self._run.table.visits[states].sum(axis=-1, keepdims=True) / delay) ** power
        best = scores == scores.max(axis=1, keepdims=True)
        shared: Floats = best / best.sum(axis=1, keepdims=True)
        return np.asarray((1 - epsilon) * shared + epsilon / self._num_actions)

    def _reference(self) -> NDArray[np.int64] | None:
        if not self.config.rule_row.average_is_read_from_values:
            return super()._reference()
        self._rewards.theta[0] = self.config.initial_value  # f(Q) of equal values, whatever f
        if isinstance(self.config.reference, str):
            return np.array([transition.REFERENCES.index(self.config.reference), 0, 0])
        observation, action = self.config.reference
        with naming("reference"):
            return np.array([transition.PAIR, self._states.one(observation), self._actions.one(action)])
