"""d3 with a horizon (decision 0013): its return distribution against the exact one, its policy against d2's, its files."""

from __future__ import annotations

import numpy as np
import pytest

import perstep
from exact_returns import return_spreads, sampled_returns
from perstep.numerics.quantiles import levels
from perstep.worlds import garnet, red_pill_blue_pill, two_loop
from states_in_a_box import States

WORLDS = {
    "red-pill": red_pill_blue_pill(),
    "Garnet": garnet(10, 3, 3, seed=1),
    "noisy Garnet": garnet(20, 3, 4, seed=2, reward_sd=0.5),
}


def around_values(agent):
    """Z of all pairs, (S, A, n)."""
    return agent._run.table.values - agent.all_action_values[..., None]


@pytest.mark.parametrize(
    ("world", "horizon"), [("red-pill", 10), ("red-pill", 20), ("Garnet", 10), ("noisy Garnet", 20)]
)
def test_spread_and_quantiles_are_the_exact_ones(world, horizon):
    mdp, factor, middle = WORLDS[world], 1 - 1 / horizon, (levels(51) > 0.04) & (levels(51) < 0.96)
    agent = perstep.QLearning(mdp, rule="d3", horizon=horizon, seed=1).learn(400_000, progress=False)
    best, exact = mdp.solve(), return_spreads(mdp, factor)
    used = (
        mdp.evaluate(best.policy).stationary > 0.05
    )  # states that the best policy hardly ever visits are learnt slowly
    ratio = (around_values(agent).std(axis=2) / exact)[used, best.policy[used]]
    np.testing.assert_allclose(ratio, 1.0, rtol=0, atol=0.07)
    state = int(mdp.evaluate(best.policy).stationary.argmax())
    action = int(best.policy[state])
    draws = sampled_returns(mdp, factor, state, action, 50_000)
    found = np.sort(around_values(agent)[state, action])
    off = (found - np.quantile(draws, levels(51))) / exact[state, action]
    assert np.abs(off[middle]).max() < 0.07  # 0.05 after a million steps
    assert np.sqrt((off**2).mean()) < 0.04
    assert (agent.policy(deterministic=True).argmax(axis=1) == best.action_values.argmax(axis=1))[used].mean() >= 0.9


def test_values_are_those_of_d2_with_the_offset():
    """Q moves by the same δ, so on the same transitions it is the same Q, whatever is around it."""
    settings = {"offset_ratio": 0.2, "epsilon": 1.0, "seed": 3, "step_size": 0.05}  # ε = 1: the same transitions
    plain = perstep.QLearning(two_loop(), rule="d2", **settings, preset="paper").learn(5_000, progress=False)
    ours = perstep.QLearning(two_loop(), rule="d3", horizon=20, num_quantiles=51, **settings, preset="paper")
    ours.learn(5_000, progress=False)
    np.testing.assert_allclose(ours.all_action_values, plain.all_action_values, rtol=0, atol=1e-10)
    assert ours.average_reward == pytest.approx(plain.average_reward, abs=1e-10)


def test_a_horizon_of_one_step_is_the_distribution_of_the_next_error():
    """g = 0: Z(s, a) is δ alone. Red-pill, blue world, blue pill: δ is the reward less its mean, of two narrow modes."""
    mdp = red_pill_blue_pill()
    agent = perstep.QLearning(
        mdp, rule="d3", horizon=1, offset_ratio=0.1, seed=2, num_quantiles=10, epsilon=0.1, preset="paper"
    )
    agent.learn(300_000, progress=False)
    exact = mdp.evaluate([1, 1]).reward_distribution
    found = np.sort(around_values(agent)[1, 1])
    assert found.std() == pytest.approx(exact.std, rel=0.03)
    assert (found[:5] < -0.3).all()
    assert (found[5:] > 0.3).all()


def test_it_is_saved_and_goes_on_to_the_bit(tmp_path):
    agent = perstep.QLearning(two_loop(), rule="d3", horizon=10, num_quantiles=5, seed=1).learn(500, progress=False)
    agent.save(tmp_path / "agent.safetensors")
    again = perstep.load(tmp_path / "agent.safetensors").learn(500, progress=False)
    agent.learn(500, progress=False)
    assert again.config == agent.config
    assert (again._run.table.values == agent._run.table.values).all()


def test_tiles_learn_it_too():
    """One tile for each of two states: values on tiles are then a table."""
    mdp = red_pill_blue_pill()
    agent = perstep.TileQ(
        States(mdp), rule="d3", horizon=10, num_quantiles=51, offset_ratio=0.1, tilings=1, tiles=2, step_size=2e-3, seed=1,
        epsilon=0.1, huber=1.0,preset="paper"
    )  # fmt: skip
    agent.learn(30_000, progress=False)
    spread = agent.return_quantiles([1.5], 1).std()
    assert spread == pytest.approx(return_spreads(mdp, 0.9)[1, 1], rel=0.06)


def test_networks_learn_it_too():
    pytest.importorskip("torch")
    mdp = red_pill_blue_pill()
    agent = perstep.DeepQ(
        mdp, rule="d3", horizon=10, num_quantiles=21, offset_ratio=0.1, hidden=(), step_size=1e-2, huber=10.0, seed=1,
        update_every=2, target_step_size=0.05, epsilon_steps=1_000,preset="paper"
    )  # fmt: skip
    agent.learn(2_000, progress=False)
    assert agent.policy(1, deterministic=True).argmax() == 1
    spread = agent.return_quantiles(1, 1).std()
    assert spread == pytest.approx(return_spreads(mdp, 0.9)[1, 1], rel=0.1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"horizon": 0.5}, "horizon must be a finite number between 1 and"),
        ({"horizon": np.inf}, "horizon must be a finite number"),
        ({"horizon": 10, "rule": "d2"}, "Use rule='d3', or horizon=None"),
        ({"horizon": 10, "num_return_quantiles": 1}, "at least two return quantiles"),
    ],
)
def test_what_it_cannot_be_is_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        perstep.QLearning(two_loop(), **{"rule": "d3", **settings})


def test_networks_take_one_step_with_a_horizon():
    assert perstep.DeepQ.Config.of({"rule": "d3", "horizon": 10}).return_steps == 1
    assert perstep.DeepQ.Config.of({"rule": "d3", "horizon": None}).return_steps == 3
    with pytest.raises(ValueError, match="return_steps=1, or horizon=None"):
        perstep.DeepQ.Config.of({"rule": "d3", "horizon": 10, "return_steps": 3})
