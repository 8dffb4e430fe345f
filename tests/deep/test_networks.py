"""The networks: the paper's own listing, and what each kind of observation becomes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch")
from perstep.deep.networks import as_inputs, make_network  # noqa: E402
from perstep.deep.observations import Observations, observations_of  # noqa: E402


class PaperNetwork(torch.nn.Module):
    """The QR-DQN-style listing of the paper's appendix, word for word; with n_quantiles = 1 its DQN-style one."""

    def __init__(self, state_dim, action_dim, n_quantiles):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(state_dim, 32, kernel_size=8, stride=4)
        self.conv2 = torch.nn.Conv2d(32, 64, kernel_size=4, stride=2)
        self.conv3 = torch.nn.Conv2d(64, 64, kernel_size=3, stride=1)
        self.fc1 = torch.nn.Linear(64 * 7 * 7, 512)
        self.fc2 = torch.nn.Linear(512, action_dim * n_quantiles)

    def forward(self, x):
        x = torch.nn.functional.relu(self.conv1(x))
        x = torch.nn.functional.relu(self.conv2(x))
        x = torch.nn.functional.relu(self.conv3(x))
        x = x.view(x.size(0), -1)
        x = torch.nn.functional.relu(self.fc1(x))
        return self.fc2(x)


@pytest.mark.parametrize("n", [1, 51])
def test_atari_network_is_the_papers(n):
    theirs, ours = PaperNetwork(4, 6, n), make_network("atari", (4, 84, 84), (), 6, n)
    assert [p.shape for p in theirs.parameters()] == [p.shape for p in ours.parameters()]
    with torch.no_grad():
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.copy_(b)
    ours.to(memory_format=torch.channels_last)
    kept = np.random.default_rng(0).integers(0, 256, (3, 4, 84, 84)).astype(np.uint8)
    about = observations_of(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    outputs = ours(as_inputs(kept, about, torch.float32, torch.device("cpu")))
    assert outputs.shape == (3, 6, n)
    expected = theirs(torch.from_numpy(kept).float() / 255).view(3, 6, n)
    np.testing.assert_allclose(outputs.detach(), expected.detach(), atol=2e-5)


CASES = [  # space, kept shape, kept dtype, layout, input shape, first layer
    (spaces.Box(0, 255, (4, 84, 84), np.uint8), (4, 84, 84), "uint8", "channels-first", (4, 84, 84), "conv1"),
    (spaces.Box(0, 255, (96, 96, 3), np.uint8), (96, 96, 3), "uint8", "channels-last", (3, 96, 96), "conv1"),
    (spaces.Box(0, 255, (84, 84), np.uint8), (84, 84), "uint8", "plane", (1, 84, 84), "conv1"),
    (spaces.Box(0, 1, (10, 10, 10), np.bool_), (10, 10, 10), "bool", "channels-first", (10, 10, 10), "conv1"),
    (spaces.Box(-1, 1, (10, 10, 4), np.float64), (10, 10, 4), "float32", "channels-last", (4, 10, 10), "conv1"),
    (spaces.Box(-np.inf, np.inf, (17,), np.float64), (17,), "float32", "vector", (17,), "fc1"),
    (spaces.Box(0, 255, (128,), np.uint8), (128,), "uint8", "vector", (128,), "fc1"),
    (spaces.Box(-1, 1, (4, 6), np.float32), (4, 6), "float32", "vector", (24,), "fc1"),
    (spaces.Discrete(7, start=2), (), "int32", "discrete", (7,), "fc1"),
    (spaces.MultiBinary(9), (9,), "int8", "vector", (9,), "fc1"),
]


@pytest.mark.parametrize(("space", "shape", "dtype", "layout", "input_shape", "first"), CASES)
def test_every_kind_of_observation(space, shape, dtype, layout, input_shape, first):
    about = observations_of(space)
    assert (about.shape, about.dtype, about.layout, about.input_shape) == (shape, dtype, layout, input_shape)
    assert Observations.from_json(about.to_json()) == about
    space.seed(0)
    kept = about.keep([space.sample() for _ in range(2)])
    inputs = as_inputs(kept, about, torch.float32, torch.device("cpu"))
    assert inputs.shape == (2, *input_shape)
    network = make_network("auto", input_shape, (8,), 3, 5)
    assert network(inputs).shape == (2, 3, 5)
    assert first in dict(network.body.named_children())


def test_numbers_are_those_of_the_observation():
    device = torch.device("cpu")
    image = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
    about = observations_of(spaces.Box(0, 255, (5, 6, 3), np.uint8))
    expected = np.moveaxis(image, 2, 0) / 255
    np.testing.assert_allclose(as_inputs(image[None], about, torch.float32, device)[0], expected, atol=1e-7)
    one_hot = as_inputs(np.array([3], np.int32), observations_of(spaces.Discrete(4, start=2)), torch.float32, device)
    assert one_hot.tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize(
    "space", [spaces.Dict(a=spaces.Discrete(2)), spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3)]
)
def test_other_spaces_are_refused(space):
    with pytest.raises(TypeError, match=r"A network reads boxes of numbers .* but this world has .*FlattenObservation"):
        observations_of(space)


def test_four_dimensions_are_refused():
    with pytest.raises(TypeError, match="up to three dimensions"):
        observations_of(spaces.Box(0, 255, (4, 84, 84, 3), np.uint8))


def test_network_for_images_refuses_vectors():
    with pytest.raises(ValueError, match=r"needs images of at least 36×36 pixels, got observations \(4,\)"):
        make_network("atari", (4,), (), 2, 1)
    with pytest.raises(ValueError, match="There is no network 'lstm'"):
        make_network("lstm", (4,), (), 2, 1)


def test_perceptron_without_hidden_layers_is_linear():
    network = make_network("perceptron", (6,), (), 2, 3)
    assert [tuple(p.shape) for p in network.parameters()] == [(6, 6), (6,)]
