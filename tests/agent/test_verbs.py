"""The verbs that people rely on, one by one, for every agent; the forms of worlds; the loop as a tape of calls."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import warnings
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformObservation, TransformReward

import oracles
import perstep
from perstep.files.storage import read
from perstep.gym.behaviour import BadReward, Ends
from perstep.gym.loop import GymnasiumWorld
from perstep.gym.motion import compiled_world
from perstep.inputs.errors import UnknownName
from perstep.worlds import red_pill_blue_pill, two_loop

RED_PILL = "perstep/RedPillBluePill-v0"
PENDULUM = "perstep/InvertedPendulum-v0"
KINDS = ["td", "q", "actor-critic"]
RULES = ["differential", "d2", "d3"]


def new_agent(kind, **settings):
    settings = {"num_quantiles": 4, **settings}
    if kind == "td":
        return perstep.TDLearning(RED_PILL, [[0.3, 0.7], [0.3, 0.7]], **settings)
    if kind == "q":
        return perstep.QLearning(RED_PILL, **settings)
    return perstep.ActorCritic(PENDULUM, **{"tilings": 4, "tiles": 4, **settings})


def an_observation(kind):
    return np.array([0.3, -0.2]) if kind == "actor-critic" else 1


def estimates(agent):
    """Everything an agent has learnt, for comparisons to the bit."""
    agent.snapshots.clear()
    snapshot = agent.learn(0, snapshot_at=[agent.steps]).snapshots.pop()
    return agent.steps, snapshot.average_reward, snapshot.reward_quantiles.tolist(), snapshot.values.tolist()


class Corridor(gymnasium.Env[Any, Any]):
    """States 0 … n−1 in a row; action 0 goes left, 1 right; walls at both ends; pays the state that is reached."""

    def __init__(self, observation_space=None, action_start=0, name_of=lambda state: state, size=4):
        self.observation_space = observation_space or spaces.Discrete(size)
        self.action_space = spaces.Discrete(2, start=action_start)
        self.name_of, self.size = name_of, size
        self.taken: list[Any] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return self.name_of(self.state), {}

    def step(self, action):
        self.taken.append(action)
        right = action - int(self.action_space.start)
        self.state = min(max(self.state + 2 * right - 1, 0), self.size - 1)
        return self.name_of(self.state), float(self.state), False, False, {}


class Tape(gymnasium.Env[Any, Any]):
    """Plays what is written: first observations, and steps as (observation, reward, terminated, truncated)."""

    def __init__(self, starts, steps, box=False):
        self.observation_space = spaces.Box(0.0, 3.0, (1,), np.float64) if box else spaces.Discrete(3)
        self.action_space = spaces.Discrete(2)
        self.starts, self.steps, self.box = iter(starts), iter(steps), box
        self.calls: list[Any] = []

    def _shown(self, observation):
        return np.array([observation + 0.5]) if self.box else observation

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.calls.append(("reset", seed))
        return self._shown(next(self.starts)), {}

    def step(self, action):
        self.calls.append(("step", action))
        observation, reward, terminated, truncated = next(self.steps)
        return self._shown(observation), reward, terminated, truncated, {}


# --- learn


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_learn_returns_the_agent_and_goes_on(kind, rule):
    agent = new_agent(kind, rule=rule)
    assert agent.steps == 0
    assert agent.learn(150) is agent
    assert agent.steps == 150
    middle = estimates(agent)
    agent.learn(150)
    assert agent.steps == 300
    assert estimates(agent) != middle
    assert agent.learn(0).steps == 300
    assert estimates(agent) == estimates(new_agent(kind, rule=rule).learn(300))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_steps", [-1, 1.5, float("inf"), "10", None, True])
def test_impossible_numbers_of_steps(kind, num_steps):
    agent = new_agent(kind)
    with pytest.raises(ValueError, match="num_steps must be a whole number of at least 0"):
        agent.learn(num_steps)
    with pytest.raises(ValueError, match="num_steps must be a whole number of at least 1"):
        agent.evaluate(num_steps)
    with pytest.raises(ValueError, match="num_steps must be a whole number of at least 1"):
        agent.evaluate(0)
    assert agent.steps == 0


def test_numbers_of_numpy_are_numbers_of_steps(tmp_path):
    agent = new_agent("q").learn(np.int64(100), snapshot_at=np.array([0, 50]))
    assert type(agent.steps) is int
    agent.save(tmp_path / "a.safetensors")
    assert agent.evaluate(np.int32(10), seed=np.int64(3)).num_steps == 10


@pytest.mark.parametrize("kind", KINDS)
def test_callback_sees_the_agent_and_can_stop_it(kind):
    agent, seen = new_agent(kind), []

    def stop_at_the_third(given):
        assert given is agent
        seen.append(given.steps)
        return False if len(seen) == 3 else None

    assert agent.learn(10**9, callback=stop_at_the_third) is agent
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert agent.steps == seen[-1] < 10**9
    seen.clear()
    agent.learn(100, callback=lambda given: seen.append(given.steps))
    assert seen[-1] == agent.steps
    assert estimates(agent) == estimates(new_agent(kind).learn(agent.steps))


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_are_taken_at_exactly_these_steps(kind):
    agent = new_agent(kind, rule="d3").learn(300, snapshot_at=[300, 0, 7, 7, 299, 5000])
    assert [snapshot.step for snapshot in agent.snapshots] == [0, 7, 299, 300]
    for snapshot in agent.snapshots:
        alone = new_agent(kind, rule="d3").learn(snapshot.step)
        assert snapshot.average_reward == alone.average_reward
        assert snapshot.reward_quantiles.tolist() == alone.reward_quantiles.tolist()
        assert snapshot.values.tolist() == estimates(alone)[3]
    agent.learn(100, snapshot_at=range(0, 1000, 50))  # those that are past are past
    assert [snapshot.step for snapshot in agent.snapshots] == [0, 7, 299, 300, 300, 350, 400]


def test_shapes_of_snapshots():
    shapes = {kind: new_agent(kind, rule="d3").learn(5, snapshot_at=[5]).snapshots[0].values.shape for kind in KINDS}
    assert shapes == {"td": (2, 4), "q": (2, 2, 4), "actor-critic": (4 * 5 * 5, 4)}


@pytest.mark.parametrize("step", [-1, 1.5, "7"])
def test_impossible_snapshots(step):
    with pytest.raises(ValueError, match="A step of snapshot_at must be a whole number"):
        new_agent("q").learn(10, snapshot_at=[5, step])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_telling_changes_what_is_learnt(kind, capsys):
    told = new_agent(kind).learn(2500, progress=True, callback=lambda agent: True, snapshot_at=range(0, 2500, 333))
    assert estimates(told) == estimates(new_agent(kind).learn(2500))
    assert "%" in capsys.readouterr().err  # the bar
    new_agent(kind).learn(100, progress=False)
    assert capsys.readouterr().err == ""


# --- What it has learnt


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_average_and_quantiles_of_the_reward(kind, rule):
    agent = new_agent(kind, rule=rule, preset="paper").learn(200)
    assert isinstance(agent.average_reward, float)
    assert agent.reward_quantiles.shape == ((1,) if rule == "differential" else (4,))
    assert agent.average_reward == pytest.approx(agent.reward_quantiles.mean(), abs=1e-12)
    agent.reward_quantiles[:] = 99  # a copy
    assert agent.average_reward < 1
    assert f"{type(agent).__name__}(rule={rule!r}, earned {agent.reward_distribution.mean:.4g} ± " in repr(agent)
    assert f"(95 %) per step, R̄ {agent.average_reward:.4g} after 200 steps" in repr(agent)


def test_average_counts_the_offset():
    # η_b = 1 learns b; R̄ is the mean of θ plus b.
    agent = new_agent("td", rule="d2", offset_ratio=1.0, step_size=0.1, preset="paper").learn(5000)
    assert agent.average_reward != pytest.approx(agent.reward_quantiles.mean(), abs=1e-6)
    assert agent.average_reward == pytest.approx(agent.mdp.evaluate([[0.3, 0.7]] * 2).average_reward, abs=0.15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["d2", "d3"])
def test_reward_distribution(kind, rule):
    # θ = (3, −1, 2, 0) in any order: mean 1; the median is 0, the least x with P(X ≤ x) ≥ ½; P(X ≤ 1) = ½;
    # the worst quarter averages −1, the worst half −½.
    agent = new_agent(kind, rule=rule)
    agent._rewards.theta[:] = 3.0, -1.0, 2.0, 0.0
    with pytest.raises(ValueError, match=r"recorded no reward yet.*learned_distribution is what the rule has learnt"):
        _ = agent.reward_distribution
    distribution = agent.learned_distribution
    assert distribution.mean == pytest.approx(1.0)
    assert distribution.quantile(0.5) == 0.0
    assert distribution.quantile([0.25, 1.0]).tolist() == [-1.0, 3.0]
    assert distribution.cdf(1.0) == pytest.approx(0.5)
    assert distribution.cvar(0.25) == pytest.approx(-1.0)
    assert distribution.cvar(0.5) == pytest.approx(-0.5)
    assert distribution.num_samples is None


@pytest.mark.parametrize("kind", KINDS)
def test_differential_has_the_distribution_of_what_it_earned(kind):
    agent = new_agent(kind, rule="differential")
    with pytest.raises(ValueError, match="recorded no reward yet"):
        _ = agent.reward_distribution
    distribution = agent.learn(100).reward_distribution
    assert distribution.num_samples in (50, 26)  # 50 blocks of 2: the later half, or the later half of these
    assert distribution.mean == pytest.approx(agent.reward_distribution.mean, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_return_quantiles_are_for_d3(kind):
    where = (an_observation(kind), 0) if kind == "q" else (an_observation(kind),)
    agent = new_agent(kind, rule="d3", num_return_quantiles=6).learn(300)
    found = agent.return_quantiles(*where)
    assert found.shape == (6,)
    assert agent.reward_quantiles.shape == (4,)
    value = agent.action_values(where[0])[0] if kind == "q" else agent.state_value(where[0])
    assert value == pytest.approx(found.mean(), abs=1e-12)
    found[:] = 99  # a copy
    assert agent.return_quantiles(*where).max() < 99
    for rule in ("differential", "d2"):
        with pytest.raises(TypeError, match=rf"The rule '{rule}' learns no return quantiles\. Use rule='d3'"):
            new_agent(kind, rule=rule).return_quantiles(*where)


def test_values_of_tables():
    q = new_agent("q").learn(500)
    assert q.action_values(1).shape == (2,)
    assert q.all_action_values.tolist() == [q.action_values(0).tolist(), q.action_values(1).tolist()]
    assert q.visits.sum() == 500
    assert (q._num_states, q._num_actions) == (2, 2)
    td = new_agent("td").learn(500)
    assert td.state_values.tolist() == [td.state_value(0), td.state_value(1)]
    assert (td.visits.shape, td.visits.sum()) == ((2,), 500)
    q.action_values(1)[:] = 99
    q.all_action_values[:] = 99
    assert q.all_action_values.max() < 99


@pytest.mark.parametrize("kind", KINDS)
def test_initial_values_are_as_told(kind):
    agent = new_agent(kind, rule="d3", initial_value=2.5, initial_average_reward=-1.5)
    assert agent.average_reward == -1.5
    assert set(agent.reward_quantiles) == {-1.5}
    values = agent.action_values(0) if kind == "q" else [agent.state_value(an_observation(kind))]
    assert values == pytest.approx([2.5] * len(values), abs=1e-12)


@pytest.mark.parametrize("observation", [2, -1, 1.5, None, "a", (0, 1), [0, 1]])
def test_observations_that_there_are_not(observation):
    with pytest.raises(
        ValueError, match=r"Expected a point of the Discrete space of sizes \(2,\)|Expected a single point"
    ):
        new_agent("q").action_values(observation)


def test_history_covers_the_life_of_the_agent():
    for kind in KINDS:
        history = new_agent(kind, preset="paper").learn(400).learn(350).history
        assert history.window == 1
        assert history.steps.tolist() == list(range(1, 751))
        assert history.average_reward[-1] == pytest.approx(history.reward_quantiles[-1].mean())


# --- predict


def test_predict_of_tables():
    agent = new_agent("q")
    agent._run.table.scores[:] = [[0.0, 1.0], [2.0, 2.0]]  # the best of state 0 is 1; a tie goes to the first
    assert agent.predict(0) == (1, None)
    assert agent.predict(np.int64(1)) == (0, None)
    actions, state = agent.predict(np.array([0, 1, 0]))
    assert (actions.tolist(), state) == ([1, 0, 1], None)
    assert agent.predict([0])[0].tolist() == [1]
    td = perstep.TDLearning(RED_PILL, [[0.3, 0.7], [0.8, 0.2]])
    assert td.predict(np.array([0, 1]))[0].tolist() == [1, 0]


def test_predict_without_determinism_is_epsilon_greedy():
    # ε = 0.3: the best with 0.85, the other with 0.15; a tie is shared. Five sd of 20,000 draws are at most 0.018.
    agent = new_agent("q", epsilon=0.3)
    agent._run.table.scores[:] = [[0.0, 1.0], [2.0, 2.0]]
    for state, share in ((0, 0.85), (1, 0.5)):
        actions, _ = agent.predict(np.full(20_000, state), deterministic=False)
        assert actions.mean() == pytest.approx(share, abs=0.018)
    assert agent.policy().tolist() == [[pytest.approx(0.15), pytest.approx(0.85)], [0.5, 0.5]]
    assert agent.policy(deterministic=True).tolist() == [[0, 1], [1, 0]]


def test_predict_without_determinism_is_the_given_policy():
    agent = perstep.TDLearning(RED_PILL, [[0.3, 0.7], [0.8, 0.2]])
    for state, share in ((0, 0.7), (1, 0.2)):
        assert agent.predict(np.full(20_000, state), deterministic=False)[0].mean() == pytest.approx(share, abs=0.018)
    assert agent.policy().tolist() == [[0.3, 0.7], [0.8, 0.2]]
    assert agent.policy(deterministic=True).tolist() == [[0, 1], [1, 0]]


def test_predict_on_tiles():
    agent = new_agent("actor-critic", policy_ratio=1.0).learn(300)
    point = np.array([0.3, -0.2])
    chances = agent.policy(point)
    assert chances.shape == (3,)
    assert chances.sum() == pytest.approx(1.0)
    best = int(chances.argmax())
    assert agent.predict(point) == (best, None)
    assert agent.policy(point, deterministic=True).tolist() == np.eye(3)[best].tolist()
    actions, _ = agent.predict(np.tile(point, (3, 1)))
    assert actions.tolist() == [best] * 3
    assert agent.predict(point[None])[0].tolist() == [best]
    drawn, _ = agent.predict(np.tile(point, (4000, 1)), deterministic=False)
    shares = np.bincount(drawn, minlength=3) / 4000
    assert shares == pytest.approx(chances, abs=5 * 0.5 / math.sqrt(4000))


def test_predict_on_boxes_of_more_axes():
    class Square(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(0.0, 1.0, (2, 2), np.float64)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.low, {}

        def step(self, action):
            return self.observation_space.low, 0.0, False, False, {}

    agent = perstep.ActorCritic(Square(), tilings=2, tiles=2).learn(10)
    assert agent.predict(np.zeros((2, 2)))[0] in (0, 1)
    assert agent.predict(np.zeros((5, 2, 2)))[0].shape == (5,)
    with pytest.raises(ValueError, match=r"An observation must have shape \(2, 2\), .* got \(4,\)"):
        agent.predict(np.zeros(4))


@pytest.mark.parametrize(
    "observation", ["left", None, [0.1, None], [["a", "b"]], [[0.1], [0.1, 0.2]], {"x": 0.1}], ids=repr
)
def test_points_that_are_no_numbers(observation):
    with pytest.raises(
        ValueError, match=r"An observation must be an array of numbers, got .* Give it as the world does"
    ):
        new_agent("actor-critic").predict(observation)


@pytest.mark.parametrize("observation", [[0.1], [0.1, 0.2, 0.3], 0.5, [[[0.1, 0.2]]]])
def test_points_of_another_shape(observation):
    with pytest.raises(
        ValueError, match=r"An observation must have shape \(2,\), and a batch one more axis in front, got"
    ):
        new_agent("actor-critic").predict(observation)
    with pytest.raises(ValueError, match="as the world's space says"):
        new_agent("actor-critic").state_value([0.1, 0.2, 0.3])


@pytest.mark.parametrize("kind", KINDS)
def test_predict_and_evaluate_leave_the_learning_alone(kind):
    agent, twin = new_agent(kind).learn(200), new_agent(kind).learn(200)
    agent.predict(an_observation(kind), deterministic=False)
    agent.evaluate(500)
    agent.evaluate(500, deterministic=True, seed=3)
    assert estimates(agent.learn(200)) == estimates(twin.learn(200))


# --- evaluate


@pytest.mark.parametrize("deterministic", [False, True])
def test_evaluation_is_exact_within_its_error(deterministic):
    # Greedy blue; ε-greedily with ε = 0.1 the long run is −0.605, greedily −0.6. The reward's sd is 0.4, and red lasts
    # for about one step at a time, so 5 sd of a mean over 200,000 are 0.005.
    agent = new_agent("q", epsilon=0.1)
    agent._run.table.scores[:] = [[0.0, 1.0], [0.0, 1.0]]
    exact = agent.mdp.evaluate([1, 1], epsilon=0.0 if deterministic else 0.1)
    found = agent.evaluate(200_000, deterministic=deterministic)
    assert found.average_reward == pytest.approx(exact.average_reward, abs=0.005)
    assert found.reward_distribution.mean == pytest.approx(found.average_reward, abs=1e-9)
    for p in (0.1, 0.25, 0.75, 0.9):
        expected = exact.reward_distribution.quantile(p)
        assert found.reward_distribution.quantile(p) == pytest.approx(expected, abs=0.01)
    assert (found.num_steps, found.episode_returns.size) == (200_000, 0)


def test_evaluation_of_a_given_policy():
    exact = red_pill_blue_pill().evaluate([[0.3, 0.7], [0.3, 0.7]]).average_reward
    assert new_agent("td").evaluate(200_000).average_reward == pytest.approx(exact, abs=0.005)


def test_evaluation_on_tiles_is_what_the_policy_earns():
    agent = new_agent("actor-critic").learn(200)
    env, total = gymnasium.make(PENDULUM), 0.0
    observation, _ = env.reset()
    for _ in range(500):
        observation, reward, *_ = env.step(agent.predict(observation)[0])
        total += float(reward)
    assert agent.evaluate(500, deterministic=True).average_reward == pytest.approx(total / 500, abs=1e-9)


@pytest.mark.parametrize("kind", [*KINDS, "lake"])
def test_evaluations_with_the_same_seed_are_the_same(kind):
    agent = perstep.QLearning("FrozenLake-v1") if kind == "lake" else new_agent(kind)
    agent.learn(300)
    first, again, other = (agent.evaluate(400, seed=seed) for seed in (5, 5, 6))
    assert first.average_reward == again.average_reward
    assert first.reward_distribution.means.tolist() == again.reward_distribution.means.tolist()
    assert first.episode_returns.tolist() == again.episode_returns.tolist()
    if kind == "lake":
        assert first.episode_returns.tolist() != other.episode_returns.tolist()
    else:
        assert first.average_reward != other.average_reward
    # Without a seed it is the agent's own.
    assert agent.evaluate(400).episode_returns.tolist() == agent.evaluate(400).episode_returns.tolist()
    assert agent.evaluate(400).average_reward == agent.evaluate(400).average_reward


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True])
def test_impossible_seeds(seed):
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
        new_agent("q").evaluate(10, seed=seed)


def test_evaluation_of_episodes():
    # Two steps to the right end the episode: start 0, then 1 (reward 2), then the end (reward 5). Seven steps are three
    # episodes of return 7 and a step of the fourth. reset_cost 1 is taken at the ends: rewards 2, 4, 2, 4, 2, 4, 2.
    class Short(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Discrete(3), spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.state = 0
            return 0, {}

        def step(self, action):
            self.state += 1
            return self.state, (2.0, 5.0)[self.state - 1], self.state == 2, False, {}

    found = perstep.QLearning(Short(), reset_cost=1.0).evaluate(7)
    assert found.episode_returns.tolist() == [7.0, 7.0, 7.0]
    assert found.average_reward == pytest.approx(20 / 7)
    assert found.reward_distribution.cdf(2.0) == pytest.approx(4 / 7)


def test_evaluation_counts_truncated_episodes():
    found = perstep.QLearning(TimeLimit(gymnasium.make(RED_PILL), 10)).evaluate(95)
    assert len(found.episode_returns) == 9
    assert -10 < found.episode_returns.mean() < -5


def test_evaluation_happens_in_a_copy_of_the_world():
    agent, twin = perstep.QLearning("FrozenLake-v1").learn(57), perstep.QLearning("FrozenLake-v1").learn(57)
    agent.evaluate(200)
    assert estimates(agent.learn(500)) == estimates(twin.learn(500))


def test_evaluation_happens_in_a_copy_of_a_world_given_as_an_object():
    # A world without a spec, and a wrapper that does not say how it was made.
    class Double(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 2.0 * reward

    for make in (Corridor, lambda: Double(gymnasium.make("FrozenLake-v1", is_slippery=False))):
        agent, twin = perstep.QLearning(make()).learn(50), perstep.QLearning(make()).learn(50)
        assert agent.evaluate(100).num_steps == 100
        assert estimates(agent.learn(50)) == estimates(twin.learn(50))


@pytest.mark.parametrize("dice", [np.random.default_rng(), np.random.RandomState(3), random.Random(3)])
def test_evaluations_with_other_seeds_differ_also_in_a_world_with_a_generator_of_its_own(dice):
    class OwnDice(Corridor):
        def __init__(self):
            super().__init__()
            self.dice = dice

        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, self.dice.random(), *rest

    agent = perstep.QLearning(OwnDice()).learn(50)
    found = [agent.evaluate(50, seed=seed).average_reward for seed in (0, 1, 0)]
    assert found[0] == found[2] != found[1]


def test_a_copy_does_not_close_what_it_shares():
    class Numbered(Corridor):
        def __init__(self):
            super().__init__()
            self.file = os.open(os.devnull, os.O_RDONLY)

        def step(self, action):
            os.read(self.file, 1)
            return super().step(action)

        def close(self):
            os.close(self.file)

    world = Numbered()
    agent = perstep.QLearning(world).learn(50)
    agent.evaluate(50)
    assert agent.learn(50).steps == 100
    world.close()


def test_evaluation_where_no_copy_can_be_made():
    # An open file cannot be copied: learning continues from a fresh reset.
    tape = Tape([0, 1, 2], itertools.repeat((1, 0.0, False, False)))
    with open(os.devnull) as tape.window:
        agent = perstep.QLearning(tape, seed=7).learn(2)
        agent.evaluate(3)
        agent.learn(1)
    assert [call for call in tape.calls if call[0] == "reset"] == [("reset", 7), ("reset", 7), ("reset", None)]


# --- Forms of worlds


def test_an_id_an_environment_and_an_mdp_are_the_same():
    worlds = [RED_PILL, gymnasium.make(RED_PILL), gymnasium.make(RED_PILL).unwrapped, red_pill_blue_pill()]
    found = [estimates(perstep.QLearning(world, rule="d3", num_quantiles=4).learn(500)) for world in worlds]
    assert found[1:] == found[:-1]
    worlds = [PENDULUM, gymnasium.make(PENDULUM), gymnasium.make(PENDULUM).unwrapped]
    found = [estimates(perstep.ActorCritic(world, tilings=4).learn(500)) for world in worlds]
    assert found[1:] == found[:-1]


def test_the_compiled_pendulum_and_the_plain_loop_learn_alike():
    # Nothing is random in this world but the actions, so the same generator gives the same life.
    compiled = perstep.ActorCritic(PENDULUM, tilings=4, rule="d3").learn(700)
    plain = perstep.ActorCritic(TransformReward(gymnasium.make(PENDULUM), lambda reward: reward), tilings=4, rule="d3")
    assert estimates(plain.learn(700)) == estimates(compiled)


def test_a_wrapper_of_rewards_is_not_bypassed():
    # The compiled loop would see the world inside. R ↦ 2R + 3 takes the average from −0.6 to 1.8.
    env = TransformReward(gymnasium.make(RED_PILL), lambda reward: 2 * reward + 3)
    agent = perstep.TDLearning(env, [1, 1], rule="differential", step_size=perstep.Decay(0.5, 0.6)).learn(20_000)
    assert agent.mdp is None
    assert agent.average_reward == pytest.approx(1.8, abs=0.15)
    env = TransformReward(gymnasium.make(PENDULUM), lambda reward: reward + 100.0)
    agent = perstep.ActorCritic(env, tilings=4, rule="differential", reward_ratio=5.0).learn(500)
    assert 85 < agent.average_reward < 105


def test_a_wrapper_of_observations_is_not_bypassed():
    # Blue shown as 0 and red as 1: always "stay in what is shown as 0" earns −0.6 by swapped numbers.
    env = TransformObservation(gymnasium.make(RED_PILL), lambda state: 1 - state, spaces.Discrete(2))
    agent = perstep.TDLearning(env, [1, 0]).learn(300)  # in blue (0) take blue (1), in red (1) take red (0)
    plain = perstep.TDLearning(RED_PILL, [0, 1]).learn(300)
    assert set(agent.visits) == set(plain.visits) == {0, 300}


def test_a_wrapper_with_a_trusted_name_is_not_bypassed():
    class OrderEnforcing(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 7.0

    agent = perstep.TDLearning(OrderEnforcing(gymnasium.make(RED_PILL)), [0, 0], step_size=0.5, rule="differential")
    assert agent.learn(200).average_reward == pytest.approx(7.0, abs=1e-6)


def test_a_time_limit_is_not_bypassed():
    assert perstep.QLearning(TimeLimit(gymnasium.make(RED_PILL), 10)).mdp is None


@pytest.mark.parametrize(
    ("space", "name_of"),
    [
        (spaces.Discrete(4), lambda state: state),
        (spaces.Discrete(4, start=-7), lambda state: np.int64(state - 7)),
        (spaces.MultiDiscrete([2, 2]), lambda state: np.array([state // 2, state % 2])),
        (spaces.MultiDiscrete([2, 2], start=[5, -1]), lambda state: np.array([state // 2 + 5, state % 2 - 1])),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2, start=3)]), lambda state: (state // 2, state % 2 + 3)),
    ],
)
@pytest.mark.parametrize("action_start", [0, 4])
def test_discrete_spaces_of_all_kinds(space, name_of, action_start):
    env = Corridor(space, action_start, name_of)
    assert all(space.contains(name_of(state)) for state in range(4))
    agent = perstep.QLearning(env, rule="differential", step_size=0.1, reward_ratio=0.1, epsilon=0.5, seed=1).learn(
        3000
    )
    plain = perstep.QLearning(Corridor(), rule="differential", step_size=0.1, reward_ratio=0.1, epsilon=0.5, seed=1)
    assert estimates(agent) == estimates(plain.learn(3000))
    assert set(env.taken) == {action_start, action_start + 1}
    assert agent.predict(name_of(3)) == (action_start + 1, None)  # right is better
    assert agent.action_values(name_of(1)).tolist() == plain.action_values(1).tolist()
    if not isinstance(space, spaces.Tuple):
        batch = np.array([name_of(0), name_of(3)])
        assert agent.predict(batch)[0].tolist() == [action_start + 1, action_start + 1]


def test_blackjack():
    agent = perstep.QLearning("Blackjack-v1", rule="d3", num_quantiles=3).learn(2000)
    assert agent._num_states == 32 * 11 * 2
    assert agent.predict((12, 5, 0))[0] in (0, 1)
    assert agent.return_quantiles((20, 10, 1), 0).shape == (3,)
    assert (agent.visits.sum(axis=1) > 0).sum() > 50
    batch = (np.array([12, 20]), np.array([5, 10]), np.array([0, 1]))
    assert agent.predict(batch)[0].shape == (2,)
    with pytest.raises(ValueError, match="Expected a point of the Tuple space"):
        agent.predict((12, 5, 2))
    with pytest.raises(ValueError, match="Expected a point of the Tuple space"):
        agent.predict((12, 5))


# --- Policies for prediction


def test_policies_of_all_forms_are_the_same():
    forms = [
        [1, 0],
        np.array([1, 0]),
        [[0.0, 1.0], [1.0, 0.0]],
        lambda state: 1 - state,
        lambda state: [0.0, 1.0] if state == 0 else [1.0, 0.0],
    ]
    found = [estimates(perstep.TDLearning(RED_PILL, form, num_quantiles=3).learn(300)) for form in forms]
    assert found[1:] == found[:-1]


def test_a_policy_is_a_function_of_the_observation():
    seen = []

    def stand_from_17(observation):
        seen.append(observation)
        return int(observation[0] < 17)

    agent = perstep.TDLearning("Blackjack-v1", stand_from_17).learn(1000)
    assert seen[0] == (0, 0, 0)
    assert (31, 10, 1) in seen
    assert (agent.predict((12, 5, 0))[0], agent.predict((18, 5, 0))[0]) == (1, 0)
    # Discrete from −7: the function sees −7 … −4.
    env = Corridor(spaces.Discrete(4, start=-7), 0, lambda state: state - 7)
    agent = perstep.TDLearning(env, lambda observation: int(observation < -4)).learn(60)
    assert agent.predict([-7, -6, -5, -4])[0].tolist() == [1, 1, 1, 0]
    assert agent.visits.tolist() == [1, 1, 29, 29]  # 0 1 2 3 2 3 …


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ([0], "A policy must be actions of shape"),
        ([0, 2], "must be integers from 0 to 1"),
        ([0, 0.5], "must be integers from 0 to 1"),
        ([[0.5, 0.4], [0.5, 0.5]], "sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "probabilities, 0 or more"),
        ([[np.nan, 1.0], [0.5, 0.5]], "sum to 1"),
        ("greedy", "A policy must be actions of shape"),
        (None, "A policy must be actions of shape"),
        (lambda state: 0 if state else [0.5, 0.5], "got both"),
    ],
)
def test_impossible_policies(policy, words):
    with pytest.raises(ValueError, match=words):
        perstep.TDLearning(RED_PILL, policy)


# --- Ends. The tape: 0 →(1) 1 →(2, an end; next start 0) 0 →(3, cut short at 1; next start 2) 2 →(4) 0 →(5, an end at the
# limit: both flags; next start 1) 1 →(6) 2. With reset_cost ½ the ends pay 2 − ½ and 5 − ½.

STARTS = [0, 0, 2, 1]
STEPS = [
    (1, 1.0, False, False),
    (2, 2.0, True, False),
    (1, 3.0, False, True),
    (0, 4.0, False, False),
    (2, 5.0, True, True),
    (2, 6.0, False, False),
]
TRANSITIONS = [(0, 1.0, 1), (1, 1.5, 0), (0, 3.0, 1), (2, 4.0, 0), (0, 4.5, 1), (1, 6.0, 2)]  # (S, R, S′)
ENDS = [False, True, False, False, True, False]


class Listener:
    """A learner that writes down what it is told."""

    def __init__(self):
        self.told: list[Any] = []
        self.returns: list[float] = []

    def read(self, observation):
        return f"s{observation}"

    def note_end(self, episode_return):
        self.returns.append(episode_return)

    def act(self, point):
        self.told.append(("act", point))
        return 0

    def learn_then_act(self, point, action, reward, next_point, masked, resume):
        self.told.append((point, action, reward, next_point, masked, resume))
        return 1 - action


@pytest.mark.parametrize("termination", ["continue", "mask"])
def test_the_tape_of_calls(termination):
    tape, listener = Tape(STARTS, STEPS), Listener()
    world = GymnasiumWorld(tape, Ends.of(termination, 0.5), seed=9)
    world.learn(listener, 0, 4)
    world.learn(listener, 4, 2)  # in two pieces, as if in one
    assert listener.returns == [3.0, 3.0, 9.0]  # of the episodes that ended or were cut off, without the cost of resets
    masked = [termination == "mask" and end for end in ENDS]
    assert listener.told == [
        ("act", "s0"),
        ("s0", 0, 1.0, "s1", masked[0], "s1"),
        ("s1", 1, 1.5, "s0", masked[1], "s0"),  # the end leads to the next start
        ("s0", 0, 3.0, "s1", masked[2], "s2"),  # cut short: S′ is what was seen, and life goes on elsewhere
        ("s2", 1, 4.0, "s0", masked[3], "s0"),
        ("s0", 0, 4.5, "s1", masked[4], "s1"),
        ("s1", 1, 6.0, "s2", masked[5], "s2"),
    ]
    steps = [("step", i % 2) for i in range(6)]
    resets = [("reset", seed) for seed in (9, None, None, None)]
    assert tape.calls == [
        resets[0], steps[0], steps[1], resets[1], steps[2], resets[2], steps[3], steps[4], resets[3], steps[5],
    ]  # fmt: skip


@pytest.mark.parametrize("termination", ["continue", "mask"])
@pytest.mark.parametrize("learner", ["td", "actor-critic"])
@pytest.mark.parametrize("rule", RULES)
def test_the_tape_is_learnt_as_the_listings_say(rule, learner, termination):
    # One tiling of three tiles is a table, and its critic learns as TD does; the masked end bootstraps from zero.
    settings = {"preset": "paper", "rule": rule, "step_size": 0.25, "reward_ratio": 0.5, "num_quantiles": 3}
    settings |= {"termination": termination, "reset_cost": 0.5}
    if learner == "td":
        agent = perstep.TDLearning(Tape(STARTS, STEPS), [0, 0, 0], **settings).learn(6)
        found = [agent.return_quantiles(s) if rule == "d3" else agent.state_value(s) for s in range(3)]
    else:
        agent = perstep.ActorCritic(Tape(STARTS, STEPS, box=True), tilings=1, tiles=3, huber=0.0, **settings).learn(6)
        points = np.array([[0.5], [1.5], [2.5]])
        found = [agent.return_quantiles(p) if rule == "d3" else agent.state_value(p) for p in points]
    values = np.zeros((4, 3)) if rule == "d3" else np.zeros(4)  # the fourth stands for the masked end, and is no state
    theta = [0.0] * (1 if rule == "differential" else 3)
    for (s, r, s_next), end in zip(TRANSITIONS, ENDS, strict=True):
        s_next = 3 if end and termination == "mask" else s_next
        if rule == "differential":
            oracles.differential_td(values, theta, 0.25, 0.5, s, r, s_next)
        else:
            listing = oracles.d2_td if rule == "d2" else oracles.d3_td
            listing(values, theta, 0.25, 0.125, s, r, s_next)
    np.testing.assert_allclose(found, values[:3], rtol=0, atol=1e-12)
    np.testing.assert_allclose(agent.reward_quantiles, theta, rtol=0, atol=1e-12)
    rates = agent.history.reward_rate
    assert rates.tolist() == [r for _, r, _ in TRANSITIONS]  # what is recorded is what was learnt from


# --- Rewards that are none


class Faulty(Corridor):
    """Pays something else at its fourth step."""

    bad: ClassVar[Any] = math.nan

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, self.bad if len(self.taken) == 4 else reward, *rest


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float32("nan"), None, "much", [1.0, 2.0]])
@pytest.mark.parametrize("rule", RULES)
def test_a_reward_that_is_no_number(rule, bad, monkeypatch):
    monkeypatch.setattr(Faulty, "bad", bad)
    agent = perstep.QLearning(Faulty(), rule=rule, num_quantiles=3)
    with pytest.raises(BadReward, match=r"At step 3 the reward must be one finite number, got .*Correct the reward"):
        agent.learn(10)
    assert issubclass(BadReward, ValueError)
    assert estimates(agent) == estimates(perstep.QLearning(Corridor(), rule=rule, num_quantiles=3).learn(3))
    assert agent.learn(10).steps == 13  # it continues from a reset


def test_a_reward_that_is_no_number_on_tiles():
    tape = Tape([0, 0], [(1, 1.0, False, False), (2, math.nan, False, False), (1, 2.0, False, False)], box=True)
    agent = perstep.ActorCritic(tape, tilings=1, tiles=3)
    with pytest.raises(BadReward, match="At step 1 the reward must be one finite number, got nan"):
        agent.learn(3)
    assert agent.steps == 1
    twin = perstep.ActorCritic(Tape([0], [(1, 1.0, False, False)], box=True), tilings=1, tiles=3).learn(1)
    assert estimates(agent) == estimates(twin)


def test_a_reward_that_is_no_number_while_evaluating():
    agent = perstep.QLearning(Faulty())
    with pytest.raises(BadReward, match="At step 3 "):
        agent.evaluate(10)


def test_an_observation_that_is_not_in_the_space():
    agent = perstep.QLearning(Corridor(spaces.Discrete(3)))  # it has four
    with pytest.raises(ValueError, match=r"of the Discrete space of sizes \(3,\) that starts at \(0,\), got 3"):
        agent.learn(1000)


# --- Worlds that do not fit


@pytest.mark.parametrize("world", ["CartPole-v1", "MountainCar-v0", "Pendulum-v1"])
def test_continuous_observations_are_not_for_tables(world):
    with pytest.raises(
        TypeError,
        match=r"discrete observations.*perstep\.ActorCritic and perstep\.TileQ take bounded boxes, perstep\.DeepQ",
    ):
        perstep.QLearning(world)
    with pytest.raises(TypeError, match="TDLearning keeps a row for every state"):
        perstep.TDLearning(world, [0])


def test_continuous_actions_are_for_nobody_here():
    class Continuous(Corridor):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-1.0, 1.0, (1,))

    with pytest.raises(TypeError, match="QLearning chooses among numbered actions, but this world has Box"):
        perstep.QLearning(Continuous())
    with pytest.raises(TypeError, match="ActorCritic chooses among numbered actions, but this world has Box"):
        perstep.ActorCritic("Pendulum-v1")


@pytest.mark.parametrize("world", [RED_PILL, "FrozenLake-v1"])
def test_discrete_observations_are_not_for_tiles(world):
    with pytest.raises(TypeError, match=r"ActorCritic reads boxes of numbers, .*perstep\.QLearning"):
        perstep.ActorCritic(world)


@pytest.mark.parametrize(
    ("world", "meant"),
    [
        ("perstep/RedPilBluePill-v0", RED_PILL),
        ("perstep/InvertedPendulm-v0", PENDULUM),
        ("perstep/TwoLoop-v7", "perstep/TwoLoop-v0"),
        ("Frozenlake", "FrozenLake-v1"),
        ("Frozen Lake-v1", "FrozenLake-v1"),
        ("FrozenLake-v9", "FrozenLake-v1"),
    ],
)
def test_unknown_world_suggests_the_nearest(world, meant):
    with pytest.raises(UnknownName, match=f"There is no world '{world}'. Did you mean '{meant}'?"):
        perstep.QLearning(world)


@pytest.mark.parametrize("world", ["", "no such world at all", "nowhere/Nothing-v0"])
def test_unknown_world_without_a_neighbour(world):
    with pytest.raises(UnknownName, match=f"There is no world '{world}'"):
        perstep.QLearning(world)


@pytest.mark.parametrize("world", [3, None, [RED_PILL], gymnasium.Env, {"id": RED_PILL}, np.zeros((2, 2, 2))])
def test_what_is_no_world(world):
    with pytest.raises(
        TypeError, match=r"A world must be a Gymnasium environment, its id or a perstep\.FiniteMDP, got"
    ):
        perstep.QLearning(world)


def test_make_agent():
    agent = perstep.make_agent("d3-q", RED_PILL, num_quantiles=3)
    assert (type(agent), agent.config.rule) == (perstep.QLearning, "d3")
    agent = perstep.make_agent("differential-td", two_loop(), np.zeros(9, int))
    assert (type(agent), agent.config.rule) == (perstep.TDLearning, "differential")
    assert type(perstep.make_agent("d2-actor-critic", PENDULUM)) is perstep.ActorCritic


# --- Tiles


def test_unbounded_observations_say_how_to_give_bounds():
    # The speeds of CartPole have no bounds in Gymnasium. The compiled CartPole has its own; a wrapped one has none.
    env = TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward)
    for agent in (perstep.ActorCritic, perstep.TileQ):
        with pytest.raises(ValueError, match=r"dimension 1 spans -inf to inf\. Give as low= and high= the range"):
            agent(env)
        given = agent(env, low=(-4.8, -4, -0.42, -4), high=(4.8, 4, 0.42, 4), tilings=2, tiles=3)
        assert given.learn(100).tiles.dimensions == 4


def test_a_compiled_world_has_bounds_of_its_own():
    agent = perstep.ActorCritic("CartPole-v1", tilings=2, tiles=3)
    world = compiled_world(gymnasium.make("CartPole-v1"))
    assert (agent.tiles.low, agent.tiles.high) == (world.low, world.high)
    assert np.isfinite(agent.tiles.low).all()
    assert agent.learn(100).tiles.dimensions == 4
    given = perstep.ActorCritic("CartPole-v1", low=(-9.0,) * 4, high=(9.0,) * 4, tilings=2, tiles=3)
    assert (given.tiles.low, given.tiles.high) == ((-9.0,) * 4, (9.0,) * 4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tilings": 0}, "tilings must be a whole number of at least 1"),
        ({"tiles": 0}, "tiles must be a whole number of at least 1"),
        ({"tiles": (8, 0)}, "tiles must be a whole number of at least 1"),
        ({"tiles": (8, 8, 8)}, "tiles must be one number, or one for each of the 2 dimensions"),
        ({"wrap": (2,)}, "wrap must name dimensions from 0 to 1, got 2"),
        ({"low": (0.0,), "high": (1.0,)}, "Observations have 2 numbers, but there are bounds for 1"),
        ({"low": (0.0, 0.0, 0.0)}, "low and high must be two sequences of the same length"),
        ({"low": (5.0, 0.0)}, "low must be below high, but dimension 0 spans 5.0 to 0.6"),
        ({"table_size": 10}, "table_size must be at least 1 feature for each of the 32 tilings"),
    ],
)
def test_impossible_tiles(settings, words):
    with pytest.raises(ValueError, match=words):
        perstep.ActorCritic("MountainCar-v0", **settings)


def test_observations_outside_the_bounds_are_counted_and_warned_of_once():
    # Bounds 0.6 to 2. Shown are 0.5 (start, outside), 1.5, 2.5 (the end's observation is never entered; the next start 0.5
    # is: outside), 1.5 cut short and then 2.5 (outside), 0.5 (outside).
    steps = [*STEPS[:4], *[(1, 0.0, False, False)] * 5]
    agent = perstep.ActorCritic(Tape(STARTS, steps, box=True), tilings=2, tiles=2, low=(0.6,), high=(2.0,))
    assert agent.clipped == 0
    with pytest.warns(UserWarning, match=r"outside the bounds \[0\.6\] to \[2\.0\] .*Give wider bounds") as told:
        agent.learn(4)
    assert agent.clipped == 4
    assert len(told) == 1
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.learn(5)
    assert agent.clipped == 4
    agent.predict(np.array([[99.0]]))  # a question is no visit
    agent.state_value([99.0])
    assert agent.clipped == 4


def test_observations_inside_the_bounds_are_not_warned_of():
    assert perstep.ActorCritic("MountainCar-v0", tilings=2).learn(300).clipped == 0
    assert perstep.ActorCritic(PENDULUM, tilings=2).learn(300).clipped == 0


def test_wrapped_tiles():
    agent = perstep.ActorCritic(PENDULUM, tilings=4, tiles=4, wrap=(0,)).learn(100)
    assert agent.tiles.num_features == 4 * 4 * 5
    assert agent.state_value([-math.pi, 0.0]) == agent.state_value([math.pi, 0.0])


def test_hashed_tiles():
    agent = perstep.ActorCritic(PENDULUM, table_size=64, tilings=8).learn(200)
    assert agent.tiles.num_features == 64
    assert np.isfinite(agent.state_value([0.0, 0.0]))


# --- Several at once


def test_learn_together_returns_them_in_order():
    agents = [new_agent("q", seed=seed) for seed in range(5)]
    assert perstep.learn_together(iter(agents), 100, threads=2) == agents
    assert [agent.steps for agent in agents] == [100] * 5


def test_learn_together_refuses_what_learn_refuses():
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1"):
        perstep.learn_together([new_agent("q")], 100, threads=0)
    with pytest.raises(ValueError, match="num_steps must be a whole number"):
        perstep.learn_together([new_agent("q")], -5)
    with pytest.raises(BadReward):
        perstep.learn_together([new_agent("q"), perstep.QLearning(Faulty())], 100)
    assert perstep.learn_together([], 100) == []
    for nobody in (None, [RED_PILL], new_agent("q")):
        with pytest.raises(TypeError, match="learn_together expects a list of agents, got"):
            perstep.learn_together(nobody, 100)


def test_agents_that_share_a_life_cannot_learn_together():
    agent, env = new_agent("q"), gymnasium.make("FrozenLake-v1")
    with pytest.raises(ValueError, match="contains the same agent twice"):
        perstep.learn_together([agent, agent], 100)
    with pytest.raises(ValueError, match="Two agents share one Gymnasium environment"):
        perstep.learn_together([perstep.QLearning(env), perstep.QLearning(env)], 100)


def test_saved_settings_and_world_are_in_the_file(tmp_path):
    perstep.QLearning("FrozenLake-v1", epsilon=0.25).learn(10).save(tmp_path / "a.safetensors")
    _, metadata = read(tmp_path / "a.safetensors")
    assert (metadata["agent"], metadata["steps"]) == ("QLearning", 10)
    assert metadata["config"]["epsilon"] == 0.25
    assert metadata["world"]["name"] == "FrozenLake-v1"


def test_a_class_loads_its_file_in_a_new_process(tmp_path):
    perstep.QLearning("perstep/TwoLoop-v0").learn(10).save(tmp_path / "agent.safetensors")
    code = "import perstep, sys; print(perstep.QLearning.load(sys.argv[1]).steps)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "agent.safetensors"], capture_output=True, text=True)
    assert done.stdout == "10\n", done.stderr
