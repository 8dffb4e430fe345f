"""The defaults of networks: they learn untuned, follow the scale of the rewards, and look as far as the task needs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import oracles
import perstep
from perstep.deep.settings import DeepQConfig
from perstep.deep.stream import take_in
from perstep.numerics.randomness import make_generator
from perstep.rules import transition as rules
from perstep.worlds import two_loop

torch = pytest.importorskip("torch")
from perstep.deep import losses  # noqa: E402
from perstep.deep.inputs import InputScale  # noqa: E402
from perstep.deep.replay import Replay  # noqa: E402

RULES = ["differential", "d2", "d3"]
SMALL = {
    "learning_starts": 50, "epsilon_steps": 200, "update_every": 2, "batch_size": 16, "num_quantiles": 11, "hidden": (16,),
    "replay_capacity": 1000, "device": "cpu", "threads": 1,
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("one_thread")


class Corridor(gymnasium.Env):
    """A walk between a good end and a bad one, or without ends; rewards `scale` times what they are, plus `shift`."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, scale=1.0, shift=0.0, ends=True):
        self.scale, self.shift, self.ends = scale, shift, ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self._see(), {}

    def step(self, action):
        noise = float(self.np_random.integers(-2, 3)) / 4
        self.place += (1 if action else -1) if self.np_random.random() < 0.8 else 0
        reward = (1.0 if self.place > 3 else -0.25 * abs(self.place)) + noise
        over = abs(self.place) > 3
        if over and not self.ends:
            self.place = 0
        return self._see(), self.scale * reward + self.shift, over and self.ends, False, {}

    def _see(self):
        return np.array([100.0 * self.place, 0.01 * self.place**2], np.float32)


def learnt(env, steps=500, **settings):
    return perstep.DeepQ(env, **{**SMALL, **settings}).learn(steps)


# ------------------------------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize(("rule", "steps"), [("d2", 12_000), ("d3", 20_000)])  # d2 has the values of differential
def test_cart_pole_is_learnt_untuned(rule, steps):
    agent = perstep.DeepQ("CartPole-v1", rule=rule, seed=0, threads=1, device="cpu", reset_cost=10.0).learn(steps)
    assert agent.evaluate(2000, deterministic=True, seed=1).episode_returns.mean() >= 150
    assert 0.8 < agent.average_reward <= 1.0


@pytest.mark.parametrize("rule", RULES)
def test_average_and_distribution_are_those_of_late_rewards(rule):
    agent = perstep.DeepQ(Corridor(100.0, -500.0, ends=False), **SMALL, rule=rule, epsilon=0.2)
    agent.record_every(100).learn(4000)
    late = agent.history.reward_rate[-5:].mean()
    assert agent.average_reward == pytest.approx(late, abs=10.0)
    if rule != "differential":
        seen = agent.evaluate(2000)
        for level in (0.1, 0.5, 0.9):
            assert agent.reward_distribution.quantile(level) == pytest.approx(
                seen.reward_distribution.quantile(level), abs=25.0
            )


def test_extreme_quantiles_follow_a_policy_that_has_become_good():
    """Rewards about −500 at first, −10 later: a tenth of the steps suffices for the lowest of 51 quantiles."""
    agent = perstep.DeepQ("CartPole-v1", rule="d2", device="cpu")
    rng = np.random.default_rng(0)
    for step in range(20_000):
        take_in(
            agent.config.kernel,
            agent._rewards,
            *agent._stream,
            rng.normal(-500.0, 50.0) if step < 4000 else rng.normal(-10.0, 5.0),
            False,
            step,
        )
    np.testing.assert_allclose(agent.learned_distribution.quantile([0.05, 0.5, 0.95]), [-18.2, -10.0, -1.8], atol=6.0)
    assert agent.reward_quantiles.min() > -60.0
    assert agent.average_reward == pytest.approx(
        -10.0 - 490.0 * (4 / 20) ** 3, abs=1.0
    )  # of a memory of a third of the steps


# --------------------------------------------------------------------------------------------------------------- scale


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [4.0, 2.0**-7])
def test_scaled_rewards_lead_to_the_same_run_to_the_bit(rule, scale):
    one, other = learnt(Corridor(), rule=rule), learnt(Corridor(scale), rule=rule)
    assert one.updates > 200
    np.testing.assert_array_equal(one._network.weights(), other._network.weights())
    np.testing.assert_array_equal(one._generator, other._generator)
    np.testing.assert_array_equal(scale * one.reward_quantiles, other.reward_quantiles)
    assert scale * one.average_reward == other.average_reward
    here = np.array([100.0, 0.01], np.float32)
    np.testing.assert_array_equal(scale * one.action_values(here), other.action_values(here))


@pytest.mark.parametrize("rule", RULES)
def test_shifted_rewards_lead_to_nearly_the_same_estimates_where_nothing_ends(rule):
    settings = {"rule": rule, "epsilon": 1.0, "longest_repeat": 1}  # the same actions, whatever the last bits are
    one, other = learnt(Corridor(ends=False), **settings), learnt(Corridor(3.0, 50.0, ends=False), **settings)
    np.testing.assert_allclose(other.reward_quantiles, 3.0 * one.reward_quantiles + 50.0, rtol=1e-9)
    here = np.array([100.0, 0.01], np.float32)
    np.testing.assert_allclose(other.action_values(here), 3.0 * one.action_values(here), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("rule", RULES)
def test_a_new_unit_changes_no_value(rule):
    learner = learnt(Corridor(), rule=rule)._network
    point = np.array([[100.0, 0.01]], np.float32)
    before, unit = learner.values(point), learner.unit
    moments = {
        weight: state["exp_avg"] / state["exp_avg_sq"].sqrt() for weight, state in learner.optimizer.state.items()
    }
    rewards = rules.reward_estimate(1, 0.0, scale_free=True)
    rewards.units[:] = learner_units(3.0 * unit)
    assert learner.follow_unit(rewards)
    assert learner.unit == pytest.approx(3.0 * unit)
    np.testing.assert_allclose(learner.values(point), before, rtol=1e-5, atol=1e-6)
    for weight, state in learner.optimizer.state.items():  # Adam's next step is the same share of a weight
        torch.testing.assert_close(state["exp_avg"] / state["exp_avg_sq"].sqrt(), moments[weight], equal_nan=True)


def learner_units(of_returns):
    units = np.zeros_like(rules.reward_estimate(1, 0.0).units)
    units[6] = of_returns**2
    return units


def test_nothing_is_learnt_while_all_rewards_are_equal_and_nothing_ends():
    agent = learnt(gymnasium.make("MountainCar-v0"), 150)
    assert agent.updates == 0
    assert agent.epsilon == 1.0
    assert agent.average_reward == -1.0


def test_the_step_fits_the_network():
    def ratio(world, **settings):
        return perstep.DeepQ(world, **{**SMALL, **settings})._network._ratio

    assert ratio(Corridor()) == 1.0
    assert ratio(Corridor(), hidden=(800, 800)) == 0.2
    assert ratio("perstep/MinAtar-Breakout-v0") == 2.5
    assert ratio("perstep/MinAtar-Breakout-v0", network_ratio=0.5) == 0.5
    assert ratio("perstep/MinAtar-Breakout-v0", preset="paper") == 1.0
    with pytest.raises(ValueError, match="no network_ratio 'large'"):
        ratio(Corridor(), network_ratio="large")


def test_inputs_are_standardized():
    points = np.random.default_rng(0).normal((5.0, -300.0, 7.0), (2.0, 50.0, 0.0), (500, 3)).astype(np.float32)
    scale = InputScale(3)
    np.testing.assert_array_equal(scale.standardized(points[:1]), points[:1].clip(-10, 10))  # nothing seen
    for point in points:
        scale.see(point)
    np.testing.assert_allclose(scale.mean, points.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale.square, points.var(0), rtol=1e-4, atol=1e-9)
    read = scale.standardized(points)
    np.testing.assert_allclose(read.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(read.std(0), [1.0, 1.0, 0.0], atol=1e-4)
    assert scale.standardized(np.array([[1e6, 0.0, 7.0]])).max() == 10.0


# --------------------------------------------------------------------------------------------------------------- level


def test_values_of_differential_are_those_of_d2():
    """R̄ of both follows the rewards as they are earned."""
    d2, differential = learnt(Corridor(), rule="d2"), learnt(Corridor(), rule="differential")
    assert d2.updates > 200
    np.testing.assert_array_equal(d2._network.weights(), differential._network.weights())
    assert d2.average_reward == pytest.approx(differential.average_reward, rel=1e-12)


@pytest.mark.parametrize("rule", ["d2", "d3"])
def test_values_keep_their_level(rule):
    """One state, and actions that pay 0 and 1. Half of the actions are random, so that R̄ is ¾ where the best action earns 1: values
    rise by ¼ at every step that they look further. With κ = ¼ they come to rest at (1 − ¾)/κ = 1, and R̄ stays what it is."""
    world = perstep.FiniteMDP(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]))
    settings = {
        "rule": rule,
        "epsilon": 0.5,
        "longest_repeat": 1,
        "return_steps": 1,
        "target_lag": 10.0,
        "step_size": 3e-3,
        **SMALL,
    }
    held = perstep.DeepQ(world, level_ratio=0.25, **settings).learn(3000)
    assert held.action_values(0).max() == pytest.approx(1.0, abs=0.3)
    assert held.average_reward == pytest.approx(0.75, abs=0.05)
    risen = perstep.DeepQ(world, level_ratio=0.0, **settings).learn(3000)
    assert risen.action_values(0).max() > 20.0


def test_the_level_prefers_no_action():
    """Two loops, whose best policy earns 0.4; R̄ says 0.1. All pairs of a state and an action are one minibatch. Values come to rest
    where R̄ + κ · level = 0.4, and differ from each other as those of the exact solution do."""
    mdp, average, share = two_loop(), 0.1, 0.25
    following = np.array([[1, 5], [2, 2], [3, 3], [4, 4], [0, 0], [6, 6], [7, 7], [8, 8], [0, 0]])
    paid = np.zeros((9, 2))
    paid[0, 0], paid[8] = 1.0, 2.0
    settings = losses.Settings(rules.D2, 1.0, "stream", torch.tensor([0.5]), level_share=share)
    values = np.zeros((9, 2))
    for _ in range(300):
        ahead = values.max(1)[following].reshape(-1, 1)
        look = losses.Look(torch.tensor(values.reshape(-1, 1)), torch.tensor(ahead))
        steps = rules.Steps(0.0, 0.0, 0.0)
        delta = losses.loss(rules.reward_estimate(1, average), paid.ravel(), look, steps, settings).delta
        values += 0.5 * delta.numpy().reshape(9, 2)
    assert average + share * values.max(1)[following].mean() == pytest.approx(0.4, abs=1e-6)
    exact = mdp.solve().action_values
    np.testing.assert_allclose(values - values.mean(), exact - exact.mean(), atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------- ends


@pytest.mark.parametrize("rule", RULES)
def test_rewards_stop_at_an_end(rule):
    """The loss against its transcription, in values divided by a unit."""
    rng, n, unit, gamma = np.random.default_rng(1), 1 if rule != "d3" else 5, 7.0, 0.9
    reward, done = rng.normal(3.0, 10.0, 6), np.array([True, False, True, False, False, False])
    estimate, bootstrap = rng.normal(size=(2, 6, n))
    rewards = rules.reward_estimate(1, 2.5)
    tau = torch.tensor(rules.levels(n))
    settings = losses.Settings(
        rules.RULES[rule].number_with(huber=1.0), 1.0, "stream", tau, gamma, end_divisor=1 - gamma
    )
    steps = rules.Steps(0.1, 0.0, 0.0, 2.0, unit)
    after_end = losses.value_after_end(rewards, steps, settings)
    ahead = torch.tensor(np.where(done[:, None], after_end, bootstrap))
    loss = losses.loss(rewards, reward, losses.Look(torch.tensor(estimate), ahead), steps, settings).value
    known = oracles.stopping_deep_q(reward, done, 2.5, gamma, unit * estimate, unit * bootstrap, unit, rule == "d3")
    assert float(loss) == pytest.approx(known, rel=1e-12)
    assert rewards.theta[0] == 2.5  # it moves with the stream


def test_centered_values_with_a_stop_are_the_uncentered_discounted_ones():
    """One state that ends with probability ¼: v = r + γ ¾ v. Centered: v − R̄/(1 − γ), whatever R̄ is."""
    gamma, reward, average = 0.9, 2.0, 1.3
    uncentered = reward / (1 - 0.75 * gamma)
    centered = uncentered - average / (1 - gamma)
    after_end = -average / (1 - gamma)
    assert reward - average + gamma * (0.75 * centered + 0.25 * after_end) == pytest.approx(centered, rel=1e-12)


# ------------------------------------------------------------------------------------------------------- several steps


@pytest.mark.parametrize("num_steps", [2, 3, 5])
def test_transitions_over_several_steps_are_their_discounted_sums(num_steps):
    """Two environments, whose episodes end or are cut off; the observation of step t is t, and its reward too."""
    rng, gamma, added, capacity = np.random.default_rng(num_steps), 0.9, 60, 64
    replay = Replay(
        capacity, (1,), "float32", stacked=False, num_envs=2, batch_size=512, num_steps=num_steps, discount=gamma
    )
    for env in (0, 1):
        replay.start(env, np.array([1000.0 * env], np.float32))
    stories = []  # of every transition: its environment, S, reward, S′, masked, whether a new episode follows
    clock = [0, 0]
    for _ in range(added):
        env, kind = int(rng.integers(2)), rng.choice(["step", "end", "cut"], p=[0.7, 0.15, 0.15])
        clock[env] += 1
        after = np.array([1000.0 * env + clock[env]], np.float32)
        if kind == "cut":
            clock[env] += 1
        resume = np.array([1000.0 * env + clock[env]], np.float32) if kind == "cut" else after
        replay.add(env, 0, float(clock[env]), after, kind == "end", resume)
        stories.append((env, float(after[0]) - 1, float(clock[env]), float(after[0]), kind == "end", kind != "step"))
    batch = replay.sample(make_generator(0))
    known = {}
    for i, (env, here, *_) in enumerate(stories):
        total, length = 0.0, 0
        for other, _, reward, after, masked, new_episode in stories[i:]:
            if other == env:
                total, length = total + gamma**length * reward, length + 1
                known[here] = total, length, after, masked
                if new_episode or length == num_steps:
                    break
    assert len(np.unique(batch.observation)) == added
    for b in range(512):
        total, length, after, masked = known[float(batch.observation[b, 0])]
        assert batch.reward[b] == pytest.approx(total, rel=1e-12)
        assert (batch.length[b], batch.next_observation[b, 0], batch.masked[b]) == (length, after, masked)


def test_several_steps_of_the_average_are_subtracted():
    # γ = ½, R̄ = 2. Three steps: R = 5 − 2 (1 + ½ + ¼) + v/8 = 1.5 + v/8; one step: 5 − 2 + v/2.
    rewards, settings = (
        rules.reward_estimate(1, 2.0),
        losses.Settings(rules.DIFFERENTIAL, 1.0, "stream", torch.ones(1), 0.5),
    )
    look = losses.Look(torch.zeros(2, 1), torch.tensor([[8.0], [8.0]]), length=np.array([3, 1]))
    loss = losses.loss(rewards, np.array([5.0, 5.0]), look, rules.Steps(0.1, 0.1, 0.0), settings)
    assert loss.delta.tolist() == [2.5, 7.0]


# --------------------------------------------------------------------------------------------------------- exploration


def test_random_actions_are_repeated_and_their_share_is_epsilon():
    agent = learnt(Corridor(), 400, rule="d2", epsilon=0.3, initial_epsilon=0.3, longest_repeat=20)
    agent._network.online.head.weight.data[:] = 0.0
    agent._network.online.head.bias.data[:] = torch.tensor([0.0, 1.0])  # the greedy action is 1
    points = np.zeros((1, 2), np.float32)
    zeros = np.array([agent._behave(points)[0] == 0 for _ in range(40_000)])
    assert zeros.mean() == pytest.approx(0.15, abs=0.015)
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], zeros, [0]]).astype(int))))[::2]
    assert runs.max() > 5


def test_at_the_end_random_actions_are_not_repeated():
    agent = learnt(Corridor(), 400, rule="d2", epsilon=0.3)
    assert agent.epsilon == pytest.approx(0.3)
    assert (
        max(agent._repeats[0, 0] for _ in range(1000) if agent._behave(np.zeros((1, 2), np.float32)) is not None) == 0
    )


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("rule", RULES)
def test_a_saved_agent_goes_on_to_the_bit(rule, tmp_path):
    whole = perstep.DeepQ("CartPole-v1", rule=rule, reset_cost=10.0, **SMALL).learn(400)
    half = perstep.DeepQ("CartPole-v1", rule=rule, reset_cost=10.0, **SMALL).learn(213)
    half.save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors").learn(187)
    assert again._network.unit == whole._network.unit > 0
    np.testing.assert_array_equal(again._network.weights(), whole._network.weights())
    np.testing.assert_array_equal(again._rewards.units, whole._rewards.units)
    np.testing.assert_array_equal(again._network.inputs.square, whole._network.inputs.square)
    np.testing.assert_array_equal(again._repeats, whole._repeats)
    np.testing.assert_array_equal(again.history.reward_rate, whole.history.reward_rate)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unit", [-1.0]),
        ("unit", [np.nan]),
        ("inputs.square", [-1.0] * 4),
        ("inputs.mean", [0.0]),
        ("repeats", [[80, 0]]),
    ],
)
def test_damaged_units_are_refused(name, value, tmp_path):
    agent = perstep.DeepQ("CartPole-v1", **SMALL).learn(100)
    agent.save(path := tmp_path / "agent.safetensors")
    arrays, metadata = perstep.files.storage.read(path)
    full = name if name == "repeats" else f"learner.{name}"
    arrays[full] = np.array(value, arrays[full].dtype)
    perstep.files.storage.write(path, arrays, metadata)
    with pytest.raises(perstep.files.storage.BadFile):
        perstep.load(path)


# ------------------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_discounted_and_an_end_is_an_ordinary_step(rule):
    agent = perstep.DeepQ(two_loop(), rule=rule, **SMALL).learn(300)
    config = agent.config
    assert (config.discount, config.termination, config.reward_tracking, config.return_steps) == (
        1.0,
        "continue",
        "stream",
        3,
    )


@pytest.mark.parametrize("settings", [{"discount": 0.99}, {"discount": 1.0}, {"termination": "stop", "discount": 0.9}])
def test_naming_a_discount_changes_no_other_setting(settings):
    plain, named = DeepQConfig.of({}).settings(), DeepQConfig.of(settings).settings()
    assert {name for name in plain if plain[name] != named[name]} <= settings.keys()


def test_a_risk_level_has_a_discount_of_its_own():
    config = DeepQConfig.of({"risk_level": 0.1})
    assert (config.discount, config.risk_discount, config.has_risk_heads) == (1.0, 0.99, True)
    with pytest.raises(ValueError, match="needs a risk_discount below 1"):
        DeepQConfig.of({"risk_level": 0.1, "risk_discount": 1.0})


def test_a_lag_in_steps_takes_the_place_of_the_step_of_the_target_network():
    assert DeepQConfig.of({"target_lag": 200.0, "update_every": 8}).target_step == 0.04
    assert DeepQConfig.of({"target_lag": 2.0}).target_step == 1.0
    named = DeepQConfig.of({"target_step_size": 0.005})
    assert (named.target_step, named.target_lag) == (0.005, None)
    with pytest.raises(ValueError, match="Name one of them"):
        DeepQConfig.of({"target_step_size": 0.005, "target_lag": 80.0})
    with pytest.raises(ValueError, match="Give target_lag or target_step_size"):
        DeepQConfig.of({"target_step_size": None, "target_lag": None})


@pytest.mark.parametrize(("settings", "share"), [({}, 0.01), ({"discount": 0.9}, 0.0), ({"termination": "mask"}, 0.0)])
def test_the_level_of_values_is_held_where_it_is_free(settings, share):
    assert DeepQConfig.of(settings).level_share == share


def test_a_share_of_the_level_is_subtracted_with_the_average():
    # R̄ = 2, the level of the bootstrap is 6, κ = ¼, in a unit of 2. Three steps: 5/2 − 3 (1 + 6/4) + 8 = 3; one: 5/2 − 2.5 + 4.
    rewards = rules.reward_estimate(1, 2.0)
    settings = losses.Settings(rules.RUNNING_MEAN, 1.0, "stream", torch.ones(1), level_share=0.25)
    look = losses.Look(torch.zeros(2, 1), torch.tensor([[8.0], [4.0]]), length=np.array([3, 1]))
    loss = losses.loss(rewards, np.array([5.0, 5.0]), look, rules.Steps(0.1, 0.0, 0.0, 1.0, 2.0), settings)
    assert loss.delta.tolist() == [3.0, 4.0]


def test_paper_is_one_word():
    assert perstep.DeepQ("CartPole-v1", preset="paper").config == DeepQConfig()


@pytest.mark.parametrize("rule", RULES)
def test_a_world_that_changes_has_constant_steps(rule):
    agent = perstep.DeepQ("CartPole-v1", preset="changing", rule=rule)
    assert agent.config.schedule().theta_power == 0.0


def test_a_small_network_for_grids_has_larger_steps():
    def first_step(world, **settings):
        agent = perstep.DeepQ(world, seed=0, **settings)
        return agent._network.optimizer.param_groups[0]["lr"] / agent.config.value_decay(0)

    assert first_step("perstep/MinAtar-Breakout-v0") == 2.5
    assert first_step("CartPole-v1") == 1.0
    assert first_step("perstep/MinAtar-Breakout-v0", preset="paper") == 1.0
