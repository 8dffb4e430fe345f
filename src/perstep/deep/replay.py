"""The replay buffer of Alg. 6, 10 and 13: every frame is stored once, and frames are stacked when a batch is sampled.

An observation is a stack of K frames (K = 1 if it is not a stack). Frames have their own ring buffer. A transition stores the
positions of the frames of S and S′. So S′ shares its frames with the next S, and a stack shares all but its newest frame with the
stack before. An observation after a reset shares no frame, and needs no special case.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from perstep.numerics.compiled import compiled
from perstep.numerics.randomness import Generator, uniform
from perstep.system.budget import claim, gigabytes
from perstep.system.memory import available_memory

SLACK = 32  # one extra frame for this many transitions, for the first observations of episodes
RINGS = ("before", "after", "oldest", "action", "reward", "masked")  # ring buffers with one entry for each transition
NO_ROW = -1
LONGEST = 2**62  # transitions or frames that can be counted
ANNOUNCED = 100_000_000  # bytes from which an allocation is announced


class Batch(NamedTuple):
    """A minibatch of B transitions; the next minibatch overwrites it."""

    observation: NDArray[Any]  # (B, *shape)
    action: NDArray[Any]  # (B,) numbers, or (B, numbers) vectors
    reward: NDArray[np.float64]  # (B,)
    next_observation: NDArray[Any]  # (B, *shape)
    masked: NDArray[np.bool_]  # (B,) whether the value of S′ is 0, because an episode ended there
    length: NDArray[np.int64] | None = None  # (B,) steps from S to S′, whose rewards are summed; None for one


@final
class Replay:
    """The last `capacity` transitions of one or several environments."""

    def __init__(
        self, capacity: int, shape: tuple[int, ...], dtype: str, *, stacked: bool, num_envs: int, batch_size: int,
        num_steps: int = 1, discount: float = 1.0, action_size: int = 0,
    ) -> None:  # fmt: skip
        """`action_size`: how many numbers an action has that is a vector; 0 where it is a whole number."""
        if num_steps > 1 and capacity < num_steps * num_envs:
            raise ValueError(
                f"A replay of {capacity:,} transitions is too small for {num_envs} environments and return_steps={num_steps}. "
                "Choose a larger replay_capacity."
            )
        self.capacity, self.shape, self.stacked, self.num_envs = capacity, shape, stacked, num_envs
        depth, frame = (shape[0], shape[1:]) if stacked else (1, shape)
        num_frames = capacity + capacity // SLACK + 2 * (depth + 1) * num_envs
        of_a_frame = np.dtype(dtype).itemsize * math.prod(frame)
        of_an_action = 4 * action_size or 8
        self.num_bytes = num_frames * of_a_frame + capacity * (8 * depth + 17 + of_an_action) + num_envs * 8 * depth
        """Bytes of memory that a full replay takes."""
        what, of_envs = f"a replay of {capacity:,} transitions", num_envs * 8 * (num_steps + 4)
        claim(self.num_bytes + of_envs, what, "Choose a smaller replay_capacity.")
        room = 2 * np.dtype(dtype).itemsize * math.prod(shape) + 4 * depth + 32 + of_an_action
        claim(batch_size * room, f"a minibatch of {batch_size:,} transitions", "Choose a smaller batch_size.")
        announce_memory(self.num_bytes, what)
        self._frames = np.zeros((num_frames, *frame), dtype)  # (F, *frame)
        self._before = np.zeros((capacity, depth), np.int32)  # (N, K) positions of the frames of S
        self._after = np.zeros((capacity, depth), np.int32)  # (N, K) positions of the frames of S′
        self._oldest = np.zeros(capacity, np.int64)  # (N,) index of the oldest frame of each transition
        actions: Any = ((action_size,), np.float32) if action_size else ((), np.int64)
        self._action = np.zeros((capacity, *actions[0]), actions[1])
        self._reward = np.zeros(capacity)
        self._masked = np.zeros(capacity, np.bool_)
        self._cursor = np.zeros(3, np.int64)  # transitions added, frames added, transitions that can be sampled
        self._here = np.zeros((num_envs, depth), np.int64)  # indices of the frames of each environment's S
        self.num_steps, self._discount = num_steps, discount
        # Transitions over several steps: how long each one is, and for each environment the rows that still grow, the newest first.
        self._length = np.ones(capacity if num_steps > 1 else 0, np.int64)
        self._open = np.full((num_envs, num_steps - 1), NO_ROW)
        self._chosen = np.zeros(batch_size, np.int64)
        self._places = np.zeros((batch_size, depth), np.int32)
        stacks = (batch_size, *shape)
        self._batch = Batch(
            np.zeros(stacks, dtype),
            np.zeros((batch_size, *actions[0]), actions[1]),
            np.zeros(batch_size),
            np.zeros(stacks, dtype),
            np.zeros(batch_size, np.bool_),
            np.ones(batch_size, np.int64) if num_steps > 1 else None,
        )

    def __len__(self) -> int:
        return int(self._cursor[2])

    @property
    def added(self) -> int:
        """Number of transitions added so far, including those that were overwritten."""
        return int(self._cursor[0])

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Those of the transitions that it holds, in no order."""
        return self._reward[: len(self)]

    def start(self, env: int, observation: NDArray[Any]) -> None:
        """Store the first observation of environment `env`, or one that follows no transition."""
        self._here[env] = self._keep(env, observation, follows=False)
        self._open[env] = NO_ROW

    def add(
        self, env: int, action: Any, reward: float, next_observation: NDArray[Any], masked: bool, resume: NDArray[Any]
    ) -> None:
        """Add a transition of environment `env` from its current observation. `resume` is its next observation: S′, or a reset."""
        before = self._here[env].copy()
        after = self._keep(env, next_observation, follows=True)
        row = int(self._cursor[0]) % self.capacity
        self._before[row] = before % len(self._frames)
        self._after[row] = after % len(self._frames)
        self._oldest[row] = before.min()
        self._age_those_before(row)
        self._action[row], self._reward[row], self._masked[row] = action, reward, masked
        if self.num_steps > 1:
            self._lengthen(env, row, goes_on=resume is next_observation and not masked)
        self._cursor[0] += 1
        self._cursor[2] = min(self._cursor[2] + 1, self.capacity)
        self._here[env] = after if resume is next_observation else self._keep(env, resume, follows=False)
        self._forget()

    def _lengthen(self, env: int, row: int, goes_on: bool) -> None:
        """Let the last transitions of an environment go on by the step in `row`: to its S′, with its reward discounted."""
        self._length[row] = 1
        for age, grown in enumerate(self._open[env], 1):
            if grown == NO_ROW:
                break
            self._reward[grown] += self._discount**age * self._reward[row]
            self._after[grown], self._masked[grown], self._length[grown] = self._after[row], self._masked[row], age + 1
        self._open[env] = [row, *self._open[env][:-1]] if goes_on else NO_ROW

    def sample(self, generator: Generator) -> Batch:
        """Transitions drawn uniformly, with replacement."""
        batch = self._batch
        pick(int(self._cursor[0]), len(self), self.capacity, generator, self._chosen)
        rows = self._chosen
        for places, out in ((self._before, batch.observation), (self._after, batch.next_observation)):
            np.take(places, rows, axis=0, out=self._places, mode="clip")
            stacks = out.reshape(self._places.shape + self._frames.shape[1:])
            np.take(self._frames, self._places, axis=0, out=stacks, mode="clip")
        np.take(self._action, rows, axis=0, out=batch.action, mode="clip")
        np.take(self._reward, rows, out=batch.reward, mode="clip")
        np.take(self._masked, rows, out=batch.masked, mode="clip")
        if batch.length is not None:
            np.take(self._length, rows, out=batch.length, mode="clip")
        return batch

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, for a file; of the ring buffers, only the filled part."""
        rows = {name: getattr(self, f"_{name}")[: self._cursor[0]] for name in self._rings}
        several = {"open": self._open} if self.num_steps > 1 else {}
        return {
            **rows,
            "frames": self._frames[: self._cursor[1]],
            "cursor": self._cursor,
            "here": self._here,
            **several,
        }

    @property
    def _rings(self) -> tuple[str, ...]:
        return (*RINGS, "length") if self.num_steps > 1 else RINGS

    def restore(self, arrays: dict[str, NDArray[Any]], actions: tuple[float, float]) -> None:
        """Load the arrays of a saved replay, whose actions lie between these two numbers; ValueError if they do not fit."""
        several = ("open",) if self.num_steps > 1 else ()
        own = {name: getattr(self, f"_{name}") for name in (*self._rings, "frames", "cursor", "here", *several)}
        added, frames, size = map(int, arrays["cursor"])
        _within("cursor", arrays["cursor"], LONGEST)
        filled = {name: min(added, self.capacity) for name in self._rings} | {"frames": min(frames, len(self._frames))}
        for name, mine in own.items():
            saved, shape = arrays[name], (filled.get(name, len(mine)), *mine.shape[1:])
            if saved.shape != shape or saved.dtype != mine.dtype:
                raise ValueError(
                    f"expected {mine.dtype} {shape} for a replay's {name}, got {saved.dtype} {saved.shape}"
                )
        _within("size", np.array([size]), min(added, self.capacity) + 1)
        if not ((arrays["action"] >= actions[0]) & (arrays["action"] <= actions[1])).all():
            raise ValueError(f"expected actions of a replay from {actions[0]} to {actions[1]}")
        _within("place of a frame", arrays["here"], max(frames, 1))
        if several:
            _within("length", arrays["length"] - 1, self.num_steps)
            _within("row", arrays["open"] - NO_ROW, min(added, self.capacity) - NO_ROW)
        for name in ("before", "after"):
            _within("place of a frame", arrays[name], max(filled["frames"], 1))
        for name, mine in own.items():
            if (
                arrays[name].shape == mine.shape and arrays[name].flags.writeable
            ):  # no second copy of a full replay in memory
                setattr(self, f"_{name}", arrays[name])
            else:
                mine[: len(arrays[name])] = arrays[name]

    def _keep(self, env: int, observation: NDArray[Any], *, follows: bool) -> NDArray[np.int64]:
        """Store the new frames of an observation; returns the indices of all its frames, counted from the first ever stored."""
        if not self.stacked:
            return np.array([self._put(observation)])
        here = self._here[env]
        if follows and np.array_equal(observation[:-1], self._frames[here[1:] % len(self._frames)]):
            return np.append(here[1:], self._put(observation[-1]))
        found: list[int] = []
        for k, frame in enumerate(observation):  # the first stack of an episode often repeats one frame
            same = k > 0 and np.array_equal(frame, observation[k - 1])
            found.append(found[-1] if same else self._put(frame))
        return np.array(found)

    def _put(self, frame: NDArray[Any]) -> int:
        number = int(self._cursor[1])
        self._frames[number % len(self._frames)] = frame
        self._cursor[1] += 1
        return number

    def _age_those_before(self, row: int) -> None:
        """Transitions are removed in their order, so one must go before a later one of another environment with older frames."""
        for back in range(1, int(self._cursor[2]) + 1):
            if back == self.capacity or self._oldest[row - back] <= self._oldest[row]:
                return
            self._oldest[row - back] = self._oldest[row]

    def _forget(self) -> None:
        """Remove transitions whose frames have been overwritten, the oldest first."""
        added, frames, size = map(int, self._cursor)
        while size and self._oldest[(added - size) % self.capacity] < frames - len(self._frames):
            size -= 1
        self._cursor[2] = size


def _within(what: str, numbers: NDArray[Any], end: int) -> None:
    if numbers.size and not (0 <= numbers.min() and numbers.max() < end):
        raise ValueError(f"expected a {what} of a replay from 0 to {end - 1}, got {numbers.min()} to {numbers.max()}")


@compiled
def pick(added: Any, size: Any, capacity: Any, generator: Any, chosen: Any) -> None:
    """Draw rows of the ring buffer, uniformly among the last `size` rows, with replacement."""
    for b in range(chosen.shape[0]):
        chosen[b] = (added - size + np.int64(uniform(generator) * size)) % capacity


def announce_memory(num_bytes: int, what: str) -> None:
    """Print how much memory will be allocated, if it is much."""
    if num_bytes >= ANNOUNCED:
        free = available_memory()
        there = "" if free is None else f" of {gigabytes(free)} available"
        print(f"perstep: {what} takes {gigabytes(num_bytes)}{there}", file=sys.stderr, flush=True)
