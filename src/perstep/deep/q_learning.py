"""Q-learning with a network: what the networks are asked for a minibatch (Alg. 6, 10, 13)."""

from __future__ import annotations

from typing import final

import torch

from perstep.deep.learner import NetworkLearner
from perstep.deep.losses import Look
from perstep.deep.replay import Batch
from perstep.rules.transition import mean_of_last_axis


@final
class DeepQLearner(NetworkLearner):
    """Estimate q(S, A) by the online network, bootstrap q(S′, a*) by the target network."""

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
