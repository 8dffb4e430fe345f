"""The agents on a table: TDLearning for prediction, QLearning for control (Alg. 3, 4, 7, 8, 11 and Wan et al. 2021)."""

from __future__ import annotations

import operator
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep import rules, storage, tabular
from perstep.agents.agent import LONGEST, Agent, AgentHooks, Floats
from perstep.agents.arrays import fill, finite_numbers, flatten, has_shape, put, within
from perstep.agents.evaluation import Evaluation, Snapshot
from perstep.agents.modelled import long_run
from perstep.agents.worlds import Absent
from perstep.block_sums import BlockSums, no_block_sums
from perstep.compiled import announce
from perstep.config import LearnerConfig, QLearningConfig, TDLearningConfig, count, naming
from perstep.curiosity import with_position
from perstep.distribution import Distribution
from perstep.environments.exact import policy_probabilities
from perstep.environments.finite_world import start
from perstep.environments.spaces import Numbering, discrete_actions, numbering
from perstep.foresight import expected_sum, learnt, new_foresight, no_foresight, with_slow_gain
from perstep.interaction import finite_worlds
from perstep.interaction.behaviour import NO_ACTION, Behaviour
from perstep.interaction.sampling import stretches
from perstep.model import NONE, NOT_MODELLED, link, new_model, saved_part
from perstep.policies import BOOTSTRAPS, GREEDY
from perstep.randomness import Generator, draw
from perstep.scan import MEAN_SHARE, WINNER, Scan, new_scan, no_scan

if TYPE_CHECKING:
    import polars

    from perstep.agents.worlds import World


class TabularAgent(Agent):
    """An agent with a row of values for every state."""

    _reads_vectors = False
    _control: ClassVar[bool]  # whether it has a column for every action
    _learner_number: int  # for compiled code
    _behaviour: Behaviour  # how it acts while it learns, for compiled code
    config: LearnerConfig

    def __init__(self, env: World | Absent, config: LearnerConfig) -> None:
        super().__init__(env, config)
        self._states, self._actions = self._numberings()
        n = config.value_size
        self._run = tabular.LearnerState(
            tabular.table(self.num_states, self._num_columns, n, config.initial_value, curious=self._is_curious),
            tabular.memory(getattr(config, "replay_capacity", 0)),
            self._objective,
            config.workspace,
            config.schedule,
            self._reference(),
            new_foresight(self.num_states, self._num_columns, changing=config.preset == "changing")
            if self._foresees
            else no_foresight(),
            self._new_scan(),
            self._risk,
            new_model(self.num_states, self._num_columns, self._model_capacity),
        )
        self._looked_at: tuple[int, Distribution] | None = None  # the steps so far, and the distribution then
        self._place = np.array([0, NO_ACTION])  # state and chosen action in an MDP; a Gymnasium world knows its own
        if self.mdp is not None:
            self._place[0] = start(self.mdp.world, self._generator)
        self._hooks = TableHooks(self)

    @property
    def _is_curious(self) -> bool:
        return False

    def _new_scan(self) -> Scan:
        return no_scan()

    @property
    def _model_capacity(self) -> int:
        return 0

    @property
    def _foresees(self) -> bool:
        """Whether forecasts rest on values of the rewards as they are."""
        return self.config.forecast and not self.config.target_from_quantiles

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

    @property
    def reward_distribution(self) -> Distribution:
        """The long-run distribution of the reward per step of `policy()`. Its standard errors are those of as many steps as were
        counted for `earned_distribution`.

        In a finite MDP, with a model, that of the best actions as they are now, by all that was ever seen after them. Where the
        model does not know them well enough, or cannot tell their rewards apart, and everywhere else: `earned_distribution`.
        """
        if self._looked_at is None or self._looked_at[0] != self.steps:
            self._looked_at = (self.steps, self._long_run_rewards())
        return self._looked_at[1]

    def _long_run_rewards(self) -> Distribution:
        earned = self.earned_distribution
        if self.mdp is None or not self._is_curious or not self._run.model.numbers.size or earned.num_samples is None:
            return earned
        found = long_run(self._run.model, self._run.table.scores.argmax(axis=1))
        if found is None:
            return earned
        weights, rewards = (found.weights, found.rewards) if found.knows_rewards else (earned.weights, earned.means)
        number = earned.num_samples
        worth = max(1.0, number * found.worth(earned.std**2))
        return Distribution(weights, rewards, num_samples=number, effective_samples=worth)

    def policy(self, deterministic: bool = False) -> Floats:
        """Probabilities of the actions in every state, (S, A), as the agent behaves, explorations of a curious one apart; with
        `deterministic`, without chance."""
        if not isinstance(deterministic, bool | np.bool_):
            raise TypeError(
                f"policy() of a table is that of all states, and takes deterministic=True or False, got {deterministic!r}. For one "
                "state, take its row: policy()[number]; or predict(state) for its action."
            )
        return self._allowed_chances(slice(None), deterministic)

    def _allowed_chances(self, states: Any, deterministic: bool) -> Floats:
        """As `_chances`, without actions that a state does not have."""
        rows = self._chances(states, deterministic)
        return rows if self.mdp is None else self.mdp.only_allowed(rows, states)

    def frame(self) -> polars.DataFrame:
        """What was learnt, one row for each state: its number, its visits, the best action (for Q), and the values."""
        import polars

        visits, scores = self._run.table.visits, self._run.table.scores  # (S, A)
        names = getattr(self.mdp, "states", None)
        columns: dict[str, Any] = {"state": np.arange(self.num_states)}
        columns |= {"name": list(map(str, names))} if names is not None else {}
        columns["visits"] = visits.sum(axis=1)
        if not self._control:
            return polars.DataFrame({**columns, "value": scores[:, 0]})
        actions = getattr(self.mdp, "actions", range(self.num_actions))
        if len({str(name) for name in actions}) < len(actions):  # names that are the same as text, such as 1 and "1"
            actions = range(self.num_actions)
        best = self.policy(deterministic=True).argmax(axis=1)
        if self.mdp is not None and self.mdp.allowed is not None:
            scores = np.where(self.mdp.allowed, scores, np.nan)
        columns["action"] = best if isinstance(actions, range) else [str(actions[a]) for a in best]
        return polars.DataFrame({**columns, **{f"value_{name}": scores[:, a] for a, name in enumerate(actions)}})

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
        """The action for an observation (or the actions for a batch) and None, as tools for Stable-Baselines3 expect."""
        numbers = self._states.number(observation)
        rows = self._allowed_chances(numbers.ravel(), deterministic)  # (batch, A)
        if deterministic:
            chosen = rows.argmax(axis=1)
        else:
            chosen = np.array([draw(row, self._prediction_generator) for row in rows], np.int64)
        return (self._actions.point(int(chosen[0])) if numbers.ndim == 0 else self._actions.points(chosen)), None

    def _entries(self, column_array: NDArray[Any]) -> NDArray[Any]:
        """Without the column axis for prediction, which has one column."""
        return column_array if self._control else column_array[:, 0]

    def _row(self, observation: Any) -> Floats:
        values: Floats = self._run.table.values[self._states.one(observation)]  # (A, n)
        return values

    def _expected_sum(self, num_steps: int, observation: Any, action: Any) -> tuple[float, float, float]:
        if self._learner_number == tabular.SCAN:
            raise ValueError(
                "A scan for a risk level moves between many policies while it learns, which a forecast cannot follow. Forecast the "
                "policy as it is: agent.evaluate(1_000_000, deterministic=True).forecast(num_steps)."
            )
        if not self._foresees:
            return super()._expected_sum(num_steps, observation, action)
        if observation is None:
            return expected_sum(self._run.foresight, num_steps)
        state = self._states.one(observation)
        if action is not None and not self._control:
            raise ValueError(f"{type(self).__name__} follows the policy that it was given: leave out the action.")
        best = int(self._run.table.scores[state].argmax())
        column = best if action is None else self._actions.one(action)
        return expected_sum(self._run.foresight, num_steps, self._run.foresight.values[state, column])

    def _new_block_sums(self) -> BlockSums:
        return no_block_sums() if self._foresees else super()._new_block_sums()

    def _advance(self, num_steps: int) -> None:
        if self.mdp is None:
            announce(finite_worlds.LEARN_THEN_ACT[self._learner_number])
            self._gymnasium_world().learn(self._hooks, self.steps, num_steps)
            return
        learn_in_mdp = finite_worlds.LEARN_IN_MDP[self._learner_number]
        announce(learn_in_mdp)
        learn_in_mdp(
            self.config.rule_row.number, self.mdp.world, self._behaviour, self._run, self._record, self._generator,
            self._place, self.steps, num_steps,
        )  # fmt: skip
        self.steps += num_steps

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> Evaluation | None:
        return (
            None
            if self.mdp is None
            else follow_policy(self, self.policy(deterministic), generator, picker, num_steps, kept)
        )

    def _chooser(self, generator: Generator, deterministic: bool) -> Callable[[Any], Any]:
        policy = self.policy(deterministic)
        return lambda observation: self._actions.point(int(draw(policy[self._states.one(observation)], generator)))

    def _values(self) -> tuple[Floats, ...]:
        return (self._run.table.scores,)

    def _remembered_moves(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats] | None:
        """State, next state and reward of the remembered transitions of the actions that are best now; None without a memory."""
        memory, scores = self._run.memory, self._run.table.scores
        filled = min(int(memory.cursor[0]), len(memory.rewards))
        if not filled:
            return None
        states, actions, next_states, _ = memory.places[:filled].T
        best = scores.argmax(axis=1)[states] == actions
        return states[best], next_states[best], memory.rewards[:filled][best]

    def _place_now(self) -> int | None:
        memory = self._run.memory
        return int(memory.places[(memory.cursor[0] - 1) % len(memory.rewards), 2]) if memory.cursor[0] else None

    def _level_of_values(self) -> tuple[float, float]:
        return float(self._run.table.scores.mean()), float(self._run.table.values.std())

    def _snapshot(self) -> Snapshot:
        values = self._entries(self._run.table.values).copy()
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, values)

    @property
    def _num_columns(self) -> int:
        return self.num_actions if self._control else 1

    def _reference(self) -> NDArray[np.int64]:
        """What `rvi` reads its average from; the other rules have none."""
        return np.array([rules.NO_REFERENCE, 0, 0])

    def _numberings(self) -> tuple[Numbering, Numbering]:
        if self.mdp is not None:
            return Numbering.named(self.mdp.states), Numbering.named(self.mdp.actions)
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

    def _arrays(self) -> storage.Arrays:
        memory = self._run.memory
        filled = min(int(memory.cursor[0]), len(memory.rewards))
        kept = memory._replace(places=memory.places[:filled], rewards=memory.rewards[:filled])
        asked: storage.Arrays = {}
        if self._foresees:
            asked |= flatten("foresight", learnt(self._run.foresight))
        if self._run.scan.gains.size:
            asked |= flatten("scan", self._run.scan)
        if self._run.model.numbers.size:
            asked |= flatten("model", saved_part(self._run.model, int(self._run.model.size[0])))
        return {**flatten("table", self._run.table), **flatten("memory", kept), "place": self._place, **asked}

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        super()._restore(arrays, metadata)
        self._looked_at = None
        fill("table", self._run.table, {**arrays, "table.mood": with_position(arrays["table.mood"])})
        within("mood", self._run.table.mood, LONGEST, least=-LONGEST)
        if self._foresees:
            put("foresight.values", self._run.foresight.values, arrays)
            saved = {name: with_slow_gain(arrays[name]) for name in ("foresight.averages",) if name in arrays}
            put("foresight.averages", self._run.foresight.averages, saved)
        if self._run.scan.gains.size:
            fill("scan", self._run.scan, arrays)
            within("winner of the scan", self._run.scan.cursor[:1], self._run.scan.targets.size)
            within("steps of the scan", self._run.scan.cursor[1:], LONGEST)
        self._restore_memory(arrays)
        if self._run.model.numbers.size:
            self._restore_model(arrays)
        put("place", self._place, arrays)
        within("state", self._place[:1], self.num_states)
        within("action", self._place[1:], self.num_actions, least=NO_ACTION)

    def _restore_memory(self, arrays: storage.Arrays) -> None:
        memory = self._run.memory
        put("memory.cursor", memory.cursor, arrays)
        within("number of remembered transitions", memory.cursor, LONGEST)
        filled = min(int(memory.cursor[0]), len(memory.rewards))
        kept = memory._replace(places=memory.places[:filled], rewards=memory.rewards[:filled])
        fill("memory", kept, arrays)
        for column, size in enumerate((self.num_states, self._num_columns, self.num_states, 2)):
            within("remembered transitions", kept.places[:, column].astype(np.int64), size)
        finite_numbers("remembered rewards", kept.rewards)

    def _restore_model(self, arrays: storage.Arrays) -> None:
        model = self._run.model
        size = len(arrays.get("model.pairs", ()))
        within("number of transitions in the model", np.array([size]), len(model.pairs) + 1)
        kept = saved_part(model, size)
        older = {
            "model.squares": np.zeros(len(model.squares)),
            "model.rewards": np.full(size, np.nan),
            "model.gain": np.array([self.average_reward]),
        }
        fill("model", kept, {**older, **arrays})
        within("pairs of the model", kept.pairs.astype(np.int64), len(model.numbers))
        within("next states of the model", kept.followers.astype(np.int64), self.num_states, least=NONE)
        within("counts of the model", kept.counts, LONGEST, least=1)
        within("numbers of the model", kept.numbers, LONGEST, least=NOT_MODELLED)
        for name, numbers in (("sums of rewards", kept.paid), ("squares", kept.squares), ("gain", kept.gain)):
            finite_numbers(f"{name} of the model", numbers)
        finite_numbers("rewards of the model", kept.rewards[~np.isnan(kept.rewards)])
        if (kept.squares < 0.0).any():
            raise storage.BadFile("The file's model has negative sums of squares.")
        counted = np.bincount(kept.pairs, kept.counts, len(model.numbers)).astype(np.int64)
        if ((kept.numbers != NOT_MODELLED) & (kept.numbers != counted)).any():
            raise storage.BadFile("The file's model has other numbers of transitions than its entries.")
        link(model, size)

    def _check_point(self, point: Any, action: Any) -> None:
        within("observation", np.array([count("observation", point, 0)]), self.num_states)
        self._actions.one(operator.index(action))

    @classmethod
    def _check_sizes(cls, config: Any, about: dict[str, Any], arrays: storage.Arrays) -> None:
        if about.get("kind") == "mdp":
            has_shape(arrays, "table.values", *arrays["table.scores"].shape, config.value_size)
            return
        states, actions = (Numbering.from_json(about["spaces"][name]).count for name in ("states", "actions"))
        columns = actions if cls._control else 1
        has_shape(arrays, "table.values", states, columns, config.value_size)
        if config.risk_level < 1.0 and not config.target_from_quantiles:
            has_shape(arrays, "scan.values", states, columns, config.risk_scan)
        if not cls._control:
            has_shape(arrays, "policy", states, actions)


def follow_policy(
    agent: Agent, policy: Floats, generator: Generator, picker: Generator, num_steps: int, kept: Floats
) -> Evaluation:
    """Follow fixed probabilities (S, A) in the agent's MDP."""
    assert agent.mdp is not None
    announce(finite_worlds.follow_in_mdp)
    state, total = np.zeros(1, np.int64), np.zeros(1)
    for begin, end in stretches(num_steps):
        finite_worlds.follow_in_mdp(
            agent.mdp.world, policy, generator, picker, begin, end, num_steps, state, total, kept
        )
    return Evaluation.of_kept(float(total[0]), kept, np.zeros(0), num_steps)


@final
class TableHooks(AgentHooks):
    """What the plain loop asks of an agent with a table; a point is the number of a state."""

    _agent: TabularAgent

    def read(self, observation: Any) -> int:
        """The number of the state that is observed."""
        return self._agent._states.one(observation)

    def act(self, point: int) -> Any:
        """An action for the world, chosen as the agent behaves while it learns."""
        agent = self._agent
        if not 0 <= point < agent.num_states:  # compiled code does not check indices
            raise self._outside(point)
        chosen = finite_worlds.act(agent._learner_number, agent._behaviour, agent._run, point, agent._generator)
        return agent._actions.point(int(chosen))

    def learn_then_act(self, point: int, action: Any, reward: float, next_point: int, masked: bool, resume: int) -> Any:
        """Learn from one transition of a Gymnasium world, then act where it goes on."""
        agent, states = self._agent, self._agent.num_states
        if not (0 <= point < states and 0 <= next_point < states and 0 <= resume < states):
            raise self._outside(point, next_point, resume)
        chosen = finite_worlds.LEARN_THEN_ACT[agent._learner_number](
            agent.config.rule_row.number, agent._behaviour, agent._run, agent._record,
            agent._generator, agent.steps, point, agent._actions.one(action), reward, next_point, masked, resume,
        )  # fmt: skip
        agent.steps += 1
        return agent._actions.point(int(chosen))

    def _outside(self, *points: int) -> IndexError:
        wrong = next(point for point in points if not 0 <= point < self._agent.num_states)
        return IndexError(f"A state must be from 0 to {self._agent.num_states - 1}, got {wrong!r}.")


@final
class TDLearning(TabularAgent):
    """Prediction: the average reward, its distribution and the values of a given policy (Alg. 3, 7; Wan et al. 2021).

    `policy`: actions (S,), probabilities (S, A), or a function of the observation that returns either an action or the
    probabilities of all actions. In a `FiniteMDP` whose states have names, a function of the name.
    """

    Config = TDLearningConfig
    _control = False
    _learner_number = tabular.TD

    def __init__(self, env: World | Absent, policy: ArrayLike | Callable[[Any], Any], **settings: Any) -> None:
        super().__init__(env, TDLearningConfig.of(settings))
        given: Any = policy
        if self.mdp is not None:
            given = self.mdp.names.policy(policy)
        elif callable(policy):
            given = lambda state: policy(self._states.point(state))  # noqa: E731
        self._policy = policy_probabilities(given, self.num_states, self.num_actions)
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
        share = config.least_exploration if self._is_curious else config.epsilon
        self._behaviour = Behaviour(share, BOOTSTRAPS.index(config.bootstrap), np.zeros((0, 0)))
        as_printed = self._behaviour.bootstrap == GREEDY and self._run.reference[0] == rules.NO_REFERENCE
        self._learner_number = tabular.Q if as_printed else tabular.ANY_Q
        if self._run.scan.gains.size:
            self._learner_number = tabular.SCAN

    @property
    def _is_curious(self) -> bool:
        return self.config.exploration == "curiosity"

    @property
    def _model_capacity(self) -> int:
        return self.config.model_capacity if self.config.has_model else 0

    def _new_scan(self) -> Scan:
        config = self.config
        if config.risk_level == 1.0 or config.target_from_quantiles:
            return no_scan()
        size, changing = config.risk_scan, config.preset == "changing"
        return new_scan(self.num_states, self.num_actions, size, config.risk_level, changing=changing)

    @property
    def objective(self) -> float:
        """The estimate of what is maximised: the average reward, or with a risk_level below 1 the mean of the worst share."""
        scan = self._run.scan
        if not scan.gains.size:
            return super().objective
        return float(scan.gains[scan.cursor[WINNER]]) - MEAN_SHARE * self.average_reward

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
        """Greedy (ties to the first), or as it behaves: ε-greedy with ties shared; if curious, greedy between two explorations."""
        scores, epsilon = self._run.table.scores[states], self.config.epsilon
        if deterministic or self._is_curious:
            return one_hot(scores)
        best = scores == scores.max(axis=1, keepdims=True)
        shared: Floats = best / best.sum(axis=1, keepdims=True)
        return (1 - epsilon) * shared + epsilon / self.num_actions

    def _reference(self) -> NDArray[np.int64]:
        if not self.config.rule_row.average_is_read_from_values:
            return super()._reference()
        self._rewards.theta[0] = self.config.initial_value  # f(Q) of equal values, whatever f
        if isinstance(self.config.reference, str):
            return np.array([rules.REFERENCES.index(self.config.reference), 0, 0])
        observation, action = self.config.reference
        with naming("reference"):
            return np.array([rules.PAIR, self._states.one(observation), self._actions.one(action)])


def one_hot(scores: Floats) -> Floats:
    """Probability one for the first of the best in every row."""
    rows: Floats = np.eye(scores.shape[1])[scores.argmax(axis=1)]
    return rows
