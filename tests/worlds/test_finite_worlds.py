"""The worlds: their dynamics as documented, their registration, and their life as Gymnasium environments."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import perstep.worlds
from perstep.mdp.env import FiniteMDPEnv
from perstep.mdp.mdp import FiniteMDP
from perstep.worlds.loops import two_loop
from perstep.worlds.random_mdps import garnet
from perstep.worlds.redpill import red_pill_blue_pill
from perstep.worlds.servers import access_control

FINITE = ["perstep/RedPillBluePill-v0", "perstep/TwoLoop-v0", "perstep/AccessControl-v0"]

# --------------------------------------------------------------------------------------------------------- dynamics


def test_red_pill_follows_the_pill_and_pays_for_the_world_left() -> None:
    mdp = red_pill_blue_pill()
    assert np.array_equal(mdp.transitions, [np.eye(2), np.eye(2)])
    assert mdp.expected_rewards == pytest.approx(np.array([[-0.7, -0.7], [-0.6, -0.6]]), abs=1e-6)
    assert mdp.initial.tolist() == [0.5, 0.5]
    assert mdp.outcomes.cap == 0.0


def test_two_loop_walk() -> None:
    mdp = two_loop()
    for action, expected in ((0, [0, 1, 2, 3, 4, 0]), (1, [0, 5, 6, 7, 8, 0])):
        walk = [0]
        for _ in range(5):
            walk.append(int(mdp.transitions[walk[-1], action].argmax()))
        assert walk == expected
    assert mdp.expected_rewards.sum() == 1.0 + 2.0 + 2.0  # 8 → 0 pays with either action
    assert mdp.initial[0] == 1.0


def test_access_control_by_hand() -> None:
    # One server, one priority worth 5, freeing with ½. State = free servers.
    free_first = access_control("free-first", num_servers=1, free_probability=0.5, rewards=[5.0])
    # Busy and accepted: free with ½, then served at once and busy again; else turned away and busy.
    assert free_first.transitions[0, 1].tolist() == [1.0, 0.0]
    assert free_first.expected_rewards[0].tolist() == [0.0, 2.5]
    assert free_first.transitions[1, 1].tolist() == [1.0, 0.0]
    accept_first = access_control("accept-first", num_servers=1, free_probability=0.5, rewards=[5.0])
    # Busy: accepting is rejecting. Free and accepted: served, and the server may be free again at once.
    assert accept_first.expected_rewards.tolist() == [[0.0, 0.0], [0.0, 5.0]]
    assert accept_first.transitions[0, 1].tolist() == [0.5, 0.5]
    assert accept_first.transitions[1, 1].tolist() == [0.5, 0.5]


def test_access_control_states() -> None:
    mdp = access_control()
    assert (mdp.num_states, mdp.num_actions) == (44, 2)
    assert mdp.initial.tolist() == [0.0] * 40 + [0.25] * 4  # all free, any priority
    # With 3 of 10 free and priority 2 (worth 4): state 3 · 4 + 2. Accepting pays 4 for sure, rejecting nothing.
    assert mdp.expected_rewards[3 * 4 + 2].tolist() == pytest.approx([0.0, 4.0])
    stay_busy = 0.94**7  # no server becomes free: one fewer is free after serving
    assert mdp.transitions[3 * 4 + 2, 1, 2 * 4 : 3 * 4] == pytest.approx(np.full(4, stay_busy / 4))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("branching", [1, 3])
def test_garnet_communicates(seed: int, branching: int) -> None:
    mdp = garnet(15, 2, branching, seed)
    reach = mdp.transitions.max(axis=1) > 0.0
    for _ in range(4):
        reach = reach | (reach.astype(int) @ reach.astype(int) > 0)
    assert reach.all()
    assert ((mdp.transitions > 0.0).sum(axis=2) == branching).all()
    same = garnet(15, 2, branching, seed)
    assert np.array_equal(same.transitions, mdp.transitions)
    assert not np.array_equal(garnet(15, 2, branching, seed + 100).transitions, mdp.transitions)


def test_garnet_with_normal_rewards() -> None:
    noisy, plain = garnet(10, 2, 3, 0, reward_sd=0.5), garnet(10, 2, 3, 0)
    assert np.array_equal(noisy.expected_rewards, plain.expected_rewards)
    assert set(noisy.outcomes.sd.ravel()) == {0.5}


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: access_control("whenever"), 'order must be "free-first" or "accept-first", got \'whenever\''),  # type: ignore[arg-type]
        (lambda: access_control(num_servers=0), "at least one server and one priority, got 0 servers"),
        (lambda: access_control(rewards=[]), "and 0 rewards"),
        (lambda: access_control(free_probability=0.0), "above 0 and at most 1.*got 0.0"),
        (
            lambda: garnet(3, 2, 4, 0),
            "branching from 1 to num_states; got num_states=3, num_actions=2, branching=4",
        ),
        (lambda: FiniteMDPEnv(two_loop(), render_mode="human"), "render_mode must be \"ansi\" .* got 'human'"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_gets_a_sentence(attempt: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        attempt()


# -------------------------------------------------------------------------------------------------------- Gymnasium


def made(name: str, **settings: Any) -> FiniteMDPEnv:
    env = gymnasium.make(name, **settings).unwrapped
    assert isinstance(env, FiniteMDPEnv)
    return env


@pytest.mark.parametrize("name", FINITE)
def test_gymnasium_approves(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what check_env only warns about is an error here
        check_env(gymnasium.make(name, disable_env_checker=True).unwrapped)


def test_any_finite_mdp_can_be_lived_in() -> None:
    # An environment that was not made by name has no spec, and check_env warns that it then cannot try render modes.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*spec.*")
        check_env(FiniteMDPEnv(garnet(5, 3, 2, 0, reward_sd=1.0)))


@pytest.mark.parametrize("name", FINITE)
def test_it_never_ends(name: str) -> None:
    env = gymnasium.make(name)
    assert env.spec is not None
    assert env.spec.max_episode_steps is None
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(2000):
        state, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(state)
        assert isinstance(reward, float)
        assert (terminated, truncated, info) == (False, False, {})


@pytest.mark.parametrize("name", FINITE)
def test_same_seed_same_life(name: str) -> None:
    def life(seed: int) -> list[Any]:
        env = made(name)
        steps: list[Any] = [env.reset(seed=seed)[0]]
        steps.extend(env.step(t % 2)[:2] for t in range(200))
        return steps

    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    assert life(3) == life(3)
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002
    if name != "perstep/TwoLoop-v0":  # nothing is random there
        assert life(3) != life(4)


def test_the_environment_follows_its_mdp() -> None:
    env = made("perstep/AccessControl-v0", order="accept-first")
    expected = access_control("accept-first")
    assert np.array_equal(env.mdp.transitions, expected.transitions)
    env.reset(seed=1)
    counts, rewards, state = np.zeros(44), [], 3 * 4 + 2
    for _ in range(20_000):
        env.state = state
        next_state, reward, *_ = env.step(1)
        counts[next_state] += 1
        rewards.append(reward)
    probability = expected.transitions[state, 1]
    sd = np.sqrt(np.maximum(20_000 * probability * (1 - probability), 1e-9))
    assert np.abs((counts - 20_000 * probability) / sd).max() < 4.5
    assert set(rewards) == {4.0}


def test_red_pill_environment_draws_its_normals() -> None:
    env = made("perstep/RedPillBluePill-v0")
    env.reset(seed=0)
    env.state = 1
    rewards = np.array([env.step(1)[1] for _ in range(20_000)])
    exact = red_pill_blue_pill().evaluate([1, 1]).reward_distribution
    for x in (-1.05, -1.0, -0.6, -0.2, -0.15):
        assert (rewards <= x).mean() == pytest.approx(exact.cdf(x), abs=4.5 * 0.5 / np.sqrt(20_000))


def test_settings_by_name() -> None:
    env = made("perstep/AccessControl-v0", num_servers=3, free_probability=0.2)
    assert env.mdp.num_states == 16


def test_render_is_text() -> None:
    env = made("perstep/TwoLoop-v0", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "TwoLoop: starts in state 0\n"
    env.step(1)
    assert env.render() == "TwoLoop: state 0, action 1 → reward 0, state 5\n"
    assert made("perstep/TwoLoop-v0").render() is None


def test_impossible_action_is_refused() -> None:
    env = FiniteMDPEnv(two_loop())
    env.reset(seed=0)
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        env.step(2)


def test_registration_happens_once_and_on_import() -> None:
    before = {name: gymnasium.registry[name] for name in FINITE}
    perstep.worlds.register()
    assert all(gymnasium.registry[name] is spec for name, spec in before.items())
    program = "import gymnasium, perstep; print([n for n in gymnasium.registry if n.startswith('perstep/')])"
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert all(name in listed for name in FINITE)


def test_finite_mdp_of_a_made_environment() -> None:
    assert isinstance(FiniteMDP.from_gymnasium("perstep/AccessControl-v0"), FiniteMDP)
