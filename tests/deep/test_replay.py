"""The replay against a list of whole transitions, over ends, cuts, several environments and its own forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from perstep.deep import replay as replay_module
from perstep.deep.replay import Replay
from perstep.numerics.randomness import make_generator
from perstep.system import budget

DEPTH, SIZE = 4, 3


class Stream:
    """One environment whose every frame differs from all others; stacks begin with copies of the first frame, or zeros."""

    def __init__(self, rng, padding):
        self.rng, self.padding = rng, padding

    def frame(self):
        return self.rng.integers(1, 256, (SIZE, SIZE)).astype(np.uint8)

    def reset(self):
        frame = self.frame()
        pad = frame if self.padding == "first" else np.zeros_like(frame)
        self.stack = np.stack([pad] * (DEPTH - 1) + [frame])
        return self.stack

    def step(self):
        self.stack = np.concatenate([self.stack[1:], self.frame()[None]])
        return self.stack


def fill(replay, num_envs, steps, *, padding="first", ends=0.05, cuts=0.05, seed=0):
    """Add transitions and return them whole, in order."""
    rng = np.random.default_rng(seed)
    streams = [Stream(rng, padding) for _ in range(num_envs)]
    here = [stream.reset() for stream in streams]
    for env in range(num_envs):
        replay.start(env, here[env])
    told = []
    for _ in range(steps):
        for env, stream in enumerate(streams):
            following = resume = stream.step()
            if (draw := rng.random()) < ends:
                following = resume = stream.reset()
            elif draw < ends + cuts:
                resume = stream.reset()
            action, reward, masked = int(rng.integers(5)), float(rng.normal()), bool(rng.random() < 0.1)
            replay.add(env, action, reward, following, masked, resume)
            told.append((here[env].copy(), action, reward, following.copy(), masked))
            here[env] = resume
    return told


def rows_of(replay, draws=60, seed=1):
    generator = make_generator(seed)
    for _ in range(draws):
        batch = replay.sample(generator)
        yield from zip(*(array.copy() for array in batch if array is not None), strict=True)


def same(row, transition):
    return all(np.array_equal(a, b) for a, b in zip(row, transition, strict=True))


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("padding", ["first", "zeros"])
@pytest.mark.parametrize("steps", [7, 40, 400])
def test_stacks_are_what_was_observed(num_envs, padding, steps):
    replay = Replay(100, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=num_envs, batch_size=16)
    told = fill(replay, num_envs, steps, padding=padding)
    last = {transition[2]: transition for transition in told[-len(replay) :]}
    seen = set()
    for row in rows_of(replay):
        assert same(row, last[row[2]])  # the reward, a normal number, names the transition
        seen.add(row[2])
    assert len(seen) > 0.8 * len(last)


def test_frames_are_kept_once():
    replay = Replay(1000, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=2, batch_size=4)
    fill(replay, 2, 400, ends=0.0, cuts=0.0)
    assert len(replay.arrays()["frames"]) == 2 * 401  # one a step, and the first


def test_an_end_costs_no_frame_and_a_cut_costs_one():
    for ends, cuts, extra in ((1.0, 0.0, 0), (0.0, 1.0, 1)):
        replay = Replay(100, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=1, batch_size=4)
        fill(replay, 1, 10, ends=ends, cuts=cuts)
        assert len(replay.arrays()["frames"]) == 1 + 10 * (1 + extra)


def test_full_replay_keeps_the_last_of_its_capacity():
    replay = Replay(64, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=1, batch_size=4)
    told = fill(replay, 1, 1000, ends=0.02, cuts=0.0)
    assert len(replay) == 64
    assert {row[2] for row in rows_of(replay, 400)} == {transition[2] for transition in told[-64:]}


def test_many_cuts_shorten_it_but_nothing_is_mixed_up():
    replay = Replay(64, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=1, batch_size=4)
    told = fill(replay, 1, 1000, ends=0.0, cuts=0.5)
    assert 30 < len(replay) < 64
    last = {transition[2]: transition for transition in told[-len(replay) :]}
    assert all(same(row, last[row[2]]) for row in rows_of(replay))


@pytest.mark.parametrize(("shape", "dtype"), [((), "int32"), ((5,), "float32"), ((2, 4, 4), "bool")])
def test_other_observations_are_kept_once_too(shape, dtype):
    rng = np.random.default_rng(0)
    replay = Replay(50, shape, dtype, stacked=False, num_envs=1, batch_size=8)
    points = [np.asarray(rng.normal(size=shape) * 10).astype(dtype) for _ in range(131)]
    replay.start(0, points[0])
    for t in range(130):
        replay.add(0, t, float(t), points[t + 1], False, points[t + 1])
    assert len(replay) == 50
    for observation, action, reward, following, masked in rows_of(replay):
        assert action == reward >= 80
        assert not masked
        np.testing.assert_array_equal(observation, points[action])
        np.testing.assert_array_equal(following, points[action + 1])


def test_sampling_is_uniform():
    replay = Replay(10, (), "int32", stacked=False, num_envs=1, batch_size=1000)
    replay.start(0, np.array(0))
    for t in range(25):
        following = np.array(t + 1)
        replay.add(0, t, 0.0, following, False, following)
    counts = np.bincount(replay.sample(make_generator(0)).action, minlength=25)
    assert counts[:15].sum() == 0
    assert 60 < counts[15:].min() <= counts.max() < 140  # each 100 ± 4 standard deviations of 9.5


def test_restored_replay_goes_on_alike():
    def new():
        return Replay(60, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=2, batch_size=8)

    for steps in (5, 200):
        one, other = new(), new()
        fill(one, 2, steps)
        other.restore({name: array.copy() for name, array in one.arrays().items()}, (0, 4))
        for _ in range(3):
            a, b = one.sample(make_generator(3)), other.sample(make_generator(3))
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        frame = np.full((SIZE, SIZE), 7, np.uint8)
        for replay in (one, other):
            replay.add(1, 1, 0.5, np.stack([frame] * DEPTH), False, np.stack([frame] * DEPTH))
        assert all(np.array_equal(one.arrays()[name], other.arrays()[name]) for name in one.arrays())


def test_atari_fits_in_three_quarters_of_a_gigabyte(monkeypatch, capsys):
    monkeypatch.setattr(replay_module, "available_memory", lambda: 4_000_000_000)
    replay = Replay(100_000, (4, 84, 84), "uint8", stacked=True, num_envs=1, batch_size=32)
    held = sum(array.nbytes for name, array in vars(replay).items() if isinstance(array, np.ndarray))
    assert held <= 750_000_000
    assert abs(held - replay.num_bytes) < 0.01 * held
    assert "a replay of 100,000 transitions takes 0.73 GB of 4.00 GB available" in capsys.readouterr().err


def test_larger_than_memory_is_refused(monkeypatch):
    monkeypatch.setattr(budget, "available_memory", lambda: 1_000_000_000)
    with pytest.raises(
        MemoryError, match=r"needs 7\.\d\d GB of memory, but 1\.00 GB are available\. Choose a smaller replay_capac"
    ):
        Replay(1_000_000, (4, 84, 84), "uint8", stacked=True, num_envs=1, batch_size=32)


def test_a_slow_environment_never_shows_the_frames_of_another():
    rng = np.random.default_rng(0)
    replay = Replay(64, (DEPTH, SIZE, SIZE), "uint8", stacked=True, num_envs=2, batch_size=16)
    streams = [Stream(rng, "first") for _ in range(2)]
    here = [stream.reset().copy() for stream in streams]
    for env in range(2):
        replay.start(env, here[env])
    told = {}
    for t in range(600):
        env = 1 if t % 40 == 39 else 0  # the other one waits, while frames of the first fill the ring
        following, resume = streams[env].step(), streams[env].reset()
        reward = float(rng.normal())
        told[reward] = (here[env].copy(), t % 5, reward, following.copy(), False)
        replay.add(env, t % 5, reward, following, False, resume)
        here[env] = resume
        if len(replay):
            assert all(same(row, told[row[2]]) for row in rows_of(replay, 3, seed=t))
    assert len(replay) > 10
