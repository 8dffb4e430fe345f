"""The record of a run: whatever its length, the same as computed at once from all the rewards, and never larger."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import perstep
from perstep.distributions.history import FILLED, PENDING, ROWS, WINDOW, History, new_record, note, note_end
from perstep.distributions.sketch import new_sketch
from perstep.numerics.compiled import compiled
from perstep.rules.transition import D2, reward_estimate


@compiled
def note_all(record, sequence, estimate):
    """Take down every reward; the estimate at step t is θ = (t, −t), b = ½, counted on in θ itself."""
    for reward in sequence:
        estimate.theta[0] += 1.0
        estimate.theta[1] -= 1.0
        note(D2, record, reward, estimate)


def recorded(sequence, window=1, rows=8):
    record = new_record(2, window, rows, new_sketch())
    estimate = reward_estimate(2, 0.0)._replace(offset=np.array([0.5]))
    note_all(record, np.asarray(sequence, float), estimate)
    return record


def arrays_of(record):
    return [*record[:-2], *record.sketch, *record.block_sums]


def windows_at_once(length, window, rows):
    """The window after this many steps: doubled for as long as so many windows would not fit."""
    while length // window >= rows:
        window *= 2
    return window


def test_by_hand():
    # Windows of 2 steps, 4 rows. Rewards 1 … 7: rows (1+2)/2, (3+4)/2, (5+6)/2 and 7 under way.
    record = recorded([1, 2, 3, 4, 5, 6, 7], window=2, rows=4)
    assert record.cursor.tolist() == [2, 3, 1]
    assert record.pending.tolist() == [7.0, 0.0, 0.0]
    history = History(record)
    assert history.steps.tolist() == [2, 4, 6]
    assert history.reward_rate.tolist() == [1.5, 3.5, 5.5]
    assert history.average_reward.tolist() == [0.5, 0.5, 0.5]  # mean of (t, −t), plus ½
    assert history.reward_quantiles.tolist() == [[2, -2], [4, -4], [6, -6]]
    # The eighth reward fills the last row: windows of 4 now, (1+2+3+4)/4 and (5+6+7+8)/4, the later of the estimates.
    record = recorded([1, 2, 3, 4, 5, 6, 7, 8], window=2, rows=4)
    assert record.cursor.tolist() == [4, 2, 0]
    assert History(record).reward_rate.tolist() == [2.5, 6.5]
    assert History(record).reward_quantiles.tolist() == [[4, -4], [8, -8]]


@given(
    st.lists(st.floats(-1e3, 1e3), max_size=400),
    st.integers(1, 7),
    st.integers(1, 8).map(lambda half: 2 * half),
)
@example([1.0] * 16, 1, 2)  # two rows double at every power of two
@example([1.0] * 15, 1, 2)
@example([], 3, 4)
def test_any_length_is_as_computed_at_once(sequence, window, rows):
    record = recorded(sequence, window, rows)
    history, length = History(record), len(sequence)
    final = windows_at_once(length, window, rows)
    full = length // final
    ends = final * np.arange(1, full + 1)
    assert (history.window, len(history)) == (final, full)
    assert history.steps.tolist() == ends.tolist()
    rates = np.array(sequence[: full * final]).reshape(full, final).mean(axis=1)
    np.testing.assert_allclose(history.reward_rate, rates, rtol=0, atol=1e-9)
    assert history.reward_quantiles.tolist() == [[end, -end] for end in ends]
    assert history.average_reward.tolist() == [0.5] * full
    assert record.cursor[PENDING] == length - full * final
    assert record.pending[0] == pytest.approx(sum(sequence[full * final :]), abs=1e-9)


@given(st.integers(0, 5000), st.integers(1, 50), st.integers(1, 10).map(lambda half: 2 * half))
def test_between_half_and_all_of_the_rows_are_filled(length, window, rows):
    record = recorded(np.ones(length), window, rows)
    assert record.cursor[FILLED] < rows
    if record.cursor[WINDOW] > window:  # it has doubled at least once
        assert record.cursor[FILLED] >= rows // 2
    assert record.cursor[FILLED] * record.cursor[WINDOW] + record.cursor[PENDING] == length


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 5))
def test_stretches_are_as_one(lengths, window):
    sequence = np.random.default_rng(sum(lengths)).normal(size=sum(lengths))
    record = new_record(2, window, 8, new_sketch())
    estimate = reward_estimate(2, 0.0)._replace(offset=np.array([0.5]))
    for piece in np.split(sequence, np.cumsum(lengths)[:-1]):
        note_all(record, piece, estimate)
    for found, expected in zip(arrays_of(record), arrays_of(recorded(sequence, window, 8)), strict=True):
        assert found.tolist() == expected.tolist()


def test_memory_does_not_grow():
    sizes = []
    for length in (10, 1_000, 1_000_000):
        record = recorded(np.zeros(length), rows=ROWS)
        sizes.append(sum(array.nbytes for array in arrays_of(record)))
        assert len(History(record)) < ROWS
    assert len(set(sizes)) == 1


def test_an_agent_records_all_its_rewards():
    # The average over all windows is the average of all rewards: here windows of 512 after 400,000 steps, and
    # red-pill's rewards under a fixed policy average −0.6 with an sd of 0.4 over √400,000.
    agent = perstep.TDLearning("perstep/RedPillBluePill-v0", [1, 1], rule="d2", num_quantiles=5, preset="paper").learn(
        400_000
    )
    history = agent.history
    assert history.window == windows_at_once(400_000, 1, ROWS) == 512
    assert len(history) == 400_000 // 512
    assert history.steps[-1] == 512 * (400_000 // 512)
    assert history.reward_rate.mean() == pytest.approx(-0.6, abs=5 * 0.4 / np.sqrt(400_000))
    assert history.reward_quantiles.shape == (len(history), 5)
    assert history.average_reward == pytest.approx(history.reward_quantiles.mean(axis=1), abs=1e-12)


@pytest.mark.parametrize("rows", [4, 64])
def test_returns_of_episodes(rows):
    # Episodes of 3 steps with returns 10, 20, 30, …: windows of 2 have the end of one, none, one, … or, merged, their mean.
    record = new_record(1, 2, rows)
    for step in range(1, 13):
        if step % 3 == 0:
            note_end(record, 10.0 * (step // 3))
        note(D2, record, 1.0, reward_estimate(1, 0.0))
    history = History(record)
    if rows == 64:
        assert history.episodes.tolist() == [0, 1, 1, 0, 1, 1]
        np.testing.assert_array_equal(history.episode_return, [np.nan, 10, 20, np.nan, 30, 40])
    else:  # windows of 4: steps 1-4, 5-8, 9-12
        assert history.episodes.tolist() == [1, 1, 2]
        assert history.episode_return.tolist() == [10, 20, 35]


def test_an_agent_records_its_episodes(tmp_path):
    def agent():
        return perstep.ActorCritic("CartPole-v1", rule="d2", tiles=4, tilings=4, low=(-5,) * 4, high=(5,) * 4)

    whole = agent().learn(3000)
    assert whole.history.episodes.sum() > 30
    # CartPole pays 1 a step, so the returns of the episodes are their lengths
    steps = float((whole.history.episodes * np.nan_to_num(whole.history.episode_return)).sum())
    assert 2500 < steps <= 3000
    agent().learn(1234).save(tmp_path / "half.safetensors")
    half = perstep.load(tmp_path / "half.safetensors").learn(3000 - 1234)
    np.testing.assert_array_equal(whole.history.episode_return, half.history.episode_return)


def test_frame_has_a_row_a_window():
    frame = History(recorded([1, 2, 3, 4, 5, 6, 7], window=2, rows=4)).frame()
    assert frame.columns == [
        "step",
        "reward_rate",
        "average_reward",
        "theta_1",
        "theta_2",
        "episodes",
        "episode_return",
    ]
    assert frame.dtypes == [polars.Int64, *[polars.Float64] * 4, polars.Int64, polars.Float64]
    assert frame.row(1)[:-1] == (4, 3.5, 0.5, 4.0, -4.0, 0)
    assert frame.height == 3


def test_empty_history():
    history = History(new_record(3))
    assert len(history) == 0
    assert (history.steps.size, history.reward_rate.size) == (0, 0)
    assert history.reward_quantiles.shape == (0, 3)
    frame = history.frame()
    assert (frame.height, frame.columns[-1]) == (0, "episode_return")


def test_what_is_read_is_a_copy():
    record = recorded([1, 2, 3])
    History(record).reward_rate[:] = 99
    History(record).reward_quantiles[:] = 99
    assert History(record).reward_rate.tolist() == [1, 2, 3]
    assert History(record).reward_quantiles[:, 0].tolist() == [1, 2, 3]


def test_history_says_what_it_is():
    assert repr(History(recorded(range(7), window=2, rows=4))) == "History(3 windows of 2 steps)"


def test_the_average_counts_the_offset():
    record = new_record(4, 1, 4)
    estimate = reward_estimate(4, 2.0)
    estimate.offset[0] = 0.25
    note(D2, record, 1.0, estimate)
    assert History(record).average_reward.tolist() == [2.25]


@pytest.mark.parametrize("optimum", [float("nan"), float("inf"), "0.4"])
def test_a_regret_is_beside_a_finite_number(optimum):
    with pytest.raises(ValueError, match="optimum must be a finite number"):
        perstep.QLearning("perstep/RedPillBluePill-v0", rule="d2").learn(10).history.regret(optimum)


def test_the_regret_of_a_life_is_what_it_lost():
    history = perstep.QLearning("perstep/RedPillBluePill-v0", rule="d2").learn(1_000).history
    assert history.regret(-0.6) == pytest.approx(1_000 * (-0.6 - history.lifetime_reward))


def test_the_life_in_a_figure():
    history = perstep.QLearning("perstep/RedPillBluePill-v0", rule="d2").learn(1_000).history
    assert history.total_reward == pytest.approx(1_000 * history.lifetime_reward)
    (axes,) = history.plot().axes
    assert axes.get_title() == ""
    assert (
        axes.get_title(loc="left")
        == f"earned {history.total_reward:,.6g} in 1,000 steps, regret {history.regret():,.6g}"
    )
