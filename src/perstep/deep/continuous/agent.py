"""SoftActorCritic: continuous actions for the best average reward, and the distribution of the reward per step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from perstep.agent.agent import Floats
from perstep.agent.evaluation import Evaluation
from perstep.deep.continuous.settings import SoftActorCriticConfig
from perstep.deep.network_agent import NetworkAgent, needs_torch
from perstep.files.storage import Arrays
from perstep.gym.opening import Absent
from perstep.gym.spaces import BoundedBox, bounded_actions
from perstep.numerics.randomness import Generator, uniform
from perstep.rules.transition import mean_of_last_axis

if TYPE_CHECKING:
    from perstep.deep.continuous.learner import SoftActorCriticLearner
    from perstep.gym.opening import World


@final
class SoftActorCritic(NetworkAgent):
    """Control with actions from a box: the best average reward, its distribution, and a policy that stays as random as it may.

    `env` may also be a Gymnasium vector environment, in any autoreset mode; learning then ends with a whole step of it.
    """

    Config = SoftActorCriticConfig
    config: SoftActorCriticConfig
    _network: SoftActorCriticLearner
    _actions: BoundedBox

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        super().__init__(env, SoftActorCriticConfig.of(settings))

    @property
    def temperature(self) -> float:
        """α: the weight of the entropy of the policy, in rewards."""
        return self._network.temperature

    def action_value(self, observation: Any, action: Any) -> float:
        """Q(s, a), the differential value of an action by the lesser critic; for d3 the mean of its quantiles."""
        return float(mean_of_last_axis(self._values_of(observation, action)))

    def return_quantiles(self, observation: Any, action: Any) -> Floats:
        """Ω(s, a), the quantiles of the differential return, (n,); only for rules that learn them."""
        return self._return_quantiles(self._values_of(observation, action))

    def _values_of(self, observation: Any, action: Any) -> Floats:
        """The n numbers of the value of one action."""
        point, vector = self._point_of_one(observation), self._actions.one(action)
        return np.asarray(self._network.values(point[None], vector[None])[0])

    def _choose(self, points: NDArray[Any], generator: Generator, deterministic: bool) -> NDArray[np.float32]:
        """Vectors from −1 to 1, drawn from the policy, or its middle."""
        return self._network.act(points, None if deterministic else generator)

    def _behave(self, points: NDArray[Any]) -> NDArray[np.float32]:
        """Until the first update uniformly random actions, which cover the box."""
        if self.updates:
            return super()._behave(points)
        shape = (len(points), self._actions.count)
        return np.array([2.0 * uniform(self._generator) - 1.0 for _ in range(shape[0] * shape[1])], np.float32).reshape(
            shape
        )

    def _answers(self, inputs: Any) -> dict[str, Any]:
        online, actions = self._network.online, self._actions
        vector = online.policy.forward(online.critics.features(inputs))[0].tanh()
        low, high = (vector.new_tensor(bound) for bound in (actions.low, actions.high))
        return {"action": ((low + high) / 2 + (high - low) / 2 * vector).reshape(-1, *actions.shape)}

    @property
    def _num_minibatches(self) -> int:
        return self.config.num_minibatches

    def _follow(
        self, generator: Generator, picker: Generator, num_steps: int, deterministic: bool, kept: Floats
    ) -> Evaluation | None:
        return None

    @classmethod
    def _actions_of(cls, space: Any) -> BoundedBox:
        return bounded_actions(space, cls.__name__)

    @classmethod
    def _actions_from(cls, values: dict[str, Any]) -> BoundedBox:
        return BoundedBox.from_json(values)

    def _take_over(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        super()._take_over(arrays, metadata)
        if self._world is not None and self._world.action is not None:  # a file has it as a list
            self._world.action = np.asarray(self._world.action, self._actions.dtype)

    @classmethod
    def _learner_class(cls) -> type[SoftActorCriticLearner]:
        with needs_torch(cls.__name__):
            from perstep.deep.continuous.learner import SoftActorCriticLearner
        return SoftActorCriticLearner
