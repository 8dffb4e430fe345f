"""Reading: agents compared with paired seeds, distributions as tables and pictures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import perstep
from perstep.worlds import red_pill_blue_pill, two_loop


def agents():
    return {
        "blue": perstep.TDLearning(red_pill_blue_pill(), [0, 0], seed=1),
        "red": perstep.TDLearning(red_pill_blue_pill(), [1, 1], seed=1),
    }


def test_a_comparison_has_the_exact_difference_in_its_interval():
    mdp, found = red_pill_blue_pill(), perstep.compare(agents(), num_steps=2000, seeds=5)
    exact = [mdp.evaluate([action, action]).average_reward for action in (0, 1)]
    difference = found.differences["red"]
    assert difference.low < exact[1] - exact[0] < difference.high
    assert found.estimates["blue"].low < exact[0] < found.estimates["blue"].high
    assert "clear" in str(found)
    assert found.frame()["agent"].to_list() == ["blue", "red"]
    assert found.frame()["difference"][0] is None
    again = perstep.compare(agents(), num_steps=2000, seeds=5)
    assert (again.scores == found.scores).all()


def test_two_equal_agents_differ_by_nothing():
    same = agents()["red"]
    found = perstep.compare({"a": same, "b": same}, num_steps=100, seeds=3)
    assert (found.differences["b"].low, found.differences["b"].high) == (0.0, 0.0)
    assert "clear" not in str(found)


@pytest.mark.parametrize("given", [{}, [1, 2], {"one": None}])
def test_what_cannot_be_compared_is_refused(given):
    with pytest.raises(ValueError, match="two or more agents by name"):
        perstep.compare(given)


def test_what_is_no_agent_is_refused_by_name():
    with pytest.raises(TypeError, match="got Evaluation as 'b'"):
        perstep.compare({"a": agents()["red"], "b": agents()["red"].evaluate(100)})


def test_pictures_of_answers(tmp_path):
    found = perstep.compare(agents(), num_steps=100, seeds=3)
    mdp = two_loop()
    pictures = [
        found.plot(),
        perstep.Distribution.from_quantiles(np.linspace(0, 1, 100)).plot(label="θ"),
        mdp.evaluate(mdp.solve().policy).reward_distribution.plot(),
        perstep.Distribution([1.0], [0.0], [1.0]).plot(Figure().subplots()),
    ]
    for number, figure in enumerate(pictures):
        figure.savefig(tmp_path / f"{number}.png")
        assert figure.axes[0].get_xlabel().endswith("reward per step")


def test_a_distribution_as_a_table():
    known = perstep.Distribution.from_quantiles(np.arange(100.0)).frame([0.1, 0.5])
    assert known.columns == ["level", "quantile", "cvar"]
    assert known["quantile"].to_list() == [9.0, 49.0]
    assert known["cvar"].to_list() == pytest.approx([4.5, 24.5])
    sampled = perstep.Distribution.from_samples(np.arange(1000.0)).frame([0.5])
    assert sampled["quantile_error"][0] > 0
    with pytest.raises(ValueError, match="level"):
        perstep.Distribution.from_quantiles([1.0]).frame([2.0])


def test_an_evaluation_says_how_sure_it_is():
    found = agents()["red"].evaluate(10_000, seed=3)
    exact = red_pill_blue_pill().evaluate([1, 1]).average_reward
    assert abs(found.average_reward - exact) < 4 * found.average_reward_error
    assert str(found).startswith(f"{found.average_reward:.5g} ± ")
    assert "per episode" not in str(found)


def test_an_evaluation_says_what_learning_costs_and_when_it_has_no_error():
    agent = perstep.QLearning("CliffWalking-v1", rule="differential", seed=1).learn(20_000)
    found = agent.evaluate(5_000, deterministic=True)
    assert found.price_of_learning == pytest.approx(found.average_reward - agent.reward_distribution.mean)
    assert f"; while learning it earned {found.price_of_learning:.2g} less per step" in str(found)
    few = agent.evaluate(10)
    assert "over 10 steps (too few for a standard error)" in str(few)
    assert few.price_of_learning == 0.0
