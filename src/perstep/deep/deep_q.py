"""The learner of the fourth column: Q-learning with a network, a target network and minibatches (Alg. 6, 10, 13)."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from perstep.config import DeepQConfig
from perstep.deep import losses
from perstep.deep.networks import ValueNetwork, as_inputs, layout, make_network
from perstep.deep.observations import Observations
from perstep.deep.replay import Batch
from perstep.quantiles import levels
from perstep.rules import RewardEstimate, Steps
from perstep.schedules import step_size
from perstep.system.memory import keep_freed_memory

Arrays = dict[str, NDArray[Any]]

WORTH_THREADS = 500_000  # weights from which a second thread is worth its while
MOMENTS = ("exp_avg", "exp_avg_sq")  # of Adam, for every weight


class BadLoss(ArithmeticError):
    """A loss that is not a number, from which nothing can be learnt."""


class Look(NamedTuple):
    """What the networks say of a batch."""

    estimate: torch.Tensor  # (B, n) the value of S and A, with slope
    bootstrap: torch.Tensor  # (B, n) the value of S′
    fresh: torch.Tensor | None  # (B, n) the value of S′ by the online network, for the learned offset of d2


@final
class DeepQLearner:
    """A network and its target network, moved by minibatches."""

    def __init__(self, observations: Observations, num_actions: int, config: DeepQConfig) -> None:
        self.observations, self.num_actions, self.config = observations, num_actions, config
        self.device = device_named(config.device)
        self.updates = 0
        """Minibatches learnt from so far."""
        self.online, self.target = self._networks()
        self.optimizer = torch.optim.Adam(
            self.online.parameters(), config.value_decay(0), eps=config.adam_epsilon, fused=True
        )
        self._weights: tuple[list[torch.Tensor], list[torch.Tensor]] = (
            list(self.online.parameters()),
            list(self.target.parameters()),
        )
        self._rule = losses.RULES[config.rule]
        tau = torch.tensor(levels(config.value_size), dtype=torch.float32, device=self.device)
        self._settings = losses.Settings(config.huber, config.reward_tracking, tau)
        self._rows = torch.arange(config.batch_size, device=self.device)
        self._forward: Any = torch.compile(self.online) if config.compile else self.online.forward
        self._forward_target: Any = torch.compile(self.target) if config.compile else self.target.forward
        if config.precision == "bfloat16":
            warn_of_slow_bfloat16(self.device)

    def values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Values of all actions for a batch of kept observations, (B, A, n)."""
        with torch.inference_mode(), self._precision():
            outputs = self.online.forward(self._read(observations))
            return np.asarray(outputs.to("cpu", torch.float64).numpy())

    def means(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """The values of all actions for a batch of kept observations as one number each, (B, A)."""
        values = self.values(observations)
        return values[:, :, 0] if values.shape[2] == 1 else values.mean(axis=2)

    def weights(self) -> NDArray[np.float64]:
        """All weights of the network in a row."""
        rows = [weight.detach().to("cpu", torch.float64).reshape(-1) for weight in self._weights[0]]
        return np.asarray(torch.cat(rows).numpy())

    def update(self, batch: Batch, rewards: RewardEstimate) -> float:
        """Move θ, R̄, w and w_T by one minibatch, as the listings do; returns its loss."""
        kept = rewards.theta.copy(), rewards.offset.copy()
        estimate, bootstrap, fresh = self._look(batch)
        steps = self._steps()
        loss, delta = self._rule(rewards, batch.reward, bootstrap, estimate, steps, self._settings)
        if fresh is not None:
            losses.move_offset(rewards, delta + (fresh - bootstrap)[:, 0], steps.offset)
        value = float(loss.detach())
        if not math.isfinite(value):
            rewards.theta[:], rewards.offset[:] = kept
            raise self._bad_loss(value, batch, bootstrap, estimate)
        weights, target_weights = self._weights
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(weights, self.config.gradient_clip, foreach=True)
        self.optimizer.param_groups[0]["lr"] = steps.value
        self.optimizer.step()
        with torch.no_grad():  # w_T ← w_T + ρ (w − w_T)
            torch._foreach_lerp_(target_weights, weights, self.config.target_step_size)
        self.updates += 1
        return value

    def _look(self, batch: Batch) -> Look:
        """The estimate of S and A by the online network; of S′ the best by the target network, chosen by the online one in d3."""
        observation, next_observation = self._read(batch.observation), self._read(batch.next_observation)
        action, rule = torch.from_numpy(batch.action).to(self.device), self.config.rule
        with self._precision():
            with torch.no_grad():
                target: torch.Tensor = self._forward_target(next_observation).float()  # (B, A, n)
                asks_online = rule == "d3" or self.config.offset_ratio > 0
                online = self._forward(next_observation).float() if asks_online else target
            estimate = self._forward(observation)[self._rows, action].float()  # (B, n)
        if rule == "d3":
            best = online.mean(2).argmax(1)  # (B,) a*, the first of the best
            return Look(estimate, self._unmasked(target[self._rows, best], batch.masked), None)
        fresh = self._unmasked(online.amax(1), batch.masked) if asks_online else None
        return Look(estimate, self._unmasked(target.amax(1), batch.masked), fresh)

    def _unmasked(self, bootstrap: torch.Tensor, masked: NDArray[np.bool_]) -> torch.Tensor:
        """An end that is masked is worth 0."""
        if not masked.any():
            return bootstrap
        return bootstrap.masked_fill(torch.from_numpy(masked).to(self.device)[:, None], 0.0)

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """Around a stretch of learning: as many threads of PyTorch as the settings say, or as the network is worth."""
        keep_freed_memory()
        before = torch.get_num_threads()
        worth = 1 if sum(weight.numel() for weight in self._weights[0]) < WORTH_THREADS else before
        torch.set_num_threads(self.config.threads or worth)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _steps(self) -> Steps:
        alpha, config = self.config.value_decay(self.updates), self.config
        alpha_theta = float(step_size(config.theta_scale, config.theta_power, self.updates))
        return Steps(alpha, alpha_theta, config.offset_ratio * alpha)

    def _read(self, kept: NDArray[Any]) -> torch.Tensor:
        return as_inputs(kept, self.observations, torch.float32, self.device)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def _networks(self) -> tuple[ValueNetwork, ValueNetwork]:
        config = self.config
        shape = self.observations.input_shape
        with torch.random.fork_rng(
            devices=[]
        ):  # the weights come from this run's seed, and nobody else's randomness moves
            torch.manual_seed(config.seed)
            online = make_network(config.network, shape, config.hidden, self.num_actions, config.value_size)
            target = make_network(config.network, shape, config.hidden, self.num_actions, config.value_size)
        with torch.no_grad():
            online.head.bias.add_(config.initial_value)
        target.load_state_dict(online.state_dict())
        target.requires_grad_(False)
        for network in (online, target):
            network.to(self.device, memory_format=layout(shape))  # type: ignore[call-overload]
        return online, target

    def arrays(self) -> Arrays:
        """Weights, moments of the optimizer and the number of updates, for a file."""
        arrays: Arrays = {"updates": np.array([self.updates], np.int64)}
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
        if updates.shape != (1,) or updates.dtype.kind != "i" or updates[0] < 0:
            raise ValueError(f"updates {updates.tolist()} is there instead of one whole number from 0")
        self.updates = int(updates[0])
        if self.updates:
            for key, weight in self.online.named_parameters():
                state = self.optimizer.state[weight]
                state["step"] = torch.tensor(float(self.updates), device=self.device)
                for moment in MOMENTS:
                    saved = _fitting(arrays, f"adam.{moment}.{key}", weight)
                    state[moment] = torch.zeros_like(weight, memory_format=torch.preserve_format).copy_(saved)

    def _bad_loss(self, value: float, batch: Batch, bootstrap: torch.Tensor, estimate: torch.Tensor) -> BadLoss:
        numbers = {
            "rewards": batch.reward,
            "observations": batch.observation,
            "estimates": _numpy(estimate.detach()),
            "bootstraps": _numpy(bootstrap),
        }
        spans = ", ".join(f"{name} {spread(array)}" for name, array in numbers.items())
        return BadLoss(
            f"At update {self.updates + 1:,} the loss is {value}. The batch had {spans}. "
            "The agent is as it was before this update. "
            "Try a smaller step_size, a gradient_clip, or look into the world's rewards and observations."
        )


def spread(array: NDArray[Any]) -> str:
    """The span of the finite numbers, and how many are not."""
    finite = array[np.isfinite(array)]
    span = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "none finite"
    return span + (f" ({array.size - finite.size} not finite)" if finite.size < array.size else "")


def device_named(name: str) -> torch.device:
    """The device with this name; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"There is no device {name!r} here ({reason}). Use 'auto' or 'cpu'.") from error
    return device


def is_here(name: str) -> bool:
    """Whether there is a device with this name, or none anywhere, which `device_named` says better."""
    with contextlib.suppress(RuntimeError):
        torch.device("cpu" if name == "auto" else name)
        try:
            device_named(name)
        except ValueError:
            return False
    return True


def warn_of_slow_bfloat16(device: torch.device) -> None:
    """Processors without bfloat16 imitate it, many times slower than float32: better said than waited for."""
    native = device.type != "cpu" or getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)()
    if not native:
        warnings.warn(
            "This processor has no bfloat16 of its own and imitates it, more slowly than float32. Use precision='float32' here.",
            stacklevel=4,
        )


def shapes(config: DeepQConfig, observations: Observations, num_actions: int) -> dict[str, tuple[int, ...]]:
    """Of the weights by name, without memory for them; ValueError if no memory could hold them."""
    shape = observations.input_shape
    try:
        with torch.device("meta"):
            network = make_network(config.network, shape, config.hidden, num_actions, config.value_size)
    except RuntimeError as error:
        raise ValueError(f"a network that cannot be made ({str(error).splitlines()[0]})") from error
    return {name: tuple(weight.shape) for name, weight in network.named_parameters()}


def _numpy(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().to("cpu").contiguous().numpy()


def _fitting(arrays: Arrays, name: str, like: torch.Tensor) -> torch.Tensor:
    found = arrays[name]
    if found.dtype.kind != "f":
        raise ValueError(f"{name} of {found.dtype} is there instead of floating point numbers")
    if found.shape != tuple(like.shape):
        raise ValueError(f"{name} of shape {found.shape} is there instead of {tuple(like.shape)}")
    squares = name.startswith("adam.exp_avg_sq.")  # may overflow long before a weight does
    if not ((found >= 0).all() if squares else np.isfinite(found).all()):
        raise ValueError(f"{name} is there with {'NaN or less than 0' if squares else 'NaN or infinity'} in it")
    return torch.from_numpy(found)
