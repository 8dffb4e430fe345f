"""Arguments of worlds that no signature allows: a sentence that names the argument, before anything is computed."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from perstep import worlds
from perstep.inputs.checks import shown
from perstep.inputs.errors import UnknownName

ENORMOUS = 10**400  # also too large for a float


@pytest.mark.parametrize(
    ("make", "given", "words"),
    [
        ("access_control", {"num_servers": ENORMOUS}, "num_servers must be a whole number from 0 to"),
        ("access_control", {"free_probability": ENORMOUS}, "free_probability must be a finite number"),
        ("access_control", {"rewards": [1, ENORMOUS]}, r"rewards\[1\] must be a finite number"),
        ("access_control", {"rewards": "1248"}, "rewards must be a list of numbers"),
        ("inventory", {"capacity": 2.5}, "capacity must be a whole number"),
        ("inventory", {"order_cost": None}, "order_cost must be a finite number"),
        ("criss_cross", {"services": [0.1, 0.2]}, "services must be 3 numbers, got 2"),
        ("tandem_queue", {"rejection_cost": float("nan")}, "rejection_cost must be a finite number"),
        ("multi_item_inventory", {"num_items": 10**7}, "fewer items"),
    ],
)
def test_an_argument_that_no_signature_allows_is_named(make, given, words):
    with pytest.raises(ValueError, match=words):
        getattr(worlds, make)(**given)


def test_what_a_signature_allows_is_as_before():
    same = worlds.access_control(num_servers=3.0, rewards=np.array([1.0, 2.0]))
    assert same.num_states == worlds.access_control(num_servers=3, rewards=(1, 2)).num_states
    assert worlds.tandem_queue(2, rejection_cost=None).num_actions == 3
    heuristic = worlds.inventory(holding_cost=5e-324).heuristics["(s, S)"]
    assert np.array_equal(heuristic, worlds.inventory(holding_cost=0.0).heuristics["(s, S)"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"day_steps": ENORMOUS}, "Choose fewer day_steps"),
        ({"day_steps": 10**13}, "Choose fewer day_steps"),
        ({"drift_memory": "x"}, "drift_memory must be at least 0 and below 1, got 'x'"),
        ({"min_reward": None}, "min_reward must be below 0, got None"),
    ],
)
def test_a_day_of_a_web_service_that_nobody_means(given, words):
    with pytest.raises((ValueError, MemoryError), match=words):
        gymnasium.make("perstep/Autoscaling-v0", **given)
    gymnasium.make("perstep/Autoscaling-v0", requests_per_server=5e-324).reset(seed=0)


def test_a_finite_world_whose_name_is_no_text():
    with pytest.raises(UnknownName, match=r"There is no finite world \{\}"):
        gymnasium.make("perstep/TwoLoop-v0", world={})


def test_a_value_that_would_hide_the_sentence_is_cut():
    assert len(shown(ENORMOUS)) < 250
    assert shown(10**10_000) == "an integer of thousands of digits"
    assert shown("x") == "'x'"
