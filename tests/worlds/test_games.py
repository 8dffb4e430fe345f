"""MinAtar and the Arcade Learning Environment: seeds, states, and each choice between the console and the agent."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import perstep  # noqa: F401  registers the worlds
from perstep.gym.opening import make
from perstep.gym.world_state import restore, snapshot
from perstep.worlds.atari import area_weights, average_down, game_of, shrinking

pytest.importorskip("minatar")
pytest.importorskip("ale_py")

GAMES = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]


def play(env, steps, seed=0):
    """Rewards and a digest of what is seen, by actions that are always the same."""
    actions = np.random.default_rng(seed).integers(env.action_space.n, size=steps)
    told = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(int(action))
        told.append((hash(observation.tobytes()), reward, terminated, truncated))
        if terminated or truncated:
            told.append(hash(env.reset()[0].tobytes()))
    return told


@pytest.mark.parametrize("game", GAMES)
def test_minatar_is_a_world_of_gymnasium(game):
    env = gymnasium.make(f"perstep/MinAtar-{game}-v0", render_mode="rgb_array")
    check_env(env.unwrapped)
    assert env.spec.max_episode_steps is None
    assert env.observation_space.shape[1:] == (10, 10)


@pytest.mark.parametrize("world", [f"perstep/MinAtar-{game}-v0" for game in GAMES] + ["ALE/Breakout-v5"])
def test_a_seed_is_a_run_and_a_state_goes_on(world):
    env, other = make(world), make(world)
    steps = 100 if world.startswith("ALE") else 400
    env.reset(seed=1)
    first = play(env, steps)
    env.reset(seed=1)
    assert play(env, steps) == first
    env.reset(seed=2)
    assert play(env, steps) != first
    taken = snapshot(env)
    expected = play(env, steps, seed=3)
    other.reset(seed=9)
    play(other, 30, seed=4)
    assert restore(other, taken)
    assert play(other, steps, seed=3) == expected


def test_scores_of_finished_games_are_kept_whatever_the_clipping():
    env, other = make("ALE/Breakout-v5"), make("ALE/Breakout-v5")
    env.reset(seed=1)
    env.action_space.seed(1)
    over, returned = False, 0.0
    while not over:
        _, reward, over, _, info = env.step(env.action_space.sample())
        returned += reward
    env.reset()
    assert env.unwrapped.final_scores == [info["score"]]
    assert info["score"] >= returned  # a brick is worth 1, 4 or 7 points, and 1 when clipped
    other.reset(seed=2)
    assert restore(other, snapshot(env))
    assert other.unwrapped.final_scores == [info["score"]]


def test_a_state_goes_on_however_sticky():
    """The last action belongs to the state: here it is nearly always repeated."""
    env, other = (make("ALE/Breakout-v5", sticky_actions=0.9) for _ in range(2))
    env.reset(seed=1)
    other.reset(seed=9)
    for seed in range(20):
        play(env, 5, seed=seed)
        taken = snapshot(env)
        expected = play(env, 5, seed=seed + 100)
        assert restore(other, taken)
        assert play(other, 5, seed=seed + 100) == expected


def test_a_damaged_state_of_the_console_is_refused():
    env = make("ALE/Breakout-v5").unwrapped
    env.reset(seed=1)
    state = json.loads(env.state)
    with pytest.raises(ValueError, match="state of the emulator is damaged"):
        env.state = json.dumps(state | {"console": "AAAA"})
    with pytest.raises(ValueError, match="must be from 0 to 3, got 9"):
        env.state = json.dumps(state | {"last": 9})


@pytest.mark.parametrize("world", ["ALE/Breakout-v5", "perstep/MinAtar-Breakout-v0"])
@pytest.mark.parametrize("chance", [-0.1, 1.0, 2, "often"])
def test_impossible_chances_are_refused(world, chance):
    with pytest.raises(ValueError, match="sticky_actions must be a probability, at least 0 and below 1"):
        make(world, sticky_actions=chance)


def test_a_state_of_another_game_is_refused():
    breakout, freeway = (make(f"perstep/MinAtar-{game}-v0").unwrapped for game in ("Breakout", "Freeway"))
    breakout.reset(seed=0)
    freeway.reset(seed=0)
    with pytest.raises(ValueError, match="a state of the game freeway, got a state of breakout"):
        freeway.state = breakout.state
    with pytest.raises(ValueError, match="has no attribute 'random'"):
        breakout.state = breakout.state.replace('"pos"', '"random"')


def test_minimal_actions_and_all_actions():
    assert make("perstep/MinAtar-Breakout-v0").action_space.n == 3
    assert make("perstep/MinAtar-Breakout-v0", minimal_actions=False).action_space.n == 6


def test_unknown_games():
    with pytest.raises(ValueError, match=r"There is no game of MinAtar 'pong'"):
        make("perstep/MinAtar-Breakout-v0", game="pong")
    with pytest.raises(
        ValueError, match=r"There is no game of the Arcade Learning Environment 'brekout'\. Did you mean 'breakout'"
    ):
        make("ALE/Brekout-v5")


def test_names_of_games():
    assert game_of("ALE/SpaceInvaders-v5") == "space_invaders"
    assert game_of("ALE/UpNDown-v5") == "up_n_down"
    assert game_of("CartPole-v1") is None


# ------------------------------------------------------------------------------------------------------------------ Atari


def test_atari_is_a_world_of_gymnasium():
    env = make("ALE/Breakout-v5", render_mode="rgb_array")
    check_env(env.unwrapped)
    assert env.observation_space.shape == (4, 84, 84)
    assert env.unwrapped.render().shape == (210, 160, 3)


def test_observations_are_stacks_that_shift():
    env = make("ALE/Breakout-v5")
    before, _ = env.reset(seed=0)
    assert all(np.array_equal(frame, before[0]) for frame in before)
    for _ in range(10):
        after = env.step(2)[0]
        np.testing.assert_array_equal(after[:-1], before[1:])
        before = after


def test_area_weights_cover_everything_once():
    for length, size in ((210, 84), (160, 84), (84, 84), (100, 7)):
        first, weights = area_weights(length, size)
        share = np.zeros(length)
        for start, row in zip(first, weights, strict=True):
            share[start : start + len(row)] += row
        np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-6)
        np.testing.assert_allclose(share, size / length, atol=1e-6)


def test_averaging_down_by_hand():
    # 4 × 4 pixels to 2 × 2: means of quarters of the brighter of two screens, rounded.
    screens = np.zeros((2, 4, 4), np.uint8)
    screens[0, :2, :2] = [[10, 20], [30, 41]]  # mean 25.25
    screens[1, 2:, 2:] = [[255, 255], [255, 254]]  # mean 254.75
    screens[0, 2:, 2:] = 7
    picture = np.zeros((2, 2), np.uint8)
    average_down(screens, *shrinking(4, 4, 2), picture)
    assert picture.tolist() == [[25, 0], [0, 255]]


def test_averaging_down_is_the_mean_over_the_area():
    rng = np.random.default_rng(0)
    screens, picture = rng.integers(0, 256, (2, 210, 160)).astype(np.uint8), np.zeros((84, 84), np.uint8)
    average_down(screens, *shrinking(210, 160, 84), picture)
    fine = np.repeat(np.repeat(screens.max(0), 2, 0), 21, 1).astype(
        float
    )  # 420 × 3360: whole numbers of pixels an output
    expected = fine.reshape(84, 5, 84, 40).mean((1, 3))
    assert np.abs(picture - expected).max() <= 0.51


def lose_a_life(env, limit=300):
    for _ in range(limit):
        before = env.unwrapped._lives
        _observation, reward, terminated, _truncated, info = env.step(0)
        if info["lives"] < before or terminated:
            return reward, terminated, info
    pytest.fail("no life was lost")


def test_what_a_lost_life_means():
    results = {}
    for meaning in ("nothing", "cost", "end"):
        env = make("ALE/Breakout-v5", life_loss=meaning, sticky_actions=0.0, noop_max=0)
        env.reset(seed=0)
        reward, terminated, info = lose_a_life(env)
        results[meaning] = (reward, terminated, info["lives"])
        if meaning == "end":
            assert env.reset()[1]["lives"] == 4  # the game goes on
    assert results == {"nothing": (0.0, False, 4), "cost": (-1.0, False, 4), "end": (0.0, True, 4)}


def test_fire_is_pressed_or_not():
    """Without it the ball of Breakout never comes: the screen does not change, but for the paddle's."""
    env = make("ALE/Breakout-v5", fire="never", sticky_actions=0.0)
    _first, _ = env.reset(seed=0)
    for _ in range(200):
        _observation, reward, *_ = env.step(0)
        assert reward == 0
    assert env.unwrapped._lives == 5


def test_points_and_rewards():
    raw = make("ALE/BeamRider-v5", reward_clip="none", sticky_actions=0.0)
    sign = make("ALE/BeamRider-v5", reward_clip="sign", sticky_actions=0.0)
    rewards = []
    for env in (raw, sign):
        env.reset(seed=3)
        rewards.append([env.step(1 + step % 4)[1] for step in range(400)])
    assert max(rewards[0]) >= 44
    np.testing.assert_array_equal(np.sign(rewards[0]), rewards[1])


def test_long_games_are_cut_off():
    env = make("ALE/Breakout-v5", max_frames=200, noop_max=0)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(51)]
    assert ends[48] == (False, False)
    assert (False, True) in ends


def test_impossible_settings():
    with pytest.raises(ValueError, match="There is no life_loss 'ignore'"):
        make("ALE/Breakout-v5", life_loss="ignore")
    with pytest.raises(ValueError, match="frame_skip must be a whole number of at least 1"):
        make("ALE/Breakout-v5", frame_skip=0)
