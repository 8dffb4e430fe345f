"""The empirical model of a table: against a literal list of all that happened, against exact answers, and against hostile files."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import pytest

import oracles
import perstep
from perstep import curiosity, model, policies, rules, storage, tabular
from perstep.environments import catch, garnet, service_queue, six_arms, tandem_queue
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


def settled_target(seen, Q, s, a, R_bar):
    """The same, where whoever stays in s repeats a until it leaves, or does what is best of the other actions."""
    stays = [r for r, s_next in seen[s, a] if s_next == s]
    leaves = [(r, Q[s_next].max()) for r, s_next in seen[s, a] if s_next != s]
    gained = sum(r - R_bar for r in stays) + sum(r - R_bar + value for r, value in leaves)
    others = np.delete(Q[s], a).max()
    if leaves:
        inside = max(others, gained / len(leaves))
    else:
        inside = others if gained < 0 else Q[s].max()
    return (gained + len(stays) * inside) / len(seen[s, a])


def refreshed(seen, Q, s, last, R_bar):
    """The best action of s moves to its target, then the next one if another is the best now; yields what it moves."""
    for _ in range(ACTIONS):
        best = Q[s].argmax()
        if best == last or not seen[s, best]:
            return
        yield best, settled_target(seen, Q, s, best, R_bar)
        last = best


def test_after_a_transition_the_value_is_the_mean_target_of_all_that_followed_the_pair():
    run, seen = with_model("d2"), defaultdict(list)
    Q, theta = run.table.values[..., 0].copy(), run.rewards.theta.copy()
    for s, a, r, s_next in recorded(3):
        seen[s, a].append((r, s_next))
        tabular.q_learning(rules.RULES["d2"].number, run, 0, s, a, r, s_next, False, make_generator(0))
        oracles.d2_q(Q.copy(), theta, ALPHA, ETA * ALPHA, s, a, r, s_next)
        Q[s, a] = settled_target(seen, Q, s, a, theta.mean())
        for best, target in refreshed(seen, Q, s, a, theta.mean()):
            Q[s, best] = target
        np.testing.assert_allclose(run.table.values[..., 0], Q, rtol=0, atol=1e-11)
        np.testing.assert_allclose(run.rewards.theta, theta, rtol=0, atol=1e-12)


def test_return_quantiles_keep_their_shape_and_get_the_mean_target():
    run, seen = with_model("d3"), defaultdict(list)
    Omega, theta = run.table.values.copy(), run.rewards.theta.copy()
    for s, a, r, s_next in recorded(4):
        seen[s, a].append((r, s_next))
        tabular.q_learning(rules.RULES["d3"].number, run, 0, s, a, r, s_next, False, make_generator(0))
        Q = Omega.mean(-1)
        oracles.d3_q(Omega, theta, ALPHA, ETA * ALPHA, s, a, r, s_next)
        Omega[s, a] += settled_target(seen, Q, s, a, theta.mean()) - Omega[s, a].mean()
        Q = Omega.mean(-1)
        for best, target in refreshed(seen, Q, s, a, theta.mean()):
            Omega[s, best] += target - Q[s, best]
            Q[s, best] = target
        np.testing.assert_allclose(run.table.values, Omega, rtol=0, atol=1e-11)


@pytest.mark.parametrize("rule", ["differential", "d2"])
def test_the_gain_of_the_model_follows_the_changes_of_values_on_greedy_steps(rule):
    """Literally: for 128 steps the gain is R̄; then it moves by β times what a backup changes, if the action was the best one."""
    run, seen = with_model(rule), defaultdict(list)
    run = run._replace(schedule=run.schedule._replace(average_scale=0.1, average_power=0.9, average_delay=100.0))
    Q, squares, gain = run.table.values[..., 0].copy(), np.zeros(STATES * ACTIONS), 0.0
    for t, (s, a, r, s_next) in enumerate([*recorded(3), *recorded(6)]):
        seen[s, a].append((r, s_next))
        was_best = Q[s].argmax() == a
        delta = tabular.q_learning(rules.RULES[rule].number, run, t, s, a, r, s_next, False, make_generator(0))
        squares[s * ACTIONS + a] += delta**2
        if t < 128:
            gain = run.rewards.theta.mean() + run.rewards.offset[0]
        one_step, new = mean_target(seen, Q, s, a, gain), settled_target(seen, Q, s, a, gain)
        if was_best:
            gain += 0.1 / (1 + t / 100) ** 0.9 * (one_step - Q[s, a])
        Q[s, a] = new
        average = run.rewards.theta.mean() + run.rewards.offset[0]
        for best, target in refreshed(seen, Q, s, a, gain if t >= 128 else average):
            Q[s, best] = target
            gain = gain if t >= 128 else average
        np.testing.assert_allclose(run.table.values[..., 0], Q, rtol=0, atol=1e-10)
        assert run.model.gain[0] == pytest.approx(gain, abs=1e-11)
    assert t > 200
    np.testing.assert_allclose(run.model.squares, squares, rtol=1e-9)


def test_an_action_that_may_be_the_best_is_the_most_promising_one():
    scores, numbers = np.array([1.0, 0.9, 0.5, 0.0]), np.array([4, 4, 4, 0])
    squares = np.array([0.0, 0.01, 1.4, 100.0])  # standard errors 0, 0.025 and 0.3; the last was never taken
    assert policies.most_promising(scores, 0, numbers, squares, 2.0) == 2  # 0.9 + 2 · 0.025 < 1 < 0.5 + 2 · 0.296
    squares[2] = 0.9
    assert policies.most_promising(scores, 0, numbers, squares, 2.0) == 0


def test_a_masked_end_counts_as_nothing_that_follows():
    found = model.new_model(2, 1, 100)
    model.witness(found, 0, 1.0, 1)
    model.witness(found, 0, 3.0, model.NONE)
    scores = np.array([[5.0], [10.0]])
    # ((1 + 0.9 · 10) + (3 + 0.9 · (−0.7))) / 2 − 0.185
    assert model.expected_target(found, scores, 0, 0.9, NOTHING, 0.185) == pytest.approx((6.0, 6.0), abs=1e-12)


def test_a_state_that_is_hard_to_leave_by_hand():
    found = witnessed([(0, 0, -1.0, 0)] * 3 + [(0, 0, -1.0, 1), (0, 1, -1.0, 0)], num_actions=2)
    scores = np.array([[0.0, -9.0], [10.0, 0.0], [0.0, 0.0]])
    # One step: −1 and a quarter of 10. Staying until it leaves takes four steps at −1: 10 − 4 = 6; so −1 + 0.75 · 6 + 0.25 · 10.
    assert model.expected_target(found, scores, 0, 1.0, NOTHING, 0.0) == pytest.approx((1.5, 6.0))
    # The second action never left, and pays less than the gain: the first is what follows it.
    assert model.expected_target(found, scores, 1, 1.0, NOTHING, 0.5) == pytest.approx((-1.5, -1.5))
    scores[0] = [0.0, 5.0]
    assert model.expected_target(found, scores, 1, 1.0, NOTHING, 0.5) == pytest.approx((3.5, -1.5))
    # With a gain of −2 it pays more than the gain: whoever stays is better off.
    assert model.expected_target(found, scores, 1, 1.0, NOTHING, -2.0) == pytest.approx((6.0, 6.0))


def test_an_action_that_leads_nowhere_does_not_stay_the_best():
    """Its value was right when that of the other action was 10. When that falls to −40 in one step, it is looked at again."""
    run, generator = with_model("d2"), make_generator(0)
    for state, action, reward, follower in [(1, 0, 0.0, 1), (0, 0, 0.0, 1), (0, 1, -1.0, 0)]:
        model.witness(run.model, state * ACTIONS + action, reward, follower)
    run.table.scores[:], run.table.values[:] = -99.0, -99.0
    for entry, value in {(0, 0): 10.0, (0, 1): 9.0, (1, 0): -40.0}.items():
        run.table.scores[entry], run.table.values[entry] = value, value
    tabular.q_learning(rules.RULES["d2"].number, run, 0, 0, 0, 0.0, 1, False, generator)
    assert run.table.scores[0].argmax() == 0


@pytest.mark.parametrize(
    ("capacity", "followers"), [(1, range(2)), (10**6, range(model.MOST_ENTRIES + 1))], ids=["no room", "too many"]
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
    assert (np.mean(gains) - low) / (best - low) > 0.95  # 0.90 from single transitions


def test_the_gain_of_a_world_without_chance_is_found():
    """Where nothing is random, all that keeps values from their solution is the order of backups. With a gain that follows every
    backup they went on in circles here."""
    mdp = garnet(150, 4, 1, seed=8)
    agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(300_000, progress=False)
    best = mdp.solve()
    assert agent._run.model.gain[0] == pytest.approx(best.average_reward, abs=1e-4)
    greedy = mdp.evaluate(agent.policy(deterministic=True), start=mdp.initial)
    assert greedy.average_reward == pytest.approx(best.average_reward, abs=1e-9)


def test_tries_are_not_in_the_distribution():
    """In CliffWalking an action that is tried now and then may fall and cost 100; the policy never does."""
    mdp = perstep.FiniteMDP.from_gymnasium("CliffWalking-v1")
    agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(300_000, progress=False)
    assert agent.policy().tolist() == agent.policy(deterministic=True).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert agent.reward_distribution.cvar(0.001) == -1.0


def parts_of_a_cycle(chosen, share, short):
    """Steps of the busy part, steps that do not count after it, and steps that count."""
    mood = np.zeros(curiosity.MOOD, np.int64)
    mood[curiosity.CHOSEN] = chosen
    parts = [0, 0, 0]
    for _ in range(1000 if short else max(100, chosen // 10)):
        busy = curiosity.enter_cycle(mood, max(curiosity.BUSY, share), short)
        parts[0 if busy else 1 if mood[curiosity.EXPLORING] < 0 else 2] += 1
    return parts


@pytest.mark.parametrize(
    ("chosen", "share", "short", "parts"),
    [
        (100_000, 0.1, False, [4000, 900, 5100]),  # a tenth of the steps; 40 %, and 15 % of the rest
        (100_000, 0.1, True, [400, 90, 510]),  # a world that changes
        (0, 0.9, False, [90, 2, 8]),  # most steps explore
    ],
)
def test_a_cycle_is_busy_settles_and_counts(chosen, share, short, parts):
    assert parts_of_a_cycle(chosen, share, short) == parts


def test_every_agent_has_counted_something_from_the_first_step_on():
    for settings in ({"rule": "differential"}, {"rule": "d2"}, {"preset": "changing"}, {"least_exploration": 1.0}):
        agent = perstep.QLearning("perstep/TwoLoop-v0", **settings)
        for steps in (1, 9, 90, 900):
            assert agent.learn(steps).reward_distribution.num_samples > 0
            assert np.isfinite(agent.earned_reward)
            assert "per step" in agent.card()


def test_a_file_from_before_there_were_cycles_is_read(tmp_path):
    agent = saved_agent(tmp_path / "agent.safetensors")
    arrays, metadata = storage.read(tmp_path / "agent.safetensors")
    storage.write(tmp_path / "old.safetensors", {**arrays, "table.mood": arrays["table.mood"][:3]}, metadata)
    older = perstep.load(tmp_path / "old.safetensors")
    assert older._run.table.mood.tolist() == [*agent._run.table.mood[:3], 0]


def test_a_way_back_of_hundred_steps_is_not_in_the_distribution():
    """In SixArms every try of another action than to stay costs the best arm for 100 steps on average; it pays 6000 per step."""
    agent = perstep.QLearning(six_arms(), rule="d2", seed=0).learn(300_000, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert agent.reward_distribution.cvar(0.001) == 6000.0
    assert agent.average_reward == pytest.approx(6000.0, abs=60.0)


def test_what_a_try_costs_later_is_not_in_the_distribution():
    """In Catch a move that misses the ball is paid for up to nine steps later, and the best policy misses none."""
    agent = perstep.QLearning(catch(), rule="d2", seed=0).learn(300_000, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert agent.reward_distribution.cvar(0.01) == pytest.approx(0.0, abs=0.02)


def test_rewards_of_the_way_back_from_an_exploration_are_not_in_the_distribution():
    """A long queue, left behind by an exploration, takes long to serve: its costs are no part of what the policy earns."""
    mdp = service_queue()
    agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(1_000_000, progress=False)
    exact = mdp.evaluate(agent.policy()).reward_distribution
    assert agent.reward_distribution.cvar(0.01) == pytest.approx(
        exact.cvar(0.01), abs=0.03 * 54.0
    )  # 54: the range of rewards


def witnessed(transitions, num_states=3, num_actions=1, capacity=10**6):
    """The model of these transitions: (state, action, reward, next state)."""
    found = model.new_model(num_states, num_actions, capacity)
    for state, action, reward, follower in transitions:
        model.witness(found, state * num_actions + action, reward, follower)
    return found


def entries_of(found):
    size = int(found.size[0])
    return list(
        zip(found.followers[:size].tolist(), found.rewards[:size].tolist(), found.counts[:size].tolist(), strict=True)
    )


def test_rewards_on_the_same_way_are_told_apart():
    found = witnessed([(0, 0, 5.0, 0), (0, 0, -100.0, 0), (0, 0, 5.0, 0), (0, 0, 5.0, 1)])
    assert entries_of(found) == [(0, 5.0, 2), (0, -100.0, 1), (1, 5.0, 1)]
    assert (found.numbers[0], found.paid[0]) == (4, -85.0)


def test_rewards_that_never_come_twice_are_not_told_apart_for_long():
    found = witnessed([(0, 0, float(reward), 0) for reward in range(20)])
    assert [reward for _, reward, _ in entries_of(found)][:16] == [float(reward) for reward in range(16)]
    assert np.isnan(found.rewards[16])
    assert found.counts[:17].tolist() == [1] * 16 + [4]
    assert model.is_modelled(found, 0)


@pytest.mark.parametrize("number", [10, 32])
def test_equally_likely_rewards_in_any_order_are_told_apart(number):
    rng = np.random.default_rng(number)
    ways = [witnessed([(0, 0, float(reward), 0) for reward in rng.integers(number, size=2_000)]) for _ in range(50)]
    assert sum(np.isnan(found.rewards[: found.size[0]]).any() for found in ways) <= 1


def test_up_to_32_rewards_that_come_again_are_told_apart():
    found = witnessed([(0, 0, float(reward), 0) for number in range(40) for reward in (number, number)])
    assert found.rewards[: model.MOST_REWARDS].tolist() == [float(reward) for reward in range(32)]
    assert np.isnan(found.rewards[model.MOST_REWARDS])
    assert found.counts[model.MOST_REWARDS] == 16


def test_without_much_room_rewards_are_not_told_apart():
    found = witnessed([(0, 0, 1.0, 0), (0, 0, 2.0, 0), (0, 0, 3.0, 0)], capacity=4)
    assert entries_of(found)[:2] == [(0, 1.0, 1), (0, 2.0, 1)]
    assert np.isnan(found.rewards[2])


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


def test_a_file_without_gain_and_squares_is_read(tmp_path):
    """As the first version of the model wrote it."""
    agent = saved_agent(tmp_path / "agent.safetensors")
    arrays, metadata = storage.read(tmp_path / "agent.safetensors")
    storage.write(
        tmp_path / "old.safetensors",
        {name: array for name, array in arrays.items() if name not in ("model.gain", "model.squares", "model.rewards")},
        metadata,
    )
    older = perstep.load(tmp_path / "old.safetensors")
    assert older._run.model.gain[0] == agent.average_reward
    assert not older._run.model.squares.any()
    assert older.reward_distribution.weights.tolist() == older.earned_distribution.weights.tolist()
    assert older.learn(100).steps == 600


@pytest.mark.parametrize(
    ("array", "value", "sentence"),
    [
        ("pairs", 18, "pairs of the model must lie between 0 and 17"),
        ("followers", 9, "next states of the model must lie between -1 and 8"),
        ("counts", 0, "counts of the model must lie between 1"),
        ("numbers", 7_000, "other numbers of transitions than its entries"),
        ("rewards", np.inf, "rewards of the model contains NaN or infinite"),
        ("paid", np.nan, "sums of rewards of the model contains NaN or infinite"),
        ("squares", np.inf, "squares of the model contains NaN or infinite"),
        ("squares", -1.0, "negative sums of squares"),
        ("gain", np.nan, "gain of the model contains NaN or infinite"),
    ],
)
def test_a_model_that_compiled_code_could_not_read_is_refused(tmp_path, array, value, sentence):
    agent = saved_agent(tmp_path / "good.safetensors")
    getattr(agent._run.model, array)[0] = value
    agent.save(tmp_path / "bad.safetensors")
    with pytest.raises(storage.BadFile, match=sentence):
        perstep.load(tmp_path / "bad.safetensors")
