"""Networks for actions that are vectors: two critics in one batched product, and a squashed Gaussian policy (Haarnoja et al.)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import final

import torch
from torch import nn
from torch.nn import functional

from perstep.deep.networks import make_body

TWINS = 2
LEAST, MOST = -20.0, 2.0  # of the logarithm of the policy's deviation


@final
class Critics(nn.Module):
    """Two critics of an action, of the same shape, each with weights of its own; they share the layers that read an image."""

    def __init__(
        self, kind: str, input_shape: tuple[int, ...], num_actions: int, hidden: tuple[int, ...], num_outputs: int,
        normalized: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        layers, self.num_features = make_body(kind, input_shape, ())
        self.body, self.normalized = nn.Sequential(layers), normalized
        sizes = (self.num_features + num_actions, *hidden, num_outputs)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            bound = 1.0 / math.sqrt(inputs)  # as in nn.Linear
            self.weights.append(torch.empty(TWINS, inputs, outputs).uniform_(-bound, bound))
            self.biases.append(torch.empty(TWINS, 1, outputs).uniform_(-bound, bound))

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the critics and the policy read of an observation, (B, features)."""
        features = inputs
        for layer in self.body:  # as in ValueNetwork
            features = layer.forward(features)
        return features

    def forward(self, features: torch.Tensor, action: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """The values of an action, (2, B, n). `frozen`: with a slope on the action alone."""
        outputs = torch.cat([features, action], 1).expand(TWINS, -1, -1)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            w, b = (weight.detach(), bias.detach()) if frozen else (weight, bias)
            outputs = torch.baddbmm(b, outputs, w)
            if layer < last:
                normal = functional.layer_norm(outputs, outputs.shape[-1:]) if self.normalized else outputs
                outputs = torch.relu(normal)
        return outputs


@final
class Policy(nn.Module):
    """From features to the mean and the logarithm of the deviation of a Gaussian, before it is squashed."""

    def __init__(self, num_features: int, hidden: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        layers, size = make_body("perceptron", (num_features,), hidden)
        self.body, self.head = nn.Sequential(layers), nn.Linear(size, 2 * num_actions)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two tensors (B, numbers of an action)."""
        outputs = features
        for layer in self.body:  # as in ValueNetwork
            outputs = layer.forward(outputs)
        mean, log_deviation = self.head.forward(outputs).chunk(2, dim=-1)
        return mean, log_deviation.clamp(LEAST, MOST)


@final
class ActorAndCritics(nn.Module):
    """All that is learnt: the critics, the policy and the logarithm of the temperature."""

    def __init__(self, critics: Critics, policy: Policy, initial_temperature: float) -> None:
        super().__init__()
        self.critics, self.policy = critics, policy
        self.log_temperature = nn.Parameter(torch.tensor([math.log(initial_temperature)]))


def squashed(gaussian: tuple[torch.Tensor, torch.Tensor], noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Actions tanh(mean + deviation · noise), (B, numbers), and the logarithm of their density, (B,)."""
    mean, log_deviation = gaussian
    raw = mean + log_deviation.exp() * noise
    log_normal = -0.5 * noise.square().sum(-1) - 0.5 * noise.shape[-1] * math.log(
        2.0 * math.pi
    )  # without the deviation
    log_slope = (
        raw + functional.softplus(-2.0 * raw) - math.log(2.0)
    )  # −½ log(1 − tanh²), also where that is 0 in floats
    return torch.tanh(raw), log_normal + (2.0 * log_slope - log_deviation).sum(-1)
