"""The empirical model of a table: against a literal list of all that happened, against exact answers, and against hostile files."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import pytest

import oracles
import perstep
from perstep import model, rules, storage, tabular
from perstep.environments import garnet, service_queue, tandem_queue
from perstep.randomness import make_generator
from test_tabular import ACTIONS, ALPHA, ETA, STATES, new_run, recorded

pytestmark = pytest.mark.defaults

NOTHING = -0.7


def with_model(rule, capacity=10_000, **settings):
    run = new_run(rule, tabular.Q, **settings)
    return run._replace(model=model.new_model(STATES, ACTIONS, capacity))


def mean_target(seen, Q, s, a, R_bar):
    """The mean of R − R̄ + max Q(S′, ·) over the list of all that followed (s, a)."""
    return np.mean([r - R_bar + Q[s_next].max() for r, s_next in seen[s, a]])


def test_after_a_transition_the_value_is_the_mean_target_of_all_that_followed_the_pair():
    run, seen = with_model("d2"), defaultdict(list)
    Q, theta = run.table.values[..., 0].copy(), run.rewards.theta.copy()
    for s, a, r, s_next in recorded(3):
        seen[s, a].append((r, s_next))
        tabular.q_learning(rules.RULES["d2"].number, run, 0, s, a, r, s_next, False, make_generator(0))
        oracles.d2_q(Q, theta, ALPHA, ETA * ALPHA, s, a, r, s_next)
        Q[s, a] = mean_target(seen, Q, s, a, theta.mean())
        np.testing.assert_allclose(run.table.values[..., 0], Q, rtol=0, atol=1e-11)
        np.testing.assert_allclose(run.rewards.theta, theta, rtol=0, atol=1e-12)


def test_return_quantiles_keep_their_shape_and_get_the_mean_target():
    run, seen = with_model("d3"), defaultdict(list)
    Omega, theta = run.table.values.copy(), run.rewards.theta.copy()
    for s, a, r, s_next in recorded(4):
        seen[s, a].append((r, s_next))
        tabular.q_learning(rules.RULES["d3"].number, run, 0, s, a, r, s_next, False, make_generator(0))
        oracles.d3_q(Omega, theta, ALPHA, ETA * ALPHA, s, a, r, s_next)
        Omega[s, a] += mean_target(seen, Omega.mean(-1), s, a, theta.mean()) - Omega[s, a].mean()
        np.testing.assert_allclose(run.table.values, Omega, rtol=0, atol=1e-11)


def test_a_masked_end_counts_as_nothing_that_follows():
    found = model.new_model(2, 1, 100)
    model.witness(found, 0, 1.0, 1)
    model.witness(found, 0, 3.0, model.NONE)
    scores = np.array([[5.0], [10.0]])
    # ((1 + 0.9 · 10) + (3 + 0.9 · (−0.7))) / 2
    assert model.expected_target(found, scores, 0, 0.9, NOTHING) == pytest.approx(6.185, abs=1e-12)


@pytest.mark.parametrize(
    ("capacity", "followers"), [(1, range(2)), (10**6, range(model.MOST_SUCCESSORS + 1))], ids=["no room", "too many"]
)
def test_a_pair_that_does_not_fit_is_left_to_its_single_transitions(capacity, followers):
    found = model.new_model(100, 1, capacity)
    for follower in followers:
        model.witness(found, 0, 1.0, follower)
    assert not model.is_modelled(found, 0)
    entries = int(found.size[0])
    model.witness(found, 0, 1.0, 99)
    assert found.size[0] == entries
    assert not model.is_modelled(found, model.NONE)


def test_without_room_for_a_model_every_step_is_that_of_q_learning():
    plain, full = new_run("d2", tabular.Q), with_model("d2", capacity=1)
    full.model.numbers[:] = model.NOT_MODELLED
    for s, a, r, s_next in recorded(5):
        for run in (plain, full):
            tabular.q_learning(rules.RULES["d2"].number, run, 0, s, a, r, s_next, False, make_generator(0))
    np.testing.assert_array_equal(plain.table.values, full.table.values)


def estimated(agent):
    """The world as the agent's model has it."""
    found, (S, A) = agent._run.model, (agent.num_states, agent.num_actions)
    entries = int(found.size[0])
    transitions = np.zeros((S * A, S))
    np.add.at(transitions, (found.pairs[:entries], found.followers[:entries]), found.counts[:entries])
    assert (transitions.sum(1) == found.numbers).all()
    transitions /= found.numbers[:, None]
    return perstep.FiniteMDP(transitions.reshape(S, A, S), (found.paid / found.numbers).reshape(S, A))


def test_the_values_solve_the_world_that_was_seen():
    mdp = garnet(20, 3, 3, seed=5)
    agent = perstep.QLearning(mdp, rule="d2", seed=1).learn(200_000, progress=False)
    seen = estimated(agent)
    assert seen.optimality_gap(agent._run.table.scores) < 0.1  # the action values have a range of 6
    np.testing.assert_array_equal(agent.policy(deterministic=True).argmax(1), seen.solve().policy)
    np.testing.assert_allclose(np.ravel(seen.outcomes.mean).max(), np.ravel(mdp.outcomes.mean).max(), atol=1e-9)


def test_small_differences_under_large_noise_are_found():
    mdp = tandem_queue()
    uniform = np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)
    low, best = mdp.evaluate(uniform).average_reward, mdp.solve().average_reward
    agents = [perstep.QLearning(mdp, rule="d2", seed=seed) for seed in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        perstep.learn_together(agents, 1_000_000, progress=False)
    gains = [mdp.evaluate(agent.policy(deterministic=True)).average_reward for agent in agents]
    assert (np.mean(gains) - low) / (best - low) > 0.94  # 0.90 from single transitions


def test_rewards_of_the_way_back_from_an_exploration_are_not_in_the_distribution():
    """A long queue, left behind by an exploration, takes long to serve: its costs are no part of what the policy earns."""
    mdp = service_queue()
    agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(1_000_000, progress=False)
    exact = mdp.evaluate(agent.policy()).reward_distribution
    assert agent.reward_distribution.cvar(0.01) == pytest.approx(
        exact.cvar(0.01), abs=0.03 * 54.0
    )  # 54: the range of rewards


def test_naming_a_step_size_or_a_risk_level_goes_without_a_model():
    world = "perstep/TwoLoop-v0"
    assert perstep.QLearning(world)._run.model.numbers.size == 18
    for settings in (
        {"step_size": 0.1},
        {"risk_level": 0.5},
        {"preset": "paper"},
        {"preset": "changing"},
        {"bootstrap": "sampled"},
    ):
        assert not perstep.QLearning(world, **settings)._run.model.numbers.size
    with pytest.raises(ValueError, match="Set model_capacity=0"):
        perstep.QLearning(world, bootstrap="sampled", model_capacity=10)
    with pytest.raises(ValueError, match="model_capacity must be a whole number of at least 0"):
        perstep.QLearning(world, model_capacity=-1)


def saved_agent(path):
    agent = perstep.QLearning("perstep/TwoLoop-v0", rule="d2", seed=1).learn(500)
    agent.save(path)
    return agent


def test_a_saved_model_goes_on_to_the_bit(tmp_path):
    agent = saved_agent(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors")
    for part in ("newest", "older"):
        size = int(agent._run.model.size[0]) if part == "older" else None
        np.testing.assert_array_equal(getattr(again._run.model, part)[:size], getattr(agent._run.model, part)[:size])
    np.testing.assert_array_equal(agent.learn(500)._run.table.values, again.learn(500)._run.table.values)


@pytest.mark.parametrize(
    ("array", "value", "sentence"),
    [
        ("pairs", 18, "pairs of the model must lie between 0 and 17"),
        ("followers", 9, "next states of the model must lie between -1 and 8"),
        ("counts", 0, "counts of the model must lie between 1"),
        ("numbers", 7_000, "other numbers of transitions than its entries"),
        ("paid", np.nan, "rewards of the model contains NaN or infinite"),
    ],
)
def test_a_model_that_compiled_code_could_not_read_is_refused(tmp_path, array, value, sentence):
    agent = saved_agent(tmp_path / "good.safetensors")
    getattr(agent._run.model, array)[0] = value
    agent.save(tmp_path / "bad.safetensors")
    with pytest.raises(storage.BadFile, match=sentence):
        perstep.load(tmp_path / "bad.safetensors")
