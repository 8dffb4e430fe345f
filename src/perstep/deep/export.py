"""A trained network as an ONNX file: from an observation, as the world gives it, to what its agent answers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from perstep.deep.inputs import FARTHEST
from perstep.deep.learner import NetworkLearner
from perstep.deep.observations import Observations

Answers = Callable[[torch.Tensor], dict[str, torch.Tensor]]


class Deployed(nn.Module):
    """The networks with all that is around them: the reading of observations, and what the agent makes of their outputs."""

    def __init__(self, learner: NetworkLearner, answers: Answers) -> None:
        super().__init__()
        self.online, self.about, self.answers = learner.online, learner.observations, answers
        self.standardizes = learner.inputs is not None
        mean, spread = (np.zeros(0), np.zeros(0)) if learner.inputs is None else learner.inputs.mean_and_spread()
        self.mean, self.spread = (torch.tensor(numbers, dtype=torch.float32) for numbers in (mean, spread))

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Observations (B, *shape) → the answers, in order."""
        return tuple(self.answers(self._read(observation)).values())

    def names(self, observation: torch.Tensor) -> list[str]:
        """What the answers are called."""
        return list(self.answers(self._read(observation)))

    def _read(self, observation: torch.Tensor) -> torch.Tensor:
        about: Observations = self.about
        if about.layout == "discrete":
            return nn.functional.one_hot(observation.long() - about.start, about.count).float()
        numbers = observation.float() * about.scale
        if about.layout == "channels-last":
            return numbers.permute(0, 3, 1, 2)
        if about.layout == "plane":
            return numbers.unsqueeze(1)
        if about.is_image:
            return numbers
        numbers = numbers.flatten(1)
        if not self.standardizes:
            return numbers
        return ((numbers - self.mean) / self.spread).clamp(-FARTHEST, FARTHEST)


def export(learner: NetworkLearner, answers: Answers, path: Path) -> None:
    """Write an ONNX file with the input `observation` and the answers as outputs, for batches of any size."""
    about = learner.observations
    example = torch.zeros((2, *about.shape), dtype=getattr(torch, about.dtype))
    if about.layout == "discrete":
        example += about.start
    deployed = Deployed(learner, answers).to("cpu").eval()
    batch = torch.export.Dim("batch", min=1)
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                deployed, (example,), path, input_names=["observation"], output_names=deployed.names(example),
                dynamic_shapes={"observation": {0: batch}}, external_data=False, verbose=False,
            )  # fmt: skip
    except ModuleNotFoundError as error:
        raise ImportError("An export to ONNX needs onnx and onnxscript: pip install 'perstep[onnx]'") from error
    finally:
        quiet.setLevel(level)
        learner.online.to(learner.device)
