"""The defaults that people get: good for any scale of rewards, right in worlds whose answer is exact, and the paper on request."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.deep.settings import DeepQConfig
from perstep.numerics import scale as units
from perstep.rules import presets
from perstep.rules import transition as rules
from perstep.rules.lattice import ALGORITHMS, LEARNERS
from perstep.tabular import kernel as tabular
from perstep.worlds import access_control, garnet, two_loop

RULES = ("differential", "d2", "d3")


def scaled(mdp, factor, shift=0.0):
    """The same world with the rewards factor · R + shift."""
    outcomes = mdp.outcomes
    cap = None if np.isinf(outcomes.cap) else outcomes.cap * factor + shift
    mean, sd = outcomes.mean * factor + shift, outcomes.sd * factor
    return perstep.FiniteMDP.from_outcomes(
        outcomes.probability, outcomes.next_state, mean, sd, cap, initial=mdp.initial
    )


def score(mdp, agent):
    """0 is the random policy, 1 the optimum."""
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    low, high = mdp.evaluate(uniform, start=mdp.initial).average_reward, mdp.solve().average_reward
    greedy = mdp.evaluate(agent.policy(deterministic=True), epsilon=1e-6, start=mdp.initial).average_reward
    return (greedy - low) / (high - low)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("learner", ["q", "td"])
@pytest.mark.parametrize("factor", [2.0**10, 2.0**-10])
def test_the_scale_of_rewards_changes_nothing_to_the_bit(rule, learner, factor):
    mdp = garnet(12, 3, 4, seed=4)
    worlds = mdp, scaled(mdp, factor)
    if learner == "q":
        plain, other = (perstep.QLearning(world, rule=rule, seed=5).learn(20_000) for world in worlds)
        np.testing.assert_array_equal(plain.visits, other.visits)
        np.testing.assert_array_equal(plain.all_action_values * factor, other.all_action_values)
    else:
        uniform = np.full((12, 3), 1 / 3)
        plain, other = (perstep.TDLearning(world, uniform, rule=rule, seed=5).learn(20_000) for world in worlds)
        np.testing.assert_array_equal(plain.state_values * factor, other.state_values)
    np.testing.assert_array_equal(plain.reward_quantiles * factor, other.reward_quantiles)
    assert plain.average_reward * factor == other.average_reward


@pytest.mark.parametrize("rule", RULES)
def test_any_scale_and_shift_lead_to_the_same_actions(rule):
    """Up to rounding, which can decide a tie: so few steps that none comes about."""
    mdp = garnet(12, 3, 4, seed=4)
    plain = perstep.QLearning(mdp, rule=rule, seed=5).learn(5_000)
    other = perstep.QLearning(scaled(mdp, 300.0, -7000.0), rule=rule, seed=5).learn(5_000)
    np.testing.assert_array_equal(plain.visits, other.visits)
    np.testing.assert_allclose(300.0 * plain.reward_quantiles - 7000.0, other.reward_quantiles, atol=1e-6)
    np.testing.assert_allclose(300.0 * plain.all_action_values, other.all_action_values, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("world", "least"),
    [
        (two_loop, 0.999),
        (lambda: scaled(garnet(20, 3, 3, seed=5), 1e-3, 0.5), 0.98),
    ],
    ids=["two-loop", "garnet / 1000"],
)
def test_the_policy_is_good_and_the_average_true_without_any_setting(rule, world, least):
    mdp = world()
    agent = perstep.QLearning(mdp, rule=rule, seed=1).learn(300_000)
    assert score(mdp, agent) >= least
    spread = np.ptp(mdp.outcomes.mean[mdp.outcomes.probability > 0])
    assert agent.average_reward == pytest.approx(mdp.solve().average_reward, abs=0.02 * spread)


def test_d3_has_the_policy_of_d2():
    """The mean of its return quantiles moves by δ, as the value of d2 does."""
    agents = [perstep.QLearning(garnet(12, 3, 4, seed=4), rule=rule, seed=5).learn(20_000) for rule in ("d2", "d3")]
    np.testing.assert_allclose(agents[0].all_action_values, agents[1].all_action_values, rtol=1e-9, atol=1e-9)


def test_the_mean_of_return_quantiles_moves_by_delta():
    rng = np.random.default_rng(3)
    run = tabular.LearnerState(
        tabular.table(2, 1, 5, 0.0)._replace(values=rng.normal(size=(2, 1, 5))),
        rules.reward_estimate(3, 0.25),
        rules.workspace(5),
        rules.Schedule(0.1, 0.0, 0.0, 0.0, 0.0),
    )
    before = run.table.values.copy()
    delta = 1.5 - 0.25 + before[1, 0].mean() - before[0, 0].mean()
    targets, tau = 1.5 - 0.25 + before[1, 0], (2 * np.arange(1, 6) - 1) / 10
    pulls = np.array([np.mean(tau[j] - (targets < before[0, 0, j])) for j in range(5)])
    known = rules.d3_by_delta, rules.D3_BY_DELTA, *run[:5]
    assert tabular.td_learning(*known, 0, 0, 1.5, 1, False) == pytest.approx(delta)
    expected = before[0, 0] + 0.1 * (pulls - pulls.mean() + delta)
    np.testing.assert_allclose(run.table.values[0, 0], expected, atol=1e-12)


def test_one_outlier_does_not_move_the_unit():
    rng = np.random.default_rng(1)
    seen, with_outlier = units.new_units(), units.new_units()
    for i, reward in enumerate(rng.normal(3.0, 2.0, 5000)):
        units.see(seen, reward, 0.0, False, False)
        units.see(with_outlier, 1e9 if i == 2500 else reward, 0.0, False, False)
    assert np.sqrt(seen[units.REWARD]) == pytest.approx(2.0, rel=0.1)
    # The mean is moved by it, and the unit with the mean, for a while; a plain standard deviation would be 1e7.
    assert np.sqrt(with_outlier[units.REWARD]) < 1e6


def test_rewards_that_change_their_scale_are_followed():
    rng = np.random.default_rng(1)
    seen = units.new_units()
    for spread in (1.0, 1000.0, 100.0):
        for reward in rng.normal(0.0, spread, 400_000):
            units.see(seen, reward, 0.0, False, False)
        assert np.sqrt(seen[units.REWARD]) == pytest.approx(spread, rel=1.0)


def test_the_first_estimates_are_those_of_the_first_rewards():
    rewards = np.random.default_rng(2).normal(size=100)
    estimate = rules.reward_estimate(7, None, scale_free=True)
    state = units.new_units()
    for reward in rewards:
        units.see(state, reward, 0.0, False, False)
        units.begin(state, estimate.first, estimate.theta, estimate.offset, estimate.tau, reward)
    assert estimate.theta.mean() + estimate.offset[0] == pytest.approx(rewards.mean())
    np.testing.assert_allclose(estimate.theta, np.sort(rewards)[(estimate.tau * 100).astype(int)])


def test_theta_arrives_at_large_rewards():
    mdp = scaled(access_control(), 100.0)
    agent = perstep.QLearning(mdp, rule="d2", seed=2).learn(200_000)
    rate = agent.history.reward_rate
    earned = rate[3 * len(rate) // 4 :].mean()
    assert agent.reward_quantiles.mean() == pytest.approx(earned, abs=0.04 * 800)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if ALGORITHMS[name].learner.values == "table"])
def test_every_cell_on_a_table_learns_with_its_defaults(name):
    given = () if ALGORITHMS[name].learner.control else (np.array([0, 1]),)
    agent = perstep.make_agent(name, "perstep/RedPillBluePill-v0", *given, seed=1).learn(20_000)
    assert -0.75 < agent.average_reward < -0.5


def test_one_word_gives_the_paper_back():
    agent = perstep.QLearning(two_loop(), preset="paper")
    assert agent.config == type(agent.config)()
    assert agent.config.preset == "paper"


def test_a_preset_gives_way_to_what_is_named():
    agent = perstep.QLearning(two_loop(), epsilon=0.2, reward_ratio=0.5)
    assert (agent.config.reward_ratio, agent.config.epsilon, agent.config.reward_step_size) == (0.5, 0.2, None)
    assert agent.config.scale_free
    with pytest.raises(ValueError, match=r"preset.*'papre'.*Did you mean 'paper'"):
        perstep.QLearning(two_loop(), preset="papre")


class Levers(gymnasium.Env):
    """One state and two actions, of which the second becomes the better one after 20,000 steps."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.steps += 1
        return 0, (1.0, 0.0 if self.steps <= 20_000 else 30.0)[action], False, False, {}


def test_a_world_that_changes_is_followed():
    agent = perstep.QLearning(Levers(), preset="changing", seed=1)
    agent.learn(20_000)
    assert agent.policy(deterministic=True)[0, 0] == 1.0
    agent.learn(20_000)
    assert agent.policy(deterministic=True)[0, 1] == 1.0
    assert agent.average_reward == pytest.approx(30.0, abs=1.5)


def test_the_signature_shows_the_defaults():
    import inspect

    shown = inspect.signature(perstep.QLearning).parameters
    assert shown["epsilon"].default == perstep.Decay(1.0, 0.5)
    assert shown["preset"].default == "steady"


def test_every_learner_has_defaults_that_its_settings_accept():
    for row in LEARNERS.values():
        for rule in rules.RULES.values():
            for preset in presets.PRESETS:
                if row.fits(rule):
                    config = row.config.of({"rule": rule.name, "preset": preset, **row.settings})
                    assert (config.rule, config.preset, config.scale_free) == (rule.name, preset, preset != "paper")


class Corridor(gymnasium.Env):
    """Ten cells, one goal at the right end, and the same reward at every step."""

    observation_space, action_space = gymnasium.spaces.Discrete(10), gymnasium.spaces.Discrete(2)

    def __init__(self, reward):
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 3
        return self.cell, {}

    def step(self, action):
        self.cell = max(self.cell + (1 if action else -1), 0)
        return self.cell, self.reward, self.cell == 9, False, {}


@pytest.mark.parametrize(("reward", "best"), [(-1.0, 1), (0.5, 0)])
def test_where_all_rewards_are_equal_an_end_gets_a_cost_or_a_prize(reward, best, tmp_path):
    """Steps that cost should be few, and steps that pay many; a policy has the same average reward whatever it does."""
    agent = perstep.QLearning(Corridor(reward), seed=1)
    agent.learn(20_000)
    assert np.sign(agent.reset_cost) == np.sign(reward)
    actions = agent.policy(deterministic=True).argmax(axis=1)
    assert (actions[3:9] == best).all() if best else actions[8] == 0  # whatever never ends is as good as anything else
    agent.save(tmp_path / "a.safetensors")
    with pytest.warns(UserWarning, match="fresh reset"):
        again = perstep.load(tmp_path / "a.safetensors", env=Corridor(reward))
    assert again.reset_cost == agent.reset_cost


def test_where_rewards_differ_an_end_costs_nothing():
    agent = perstep.QLearning("FrozenLake-v1", seed=1).learn(3_000)
    assert agent.reset_cost == 0.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"reset_cost": "atuo"}, "Did you mean 'auto'"),
        ({"return_mean": "td"}, "Known: delta, quantiles"),
        (
            {"average_step_size": 0.1},
            "average_step_size.*is a setting of ActorCritic and of DeepQ and of Soft",
        ),
        ({"epsilon": perstep.Decay(2.0)}, "epsilon is a probability"),
        ({"reward_ratio": 1.0, "reward_step_size": 0.1}, "Name one of them"),
        ({"reward_ratio": None}, "Give reward_ratio or reward_step_size"),
        ({"scale_free": "yes"}, "scale_free must be True or False"),
        ({"termination": "stop"}, "Use discount=0.99"),
    ],
)
def test_impossible_settings_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        perstep.QLearning(two_loop(), **settings)


@pytest.mark.parametrize("seen", [-1e9, -5.0, np.nan, np.inf, 1e300])
def test_a_number_of_rewards_from_a_hostile_file_writes_nowhere(seen):
    estimate, state = rules.reward_estimate(7, None, scale_free=True), units.new_units()
    state[units.SEEN] = seen
    for _ in range(3):
        units.see(state, 1.0, 0.0, False, False)
        units.begin(state, estimate.first, estimate.theta, estimate.offset, estimate.tau, 1.0)
    assert not estimate.first.any()
    assert not estimate.theta.any()


def test_a_small_replay_of_a_network_is_not_contradicted():
    config = DeepQConfig.of({"replay_capacity": 50})
    assert (config.learning_starts, config.preset) == (50, "steady")
