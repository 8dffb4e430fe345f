"""Networks that give n numbers for every action: the paper's convolutional one (App. C), MinAtar's, and a perceptron.

With n = 1 the first is the paper's DQN-style network, with n = 51 its QR-DQN-style one.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import Any, final

import torch
from numpy.typing import NDArray
from torch import nn

from perstep.deep.observations import Observations
from perstep.inputs.errors import unknown

Layers = OrderedDict[str, nn.Module]

NETWORKS = ("auto", "atari", "minatar", "perceptron")
SCREEN = 36  # pixels a side: the smallest image for the paper's network


@final
class ValueNetwork(nn.Module):
    """A body that turns an observation into features, and a head with n numbers for every action."""

    def __init__(self, layers: Layers, num_features: int, num_actions: int, num_quantiles: int) -> None:
        super().__init__()
        self.num_actions, self.num_quantiles = num_actions, num_quantiles
        self.body = nn.Sequential(layers)
        self.head = nn.Linear(num_features, num_actions * num_quantiles)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Values of all actions, (B, A, n)."""
        features = observations
        for layer in self.body:  # call `forward` itself: the module hooks cost as much as a small layer
            features = layer.forward(features)
        outputs = self.head.forward(features)  # (B, A·n)
        return outputs.view(-1, self.num_actions, self.num_quantiles)


def as_inputs(kept: NDArray[Any], about: Observations, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A batch of kept observations as numbers, images in the memory layout with the fastest convolutions."""
    batch = torch.from_numpy(kept).to(device)  # (B, *shape)
    if about.layout == "discrete":
        return nn.functional.one_hot(batch.long() - about.start, about.count).to(dtype)  # (B, count)
    if not about.is_image:
        return _scaled(batch, about, dtype).reshape(len(batch), -1)  # (B, numbers)
    if about.layout == "channels-last":
        batch = batch.permute(0, 3, 1, 2)
    elif about.layout == "plane":
        batch = batch.unsqueeze(1)
    batch = batch.contiguous(
        memory_format=layout(about.input_shape)
    )  # before the conversion to floats, which are larger
    return _scaled(batch, about, dtype)  # (B, C, H, W)


def _scaled(batch: torch.Tensor, about: Observations, dtype: torch.dtype) -> torch.Tensor:
    numbers = batch.to(dtype)
    return numbers if about.scale == 1.0 else numbers * about.scale if numbers is batch else numbers.mul_(about.scale)


def layout(input_shape: tuple[int, ...]) -> torch.memory_format:
    """The memory layout of images: channels last is faster for screens, but slower by a fifth for a dozen cells a side."""
    large = len(input_shape) == 3 and min(input_shape[1:]) >= SCREEN
    return torch.channels_last if large else torch.contiguous_format


def make_network(
    kind: str, input_shape: tuple[int, ...], hidden: tuple[int, ...], num_actions: int, num_quantiles: int
) -> ValueNetwork:
    """The network of this kind for inputs (channels, height, width) or (numbers,); `hidden` is for the perceptron."""
    layers, num_features = make_body(kind, input_shape, hidden)
    return ValueNetwork(layers, num_features, num_actions, num_quantiles)


def make_body(kind: str, input_shape: tuple[int, ...], hidden: tuple[int, ...]) -> tuple[Layers, int]:
    """The layers up to the features of a network of this kind, and how many features they give."""
    if kind == "auto":
        kind = _suited(input_shape)
    if kind == "atari":
        return atari_layers(*_image(kind, input_shape, SCREEN))
    if kind == "minatar":
        return minatar_layers(*_image(kind, input_shape, 3))
    if kind == "perceptron":
        return perceptron_layers(input_shape, hidden)
    raise unknown("network", kind, NETWORKS)


def atari_layers(channels: int, height: int, width: int) -> tuple[Layers, int]:
    """The paper's body: three convolutions and 512 features. An image of 84×84 pixels gives 64 · 7 · 7 numbers before these."""
    kernels = ((8, 4), (4, 2), (3, 1))
    left = _after(height, kernels) * _after(width, kernels)
    layers = [
        ("conv1", nn.Conv2d(channels, 32, kernel_size=8, stride=4)),
        ("relu1", nn.ReLU(inplace=True)),
        ("conv2", nn.Conv2d(32, 64, kernel_size=4, stride=2)),
        ("relu2", nn.ReLU(inplace=True)),
        ("conv3", nn.Conv2d(64, 64, kernel_size=3, stride=1)),
        ("relu3", nn.ReLU(inplace=True)),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(64 * left, 512)),
        ("relu4", nn.ReLU(inplace=True)),
    ]
    return OrderedDict(layers), 512


def minatar_layers(channels: int, height: int, width: int) -> tuple[Layers, int]:
    """The body of MinAtar's own agents (Young & Tian 2019): one convolution and 128 features."""
    left = _after(height, ((3, 1),)) * _after(width, ((3, 1),))
    layers = [
        ("conv1", nn.Conv2d(channels, 16, kernel_size=3, stride=1)),
        ("relu1", nn.ReLU(inplace=True)),
        ("flatten", nn.Flatten()),
        ("fc1", nn.Linear(16 * left, 128)),
        ("relu2", nn.ReLU(inplace=True)),
    ]
    return OrderedDict(layers), 128


def perceptron_layers(input_shape: tuple[int, ...], hidden: tuple[int, ...]) -> tuple[Layers, int]:
    """Hidden layers of these sizes; with none, the values are linear in the observation."""
    sizes = (int(torch.Size(input_shape).numel()), *hidden)
    layers: Layers = OrderedDict(flatten=nn.Flatten())
    for i, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        layers[f"fc{i}"] = nn.Linear(inputs, outputs)
        layers[f"relu{i}"] = nn.ReLU(inplace=True)
    return layers, sizes[-1]


def _suited(input_shape: tuple[int, ...]) -> str:
    if len(input_shape) != 3 or min(input_shape[1:]) < 3:
        return "perceptron"
    return "atari" if min(input_shape[1:]) >= SCREEN else "minatar"


def _image(kind: str, input_shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    if len(input_shape) != 3 or min(input_shape[1:]) < least:
        raise ValueError(
            f"The network {kind!r} needs images of at least {least}×{least} pixels, got observations {input_shape}. "
            "Use network='auto' or 'perceptron'."
        )
    channels, height, width = input_shape
    return channels, height, width


def _after(size: int, kernels: tuple[tuple[int, int], ...]) -> int:
    """The width of an image of width `size` after convolutions with these (kernel, stride)."""
    for kernel, stride in kernels:
        size = (size - kernel) // stride + 1
    return size
