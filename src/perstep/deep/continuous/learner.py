"""The soft actor-critic: one loss of critics, policy and temperature, one step of Adam (Haarnoja et al. 2018; Hisaki & Ono 2024).

The policy seeks the average of R − α log π. So what is subtracted from a reward is the average of that, unless nothing is: R̄ of
the rewards and the mean of −α log π over the minibatch, and a share κ of the mean value (`losses.surplus`). With the rule `rvi`
that share alone is subtracted: f(Q) of RVI-SAC.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from perstep.deep import losses
from perstep.deep.continuous.networks import TWINS, ActorAndCritics, Critics, Policy, squashed
from perstep.deep.continuous.settings import SoftActorCriticConfig
from perstep.deep.learner import NetworkLearner
from perstep.deep.observations import Observations
from perstep.deep.replay import Batch
from perstep.numerics.randomness import Generator, normals
from perstep.rules.transition import (
    SCALAR,
    UNCENTERED,
    VALUE,
    WITH_HORIZON,
    RewardEstimate,
    Steps,
    average_reward,
    mean_of_last_axis,
)


Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The losses of critics, policy and temperature."""


@final
class SoftActorCriticLearner(NetworkLearner):
    """Two critics, a squashed Gaussian policy and a temperature."""

    config: SoftActorCriticConfig
    online: ActorAndCritics
    target: Critics

    def __init__(
        self, observations: Observations, num_actions: int, config: Any, generator: Generator | None = None
    ) -> None:
        super().__init__(observations, num_actions, config, generator)
        self._losses: Any = torch.compile(self.plain_losses, dynamic=False) if config.compile else self.plain_losses

    @classmethod
    def network(cls, config: SoftActorCriticConfig, observations: Observations, num_actions: int) -> ActorAndCritics:
        """The critics, the policy and the temperature."""
        critics = Critics(
            config.network, observations.input_shape, num_actions, config.hidden, config.value_size,
            config.normalization == "layer",
        )  # fmt: skip
        return ActorAndCritics(
            critics, Policy(critics.num_features, config.hidden, num_actions), config.initial_temperature
        )

    def _networks(self) -> tuple[ActorAndCritics, Critics]:
        online = self.network(self.config, self.observations, self.num_actions)
        with torch.no_grad():
            online.critics.biases[-1].add_(self.config.initial_value)
        return online, copy.deepcopy(online.critics)

    def _followed(self) -> Critics:
        return self.online.critics

    def _outputs(self) -> set[torch.Tensor]:
        return {
            part for critics in (self.online.critics, self.target) for part in (critics.weights[-1], critics.biases[-1])
        }

    def _order(self, weight: torch.Tensor) -> int:
        """The loss of the policy is a value, and that of the temperature has no unit."""
        if weight is self.online.log_temperature:
            return 0
        return 1 if any(weight is own for own in self.online.policy.parameters()) else super()._order(weight)

    @property
    def temperature(self) -> float:
        """The weight of the entropy, in rewards."""
        return self.unit * float(self.online.log_temperature.detach().exp())

    @property
    def target_entropy(self) -> float:
        """What the temperature seeks."""
        wanted = self.config.target_entropy
        return -float(self.num_actions) if wanted is None else wanted

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """As for every learner, with products of matrices as exact as the settings say."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self.config.precision)
        try:
            with super().learning():
                yield
        finally:
            torch.set_float32_matmul_precision(before)

    def act(self, points: NDArray[Any], generator: Generator | None) -> NDArray[np.float32]:
        """Actions for a batch of kept observations, (B, numbers): drawn from the policy, or without a generator its middle."""
        with torch.inference_mode():
            gaussian = self.online.policy.forward(self.online.critics.features(self._read(points)))
            if generator is None:
                return np.asarray(torch.tanh(gaussian[0]).cpu().numpy())
            return np.asarray(squashed(gaussian, self._noise(len(points), generator))[0].cpu().numpy())

    def values(self, points: NDArray[Any], actions: NDArray[np.float32]) -> NDArray[np.float64]:
        """The values of actions by the lesser critic, in rewards, (B, n)."""
        with torch.inference_mode():
            critics = self.online.critics
            features = critics.features(self._read(points))
            both = critics.forward(features, torch.from_numpy(actions).to(self.device))
            return np.asarray(self.unit * lesser(both).to("cpu", torch.float64).numpy())

    def loss(self, batch: Batch, rewards: RewardEstimate, steps: Steps) -> tuple[torch.Tensor, losses.Look]:
        """That of the critics, with the slopes of all three losses, which share no weights. The others are no measure of errors."""
        (of_critics, of_policy, of_temperature), look = self.losses_and_look(batch, rewards, steps)
        rest = of_policy + of_temperature
        return of_critics + (rest - rest.detach()), look

    def losses_and_look(self, batch: Batch, rewards: RewardEstimate, steps: Steps) -> tuple[Parts, losses.Look]:
        """The three losses, and the values that the critics compare."""
        settings, reads = self._settings, self.config.rule_row.average_is_read_from_values
        average = average_reward(settings.rule, rewards) if settings.rule not in UNCENTERED and not reads else 0.0
        surplus = (batch.reward - average) / steps.value_unit
        after_end = losses.value_after_end(rewards, steps, settings)
        return self._losses(
            self._read(batch.observation), torch.from_numpy(batch.action).to(self.device),
            torch.from_numpy(surplus).to(self.device, torch.float32), self._read(batch.next_observation),
            self._ends(batch.masked, after_end), self._noise(2 * len(surplus), self.generator),
        )  # fmt: skip

    def plain_losses(
        self, inputs: torch.Tensor, action: torch.Tensor, surplus: torch.Tensor, next_inputs: torch.Tensor,
        ends: tuple[torch.Tensor, torch.Tensor] | None, noise: torch.Tensor,
    ) -> tuple[Parts, losses.Look]:  # fmt: skip
        """The losses as functions of tensors alone. `surplus`: R − R̄ in the unit of values, (B,). `ends`: which ends are masked,
        and the value after them. `noise`: for S′, then for S, (2B, numbers)."""
        online, config = self.online, self.config
        ahead_noise, here_noise = noise.chunk(2)
        with torch.no_grad():
            temperature = online.log_temperature.exp()
            next_action, log_chance = squashed(
                online.policy.forward(online.critics.features(next_inputs)), ahead_noise
            )
            after = lesser(self.target.forward(self.target.features(next_inputs), next_action))  # (B, n)
            bootstrap = after - temperature * log_chance[:, None]
            if ends is not None:
                bootstrap = torch.where(ends[0][:, None], ends[1], bootstrap)
            if self._settings.rule not in UNCENTERED:  # of R − α log π, the part that is no reward; and κ times the level
                entropy = 0.0 if config.rule_row.average_is_read_from_values else -temperature * log_chance.mean()
                surplus = surplus - entropy - self._settings.level_share * bootstrap.mean()
            targets = surplus[:, None] + self._settings.discount * bootstrap
        features = online.critics.features(inputs)
        estimate = online.critics.forward(features, action).flatten(0, 1)  # (2B, n), one critic after the other
        look = losses.Look(estimate, bootstrap.repeat(TWINS, 1))
        of_critics = self._critic_loss(targets.repeat(TWINS, 1), look)
        action, log_chance = squashed(online.policy.forward(features.detach()), here_noise)
        value = mean_of_last_axis(online.critics.forward(features.detach(), action, frozen=True)).amin(0)  # (B,)
        of_policy = (temperature * log_chance - value).mean()
        of_temperature = -online.log_temperature[0] * (log_chance.detach().mean() + self.target_entropy)
        return (of_critics, of_policy, of_temperature), look

    def _critic_loss(self, targets: torch.Tensor, look: losses.Look) -> torch.Tensor:
        """Half the mean squared δ, or the loss of return quantiles, summed over the two critics."""
        settings, delta = self._settings, mean_of_last_axis(targets - look.estimate)
        if settings.rule in SCALAR or settings.rule in VALUE:
            return TWINS * 0.5 * delta.square().mean()
        if settings.rule in WITH_HORIZON:
            around = losses.around_the_mean(delta.detach(), look, settings)
            return TWINS * (0.5 * delta.square().mean() + around)
        return TWINS * losses.quantile_huber(targets, look.estimate, settings.tau, settings.huber)

    def _ends(self, masked: NDArray[np.bool_], after_end: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        if self.config.termination == "continue":
            return None
        return torch.from_numpy(masked).to(self.device), torch.tensor(after_end, device=self.device)

    def _noise(self, count: int, generator: Generator | None) -> torch.Tensor:
        numbers = np.empty(count * self.num_actions)
        assert generator is not None
        normals(generator, numbers)
        return torch.from_numpy(numbers).to(self.device, torch.float32).view(count, -1)


def lesser(both: torch.Tensor) -> torch.Tensor:
    """The values of two critics (2, B, n) → those of the critic whose mean is less, (B, n): clipped double Q-learning."""
    if both.shape[-1] == 1:
        return both.amin(0)
    first = mean_of_last_axis(both).argmin(0)  # (B,)
    return both[first, torch.arange(len(first), device=both.device)]
