"""The learner and the agent: which network says what, known worlds, determinism, and what goes wrong with a sentence."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.deep.observations import Observations
from perstep.deep.replay import Batch
from perstep.deep.settings import DeepQConfig
from perstep.rules import transition as rules
from perstep.tabular import kernel as tabular
from perstep.worlds import red_pill_blue_pill, two_loop
from test_architecture import BLOCK_EXTRAS

torch = pytest.importorskip("torch")
from perstep.deep import losses  # noqa: E402
from perstep.deep.learner import BadLoss  # noqa: E402
from perstep.deep.q_learning import DeepQLearner  # noqa: E402

RULES = ["differential", "d2", "d3"]
STATES, ACTIONS, B = 5, 3, 8
ONE_HOT = Observations((), "int32", "discrete", count=STATES)


pytestmark = pytest.mark.usefixtures("one_thread")


def config(**settings):
    return DeepQConfig(**{"hidden": (), "num_quantiles": 4, "batch_size": B, "device": "cpu", **settings})


def batch(seed=0, count=B):
    rng = np.random.default_rng(seed)
    states, actions, next_states = (
        rng.integers(STATES, size=count),
        rng.integers(ACTIONS, size=count),
        rng.integers(STATES, size=count),
    )
    return Batch(
        states.astype(np.int32),
        actions,
        rng.normal(size=count),
        next_states.astype(np.int32),
        np.zeros(count, np.bool_),
    )


def randomised(learner, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for network in (learner.online, learner.target):
        for weight in network.parameters():
            weight.data.normal_(generator=generator)
    return learner


def outputs(network):
    with torch.no_grad():
        return network(torch.eye(STATES)).numpy()  # (S, A, n)


# --------------------------------------------------------------------------------------------------------- the learner


def test_d2_and_differential_take_the_maximum_of_the_target_network():
    for rule in ("differential", "d2"):
        learner, sample = randomised(DeepQLearner(ONE_HOT, ACTIONS, config(rule=rule))), batch()
        got = learner._look(sample).bootstrap
        np.testing.assert_allclose(got, outputs(learner.target)[sample.next_observation].max(1), atol=1e-6)


def test_d3_asks_the_online_network_which_action_and_the_target_network_how_much():
    learner, sample = randomised(DeepQLearner(ONE_HOT, ACTIONS, config(rule="d3"))), batch()
    got = learner._look(sample).bootstrap
    online, target = (outputs(network)[sample.next_observation] for network in (learner.online, learner.target))
    best, other = online.mean(2).argmax(1), target.mean(2).argmax(1)
    assert (best != other).any()
    np.testing.assert_allclose(got, target[np.arange(B), best], atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_masked_end_is_worth_nothing(rule):
    learner, sample = randomised(DeepQLearner(ONE_HOT, ACTIONS, config(rule=rule))), batch()
    sample.masked[2] = True
    got = learner._look(sample).bootstrap
    assert (got[2] == 0).all()
    assert (got[3] != 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_gradient_step_on_a_linear_network_is_the_tabular_update(rule):
    """A batch of one in one-hot coding: the weights are a table, whose entry moves by α times the rule's pull, the rest not."""
    settings = config(rule=rule, batch_size=1, huber=1e6, step_size=0.1, reward_ratio=0.5)
    learner, sample = DeepQLearner(ONE_HOT, ACTIONS, settings), batch(count=1)
    randomised(learner)
    learner.online.head.bias.data.zero_()
    learner.target.load_state_dict(learner.online.state_dict())
    m, n = settings.theta_size, settings.value_size
    values = outputs(learner.online).astype(float)
    table = tabular.table(STATES, ACTIONS, values.shape[2], 0.0)._replace(values=values, scores=values.mean(2))
    # λ = 10⁶ makes the smooth L1 loss x²/2λ, so its slope is the pull over λ; the quantile Huber loss has x²/2 within λ.
    scale = 1e6 if rule != "d3" else 1.0
    rewards, known = (rules.reward_estimate(m, 0.3) for _ in range(2))
    schedule = rules.Schedule(0.1, 0.0, 0.05, 0.0, 0.0)
    run = tabular.LearnerState(table, known, rules.workspace(n, 1e6), schedule)
    s, a, r, s_next = (
        int(sample.observation[0]),
        int(sample.action[0]),
        float(sample.reward[0]),
        int(sample.next_observation[0]),
    )
    look = learner._look(sample)
    losses.loss(rewards, sample.reward, look, learner._steps(), learner._settings).value.backward()
    number = settings.kernel
    tabular.q_learning(rules.FUNCTIONS[number], number, *run[:5], 0, s, a, r, s_next, False)
    weight = learner.online.head.weight
    moved = (weight - 0.1 * scale * weight.grad).detach().T.reshape(STATES, ACTIONS, n)
    np.testing.assert_allclose(moved, table.values, atol=2e-6)
    np.testing.assert_allclose(rewards.theta, known.theta, rtol=0, atol=1e-6 if rule == "differential" else 0)


def test_target_network_follows_by_its_step():
    learner = randomised(DeepQLearner(ONE_HOT, ACTIONS, config(target_step_size=0.25)))
    before = [weight.clone() for weight in learner.target.parameters()]
    learner.update(batch(), rules.reward_estimate(4, 0.0))
    for old, new, online in zip(before, learner.target.parameters(), learner.online.parameters(), strict=True):
        np.testing.assert_allclose(new, (0.75 * old + 0.25 * online).detach(), atol=1e-6)


def test_gradient_is_clipped():
    def change(clip):
        learner = randomised(DeepQLearner(ONE_HOT, ACTIONS, config(rule="d2", gradient_clip=clip)))
        learner.update(batch(), rules.reward_estimate(4, 0.0))
        return torch.cat([weight.grad.flatten() for weight in learner.online.parameters()]).norm()

    assert change(None) > 0.2
    assert change(0.1) == pytest.approx(0.1, rel=1e-4)


def test_falling_step_sizes():
    learner = DeepQLearner(ONE_HOT, ACTIONS, config(rule="d2", step_size=perstep.Decay(0.1, 1.0), reward_ratio=2.0))
    steps = []
    for _ in range(3):
        steps.append(learner._steps())
        learner.update(batch(), rules.reward_estimate(4, 0.0))
        assert learner.optimizer.param_groups[0]["lr"] == steps[-1].value
    np.testing.assert_allclose([(s.value, s.theta) for s in steps], [(0.1, 0.2), (0.05, 0.1), (0.1 / 3, 0.2 / 3)])


def test_weights_come_from_the_seed_and_leave_others_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (DeepQLearner(ONE_HOT, ACTIONS, config(seed=seed)).weights() for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_bad_loss_stops_with_numbers_and_changes_nothing():
    learner, rewards = DeepQLearner(ONE_HOT, ACTIONS, config(rule="d2")), rules.reward_estimate(4, 0.5)
    sample, weights = batch(), learner.weights()
    sample.reward[3] = np.inf
    with pytest.raises(
        BadLoss,
        match=r"At update 1 the loss is (inf|nan)\. The batch had rewards from .* \(1 not finite\), observations",
    ):
        learner.update(sample, rewards)
    np.testing.assert_array_equal(learner.weights(), weights)
    np.testing.assert_array_equal(rewards.theta, 0.5)
    assert learner.updates == 0


def test_unknown_device():
    with pytest.raises(ValueError, match=r"There is no device 'toaster' here .* Use 'auto' or 'cpu'"):
        DeepQLearner(ONE_HOT, ACTIONS, config(device="toaster"))


# ----------------------------------------------------------------------------------------------------------- known worlds

SMALL = {
    "preset": "paper",
    "hidden": (16,),
    "replay_capacity": 1000,
    "epsilon": 0.1,
    "epsilon_steps": 1000,
    "threads": 1,
    "device": "cpu",
}


def greedy_gain(agent, mdp):
    return mdp.evaluate([int(agent.predict(state)[0]) for state in range(mdp.num_states)]).average_reward


@pytest.mark.parametrize("rule", ["d2", "d3"])
def test_average_reward_policy_and_quantiles_of_the_two_pills(rule):
    mdp = red_pill_blue_pill()
    settings = {"step_size": 1e-3, "reward_ratio": 5.0, "num_quantiles": 10, "initial_average_reward": -0.5, **SMALL}
    agent = perstep.DeepQ(mdp, rule=rule, **settings).learn(6000)
    assert [int(agent.predict(state)[0]) for state in (0, 1)] == [1, 1]
    truth = mdp.evaluate(np.array([agent.policy(state) for state in (0, 1)]))  # ε-greedy
    assert agent.average_reward == pytest.approx(truth.average_reward, abs=0.02)
    # Of each quantile, how much of the true distribution is below it: a quantile in a gap of the density moves slowly.
    np.testing.assert_allclose(truth.reward_distribution.cdf(agent.reward_quantiles), rules.levels(10), atol=0.06)


def test_differential_finds_the_average_where_the_target_network_does_not_lag():
    """Alg. 13 has no drive on R̄ behind a slow target network (docs/learners/deep-q.md), so here it is quick, and the batch is
    small, since the sample with the smallest δ is to be any."""
    mdp = two_loop()
    settings = {**SMALL, "batch_size": 1, "update_every": 1, "target_step_size": 0.1}
    agent = perstep.DeepQ(mdp, rule="differential", step_size=1e-3, reward_ratio=20.0, **settings).learn(4000)
    assert greedy_gain(agent, mdp) == pytest.approx(0.4, abs=1e-9)
    assert agent.average_reward == pytest.approx(0.4, abs=0.02)


def test_offset_finds_the_average_of_d2_and_bounds_its_values():
    """One quantile, the median, is 0 where the average is 0.4: without the offset Q grows for ever, with it neither is wrong."""
    mdp = two_loop()
    settings = {
        "rule": "d2",
        "step_size": 1e-3,
        "reward_ratio": 20.0,
        "num_quantiles": 1,
        "target_step_size": 0.05,
        **SMALL,
    }
    plain, agent = perstep.DeepQ(mdp, **settings), perstep.DeepQ(mdp, offset_ratio=20.0, **settings)
    before = [run.learn(4000).action_values(0) for run in (plain, agent)]
    after = [run.learn(1500).action_values(0) for run in (plain, agent)]
    assert plain.average_reward == pytest.approx(0.0, abs=0.05)
    assert agent.average_reward == pytest.approx(0.4, abs=0.03)
    assert (after[0] - before[0]).min() > 3.0
    assert np.abs(after[1] - before[1]).max() < 1.0
    assert greedy_gain(agent, mdp) == pytest.approx(0.4, abs=1e-9)


def test_batch_mean_tracks_quantiles_of_batch_means():
    settings = {
        "rule": "d2",
        "step_size": 1e-3,
        "reward_ratio": 5.0,
        "num_quantiles": 10,
        "initial_average_reward": -0.5,
        **SMALL,
    }
    theta = perstep.DeepQ(red_pill_blue_pill(), reward_tracking="batch-mean", **settings).learn(3000).reward_quantiles
    assert (
        theta.max() - theta.min() < 0.4
    )  # single rewards lie between −1.1 and −0.1, the mean of 32 within a few hundredths


# ------------------------------------------------------------------------------------------------------- the agent's verbs


def cartpole(**settings):
    small = {
        "num_quantiles": 5,
        "hidden": (16,),
        "replay_capacity": 500,
        "learning_starts": 100,
        "threads": 1,
        "reset_cost": 10.0,
    }
    return perstep.DeepQ("CartPole-v1", **{**small, **settings})


@pytest.mark.parametrize("rule", RULES)
def test_same_seed_same_run(rule):
    runs = [cartpole(rule=rule, seed=seed, epsilon_steps=200).learn(300) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(runs[0]._network.weights(), runs[1]._network.weights())
    np.testing.assert_array_equal(runs[0].reward_quantiles, runs[1].reward_quantiles)
    assert (runs[0]._network.weights() != runs[2]._network.weights()).any()


def test_stretches_do_not_matter():
    one, other = cartpole().learn(300), cartpole()
    for stretch in (1, 7, 92, 200):
        other.learn(stretch)
    np.testing.assert_array_equal(one._network.weights(), other._network.weights())
    np.testing.assert_array_equal(one.history.reward_rate, other.history.reward_rate)


def test_updates_begin_and_recur_as_told():
    agent = cartpole(learning_starts=50, update_every=5)
    assert [agent.learn(count).updates for count in (49, 1, 4, 1, 20)] == [0, 1, 1, 2, 6]


def test_epsilon_falls_in_a_straight_line():
    agent = cartpole(initial_epsilon=0.9, epsilon=0.1, epsilon_steps=80, preset="paper")
    assert [round(agent.learn(count).epsilon, 9) for count in (0, 20, 60, 5)] == [0.9, 0.7, 0.1, 0.1]


def test_prediction_one_and_many():
    agent = cartpole().learn(150)
    points = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    actions, _ = agent.predict(points)
    assert [agent.predict(point)[0] for point in points] == actions.tolist()
    assert agent.action_values(points[0]).shape == (2,)
    assert agent.action_values(points[0]).argmax() == actions[0]
    assert agent.return_quantiles(points[0], 1).shape == (5,)
    assert agent.return_quantiles(points[0], 1).mean() == pytest.approx(agent.action_values(points[0])[1], abs=1e-6)
    assert agent.policy(points[0]).sum() == pytest.approx(1.0)
    with pytest.raises(
        ValueError, match=r"An observation must have shape \(4,\), and a batch one more axis in front, got \(2,\)"
    ):
        agent.predict([0.0, 1.0])


def test_observations_that_are_no_numbers_are_refused_and_nothing_is_learnt():
    agent = cartpole()
    with pytest.raises(ValueError, match="must hold finite numbers, got NaN or infinite ones"):
        agent.predict(np.full(4, np.nan))


def test_one_observation_where_one_is_asked_for():
    with pytest.raises(ValueError, match=r"One observation of shape \(4,\) was expected, got \(2, 4\)"):
        cartpole().action_values(np.zeros((2, 4)))


def test_a_stack_that_was_flattened_is_none():
    env = gymnasium.wrappers.FrameStackObservation(gymnasium.make("CartPole-v1"), 4)
    assert perstep.DeepQ(env, replay_capacity=100)._replay.stacked
    flat = perstep.DeepQ(gymnasium.wrappers.FlattenObservation(env), replay_capacity=100)
    assert not flat._replay.stacked


def test_learning_starts_also_where_episodes_are_cut_short():
    env = gymnasium.make("CartPole-v1", max_episode_steps=3)
    agent = perstep.DeepQ(
        env, replay_capacity=100, learning_starts=100, batch_size=8, hidden=(4,), preset="paper"
    ).learn(200)
    assert agent.updates == 26


def test_return_quantiles_are_of_d3_only():
    with pytest.raises(TypeError, match="learns no return quantiles"):
        cartpole(rule="d2").return_quantiles(np.zeros(4, np.float32), 0)


def test_evaluation_does_not_disturb_learning():
    one, other = cartpole().learn(120), cartpole().learn(120)
    evaluation = one.evaluate(200, seed=1)
    assert evaluation.num_steps == 200
    assert evaluation.average_reward == pytest.approx(1.0 - one.reset_cost * len(evaluation.episode_returns) / 200)
    assert (evaluation.episode_returns >= 5).all()
    np.testing.assert_array_equal(one.learn(80)._network.weights(), other.learn(80)._network.weights())


def test_snapshots_hold_the_weights():
    agent = cartpole().learn(130, snapshot_at=(0, 110))
    assert [snapshot.step for snapshot in agent.snapshots] == [0, 110]
    assert (agent.snapshots[0].values != agent.snapshots[1].values).any()


def test_continuous_actions_are_refused():
    with pytest.raises(TypeError, match="DeepQ chooses among numbered actions, but this world has Box"):
        perstep.DeepQ("Pendulum-v1")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"huber": 0.0}, "huber must be a finite number above 0"),
        (
            {"learning_starts": 600, "replay_capacity": 500},
            "learning_starts=600 transitions do not fit in a replay of 500",
        ),
        ({"precision": "float16"}, "There is no precision 'float16'"),
        ({"reward_tracking": "persample"}, "Did you mean 'per-sample'"),
        ({"hidden": (0,)}, "hidden must be a whole number of at least 1"),
        ({"network": "atari"}, "needs images of at least 36×36 pixels"),
        ({"rule": "differential", "offset_ratio": 0.1}, "The rule 'differential' has no learned offset"),
        ({"batchsize": 3}, "Did you mean 'batch_size'"),
    ],
)
def test_impossible_settings(settings, words):
    with pytest.raises(ValueError, match=words):
        perstep.DeepQ("CartPole-v1", **settings)


def test_bfloat16_runs_and_says_where_it_does_not_pay(recwarn):
    agent = cartpole(precision="bfloat16").learn(120)
    assert np.isfinite(agent._network.weights()).all()
    native = torch.cpu._is_avx512_bf16_supported()
    assert any("emulates bfloat16" in str(warning.message) for warning in recwarn) == (not native)


def test_without_torch_the_error_says_what_to_install():
    code = f"{BLOCK_EXTRAS}\nimport perstep\nperstep.QLearning('perstep/TwoLoop-v0').learn(10)\nperstep.DeepQ('CartPole-v1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert (
        "ImportError: perstep.DeepQ needs PyTorch, which is not installed: pip install 'perstep[deep]'" in done.stderr
    )


def test_signature_lists_the_settings():
    import inspect

    names = set(inspect.signature(perstep.DeepQ).parameters)
    assert {"env", "rule", "batch_size", "replay_capacity", "precision", "device", "seed"} <= names


def test_made_agents():
    for rule in RULES:
        agent = perstep.make_agent(f"{rule}-deep-q", gymnasium.make("CartPole-v1"), replay_capacity=200)
        assert isinstance(agent, perstep.DeepQ)
        assert agent.config.rule == rule


def test_the_return_per_episode_is_learnt_from_equal_rewards():
    """The unit of returns sees what an end takes; without a unit a network does not learn."""
    small = {"hidden": (8,), "replay_capacity": 400, "learning_starts": 100}
    agent = perstep.DeepQ("CartPole-v1", objective="return per episode", **small).learn(400)
    assert agent.updates > 50
    assert agent.last_loss is not None
