"""The agents on tiles: ActorCritic (Alg. 5, 9, 12), and TileQ for action values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from perstep.agent.agent import Floats
from perstep.agent.evaluation import Snapshot
from perstep.files import storage
from perstep.gym.behaviour import Behaviour
from perstep.gym.opening import Absent
from perstep.inputs.checks import naming
from perstep.numerics.policies import BOOTSTRAPS, GREEDY, softmax
from perstep.rules import transition
from perstep.rules.transition import mean_of_last_axis
from perstep.tiles import kernel
from perstep.tiles.settings import ActorCriticConfig, TileQConfig
from perstep.tiles.tile_agent import NO_POLICY, TileAgent

if TYPE_CHECKING:
    from perstep.gym.opening import World


@final
class ActorCritic(TileAgent):
    """Control from continuous observations: values on tiles, a softmax policy, and the distribution of the reward per step."""

    Config = ActorCriticConfig
    config: ActorCriticConfig
    _learner_number = kernel.ACTOR_CRITIC

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        config = ActorCriticConfig.of(settings)
        super().__init__(env, config, config.policy_ratio)
        self._behaviour = Behaviour(0.0, GREEDY, NO_POLICY)

    def state_value(self, observation: Any) -> float:
        """v(s), the differential value of a state; for d3 the mean of its quantiles."""
        return float(mean_of_last_axis(self._at(observation, self._run.weights.critic[0])))

    def return_quantiles(self, observation: Any) -> Floats:
        """Ω(s), the quantiles of the differential return from a state, (n,); only for rules that learn them."""
        return self._return_quantiles(self._at(observation, self._run.weights.critic[0]))

    def policy(self, observation: Any, deterministic: bool = False) -> Floats:
        """Probabilities of the actions at an observation, (A,); with `deterministic`, the likeliest alone."""
        chances = self._at(observation, self._run.weights.actor)
        softmax(chances)
        return np.asarray(np.eye(len(chances))[chances.argmax()]) if deterministic else chances

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, self._run.weights.critic[0].copy())

    def _restore(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        super()._restore(arrays, metadata)
        chances = self._run.room.chances  # of the action that is chosen and not yet taken
        kernel.gather(self._run.weights.actor, self._run.weights.active, chances)
        softmax(chances)


@final
class TileQ(TileAgent):
    """Control from continuous observations: action values on tiles, ε-greedily.

    With `bootstrap="sampled"` it is Sarsa (Sutton & Barto, 10.3), with `bootstrap="expected"` Expected Sarsa.
    """

    Config = TileQConfig
    config: TileQConfig
    _learner_number = kernel.TILE_Q

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        config = TileQConfig.of(settings)
        super().__init__(env, config, 0.0)
        bootstrap, delay = BOOTSTRAPS.index(config.bootstrap), config.epsilon_delay or 0.0
        self._behaviour = Behaviour(config.epsilon, bootstrap, NO_POLICY, delay)

    def action_values(self, observation: Any) -> Floats:
        """q(s, ·), (A,)."""
        return np.asarray(mean_of_last_axis(self._numbers(observation)))

    def return_quantiles(self, observation: Any, action: Any) -> Floats:
        """Ω(s, a), the quantiles of the return, (n,); only for rules that learn them."""
        return self._return_quantiles(self._numbers(observation)[self._actions.one(action)])

    def policy(self, observation: Any, deterministic: bool = False) -> Floats:
        """Probabilities of the actions at an observation, (A,): greedy (ties to the first), or ε-greedy as it behaves."""
        scores, epsilon = self._scores(observation), self._behaviour_now().epsilon
        if deterministic:
            return np.asarray(np.eye(len(scores))[scores.argmax()])
        best = scores == scores.max()
        return np.asarray((1 - epsilon) * best / best.sum() + epsilon / len(scores))

    def _scores(self, observation: Any) -> Floats:
        """What actions are chosen by, (A,): their values, and with optimism the bonus of what is unseen."""
        scores, run = self.action_values(observation), self._run
        if run.optimism is None:
            return scores
        with_bonus, active = np.zeros(scores.size), self.tiles.active(self._read(observation))
        kernel.add_bonus(run.optimism, run.rewards, active, scores, with_bonus)
        return with_bonus

    def _numbers(self, observation: Any) -> Floats:
        """The n numbers of every action, (A, n)."""
        active = self.tiles.active(self._read(observation))
        return np.asarray(self._run.weights.critic[:, active].sum(axis=1))

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, self._run.weights.critic.copy())

    def _reference(self) -> kernel.Reference | None:
        if not self.config.rule_row.average_is_read_from_values:
            return super()._reference()
        self._rewards.theta[0] = self.config.initial_value  # f(Q) of equal values, whatever f
        if isinstance(self.config.reference, str):
            kind = transition.REFERENCES.index(self.config.reference)
            return kernel.Reference(np.array([kind, 0]), np.zeros(self.config.tilings, np.int64))
        observation, action = self.config.reference
        with naming("reference"):
            point = np.array(observation, np.float64)
            return kernel.Reference(
                np.array([transition.PAIR, self._actions.one(action)]), self.tiles.active(point.ravel())
            )
