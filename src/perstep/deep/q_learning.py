"""Q-learning with a network: what the networks are asked for a minibatch (Alg. 6, 10, 13)."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from perstep.deep import losses
from perstep.deep.learner import MOMENTS, Arrays, NetworkLearner
from perstep.deep.losses import Look
from perstep.deep.networks import ValueNetwork, make_network
from perstep.deep.observations import Observations
from perstep.deep.replay import Batch
from perstep.deep.risk_heads import RiskHeads
from perstep.deep.settings import DeepQConfig
from perstep.numerics.randomness import Generator
from perstep.rules.transition import RewardEstimate, Steps, mean_of_last_axis

LARGE_RATIO, GRID_RATIO = 0.2, 2.5  # the factor of α for large networks, and for other convolutional ones


@final
class DeepQLearner(NetworkLearner):
    """Estimate q(S, A) by the online network, bootstrap q(S′, a*) by the target network."""

    config: DeepQConfig
    online: ValueNetwork
    target: ValueNetwork

    def __init__(
        self, observations: Observations, num_actions: int, config: DeepQConfig, generator: Generator | None = None
    ) -> None:
        self.heads: RiskHeads | None = None
        """The heads of a scan for a risk level."""
        if config.has_risk_heads:
            self.heads = RiskHeads(config.risk_heads, config.risk_level, config.risk_discount)
        super().__init__(observations, num_actions, config, generator)
        self._rows = torch.arange(config.batch_size, device=self.device)
        self._forward: Any = torch.compile(self.online) if config.compile else self.online.forward
        self._forward_target: Any = torch.compile(self.target) if config.compile else self.target.forward
        self._bfloat16 = config.precision == "bfloat16" or (
            config.precision == "auto" and self.is_large and has_bfloat16(self.device)
        )
        if config.precision == "bfloat16":
            warn_of_slow_bfloat16(self.device)

    @classmethod
    def network(cls, config: DeepQConfig, observations: Observations, num_actions: int) -> ValueNetwork:
        """One network with n numbers for every action."""
        return make_network(config.network, observations.input_shape, config.hidden, num_actions, config.value_size)

    def _networks(self) -> tuple[ValueNetwork, ValueNetwork]:
        online, target = (self.network(self.config, self.observations, self.num_actions) for _ in range(2))
        with torch.no_grad():
            online.head.bias.add_(self.config.initial_value)
        target.load_state_dict(online.state_dict())
        return online, target

    def _followed(self) -> ValueNetwork:
        return self.online

    def _outputs(self) -> set[torch.Tensor]:
        return {*self.online.head.parameters(), *self.target.head.parameters()}

    @cached_property
    def _ratio(self) -> float:
        if not isinstance(self.config.network_ratio, str):
            return self.config.network_ratio
        sees_a_grid = any(isinstance(layer, torch.nn.Conv2d) for layer in self.online.body)
        return LARGE_RATIO if self.is_large else GRID_RATIO if sees_a_grid else 1.0

    @property
    def _bad_share(self) -> float:
        return self.config.risk_level if self.heads is not None else 1.0  # a bad step counts 1/τ times

    def values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Values of all actions for a batch of kept observations, in rewards, (B, A, n); of a scan those of the winning
        head, (B, A, 1)."""
        with torch.inference_mode(), self._precision():
            outputs = self.online.forward(self._read(observations))[..., self.shown]
            return np.asarray(self.unit * outputs.to("cpu", torch.float64).numpy())

    @property
    def shown(self) -> slice:
        """Which of the n numbers of a value count now."""
        return slice(None) if self.heads is None else slice(self.heads.winner, self.heads.winner + 1)

    def scores(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """What the rule reads from the values of all actions for a batch of kept observations, (B, A)."""
        return np.asarray(mean_of_last_axis(self.values(observations)))

    def see_reward(self, reward: float, kept: NDArray[np.float64]) -> None:
        """Let the heads of a scan take note of a reward; `kept`: those of the replay."""
        if self.heads is None or (sources := self.heads.see(reward)) is None:
            return
        own = (self.online.head.weight, self.online.head.bias)
        moments = [self.optimizer.state[weight][moment] for weight in own for moment in MOMENTS if self.updates]
        self.heads.take_over(sources, kept, (self.online.head, self.target.head), moments, self.unit)

    def loss(self, batch: Batch, rewards: RewardEstimate, steps: Steps) -> tuple[torch.Tensor, Look]:
        """That of the rule, or of the heads of a scan."""
        look = self._look(batch, losses.value_after_end(rewards, steps, self._settings))
        if self.heads is None:
            return losses.loss(rewards, batch.reward, look, steps, self._settings).value, look
        return self.heads.loss(batch.reward, look, self.unit, self.config.huber), look

    def _look(self, batch: Batch, after_end: float = 0.0) -> Look:
        """a* is the best action of the target network, or of the online network where the rule says so (Alg. 10)."""
        observation, next_observation = self._read(batch.observation), self._read(batch.next_observation)
        action = torch.from_numpy(batch.action).to(self.device)
        picks_online, corrects = self.config.best_by == "online", bool(self.config.offset_ratio)
        with self._precision():
            with torch.no_grad():
                target: torch.Tensor = self._forward_target(next_observation).float()  # (B, A, n)
                online = self._forward(next_observation).float() if picks_online or corrects else target
            estimate = self._forward(observation)[self._rows, action].float()  # (B, n)
        bootstrap = self._best(target, online if picks_online else target)
        fresh = self._ended(self._best(online, online), batch.masked, after_end) if corrects else None
        return Look(estimate, self._ended(bootstrap, batch.masked, after_end), fresh, batch.length)

    def _best(self, values: torch.Tensor, judged_by: torch.Tensor) -> torch.Tensor:
        """The numbers of the first of the best actions, (B, A, n) → (B, n). Every head of a scan has its own best action."""
        if self.heads is not None:
            return values.gather(1, judged_by.argmax(1, keepdim=True))[:, 0]
        return values[self._rows, mean_of_last_axis(judged_by).argmax(1)]

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self._bfloat16 else nullcontext()

    def arrays(self) -> Arrays:
        """As for every learner, and the heads of a scan."""
        heads = {} if self.heads is None else self.heads.arrays()
        return super().arrays() | {f"heads.{name}": array for name, array in heads.items()}

    def restore(self, arrays: Arrays) -> None:
        """As for every learner, and the heads of a scan."""
        super().restore(arrays)
        if self.heads is not None:
            self.heads.restore({name: arrays[f"heads.{name}"] for name in self.heads.arrays()})


def has_bfloat16(device: torch.device) -> bool:
    """Whether the processor computes with bfloat16 itself."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())


def warn_of_slow_bfloat16(device: torch.device) -> None:
    """Warn where the processor only emulates bfloat16, which is many times slower than float32."""
    native = device.type != "cpu" or getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)()
    if not native:
        warnings.warn(
            "This processor emulates bfloat16, which is slower than float32. Use precision='float32' here.",
            stacklevel=4,
        )
