"""DeepQ: Q-learning with a network, for images, vectors and everything else that a table cannot hold (Alg. 6, 10, 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from perstep.agent.agent import Floats
from perstep.agent.arrays import Limits, below, check_limits, put
from perstep.agent.evaluation import Evaluation
from perstep.agent.states import follow_policy
from perstep.deep.network_agent import NetworkAgent, needs_torch
from perstep.deep.settings import DeepQConfig
from perstep.files.storage import Arrays
from perstep.gym.opening import Absent
from perstep.gym.spaces import Numbering, discrete_actions
from perstep.numerics.policies import epsilon_greedy
from perstep.numerics.randomness import Generator, uniform
from perstep.rules.transition import mean_of_last_axis

if TYPE_CHECKING:
    from perstep.deep.q_learning import DeepQLearner
    from perstep.gym.opening import World

REPEAT_POWER = 1.5  # a random action is repeated for k steps with a probability in proportion to k to minus this power


@final
class DeepQ(NetworkAgent):
    """Control with a network and a replay: the best average reward, its distribution and the values of all actions, ε-greedily.

    `env` may also be a Gymnasium vector environment, in any autoreset mode; learning then ends with a whole step of it.
    """

    Config = DeepQConfig
    config: DeepQConfig
    _network: DeepQLearner
    _actions: Numbering

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        super().__init__(env, DeepQConfig.of(settings))
        lengths = np.arange(1, self.config.longest_repeat + 1)
        self._repeats = np.zeros(
            (self._replay.num_envs, 2), np.int64
        )  # how often still which random action, for each world
        self._repeat_chances = np.cumsum(lengths**-REPEAT_POWER)  # not divided by their sum

    @property
    def epsilon(self) -> float:
        """ε at this step. In units of the rewards seen, it falls only with updates: it is 1 while all rewards were equal and
        nothing ended, so that no action can be better."""
        config, steps = self.config, self.steps
        return config.epsilon_at(min(steps, config.update_every * self.updates) if config.scale_free else steps)

    def action_values(self, observation: Any) -> Floats:
        """Q(s, ·), (A,); for d3 the means of the quantiles."""
        return np.asarray(mean_of_last_axis(self._one(observation)))

    def return_quantiles(self, observation: Any, action: Any) -> Floats:
        """Ω(s, a), the quantiles of the differential return, (n,); only for rules that learn them."""
        actions = self._actions if self._spoken is None else self._spoken[1]
        return self._return_quantiles(self._one(observation)[actions.one(action)])

    def policy(self, observation: Any, deterministic: bool = False) -> Floats:
        """Probabilities of the actions at an observation, (A,): greedy (ties to the first), or ε-greedy as it behaves now."""
        scores = self.action_values(observation)
        if deterministic:
            return np.asarray(np.eye(len(scores))[scores.argmax()])
        best = scores == scores.max()
        return np.asarray((1 - self.epsilon) * best / best.sum() + self.epsilon / len(scores))

    def _choose(self, points: NDArray[Any], generator: Generator, deterministic: bool) -> NDArray[np.int64]:
        """ε-greedy actions, ties broken uniformly. The network is not asked where the action is random."""
        epsilon, actions = 0.0 if deterministic else self.epsilon, self._actions.count
        chosen, asked = np.zeros(len(points), np.int64), []
        for b in range(len(points)):
            draw = 1.0 if deterministic else float(uniform(generator))
            if draw < epsilon:
                chosen[b] = min(int(draw / epsilon * actions), actions - 1)  # given draw < ε, draw/ε is uniform again
            else:
                asked.append(b)
        if asked:
            scores = self._network.scores(points if len(asked) == len(points) else points[asked])  # (asked, A)
            for b, row in zip(asked, scores, strict=True):
                chosen[b] = row.argmax() if deterministic else epsilon_greedy(row, 0.0, generator)
        return chosen

    def _behave(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """As `_choose`, but a random action may be repeated for some steps (Dabney, Ostrovski & Barreto 2021)."""
        if self.config.longest_repeat == 1:
            return super()._behave(points)
        epsilon, actions, asked = self.epsilon, self._actions.count, []
        first, last = self.config.initial_epsilon, self.config.epsilon
        share = (epsilon - last) / (first - last) if first > last else 1.0  # repeats become shorter as ε falls
        longest = 1 + round(share * (self.config.longest_repeat - 1))
        chances = self._repeat_chances[:longest]
        mean_repeat = (np.arange(1, longest + 1) ** (1.0 - REPEAT_POWER)).sum() / chances[-1]
        begins = epsilon / (epsilon + (1.0 - epsilon) * mean_repeat)  # so that the share of random steps is ε
        chosen = np.zeros(len(points), np.int64)
        for env in range(len(points)):
            left, action = self._repeats[env]
            if left == 0 and (draw := float(uniform(self._generator))) < begins:
                action = min(int(draw / begins * actions), actions - 1)
                left = 1
                if longest > 1:
                    left += int(
                        np.searchsorted(chances[:-1], chances[-1] * float(uniform(self._generator)), side="right")
                    )
            if left == 0:
                asked.append(env)
                continue
            chosen[env] = action
            self._repeats[env] = left - 1, action
        if asked:
            for env, row in zip(asked, self._network.scores(points[asked]), strict=True):
                chosen[env] = epsilon_greedy(row, 0.0, self._generator)
        return chosen

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> Evaluation | None:
        if self.mdp is None:
            return None
        policy = np.array([self.policy(state, deterministic) for state in range(self.mdp.num_states)])  # (S, A)
        return follow_policy(self, policy, generator, picker, num_steps, kept)

    @property
    def risk_adjusted_reward(self) -> float:
        """The estimate of what is maximised: the average reward, or with a risk_level below 1 the mean of the worst share."""
        if self._network.heads is None:
            return super().risk_adjusted_reward
        return self.reward_distribution.cvar(
            self.config.risk_level
        )  # gains of heads lag behind, what is earned does not

    def _answers(self, inputs: Any) -> dict[str, Any]:
        network = self._network
        values = network.unit * network.online.forward(inputs)[..., network.shown].mean(dim=-1)
        return {"action_values": values, "action": values.argmax(dim=-1)}

    @property
    def _return_steps(self) -> int:
        return self.config.return_steps

    def _forget_action(self, env: int) -> None:
        self._repeats[env] = 0

    def _one(self, observation: Any) -> Floats:
        """The n numbers of every action for one observation, (A, n)."""
        return np.asarray(self._network.values(self._point_of_one(observation)[None])[0])

    @classmethod
    def _actions_of(cls, space: Any) -> Numbering:
        return discrete_actions(space, cls.__name__)

    @classmethod
    def _actions_from(cls, values: dict[str, Any]) -> Numbering:
        return Numbering.from_json(values)

    def _arrays(self) -> Arrays:
        repeats = {"repeats": self._repeats} if self.config.longest_repeat > 1 else {}
        return super()._arrays() | repeats

    def _limits(self) -> dict[str, Limits]:
        return super()._limits() | {"repeats": below([self.config.longest_repeat, self._actions.count])}

    def _take_over(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        if self.config.longest_repeat > 1:
            put("repeats", self._repeats, arrays)
            check_limits({"repeats": self._repeats}, self._limits())
        super()._take_over(arrays, metadata)

    @classmethod
    def _learner_class(cls) -> type[DeepQLearner]:
        with needs_torch(cls.__name__):
            from perstep.deep.q_learning import DeepQLearner
        return DeepQLearner
