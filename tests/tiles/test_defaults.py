"""The defaults of the agents on tiles: they learn untuned, at any scale of rewards, and their changed steps are what they say."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import oracles
import perstep
import plain_tiles
from perstep.distributions.history import new_record
from perstep.gym.behaviour import Behaviour
from perstep.numerics import policies
from perstep.numerics import scale as units
from perstep.numerics.randomness import make_generator
from perstep.rules import transition as rules
from perstep.tiles import kernel as linear
from plain_tiles import CODER, features

RULES = ("differential", "d2", "d3")
AGENTS = (perstep.ActorCritic, perstep.TileQ)
ACTIONS, GAMMA, ALPHA, BETA, ETA_PI, OPTIMISM, DELAY = 3, 0.9, 0.02, 0.1, 0.7, 0.5, 40.0


COSTS = {"CartPole-v1": 10.0, "MountainCar-v0": -100.0, "Acrobot-v1": 0.0}  # of an end, where all rewards are equal


def game_return(agent, num_steps):
    agent.learn(num_steps, progress=False)
    return agent.evaluate(10_000, deterministic=True).episode_returns.mean()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("world", "num_steps", "least"),
    [("CartPole-v1", 50_000, 400), ("MountainCar-v0", 100_000, -110), ("Acrobot-v1", 100_000, -105)],
)
def test_the_actor_critic_learns_games_untuned(rule, world, num_steps, least):
    """All rewards of CartPole are 1 and those of MountainCar −1: only the ends of games tell good from bad."""
    agent = perstep.ActorCritic(world, rule=rule, reset_cost=COSTS[world], seed=0)
    assert game_return(agent, num_steps) > least


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("world", "num_steps", "least"),
    [("CartPole-v1", 50_000, 300), ("MountainCar-v0", 100_000, -150), ("Acrobot-v1", 100_000, -150)],
)
def test_tile_q_learns_games_untuned(rule, world, num_steps, least):
    agent = perstep.TileQ(world, rule=rule, reset_cost=COSTS[world], seed=0)
    assert game_return(agent, num_steps) > least


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("agent_type", AGENTS)
def test_the_pendulum_is_balanced_untuned(agent_type, rule):
    agent = agent_type("perstep/InvertedPendulum-v0", rule=rule).learn(50_000, progress=False)
    assert agent.history.reward_rate[-agent.history.steps.size // 5 :].mean() > -0.2
    assert agent.average_reward == pytest.approx(agent.history.reward_rate[-50:].mean(), abs=0.1)


def scaled(agent, factor):
    """The agent in the compiled CartPole with other rewards: the last two of its parameters."""
    agent._motion[0].parameters[-2:] *= factor
    return agent


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("agent_type", AGENTS)
def test_rewards_times_a_power_of_two_lead_to_the_same_games_to_the_bit(agent_type, rule, factor):
    agents = [scaled(agent_type("CartPole-v1", rule=rule, seed=3), c) for c in (1.0, factor)]
    for agent in agents:
        agent.learn(20_000, progress=False)
    one, other = agents
    assert (one.history.record.episodes == other.history.record.episodes).all()
    assert (factor * one.reward_quantiles == other.reward_quantiles).all()
    assert (factor * one._run.weights.critic == other._run.weights.critic).all()
    assert (one._run.weights.actor == other._run.weights.actor).all()
    assert (one._run.optimism.unseen == other._run.optimism.unseen).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("agent_type", AGENTS)
def test_where_nothing_ends_rewards_may_also_be_shifted(agent_type, rule):
    def learnt(c, d):
        env = gymnasium.make("perstep/InvertedPendulum-v0")
        world = gymnasium.wrappers.TransformReward(env, lambda reward: c * reward + d)
        return agent_type(world, rule=rule, seed=1).learn(1500, progress=False)

    one, other = learnt(1.0, 0.0), learnt(100.0, 300.0)
    np.testing.assert_allclose(100 * one.reward_quantiles + 300, other.reward_quantiles, rtol=1e-9)
    np.testing.assert_allclose(100 * one._run.weights.critic, other._run.weights.critic, rtol=0, atol=1e-6)
    np.testing.assert_allclose(one._run.weights.actor, other._run.weights.actor, rtol=0, atol=1e-9)


class Load(gymnasium.Env):
    """Servers for a load that comes and goes: a server costs 5 per step, a waiting job 7.5."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(np.zeros(2), np.array([60.0, 10.0]), dtype=np.float64)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.waiting, self.servers = 0.0, 1
        return np.array([self.waiting, self.servers]), {}

    def step(self, action):
        self.servers = int(np.clip(self.servers + action - 1, 1, 10))
        self.waiting = float(np.clip(self.waiting + self.np_random.poisson(4.5) - self.servers, 0, 60))
        return np.array([self.waiting, self.servers]), -5.0 * self.servers - 7.5 * self.waiting, False, False, {}


@pytest.mark.parametrize("agent_type", AGENTS)
def test_what_is_said_is_what_is_earned(agent_type):
    """Rewards from −5 to −500: one server lets the queue fill up, which costs 455 per step."""
    agent = agent_type(Load(), rule="d2").learn(30_000, progress=False)
    earned = agent.history.reward_rate[-agent.history.steps.size // 10 :].mean()
    assert earned > -90
    assert agent.average_reward == pytest.approx(earned, abs=10)
    assert agent.reward_distribution.quantile(0.5) == pytest.approx(earned, abs=25)


@pytest.mark.parametrize("agent_type", AGENTS)
def test_an_agent_from_a_file_goes_on_to_the_bit(tmp_path, agent_type):
    agent = agent_type("MountainCar-v0", rule="d3", seed=2).learn(3000, progress=False)
    agent.save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors")
    agent.learn(3000, progress=False)
    again.learn(3000, progress=False)
    assert (agent._run.weights.critic == again._run.weights.critic).all()
    assert (agent._run.optimism.unseen == again._run.optimism.unseen).all()
    assert agent.policy([-0.5, 0.0]) == pytest.approx(again.policy([-0.5, 0.0]), abs=0)


def test_settings_that_are_named_win_over_the_preset():
    """What the preset says beside them must not contradict them."""
    assert perstep.TileQ("CartPole-v1", rule="rvi").config.discount == 1.0
    assert perstep.ActorCritic("CartPole-v1", discount=0.99, termination="stop").config.termination == "stop"
    assert perstep.ActorCritic("CartPole-v1", offset_ratio=0.1).config.average_step_size is None
    assert perstep.ActorCritic("CartPole-v1", scale_free=False).config.optimism == 0.0
    paper = perstep.ActorCritic("CartPole-v1", preset="paper")
    assert paper.config == perstep.tiles.settings.ActorCriticConfig()
    with pytest.raises(ValueError, match="scale_free=True"):
        perstep.tiles.settings.ActorCriticConfig(optimism=1.0)


@pytest.mark.parametrize(("world", "tiles"), [("MountainCar-v0", 8), ("CartPole-v1", 6), ("Acrobot-v1", 4)])
def test_tiles_are_fewer_where_there_are_more_dimensions(world, tiles):
    assert set(perstep.TileQ(world).tiles.tiles) == {tiles}


def test_epsilon_falls_in_compiled_and_plain_loops_alike():
    agent = perstep.TileQ("CartPole-v1", epsilon=0.5, epsilon_delay=10.0)
    assert agent._behaviour_now().epsilon == 0.5
    agent.learn(30, progress=False)
    assert agent._behaviour_now().epsilon == 0.125


# ---------------------------------------------------------------------------------------------------- the steps, literally


def new_run(learner):
    rng = np.random.default_rng(5)
    weights = linear.weights(CODER.num_features, CODER.tilings, ACTIONS, 1, 0.0, learner)
    weights.actor[:] = rng.normal(size=weights.actor.shape)
    work = rules.workspace(1, discount=GAMMA, end_divisor=1 - GAMMA)
    schedule = rules.Schedule(ALPHA, 0.0, BETA, 0.0, 0.0)
    room, optimism = linear.room(CODER.tilings, ACTIONS, 1, learner), linear.optimism(weights, OPTIMISM, DELAY)
    rewards = rules.reward_estimate(1, -0.5)
    return linear.LearnerState(
        weights, rewards, work, schedule, ETA_PI, CODER.arrays, room, units.Scale(), optimism=optimism
    )


def walk(learner, run, check, count=400):
    """The plain loop on a path of near points. At first all rewards are equal; later games end now and then."""
    rng, record, generator = np.random.default_rng(9), new_record(1), make_generator(0)
    behaviour = Behaviour(0.1, policies.SAMPLED, np.zeros((0, 0)))
    number = rules.RUNNING_MEAN
    point = rng.uniform(-1, 1, 2)
    action = plain_tiles.enter_then_act(learner, behaviour, run, generator, point)
    for step in range(count):
        following = np.clip(point + rng.normal(scale=0.1, size=2), -1, 1)
        reward = -0.5 if step < 50 else float(rng.normal() - 1.0)
        done = step > 100 and rng.random() < 0.1
        chosen = plain_tiles.learn_then_act(
            learner, number, behaviour, run, record, generator, step, action, reward, following, done, False, following
        )
        check(features(point), action, reward, features(following), chosen, done)
        point, action = following, chosen


def unit(run):
    return float(np.sqrt(run.rewards.units[units.RETURN]))


def bonus(run):
    """By the oracle: from what the units have seen."""
    return oracles.bonus(OPTIMISM, DELAY, run.rewards.units[units.SEEN], unit(run))


def test_the_scale_free_actor_critic_is_its_listing():
    run = new_run(linear.ACTOR_CRITIC)
    w, u, e = run.weights.critic[0, :, 0].copy(), run.weights.actor.copy(), run.optimism.unseen[0, :, 0].copy()
    R_bar, size, kinds = [run.rewards.theta[0]], [0.0], set()

    def check(x, A, R, x_next, _, done):
        kinds.add((unit(run) > 0, done))
        steps = ALPHA, BETA, ETA_PI * ALPHA, GAMMA
        seen = run.rewards.units[units.SEEN], bonus(run), unit(run)
        oracles.scale_free_actor_critic(w, u, e, R_bar, size, *steps, *seen, x, A, R, x_next, done)
        np.testing.assert_allclose(run.weights.critic[0, :, 0], w, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.optimism.unseen[0, :, 0], e, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.weights.actor, u, rtol=0, atol=1e-12)
        assert run.rewards.theta[0] == pytest.approx(R_bar[0], abs=1e-12)

    walk(linear.ACTOR_CRITIC, run, check)
    assert kinds == {(False, False), (True, False), (True, True)}


def test_the_scale_free_tile_q_is_its_listing():
    run = new_run(linear.TILE_Q)
    w, e, R_bar = run.weights.critic[..., 0].copy(), run.optimism.unseen[..., 0].copy(), [run.rewards.theta[0]]

    def check(x, A, R, x_next, A_next, done):
        oracles.scale_free_tile_sarsa(w, e, R_bar, ALPHA, BETA, GAMMA, x, A, R, x_next, A_next, done)
        np.testing.assert_allclose(run.weights.critic[..., 0], w, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.optimism.unseen[..., 0], e, rtol=0, atol=1e-12)
        assert run.rewards.theta[0] == pytest.approx(R_bar[0], abs=1e-12)
        scores = oracles.scores_with_bonus(w, e, x_next, unit(run), bonus(run))
        np.testing.assert_allclose(run.optimism.scores, scores, rtol=0, atol=1e-9)

    walk(linear.TILE_Q, run, check)
