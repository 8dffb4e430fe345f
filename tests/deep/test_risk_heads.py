"""The heads of a scan for a risk level: their loss as a listing, what they take over, the best policy, files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import perstep
from perstep.deep import scan
from perstep.deep.losses import Look
from perstep.deep.risk_heads import RiskHeads
from perstep.worlds import red_pill_blue_pill

TAU, GAMMA, UNIT = 0.25, 0.9, 2.0
SMALL = {"hidden": (16,), "learning_starts": 200, "epsilon_steps": 1_500, "risk_heads": 9}


def made(rng, count=4):
    heads = RiskHeads(count, TAU, GAMMA)
    heads.scan.targets[:], heads.centres[:] = np.linspace(-1, 1, count), rng.normal(size=count)
    heads.scan.gains[:], heads.scan.cursor[scan.LAID] = rng.normal(size=count), 1
    return heads


def test_the_loss_is_its_listing():
    """δ = (y + R/1000 − (y − R)⁺/τ − c)/unit + γ q(S′, a*) − q(S, A) for every head; a gain follows c + (1 − γ) q(S′, a*)."""
    rng = np.random.default_rng(1)
    heads = made(rng)
    gains, reward = heads.scan.gains.copy(), rng.normal(size=3)
    estimate, bootstrap = (torch.tensor(rng.normal(size=(3, 4)), requires_grad=i == 0) for i in range(2))
    found = heads.loss(reward, Look(estimate, bootstrap), UNIT, 1.0)
    total = 0.0
    for k, (y, c) in enumerate(zip(heads.scan.targets, heads.centres, strict=True)):
        for b, r in enumerate(reward):
            felt = y + scan.MEAN_SHARE * r - max(y - r, 0.0) / TAU
            delta = (felt - c) / UNIT + GAMMA * float(bootstrap[b, k]) - float(estimate.detach()[b, k])
            total += 0.5 * delta**2 if abs(delta) < 1.0 else abs(delta) - 0.5
        gains[k] += 3 / 31 * (c + (1 - GAMMA) * UNIT * float(bootstrap[:, k].mean()) - gains[k])
    assert float(found.detach()) == pytest.approx(total / 12)
    np.testing.assert_allclose(heads.scan.gains, gains, rtol=1e-12)


def test_a_head_that_keeps_its_target_keeps_its_values():
    """Values are counted from the mean reward of the replay. When that moves, biases make up for it."""
    rng = np.random.default_rng(2)
    heads, head = made(rng), torch.nn.Linear(3, 2 * 4).double()
    heads.scan.room[scan.OLD_TARGETS] = heads.scan.targets
    x = torch.tensor(rng.normal(size=(5, 3)))

    def worth():
        return heads.centres / (1 - GAMMA) + UNIT * head(x).detach().view(5, 2, 4).numpy()

    before, rewards = worth(), rng.normal(size=50)
    heads.take_over(np.arange(4), rewards, [head], [], UNIT)
    np.testing.assert_allclose(worth(), before, rtol=1e-12)
    np.testing.assert_allclose(heads.centres, heads.felt(rewards, heads.scan.targets).mean(0), rtol=1e-12)
    weights, moment = head.weight.detach().clone().view(2, 4, 3), torch.arange(8.0)
    heads.take_over(np.array([1, 1, 3, 2]), rewards, [head], [moment], UNIT)
    torch.testing.assert_close(head.weight.view(2, 4, 3), weights[:, [1, 1, 3, 2]])
    assert moment.tolist() == [1.0, 1.0, 3.0, 2.0, 5.0, 5.0, 7.0, 6.0]


@pytest.mark.parametrize(("level", "pill"), [(0.25, 0), (0.9, 1)])
def test_the_policy_is_the_best_of_all(level, pill):
    """Red below a level of 0.79, blue above; through the one-hot observations of the two worlds."""
    world = red_pill_blue_pill()
    agent = perstep.DeepQ(world, risk_level=level, seed=1, **SMALL).learn(5_000, progress=False)
    assert [int(agent.predict(state)[0]) for state in range(2)] == [pill, pill]
    assert agent.risk_adjusted_reward < agent.average_reward
    assert f"worst {100 * level:g} %" in repr(agent)


def test_it_resumes_to_the_bit(tmp_path):
    settings = {**SMALL, "risk_level": TAU, "seed": 3}
    whole = perstep.DeepQ(red_pill_blue_pill(), **settings).learn(700, progress=False)
    perstep.DeepQ(red_pill_blue_pill(), **settings).learn(500, progress=False).save(tmp_path / "part.safetensors")
    again = perstep.load(tmp_path / "part.safetensors").learn(200, progress=False)
    np.testing.assert_array_equal(again.action_values(0), whole.action_values(0))
    np.testing.assert_array_equal(again._network.heads.scan.gains, whole._network.heads.scan.gains)
    assert whole.action_values(0).shape == (2,)


def test_heads_are_the_default_where_nothing_contradicts():
    world = red_pill_blue_pill()
    heads = {}
    for name, settings in {
        "none": {},
        "one": {"risk_heads": 1},
        "quantiles": {"rule": "d3"},
        "sums": {"return_steps": 3},
        "stop": {"termination": "stop", "discount": 0.9},
    }.items():
        config = perstep.DeepQ(world, risk_level=TAU, hidden=(4,), **settings).config
        heads[name] = config.rule, config.risk_heads
    assert heads.pop("none") == ("d2", 15)
    assert {number for _, number in heads.values()} == {1}
    assert perstep.DeepQ(world, hidden=(4,)).config.risk_heads == 1


def test_settings_that_contradict_heads_are_refused():
    world = red_pill_blue_pill()
    for settings in (
        {"risk_discount": 1.0},
        {"return_steps": 3},
        {"termination": "stop", "discount": 0.9},
    ):
        with pytest.raises(ValueError, match="needs a risk_discount below 1"):
            perstep.DeepQ(world, risk_level=TAU, risk_heads=5, **settings)
    with pytest.raises(ValueError, match="needs values of one number"):
        perstep.DeepQ(world, risk_level=TAU, risk_heads=5, rule="d3")
    with pytest.raises(ValueError, match="must be 1, or 3 or more"):
        perstep.DeepQ(world, risk_level=TAU, risk_heads=2)
