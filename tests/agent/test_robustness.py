"""What must not break an agent: interruptions, misuse, estimates that run away, worlds that misbehave."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.agent.agent import Diverged
from perstep.numerics.quantiles import huber_pulls, levels
from perstep.tiles.coder import TileCoder, active_tiles
from perstep.worlds import access_control, two_loop

RED_PILL = "perstep/RedPillBluePill-v0"


def interrupt_soon(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize(
    "make",
    [
        lambda: perstep.QLearning(RED_PILL, rule="d2"),
        lambda: perstep.ActorCritic("perstep/InvertedPendulum-v0"),
        lambda: perstep.QLearning("FrozenLake-v1", rule="d2"),
    ],
)
def test_an_interrupted_agent_is_whole(make):
    """Its steps, its visits and its record agree, and it goes on as one that was never interrupted."""
    agent = make()
    agent.learn(100)
    interrupt_soon(0.4)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(10_000_000_000)
    recorded = agent._life.record.cursor
    assert agent.steps == recorded[0] * recorded[1] + recorded[2]
    if isinstance(agent, perstep.QLearning):
        assert agent.visits.sum() == agent.steps
    twin = make().learn(agent.steps + 50)
    np.testing.assert_array_equal(agent.learn(50).reward_quantiles, twin.reward_quantiles)


def test_agents_that_learn_together_can_be_interrupted():
    agents = [perstep.QLearning(RED_PILL, seed=seed) for seed in range(4)]
    begin = time.monotonic()
    interrupt_soon(0.4)
    with pytest.raises(KeyboardInterrupt):
        perstep.learn_together(agents, 10_000_000_000)
    assert time.monotonic() - begin < 30  # and not the hours that were asked for
    assert all(agent.visits.sum() == agent.steps for agent in agents)


class Failing(gymnasium.Env):
    """Two states; the given step raises."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, step=50, reset=None):
        self.failing_step, self.failing_reset, self.count, self.resets = step, reset, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        if self.resets == self.failing_reset:
            raise RuntimeError("the machine is on fire")
        return 0, {}

    def step(self, action):
        self.count += 1
        if self.count == self.failing_step:
            raise RuntimeError("the machine is on fire")
        return int(action), 1.0, self.count % 10 == 0, False, {}


def test_one_that_fails_stops_the_others_at_once():
    others = [perstep.QLearning(RED_PILL, seed=seed) for seed in range(2)]
    with pytest.raises(RuntimeError, match="on fire"):
        perstep.learn_together([perstep.QLearning(Failing()), *others], 10_000_000_000)


@pytest.mark.parametrize("world", [Failing(step=50), Failing(step=None, reset=3)])
def test_after_an_error_of_the_world_agent_and_world_meet_at_a_reset(world):
    agent = perstep.QLearning(world)
    with pytest.raises(RuntimeError, match="on fire"):
        agent.learn(200)
    resets, steps = world.resets, agent.steps
    agent.learn(5)
    assert world.resets > resets
    assert agent.visits.sum() == agent.steps == steps + 5


def test_an_agent_is_not_taught_twice_at_once():
    agent = perstep.QLearning(RED_PILL)
    with pytest.raises(ValueError, match="same agent twice"):
        perstep.learn_together([agent, agent], 10)
    env = gymnasium.make("FrozenLake-v1")
    with pytest.raises(ValueError, match="share one Gymnasium environment"):
        perstep.learn_together([perstep.QLearning(env), perstep.QLearning(env)], 10)
    for wrong in (agent, [1, 2]):
        with pytest.raises(TypeError, match="list of agents"):
            perstep.learn_together(wrong, 10)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_estimates_that_run_away_are_reported():
    with pytest.raises(Diverged, match="smaller step_size"):
        perstep.QLearning(access_control(), rule="differential", step_size=3.0, preset="paper").learn(1_000_000)


def test_evaluation_does_not_beat_time_with_the_world():
    """The greedy loop takes five steps; every fifth reward is always the same one."""
    agent = perstep.QLearning(two_loop(), rule="differential", step_size=0.01, preset="paper").learn(100_000)
    seen = agent.evaluate(5_000_000, deterministic=True)
    assert seen.average_reward == pytest.approx(0.4)
    assert seen.reward_distribution.mean == pytest.approx(0.4, abs=0.01)


class Misshapen(gymnasium.Env):
    """Says two numbers and gives something else."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, observation):
        self.observation = observation

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        return self.observation, 0.0, False, False, {}


@pytest.mark.parametrize("observation", [np.zeros(1), np.zeros(3), 0.5, np.array([0.0, np.nan])])
def test_observations_that_are_not_as_the_space_says_are_refused(observation):
    with pytest.raises(ValueError, match="as the world's space says"):
        perstep.ActorCritic(Misshapen(observation)).learn(10)


def test_huber_pulls_keep_their_digits_far_from_zero():
    rng = np.random.default_rng(3)
    targets, estimates, n = rng.normal(size=11), rng.normal(size=11), 11
    near, far = np.zeros(n), np.zeros(n)
    huber_pulls(0.1, 1.0, targets, estimates, levels(n), 0.5, np.zeros(n + 2), np.zeros(n + 1), near)
    huber_pulls(0.1, 1.0, targets + 2.0**30, estimates + 2.0**30, levels(n), 0.5, np.zeros(n + 2), np.zeros(n + 1), far)
    np.testing.assert_allclose(far, near, atol=1e-6)  # what 2³⁰ leaves of the inputs themselves


def test_probabilities_too_far_apart_are_not_called_solved():
    rare = 1e-10
    transitions = np.array([[[1 - rare, rare], [1 - 3 * rare, 3 * rare]], [[rare, 1 - rare], [rare / 2, 1 - rare / 2]]])
    mdp = perstep.FiniteMDP(transitions, np.array([[1.0, 1.0], [2.0, 2.0]]))
    try:
        gain = mdp.solve().average_reward
    except ArithmeticError:
        return
    assert gain == pytest.approx(mdp.evaluate([1, 1]).average_reward, abs=1e-6)


# --- Compiled code that cannot go astray


def test_an_interval_too_narrow_for_its_tiles_is_refused():
    with pytest.raises(
        ValueError, match="low and high must be far enough apart for 256 steps between them, but dimension 1"
    ):
        perstep.ActorCritic("perstep/InvertedPendulum-v0", low=(-3.15, 0.0), high=(3.15, 1e-320))


def test_no_point_is_outside_the_table_whatever_the_scale():
    coder = TileCoder(low=(0.0, 0.0), high=(1.0, 1.0), tilings=4, tiles=3)
    broken = coder.arrays._replace(scale=np.array([np.inf, np.nan]))
    out = np.zeros(4, np.int64)
    for x, y in itertools.product((0.0, 1e-300, 0.5, 1.0, np.nan, np.inf, -np.inf), repeat=2):
        active_tiles(broken, np.array([x, y]), out)
        assert ((out >= 0) & (out < coder.num_features)).all()


def test_indices_of_a_world_cannot_be_written_to():
    mdp = two_loop()
    for array in (mdp.outcomes.next_state, mdp.world.alias, mdp.world.next_state, mdp.world.start_alias):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 99


def test_one_agent_learns_in_one_thread_at_a_time():
    agent, refused = perstep.QLearning("perstep/TwoLoop-v0", seed=1), []

    def learn_again(busy):
        try:
            busy.learn(1)
        except RuntimeError as error:
            refused.append(str(error))
        return False

    agent.learn(1_000_000, callback=learn_again)
    assert refused[0].startswith("This agent is already learning, in another thread or in its own callback.")
    assert agent.learn(10).steps == agent.steps  # and goes on afterwards
    started, stop = threading.Event(), threading.Event()

    def until_stopped(_):
        started.set()
        return not stop.is_set()

    busy = threading.Thread(target=agent.learn, args=(10**12,), kwargs={"callback": until_stopped})
    busy.start()
    try:
        assert started.wait(60)
        with pytest.raises(RuntimeError, match="already learning"):
            agent.learn(1)
    finally:
        stop.set()
        busy.join()
