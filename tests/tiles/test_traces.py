"""Eligibility traces on tiles: against dense vectors, cut where they must be, saved to the bit, and worth their cost."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import oracles
import perstep
import plain_tiles
from perstep.distributions.history import new_record
from perstep.files.storage import BadFile, read, write
from perstep.gym.behaviour import Behaviour
from perstep.numerics import policies
from perstep.numerics.randomness import make_generator
from perstep.rules import transition as rules
from perstep.tiles import kernel as linear
from perstep.tiles.traces import KEPT, length, new_traces
from plain_tiles import CODER, features

ACTIONS, ALPHA, BETA, ETA_PI, DECAY, HUBER = 3, 0.02, 0.026, 0.7, 0.6, 0.4


def new_run(learner, n=1, m=1):
    rng = np.random.default_rng(5)
    weights = linear.weights(CODER.num_features, CODER.tilings, ACTIONS, n, 0.0, learner)
    weights.critic[:] = rng.normal(size=weights.critic.shape)
    weights.actor[:] = rng.normal(size=weights.actor.shape)
    columns, gradients = (ACTIONS, 0) if learner == linear.TILE_Q else (1, ACTIONS)
    return linear.LearnerState(
        weights, rules.reward_estimate(m, 0.3), rules.workspace(n, HUBER if n > 1 else 0.0, num_active=CODER.tilings),
        rules.Schedule(ALPHA, 0.0, BETA, 0.0, 0.0), ETA_PI, CODER.arrays, linear.room(CODER.tilings, ACTIONS, n, learner),
        traces=new_traces(DECAY, columns, CODER.tilings, gradients),
    )  # fmt: skip


def path(count=300):
    """Points close together, so that steps share tiles, and an end after every 40th."""
    rng = np.random.default_rng(9)
    point = rng.uniform(-1, 1, 2)
    for step in range(count):
        following = np.clip(point + rng.normal(scale=0.2, size=2), -1, 1)
        yield point, int(rng.integers(ACTIONS)), float(rng.normal()), following, step % 40 == 39
        point = following


def advance(learner, kind, run, action, reward, following, masked, generator, rule="differential"):
    behaviour, record = Behaviour(0.2, kind, np.zeros((0, 0))), new_record(run.rewards.theta.size)
    return plain_tiles.learn_then_act(
        learner, rules.RULES[rule].number_with(huber=HUBER), behaviour, run, record, generator, 0, action, reward, following,
        masked, False,
        following,
    )  # fmt: skip


def test_the_traces_are_those_of_the_textbook():
    """Sutton & Barto, 12.5, as printed, for as long as no step is forgotten; with a step size at which replacing traces differ."""
    run, generator, alpha, gamma = new_run(linear.ACTOR_CRITIC), make_generator(0), 0.1, 0.9
    work, schedule = (
        rules.workspace(1, discount=gamma, num_active=CODER.tilings),
        run.schedule._replace(value_scale=alpha),
    )
    run = run._replace(work=work, schedule=schedule, traces=run.traces._replace(decay=gamma * 0.9))
    w, z, value_before, average = run.weights.critic[0, :, 0].copy(), np.zeros(CODER.num_features), 0.0, 0.3
    for step, (point, action, reward, following, _) in enumerate(path(length(DECAY))):
        x, x_next = features(point), features(following)
        if step == 0:
            plain_tiles.enter_then_act(linear.ACTOR_CRITIC, Behaviour(0.0, 0, np.zeros((0, 0))), run, generator, point)
        value, value_next = w @ x, w @ x_next
        delta = reward - average + gamma * value_next - value
        average += BETA * delta
        z = gamma * 0.9 * z + (1 - alpha * gamma * 0.9 * z @ x) * x
        w += alpha * (delta + value - value_before) * z - alpha * (value - value_before) * x
        value_before = value_next
        advance(linear.ACTOR_CRITIC, 0, run, action, reward, following, False, generator)
        np.testing.assert_allclose(run.weights.critic[0, :, 0], w, rtol=0, atol=1e-11)


def test_the_actor_critic_looks_back_as_dense_traces_do():
    run, generator = new_run(linear.ACTOR_CRITIC), make_generator(0)
    w, u, average, known = run.weights.critic[0, :, 0].copy(), run.weights.actor.copy(), 0.3, None
    past, choices = [], []
    for step, (point, action, reward, following, masked) in enumerate(path()):
        x, x_next = features(point), features(following)
        if step == 0:
            plain_tiles.enter_then_act(linear.ACTOR_CRITIC, Behaviour(0.0, 0, np.zeros((0, 0))), run, generator, point)
        gradient = oracles.policy_gradient(u, x, action)
        delta = reward - average + (0.0 if masked else w @ x_next) - w @ x
        average += BETA * delta
        moved = w @ x - known if past else 0.0
        choices.append(gradient)
        known = w @ x_next
        z = oracles.traces_of_values(past, x, 0, ALPHA, DECAY, length(DECAY) - 1)[0]
        w += ALPHA * (delta + moved) * z - ALPHA * moved * x
        u += ETA_PI * ALPHA * delta * oracles.traces_of_policy(choices, DECAY, length(DECAY) - 1)
        if masked:
            past, choices = [], []
        advance(linear.ACTOR_CRITIC, 0, run, action, reward, following, masked, generator)
        np.testing.assert_allclose(run.weights.critic[0, :, 0], w, rtol=0, atol=1e-11)
        np.testing.assert_allclose(run.weights.actor, u, rtol=0, atol=1e-11)
    np.testing.assert_allclose(run.rewards.theta[0], average, atol=1e-11)


def test_return_quantiles_of_earlier_steps_move_as_a_whole():
    """d3 as printed: n quantiles at the last step by their own pulls, those before it by the mean of these pulls."""
    run, generator = new_run(linear.ACTOR_CRITIC, n=5, m=7), make_generator(0)
    w, u, theta, past, known = (
        run.weights.critic[0].copy(),
        run.weights.actor.copy(),
        run.rewards.theta.copy(),
        [],
        None,
    )
    for step, (point, action, reward, following, _) in enumerate(path(100)):
        x, x_next = features(point), features(following)
        if step == 0:
            plain_tiles.enter_then_act(
                linear.ACTOR_CRITIC,
                Behaviour(0.0, 0, np.zeros((0, 0))),
                run,
                generator,
                point,
            )
        before = w.copy()
        oracles.d3_actor_critic(w, u, theta, ALPHA, BETA, 0.0, HUBER, x, action, reward, x_next)
        pulls = (w - before)[x > 0][0]  # times α
        moved = ALPHA * ((x @ before).mean() - known) if past else 0.0
        known = (x_next @ before).mean()
        z = oracles.traces_of_values(past, x, 0, ALPHA, DECAY, length(DECAY) - 1)[0]
        weight = past[-1][2]
        w = (
            before
            + weight * np.outer(x, pulls)
            + ((pulls.mean() + moved) * (z - weight * x) + (weight - 1) * moved * x)[:, None]
        )
        advance(linear.ACTOR_CRITIC, 0, run, action, reward, following, False, generator, "d3")
        np.testing.assert_allclose(run.weights.critic[0], w, rtol=0, atol=1e-11)


@pytest.mark.parametrize("rule", ["d3", "d2"])
def test_values_stay_finite_where_quantiles_move_by_their_own_pulls(rule):
    settings = {"return_mean": "quantiles"} if rule == "d3" else {}
    agent = perstep.ActorCritic("perstep/InvertedPendulum-v0", preset="steady", rule=rule, **settings).learn(20_000)
    assert np.abs(agent._run.weights.critic.mean(-1)).max() < 100


def test_a_best_action_among_equals_does_not_end_the_traces():
    for world, optimism in (("MountainCar-v0", 0.0), ("MountainCar-v0", 1.0)):
        agent = perstep.TileQ(
            world, rule="d2", bootstrap="greedy", epsilon=0.0, epsilon_delay=None, optimism=optimism, tilings=4
        ).learn(150)
        assert agent._run.traces.clock[KEPT] == length(agent._run.traces.decay)


@pytest.mark.parametrize("kind", [policies.SAMPLED, policies.GREEDY])
def test_action_values_look_back_as_dense_traces_do(kind):
    """Sarsa(λ), and Watkins's Q(λ): its traces end at an action that is not the best one."""
    run, generator = new_run(linear.TILE_Q), make_generator(0)
    w, average, past, action, known = run.weights.critic[:, :, 0].copy(), 0.3, [], 0, None
    for step, (point, drawn, reward, following, masked) in enumerate(path()):
        x, x_next = features(point), features(following)
        if step == 0:
            plain_tiles.enter_then_act(linear.TILE_Q, Behaviour(0.0, kind, np.zeros((0, 0))), run, generator, point)
            action = drawn
        if kind == policies.GREEDY and action != np.argmax(w @ x):
            past = []
        before, moved = w.copy(), w[action] @ x - known[action] if past else 0.0
        known = w @ x_next
        chosen = advance(linear.TILE_Q, kind, run, action, reward, following, masked, generator)
        followed = chosen if kind == policies.SAMPLED else np.argmax(before @ x_next)
        delta = reward - average + (0.0 if masked else before[followed] @ x_next) - before[action] @ x
        average += BETA * delta
        for column, trace in oracles.traces_of_values(past, x, action, ALPHA, DECAY, length(DECAY) - 1).items():
            w[column] += ALPHA * (delta + moved) * trace
        w[action] -= ALPHA * moved * x
        if masked:
            past = []
        np.testing.assert_allclose(run.weights.critic[:, :, 0], w, rtol=0, atol=1e-11)
        action = int(chosen)


def test_a_jump_ends_the_traces():
    run, generator = new_run(linear.TILE_Q), make_generator(0)
    for _, action, reward, following, _ in path(5):
        advance(linear.TILE_Q, policies.SAMPLED, run, action, reward, following, False, generator)
    assert run.traces.clock[KEPT] == 5
    plain_tiles.enter_then_act(linear.TILE_Q, Behaviour(0.0, 0, np.zeros((0, 0))), run, generator, np.zeros(2))
    assert run.traces.clock[KEPT] == 0


@pytest.mark.parametrize("agent_type", [perstep.ActorCritic, perstep.TileQ])
@pytest.mark.parametrize("world", ["CartPole-v1", "perstep/Autoscaling-v0"])
def test_a_saved_agent_goes_on_to_the_bit(tmp_path, agent_type, world):
    agent = agent_type(world, preset="steady", tilings=4, seed=3).learn(333)
    assert agent.config.trace_decay > 0
    agent.save(tmp_path / "a.safetensors")
    loaded = perstep.load(tmp_path / "a.safetensors").learn(500)
    agent.learn(500)
    assert (loaded._run.weights.critic == agent._run.weights.critic).all()
    assert (loaded._run.weights.actor == agent._run.weights.actor).all()


@pytest.mark.parametrize(
    ("name", "place", "bad"), [("active", (0, 0), 10**9), ("columns", (0,), 7), ("clock", (1,), 10**6)]
)
def test_traces_of_a_file_stay_in_their_ranges(tmp_path, name, place, bad):
    agent = perstep.TileQ("CartPole-v1", preset="steady", tilings=4).learn(50)
    agent.save(tmp_path / "a.safetensors")
    arrays, metadata = read(tmp_path / "a.safetensors")
    arrays[f"traces.{name}"][place] = bad
    write(tmp_path / "b.safetensors", arrays, metadata)
    with pytest.raises(BadFile, match="must lie between 0 and"):
        perstep.load(tmp_path / "b.safetensors")
    getattr(agent._run.traces, name)[place] = bad
    with pytest.raises(ValueError, match="cannot be saved, since its file could not be loaded again"):
        agent.save(tmp_path / "c.safetensors")


def test_rvi_has_no_traces():
    assert perstep.TileQ("CartPole-v1", preset="steady", rule="rvi").config.trace_decay == 0
    with pytest.raises(ValueError, match="trace_decay must be 0 for the rule 'rvi'"):
        perstep.TileQ("CartPole-v1", rule="rvi", trace_decay=0.5)


class LateCoin(gymnasium.Env):
    """Buy a coin for 1 now, or not; ten steps later it is worth 5. The state is the time, and whether one has it."""

    observation_space = gymnasium.spaces.Box(np.zeros(2, np.float32), np.array([10, 1], np.float32))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.has = 0, 0
        return np.array([0, 0], np.float32), {}

    def step(self, action):
        reward = 0.0
        if self.time == 0:
            self.has, reward = int(action), -float(action)
        self.time += 1
        if self.time > 10:
            reward, self.time, self.has = 5.0 * self.has, 0, 0
        return np.array([self.time, self.has], np.float32), reward, False, False, {}


def test_what_pays_late_is_learnt_sooner():
    """A coin in eleven steps: (5 − 1)/11 a step is the best there is."""
    earned = [
        [
            perstep.ActorCritic(LateCoin(), rule="d2", trace_decay=decay, seed=seed)
            .learn(1000)
            .evaluate(1100)
            .average_reward
            for seed in range(3)
        ]
        for decay in (0.0, 0.7)
    ]
    assert np.mean(earned[1]) > np.mean(earned[0])
    assert np.mean(earned[1]) > 0.3
