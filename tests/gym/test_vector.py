"""Vector environments: the same transitions in every autoreset mode, and never a made-up one."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import perstep
from perstep.gym.behaviour import Ends
from perstep.gym.spaces import discrete_actions
from perstep.gym.vector import VectorWorld, autoreset_mode

pytest.importorskip("torch")

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
LENGTHS = (3, 1, 4, 2)  # of episodes in turn; the even ones terminate, the odd ones are cut off


class Counter(gymnasium.Env):
    """Observes (environment, episode, step within it); every reward is another number."""

    def __init__(self, number):
        self.number, self.episode, self.count = number, -1, 0
        self.observation_space = gymnasium.spaces.Box(0, 1000, (3,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2, start=5)

    def _observe(self):
        return np.array([self.number, self.episode, self.t], float)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action):
        assert action in (5, 6)
        self.t, self.count = self.t + 1, self.count + 1
        turn = (self.episode + self.number) % len(LENGTHS)
        over = self.t >= LENGTHS[turn]
        reward = 100.0 * self.number + self.count
        return self._observe(), reward, over and turn % 2 == 0, over and turn % 2 == 1, {}


def truth(number, steps, reset_cost=0.0):
    """What one environment does, told plainly: (S, R, S′, terminated, where it goes on)."""
    env = Counter(number)
    here, _ = env.reset()
    for _ in range(steps):
        following, reward, terminated, truncated, _ = env.step(5)
        resume = env.reset()[0] if terminated or truncated else following
        following = resume if terminated else following
        yield here.tolist(), reward - reset_cost * terminated, following.tolist(), terminated, resume.tolist()
        here = resume


def true_returns(number, steps):
    """The sums of rewards of the episodes that end within so many steps, without the cost of resets."""
    total = 0.0
    for _, reward, following, terminated, resume in truth(number, steps):
        total += reward
        if terminated or resume != following:
            yield total
            total = 0.0


class Listener:
    """A learner that writes down what it is told."""

    def __init__(self, num_envs, masks):
        self.here, self.told, self.returns = [None] * num_envs, [[] for _ in range(num_envs)], []
        self.masks = masks

    def read(self, observation):
        return np.asarray(observation)

    def begin(self, env, point):
        self.here[env] = point.tolist()

    def learn_from(self, transition):
        env, action, reward, _, following, terminated, masked, resume = transition
        assert action in (0, 1)
        assert masked == (terminated and self.masks)
        self.told[env].append((self.here[env], reward, following.tolist(), terminated, resume.tolist()))
        assert (resume is following) == (following.tolist() == resume.tolist())
        self.here[env] = resume.tolist()

    def note_end(self, episode_return):
        self.returns.append(episode_return)

    def act_at(self, points):
        assert [point.tolist() for point in points] == self.here or self.late
        return np.zeros(len(points), np.int64)

    late = False


def vector(mode, num_envs):
    return SyncVectorEnv([lambda number=number: Counter(number) for number in range(num_envs)], autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("mask", [False, True])
def test_every_mode_tells_the_same(mode, num_envs, mask):
    env, listener = vector(mode, num_envs), Listener(num_envs, mask)
    ends = Ends.of("mask" if mask else "continue", 0.25)
    world = VectorWorld(env, ends, 0, discrete_actions(env.single_action_space, "An agent"))
    listener.late = mode is AutoresetMode.NEXT_STEP  # an end is told when the next start is known
    for stretch in (1, 10, 40):
        before = sum(map(len, listener.told))
        world.learn(listener, before, stretch)
        assert stretch <= sum(map(len, listener.told)) - before < stretch + num_envs
    for number, told in enumerate(listener.told):
        assert len(told) >= 15
        assert told == list(truth(number, len(told), 0.25))
    returns = [episode for number, told in enumerate(listener.told) for episode in true_returns(number, len(told))]
    assert sorted(listener.returns) == sorted(returns)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_agent_counts_and_records_real_steps_only(mode, num_envs):
    agent = perstep.DeepQ(vector(mode, num_envs), rule="d2", replay_capacity=100, hidden=(4,), num_quantiles=3)
    agent.record_every(1).learn(40)
    assert 40 <= agent.steps < 40 + num_envs
    assert len(agent._replay) == agent.steps
    told = sorted(agent.history.reward_rate)
    real = sorted(reward for number in range(num_envs) for _, reward, *_ in truth(number, 60))
    assert set(told) <= set(real)
    assert min(told) >= 1.0  # no made-up reward of 0
    assert len(set(told)) == agent.steps  # and none twice


def test_masking_in_vector_worlds():
    for termination in ("mask", "continue"):
        agent = perstep.DeepQ(vector(MODES[1], 2), termination=termination, replay_capacity=100, hidden=(4,)).learn(50)
        masked = agent._replay.arrays()["masked"].sum()
        assert (masked > 5) if termination == "mask" else masked == 0


@pytest.mark.parametrize("mode", MODES)
def test_replay_of_a_vector_world_holds_its_transitions(mode):
    agent = perstep.DeepQ(vector(mode, 2), replay_capacity=100, hidden=(4,), return_steps=1, epsilon=1.0).learn(60)
    known = {}
    for number in range(2):
        known |= {reward: (here, following) for here, reward, following, *_ in truth(number, 60)}
    for _ in range(10):
        batch = agent._replay.sample(agent._generator)
        for here, reward, following in zip(batch.observation, batch.reward, batch.next_observation, strict=True):
            assert (here.tolist(), following.tolist()) == known[reward]


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_in_a_vector_world(mode):
    agent = perstep.DeepQ(vector(mode, 2), replay_capacity=100, hidden=(4,)).learn(20)
    evaluation = agent.evaluate(30)
    assert evaluation.num_steps == 30
    assert evaluation.average_reward > 0
    assert len(evaluation.episode_returns) >= 5
    agent.learn(10)  # from a fresh reset


def test_snapshots_of_a_vector_world_are_at_the_next_whole_step():
    agent = perstep.DeepQ(vector(MODES[1], 3), replay_capacity=100, hidden=(4,)).learn(20, snapshot_at=(0, 10, 20))
    assert [snapshot.step for snapshot in agent.snapshots] == [0, 12, 21]


def test_a_vector_environment_of_gymnasium_by_name():
    env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    agent = perstep.DeepQ(env, rule="d2", replay_capacity=300, learning_starts=100, hidden=(8,), reset_cost=5.0).learn(
        200
    )
    assert agent.updates >= 25
    assert min(agent.history.reward_rate) == -4.0  # an end costs
    assert set(agent.history.reward_rate) <= {1.0, -4.0}  # and nothing is 0


@pytest.mark.parametrize("mode", MODES)
def test_what_an_end_costs_is_found_in_a_vector_as_in_one_world(mode):
    small = {"replay_capacity": 300, "learning_starts": 300, "hidden": (4,), "epsilon": 1.0, "initial_epsilon": 1.0}
    small |= {"termination": "continue", "reset_cost": "auto"}
    env = gymnasium.make_vec("CartPole-v1", 2, "sync", vector_kwargs={"autoreset_mode": mode})
    agent = perstep.DeepQ(env, **small).record_every(1).learn(200)
    history = agent.history
    first = history.episode_return[history.episodes > 0][0]
    assert agent.reset_cost == first > 0.0
    assert set(history.reward_rate) == {1.0, 1.0 - first}
    agent.evaluate(100)
    assert agent.reset_cost == first  # found while learning only
    assert perstep.DeepQ(vector(mode, 2), **small).learn(20).reset_cost == 0.0  # its rewards differ


@pytest.mark.parametrize("mode", MODES)
def test_after_an_error_in_the_middle_of_a_step_it_goes_on_from_a_reset(mode):
    small = {"replay_capacity": 100, "hidden": (4,), "batch_size": 4, "learning_starts": 4, "return_steps": 1}
    agent = perstep.DeepQ(vector(mode, 3), **small).learn(20)
    whole, agent._network.update = agent._network.update, lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        agent.learn(20)
    agent._network.update = whole
    agent.learn(20)
    for _ in range(20):
        batch = agent._replay.sample(agent._generator)
        same = batch.observation[:, 1] == batch.next_observation[:, 1]  # within an episode its clock goes on by one
        assert (batch.next_observation[same, 2] == batch.observation[same, 2] + 1).all()
        assert (batch.next_observation[~same, 2] == 0).all()


@pytest.mark.parametrize("error", [EOFError, BrokenPipeError, ConnectionResetError])
def test_a_part_that_dies_is_said(error):
    """What AsyncVectorEnv raises when the process of an environment was killed."""
    env = vector(AutoresetMode.NEXT_STEP, 2)
    agent = perstep.DeepQ(env, replay_capacity=100, hidden=(4,), batch_size=4, learning_starts=4).learn(10)

    def dies(actions):
        raise error

    env.step = dies
    with pytest.raises(RuntimeError, match="The process of one of the 2 environments ended at step"):
        agent.learn(10)
    assert agent.steps == 10


def test_an_evaluation_has_the_agent_s_seed_and_leaves_learning_its_own():
    def agent():
        env = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        return perstep.DeepQ(env, rule="d2", replay_capacity=300, hidden=(8,), epsilon_steps=0)

    plain, evaluated = agent(), agent()
    first, second = evaluated.evaluate(100), evaluated.evaluate(100)
    assert first.episode_returns.tolist() == second.episode_returns.tolist()
    np.testing.assert_array_equal(plain.learn(60)._replay.sample(plain._generator).observation,
                                  evaluated.learn(60)._replay.sample(evaluated._generator).observation)  # fmt: skip


def test_unknown_mode_is_refused():
    env = vector(MODES[0], 1)
    env.metadata = {}
    with pytest.raises(
        ValueError, match=r"got None\. Without it, the extra steps after the ends of episodes cannot be"
    ):
        autoreset_mode(env)


def test_same_step_without_the_last_observation_is_refused():
    env = vector(MODES[0], 2)
    env.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    with pytest.raises(RuntimeError, match=r"info\['final_obs'\] is missing"):
        perstep.DeepQ(env, replay_capacity=100).learn(30)


SETTINGS_OF_ALE = {  # every one that differs between projects, so that no default decides
    "repeat_action_probability": 0.25, "reward_clipping": True, "use_fire_reset": True, "episodic_life": False, "noop_max": 30,
    "frameskip": 4, "maxpool": True, "stack_num": 4, "grayscale": True, "img_height": 84, "img_width": 84,
}  # fmt: skip


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_vector_of_ale_in_its_own_threads(mode, tmp_path, one_thread):
    pytest.importorskip("ale_py")

    def games():
        return gymnasium.make_vec(
            "ale_py:ALE/Breakout-v5", num_envs=2, autoreset_mode=mode, max_num_frames_per_episode=80, **SETTINGS_OF_ALE
        )

    def agent():
        small = {"preset": "paper", "hidden": (8,), "replay_capacity": 200, "learning_starts": 60, "batch_size": 4}
        return perstep.DeepQ(games(), seed=3, threads=1, device="cpu", **small)

    one, again = agent().learn(120), agent().learn(120)
    assert type(one._vector_world.env.unwrapped).__name__ == "AtariVectorEnv"  # not one environment after the other
    assert one._replay.stacked  # a screen is kept once
    assert one.steps == 120
    assert one.updates > 0
    for name, weights in one.network.state_dict().items():
        np.testing.assert_array_equal(weights, again.network.state_dict()[name])
    one.save(tmp_path / "a.safetensors")
    with pytest.warns(UserWarning, match="fresh reset"):
        loaded = perstep.load(tmp_path / "a.safetensors", env=games())
    screen = np.full((4, 84, 84), 100, np.uint8)
    np.testing.assert_array_equal(loaded.action_values(screen), one.action_values(screen))
    found = loaded.evaluate(100, deterministic=False, seed=1)
    assert len(found.episode_returns) > 0  # games are cut after 20 steps
    assert set(found.reward_distribution.means) <= {-1.0, 0.0, 1.0}
    assert loaded.learn(20).steps == 140
