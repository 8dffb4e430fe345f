"""A learner with networks: the networks, their targets, the optimizer, the device and the threads.

Which networks there are, and their loss on a minibatch, is the learner's own: deep/q_learning.py, deep/continuous/learner.py.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from perstep.deep import losses
from perstep.deep.inputs import InputScale
from perstep.deep.networks import as_inputs, layout
from perstep.deep.observations import Observations
from perstep.deep.replay import LONGEST, Batch
from perstep.deep.settings import NetworkConfig
from perstep.numerics.quantiles import levels
from perstep.numerics.randomness import Generator
from perstep.numerics.scale import return_unit, reward_unit
from perstep.numerics.schedules import step_size
from perstep.rules.transition import RewardEstimate, Steps
from perstep.system.budget import claim
from perstep.system.memory import keep_freed_memory

Arrays = dict[str, NDArray[Any]]

LARGE = 500_000  # the number of weights above which several threads are faster than one, and bfloat16 is worth it
DEVICES = ("cpu", "cuda", "mps", "xpu")  # kinds of devices that compute
NEW_UNIT = 1.2  # the factor by which the unit of values must have changed before the network takes the new one
MOMENTS = ("exp_avg", "exp_avg_sq")  # of Adam, for every weight


class BadLoss(ArithmeticError):
    """A loss that is NaN or infinite, from which nothing can be learnt."""


class NetworkLearner(ABC):
    """Networks and their targets, moved by minibatches."""

    config: NetworkConfig

    def __init__(
        self, observations: Observations, num_actions: int, config: Any, generator: Generator | None = None
    ) -> None:
        """`num_actions`: how many there are, or how many numbers one has. `generator`: the run's, for losses that draw."""
        self.observations, self.num_actions, self.config, self.generator = observations, num_actions, config, generator
        self.device = device_named(config.device)
        self._claim_memory()
        self.updates = 0
        """The number of minibatches learnt from so far."""
        self.unit = 0.0 if config.scale_free else 1.0
        """The unit of the networks' values, in rewards; 0 while all rewards were equal and nothing ended."""
        self.inputs: InputScale | None = None
        if config.inputs == "standardized" and observations.layout == "vector":
            self.inputs = InputScale(math.prod(observations.shape))
        with torch.random.fork_rng(devices=[]):  # the weights come from this run's seed; no global generator moves
            torch.manual_seed(config.seed)
            self.online, self.target = self._networks()
        self.target.requires_grad_(False)
        for network in (self.online, self.target):
            network.to(self.device, memory_format=layout(observations.input_shape))
        self.is_large = sum(weight.numel() for weight in self.online.parameters()) >= LARGE
        self.optimizer = torch.optim.Adam(
            self.online.parameters(), self._ratio * config.value_decay(0), eps=config.adam_epsilon, fused=True
        )
        self._weights: list[torch.Tensor] = list(self.online.parameters())
        self._leaders: list[torch.Tensor] = list(self._followed().parameters())
        self._followers: list[torch.Tensor] = list(self.target.parameters())
        tau = torch.tensor(levels(config.value_size), dtype=torch.float32, device=self.device)
        work = config.workspace
        self._settings = losses.Settings(
            config.kernel,
            config.huber,
            getattr(config, "reward_tracking", "stream"),
            tau,
            config.discount,
            work.horizon_factor,
            work.end_divisor,
            config.level_share,
        )

    @classmethod
    @abstractmethod
    def network(cls, config: Any, observations: Observations, num_actions: int) -> torch.nn.Module:
        """What is learnt, before the first update."""

    @abstractmethod
    def _networks(self) -> tuple[Any, Any]:
        """What is learnt, and what follows it as its target."""

    @abstractmethod
    def _followed(self) -> torch.nn.Module:
        """The part of what is learnt that the target follows."""

    @abstractmethod
    def _outputs(self) -> set[torch.Tensor]:
        """The weights whose outputs are values: they change with the unit."""

    @abstractmethod
    def loss(self, batch: Batch, rewards: RewardEstimate, steps: Steps) -> tuple[torch.Tensor, losses.Look]:
        """The loss of a minibatch, which may move θ and R̄, and the values that it compares."""

    @property
    def _ratio(self) -> float:
        """The factor of α."""
        return 1.0

    @property
    def _bad_share(self) -> float:
        """What the unit of values is divided by, since a bad step counts more than it costs."""
        return 1.0

    def _order(self, weight: torch.Tensor) -> int:
        """The power of a factor of all values with which the slope on a weight grows."""
        return 1 if weight in self._outputs() else 2

    @classmethod
    def shapes(cls, config: Any, observations: Observations, num_actions: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights by name, without memory for them; ValueError if no memory could hold them."""
        try:
            with torch.device("meta"):
                network = cls.network(config, observations, num_actions)
        except RuntimeError as error:
            raise ValueError(f"a network that cannot be made ({str(error).splitlines()[0]})") from error
        return {name: tuple(weight.shape) for name, weight in network.named_parameters()}

    def weights(self) -> NDArray[np.float64]:
        """All weights of the network in a row."""
        rows = [weight.detach().to("cpu", torch.float64).reshape(-1) for weight in self._weights]
        return np.asarray(torch.cat(rows).numpy())

    def see(self, kept: NDArray[Any]) -> None:
        """Take note of one observation, for the scale of the inputs."""
        if self.inputs is not None:
            self.inputs.see(kept)

    def see_reward(self, reward: float, kept: NDArray[np.float64]) -> None:  # noqa: B027 (a learner may have no use for it)
        """Take note of a reward; `kept`: those of the replay."""

    def follow_unit(self, rewards: RewardEstimate) -> bool:
        """Take the unit of values from the returns seen so far, if it has changed much; returns whether there is one. Values in
        rewards stay as they are: heads and moments of Adam change with the unit (van Hasselt et al. 2016)."""
        unit = float(return_unit(rewards.units)) / self._bad_share if self.config.scale_free else 1.0
        if unit and max(unit, self.unit) > NEW_UNIT * min(unit, self.unit):
            if self.unit:
                self._rescale(self.unit / unit)
            self.unit = unit
        return self.unit > 0

    def _rescale(self, factor: float) -> None:
        """Multiply all values, and the moments of Adam with the slopes: the slope on what gives values grows by the factor too,
        and that on the rest by its square."""
        with torch.no_grad():
            for weight in self._outputs():
                weight.mul_(factor)
            for moved, state in self.optimizer.state.items():
                slope = factor ** self._order(moved)
                state["exp_avg"].mul_(slope)
                state["exp_avg_sq"].mul_(slope**2)

    def update(self, batch: Batch, rewards: RewardEstimate) -> float:
        """Move θ, R̄, w and w_T by one minibatch, as the listings do; returns its loss."""
        kept = rewards.theta.copy(), rewards.offset.copy()
        steps = self._steps(float(reward_unit(rewards.units)) if self.config.scale_free else 1.0)
        loss, look = self.loss(batch, rewards, steps)
        value = float(loss.detach())
        if not math.isfinite(value):
            rewards.theta[:], rewards.offset[:] = kept
            raise self._bad_loss(value, batch, look)
        for weight in self._weights:
            weight.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(self._weights, self.config.gradient_clip, foreach=True)
        self.optimizer.param_groups[0]["lr"] = steps.value
        self.optimizer.step()
        with torch.no_grad():  # w_T ← w_T + ρ (w − w_T)
            torch._foreach_lerp_(self._followers, self._leaders, self.config.target_step)
        self.updates += 1
        return value

    def _ended(self, bootstrap: torch.Tensor, masked: NDArray[np.bool_], after_end: float) -> torch.Tensor:
        """The bootstrap, with the value after an end where the end of an episode is masked."""
        if not masked.any():
            return bootstrap
        return bootstrap.masked_fill(torch.from_numpy(masked).to(self.device)[:, None], after_end)

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """Learn inside this context: it sets the number of PyTorch threads, by the settings or by the size of the network."""
        keep_freed_memory()
        before = torch.get_num_threads()
        torch.set_num_threads(self.config.threads or (before if self.is_large else 1))
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _steps(self, unit: float = 1.0) -> Steps:
        alpha, theta = self._ratio * self.config.value_decay(self.updates), self.config.schedule()
        alpha_theta = 0.0  # where θ follows the stream of rewards
        if not self.config.from_stream:
            alpha_theta = float(step_size(theta.theta_scale, theta.theta_power, theta.theta_delay, self.updates))
        return Steps(alpha, alpha_theta, theta.offset_ratio * alpha, unit, self.unit)

    def _read(self, kept: NDArray[Any]) -> torch.Tensor:
        if self.inputs is not None:
            return torch.from_numpy(self.inputs.standardized(kept)).to(self.device)
        return as_inputs(kept, self.observations, torch.float32, self.device)

    def _claim_memory(self) -> None:
        """The networks, the gradient and the moments of Adam; the inputs, layers and outputs of a minibatch, about."""
        numbers, outputs = math.prod(self.observations.input_shape), self.num_actions * self.config.value_size
        with torch.random.fork_rng(devices=[]):
            weights = sum(map(math.prod, self.shapes(self.config, self.observations, self.num_actions).values()))
        claim(20 * weights, f"a network of {weights:,} weights", "Choose smaller layers in hidden, or fewer quantiles.")
        size = self.config.batch_size
        claim(
            size * (60 * numbers + 32 * outputs),
            f"learning from a minibatch of {size:,} transitions",
            "Choose a smaller batch_size.",
        )

    def arrays(self) -> Arrays:
        """The weights, the moments of the optimizer, the number of updates and the units, for a file."""
        arrays: Arrays = {"updates": np.array([self.updates], np.int64)}
        if self.config.scale_free:
            arrays["unit"] = np.array([self.unit])
        if self.inputs is not None:
            arrays |= {f"inputs.{name}": array for name, array in self.inputs.arrays().items()}
        for name, network in (("online", self.online), ("target", self.target)):
            arrays |= {f"{name}.{key}": _numpy(tensor) for key, tensor in network.state_dict().items()}
        if self.updates:
            for key, weight in self.online.named_parameters():
                state = self.optimizer.state[weight]
                arrays |= {f"adam.{moment}.{key}": _numpy(state[moment]) for moment in MOMENTS}
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Become the learner whose arrays these are; KeyError or ValueError if they do not fit."""
        for name, network in (("online", self.online), ("target", self.target)):
            for key, tensor in network.state_dict().items():
                tensor.copy_(_fitting(arrays, f"{name}.{key}", tensor))
        updates = arrays["updates"]
        if updates.shape != (1,) or updates.dtype.kind != "i" or not 0 <= updates[0] < LONGEST:
            raise ValueError(f"updates must be one whole number of at least 0, got {updates.tolist()}")
        self.updates = int(updates[0])
        if self.config.scale_free:
            unit = arrays["unit"]
            if unit.shape != (1,) or not (np.isfinite(unit).all() and unit[0] >= 0):
                raise ValueError(f"unit must be one finite number of at least 0, got {unit.tolist()}")
            self.unit = float(unit[0])
        if self.inputs is not None:
            self.inputs.restore({name: arrays[f"inputs.{name}"] for name in self.inputs.arrays()})
        if self.updates:
            for key, weight in self.online.named_parameters():
                state = self.optimizer.state[weight]
                state["step"] = torch.tensor(float(self.updates), device=self.device)
                for moment in MOMENTS:
                    saved = _fitting(arrays, f"adam.{moment}.{key}", weight)
                    state[moment] = torch.zeros_like(weight, memory_format=torch.preserve_format).copy_(saved)

    def _bad_loss(self, value: float, batch: Batch, look: losses.Look) -> BadLoss:
        numbers = {
            "rewards": batch.reward,
            "observations": batch.observation,
            "estimates": _numpy(look.estimate.detach()),
            "bootstraps": _numpy(look.bootstrap),
        }
        spans = ", ".join(f"{name} {spread(array)}" for name, array in numbers.items())
        return BadLoss(
            f"At update {self.updates + 1:,} the loss is {value}. The batch had {spans}. "
            "The agent is as it was before this update. "
            "Try a smaller step_size or a gradient_clip, or check the rewards and observations of the world."
        )


def spread(array: NDArray[Any]) -> str:
    """The range of the finite numbers, and how many are NaN or infinite."""
    finite = array[np.isfinite(array)]
    span = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "none finite"
    return span + (f" ({array.size - finite.size} not finite)" if finite.size < array.size else "")


def device_named(name: str) -> torch.device:
    """The device with this name; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in DEVICES:
            raise RuntimeError(f"networks can live on {', '.join(DEVICES)}")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"There is no device {name!r} here ({reason}). Use 'auto' or 'cpu'.") from error
    return device


def is_here(name: str) -> bool:
    """Whether this machine has a device with this name. True for a name that no machine has: `device_named` refuses it."""
    with contextlib.suppress(RuntimeError):
        if name != "auto" and torch.device(name).type not in DEVICES:
            return True
        try:
            device_named(name)
        except ValueError:
            return False
    return True


def _numpy(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().to("cpu").contiguous().numpy()


def _fitting(arrays: Arrays, name: str, like: torch.Tensor) -> torch.Tensor:
    found = arrays[name]
    if found.dtype.kind != "f":
        raise ValueError(f"{name} must hold floating point numbers, got {found.dtype}")
    if found.shape != tuple(like.shape):
        raise ValueError(f"{name} must have shape {tuple(like.shape)}, got {found.shape}")
    squares = name.startswith("adam.exp_avg_sq.")  # may overflow to infinity long before a weight does
    if not ((found >= 0).all() if squares else np.isfinite(found).all()):
        raise ValueError(f"{name} contains {'NaN or negative numbers' if squares else 'NaN or infinite numbers'}")
    return torch.from_numpy(found)
