"""The sketch of the rewards against NumPy, and the distribution that agents make of it against exact answers."""

from __future__ import annotations

import math
import warnings

import gymnasium
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import perstep
from perstep.distributions import sketch
from perstep.files.storage import BadFile, read, write
from perstep.numerics.compiled import compiled
from perstep.worlds import garnet
from perstep.worlds.redpill import red_pill_blue_pill

RED_PILL = "perstep/RedPillBluePill-v0"


@compiled
def take_all(tables, rewards):
    for i in range(rewards.shape[0]):
        sketch.take(tables, rewards[i])


def sketched(rewards, longest=sketch.UNBOUNDED):
    tables = sketch.new_sketch(longest)
    take_all(tables, np.asarray(rewards, np.float64))
    return tables


def of_late(rewards, longest=sketch.UNBOUNDED):
    """The rewards of the later half of the full blocks, and those of the block under way."""
    length, dropped = 1, 0
    while len(rewards) - dropped >= length * sketch.BLOCKS:
        if 2 * length <= longest:
            length *= 2
        else:  # blocks that may not be longer are dropped
            dropped += length * sketch.BLOCKS // 2
    full = (len(rewards) - dropped) // length
    return np.asarray(rewards)[dropped + full // 2 * length :]


def counted(tables):
    """The distinct rewards of all blocks, in order, and how often each was counted."""
    found = sketch.atoms(tables)
    values, places = np.unique(found.values, return_inverse=True)
    return values, np.bincount(places, found.counts).astype(int)


# ------------------------------------------------------------------------------------------------------ counted exactly

few = st.lists(st.sampled_from([-100.0, -1.0, -0.0, 0.0, 0.1, 1e-300, 7e5, 1e300]), max_size=300)


@given(few, st.sampled_from([1, 3, 10, sketch.UNBOUNDED]))
@example([], 1)
@example([1.0] * 500, 3)
@example([1.0], 1)
@example([0.0, -0.0, 0.0], sketch.UNBOUNDED)
def test_few_values_are_counted_exactly(rewards, longest):
    values, counts = counted(sketched(rewards, longest))
    expected = np.unique(np.array(of_late(rewards, longest)) + 0.0, return_counts=True)
    assert values.tolist() == expected[0].tolist()
    assert counts.tolist() == expected[1].tolist()
    assert not np.signbit(values[values == 0.0]).any()


@settings(max_examples=20)
@given(st.integers(1, sketch.ENTRIES), st.integers(0, 60_000), st.integers(0, 2**32))
def test_up_to_a_thousand_values_are_counted_exactly(distinct, length, seed):
    random = np.random.default_rng(seed)
    rewards = random.normal(size=distinct)[random.integers(0, distinct, length)]
    values, counts = counted(sketched(rewards))
    expected = np.unique(of_late(rewards), return_counts=True)
    assert values.tolist() == expected[0].tolist()
    assert counts.tolist() == expected[1].tolist()


def test_blocks_by_hand():
    # 64 blocks: 63 steps are 63 blocks of 1, of which the first 31 are forgotten; the next step makes 32 blocks of 2.
    assert counted(sketched(range(1, 64)))[0].tolist() == list(range(32, 64))
    assert counted(sketched(range(1, 65)))[0].tolist() == list(range(33, 65))
    # Block 33 is full after 66 steps, and 16 of 33 are forgotten still; with 67 one more step is under way.
    assert counted(sketched(range(1, 68)))[0].tolist() == list(range(33, 68))
    assert sketch.atoms(sketched(range(1, 68))).blocks.tolist() == [*np.repeat(range(16, 33), 2), 33]
    # Blocks of at most one step: with the 64th the older half is dropped, and 16 of the others are forgotten.
    assert counted(sketched(range(1, 65), 1))[0].tolist() == list(range(49, 65))


@given(st.integers(0, 20_000), st.booleans())
@settings(max_examples=20)
def test_blocks_are_in_the_order_of_time(length, continuous):
    rewards = np.random.default_rng(length).normal(size=length)
    rewards = rewards if continuous else rewards.round(1)
    tables = sketched(rewards)
    found, late = sketch.atoms(tables), of_late(rewards)
    full, begin = tables.cursor[sketch.LENGTH], found.blocks.min(initial=10**9)
    for block in np.unique(found.blocks):
        own = found.blocks == block
        expected = late[(block - begin) * full : (block - begin + 1) * full]
        assert found.counts[own].sum() == expected.size
        assert found.values[own] @ found.counts[own] == pytest.approx(expected.sum(), abs=1e-9)


@given(st.lists(st.integers(0, 9000), min_size=1, max_size=5), st.booleans())
@settings(max_examples=20)
def test_stretches_are_as_one(lengths, continuous):
    rewards = np.random.default_rng(sum(lengths)).normal(size=sum(lengths))
    rewards = rewards if continuous else rewards.round(1)
    tables = sketch.new_sketch()
    for piece in np.split(rewards, np.cumsum(lengths)[:-1]):
        take_all(tables, piece)
    for found, expected in zip(tables, sketched(rewards), strict=True):
        assert found.tolist() == expected.tolist()


def test_no_sketch_takes_nothing():
    tables = sketch.no_sketch()
    take_all(tables, np.ones(10))
    assert counted(tables)[1].size == 0


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=400))
def test_keys_are_sorted_as_floats(values):
    words = sketch.new_sketch().words
    for i, value in enumerate(values):
        words[sketch.SORTED_BEGIN + i] = sketch.key_of(value + 0.0)
    begin = sketch.sort(words, len(values))
    found = [sketch.value_of(int(key)) for key in words[begin : begin + len(values)]]
    assert found == sorted(value + 0.0 for value in values)


# ------------------------------------------------------------------------------------------------------ merged neighbours


def streams():
    random = np.random.default_rng(3)
    size = 100_000
    yield "normal", random.normal(size=size)
    yield "cauchy", random.standard_cauchy(size)
    yield "far from 0", 1e6 + random.normal(size=size)
    yield "an atom in it", np.where(random.random(size) < 0.7, 0.25, random.normal(size=size))
    yield "rare and low", np.where(random.random(size) < 0.002, -100.0, random.random(size))
    yield "rising", np.sort(random.normal(size=size))
    yield "falling", -np.sort(random.normal(size=size))
    yield "huge", 1e307 * random.uniform(-1, 1, size)


@pytest.mark.parametrize(("name", "rewards"), streams())
def test_merged_neighbours_keep_the_tails(name, rewards):
    tables = sketched(rewards)
    values, counts = counted(tables)
    late = np.sort(of_late(rewards))
    assert max(tables.cursor[sketch.SIZES :]) <= sketch.ENTRIES
    assert counts.sum() == late.size
    assert (values[0], values[-1]) == (late[0], late[-1])
    scale = np.abs(late).max()
    if name != "huge":  # where even a sum of rewards would be infinite
        assert (values / scale) @ counts == pytest.approx((late / scale).sum(), abs=1e-11 * late.size)
    # A quantile of the sketch is one of the rewards at a level that is 0.5 % away in the middle, less in the tails.
    below = np.cumsum(counts) / late.size
    for p in (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999):
        found, off = values[np.searchsorted(below, p)], 0.01 * math.sqrt(p * (1 - p))
        low, high = np.quantile(late, [p - off, p + off], method="inverted_cdf")
        assert low <= found <= high, p
    found, expected = perstep.Distribution.from_counts(values, counts), perstep.Distribution.from_samples(late)
    for p in (0.001, 0.01, 0.1):
        assert found.cvar(p) / scale == pytest.approx(expected.cvar(p) / scale, rel=5e-3, abs=1e-5), p


def test_an_atom_among_many_values_is_counted_exactly():
    random = np.random.default_rng(5)
    rewards = np.where(random.random(100_000) < 0.3, 0.25, random.normal(size=100_000))
    values, counts = counted(sketched(rewards))
    assert counts[values == 0.25].tolist() == [(of_late(rewards) == 0.25).sum()]


@settings(max_examples=20)
@given(st.integers(-300, 300), st.booleans(), st.integers(0, 2**32))
def test_powers_of_two_change_the_values_alone(power, with_atoms, seed):
    random = np.random.default_rng(seed)
    rewards = random.normal(size=20_000)
    if with_atoms:
        rewards = np.where(random.random(20_000) < 0.5, rewards.round(1), rewards)
    first, scaled = counted(sketched(rewards)), counted(sketched(rewards * 2.0**power))
    assert (first[0] * 2.0**power).tolist() == scaled[0].tolist()
    assert first[1].tolist() == scaled[1].tolist()


def test_any_scale_and_shift():
    rewards = np.random.default_rng(1).normal(size=50_000)
    first, moved = counted(sketched(rewards)), counted(sketched(3.0 * rewards + 10.0))
    np.testing.assert_allclose(3.0 * first[0] + 10.0, moved[0], rtol=1e-12)
    assert first[1].tolist() == moved[1].tolist()


# ------------------------------------------------------------------------------------------------------ agents


def worlds():
    return {
        "cliff": perstep.FiniteMDP.from_gymnasium(gymnasium.make("CliffWalking-v1")),
        "lake": perstep.FiniteMDP.from_gymnasium(gymnasium.make("FrozenLake-v1")),
        "red-pill": red_pill_blue_pill(),
        "garnet": garnet(10, 3, 3, 4, reward_sd=1.0),
    }


@pytest.mark.parametrize("rule", ["differential", "d2", "d3"])
@pytest.mark.parametrize("world", [name for name in worlds() if name != "cliff"])  # whose ties last for ever
def test_the_distribution_is_that_of_the_behaviour(world, rule):
    # With a constant ε, since `policy()` is then the whole behaviour.
    mdp = worlds()[world]
    agent = perstep.QLearning(mdp, rule=rule, epsilon=0.1, seed=1).learn(1_000_000)
    found, exact = agent.reward_distribution, mdp.evaluate(agent.policy()).reward_distribution
    assert found.num_samples >= 1_000_000 / 8
    room = 0.03 * (exact.quantile(0.9999) - exact.quantile(0.0001))
    p = np.arange(1, 100) / 100
    error = 2 * np.sqrt(p * (1 - p) / found.effective_samples)
    low, high = exact.quantile(np.clip(p - error, 1e-9, 1)), exact.quantile(np.clip(p + error, 0, 1 - 1e-9))
    quantiles = found.quantile(p)
    assert (quantiles >= low - room).all()
    assert (quantiles <= high + room).all()
    for tail in (0.01, 0.001):
        if tail * found.effective_samples < 10:
            continue  # it says so itself
        off = abs(found.cvar(tail) - exact.cvar(tail))
        assert off <= max(room, 4 * found.cvar_error(tail)), (
            found.cvar(tail),
            exact.cvar(tail),
            found.cvar_error(tail),
        )
    assert abs(found.mean - exact.mean) <= 0.01 * exact.std + 4 * found.mean_error
    assert agent.reward_distribution.mean == pytest.approx(found.mean, abs=1e-12)


@pytest.mark.parametrize("world", worlds())
def test_the_distribution_is_that_of_the_rewards_of_late(world):
    agent = perstep.QLearning(worlds()[world], rule="d2", seed=2)
    agent.record_every(1, rows=1 << 18).learn(200_000)
    late = of_late(agent.history.reward_rate)
    found, counted = agent.reward_distribution, perstep.Distribution.from_samples(late)
    late = late[-found.num_samples :]
    assert found.num_samples in (late.size, late.size // 2)
    assert found.mean == pytest.approx(counted.mean, abs=1e-12 * np.abs(late).max())
    assert (found.quantile(0.0), found.quantile(1.0)) == (late.min(), late.max())
    if world in ("cliff", "lake"):
        assert found.means.tolist() == counted.means.tolist()
        assert found.weights.tolist() == counted.weights.tolist()
    for p in (0.001, 0.01, 0.1, 0.5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", perstep.ThinTail)
            assert found.cvar(p) == pytest.approx(counted.cvar(p), abs=2e-3 * counted.std)


def test_a_changing_world_is_seen_as_it_is_now():
    agent = perstep.QLearning(RED_PILL, rule="d2", preset="changing").learn(1_000_000)
    assert 10_000 <= agent.reward_distribution.num_samples <= of_late(range(1_000_000), 6_250).size == 107_072


def test_three_averages():
    agent = perstep.QLearning(RED_PILL, rule="d2", step_size=0.01, offset_ratio=1.0)
    assert math.isnan(agent._life.recent_reward)
    assert agent.reward_quantiles.mean() == agent.reward_quantiles.mean()
    agent.record_every(1).learn(1000)
    assert agent.reward_distribution.mean == pytest.approx(of_late(agent.history.reward_rate).mean(), abs=1e-12)
    assert agent.reward_quantiles.mean() == pytest.approx(agent.reward_quantiles.mean(), abs=1e-12)
    assert len({agent.average_reward, agent.reward_quantiles.mean(), agent.reward_distribution.mean}) == 3


@pytest.mark.parametrize("rule", ["differential", "rvi"])
def test_rules_without_quantiles_have_a_distribution(rule):
    agent = perstep.QLearning(RED_PILL, rule=rule)
    with pytest.raises(ValueError, match="recorded no reward yet"):
        _ = agent.reward_distribution
    assert agent.learn(3000).reward_distribution.num_samples == 3000 - 1472


def test_without_a_sketch_there_is_no_distribution():
    agent = perstep.QLearning(RED_PILL, rule="d2").record_every(10, sketch=False).learn(500)
    with pytest.raises(ValueError, match="were not counted"):
        agent.reward_distribution  # noqa: B018
    assert agent.learned_distribution.mean == pytest.approx(agent.reward_quantiles.mean(), abs=1e-12)
    assert math.isnan(agent._life.recent_reward)


def test_the_distribution_says_where_it_comes_from():
    agent = perstep.QLearning(RED_PILL, rule="d2").learn(1_000)
    assert repr(agent.reward_distribution).startswith("Distribution(counted over the last 504 steps: mean -0.")
    assert repr(agent.learned_distribution).startswith("Distribution(mean -0.")


def test_a_sketch_changes_nothing_that_is_learnt():
    first, second = (
        perstep.QLearning(RED_PILL, rule="d3", num_quantiles=5).record_every(7, sketch=on).learn(5000)
        for on in (True, False)
    )
    assert first.all_action_values.tolist() == second.all_action_values.tolist()
    assert first.history.reward_rate.tolist() == second.history.reward_rate.tolist()


def test_other_learners_take_notes_too():
    gym = perstep.QLearning("FrozenLake-v1").learn(300)
    assert gym.reward_distribution.num_samples == 300 - 144
    tiles = perstep.ActorCritic("perstep/InvertedPendulum-v0", tilings=4, tiles=4).learn(300)
    assert tiles.reward_distribution.num_samples == 300 - 144


# ------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("world", [RED_PILL, "lake"])
@pytest.mark.parametrize("on", [True, False])
def test_resumed_to_the_bit(world, on, tmp_path):
    def agent():
        mdp = worlds()["lake"] if world == "lake" else world
        return perstep.QLearning(mdp, rule="d2").record_every(10, sketch=on)

    whole = agent().learn(23_000)
    agent().learn(12_345).save(tmp_path / "half.safetensors")
    half = perstep.load(tmp_path / "half.safetensors").learn(23_000 - 12_345)
    for found, expected in zip(
        sketch.kept(half._life.record.sketch), sketch.kept(whole._life.record.sketch), strict=True
    ):
        assert found.tolist() == expected.tolist()
    if not on:
        with pytest.raises(ValueError, match="were not counted"):
            half.reward_distribution  # noqa: B018
        return
    assert half.reward_distribution.means.tolist() == whole.reward_distribution.means.tolist()
    assert half.reward_distribution.effective_samples == whole.reward_distribution.effective_samples


CURSOR = {"length": 0, "full": 1, "taken": 2, "waiting": 3, "stop": 4, "size": 6, "last size": 6 + 63}


def spoilt():
    for name, place in CURSOR.items():
        for number in (-1, 2**62, 2**63 - 1):
            yield f"{name} {number}", "sketch.cursor", (place, number)
    yield "length 0", "sketch.cursor", (sketch.LENGTH, 0)
    yield "another length", "sketch.cursor", (sketch.LENGTH, 512)
    yield "too many waiting", "sketch.cursor", (sketch.WAIT, sketch.WAITING)
    yield "waiting NaN", "sketch.waiting", (0, np.nan)
    yield "values out of order", "sketch.values", (0, 1e300)
    yield "values NaN", "sketch.values", (0, np.nan)
    yield "counts", "sketch.counts", (0, 0)
    yield "other counts", "sketch.counts", (0, 3)
    yield "too large counts", "sketch.counts", (0, 2**62)


@pytest.mark.parametrize(("name", "array", "change"), spoilt(), ids=lambda x: x if isinstance(x, str) else "")
def test_a_hostile_sketch_is_refused(name, array, change, tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.QLearning(RED_PILL, rule="d2").learn(10_000).save(path)
    arrays, metadata = read(path)
    place, number = change
    arrays[array][place] = number
    write(path, arrays, metadata)
    with pytest.raises(BadFile):
        perstep.load(path)


@pytest.mark.parametrize("field", sketch.Kept._fields)
def test_a_file_without_a_part_of_the_sketch_is_refused(field, tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.QLearning(RED_PILL, rule="d2").learn(10_000).save(path)
    arrays, metadata = read(path)
    for broken in (None, arrays[f"sketch.{field}"].ravel()[:3].copy()):
        changed = {name: array for name, array in arrays.items() if name != f"sketch.{field}"}
        write(path, changed if broken is None else {**changed, f"sketch.{field}": broken}, metadata)
        with pytest.raises(BadFile):
            perstep.load(path)


def test_the_settings_decide_how_long_blocks_are(tmp_path):
    path = tmp_path / "a.safetensors"
    perstep.QLearning(RED_PILL, rule="d2").learn(10).save(path)
    arrays, metadata = read(path)
    arrays["sketch.cursor"][sketch.LONGEST] = -5
    write(path, arrays, metadata)
    assert perstep.load(path)._life.record.sketch.cursor[sketch.LONGEST] == sketch.UNBOUNDED
