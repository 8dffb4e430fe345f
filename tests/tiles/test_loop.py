"""Agents on tiles in the compiled CartPole, MountainCar and Acrobot: whole loops in compiled code, with the verbs of all agents."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward

import perstep
from perstep.files.storage import read
from perstep.gym.motion import compiled_world
from perstep.numerics.scale import return_unit
from perstep.tiles.tile_agent import say_compiled
from perstep.worlds import motion

WORLDS = {"CartPole-v1": 500, "MountainCar-v0": 200, "Acrobot-v1": 500}  # and the steps until an episode is cut off
SMALL = {"preset": "paper", "tilings": 4, "tiles": 3, "num_quantiles": 4, "seed": 3}
AGENTS = {
    "actor-critic": (perstep.ActorCritic, {"rule": "d2"}),
    "d3 actor-critic": (perstep.ActorCritic, {"rule": "d3", "termination": "mask", "reset_cost": 0.5}),
    "q": (perstep.TileQ, {"rule": "d2", "epsilon": 0.3}),
    "d3 q": (perstep.TileQ, {"rule": "d3", "epsilon": 0.3, "reset_cost": "auto"}),
    "sarsa": (perstep.TileQ, {"rule": "d3", "bootstrap": "sampled", "reset_cost": 2.0}),
    "expected sarsa": (perstep.TileQ, {"rule": "d2", "bootstrap": "expected", "termination": "mask"}),
    "rvi": (perstep.TileQ, {"rule": "rvi"}),
}
BOTH = ["actor-critic", "q"]
each_world = pytest.mark.parametrize("world", WORLDS)
each_agent = pytest.mark.parametrize("name", AGENTS)


WIDE = {
    "low": (-2.4, -9.0, -0.21, -9.0),
    "high": (2.4, 9.0, 0.21, 9.0),
}  # no agent is warned that CartPole left the bounds


def new_agent(name, world, **changes):
    kind, settings = AGENTS[name]
    bounds = WIDE if "CartPole" in str(world) else {}
    return kind(world, **{**SMALL, **bounds, **settings, **changes})


def unchanged(env):
    """The same world behind a wrapper that compiled code does not know."""
    return TransformReward(env, lambda reward: reward)


def content(agent, path):
    """All that a saved agent consists of."""
    agent.save(path)
    arrays, metadata = read(path)
    return {key: (array.dtype.str, array.shape, array.tobytes()) for key, array in arrays.items()}, metadata


@pytest.fixture
def bits(tmp_path):
    return lambda agent: content(agent, tmp_path / "bits.safetensors")


# --- Which worlds are compiled


@each_world
@pytest.mark.parametrize("name", BOTH)
def test_the_agent_says_that_its_world_is_compiled(name, world):
    for env in (world, gymnasium.make(world), gymnasium.make(world).unwrapped):
        agent = new_agent(name, env)
        assert agent.compiled_world == world.split("-")[0]
        assert f"0 steps, in compiled {agent.compiled_world})" in repr(agent)
        assert f"40 steps, in compiled {agent.compiled_world})" in repr(agent.learn(40))


@each_world
@pytest.mark.parametrize("name", BOTH)
def test_a_wrapped_world_is_learnt_in_a_plain_loop(name, world):
    agent = new_agent(name, unchanged(gymnasium.make(world)))
    assert agent.compiled_world is None
    assert "compiled" not in repr(agent)
    values = agent.learn(0, snapshot_at=[0]).snapshots[0].values
    assert agent.learn(150).steps == 150
    assert (agent.learn(0, snapshot_at=[150]).snapshots[-1].values != values).any()
    assert agent.evaluate(60).num_steps == 60


def test_a_wrapper_of_rewards_is_not_bypassed():
    env = TransformReward(gymnasium.make("MountainCar-v0"), lambda reward: reward + 100.0)
    for name in BOTH:
        agent = new_agent(name, env)
        assert agent.compiled_world is None
        assert set(agent.learn(100).history.reward_rate) == {99.0}


def test_an_agent_with_a_network_runs_in_plain_loops():
    pytest.importorskip("torch")
    for world in ("CartPole-v1", "perstep/TwoLoop-v0"):
        assert perstep.DeepQ(world, replay_capacity=100).compiled_world is None
    assert perstep.QLearning("perstep/TwoLoop-v0").compiled_world == "TwoLoop"
    assert perstep.QLearning("FrozenLake-v1").compiled_world is None


def test_it_is_said_once_per_world_that_the_loop_is_compiled(capsys):
    say_compiled.cache_clear()
    for world in ("CartPole-v1", "CartPole-v1", "Acrobot-v1", "CartPole-v1", "perstep/InvertedPendulum-v0"):
        new_agent("q", world).learn(5)
    said = [line for line in capsys.readouterr().err.splitlines() if "same steps" in line]
    assert said == [
        f"perstep: {world} runs as compiled code with the same steps as Gymnasium's"
        for world in ("CartPole", "Acrobot")
    ]


# --- The compiled loop against the plain one


class SameStarts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's own steps, from first states that come from the agent's generator as in the compiled loop."""

    agent: Any = None

    def reset(self, *, seed=None, options=None):
        self.env.reset(seed=seed)
        world = compiled_world(self.env)
        state, observation = np.zeros(world.state_size), np.zeros(world.observation_size)
        motion.start(world.number, world.parameters, state, self.agent._generator)
        motion.observe(world.number, state, observation)
        self.unwrapped.state = state
        return observation.astype(np.float32), {}


@each_world
@each_agent
def test_the_compiled_and_the_plain_loop_learn_alike(name, world):
    # At a cut the plain loop draws the next start before Sarsa's A′ at the last state, which is then not taken, and the
    # compiled one after it. So Sarsa is compared where nothing is cut. Rounding errors of Acrobot grow: 450 steps are few.
    limit = -1 if AGENTS[name][1].get("bootstrap") == "sampled" else 150
    made = [gymnasium.make(world, max_episode_steps=limit) for _ in range(2)]
    fast, env = new_agent(name, made[0]), SameStarts(made[1])
    plain = new_agent(name, env, low=fast.tiles.low, high=fast.tiles.high)
    env.agent = plain
    for agent in (fast, plain):
        agent.learn(450)
    assert (fast.compiled_world, plain.compiled_world) == (world.split("-")[0], None)
    # Compiled sin and cos may differ from NumPy's in the last bit, which observations of 32 bits hardly ever show.
    np.testing.assert_allclose(fast._run.weights.critic, plain._run.weights.critic, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fast._run.weights.actor, plain._run.weights.actor, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fast.reward_quantiles, plain.reward_quantiles, rtol=0, atol=1e-9)
    assert fast._ends.known.tolist() == pytest.approx(plain._ends.known.tolist(), rel=0, abs=0, nan_ok=True)
    assert fast.history.reward_rate.tolist() == plain.history.reward_rate.tolist()
    assert fast.history.episodes.tolist() == plain.history.episodes.tolist()
    np.testing.assert_array_equal(fast.history.episode_return, plain.history.episode_return)
    assert fast.history.episodes.sum() >= (3 if limit > 0 else 0)


# --- Episodes


@pytest.mark.parametrize("name", BOTH)
def test_episodes_and_their_returns_are_in_the_history(name):
    # Every step of CartPole pays 1, so the returns sum to the steps of the episodes that have ended.
    agent = new_agent(name, "CartPole-v1", reset_cost=5.0).record_every(1, rows=2000).learn(1500)
    history = agent.history
    ends = np.flatnonzero(history.episodes)
    assert len(ends) > 20
    assert history.episode_return[ends].tolist() == np.diff(ends, prepend=-1).tolist()  # without the cost of resets
    assert np.isnan(history.episode_return[history.episodes == 0]).all()
    assert set(history.reward_rate[ends]) == {-4.0}
    assert set(history.reward_rate[history.episodes == 0]) == {1.0}


@pytest.mark.parametrize("name", BOTH)
def test_the_car_is_cut_off_after_200_steps(name):
    # Nobody reaches the top within three episodes: at steps 200, 400, … the episode is cut off, at no cost.
    agent = new_agent(name, "MountainCar-v0", reset_cost=5.0).record_every(1, rows=2000).learn(650)
    assert (np.flatnonzero(agent.history.episodes) + 1).tolist() == [200, 400, 600]
    assert agent.history.episode_return[agent.history.episodes > 0].tolist() == [-200.0] * 3
    assert set(agent.history.reward_rate) == {-1.0}


@pytest.mark.parametrize("name", BOTH)
def test_where_all_rewards_are_equal_the_first_episode_says_what_an_end_costs(name, tmp_path):
    """Also in a file: the cost is that of the first episode, though others have ended since."""
    agent = new_agent(name, "CartPole-v1", reset_cost="auto")
    assert agent.reset_cost == 0.0
    agent.record_every(1, rows=2000).learn(300)
    history = agent.history
    first = history.episode_return[history.episodes > 0][0]
    assert agent.reset_cost == first > 0.0
    assert set(history.reward_rate[history.episodes > 0]) == {1.0 - first}  # the first end costs it already
    agent.save(tmp_path / "a.safetensors")
    again = perstep.load(tmp_path / "a.safetensors")
    assert again.reset_cost == first
    assert again.evaluate(500).average_reward == agent.evaluate(500).average_reward < 1.0
    masked = new_agent(name, "CartPole-v1", reset_cost="auto", termination="mask").learn(300)
    assert masked.history.episodes.sum() > 3
    assert masked.reset_cost == 0.0  # the mask says what an end is worth


def test_other_limits_and_none():
    for limit in (7, 50):
        made = gymnasium.make("MountainCar-v0", max_episode_steps=limit)
        for env in (made, TimeLimit(gymnasium.make("MountainCar-v0"), limit)):
            agent = new_agent("q", env).record_every(1, rows=2000).learn(120)
            assert agent.compiled_world == "MountainCar"
            assert (np.flatnonzero(agent.history.episodes) + 1).tolist() == list(range(limit, 121, limit))
    bare = new_agent("q", gymnasium.make("MountainCar-v0").unwrapped, epsilon=1.0).learn(900)
    assert bare.history.episodes.sum() == 0


def test_the_pole_is_cut_off_after_500_steps_and_learnt():
    settings = {"reset_cost": 10.0, "tilings": 8, "tiles": 6, "step_size": 0.01, "policy_ratio": 1.0}
    agent = (
        perstep.ActorCritic("CartPole-v1", **settings, **WIDE, preset="paper")
        .record_every(1, rows=100_000)
        .learn(60_000)
    )
    returns = agent.history.episode_return[agent.history.episodes > 0]
    assert returns.max() == 500.0
    assert returns[:10].mean() < 100
    cut = np.flatnonzero((agent.history.episodes > 0) & (agent.history.episode_return == 500.0))
    assert 1.0 in agent.history.reward_rate[cut]  # a cut costs nothing


def test_the_car_and_the_acrobot_are_learnt():
    # Nobody gets there by chance: the best return would be −200 and nearly always −500. Sutton & Barto, 10.1: without
    # exploration, since values of 0 are hopes; an end is masked.
    settings = {"rule": "differential", "centered": False, "termination": "mask", "epsilon": 0.0, "step_size": 0.5}
    for world, tiles, least in (("MountainCar-v0", 8, -160.0), ("Acrobot-v1", 4, -250.0)):
        agent = perstep.TileQ(world, tilings=8, tiles=tiles, **settings, preset="paper").learn(60_000)
        evaluation = agent.evaluate(5000, deterministic=True)
        assert evaluation.episode_returns.min() >= -WORLDS[world]
        assert evaluation.episode_returns.mean() > least


def test_the_return_per_episode_is_learnt_where_all_rewards_are_equal():
    """All returns around the mean are 0 there, unless the unit sees what a masked end takes."""
    for world, least in (("CartPole-v1", 450.0), ("MountainCar-v0", -110.0)):
        agent = perstep.ActorCritic(world, rule="d2", objective="return per episode", seed=1).learn(60_000)
        assert return_unit(agent._rewards.units) > 0.0
        assert agent.evaluate(5_000, deterministic=True).episode_returns.mean() > least


@each_world
@pytest.mark.parametrize("name", BOTH)
def test_evaluation_gives_the_returns_of_episodes(name, world):
    agent, twin = new_agent(name, world).learn(300), new_agent(name, world).learn(300)
    first, again, other = (agent.evaluate(1700, seed=seed) for seed in (5, 5, 6))
    assert len(first.episode_returns) >= 1700 // WORLDS[world]
    assert np.abs(first.episode_returns).max() <= WORLDS[world]
    assert np.abs(first.episode_returns).sum() <= 1700
    assert first.episode_returns.tolist() == again.episode_returns.tolist()
    assert first.reward_distribution.mean == pytest.approx(first.average_reward, abs=1e-9)
    if world == "CartPole-v1":
        assert first.average_reward == 1.0
        assert first.episode_returns.tolist() != other.episode_returns.tolist()
        costly = new_agent(name, world, reset_cost=1.0).evaluate(1700)
        assert costly.average_reward == pytest.approx(1.0 - len(costly.episode_returns) / 1700)
    before = agent.clipped
    agent.evaluate(100, deterministic=True)
    assert agent.clipped == before
    values = [a.learn(200, snapshot_at=[500]).snapshots[-1].values for a in (agent, twin)]
    np.testing.assert_array_equal(*values)  # learning was left alone


# --- Files and seeds


@each_world
@each_agent
@pytest.mark.parametrize("steps", [0, 1, 199, 200, 431])
def test_saved_and_loaded_is_never_stopped(tmp_path, bits, name, world, steps):
    # Before the first step, after it, at a cut of the car and just before, and in the middle of an episode.
    new_agent(name, world).learn(steps).save(tmp_path / "half.safetensors")
    resumed = perstep.load(tmp_path / "half.safetensors")
    assert resumed.compiled_world == world.split("-")[0]
    assert bits(resumed) == bits(new_agent(name, world).learn(steps))
    assert bits(resumed.learn(350)) == bits(new_agent(name, world).learn(steps + 350))


@each_world
@each_agent
def test_pieces_are_the_whole(bits, name, world):
    parts = new_agent(name, world)
    for piece in (1, 0, 198, 1, 1, 60, 239):
        parts.learn(piece)
    assert bits(parts) == bits(new_agent(name, world).learn(500))


@each_world
@each_agent
def test_same_seed_same_run_other_seed_other_run(bits, name, world):
    one, again, other = (bits(new_agent(name, world, seed=seed).learn(300))[0] for seed in (3, 3, 4))
    assert one == again
    for key in ("generator", "place.state", "weights.critic"):
        assert one[key] != other[key], key


def test_the_limits_of_the_world_are_in_the_file(tmp_path, bits):
    for settings in ({"max_episode_steps": 9}, {"max_episode_steps": -1}, {"goal_velocity": 0.01}):

        def agent(settings=settings):
            return new_agent("sarsa", gymnasium.make("MountainCar-v0", **settings))

        agent().learn(50).save(tmp_path / "half.safetensors")
        assert bits(perstep.load(tmp_path / "half.safetensors").learn(300)) == bits(agent().learn(350))


@pytest.mark.parametrize("name", ["actor-critic", "q", "sarsa"])
def test_from_the_compiled_loop_to_the_plain_one_and_back(tmp_path, name):
    # What is learnt stays; the world, which is another one, starts anew, and the agent with it.
    path = tmp_path / "a.safetensors"
    agent = new_agent(name, "MountainCar-v0").learn(130)
    agent.save(path)
    plain = perstep.load(path, env=unchanged(gymnasium.make("MountainCar-v0")))
    assert plain.compiled_world is None
    np.testing.assert_array_equal(plain._run.weights.critic, agent._run.weights.critic)
    plain.learn(70).save(path)
    with pytest.warns(UserWarning, match="continues from a fresh reset of the world") as told:
        back = perstep.load(path, env="MountainCar-v0")
    assert told[0].filename == __file__
    assert (back.compiled_world, back.steps) == ("MountainCar", 200)
    np.testing.assert_array_equal(back._run.weights.critic, plain._run.weights.critic)
    place = back._motion[1]
    assert -0.6 <= place.observation[0] <= -0.4
    assert place.counters.tolist() == [0, -1]
    assert back._run.weights.active.tolist() == back.tiles.active(place.observation).tolist()
    assert back.learn(50).steps == 250


def test_agents_learn_together_as_alone(bits):
    def crowd():
        return [new_agent(name, world) for name in AGENTS for world in WORLDS]

    together, alone = perstep.learn_together(crowd(), 400, threads=2), [agent.learn(400) for agent in crowd()]
    assert [bits(agent) for agent in together] == [bits(agent) for agent in alone]


def test_a_table_that_is_too_large_is_hashed():
    # 32 tilings of 9⁶ tiles are 17 million features; 2²⁰ are kept unless another size is asked for.
    agent = perstep.TileQ("Acrobot-v1", preset="paper")
    assert agent.tiles.hashed
    assert agent.tiles.num_features == 2**20
    assert perstep.TileQ("Acrobot-v1", table_size=3200, preset="paper").tiles.num_features == 3200
    assert not perstep.TileQ("CartPole-v1", preset="paper").tiles.hashed


def test_a_place_is_not_taken_over_into_another_world(tmp_path):
    perstep.ActorCritic("perstep/InvertedPendulum-v0", seed=1).learn(100).save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors", env="MountainCar-v0")  # also two numbers
    position, velocity = again._motion[1].state
    assert -0.6 <= position <= -0.4  # where its episodes start
    assert velocity == 0.0


def test_changed_physics_and_bounds_are_saved(tmp_path):
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.gravity, env.unwrapped.force_mag = 30.0, 3.0
    agent = perstep.ActorCritic(env, seed=1, low=(-2.4, -9.0, -0.3, -9.0), high=(2.4, 9.0, 0.3, 9.0)).learn(300)
    agent.save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors")
    np.testing.assert_array_equal(again._motion[0].parameters, agent._motion[0].parameters)
    assert again.tiles == agent.tiles
    np.testing.assert_array_equal(again.learn(300)._run.weights.critic, agent.learn(300)._run.weights.critic)


def test_a_saved_agent_goes_on_in_a_wrapped_world(tmp_path):
    """The bounds of its tiles are those of the file: CartPole itself has none, and the wrapper hides the compiled ones."""
    perstep.ActorCritic("CartPole-v1", seed=1).learn(300).save(tmp_path / "agent.safetensors")
    wrapped = TransformReward(gymnasium.make("CartPole-v1"), lambda reward: 2 * reward)
    again = perstep.load(tmp_path / "agent.safetensors", env=wrapped)
    assert again.compiled_world is None
    assert again.learn(100).steps == 400


@pytest.mark.parametrize(("kind", "world"), [("QLearning", "perstep/AccessControl-v0"), ("ActorCritic", "CartPole-v1")])
def test_an_evaluation_in_stretches_is_the_same_and_can_be_interrupted(kind, world, monkeypatch):
    agent = getattr(perstep, kind)(world, seed=1).learn(1000)
    whole = agent.evaluate(5000, seed=2)
    monkeypatch.setattr("perstep.distributions.sampling.STRETCH", 700)
    parts = agent.evaluate(5000, seed=2)
    assert parts.average_reward == whole.average_reward
    np.testing.assert_array_equal(parts.episode_returns, whole.episode_returns)
    np.testing.assert_array_equal(parts.reward_distribution.means, whole.reward_distribution.means)

    def interrupt(bar, done):
        raise KeyboardInterrupt

    monkeypatch.setattr("perstep.display.progress.Bar.update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        agent.evaluate(10**10)
